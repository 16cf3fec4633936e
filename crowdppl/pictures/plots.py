"""Pictures of a posterior, in greys that survive a printer. Each returns the axes that it drew on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.data.decoding import labels_given
from crowdppl.doors import demands
from crowdppl.errors import DataError, MethodError
from crowdppl.pictures.canvas import DARK, LIGHT, MIDDLE, MOST_ROWS, axes_of, axes_or_new, short_names
from crowdppl.pictures.glyphs import legible
from crowdppl.pictures.lettering import name_rows
from crowdppl.pictures.panels import draw_matrix, grid, name_outer_only
from crowdppl.results import intervals
from crowdppl.results.information import information, telling
from crowdppl.statistics.choices import entropy
from crowdppl.statistics.estimates import Estimate, check_level, from_draws, from_point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.posterior import Posterior

MOST_PANELS = 25
"""Confusion matrices in one grid; more would be stamps."""
NAMED = 5
"""Least sure items that are named in a picture of few items."""
LINE = 0.055
"""Height of a line of their names, as a share of that of the picture."""


def plot_confusion(
    posterior: Posterior, annotator: Any = None, *, ax: Any = None, level: float | None = None
) -> Any:
    """Draws confusion matrices: rows are the truth, columns the label, darker is more probable.

    Args:
        posterior: what a fit returned.
        annotator: one id; a list of ids; None for all, or for those 25 who gave most labels.
        ax: matplotlib axes to draw on, as many as annotators; made if absent.
        level: draws intervals of this probability too: each cell then holds a scale, 0 at its left end and 1 at
            its right, with the interval as a thick line and the mean as a stroke.

    Returns:
        The axes for one annotator, an array of axes for several.

    Raises:
        DataError: for an unknown annotator, or when the axes are too few.
        MethodError: when intervals are asked of an engine that gives points, or of a level that is none.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> ax = posterior.plot_confusion("1")
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('label', 'truth')
    """
    codes = _annotators(posterior, annotator)
    found = None if level is None else _intervals(posterior, level)
    one = len(codes) == 1 and not isinstance(annotator, list | tuple)
    axes = grid(len(codes), list(posterior.data.answers)) if ax is None else axes_of(ax)
    if len(axes) < len(codes):
        raise DataError(f"{len(codes)} annotators need as many axes, {len(axes)} were given; name one annotator")
    names = short_names(posterior.data.annotators)
    for panel, code in zip(axes, codes, strict=False):
        draw_matrix(panel, posterior, int(code), names[code], None if found is None else found.at(code))
        if level is not None:
            panel.set_xlabel(f"{panel.get_xlabel()}\n(thick line: {level:.0%} interval)")
    if ax is None:
        name_outer_only(axes)
        if annotator is None and len(codes) < posterior.data.n_annotators:
            left = f"the {len(codes)} of {posterior.data.n_annotators} annotators with most labels"
            axes[0].figure.suptitle(left, fontsize="medium")
    legible(*axes[: len(codes)])
    return axes[0] if one else axes[: len(codes)]


def plot_annotators(
    posterior: Posterior, *, ax: Axes | None = None, level: float = 0.95, show: str = "information"
) -> Axes:
    """Draws what each annotator's labels are worth, with intervals, the best on top.

    The information of a label is its mutual information with the truth, in bits: 0 for a spammer, and at most
    the entropy of the prevalence (dotted line). An annotator who always names a frequent class is accurate and
    tells nothing, so that the order may differ from that of the accuracies. Where there are draws, the information
    is averaged over them; what ``suspicious_annotators`` lists is that of the mean confusion, which is smaller.
    Where there is no room for all names, those of the best and of the worst are written.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.
        show: "information" or "accuracy", by which annotators are then ordered.

    Raises:
        MethodError: when something else is to be shown, or the level is none.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_annotators().get_xlabel()
        'information of a label (bits), line: 95% interval'
    """
    demands.one_of("show", show, ("information", "accuracy"))
    check_level(level)
    result, names = posterior.result, short_names(posterior.data.annotators)
    found = _information(posterior, level) if show == "information" else intervals.accuracy(result, level)
    order = np.argsort(found.mean, kind="stable")
    shown = found.at(order)
    few, drawn = len(order) <= MOST_ROWS, bool(np.isfinite(shown.low).any())
    axes = axes_or_new(ax, 6.4, max(2.6, 1.2 + 0.24 * len(order)) if few else 7.2)
    place = np.arange(len(order))
    if drawn:
        axes.hlines(place, shown.low, shown.high, color="0.6", linewidth=1.5 if few else 0.8)
    axes.plot(shown.mean, place, "o", color=DARK, markersize=4 if few else 2)
    axes.set_yticks([])
    axes.set_ylim(-0.7, len(order) - 0.3)
    most = float(entropy(result.prevalence[None])[0])
    if show == "accuracy":
        _mark(axes, 1 / posterior.data.n_classes, "chance", 1.0)
    else:
        end = max(most, float(np.nanmax(shown.high if drawn else shown.mean)))
        _mark(axes, most, "entropy of the truth", 1.02 * end)
    title = "accuracy" if show == "accuracy" else "information of a label (bits)"
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    every = name_rows(axes, [names[n] for n in order])
    best = "most informative" if show == "information" else "most accurate"
    axes.set_ylabel(f"{'annotator' if every else f'{len(order):,} annotators'},\n{best} on top")
    legible(axes)
    return axes


def plot_items(posterior: Posterior, *, ax: Axes | None = None, show: str = "entropy") -> Axes:
    """Draws how sure the truth of the items is, from the surest to the least sure.

    Args:
        posterior: what a fit returned.
        ax: axes to draw on; made if absent.
        show: "entropy" of the truth in bits, or "probability" of the label.

    Raises:
        MethodError: when something else is to be shown.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_items().get_ylabel()
        'entropy of the truth (bits)'
    """
    p = posterior.result.probabilities
    demands.one_of("show", show, ("entropy", "probability"))
    if show == "entropy":
        values, most, title = entropy(p), float(np.log2(p.shape[1])), "entropy of the truth (bits)"
    else:
        values, most, title = p.max(1), 1.0, "probability of the label"
    order = np.argsort(values if show == "entropy" else -values, kind="stable")
    values = values[order]
    axes = axes_or_new(ax)
    place = np.arange(1, len(values) + 1)
    bottom = 0.0 if show == "entropy" else 1 / p.shape[1]
    axes.fill_between(place, bottom, values, step="mid", color=LIGHT, linewidth=0)
    axes.step(place, values, where="mid", color=DARK, linewidth=1.2)
    if len(values) <= MOST_ROWS:
        axes.plot(place, values, "o", color=DARK, markersize=3)
        _name_last(axes, place, values, short_names(posterior.data.items[order[-NAMED:]]), most - bottom)
    axes.set_xlim(0.5, len(values) + 0.5)
    axes.set_ylim(bottom, most + 0.04 * (most - bottom))
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("item, the surest first")
    axes.set_ylabel(title)
    legible(axes)
    return axes


def _name_last(axes: Axes, place: np.ndarray, values: np.ndarray, names: list[str], span: float) -> None:
    """Names of the last points; those that would lie on one another are written one above the other."""
    free, first = -np.inf, len(values) - len(names)
    for n in first + np.argsort(values[first:], kind="stable"):
        height = max(float(values[n]), free)
        free = height + LINE * span
        beside: dict[str, Any] = {"xytext": (-3, 3), "textcoords": "offset points", "annotation_clip": False}
        axes.annotate(names[n - first], (place[n], height), ha="right", fontsize="small", **beside)


def _annotators(posterior: Posterior, wanted: Any) -> np.ndarray:
    """Codes of the annotators asked for, or of those who gave most labels, in codebook order."""
    known = posterior.data.annotators
    if wanted is None:
        most = np.argsort(-labels_given(posterior.data), kind="stable")
        return np.sort(most[:MOST_PANELS])
    asked = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    codes = posterior.data.annotator_book.codes(asked)
    if (codes < 0).any():
        unknown = asked[int(np.flatnonzero(codes < 0)[0])]
        raise DataError(f"there is no annotator {unknown!r}; the first are {list(known[:5])!r}")
    return codes


def _intervals(posterior: Posterior, level: float) -> Estimate:
    """Intervals of all confusions, which an engine of points does not have."""
    check_level(level)
    if posterior.result.table_draws is None:
        raise MethodError(
            f"{posterior.inference} found a point without intervals; leave level= out, or fit with vb or gibbs"
        )
    return intervals.confusion(posterior.result, level)


def _information(posterior: Posterior, level: float) -> Estimate:
    """Mutual information of truth and label in bits, (A,), averaged over draws where there are draws."""
    result = posterior.result
    tables, shares = result.table_draws, result.prevalence_draws
    if tables is None or shares is None:
        return from_point(information(telling(posterior, result.table), result.prevalence))
    draws = [information(table, share) for table, share in zip(telling(posterior, tables), shares, strict=True)]
    return from_draws(np.stack(draws), level)


def _mark(axes: Axes, at: float, text: str, end: float) -> None:
    """A dotted line from the foot to the top, named above; the axis runs from 0 to an end."""
    axes.axvline(at, color=MIDDLE, linestyle=":", linewidth=1)
    axes.set_xlim(0, end)
    place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    side = "right" if at > end / 2 else "center"
    axes.annotate(text, (at, 1), (0, 3), ha=side, va="bottom", fontsize="small", color="0.35", **place)
