"""Panels of confusion matrices: a grid of axes, and one matrix on each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.pictures.canvas import MIDDLE, short, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.posterior import Posterior
    from crowdppl.statistics.estimates import Estimate

MOST_TEXT = 10
"""Classes up to which the shares are written into a matrix."""
MOST_NAMES = 15
"""Classes up to which all are named at the edges; of more, every second, third, ..."""
BRIEF = 10
"""Characters of an annotator's name up to which it is written on one line."""
REACH = 0.4
"""Where a cell's scale from 0 to 1 begins and ends, left and right of its middle."""


def grid(n: int, classes: Sequence[Any]) -> np.ndarray:
    """Axes for n confusion matrices of some classes in a grid, with room for the names of classes at its edges."""
    import matplotlib.pyplot as plt

    columns = _columns(n)
    rows = -(-n // columns)
    side = 1.4 + 0.35 * min(len(classes), MOST_TEXT)
    room = 0.075 * max(len(short(name)) for name in classes)
    # Where the last row is not full, the row above it is named too.
    named_rows = 1 + (n % columns > 0)
    size = (side * columns + room, side * rows + 0.8 * room * named_rows)
    axes = plt.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")[1].ravel()
    for spare in axes[n:]:
        spare.remove()
    return axes[:n]


def draw_matrix(axes: Axes, posterior: Posterior, code: int, name: str, interval: Estimate | None = None) -> None:
    """One confusion matrix under its annotator's name; shares are written in where there is room."""
    data, table = posterior.data, posterior.result.table[code]
    axes.imshow(table, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    written = max(table.shape) <= MOST_TEXT
    if written:
        _write(axes, table, -0.15 if interval is not None else 0.0)
    if interval is not None:
        _scales(axes, interval, 0.25 if written else 0.0)
    step = -(-max(table.shape) // MOST_NAMES)
    size = "medium" if written else "small"
    labels = short_names(data.answers)
    slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    turned = slanted if max(map(len, labels)) > (4 if written else 2) else {}
    axes.set_xticks(range(0, len(labels), step), labels[::step], fontsize=size, **turned)
    classes = short_names(data.answers)[: data.n_classes]
    axes.set_yticks(range(0, len(classes), step), classes[::step], fontsize=size)
    axes.set_xlabel("label" if written else "label (shade: white 0, black probability 1)")
    axes.set_ylabel("truth")
    axes.set_title(f"annotator{' ' if len(name) <= BRIEF else chr(10)}{name}", fontsize="medium")


def name_outer_only(axes: np.ndarray) -> None:
    """Names places at the left and the lower edge of a grid alone, for all panels have the same."""
    columns = _columns(len(axes))
    for n, panel in enumerate(axes):
        if n % columns:
            panel.set_ylabel("")
            panel.tick_params(axis="y", labelleft=False)
        if n + columns < len(axes):
            panel.set_xlabel("")
            panel.tick_params(axis="x", labelbottom=False)


def _write(axes: Axes, table: np.ndarray, shift: float) -> None:
    """The shares as text, moved down by a part of a cell."""
    for (row, column), share in np.ndenumerate(table):
        text = f"{share:.2f}".removeprefix("0") if share < 0.995 else "1"
        axes.text(column, row + shift, text, ha="center", va="center", color=_ink(share), fontsize="small")


def _scales(axes: Axes, interval: Estimate, shift: float) -> None:
    """In each cell a scale from 0 to 1, on it the interval, and the mean as a stroke."""
    for (row, column), share in np.ndenumerate(interval.mean):
        at = (column - REACH + 2 * REACH * x for x in (0, 1, interval.low[row, column], interval.high[row, column]))
        start, end, low, high = at
        y, ink = row + shift, _ink(share)
        axes.plot([start, end], [y, y], color=MIDDLE, linewidth=0.6, solid_capstyle="butt")
        axes.plot([low, high], [y, y], color=ink, linewidth=2, solid_capstyle="butt")
        axes.plot(column - REACH + 2 * REACH * share, y, "|", color=ink, markersize=7, markeredgewidth=1.2)


def _ink(share: float) -> str:
    """What shows on a shade."""
    return "white" if share > 0.55 else "black"


def _columns(n: int) -> int:
    return int(np.ceil(np.sqrt(n)))
