"""Axes, colours, legends and short names that all plots share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.core.validation import kind_of
from crowdppl.errors import MethodError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.data.annotations import Annotations

LIGHT, MIDDLE, DARK = "0.8", "0.5", "0.15"
"""Greys that stay apart in print."""
ACCENT = "#12568c"
"""The colour of the data; in a grey print it is nearly DARK."""
COLOURS = (ACCENT, "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#f0e442")
"""Colours of classes, which the colour-blind tell apart (Okabe & Ito 2008)."""
MAX_POINTS = 60
"""Annotators or points up to which each is drawn as a point."""
MAX_LETTERS = 24
"""Letters of a name that are written."""


def axes_or_new(ax: Axes | None, width: float = 6.4, height: float = 3.6) -> Axes:
    """The given axes, or new ones of a size in inches; MethodError for anything but axes."""
    if ax is not None:
        axes: Axes = flat_axes(ax)[0]
        return axes
    import matplotlib.pyplot as plt  # slow to import

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def flat_axes(given: Any) -> np.ndarray:
    """Axes, or an array or list of them, as a flat array; MethodError for anything but axes."""
    flat = np.array(given, object).ravel()
    if not len(flat):
        raise MethodError("ax= holds no axes; give matplotlib axes, or leave ax= out")
    for one in flat:
        if not hasattr(one, "get_xlabel"):
            raise MethodError(f"ax= holds {kind_of(one)}; give matplotlib axes, or leave ax= out")
    return flat


def legend_below(axes: Axes, ncols: int, **options: Any) -> None:
    """A legend below the axes, where it hides no data."""
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": ncols}
    axes.legend(fontsize="small", title_fontsize="small", frameon=False, **place, **options)


def write_beside(axes: Axes, row: float, text: str, va: str = "center") -> None:
    """Small text right of the axes, at the height of a row."""
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate(text, (1, row), (6, 0), va=va, fontsize="small", **place)


def name_rows(axes: Axes, names: list[str]) -> bool:
    """Names rows 0, 1, ... where there is room for all, and else none; returns which."""
    low, high = axes.get_ylim()
    points = 72 * axes.get_window_extent().height / axes.figure.dpi * len(names) / (high - low)
    room = points >= 9 * len(names)
    axes.set_yticks(range(len(names)) if room else [], names if room else [], fontsize="small")
    return bool(room)


def ink(share: float) -> str:
    """A colour that shows on a grey of this darkness."""
    return "white" if share > 0.55 else "black"


def outline(axes: Axes, start: float, size: int) -> None:
    """A box around some cells on the diagonal of a matrix."""
    from matplotlib.patches import Rectangle  # slow to import

    axes.add_patch(Rectangle((start - 0.5, start - 0.5), size, size, fill=False, edgecolor="black", linewidth=1.5))


def short(name: Any, letters: int = MAX_LETTERS) -> str:
    """A name with its middle left out where it is long: ids often differ in their last letters."""
    text = str(name)
    tail = letters // 2 - 1
    return text if len(text) <= letters else f"{text[: letters - 1 - tail]}…{text[-tail:]}"


def answer_names(data: Annotations) -> list[str]:
    """Short names of the answers, classes first, in the words of their kind."""
    means = data.alphabet.kind.means
    return short_names(means.get(name, name) for name in data.answers)


def short_names(names: Iterable[Any], letters: int = MAX_LETTERS) -> list[str]:
    """Names as ``short`` writes them; those that it would write alike, from shortly before they differ."""
    texts = [str(name) for name in names]
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for text in texts:
        alike[short(text, letters)].add(text)
    written: dict[str, str] = {}
    for brief, group in alike.items():
        first, last = min(group), max(group)  # which begin alike as far as all of them do
        differ = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        begin = max(1, differ - letters // 3)
        written |= {text: brief if len(group) == 1 else f"…{short(text[begin:], letters - 1)}" for text in group}
    return [written[text] for text in texts]
