"""Point estimates with standard deviations and credible intervals: from points, draws or a Dirichlet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdppl.core.validation import share_between

NODES = 64
"""Of a Gauss-Hermite quadrature, by which the variance of a log-normal is exact up to a spread of 4."""


@dataclass(frozen=True)
class Estimate:
    """A quantity with its posterior uncertainty; all four arrays have the quantity's shape.

    Attributes:
        mean: posterior mean, or the point that em found.
        sd: posterior standard deviation; NaN for a point.
        low, high: ends of a central credible interval; NaN for a point.
    """

    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def columns(self, name: str = "") -> dict[str, np.ndarray]:
        """Columns of a table: ``mean, sd, low, high``, or ``name, name_sd, name_low, name_high``."""
        ends = {"sd": self.sd, "low": self.low, "high": self.high}
        if not name:
            return {"mean": self.mean, **ends}
        return {name: self.mean, **{f"{name}_{end}": values for end, values in ends.items()}}

    def at(self, *key: Any) -> Estimate:
        """The estimate of ``quantity[key]``."""
        return Estimate(self.mean[key], self.sd[key], self.low[key], self.high[key])


def from_point(mean: np.ndarray) -> Estimate:
    """An estimate without a posterior."""
    unknown = np.full(np.shape(mean), np.nan)
    return Estimate(np.asarray(mean), unknown, unknown, unknown)


def from_draws(draws: np.ndarray, level: float) -> Estimate:
    """An estimate from draws along the first axis, with an equal-tailed interval."""
    check_level(level)
    low, high = np.quantile(draws, _tails(level), axis=0)
    mean, sd = draws.mean(0, dtype=np.float64), draws.std(0, dtype=np.float64)
    return Estimate(mean, sd, low.astype(np.float64), high.astype(np.float64))


def from_dirichlet(concentration: np.ndarray, level: float) -> Estimate:
    """An exact estimate of each component of a Dirichlet (..., K): its marginals are Beta distributions."""
    from scipy.stats import beta  # slow to import

    check_level(level)
    total = concentration.sum(-1, keepdims=True)
    mean = concentration / total
    low, high = (beta.ppf(q, concentration, total - concentration) for q in _tails(level))
    return Estimate(mean, np.sqrt(mean * (1 - mean) / (total + 1)), low, high)


def from_share_moments(mean: np.ndarray, sd: np.ndarray, level: float) -> Estimate:
    """An estimate of shares by the Beta distribution of this mean, above 0 and below 1, and standard deviation."""
    from scipy.stats import beta  # slow to import

    check_level(level)
    total = mean * (1 - mean) / np.maximum(sd**2, np.finfo(np.float64).tiny) - 1
    low, high = (beta.ppf(q, mean * total, (1 - mean) * total) for q in _tails(level))
    return Estimate(mean, sd, low, high)


def from_moments(mean: np.ndarray, sd: np.ndarray, level: float, positive: bool = False) -> Estimate:
    """An estimate by a normal distribution of this mean and standard deviation, or a Gamma where it is positive."""
    from scipy.stats import gamma, norm  # slow to import

    check_level(level)
    if not positive:
        low, high = (mean + sd * norm.ppf(q) for q in _tails(level))
        return Estimate(mean, sd, low, high)
    at, wide = np.where(sd > 0, mean, 1.0), np.where(sd > 0, sd, 1.0)
    found = (gamma.ppf(q, (at / wide) ** 2, scale=wide**2 / at) for q in _tails(level))
    low, high = (np.where(sd > 0, x, mean) for x in found)
    return Estimate(mean, sd, low, high)


def from_gaussian(
    loc: np.ndarray, scale: np.ndarray, level: float, increasing: Callable[[np.ndarray], np.ndarray]
) -> Estimate:
    """An estimate of an increasing function of Gaussians: ends are exact, moments by Gauss-Hermite quadrature."""
    from scipy.stats import norm  # slow to import

    check_level(level)
    low, high = (increasing(loc + scale * norm.ppf(q)) for q in _tails(level))
    node, weight = np.polynomial.hermite_e.hermegauss(NODES)
    values = increasing(loc + scale * node.reshape(-1, *(1,) * loc.ndim))
    mean = np.tensordot(weight / weight.sum(), values, 1)
    return Estimate(mean, np.sqrt(np.tensordot(weight / weight.sum(), (values - mean) ** 2, 1)), low, high)


def of_share(value: float, n: int, level: float) -> tuple[float, float]:
    """Exact interval of a share of n that all have or none (Clopper & Pearson 1934): no resample shows another."""
    end = _tails(level)[0] ** (1 / n)
    return (end, 1.0) if value == 1 else (0.0, 1 - end)


def check_level(level: float) -> None:
    """Checks the probability of an interval."""
    share_between("level", level, "0.95 means a 95 % interval")


def _tails(level: float) -> tuple[float, float]:
    return (1 - level) / 2, (1 + level) / 2
