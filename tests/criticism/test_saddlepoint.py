"""Tails of sums of independent terms: against enumeration, binomials, and draws far out; degenerate sums."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from crowdppl.criticism.tails import normal_deviates, upper_tail


def tails(totals: np.ndarray, value: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Approximate probabilities of these totals or more, of one sum with terms (K, M)."""
    n = len(totals)
    part = np.repeat(np.arange(n), value.shape[1])
    return upper_tail(normal_deviates(totals, np.tile(value, n), np.tile(share, n), part))


def enumerated(value: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All totals of a sum in order, and the probability of each or more."""
    totals, mass = np.zeros(1), np.ones(1)
    for v, p in zip(value.T, share.T, strict=True):
        chance = np.outer(mass, [1 - p.sum(), *p])
        totals, at = np.unique(np.round(np.add.outer(totals, [0, *v]), 9), return_inverse=True)
        mass = np.bincount(at.ravel(), chance.ravel())
    return totals, mass[::-1].cumsum()[::-1]


def weighed(rest: np.ndarray, one: float, other: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights and probabilities (K, M) of agreement of two of these accuracies, after probabilities (M, K)."""
    k = rest.shape[1]
    a, b = (np.where(np.eye(k) > 0, x, (1 - x) / (k - 1)) for x in (one, other))
    share = (rest @ (a * b)).T
    return np.log1p(1.5 * (rest @ (a + b)).T / 2 / share), share


@pytest.mark.parametrize("accuracy", [0.6, 0.8])
def test_sums_of_unlike_terms_against_enumeration(accuracy: float) -> None:
    rest = np.random.default_rng(0).dirichlet(np.full(3, 0.3), 8)
    value, share = weighed(rest, accuracy, accuracy + 0.1)
    totals, exact = enumerated(value, share)
    some = np.flatnonzero((exact < 0.2) & (exact > 1e-9))[::200]
    ratio = tails(totals[some], value, share) / exact[some]
    assert ratio.min() > 1 and np.median(ratio) < 3 and ratio.max() < 6
    assert len(some) > 100


@pytest.mark.parametrize("p", [0.02, 0.66])
@pytest.mark.parametrize("n", [10, 300])
def test_alike_terms_against_the_binomial(n: int, p: float) -> None:
    hits = np.arange(n + 1)
    exact = binom.sf(hits - 1, n, p)
    some = (hits > n * p + 1) & (exact > 1e-200)
    if not some.any():  # a mean of 9.3 of 10
        return
    ratio = tails(2.5 * hits[some], np.full((1, n), 2.5), np.full((1, n), p)) / exact[some]
    assert ((ratio > 0.92) & (ratio < 1.08)).all()


@pytest.mark.parametrize("n", [26, 100])
def test_far_tails_against_weighted_draws(n: int) -> None:
    """Draws under a tilt that makes the total usual, weighted back: standard errors below 1 % at any tail."""
    rng = np.random.default_rng(n)
    value, share = weighed(rng.dirichlet(np.full(3, 0.3), n), 0.7, 0.85)
    mean, deviation = (share * value).sum(), np.sqrt((share * value**2).sum() - ((share * value).sum(0) ** 2).sum())
    for distance in (3, 5, 7):
        total = mean + distance * deviation

        def tilted(tilt: float) -> np.ndarray:
            raw = np.concatenate([1 - share.sum(0, keepdims=True), share * np.exp(tilt * value)])
            return np.asarray(raw / raw.sum(0))

        tilt = brentq(lambda x, at=total: (tilted(x)[1:] * value).sum() - at, 0, 20)
        log_mean = np.log(1 - share.sum(0) + (share * np.exp(tilt * value)).sum(0)).sum()
        edges = tilted(tilt).cumsum(0)
        drawn = np.zeros(100_000)
        for m in range(n):
            drawn += np.append(0, value[:, m])[np.searchsorted(edges[:-1, m], rng.random(len(drawn)))]
        weight = np.where(drawn >= total, np.exp(log_mean - tilt * drawn), 0)
        error = weight.std() / np.sqrt(len(weight)) / weight.mean()
        assert error < 0.01
        (found,) = tails(np.array([total]), value, share)
        assert 1 < found / weight.mean() < 1 + 10 / np.sqrt(n)


def test_sums_beside_each_other_are_as_alone() -> None:
    rng = np.random.default_rng(1)
    value, share = weighed(rng.dirichlet(np.full(3, 0.3), 60), 0.7, 0.8)
    part = rng.integers(4, size=60)
    total = np.bincount(part, (share * value).sum(0), 4) * [0.5, 1.2, 1.5, 2]
    alone = [
        normal_deviates(total[[n]], value[:, part == n], share[:, part == n], part[part == n] * 0) for n in range(4)
    ]
    np.testing.assert_allclose(normal_deviates(total, value, share, part), np.concatenate(alone), rtol=1e-4)


@pytest.mark.parametrize("p", [1e-9, 0.5])
def test_the_largest_sum_is_a_product(p: float) -> None:
    """All agree on what is least probable, and sums jump by more than the least value only just there."""
    value, share = np.tile([[1.0], [3.0]], 12), np.tile([[0.3], [p / 2]], 12)
    (found,) = tails(np.array([36.0]), value, share)
    assert 0.4 < found / (p / 2) ** 12 < 2.5


def test_what_is_certain_stands_nowhere() -> None:
    certain = np.full((1, 5), 2.0), np.ones((1, 5)), np.zeros(5, np.int64)
    assert normal_deviates(np.array([10.0]), *certain)[0] <= 0
    impossible = np.full((1, 5), 2.0), np.zeros((1, 5)), np.zeros(5, np.int64)
    assert normal_deviates(np.array([0.0]), *impossible)[0] <= 0
    assert np.isfinite(normal_deviates(np.array([2.0]), *impossible)).all()
    assert normal_deviates(np.empty(0), np.empty((2, 0)), np.empty((2, 0)), np.empty(0, np.int64)).shape == (0,)
