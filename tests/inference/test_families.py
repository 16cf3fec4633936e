"""Families of conjugate priors: closed forms against other implementations, and no name outside their file."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import crowdppl
from crowdppl.inference.families import FAMILIES, Family

PARAMETERS = {
    "dirichlet": torch.tensor([[2.5, 1.2, 4.0], [1.5, 6.0, 1.1]], dtype=torch.float64),
    "gamma": torch.tensor([[2.5, -1.2], [1.5, -6.0], [7.0, -0.3]], dtype=torch.float64),
}
PRIORS = {
    "dirichlet": torch.tensor([[1.5, 1.5, 1.5], [3.0, 2.0, 1.2]], dtype=torch.float64),
    "gamma": torch.tensor([[1.5, -1.5], [3.0, -2.0], [1.2, -1.0]], dtype=torch.float64),
}
KNOWING = ("families.py", "priors.py")
"""Files that may name a family: their own, and approximations of anything on a simplex."""


def events(family: Family) -> int:
    """Dimensions of a value that is one row."""
    return 0 if family.handed else 1


@pytest.fixture(params=FAMILIES.values(), ids=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param  # type: ignore[no-any-return]


def test_only_their_own_file_names_families() -> None:
    """Docstrings may; what is shared says ``site.family``."""
    names = {name.lower() for name in FAMILIES}
    root = Path(crowdppl.__file__).parent
    found = []
    for path in sorted([*root.glob("inference/**/*.py"), *root.glob("results/**/*.py")]):
        if path.name in KNOWING:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = (getattr(node, part, None) for part in ("id", "attr", "value", "name"))
            found += [(path.name, x) for x in parts if isinstance(x, str) and x.lower() in names]
    assert not found


def test_a_distribution_is_found_again_in_its_prior(family: Family) -> None:
    parameter = PARAMETERS[family.name]
    made = family.distribution(parameter, events(family))
    assert family.holds(made) and not family.chosen(made) and torch.equal(family.natural(made), parameter)


def test_log_density_and_divergence_are_torchs(family: Family) -> None:
    parameter, prior = PARAMETERS[family.name], PRIORS[family.name]
    q, p = family.distribution(parameter, events(family)), family.distribution(prior, events(family))
    value = q.sample()
    torch.testing.assert_close(family.full_log_prior(q, family.leaf(value)), q.log_prob(value))
    wanted = torch.distributions.kl_divergence(getattr(q, "base_dist", q), getattr(p, "base_dist", p))
    torch.testing.assert_close(family.kl(parameter, prior), wanted)


def test_values_and_statistics_are_each_others(family: Family) -> None:
    value = family.distribution(PARAMETERS[family.name], events(family)).sample()
    torch.testing.assert_close(family.value(family.leaf(value)), value)


def test_moments_are_those_of_draws(family: Family) -> None:
    """With 20,000 draws, an error beyond 5 standard errors has chance 6e-7 for each number."""
    parameter, n = PARAMETERS[family.name], 20_000
    leaves = family.draw(parameter.expand(n, *parameter.shape), torch.Generator().manual_seed(0))
    values, numpys = family.value(leaves), family.sample(parameter.numpy(), n, np.random.default_rng(0))
    for draws, mean in ((leaves, family.mean(parameter)), (values, family.mean_value(parameter))):
        assert ((draws.mean(0) - mean).abs() <= 5 * draws.std(0) / n**0.5).all()
    estimate = family.estimate(parameter.numpy(), 0.9)
    for some in (values.numpy(), numpys):
        assert (np.abs(some.mean(0) - estimate.mean) <= 5 * estimate.sd / n**0.5).all()
        np.testing.assert_allclose(some.std(0), estimate.sd, rtol=0.05)
        inside = ((some > estimate.low) & (some < estimate.high)).mean(0)
        assert (np.abs(inside - 0.9) <= 5 * (0.09 / n) ** 0.5).all()


def test_the_mode_is_where_the_density_is_highest(family: Family) -> None:
    parameter = PARAMETERS[family.name]
    mode = family.mode(parameter, family.mean(parameter))
    most = family.log_prior(parameter, mode)
    draws = family.draw(parameter.expand(2000, *parameter.shape), torch.Generator().manual_seed(1))
    assert (family.log_prior(parameter, draws) < most).all()


def test_exact_intervals_of_shares_are_those_of_betas() -> None:
    parameter = PARAMETERS["dirichlet"].numpy()
    found = FAMILIES["dirichlet"].estimate(parameter, 0.8)
    total = parameter.sum(-1, keepdims=True)
    np.testing.assert_allclose(found.low, stats.beta(parameter, total - parameter).ppf(0.1))
