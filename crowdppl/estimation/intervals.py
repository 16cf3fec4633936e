"""Intervals of an estimate: by Student's t, by resampling, and valid whenever one looks."""

from __future__ import annotations

import numpy as np

from crowdppl.estimation.designs import Design

RESAMPLES, AT_ONCE = 2_000, 1_000_000
"""Resamples, and numbers that some of them hold at once."""


def by_t(variance: np.ndarray, degrees: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """How far the ends lie below and above an estimate, (P,) each."""
    from scipy.stats import t  # slow to import

    reach = t.ppf((1 + level) / 2, degrees) * np.sqrt(variance)
    return reach, reach


def by_normal(variance: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """By normal quantiles, for large samples."""
    from scipy.stats import norm  # slow to import

    reach = norm.ppf((1 + level) / 2) * np.sqrt(variance)
    return reach, reach


def by_bootstrap(
    design: Design, values: np.ndarray, variance: np.ndarray, level: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """By the studentised bootstrap of units within strata (Davison & Hinkley 1997, section 5.2)."""
    total, stratum = design.totals(values)
    stream, groups = np.random.default_rng(seed), [np.flatnonzero(stratum == h) for h in np.unique(stratum)]
    low, high = (1 - level) / 2, (1 + level) / 2
    centred = [total[own] - total[own].mean(0) for own in groups]
    unseen = [1.0 if design.unseen is None else float(design.unseen[stratum[own[0]]]) for own in groups]
    ratios, at_once = np.empty((RESAMPLES, values.shape[1])), max(1, AT_ONCE // total.size)
    for start in range(0, RESAMPLES, at_once):
        off = square = np.zeros((1, values.shape[1]))
        rows = [
            [stream.integers(len(x), size=len(x)) for x in centred]
            for _ in range(start, min(start + at_once, RESAMPLES))
        ]
        for own, left, drawn in zip(centred, unseen, map(np.stack, zip(*rows, strict=True)), strict=True):
            sample = own[drawn]
            off = off + np.sqrt(left) * sample.sum(1)
            spread = ((sample - sample.mean(1, keepdims=True)) ** 2).sum(1)
            square = square + left * len(own) / max(len(own) - 1, 1) * spread
        ratios[start : start + at_once] = np.where(square > 0, off / np.sqrt(np.where(square > 0, square, 1)), 0.0)
    sd = np.sqrt(variance)
    return sd * np.quantile(ratios, high, 0), -sd * np.quantile(ratios, low, 0)


def at_any_time(variance: np.ndarray, n: int, planned: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """By the asymptotic confidence sequence of Waudby-Smith et al. (2024, Time-uniform central limit theory).

    It holds for all n at once, and is narrowest where n is what was ``planned``.
    """
    log_alpha = -2 * np.log(1 - level)
    rho = (log_alpha + np.log(log_alpha) + 1) / planned
    reach = np.sqrt(variance * (n * rho + 1) / (n * rho) * np.log((n * rho + 1) / (1 - level) ** 2))
    return reach, reach
