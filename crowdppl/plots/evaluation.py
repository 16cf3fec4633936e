"""Plots of scores: reliability, risk against coverage, and comparisons of methods."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.intervals import check_level
from crowdppl.core.validation import whole_number
from crowdppl.data.gold import probability_array
from crowdppl.data.kinds.space import number_space
from crowdppl.evaluation.evaluate import matched, table_of
from crowdppl.evaluation.metrics import Sample, Scored, risk_coverage
from crowdppl.evaluation.number_metrics import evaluate_numbers
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import ACCENT, DARK, LIGHT, MIDDLE, axes_or_new, legend_below, short, write_beside
from crowdppl.results.truths import truth as truth_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIRST = 0.05
"""Share of items from which on a curve is drawn."""
Z = 1.96
"""Normal quantile of the 95 % intervals."""


def plot_reliability(
    posterior: Fit | pd.DataFrame, gold: pd.Series | Mapping[Any, Any], *, bins: int = 10, ax: Axes | None = None
) -> Axes:
    """Draws how often labels are right against how sure they are: points below the diagonal are too sure.

    A point is the share of right labels of a bin of items, at the mean of their probabilities, with a 95 % interval
    (Wilson, 1927). The strip below counts items by probability. Where truths are numbers, it is the share of truths
    that intervals of a probability hold.

    Args:
        posterior: a posterior, or its probabilities (items x classes).
        gold: the true class, or number, of items by their ids.
        bins: of about as many items each; bins less than a hundredth wide are joined.
        ax: axes to draw on; made if absent.

    Raises:
        DataError, MethodError: as ``crowdppl.evaluate``; MethodError for fewer than one bin.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 3}, seed=0)
        >>> posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
        >>> crowdppl.plot_reliability(posterior, crowd.truth).get_ylabel()
        'share of labels that are right'
    """
    bins = whole_number("bins", bins, 1, "10 are usual")
    if isinstance(posterior, Fit) and isinstance(posterior.result.truth, NumberTruth):
        return _coverage(posterior, gold, ax)
    p, truth, _, _ = matched(posterior, gold)
    scored = Scored(p, truth)
    edges = np.unique(np.quantile(scored.confidence, np.arange(1, bins) / bins).round(2))
    home = np.searchsorted(edges, scored.confidence)
    n = np.bincount(home).astype(float)
    used = n > 0
    sure, right = ((np.bincount(home, x) / np.maximum(n, 1))[used] for x in (scored.confidence, scored.right))
    axes = _square(ax, sure, right, n[used])
    if ax is None:  # no layout engine keeps a square and the strip below it
        axes.figure.get_figure(root=True).set_layout_engine("none")
        axes.set_position((0.15, 0.28, 0.8, 0.65))
    axes.tick_params(labelbottom=False)
    strip = axes.inset_axes((0.0, -0.2, 1.0, 0.16))
    strip.hist(scored.confidence, bins=50, range=(0, 1), color=MIDDLE)
    strip.set(xlim=axes.get_xlim(), xlabel="probability of the label", ylabel="items")
    strip.locator_params(axis="y", nbins=2, integer=True)
    axes.set_ylabel("share of labels that are right")
    title = (
        f"{len(p):,} labels are {scored.confidence.mean():.0%} sure on average; {scored.right.mean():.0%} are right"
    )
    axes.set_title(title, fontsize="medium")
    return axes


def _square(ax: Axes | None, said: np.ndarray, found: np.ndarray, n: np.ndarray) -> Axes:
    """Square axes from 0 to 1 with a diagonal, and points with intervals of shares of n."""
    axes = axes_or_new(ax, 5.2, 6.4)
    axes.plot([0, 1], [0, 1], ":", color="0.4", linewidth=1.2, label="as sure as right", zorder=2)
    axes.vlines(said, *wilson(found, n), color=MIDDLE, linewidth=1.5, label="95% interval", zorder=3)
    axes.plot(said, found, "o", color=ACCENT, markersize=5, clip_on=False, label="found", zorder=4)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.legend(loc="upper left", fontsize="small", frameon=False)
    return axes


def _coverage(posterior: Fit, gold: Any, ax: Axes | None) -> Axes:
    """Which share of truths lies in intervals, against their probability."""
    levels = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
    scored = [evaluate_numbers(posterior, gold, 0, level, 0) for level in levels.tolist()]
    found, n = np.array([each.coverage for each in scored]), scored[0].n
    axes = _square(ax, levels, found, np.full(len(levels), float(n)))
    axes.set(xlabel="probability of the interval", ylabel="share of truths in it")
    axes.set_title(f"{n:,} items: intervals of 90% hold {found[-2]:.0%} of truths", fontsize="medium")
    return axes


def wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the 95 % score interval of a share of n, elementwise (Wilson, 1927); shares of ties are fractions."""
    scale = 1 + Z**2 / n
    middle = (share + Z**2 / (2 * n)) / scale
    reach = Z / scale * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return middle - reach, middle + reach


