"""Importance weights with the tail of a Pareto distribution."""

from __future__ import annotations

import numpy as np

MAX_PARETO_K = 0.7
"""Above this shape of the tail, a mean by importance weights is unreliable (Vehtari et al. 2024, JMLR 25(72))."""


def pareto_smoothed(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Log importance weights (D,) by Pareto smoothing, and the shape k of the tail."""
    import arviz as az  # slow to import

    if not hasattr(az, "psislw"):  # from ArviZ 1 on, which takes the ratios the other way round
        from arviz_stats.base import array_stats

        log_weights, k = array_stats.psislw(-log_ratios)
    else:
        log_weights, k = az.psislw(log_ratios)
    return np.asarray(log_weights), float(k)


def tempered(log_weights: np.ndarray, k: float) -> np.ndarray:
    """Log weights (D,) whose tail has the shape k, raised to a power that makes it at most ``MAX_PARETO_K``."""
    return log_weights * (MAX_PARETO_K / max(k, MAX_PARETO_K))
