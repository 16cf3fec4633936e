"""Importance weights with the tail of a Pareto distribution."""

from __future__ import annotations

import numpy as np

from crowdppl.errors import NumericalError

FEWEST = 21
"""Draws of whose weights five are in the tail, which its shape takes at least."""
MAX_PARETO_K = 0.7
"""Above this shape of the tail, a mean by importance weights is unreliable (Vehtari et al. 2024, JMLR 25(72))."""


def pareto_smoothed(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Log importance weights (D,) by Pareto smoothing, and the shape k of the tail.

    Infinite where fewer than five draws have a weight to speak of; NaN, and not smoothed, for fewer than 21 draws.
    """
    if len(log_ratios) < FEWEST:
        return log_ratios, np.nan
    import arviz as az  # slow to import

    if not hasattr(az, "psislw"):  # from ArviZ 1 on, which takes the ratios the other way round
        from arviz_stats.base import array_stats

        log_weights, k = array_stats.psislw(-log_ratios)
    else:
        log_weights, k = az.psislw(log_ratios)
    return np.asarray(log_weights), float(k)


def notes_on_tail(k: float) -> list[str]:
    """What is said of pathfinder's draws where the shape k of their weights is too large, or not known."""
    if k <= MAX_PARETO_K:
        return []
    if np.isnan(k):
        return [
            f"pathfinder's paths have fewer than {FEWEST} draws together, too few to tell how far its normals are "
            "from the posterior; raise draws"
        ]
    return [
        f"pathfinder's normals are far from the posterior (Pareto k {k:.2f}, above {MAX_PARETO_K}), and its means "
        "and widths are rough; use inference='nuts'"
    ]


def weights_of(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights (D,) that sum to one, whose tail is at most ``MAX_PARETO_K``, and the shape k of that of the ratios.

    Where k is infinite or not known, draws of a finite ratio weigh the same. NumericalError where there is none.
    """
    if not np.isfinite(log_ratios).any():
        raise NumericalError("pathfinder found no draw of a finite density; use inference='nuts'")
    log_weights, k = pareto_smoothed(log_ratios)
    power = 0.0 if np.isnan(k) else MAX_PARETO_K / max(MAX_PARETO_K, k)  # k is below 0 where ratios are bounded
    weights, there = np.zeros(len(log_weights)), np.isfinite(log_weights)
    weights[there] = np.exp(power * (log_weights[there] - log_weights.max()))
    return weights / weights.sum(), k
