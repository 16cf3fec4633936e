"""Estimates brought to where probabilities lie, and classes to the names that annotators give them."""

from __future__ import annotations

import numpy as np

from crowdppl.moments.joints import Floats


def on_simplex(x: Floats) -> Floats:
    """The nearest distributions, along the last axis.

    Source: Held, Wolfe, Crowder (1974), Validation of subgradient optimization, Mathematical Programming 6.
    """
    falling = -np.sort(-x, -1)
    excess = (np.cumsum(falling, -1) - 1) / np.arange(1, x.shape[-1] + 1)
    last = (falling > excess).sum(-1, keepdims=True) - 1
    return np.asarray(np.maximum(x - np.take_along_axis(excess, last, -1), 0))


def shares(x: Floats) -> Floats:
    """What is not negative, as shares of its sum along the last axis; equal ones where nothing is left."""
    x = np.maximum(x, 0)
    total = x.sum(-1, keepdims=True)
    return np.asarray(np.where(total > 0, x / np.where(total > 0, total, 1), 1 / x.shape[-1]))


def naming(table: Floats) -> np.ndarray:
    """The order of rows (classes) in which the diagonal of a table (K, K) is largest; its sum decides."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    rows, columns = linear_sum_assignment(table, maximize=True)
    return np.asarray(rows[np.argsort(columns)])
