"""Estimates with credible intervals, of points, draws or a Dirichlet; tail probabilities of tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from crowdppl.core.validation import share_between

MAX_STEPS, TOLERANCE = 40, 1e-3
"""Of the search for a tilt; the tolerance in standard deviations of the sum."""
MAX_TILT = 50.0
"""A sum whose tilt would be larger is the largest possible one, or next to it."""
MIN_DISTANCE = 0.1
"""Standard deviations from the mean below which the approximation is 0 / 0, and the normal one is as good."""
MIN_PROBABILITY = 1e-300


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
    shape = (mean / np.maximum(sd, 1e-12)) ** 2
    low, high = (gamma.ppf(q, shape, scale=mean / shape) for q in _tails(level))
    return Estimate(mean, sd, low, high)


def of_share(value: float, n: int, level: float) -> tuple[float, float]:
    """Exact interval of a share of n that all have or none (Clopper & Pearson 1934): no resample shows another."""
    end = _tails(level)[0] ** (1 / n)
    return (end, 1.0) if value == 1 else (0.0, 1 - end)


def check_level(level: float) -> None:
    """Checks the probability of an interval."""
    share_between("level", level, "0.95 means a 95 % interval")


def _tails(level: float) -> tuple[float, float]:
    return (1 - level) / 2, (1 + level) / 2


def normal_deviates(total: np.ndarray, value: np.ndarray, share: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Upper tails of ``total``, (P,) sums of independent terms, as standard normal deviates, (P,).

    Terms have ``value`` above 0 with probability ``share``, (K, M) each, else 0, and belong to the sum ``part``,
    (M,). Lugannani & Rice (1980), "Saddle point approximation for the distribution of the sum of independent
    random variables", in the form of Barndorff-Nielsen (1986), for sums that jump by the least of their values.
    Where terms differ, the probability is mostly larger than exact; Chernoff's bound is taken where it is smaller.
    Sums near their mean or below it have their distance from it, in standard deviations.
    """
    n = len(total)
    mean, variance = _cumulants(np.zeros(n), value, share, part)[1:]
    step = np.full(n, np.inf)
    np.minimum.at(step, part, value.min(0, initial=np.inf))
    step[np.isinf(step)] = 0
    reached = total - step / 2
    out: np.ndarray = (reached - mean) / np.sqrt(np.maximum(variance, 1e-12))
    far = out > MIN_DISTANCE
    if not far.any():
        return out
    kept = far[part]
    value, share, part = value[:, kept], share[:, kept], (np.cumsum(far) - 1)[part[kept]]
    reached = reached[far]
    tilt = _tilts(reached, value, share, part)
    log_mean, _, variance = _cumulants(tilt, value, share, part)
    root = np.sqrt(np.maximum(2 * (tilt * reached - log_mean), MIN_PROBABILITY))
    half = np.clip(tilt * step[far] / 2, 1e-9, 300)
    wide = np.maximum(tilt * np.sqrt(variance) * np.sinh(half) / half, MIN_PROBABILITY)
    least = -torch.special.ndtri(torch.from_numpy(np.exp(-(root**2) / 2)).clamp(min=MIN_PROBABILITY)).numpy()
    out[far] = np.maximum(root + np.log(wide / root) / root, least)
    return out


def upper_tail(deviate: np.ndarray) -> np.ndarray:
    """Probability that a standard normal variable is larger."""
    return np.asarray(torch.special.log_ndtr(-torch.from_numpy(deviate)).exp())  # ndtr is 0 from 8.3 on


def _cumulants(
    tilt: np.ndarray, value: np.ndarray, share: np.ndarray, part: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logarithm of the mean of exp(tilt x sum), and its first two derivatives, (P,) each."""
    weight = share * np.exp(tilt[part] * value)
    norm = 1 - share.sum(0) + weight.sum(0)
    weight *= value
    first = weight.sum(0) / norm
    weight *= value
    second = weight.sum(0) / norm - first**2
    log_mean, mean, variance = (np.bincount(part, x, len(tilt)) for x in (np.log(norm), first, second))
    return log_mean, mean, np.maximum(variance, 0)


def _tilts(total: np.ndarray, value: np.ndarray, share: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Tilts under which the sums are expected to be what they are, (P,): Newton's steps, kept between bounds."""
    low, high = np.zeros(len(total)), np.full(len(total), MAX_TILT)
    tilt = low
    for _ in range(MAX_STEPS):
        _, mean, variance = _cumulants(tilt, value, share, part)
        short = total - mean
        if (np.abs(short) <= TOLERANCE * np.sqrt(variance)).all():
            break
        low, high = np.where(short > 0, tilt, low), np.where(short > 0, high, tilt)
        tilt = tilt + short / np.maximum(variance, 1e-12)
        tilt = np.where((tilt > low) & (tilt < high), tilt, (low + high) / 2)
    return tilt


def holm(p: np.ndarray) -> np.ndarray:
    """p-values (m,) corrected for their number, at most 1: those up to a level are wrong anywhere in that share of
    cases, however tests depend. Holm (1979), "A simple sequentially rejective multiple test procedure".
    """
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return out