def plot_risk_coverage(
    posterior: Fit | pd.DataFrame, gold: pd.Series | Mapping[Any, Any] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draws how many labels are wrong among those kept, if the surest are kept.

    Without known truths, that is what probabilities expect (dashed line). With them, the curve is what is found,
    with a 95 % interval of each share alone (Wilson, 1927) as a band; items as sure as each other come in any
    order, in expectation, so that its mean is the area ``aurc`` of ``crowdppl.evaluate``. Diamonds show how sure
    the last item is that is kept. Other lines are those of random order, and of a perfect one, in which all errors
    come last. Curves start at 5 % of the items. Where truths are numbers, it is the mean absolute error instead.

    Args:
        posterior: a posterior, or its probabilities (items x classes).
        gold: the true class, or number, of items by their ids.
        ax: axes to draw on; made if absent.

    Raises:
        DataError, MethodError: as ``crowdppl.evaluate``.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 3}, seed=0)
        >>> posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
        >>> crowdppl.plot_risk_coverage(posterior).get_ylabel()
        'share of wrong labels among them'
    """
    if isinstance(posterior, Fit) and isinstance(posterior.result.truth, NumberTruth):
        return _number_risk(posterior, gold, ax)
    if gold is None:
        p = probability_array(table_of(posterior))
    else:
        p, truth, _, _ = matched(posterior, gold)
    expected = _running_mean(np.sort(1 - p.max(1)))
    axes = axes_or_new(ax, 6.0, 4.8)
    top = float(expected.max())
    axes.plot(*_kept(expected), "--", color=DARK, linewidth=1.3, label="expected by the probabilities", zorder=3)
    title = f"{len(p):,} items, {expected[-1]:.1%} expected to be wrong"
    if gold is not None:
        sample = Sample.of(p, truth)
        risk = risk_curve(sample)
        low, high = wilson(risk, np.arange(1, len(risk) + 1))
        coverage, low = _kept(low)
        axes.fill_between(coverage, low, _kept(high)[1], color=LIGHT, linewidth=0, label="95% interval", zorder=1)
        perfect = np.clip(1 - len(risk) * (1 - risk[-1]) / np.arange(1, len(risk) + 1), 0, None)
        _draw_found(axes, risk, perfect)
        _mark_thresholds(axes, risk_coverage(p, truth))
        top = max(top, float(_kept(high)[1].max()))
        title += f", {risk[-1]:.1%} are"
    axes.set(ylim=(0, min(1.0, 1.1 * top) or 1.0), ylabel="share of wrong labels among them")
    axes.set_title(title, fontsize="medium")
    return _named(axes)


def _number_risk(posterior: Fit, gold: Any, ax: Axes | None) -> Axes:
    """Mean absolute errors of the items kept, those of the narrowest intervals first."""
    axes, table = axes_or_new(ax, 6.0, 4.8), truth_table(posterior)
    sd, top = table["sd"].to_numpy(float), 0.0
    if gold is not None:
        scored = evaluate_numbers(posterior, gold, 0, 0.95, 0).scored
        sd = sd[posterior.data.item_index.get_indexer(scored.index)]
        space = number_space(posterior.data.space)
        wrong = np.abs(space.error(scored["estimate"].to_numpy(float), scored["truth"].to_numpy(float)))
        risk = _running_mean(wrong[np.argsort(sd, kind="stable")])
        _draw_found(axes, risk, _running_mean(np.sort(wrong)))
        top = float(_kept(risk)[1].max())
    expected = _running_mean(np.sqrt(2 / np.pi) * np.sort(sd))  # of a Gaussian
    axes.plot(*_kept(expected), "--", color=DARK, linewidth=1.3, label="expected by the intervals", zorder=3)
    axes.set(ylim=(0, 1.1 * max(top, float(expected.max()))), ylabel="mean absolute error among them")
    axes.set_title(f"{len(sd):,} items, expected to be off by {expected[-1]:.3g} on average", fontsize="medium")
    return _named(axes)


def _running_mean(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.cumsum(x) / np.arange(1, len(x) + 1))


def _kept(curve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A curve over coverage from 5 % on: before, a few items decide it."""
    coverage = np.arange(1, len(curve) + 1) / len(curve)
    return coverage[coverage >= FIRST], curve[coverage >= FIRST]


