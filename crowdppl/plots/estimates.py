"""Plots of estimates with intervals, a row each: annotators, objects, and truths that are numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core import validation
from crowdppl.core.intervals import Estimate, check_level, from_draws, from_point
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import ACCENT, MAX_POINTS, MIDDLE, axes_or_new, name_rows, short_names, write_beside
from crowdppl.plots.ridges import draw_ridges
from crowdppl.results.annotators import annotators, information, informative_part
from crowdppl.results.choices import entropy
from crowdppl.results.mapped_tables import as_shown
from crowdppl.results.rankings import order_probabilities, ranking, tiers
from crowdppl.results.truths import truth

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_ROWS, MAX_RIDGES = 100, 20
"""Estimates up to which new axes have room for all names; ridges that are drawn by default."""
SHARES = ("accuracy", "abstention", "agreement", "sensitivity", "specificity", "reliable", "random")
"""Columns of ``annotators()`` that lie from 0 to 1."""


def plot_annotators(
    posterior: Fit,
    *,
    n: int | None = None,
    show: str | None = None,
    ridges: bool = False,
    ax: Axes | None = None,
    level: float = 0.95,
) -> Axes:
    """Draws what is known of each annotator, with intervals and numbers of labels, the largest on top.

    Where truths are classes, that is by default how often an annotator is right, beside the line of chance. Names
    are written where there is room for all of them, else none is.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        n: draws the n on top and the n at the end alone; by default all.
        show: a column of ``annotators()``: "accuracy", of numbers "bias" or "precision", of rankings "reliable", of
            grades by rater_facets "severity"; or "information" where truths are classes. By default the first of
            them that the method knows. Annotators are ordered by it. The information of a label is its mutual
            information with the truth, in bits, averaged over draws where there are draws: 0 for a spammer, also
            for one who always names a frequent class and so is often right.
        ridges: in place of intervals, draws the posterior of each as a ridge, all of one height, with a stroke at
            the mean; of more than 20, by default the ten on top and the ten at the end.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        MethodError: for another ``show``, a method that knows nothing of annotators, an ``n`` that is no whole
            number above 0, a level that is not between 0 and 1, or ridges of an engine that gives points.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_annotators().get_xlabel()
        'accuracy: share of labels that are right, line: 95% interval'
    """
    check_level(level)
    ridges, posterior = validation.switch("ridges", ridges), as_shown(posterior)
    table = annotators(posterior, level)
    names = [str(name) for name in table.columns[table.notna().any()]]
    known = [name for name in names if name != "labels" and not name.endswith(("_sd", "_low", "_high"))]
    if posterior.result.tables is not None and "agreement" not in table:  # else nobody errs
        known.append("information")
    if not known:
        raise MethodError(
            f"{posterior.method} knows nothing of annotators that could be drawn; fit another method, such as "
            f"{posterior.data.alphabet.kind.methods[-1]!r}"
        )
    chosen = known[0] if show is None else str(validation.one_of("show", show, known))

    def at(level: float) -> Estimate:
        if chosen == "information":
            return _information(posterior, level)
        return _column(annotators(posterior, level), chosen)

    found = at(level)
    order, left_out = _ends(found.mean, n, ridges)
    labels = [f"{who} ({times:,})" for who, times in zip(short_names(table.index), table["labels"], strict=True)]
    axes, drawn, named = _draw(
        posterior, at, found, order, labels, ridges, (0, 1) if chosen in SHARES else None, ax
    )
    _mark_gap(axes, len(order), left_out)
    title, best = _words(posterior, chosen)
    if chosen == "accuracy":
        axes.set_xlim(0, 1)
        _mark(axes, 1 / posterior.data.n_classes, "chance")
    elif axes.get_xlim()[0] < 0 < axes.get_xlim()[1]:
        _mark(axes, 0.0, "")
    axes.set_xlabel(_named(title, drawn, ridges, level))
    who = "annotator (labels)" if named else f"{len(order):,} annotators (n=20 names some)"
    axes.set_ylabel(f"{who},\n{best} on top")
    return axes


def _ends(mean: np.ndarray, n: int | None, ridges: bool) -> tuple[np.ndarray, int]:
    """Codes by their means, the largest last: all, or the n at each end; and how many are left out."""
    most = None if n is None else validation.whole_number("n", n, 1, "10 draws the ten on top and at the end")
    order = np.argsort(mean, kind="stable")
    order = order[~np.isnan(mean[order])]
    if most is None and ridges:
        most = MAX_RIDGES // 2
    if most is None or len(order) <= 2 * most:
        return order, 0
    return np.concatenate([order[:most], order[-most:]]), len(order) - 2 * most


def _draw(
    posterior: Fit,
    at: Callable[[float], Estimate],
    found: Estimate,
    order: np.ndarray,
    names: list[str],
    ridges: bool,
    bounds: tuple[float, float] | None,
    ax: Axes | None,
) -> tuple[Axes, bool, bool]:
    """Draws intervals or ridges in order, the last on top; tells whether either is there, and rows are named."""
    named = [names[code] for code in order]
    if ridges:
        axes, room = draw_ridges(posterior, at, order, named, bounds, ax)
        return axes, True, room
    return _draw_intervals(found.at(order), named, ax)


def _named(title: str, drawn: bool, ridges: bool, level: float) -> str:
    """The title of an axis, with what stands for how sure it is."""
    if ridges:
        return f"{title}, posterior"
    return f"{title}, line: {level:.0%} interval" if drawn else title


def _mark_gap(axes: Axes, n: int, left_out: int) -> None:
    """A line in the middle of n rows, where others are left out."""
    if left_out:
        axes.axhline(n / 2 - 0.5, color="0.35", linewidth=0.8)
        write_beside(axes, n / 2 - 0.5, f"{left_out:,} more")


def _mark(axes: Axes, place: float, text: str) -> None:
    """A dotted line with its name above the axes."""
    axes.axvline(place, color=MIDDLE, linestyle=":", linewidth=1)
    above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axes.annotate(text, (place, 1), (0, 3), ha="center", va="bottom", fontsize="small", color="0.35", **above)


def _column(table: pd.DataFrame, name: str) -> Estimate:
    """A column of a table with its interval; without, where it has none."""
    none = pd.Series(np.nan, table.index)
    parts = (table.get(f"{name}{end}", none).to_numpy(np.float64) for end in ("", "_sd", "_low", "_high"))
    return Estimate(*parts)


def _words(posterior: Fit, show: str) -> tuple[str, str]:
    """The title of what is drawn of annotators, and who is on top."""
    if show == "information":
        most = float(entropy(posterior.result.prevalence[None])[0])
        return f"information of a label (bits; one that is always right: {most:.2f})", "most informative"
    if show == "accuracy":
        return "accuracy: share of labels that are right", "most accurate"
    unit = posterior.data.alphabet.kind.unit
    return show.replace("_", " ") + (f" in {unit}" if unit and show == "bias" else ""), "the largest"


def _information(posterior: Fit, level: float) -> Estimate:
    """Mutual information of truth and label in bits, (A,), averaged over draws where there are draws."""
    result = posterior.result
    tables, shares = result.table_draws, result.prevalence_draws
    if tables is None or shares is None:
        return from_point(information(informative_part(posterior, result.table), result.prevalence))
    pairs = zip(np.asarray(informative_part(posterior, tables)), shares, strict=True)
    return from_draws(np.stack([information(table, share) for table, share in pairs]), level)


def plot_estimates(
    posterior: Fit,
    *,
    n: int | None = None,
    unit: str | None = None,
    ridges: bool = False,
    ax: Axes | None = None,
    level: float = 0.95,
) -> Axes:
    """Draws scores of objects that were compared or ranked, else truths that are numbers, the largest on top.

    Of objects, the upper axis says how often each would win against an average one. Shades are tiers: a new one
    begins at the first object that the best of the tier is better than with 95 % probability. On the right is the
    probability that an object is better than the next.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        n: draws the n on top and the n at the end alone, and no tiers; by default all.
        unit: of numbers, written beside the axis.
        ridges: as of ``plot_annotators``.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        MethodError: when truths are classes, or the method ranks no objects, a level is not between 0 and 1, ``n``
            is no whole number above 0, or the engine gives points, which have no ridges.

    Examples:
        >>> ratings = crowdppl.datasets.example("real")
        >>> posterior = crowdppl.fit("gaussian_annotators", ratings, inference="em", seed=0)
        >>> posterior.plot_estimates(unit="points").get_xlabel()
        'truth in points, line: 95% interval'
    """
    objects = (parts := posterior.data.alphabet.kind.parts) is not None and parts.ranks
    if not objects and not isinstance(posterior.result.truth, NumberTruth):
        raise MethodError(f"{posterior.method} has classes for truths; plot_items shows how sure they are")
    unit = posterior.data.alphabet.kind.unit if unit is None else unit
    if not (unit is None or isinstance(unit, str)):
        raise MethodError(f'unit= holds {validation.kind_of(unit)}; give text, such as "points"')
    ridges, value = validation.switch("ridges", ridges), "score" if objects else "estimate"
    read: Callable[[Fit, float], pd.DataFrame] = ranking if objects else truth
    table = read(posterior, level)

    def at(level: float) -> Estimate:
        rows = read(posterior, level).loc[table.index]
        middle, low, high = rows[[value, "low", "high"]].to_numpy(float).T
        if not objects:  # ends of an arc that crosses 0 lie on both sides of its middle
            space = number_space(posterior.data.space)
            low, high = (middle + space.error(end, middle) for end in (low, high))
        return Estimate(middle, np.full(len(middle), np.nan), low, high)

    found = at(level)
    order, left_out = _ends(found.mean, n, ridges)
    names = short_names(" ".join(map(str, x)) if isinstance(x, tuple) else x for x in table.index)
    axes, drawn, named = _draw(posterior, at, found, order, names, ridges, None, ax)
    _mark_gap(axes, len(order), left_out)
    if objects and table.index.nlevels == 1:
        _draw_wins(axes)
        if drawn and not left_out:
            _draw_tiers(axes, order_probabilities(posterior), named)
    title = "score (mean log-skill)" if objects else "truth" + (f" in {unit}" if unit else "")
    axes.set_xlabel(_named(title, drawn, ridges, level))
    what = "object" if objects else "item"
    axes.set_ylabel(what if named else f"{len(order):,} {what}s")
    return axes


def _draw_wins(axes: Axes) -> None:
    """An upper axis: how often an object of a score wins against one of score 0."""
    low, high = 1 / (1 + np.exp(-np.array(axes.get_xlim())))
    every = (0.01, 0.1, 0.5, 0.9, 0.99) if high - low > 0.9 else (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    shares = [p for p in every if low <= p <= high]
    upper = axes.secondary_xaxis("top")
    upper.set_xticks([float(np.log(p / (1 - p))) for p in shares], [f"{p:.0%}" for p in shares], fontsize="small")
    upper.set_xlabel("wins against an average object", fontsize="small")


def _draw_tiers(axes: Axes, before: pd.DataFrame, named: bool) -> None:
    """Shades every second tier, and writes how probably each object is better than the next below."""
    tier = tiers(before)
    for number in range(2, tier[-1] + 1, 2):
        place = len(tier) - 1 - np.flatnonzero(tier == number)
        axes.axhspan(place.min() - 0.5, place.max() + 0.5, color="0.93", linewidth=0, zorder=0)
    axes.set_title(f"{tier[-1]} {'tiers' if tier[-1] > 1 else 'tier'} of {len(tier):,} objects", fontsize="medium")
    if named:
        for n, p in enumerate(np.diagonal(before.to_numpy(), 1)):
            write_beside(axes, len(tier) - 1.5 - n, f"{p:.0%}" if n else f"{p:.0%} above the next")


def _draw_intervals(shown: Estimate, names: list[str], ax: Axes | None) -> tuple[Axes, bool, bool]:
    """Draws a row for each estimate, the last on top; tells whether there are intervals, and rows are named."""
    place, few, drawn = np.arange(len(names)), len(names) <= MAX_ROWS, bool(np.isfinite(shown.low).any())
    height = max(2.6, 1.2 + (0.2 if len(names) <= MAX_POINTS else 0.15) * len(names))
    axes = axes_or_new(ax, 6.4, height if few else 7.2)
    if drawn:
        axes.hlines(place, shown.low, shown.high, color="0.6", linewidth=1.5 if few else 0.8)
    axes.plot(shown.mean, place, "o", color=ACCENT, markersize=5 if few else 2.5)
    axes.set_ylim(-0.7, len(names) - 0.3)
    return axes, drawn, name_rows(axes, names)
