"""Plots of estimates with intervals, a row each: annotators, objects, and truths that are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.core import validation
from crowdppl.core.intervals import Estimate, check_level, from_draws, from_point
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import ACCENT, MAX_POINTS, MIDDLE, axes_or_new, name_rows, short_names
from crowdppl.results import intervals
from crowdppl.results.annotators import information, informative_part
from crowdppl.results.choices import entropy
from crowdppl.results.rankings import ranking
from crowdppl.results.truths import truth

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_annotators(
    posterior: Fit, *, ax: Axes | None = None, level: float = 0.95, show: str = "information"
) -> Axes:
    """Draws what each annotator's labels are worth, with intervals, the best on top.

    The information of a label is its mutual information with the truth, in bits: 0 for a spammer, and at most
    the entropy of the prevalence (dotted line). An annotator who always names a frequent class is accurate and
    informs of nothing. Where there are draws, the information is averaged over them.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.
        show: "information" or "accuracy", by which annotators are then ordered.

    Raises:
        MethodError: for another ``show``, or a level that is not between 0 and 1.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_annotators().get_xlabel()
        'information of a label (bits), line: 95% interval'
    """
    validation.one_of("show", show, ("information", "accuracy"))
    check_level(level)
    result, accurate = posterior.result, show == "accuracy"
    found = intervals.accuracy(posterior, level) if accurate else _information(posterior, level)
    order = np.argsort(found.mean, kind="stable")
    shown, names = found.at(order), np.array(short_names(posterior.data.annotators))[order]
    axes, drawn, every = _draw_intervals(shown, names.tolist(), ax)
    mark, text = 1 / posterior.data.n_classes, "chance"
    if not accurate:
        mark, text = float(entropy(result.prevalence[None])[0]), "entropy of the truth"
    end = 1.0 if accurate else 1.02 * max(mark, float(np.nanmax(shown.high if drawn else shown.mean)))
    axes.axvline(mark, color=MIDDLE, linestyle=":", linewidth=1)
    axes.set_xlim(0, end)
    above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "color": "0.35"}
    side = "right" if mark > end / 2 else "center"
    axes.annotate(text, (mark, 1), (0, 3), ha=side, va="bottom", fontsize="small", **above)
    title = "accuracy" if accurate else "information of a label (bits)"
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    best = "most accurate" if accurate else "most informative"
    axes.set_ylabel(f"{'annotator' if every else f'{len(order):,} annotators'},\n{best} on top")
    return axes


def _information(posterior: Fit, level: float) -> Estimate:
    """Mutual information of truth and label in bits, (A,), averaged over draws where there are draws."""
    result = posterior.result
    tables, shares = result.table_draws, result.prevalence_draws
    if tables is None or shares is None:
        return from_point(information(informative_part(posterior, result.table), result.prevalence))
    pairs = zip(np.asarray(informative_part(posterior, tables)), shares, strict=True)
    return from_draws(np.stack([information(table, share) for table, share in pairs]), level)


def plot_estimates(posterior: Fit, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Draws scores of objects that were compared or ranked, else truths that are numbers, the largest on top.

    Args:
        posterior: what a fit returned; without intervals where the engine gives points.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        MethodError: when truths are classes, or the method ranks no objects, or a level is not between 0 and 1.

    Examples:
        >>> ratings = crowdppl.datasets.example("real")
        >>> crowdppl.fit("gaussian_annotators", ratings, inference="em", seed=0).plot_estimates().get_xlabel()
        'truth, line: 95% interval'
    """
    objects = (parts := posterior.data.alphabet.kind.parts) is not None and parts.ranks
    if not objects and not isinstance(posterior.result.truth, NumberTruth):
        raise MethodError(f"{posterior.method} has classes for truths; plot_items shows how sure they are")
    value, what = ("score", "object") if objects else ("estimate", "item")
    table = ranking(posterior, level) if objects else truth(posterior, level)
    table = table.sort_values(value, kind="stable")
    middle, low, high = table[[value, "low", "high"]].to_numpy(float).T
    if not objects:  # ends of an arc that crosses 0 lie on both sides of its middle
        space = number_space(posterior.data.space)
        low, high = (middle + space.error(end, middle) for end in (low, high))
    names = short_names(" ".join(map(str, x)) if isinstance(x, tuple) else x for x in table.index)
    axes, drawn, every = _draw_intervals(Estimate(middle, np.full(len(middle), np.nan), low, high), names, ax)
    unit = posterior.data.alphabet.kind.unit
    title = "score (mean log-skill)" if objects else "truth" + (f" in {unit}" if unit else "")
    axes.set_xlabel(f"{title}, line: {level:.0%} interval" if drawn else title)
    axes.set_ylabel(what if every else f"{len(names):,} {what}s")
    return axes


def _draw_intervals(shown: Estimate, names: list[str], ax: Axes | None) -> tuple[Axes, bool, bool]:
    """Draws a row for each estimate, the last on top; tells whether there are intervals, and all rows are named."""
    place, few, drawn = np.arange(len(names)), len(names) <= MAX_POINTS, bool(np.isfinite(shown.low).any())
    axes = axes_or_new(ax, 6.4, max(2.6, 1.2 + 0.24 * len(names)) if few else 7.2)
    if drawn:
        axes.hlines(place, shown.low, shown.high, color="0.6", linewidth=1.5 if few else 0.8)
    axes.plot(shown.mean, place, "o", color=ACCENT, markersize=5 if few else 2.5)
    axes.set_ylim(-0.7, len(names) - 0.3)
    return axes, drawn, name_rows(axes, names)