def _draw_found(axes: Axes, risk: np.ndarray, perfect: np.ndarray) -> None:
    """The curve that was found, between those of random and of perfect order."""
    axes.plot(*_kept(risk), color=ACCENT, linewidth=1.8, label="found", zorder=4)
    axes.axhline(risk[-1], color=MIDDLE, linestyle=":", linewidth=1.2, label="random order", zorder=2)
    axes.plot(*_kept(perfect), color=MIDDLE, linewidth=1, linestyle="-.", label="perfect order", zorder=2)


def _named(axes: Axes) -> Axes:
    """Axes of a curve over coverage, with a legend."""
    from matplotlib.ticker import PercentFormatter  # slow to import

    axes.set(xlim=(0, 1), xlabel="share of items kept, the surest first")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    if axes.get_ylabel().startswith("share"):
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    legend_below(axes, 3)
    return axes


def risk_curve(sample: Sample) -> np.ndarray:
    """Expected share of errors among the n surest items, for n = 1 ... N, (N,)."""
    items, wrong = (x[0, ::-1] for x in sample.ranked)
    return _running_mean(np.repeat(wrong / items, items.astype(np.int64)))


def _mark_thresholds(axes: Axes, table: pd.DataFrame) -> None:
    """Marks on the curve where the probability of the label falls below round numbers, as far as there is room."""
    from matplotlib.patheffects import withStroke  # slow to import

    edge, last = [withStroke(linewidth=2, foreground="white")], 0.0
    for least in (0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5):
        kept = table[table.index >= least]
        if not len(kept):
            continue
        coverage, risk = kept.iloc[-1][["coverage", "risk"]]
        if coverage < last + 0.07 or coverage == 1:  # names would overlap
            continue
        last = coverage
        axes.plot(coverage, risk, "D", color=ACCENT, markersize=4.5, zorder=4)
        text = f"≥ {least:.2f}".replace("0.", ".")
        # To the upper left, where a rising curve is not.
        place: dict[str, Any] = {"xytext": (-6, 6), "textcoords": "offset points", "ha": "right", "zorder": 5}
        axes.annotate(text, (coverage, risk), fontsize="small", path_effects=edge, **place)


def plot_comparison(
    scores: pd.DataFrame, unit: str = "a label", *, ax: Axes | None = None, level: float = 0.95
) -> Axes:
    """Draws how much less probable each method finds the held-out labels than the best one, which is on top.

    Intervals are normal, from the standard errors of the differences, in which labels of one item, sequence or set
    count as one observation. Where one holds 0, the labels do not show that the best is better. The best has none;
    that it was chosen among several is not accounted for. On the right are the stacking weights.

    Args:
        scores: the table of a ``crowdppl.compare``, the best method first.
        unit: what was left out, in words: "a label" or "an item".
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        MethodError: when the level is not between 0 and 1.
    """
    check_level(level)
    table = scores.iloc[::-1]
    reach = NormalDist().inv_cdf((1 + level) / 2) * table["difference_se"].to_numpy()
    difference, place = table["difference"].to_numpy(), np.arange(len(table))
    names = [f"{short(name)} ({engine})" for name, engine in zip(table.index, table["inference"], strict=True)]
    axes = axes_or_new(ax, 5.0 + 0.08 * max(map(len, names)), 1.6 + 0.32 * len(table))
    axes.axvline(0, color=MIDDLE, linestyle=":", linewidth=1, zorder=1)
    axes.hlines(place[:-1], (difference - reach)[:-1], (difference + reach)[:-1], color="0.6", linewidth=1.5)
    axes.plot(difference, place, "o", color=ACCENT, markersize=5, zorder=3)
    for n, weight in enumerate(table["weight"]):
        write_beside(axes, n, f"{weight:.2f}")
    write_beside(axes, len(table) - 0.5, "weight", va="bottom")
    axes.locator_params(axis="x", nbins=6)
    axes.set_yticks(place, names)
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.set_xlabel(
        f"log-probability of {unit} left out, less that of the best\n(nats, line: {level:.0%} interval)"
    )
    best = scores.iloc[0]
    title = f"{short(scores.index[0])}: {best['log_p']:.4f} ± {best['se']:.4f} nats {unit}"
    axes.set_title(title, fontsize="medium")
    return axes
