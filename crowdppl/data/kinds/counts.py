"""Counts: how many cells, people or objects there are."""

from __future__ import annotations

import numpy as np

from crowdppl.data.kinds.numbers import Numbers
from crowdppl.data.kinds.space import NonNegative

MOST = 1e15
"""Beyond, doubles hold whole numbers no longer apart in what fits make of them."""


class Whole(NonNegative):
    """Whole numbers from 0 to ``MOST``."""

    @property
    def words(self) -> str:
        """What a number of the space is, for messages."""
        return f"a whole number from 0 to {MOST:g}"

    def contains(self, x: np.ndarray) -> np.ndarray:
        """Those that are neither negative, nor broken, nor too large."""
        return np.asarray((x >= 0) & (x <= MOST) & (x == x.round()))

    def nearest(self, x: np.ndarray) -> np.ndarray:
        """Those nearest to the distances from 0."""
        return np.asarray(np.abs(x.round()))

    def grid(self, middle: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """All up to 50 times the scale above the middle."""
        n = round(middle + 50 * scale)
        return np.arange(n), np.ones(n)


COUNT = Numbers(
    "count",
    "counts",
    "counts: cells, objects in a picture",
    NonNegative(),
    aliases=("integer", "int", "poisson"),
    own=Whole(),
    methods=("poisson_annotators",),
    example=(("one", "two", "three", "four", "five", "six"), (7, 12, 0, 31)),
)
