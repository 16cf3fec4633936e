"""Plots of scores: reliability, risk against coverage, and comparisons of methods."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.intervals import check_level
from crowdppl.core.validation import whole_number
from crowdppl.evaluation.evaluate import matched
from crowdppl.evaluation.metrics import BINS, Sample, aurc, reliability_bins, risk_coverage
from crowdppl.inference.result import Fit
from crowdppl.plots.axes import ACCENT, LIGHT, MIDDLE, axes_or_new, legend_below, short, write_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Z = 1.96
"""Normal quantile of the 95 % intervals."""


def plot_reliability(
    posterior: Fit | pd.DataFrame, gold: pd.Series | Mapping[Any, Any], *, bins: int = BINS, ax: Axes | None = None
) -> Axes:
    """Draws how often labels are right against how sure they are: points below the diagonal are too sure.

    A point is the share of right labels in a bin of their probability, at the bin's mean probability, with a
    95 % interval (Wilson, 1927). Bars in the background are the shares of items in the bins, on the same scale.

    Args:
        posterior: a posterior, or its probabilities (items x classes).
        gold: the true class of items by their ids.
        bins: equal bins of the probability from 0 to 1.
        ax: axes to draw on; made if absent.

    Raises:
        DataError: as ``crowdppl.evaluate``.
        MethodError: for fewer than one bin.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 3}, seed=0)
        >>> posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
        >>> crowdppl.plot_reliability(posterior, crowd.truth).get_xlabel()
        'probability of the label'
    """
    bins = whole_number("bins", bins, 1, "15 are usual")
    p, truth, _, _ = matched(posterior, gold)
    used = reliability_bins(p, truth, bins).query("n > 0")
    n, confidence, accuracy = (used[name].to_numpy(np.float64) for name in ("n", "confidence", "accuracy"))
    axes = axes_or_new(ax, 6.0, 4.8)
    width = used["high"] - used["low"]
    axes.bar(used["low"], n / n.sum(), width, align="edge", color=LIGHT, label="share of items", zorder=1)
    axes.plot([0, 1], [0, 1], ":", color="0.4", linewidth=1.2, label="calibrated", zorder=2)
    axes.vlines(confidence, *wilson(accuracy, n), color=MIDDLE, linewidth=1.5, label="95% interval", zorder=3)
    points: dict[str, Any] = {"color": ACCENT, "markersize": 5, "clip_on": False, "zorder": 4}
    axes.plot(confidence, accuracy, "o", label="share right", **points)
    start = max(0.0, min(1 / p.shape[1], used["low"].min()))  # no label is less probable
    axes.set(xlim=(start - 0.02 * (1 - start), 1 + 0.02 * (1 - start)), ylim=(0, 1.02))
    axes.set(xlabel="probability of the label", ylabel="share of labels that are right")
    error = (n * np.abs(confidence - accuracy)).sum() / n.sum()
    axes.set_title(f"{len(p):,} items, calibration error {error:.3f}", fontsize="medium")
    legend_below(axes, 4)
    return axes


def wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the 95 % score interval of a share of n, elementwise (Wilson, 1927); shares of ties are fractions."""
    scale = 1 + Z**2 / n
    middle = (share + Z**2 / (2 * n)) / scale
    reach = Z / scale * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return middle - reach, middle + reach


def plot_risk_coverage(
    posterior: Fit | pd.DataFrame, gold: pd.Series | Mapping[Any, Any], *, ax: Axes | None = None
) -> Axes:
    """Draws which share of labels is wrong if only the surest items are kept.

    The curve is the share of errors among the n items of highest probability, for n = 1 ... N; equally sure items
    come in random order, in expectation, so that its mean is the area ``aurc`` of ``crowdppl.evaluate``. The band
    is a 95 % interval of each share alone (Wilson, 1927). Diamonds show how sure the last item is that is kept. In
    random order items would follow the dotted line, and if all errors came last, the dashed one.

    Args:
        posterior: a posterior, or its probabilities (items x classes).
        gold: the true class of items by their ids.
        ax: axes to draw on; made if absent.

    Raises:
        DataError: as ``crowdppl.evaluate``.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 3}, seed=0)
        >>> posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
        >>> crowdppl.plot_risk_coverage(posterior, crowd.truth).get_ylabel()
        'risk: share of wrong labels among them'
    """
    p, truth, _, _ = matched(posterior, gold)
    sample = Sample.of(p, truth)
    risk = risk_curve(sample)
    n = np.arange(1, len(risk) + 1)
    coverage, (low, high) = n / len(n), wilson(risk, n)
    axes = axes_or_new(ax, 6.0, 4.8)
    axes.fill_between(coverage, low, high, color=LIGHT, linewidth=0, label="95% interval", zorder=1)
    axes.axhline(risk[-1], color=MIDDLE, linestyle=":", linewidth=1.2, label="random order", zorder=2)
    best = np.clip(1 - len(n) * (1 - risk[-1]) / n, 0, None)
    axes.plot(coverage, best, "--", color=MIDDLE, linewidth=1.2, label="errors last", zorder=2)
    axes.plot(coverage, risk, color=ACCENT, linewidth=1.5, label="surest first", zorder=3)
    _mark_thresholds(axes, risk_coverage(p, truth))
    settled = n >= 0.05 * len(n)  # before, the band is too wide to decide how high the axis goes
    axes.set(xlim=(0, 1), ylim=(0, min(1.0, 1.1 * max(float(high[settled].max()), float(risk[settled].max())))))
    axes.set_xlabel("coverage: share of items kept, the surest first")
    axes.set_ylabel("risk: share of wrong labels among them")
    axes.set_title(f"{len(n):,} items, area under the curve {aurc(sample)[0]:.4f}", fontsize="medium")
    legend_below(axes, 4)
    return axes


def risk_curve(sample: Sample) -> np.ndarray:
    """Expected share of errors among the n surest items, for n = 1 ... N, (N,)."""
    items, wrong = (x[0, ::-1] for x in sample.ranked)
    each = np.repeat(wrong / items, items.astype(np.int64))
    return np.asarray(np.cumsum(each) / np.arange(1, len(each) + 1))


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
        place: dict[str, Any] = {"xytext": (-6, 3), "textcoords": "offset points", "ha": "right", "zorder": 5}
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
