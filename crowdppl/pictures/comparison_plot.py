"""The picture of a comparison: how far each method stays behind the best one, and how sure that is."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.pictures.canvas import DARK, MIDDLE, axes_or_new, short
from crowdppl.pictures.glyphs import legible
from crowdppl.statistics.estimates import check_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.choosing.comparison import Comparison


def plot_comparison(comparison: Comparison, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Draws how much less probable each method finds what was left out than the best one, which is on top.

    Intervals are normal, from the standard errors of the differences, in which an item's labels count as one
    observation. Where one holds 0, the labels do not say that the best is better. The best has none; that it was
    chosen among several is not accounted for. Beside stand the weights in the stack of predictions.

    Args:
        comparison: what ``crowdppl.compare`` returned.
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        MethodError: when the level is not between 0 and 1.
    """
    check_level(level)
    table = comparison.table.iloc[::-1]
    reach = NormalDist().inv_cdf((1 + level) / 2) * table["difference_se"].to_numpy()
    difference, place = table["difference"].to_numpy(), np.arange(len(table))
    names = [f"{short(name)} ({engine})" for name, engine in zip(table.index, table["inference"], strict=True)]
    axes = axes_or_new(ax, 5.0 + 0.08 * max(map(len, names)), 1.6 + 0.32 * len(table))
    axes.axvline(0, color=MIDDLE, linestyle=":", linewidth=1, zorder=1)
    axes.hlines(place[:-1], (difference - reach)[:-1], (difference + reach)[:-1], color="0.6", linewidth=1.5)
    axes.plot(difference, place, "o", color=DARK, markersize=5, zorder=3)
    beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    for n, weight in enumerate(table["weight"]):
        axes.annotate(f"{weight:.2f}", (1, n), (6, 0), va="center", fontsize="small", **beside)
    axes.annotate("weight", (1, len(table) - 0.5), (6, 0), va="bottom", fontsize="small", **beside)
    axes.locator_params(axis="x", nbins=6)
    axes.set_yticks(place, names)
    axes.set_ylim(-0.6, len(table) - 0.4)
    unit = "an item" if comparison.whole_items else "a label"
    axes.set_xlabel(
        f"log-probability of {unit} left out, less that of the best\n(nats, line: {level:.0%} interval)"
    )
    best = comparison.table.iloc[0]
    axes.set_title(f"{short(comparison.best)}: {best['log_p']:.4f} ± {best['se']:.4f} nats {unit}")
    axes.title.set_fontsize("medium")
    legible(axes)
    return axes
