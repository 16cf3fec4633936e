"""Importance weights with the tail of a Pareto distribution."""

from __future__ import annotations

import numpy as np

from crowdppl.errors import NumericalError

MAX_PARETO_K = 0.7
"""Above this shape of the tail, a mean by importance weights is unreliable (Vehtari et al. 2024, JMLR 25(72))."""


def pareto_smoothed(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Log importance weights (D,) by Pareto smoothing, and the shape k of the tail; infinite for too few draws."""
    if len(log_ratios) == 1:
        return np.zeros(1), np.inf
    import arviz as az  # slow to import

    if not hasattr(az, "psislw"):  # from ArviZ 1 on, which takes the ratios the other way round
        from arviz_stats.base import array_stats

        log_weights, k = array_stats.psislw(-log_ratios)
    else:
        log_weights, k = az.psislw(log_ratios)
    return np.asarray(log_weights), float(k)


def weights_of(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights (D,) that sum to one, whose tail is at most ``MAX_PARETO_K``, and the shape k of that of the ratios.

    NumericalError where no ratio is finite.
    """
    if not np.isfinite(log_ratios).any():
        raise NumericalError("pathfinder found no draw of a finite density; use inference='nuts'")
    log_weights, k = pareto_smoothed(log_ratios)
    log_weights = log_weights * (MAX_PARETO_K / max(MAX_PARETO_K, k))  # k is below 0 where the ratios are bounded
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum()), k
