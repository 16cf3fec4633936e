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
ROUNDS = 10
"""How often names that are written alike are told apart; beyond, many are alike in nearly all that they hold."""


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
    written = {text: short(text, most) for text in texts}
    for _ in range(ROUNDS):  # in each, names that are written alike fall apart into two groups at least
        alike: defaultdict[str, list[str]] = defaultdict(list)
        for text, brief in written.items():
            alike[brief].append(text)
        several = [some for some in alike.values() if len(some) > 1]
        if not several:
            break
        for some in several:
            first, last = min(some), max(some)  # which begin alike as far as all of them do
            pairs = enumerate(zip(first, last, strict=False))
            begin = next((n for n, (one, other) in pairs if one != other), len(first))
            written |= {text: _around(text, begin, most) for text in some}
    return [written[text] for text in texts]


def _around(text: str, begin: int, most: int) -> str:
    """The part of a text around a place."""
    rest = text[max(1, begin - most // 2) :]
    return f"…{rest}" if len(rest) < most else f"…{rest[: most - 2]}…"
