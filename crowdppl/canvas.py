"""What pictures share: new axes where none are given, greys that survive a printer, names that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.errors import MethodError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIGHT, MIDDLE, DARK = "0.8", "0.5", "0.15"
"""Greys that stay apart on paper."""
MOST_ROWS = 60
"""Annotators or points that are shown one by one."""
LONGEST = 24
"""Characters of a name that are written."""


def axes_or_new(ax: Axes | None, width: float = 6.4, height: float = 3.6) -> Axes:
    """The given axes, or new ones of a size in inches.

    Raises:
        MethodError: for what is no axes, a figure say.
    """
    if ax is not None:
        axes: Axes = axes_of(ax)[0]
        return axes
    import matplotlib.pyplot as plt  # slow to import

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def axes_of(given: Any) -> np.ndarray:
    """Axes, or an array or list of them, as a flat array.

    Raises:
        MethodError: for what is no axes.
    """
    flat = np.atleast_1d(given).ravel()
    for one in flat:
        if not hasattr(one, "get_xlabel"):
            raise MethodError(f"ax= holds a {type(one).__name__}; give matplotlib axes, or leave ax= out")
    return flat


def short(name: Any, most: int = LONGEST) -> str:
    """A name as it is written into a picture: of a long one both ends, for ids often differ at the last letters."""
    text = str(name)
    if len(text) <= most:
        return text
    tail = most // 2 - 1
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"
