"""Bands of noise: against differences of distribution functions, and in tails where those vanish."""

from typing import Any

import pytest
import torch
from crowdppl.models.ordinal import Tail, ordinal_log_probs

TAILS: tuple[tuple[Tail, Any], ...] = (
    ("normal", torch.special.ndtr),
    ("logistic", torch.sigmoid),
    ("laplace", lambda x: torch.where(x < 0, 0.5 * x.exp(), 1 - 0.5 * (-x).exp())),
)


@pytest.mark.parametrize(("tail", "cdf"), TAILS, ids=[tail for tail, _ in TAILS])
def test_bands_are_differences_of_the_distribution_function(tail: Tail, cdf: Any) -> None:
    edge = torch.tensor([[-3.0, -1.0, 0.5, 2.0], [-0.2, -0.1, 0.0, 4.0]], dtype=torch.float64)
    ends = torch.nn.functional.pad(cdf(edge), (1, 0)), torch.nn.functional.pad(cdf(edge), (0, 1), value=1.0)
    torch.testing.assert_close(ordinal_log_probs(edge, tail).exp(), ends[1] - ends[0], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("tail", [tail for tail, _ in TAILS])
def test_far_bands_are_exact_and_have_gradients(tail: Tail) -> None:
    edge = torch.tensor([-41.0, -40.0, 40.0, 41.0], dtype=torch.float64, requires_grad=True)
    bands = ordinal_log_probs(edge, tail)
    torch.testing.assert_close(bands, bands.flip(0))  # symmetric, although 1 - F(40) is 0 in float64
    bands.sum().backward()
    assert bands.isfinite().all()
    assert edge.grad.isfinite().all()
    laplace = -40 - torch.tensor(2.0).log() + torch.tensor(1 - torch.e**-1).log()
    if tail == "laplace":
        torch.testing.assert_close(bands[1].detach(), laplace.double(), rtol=1e-6, atol=0)
