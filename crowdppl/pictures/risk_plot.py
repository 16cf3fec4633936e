"""The picture of what is gained by leaving unsure items to an expert: share of errors against share kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.pictures.canvas import DARK, LIGHT, MIDDLE, axes_or_new
from crowdppl.pictures.reliability import wilson
from crowdppl.scoring.metrics import matched
from crowdppl.scoring.scores import RankedErrors, risk_coverage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.posterior import Posterior

THRESHOLDS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Probabilities that are marked on the curve."""
APART = 0.07
"""Share of items between two marks, so that their names do not overlap."""
SETTLED = 0.05
"""Share of items from which on the band decides how high the axis goes."""


def plot_risk_coverage(
    posterior: Posterior | pd.DataFrame, gold: pd.Series | Mapping[Any, Any], *, ax: Axes | None = None
) -> Axes:
    """Draws which share of labels is wrong if only the surest items are kept.

    The curve is the share of errors among the n items of highest probability, for n = 1 ... N; equally sure items
    come in random order, in expectation, so that its mean is the area ``aurc`` of ``crowdppl.evaluate``. The band
    is a 95 % interval of each share alone (Wilson, 1927). Diamonds say how sure the last item is that is kept. In
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
    ranked = RankedErrors.of(p, truth)
    risk = risk_curve(ranked)
    n = np.arange(1, len(risk) + 1)
    low, high = wilson(risk, n)
    axes = axes_or_new(ax, 6.0, 4.8)
    axes.fill_between(n / len(n), low, high, color=LIGHT, linewidth=0, label="95% interval", zorder=1)
    axes.axhline(risk[-1], color=MIDDLE, linestyle=":", linewidth=1.2, label="random order", zorder=2)
    best = np.clip(1 - len(n) * (1 - risk[-1]) / n, 0, None)
    axes.plot(n / len(n), best, "--", color=MIDDLE, linewidth=1.2, label="errors last", zorder=2)
    axes.plot(n / len(n), risk, color=DARK, linewidth=1.5, label="surest first", zorder=3)
    _thresholds(axes, risk_coverage(p, truth))
    settled = n >= SETTLED * len(n)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, min(1.0, 1.1 * max(float(high[settled].max()), float(risk[settled].max()))))
    axes.set_xlabel("coverage: share of items kept, the surest first")
    axes.set_ylabel("risk: share of wrong labels among them")
    axes.set_title(f"{len(n):,} items, area under the curve {float(ranked.aurc()):.4f}", fontsize="medium")
    # Below the axes, for the curve may lie anywhere on them.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, fontsize="small", frameon=False)
    return axes


def risk_curve(ranked: RankedErrors) -> np.ndarray:
    """Expected share of errors among the n surest items, for n = 1 ... N, (N,)."""
    items, wrong = ranked.items[::-1].astype(np.int64), ranked.wrong[::-1]
    each = np.repeat(wrong / items, items)
    out: np.ndarray = np.cumsum(each) / np.arange(1, len(each) + 1)
    return out


def _thresholds(axes: Axes, table: pd.DataFrame) -> None:
    """Marks on the curve where the probability of the label falls below round numbers, as far as there is room."""
    from matplotlib.patheffects import withStroke

    edge = [withStroke(linewidth=2, foreground="white")]
    confidence, last = table.index.to_numpy(), 0.0
    for least in THRESHOLDS:
        kept = np.flatnonzero(confidence >= least)
        if not len(kept):
            continue
        coverage, risk = table.iloc[kept[-1]][["coverage", "risk"]]
        if coverage < last + APART or coverage == 1:
            continue
        last = coverage
        axes.plot(coverage, risk, "D", color=DARK, markersize=4.5, zorder=4)
        text = f"≥ {least:.2f}".replace("0.", ".")
        # To the upper left, where a rising curve is not.
        place: dict[str, Any] = {"xytext": (-6, 3), "textcoords": "offset points", "ha": "right", "zorder": 5}
        axes.annotate(text, (coverage, risk), fontsize="small", path_effects=edge, **place)
