"""Probabilities of tests of which many are made at once."""

from __future__ import annotations

import numpy as np


def holm(p: np.ndarray) -> np.ndarray:
    """Corrects p-values for their number: calling those at most ``level`` is wrong anywhere in that share of cases.

    Holm (1979), "A simple sequentially rejective multiple test procedure", which holds however tests depend.

    Args:
        p: of each test by itself, (m,).

    Returns:
        (m,), at most 1.
    """
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return out
