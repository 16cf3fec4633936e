"""Counts: how many cells, people or objects there are."""

from __future__ import annotations

import numpy as np

from crowdppl.data.kinds.numbers import Numbers
from crowdppl.data.kinds.space import NonNegative

COUNT = Numbers(
    "count",
    "counts",
    "counts: cells, objects in a picture",
    space=NonNegative(),
    holds=lambda x: (x >= 0) & (x == x.round()),
    words="a whole number from 0 on",
    grid=lambda middle, scale: (np.arange(round(middle + 50 * scale)), np.ones(round(middle + 50 * scale))),
    nearest=lambda x: np.abs(x.round()),
    methods=("poisson_annotators",),
    example=(("one", "two", "three", "four", "five", "six"), (7, 12, 0, 31)),
    candidates={"poisson_annotators": ("poisson_annotators", {})},
)
