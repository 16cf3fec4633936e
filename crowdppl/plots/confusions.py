"""Plots of confusion matrices."""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.core.intervals import Estimate
from crowdppl.core.validation import shown
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import MIDDLE, answer_names, flat_axes, ink, short_names
from crowdppl.results import intervals
from crowdppl.results.mapped_tables import as_shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_WRITTEN = 10
"""Classes up to which the shares are written into a matrix."""
SHOWN = 4
"""Annotators drawn of the most, and of the least reliable."""
REACH = 0.4
"""Half the width of the scale from 0 to 1 in a cell."""


def plot_confusion(posterior: Fit, annotator: Any = None, *, ax: Any = None, level: float | None = None) -> Any:
    """Draws confusion matrices: rows are the truth, columns the label, darker is more probable.

    By default the crowd's matrix comes first: how labels of all annotators fall, with their expected numbers, since
    truths are not known for certain. Behind it are the four most and the four least reliable annotators.

    Args:
        annotator: one id; a list of ids; by default the crowd and those it names.
        ax: matplotlib axes to draw on, made if absent: as many as ids; without ids, as many of the panels are drawn
            as there are axes, and on one the crowd's.
        level: draws intervals of this probability too, of annotators: each cell then holds a scale, 0 at its left
            end and 1 at its right, with the interval as a thick line and the mean as a stroke.

    Returns:
        The axes for one annotator, or one given by ``ax``; an array of axes for several.

    Raises:
        DataError: for an unknown annotator, or when the axes are too few.
        MethodError: for truths that are no classes, intervals of an engine that gives points, or a level that is
            not between 0 and 1.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> [ax.get_title() for ax in posterior.plot_confusion()[:2]]
        ['crowd\\n5 annotators, 315 labels', '1\\n88% right']
        >>> posterior.plot_confusion("1").get_ylabel()
        'truth'
    """
    if isinstance(posterior.result.truth, NumberTruth):
        raise MethodError(f"{posterior.method} has no classes to mix up; plot_annotators draws how labels differ")
    posterior = as_shown(posterior)
    if level is not None and posterior.result.table_draws is None:
        raise MethodError(
            f"{posterior.inference} found a point without intervals; leave level= out, or fit with vb or gibbs"
        )
    found = None if level is None else intervals.confusion(posterior, level)
    right = intervals.accuracy(posterior, 0.95).mean
    codes = _extremes(right) if annotator is None else annotator_codes(posterior, annotator)
    if not len(codes):
        raise DataError("annotator= names none; give an id, a list of ids, or leave it out")
    given = None if ax is None else flat_axes(ax)
    if given is not None and annotator is not None and len(given) < len(codes):
        raise DataError(f"{len(codes)} annotators need as many axes, {len(given)} were given; name one annotator")
    axes = (
        _grid(len(codes), answer_names(posterior.data), annotator is None, level is not None)
        if given is None
        else given
    )
    panels = list(axes)
    if annotator is None:
        _draw_crowd(panels.pop(0), posterior)
    names = short_names(posterior.data.annotators)
    for panel, code in zip(panels, codes.tolist(), strict=False):
        title = names[code] + ("" if np.isnan(right[code]) else f"\n{right[code]:.0%} right")
        table = np.asarray(posterior.result.confusions[code])
        _draw_matrix(panel, posterior, table, title, lifted=0.0 if found is None else 0.15)
        if found is not None:
            _draw_scales(panel, found.at(code), 0.25 if _written(posterior) else 0.0)
            panel.set_xlabel(f"{panel.get_xlabel()}\n(thick line: {level:.0%} interval)")
    if given is None:
        _names_at_edges(axes, crowd=annotator is None)
    if len(axes) == 1 and (given is not None or not isinstance(annotator, list | tuple)):
        return axes[0]
    return axes[: len(codes) + (annotator is None)]


def _extremes(right: np.ndarray) -> np.ndarray:
    """Codes of the most and the least reliable annotators, or of all, the most reliable first."""
    order = np.argsort(-np.nan_to_num(right, nan=-1.0), kind="stable")
    return order if len(order) <= 2 * SHOWN else np.concatenate([order[:SHOWN], order[-SHOWN:]])


def annotator_codes(posterior: Fit, wanted: Any) -> np.ndarray:
    """Codes of the named annotators."""
    known = posterior.data.annotators
    names = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    codes = posterior.data.annotator_book.codes(names)
    if (codes < 0).any():
        unknown = names[int(np.flatnonzero(codes < 0)[0])]
        raise DataError(f"there is no annotator {shown(unknown)}; the first are {shown(list(known[:5]))}")
    return codes


