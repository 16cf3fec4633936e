"""Tail probabilities of sums of independent terms, by a saddlepoint, and of many tests together."""

from __future__ import annotations

import numpy as np
import torch

ERRORS = 2
"""Standard errors beyond which a difference is no chance."""
MAX_STEPS, TOLERANCE = 40, 1e-3
"""Of the search for a tilt; the tolerance in standard deviations of the sum."""
MAX_TILT = 50.0
"""A sum whose tilt would be larger is the largest possible one, or next to it."""
MIN_DISTANCE = 0.1
"""Standard deviations from the mean below which the approximation is 0 / 0, and the normal one is as good."""
SMALLEST = 1e-300
"""Number by which nothing is divided that is less."""


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
    root = np.sqrt(np.maximum(2 * (tilt * reached - log_mean), SMALLEST))
    half = np.clip(tilt * step[far] / 2, 1e-9, 300)
    wide = np.maximum(tilt * np.sqrt(variance) * np.sinh(half) / half, SMALLEST)
    least = -torch.special.ndtri(torch.from_numpy(np.exp(-(root**2) / 2)).clamp(min=SMALLEST)).numpy()
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
