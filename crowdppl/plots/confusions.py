"""Plots of confusion matrices."""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.core.intervals import Estimate
from crowdppl.core.validation import shown
from crowdppl.data.annotations import labels_given
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.result import Fit
from crowdppl.plots.axes import MIDDLE, flat_axes, short, short_names
from crowdppl.results import intervals
from crowdppl.results.mapped_tables import as_shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_WRITTEN = 10
"""Classes up to which the shares are written into a matrix."""
REACH = 0.4
"""Half the width of the scale from 0 to 1 in a cell."""


def plot_confusion(posterior: Fit, annotator: Any = None, *, ax: Any = None, level: float | None = None) -> Any:
    """Draws confusion matrices: rows are the truth, columns the label, darker is more probable.

    Args:
        annotator: one id; a list of ids; None for all, or for those 25 who gave most labels.
        ax: matplotlib axes to draw on, as many as annotators; made if absent.
        level: draws intervals of this probability too: each cell then holds a scale, 0 at its left end and 1 at
            its right, with the interval as a thick line and the mean as a stroke.

    Returns:
        The axes for one annotator, an array of axes for several.

    Raises:
        DataError: for an unknown annotator, or when the axes are too few.
        MethodError: for intervals of an engine that gives points, or a level that is not between 0 and 1.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> ax = posterior.plot_confusion("1")
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('label', 'truth')
    """
    posterior = as_shown(posterior)
    codes = _annotator_codes(posterior, annotator)
    if not len(codes):
        raise DataError("annotator= names none; give an id, a list of ids, or leave it out")
    if level is not None and posterior.result.table_draws is None:
        raise MethodError(
            f"{posterior.inference} found a point without intervals; leave level= out, or fit with vb or gibbs"
        )
    found = None if level is None else intervals.confusion(posterior, level)
    axes = _grid(len(codes), posterior.data.answers) if ax is None else flat_axes(ax)
    if len(axes) < len(codes):
        raise DataError(f"{len(codes)} annotators need as many axes, {len(axes)} were given; name one annotator")
    names = short_names(posterior.data.annotators)
    for panel, code in zip(axes, codes, strict=False):
        _draw_matrix(panel, posterior, int(code), names[code], None if found is None else found.at(code))
        if level is not None:
            panel.set_xlabel(f"{panel.get_xlabel()}\n(thick line: {level:.0%} interval)")
    if ax is None:
        columns = ceil(sqrt(len(codes)))
        for n, panel in enumerate(axes):
            left, bottom = n % columns == 0, n + columns >= len(codes)
            panel.set(ylabel=panel.get_ylabel() if left else "", xlabel=panel.get_xlabel() if bottom else "")
            panel.tick_params(labelleft=left, labelbottom=bottom)
        if annotator is None and len(codes) < posterior.data.n_annotators:
            shown = f"the {len(codes)} of {posterior.data.n_annotators} annotators with most labels"
            axes[0].figure.suptitle(shown, fontsize="medium")
    one = len(codes) == 1 and not isinstance(annotator, list | tuple)
    return axes[0] if one else axes[: len(codes)]


def _annotator_codes(posterior: Fit, wanted: Any) -> np.ndarray:
    """Codes of the named annotators, or of those who gave most labels, in codebook order."""
    known = posterior.data.annotators
    if wanted is None:
        most = np.argsort(-labels_given(posterior.data), kind="stable")
        return np.sort(most[:25])  # in a grid of more, matrices would be stamps
    names = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    codes = posterior.data.annotator_book.codes(names)
    if (codes < 0).any():
        unknown = names[int(np.flatnonzero(codes < 0)[0])]
        raise DataError(f"there is no annotator {shown(unknown)}; the first are {shown(list(known[:5]))}")
    return codes


def _grid(n: int, answers: Collection[Any]) -> np.ndarray:
    """Axes for n confusion matrices, with room for the names of classes at the edges."""
    import matplotlib.pyplot as plt  # slow to import

    columns = ceil(sqrt(n))
    rows = -(-n // columns)
    side = 1.4 + 0.35 * min(len(answers), MAX_WRITTEN)
    room = 0.075 * max(len(short(name)) for name in answers)
    named_rows = 1 + (n % columns > 0)  # the row above a last row that is not full has names too
    size = (side * columns + room, side * rows + 0.8 * room * named_rows)
    axes = plt.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")[1].ravel()
    for spare in axes[n:]:
        spare.remove()
    return np.asarray(axes[:n])


def _draw_matrix(axes: Axes, posterior: Fit, code: int, name: str, interval: Estimate | None) -> None:
    """One confusion matrix under its annotator's name; shares are written in where there is room."""
    data, table = posterior.data, posterior.result.confusions[code]
    axes.imshow(table, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    written = max(table.shape) <= MAX_WRITTEN
    for (row, column), share in np.ndenumerate(table if written else table[:0]):
        text = f"{share:.2f}".removeprefix("0") if share < 0.995 else "1"
        at = (column, row - (0.15 if interval is not None else 0))
        axes.text(*at, text, ha="center", va="center", color=_ink(share), fontsize="small")
    if interval is not None:
        _draw_scales(axes, interval, 0.25 if written else 0.0)
    step, size = -(-max(table.shape) // 15), "medium" if written else "small"  # names that fit at an edge
    labels = short_names(data.answers)
    slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    turned = slanted if max(map(len, labels)) > (4 if written else 2) else {}
    axes.set_xticks(range(0, len(labels), step), labels[::step], fontsize=size, **turned)
    axes.set_yticks(range(0, data.n_classes, step), labels[: data.n_classes : step], fontsize=size)
    axes.set(xlabel="label" if written else "label (shade: white 0, black probability 1)", ylabel="truth")
    axes.set_title(f"annotator{' ' if len(name) <= MAX_WRITTEN else chr(10)}{name}", fontsize="medium")


def _draw_scales(axes: Axes, interval: Estimate, shift: float) -> None:
    """In each cell a scale from 0 to 1, on it the interval, and the mean as a stroke."""
    row, column = (part.ravel() for part in np.indices(interval.mean.shape))
    ink = [_ink(share) for share in interval.mean.ravel()]
    low, high, mean = (
        column - REACH + 2 * REACH * part.ravel() for part in (interval.low, interval.high, interval.mean)
    )
    axes.hlines(row + shift, column - REACH, column + REACH, color=MIDDLE, linewidth=0.6)
    axes.hlines(row + shift, low, high, color=ink, linewidth=2)
    axes.scatter(mean, row + shift, 50, marker="|", color=ink, linewidth=1.2, zorder=3)


def _ink(share: float) -> str:
    """A colour that shows on a shade."""
    return "white" if share > 0.55 else "black"
