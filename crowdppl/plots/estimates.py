"""Plots of estimates with intervals, a row each: annotators, objects, and truths that are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core import validation
from crowdppl.core.intervals import Estimate, check_level, from_draws, from_point
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import ACCENT, MAX_POINTS, MIDDLE, axes_or_new, name_rows, short_names, write_beside
from crowdppl.results.annotators import annotators, information, informative_part
from crowdppl.results.choices import entropy
from crowdppl.results.mapped_tables import as_shown
from crowdppl.results.rankings import order_probabilities, ranking, tiers
from crowdppl.results.truths import truth

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_ROWS = 100
"""Estimates up to which new axes have room for all names."""


def plot_annotators(
    posterior: Fit, *, n: int | None = None, show: str | None = None, ax: Axes | None = None, level: float = 0.95
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
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        MethodError: for another ``show``, a method that knows nothing of annotators, an ``n`` that is no whole
            number above 0, or a level that is not between 0 and 1.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_annotators().get_xlabel()
        'accuracy: share of labels that are right, line: 95% interval'
    """
    check_level(level)
    most = None if n is None else validation.whole_number("n", n, 1, "10 draws the best and the worst ten")
    posterior = as_shown(posterior)
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
    found = _information(posterior, level) if chosen == "information" else _column(table, chosen)
    order = np.argsort(found.mean, kind="stable")
    order = order[~np.isnan(found.mean[order])]
    left_out = 0 if most is None else max(len(order) - 2 * most, 0)
    if left_out and most is not None:
        order = np.concatenate([order[:most], order[-most:]])
    labels = [f"{who} ({times:,})" for who, times in zip(short_names(table.index), table["labels"], strict=True)]
    axes, drawn, named = _draw_intervals(found.at(order), [labels[code] for code in order], ax)
    if left_out and most is not None:
        axes.axhline(most - 0.5, color="0.35", linewidth=0.8)
        write_beside(axes, most - 0.5, f"{left_out:,} more")
    title, best = _words(posterior, chosen)
    if chosen == "accuracy":
        axes.set_xlim(0, 1)
        _mark(axes, 1 / posterior.data.n_classes, "chance")
    elif np.nanmin(found.low if drawn else found.mean) < 0 < np.nanmax(found.high if drawn else found.mean):
        _mark(axes, 0.0, "")
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    who = "annotator (labels)" if named else f"{len(order):,} annotators (n=20 names some)"
    axes.set_ylabel(f"{who},\n{best} on top")
    return axes


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


def plot_estimates(posterior: Fit, *, unit: str | None = None, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Draws scores of objects that were compared or ranked, else truths that are numbers, the largest on top.

    Of objects, the upper axis says how often each would win against an average one. Shades are tiers: a new one
    begins at the first object that the best of the tier is better than with 95 % probability. On the right is the
    probability that an object is better than the next.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        unit: of numbers, written beside the axis.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        MethodError: when truths are classes, or the method ranks no objects, or a level is not between 0 and 1.

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
    value, what = ("score", "object") if objects else ("estimate", "item")
    table = ranking(posterior, level) if objects else truth(posterior, level)
    table = table.sort_values(value, kind="stable")
    middle, low, high = table[[value, "low", "high"]].to_numpy(float).T
    if not objects:  # ends of an arc that crosses 0 lie on both sides of its middle
        space = number_space(posterior.data.space)
        low, high = (middle + space.error(end, middle) for end in (low, high))
    names = short_names(" ".join(map(str, x)) if isinstance(x, tuple) else x for x in table.index)
    shown = Estimate(middle, np.full(len(middle), np.nan), low, high)
    axes, drawn, named = _draw_intervals(shown, names, ax)
    if objects and table.index.nlevels == 1:
        _draw_wins(axes)
        if drawn:
            _draw_tiers(axes, order_probabilities(posterior), named)
    title = "score (mean log-skill)" if objects else "truth" + (f" in {unit}" if unit else "")
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    axes.set_ylabel(what if named else f"{len(names):,} {what}s")
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