def _grid(n: int, answers: Collection[str], crowd: bool, scales: bool) -> np.ndarray:
    """Axes for n confusion matrices, in two rows beside the crowd's, with room for names at the edges."""
    import matplotlib.pyplot as plt  # slow to import

    columns = ceil(n / 2) if crowd else ceil(sqrt(n))
    rows = -(-n // columns)
    side = 1.0 + (0.4 if scales else 0.25) * min(len(answers), MAX_WRITTEN)
    room = 0.075 * max(map(len, answers))
    wide = 2 * crowd
    size = (side * (columns + wide) + room, side * max(rows, wide) + 0.8 * room + 0.4)
    figure = plt.figure(figsize=size, layout="constrained")
    cells = figure.add_gridspec(max(rows, wide), columns + wide)
    axes = [figure.add_subplot(cells[:, :2])] if crowd else []
    tall = slice(None) if rows < wide else None
    axes += [figure.add_subplot(cells[tall or k // columns, wide + k % columns]) for k in range(n)]
    return np.array(axes, object)


def _names_at_edges(axes: np.ndarray, crowd: bool) -> None:
    """Leaves names of classes to the first column and the lowest panel of each, those of the crowd aside."""
    panels = axes[1:] if crowd else axes
    cells = [(spec.rowspan.start, spec.colspan.start) for spec in (panel.get_subplotspec() for panel in panels)]
    for (row, column), panel in zip(cells, panels, strict=True):
        left = column == min(c for _, c in cells)
        bottom = row == max(r for r, c in cells if c == column)
        panel.set(ylabel=panel.get_ylabel() if left else "", xlabel=panel.get_xlabel() if bottom else "")
        panel.tick_params(labelleft=left, labelbottom=bottom)


def _draw_crowd(axes: Axes, posterior: Fit) -> None:
    """How labels of all annotators fall by the probable truth: shares of each row, with expected numbers."""
    data, (item, _, answer) = posterior.data, posterior.data.label_codes()
    p = posterior.result.probabilities[item]
    times = np.stack([np.bincount(answer, share, data.n_answers) for share in p.T])
    shares = times / np.maximum(times.sum(1, keepdims=True), np.finfo(float).tiny)
    title = f"crowd\n{data.n_annotators:,} annotators, {len(item):,} labels"
    _draw_matrix(axes, posterior, shares, title, times)


def _written(posterior: Fit) -> bool:
    """Whether there is room for figures in the cells."""
    return bool(max(posterior.data.n_classes, posterior.data.n_answers) <= MAX_WRITTEN)


def _draw_matrix(
    axes: Axes,
    posterior: Fit,
    table: np.ndarray,
    title: str,
    times: np.ndarray | None = None,
    lifted: float = 0.0,
) -> None:
    """One confusion matrix under its title; shares, and numbers of labels, are written in where there is room."""
    data, written = posterior.data, _written(posterior)
    axes.imshow(table, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(table if written else table[:0]):
        text = f"{share:.2f}".removeprefix("0") if share < 0.995 else "1"
        text += "" if times is None else f"\n{times[row, column]:,.0f}"
        axes.text(column, row - lifted, text, ha="center", va="center", color=ink(share), fontsize="small")
    step, size = -(-max(table.shape) // 15), "medium" if written else "small"  # names that fit at an edge
    labels = answer_names(data)
    slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    turned = slanted if max(map(len, labels)) > (4 if written else 2) else {}
    axes.set_xticks(range(0, len(labels), step), labels[::step], fontsize=size, **turned)
    axes.set_yticks(range(0, data.n_classes, step), labels[: data.n_classes : step], fontsize=size)
    axes.set(xlabel="label" if written else "label\n(shade: white 0, black probability 1)", ylabel="truth")
    axes.set_title(title, fontsize="medium")


def _draw_scales(axes: Axes, interval: Estimate, shift: float) -> None:
    """In each cell a scale from 0 to 1, on it the interval, and the mean as a stroke."""
    row, column = (part.ravel() for part in np.indices(interval.mean.shape))
    colours = [ink(share) for share in interval.mean.ravel()]
    low, high, mean = (
        column - REACH + 2 * REACH * part.ravel() for part in (interval.low, interval.high, interval.mean)
    )
    axes.hlines(row + shift, column - REACH, column + REACH, color=MIDDLE, linewidth=0.6)
    axes.hlines(row + shift, low, high, color=colours, linewidth=2)
    axes.scatter(mean, row + shift, 50, marker="|", color=colours, linewidth=1.2, zorder=3)
