"""The picture of a posterior predictive check: the data among replicates, one line a statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.pictures.canvas import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.criticism.checks import Check

LIGHT, DARK = "0.75", "0.15"


def plot_check(check: Check, *, ax: Axes | None = None) -> Axes:
    """Draws each statistic of the data (diamond) among those of the replicates (dots, bar: central 95 %).

    All are in standard deviations from the mean of the replicates, so that they share an axis; the observed value,
    the mean that the model expects and the p-value of the statistic alone are written beside.

    Args:
        check: what ``predictive_check`` returned.
        ax: axes to draw on; made if absent.
    """
    table = check.table.iloc[::-1]
    axes = axes_or_new(ax, 7.6, 1.2 + 0.5 * len(table))
    sd = np.where(table["sd"] > 0, table["sd"], 1)
    place = np.arange(len(table))
    stream = np.random.default_rng(0)  # heights only
    for n, name in enumerate(table.index):
        x = (check.replicates[name] - table["mean"].iloc[n]) / sd[n]
        height = n + stream.uniform(-0.18, 0.18, len(x))
        axes.plot(x, height, ".", color=LIGHT, markersize=3, zorder=1)
    scaled = table[["low", "high", "observed"]].sub(table["mean"], axis=0).div(sd, axis=0)
    axes.hlines(place, scaled["low"], scaled["high"], color="0.45", linewidth=1.5, zorder=2)
    axes.plot(scaled["observed"], place, "D", color=DARK, markersize=6, zorder=3, clip_on=False)
    for n, (seen, mean, p) in enumerate(table[["observed", "mean", "p_value"]].itertuples(index=False)):
        text = f"{seen:.3g} (expected {mean:.3g})\np = {p:.2g}"
        beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(text, (1, n), (6, 0), va="center", fontsize="small", **beside)
    axes.axvline(0, color="0.4", linestyle=":", linewidth=1, zorder=0)
    axes.set_yticks(place, [str(name) for name in table.index])
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.set_xlabel("standard deviations from what the model expects")
    axes.set_title(f"{check.method}: data among {len(check.replicates)} replicates, p = {check.p_value:.2g}")
    axes.title.set_fontsize("medium")
    return axes
