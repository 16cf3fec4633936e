"""What pictures share: new axes where none are given, greys that survive a printer, names that fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.doors.naming import kind_of
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
            raise MethodError(f"ax= holds {kind_of(one)}; give matplotlib axes, or leave ax= out")
    return flat


def short(name: Any, most: int = LONGEST) -> str:
    """A name as it is written into a picture: of a long one both ends, for ids often differ at the last letters."""
    text = str(name)
    if len(text) <= most:
        return text
    tail = most // 2 - 1
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


def short_names(names: Iterable[Any], most: int = LONGEST) -> list[str]:
    """Names as ``short`` writes them; where that would write several alike, of these the part where they differ."""
    texts = [str(name) for name in names]
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for text in texts:
        alike[short(text, most)].add(text)
    apart = {}
    for written, some in alike.items():
        first, last = min(some), max(some)  # which begin alike as far as all of them do
        begin = next(
            (n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first)
        )
        for text in some:
            rest = text[max(1, begin - most // 2) :]
            around = f"…{rest}" if len(rest) < most else f"…{rest[: most - 2]}…"
            apart[text] = around if len(some) > 1 else written
    return [apart[text] for text in texts]
