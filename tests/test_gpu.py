"""Every method under every engine on CUDA, against the same on CPU."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from crowdppl import registry
from crowdppl.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.inference import fit
from crowdppl.inference.fitting import ENGINES
from crowdppl.posterior import Posterior
from tests.benchmarks.simulated import draw

pytestmark = pytest.mark.gpu

METHODS = registry.names()
# Random numbers differ between devices, so that only updates without any agree to rounding.
EXACT = 1e-6
RANDOM = 0.05
SETTINGS: dict[str, dict[str, Any]] = {
    "em": {},
    "vb": {},
    "gibbs": {"warmup": 100, "draws": 200},
    "nuts": {"warmup": 60, "draws": 60, "chains": 2},
    "svi": {"max_iterations": 1500},
}


@pytest.fixture(scope="module")
def data() -> Annotations:
    """Clear labels, so that all engines know the truth of most items."""
    drawn = draw(150, 6, 10, 3, seed=5)
    return Annotations.from_arrays(drawn.item, drawn.annotator, drawn.label, kind="ordinal")


def fitted(method: str, data: Annotations, engine: str, device: str, **settings: Any) -> Posterior:
    """A fit, or a skip where the engine refuses the method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return fit(method, data, inference=engine, device=device, seed=3, **SETTINGS[engine], **settings)
        except MethodError as error:
            pytest.skip(f"refused: {error}")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_cuda_agrees_with_cpu(method: str, engine: str, data: Annotations) -> None:
    cpu = fitted(method, data, engine, "cpu")
    cuda = fitted(method, data, engine, "cuda")
    gap = np.abs(cuda.probabilities().to_numpy() - cpu.probabilities().to_numpy())
    random = engine not in ("em", "vb") or any(
        site.family in ("normal", "onehot") for site in cpu.result.sites.values()
    )
    assert gap.mean() < (RANDOM if random else EXACT)
    if not random:
        for name, site in cpu.result.sites.items():
            np.testing.assert_allclose(cuda.result.sites[name].mean, site.mean, rtol=1e-5, atol=1e-6)
        one, other = (p.diagnostics()["objective"] for p in (cpu, cuda))
        assert other == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_blocks_and_both_precisions(dtype: torch.dtype) -> None:
    drawn = draw(250_000, 5, 500, 4, seed=6)
    large = Annotations.from_arrays(drawn.item, drawn.annotator, drawn.label)
    assert len(large.blocks) > 1
    cpu, cuda = (
        fitted("dawid_skene", large, "em", device, dtype=dtype, max_iterations=8) for device in ("cpu", "cuda")
    )
    gap = np.abs(cuda.probabilities().to_numpy() - cpu.probabilities().to_numpy())
    assert gap.max() < (1e-2 if dtype == torch.float32 else 1e-6)
    assert gap.mean() < 1e-4


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs"])
def test_the_same_seed_gives_nearly_the_same_twice(engine: str, data: Annotations) -> None:
    one, two = (fitted("one_coin", data, engine, "cuda").probabilities().to_numpy() for _ in range(2))
    np.testing.assert_allclose(one, two, atol=1e-9 if engine != "gibbs" else RANDOM)


def test_results_of_cuda_are_saved_and_used_on_cpu(data: Annotations) -> None:
    posterior = fitted("bayesian_dawid_skene", data, "vb", "cuda")
    again = posterior.predict(data).to_numpy()
    np.testing.assert_allclose(again, posterior.probabilities().to_numpy(), atol=0.02)
