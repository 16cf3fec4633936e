"""Names written where there is room for them: beside rows, beside points, and above a picture."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.pictures.canvas import MIDDLE, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

SIZES = ("medium", "small")
"""Sizes of letters, the first that fits."""
LEADING = 1.25
"""Height of a line, in sizes of its letters."""
ENDS = 8
"""Rows that are named at each end where there is no room for all."""
REACH = 14.0
"""Length of the lines from these names to their rows, in points."""


def name_rows(axes: Axes, names: Sequence[str]) -> bool:
    """Names rows 0, 1, ... at the left edge: all if there is room, else the lowest and highest, led to their rows.

    Args:
        axes: with everything but these names, and limits of y.
        names: of the rows, from below.

    Returns:
        Whether all are named.
    """
    rehearse(axes)
    low, high = axes.get_ylim()
    row = 72 * axes.get_window_extent().height / axes.figure.dpi / (high - low)
    lines = {size: LEADING * _points(size) / row for size in SIZES}
    for size, line in lines.items():
        if line <= 1:
            axes.set_yticks(np.arange(len(names)), names, fontsize=size)
            return True
    line = lines[SIZES[-1]]
    each = min(ENDS, int((high - low) / line) // 2)
    below = np.arange(each)
    rows = np.concatenate([below, len(names) - 1 - below])
    places = np.concatenate([below * line, len(names) - 1 - below * line])
    axes.set_yticks(places, [names[n] for n in rows], fontsize=SIZES[-1])
    axes.tick_params(axis="y", length=0, pad=REACH + 2)
    _lead(axes, places, rows)
    return False


def write_title(axes: Axes, parts: Iterable[str]) -> None:
    """A title of parts with commas between them, on as many lines as it needs; a part that is longer is elided."""
    rehearse(axes)
    lines: list[str] = []
    for part in parts:
        most = len(part)
        while most > 4 and not _fits(axes, f"{short(part, most)},"):
            most -= 1
        written = short(part, most)
        if lines and _fits(axes, f"{lines[-1]}, {written},"):
            lines[-1] += f", {written}"
        else:
            lines.append(written)
    axes.set_title(",\n".join(lines), fontsize="medium")


def drop_overlapping(axes: Axes, texts: Iterable[Annotation]) -> None:
    """Takes away texts that would lie on one that comes before them."""
    rehearse(axes)
    kept: list[Any] = []
    for text in texts:
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in kept):
            text.remove()
        else:
            kept.append(box)


def rehearse(axes: Axes) -> None:
    """Lays a figure out as it is drawn so far, so that sizes can be read off its axes."""
    figure = axes.figure.canvas.figure
    if figure.get_layout_engine() is not None:
        with warnings.catch_warnings():  # which come when it is drawn
            warnings.simplefilter("ignore")
            figure.draw_without_rendering()


def _points(size: str) -> float:
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=size).get_size_in_points())


def _fits(axes: Axes, text: str) -> bool:
    """Whether a title of one line is no wider than its axes."""
    axes.set_title(text, fontsize="medium")
    with warnings.catch_warnings():  # of glyphs, which are looked after when all is written
        warnings.simplefilter("ignore")
        return bool(axes.title.get_window_extent().width <= axes.get_window_extent().width)


def _lead(axes: Axes, places: np.ndarray, rows: np.ndarray) -> None:
    """Lines from names left of the axes to their rows at its edge."""
    from matplotlib.collections import LineCollection
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    corner: Any = axes.transAxes
    edge = axes.figure.dpi_scale_trans + ScaledTranslation(0, 0, corner)  # inches right of the left edge
    ends = [[(-REACH / 72, place), (0.0, row)] for place, row in zip(places, rows, strict=True)]
    across = blended_transform_factory(edge, axes.transData)
    lines = LineCollection(ends, colors=MIDDLE, linewidths=0.5, transform=across, clip_on=False)
    axes.add_collection(lines, autolim=False)
