"""Families of conjugate priors: closed forms against other implementations, and no name outside their file."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import crowdppl
from crowdppl.inference.families import FAMILIES, Family
from crowdppl.primitives import NormalGamma


def regressions(*parts: list[Any]) -> torch.Tensor:
    """Parameters of Normal-Gammas: location, precision matrix, concentration, rate."""
    loc, precision, concentration, rate = (torch.tensor(x, dtype=torch.float64) for x in parts)
    return FAMILIES["normal_gamma"].natural(NormalGamma(loc, precision, concentration, rate))


PARAMETERS = {
    "dirichlet": torch.tensor([[2.5, 1.2, 4.0], [1.5, 6.0, 1.1]], dtype=torch.float64),
    "gamma": torch.tensor([[2.5, -1.2], [1.5, -6.0], [7.0, -0.3]], dtype=torch.float64),
    "log_normal": torch.tensor([[2.5, -1.2, -0.3], [-1.0, 0.0, -2.0], [7.0, -0.3, -0.1]], dtype=torch.float64),
    "normal_gamma": regressions([[0.5, -1.0], [2.0, 0.3]], [[2.0, 0.5], [0.5, 1.0]], [6.0, 4.5], [1.2, 6.0]),
}
PRIORS = {
    "dirichlet": torch.tensor([[1.5, 1.5, 1.5], [3.0, 2.0, 1.2]], dtype=torch.float64),
    "gamma": torch.tensor([[1.5, -1.5], [3.0, -2.0], [1.2, -1.0]], dtype=torch.float64),
    "log_normal": torch.tensor([[0.0, 0.0, -0.5], [1.0, -1.0, -1.0], [0.0, 0.0, -0.2]], dtype=torch.float64),
    "normal_gamma": regressions([[0.0, 0.0], [1.0, 0.0]], [[1.0, -0.2], [-0.2, 3.0]], [5.0, 5.5], [2.0, 3.0]),
}
KNOWING = ("families.py", "priors.py")
"""Files that may name a family: their own, and approximations of anything on a simplex."""


def events(family: Family) -> int:
    """Dimensions of a value that is one row."""
    return 0 if family.name in ("gamma", "log_normal") else 1


@pytest.fixture(params=FAMILIES.values(), ids=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


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
    assert family.holds(made) and not family.chosen(made)
    torch.testing.assert_close(family.natural(made), parameter)
    assert family.statistic(made.sample()).shape == family.statistic_shape(made.sample().shape) == parameter.shape


def test_responses_are_derivatives_of_means_and_their_inverse(family: Family) -> None:
    """V is the derivative of the mean statistic by the parameter, and what is asked moves with it."""

    def mean(x: torch.Tensor) -> torch.Tensor:
        square = family.name == "log_normal"  # of which the labels' term does not depend on the last statistic
        return family.mean(x) * torch.tensor([1.0, 1.0, 0.0]) if square else family.mean(x)

    def asked(x: torch.Tensor) -> torch.Tensor:
        log_x = family.mean(x)[..., :1]
        return family.mean_value(x) if family.counts else log_x - log_x.mean(0)

    parameter = PARAMETERS[family.name].clone().requires_grad_()
    found = family.response(parameter.detach(), ratios=True)
    if found is None:
        return
    y = torch.tensor(np.random.default_rng(0).normal(size=parameter.shape))
    if family.name == "log_normal":
        y[..., 2] = 0
    _, moved = torch.autograd.functional.jvp(mean, parameter, y)
    torch.testing.assert_close(found.covariance(y), moved)
    torch.testing.assert_close(found.inverse(moved), y)
    z = torch.tensor(np.random.default_rng(1).normal(size=found.shape))
    torch.testing.assert_close((found.change(y) * z).sum(), (y * found.change_transposed(z)).sum())
    torch.testing.assert_close(found.change(y), torch.autograd.functional.jvp(asked, parameter, y)[1])
    assert family.counts or family.response(parameter, ratios=False) is None


def test_log_density_is_the_distributions_and_divergence_its_mean(family: Family) -> None:
    """With 20,000 draws, an error beyond 5 standard errors has chance 6e-7 for each number."""
    parameter, prior, n = PARAMETERS[family.name], PRIORS[family.name], 20_000
    q, p = family.distribution(parameter, events(family)), family.distribution(prior, events(family))
    torch.manual_seed(0)
    value = q.sample((n,))
    log_q = q.log_prob(value)
    torch.testing.assert_close(family.full_log_prior(q.expand(log_q.shape), family.statistic(value)), log_q)
    difference = log_q - p.log_prob(value)
    found = family.kl(parameter, prior)
    assert ((difference.mean(0) - found).abs() <= 5 * difference.std(0) / n**0.5).all()


@pytest.mark.parametrize("name", ["dirichlet", "gamma"])
def test_divergence_is_torchs(name: str) -> None:
    family, parameter, prior = FAMILIES[name], PARAMETERS[name], PRIORS[name]
    q, p = family.distribution(parameter, events(family)), family.distribution(prior, events(family))
    torch.testing.assert_close(family.kl(parameter, prior), torch.distributions.kl_divergence(q, p))


def test_a_normal_gamma_is_a_gamma_and_a_normal() -> None:
    loc, precision, value = np.array([0.5, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.1, -0.4, 1.7])
    own = NormalGamma(torch.tensor(loc), torch.tensor(precision), 3.0, 1.2)
    wanted = stats.gamma(3.0, scale=1 / 1.2).logpdf(1.7)
    wanted += stats.multivariate_normal(loc, np.linalg.inv(1.7 * precision)).logpdf(value[:2])
    assert own.log_prob(torch.tensor(value)).item() == pytest.approx(wanted, rel=1e-6)


def test_parameters_of_no_distribution_are_told_from_others(family: Family) -> None:
    parameter = PARAMETERS[family.name]
    assert family.proper(parameter.numpy())
    for at in range(family.name == "log_normal", parameter.shape[-1]):  # log-normals take any power
        wrong = parameter.clone()
        wrong[0, at] = -wrong[0, at] if family.name != "normal_gamma" or at < 2 else 40.0
        assert not family.proper(wrong.numpy())


def test_values_and_statistics_are_each_others(family: Family) -> None:
    value = family.distribution(PARAMETERS[family.name], events(family)).sample()
    torch.testing.assert_close(family.value(family.statistic(value)), value)


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
