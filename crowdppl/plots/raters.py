"""Pictures of raters by what sets them apart: two traits of each, or one ruler with items and grades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.intervals import check_level
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import ACCENT, MIDDLE, axes_or_new, short_names
from crowdppl.results.annotators import annotators
from crowdppl.results.mapped_tables import as_shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAITS = (("specificity", "sensitivity"), ("bias", "precision"), ("bias", "concentration"), ("gain", "precision"))
"""Columns of ``annotators()`` that a plane may have."""
NAMED = 30
"""Raters up to which all are named; of more, those farthest from the middle."""


def plot_raters(posterior: Fit, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Draws raters by what sets them apart.

    Of numbers, that is the bias of each (how far above or below the truth) and the spread around it; with two
    classes, how often a rater is right about the one and about the other. Of grades by rater_facets it is a ruler
    (Wright map): items, raters, criteria and the steps between grades on one scale, upwards for better items, more
    severe raters, harder criteria and higher grades.

    Args:
        ax: axes to draw on; made if absent.
        level: probability of the intervals.

    Raises:
        MethodError: for a method that does not know two traits of raters, or a level that is not between 0 and 1.

    Examples:
        >>> ratings = crowdppl.datasets.example("real")
        >>> posterior = crowdppl.fit("gaussian_annotators", ratings, inference="vb", seed=0)
        >>> posterior.plot_raters().get_ylabel()
        'spread: standard deviation of labels around it'
        >>> facets = crowdppl.fit("rater_facets", crowdppl.datasets.example("ordinal"), inference="vb", seed=0)
        >>> [tick.get_text() for tick in facets.plot_raters().get_xticklabels()]
        ['items', 'raters', 'grades']
    """
    check_level(level)
    posterior = as_shown(posterior)
    if {"severity", "step"} <= posterior.result.sites.keys():
        return _ruler(posterior, ax, level)
    table = annotators(posterior, level)
    traits = next((pair for pair in TRAITS if {*pair} <= {*table.columns}), None)
    if traits is None:
        raise MethodError(
            f"{posterior.method} does not know two traits of raters; plot_annotators draws what it knows of them"
            + ("" if isinstance(posterior.result.truth, NumberTruth) else ", plot_confusion what they mix up")
        )
    return _plane(posterior, table, traits, ax)


def _plane(posterior: Fit, table: pd.DataFrame, traits: tuple[str, str], ax: Axes | None) -> Axes:
    """Raters at two traits, with their intervals as a cross; the farthest from the middle are named."""
    x, y = (table[[name, f"{name}_low", f"{name}_high"]].to_numpy(float) for name in traits)
    if traits[1] == "precision":
        y = y[:, [0, 2, 1]] ** -0.5
    axes = axes_or_new(ax, 6.4, 5.4)
    few = len(table) <= NAMED
    axes.hlines(y[:, 0], x[:, 1], x[:, 2], color="0.75" if few else "0.88", linewidth=1, zorder=1)
    axes.vlines(x[:, 0], y[:, 1], y[:, 2], color="0.75" if few else "0.88", linewidth=1, zorder=1)
    axes.plot(x[:, 0], y[:, 0], "o", color=ACCENT, markersize=5 if few else 3.5, zorder=3)
    middle, spread = np.median([x[:, 0], y[:, 0]], 1), np.std([x[:, 0], y[:, 0]], 1) + 1e-12
    far = np.argsort(-(((np.stack([x[:, 0], y[:, 0]], 1) - middle) / spread) ** 2).sum(1), kind="stable")[:NAMED]
    names = short_names(posterior.data.annotators)
    for n in far if few else far[:8]:
        where: dict[str, Any] = {"xytext": (5, 3), "textcoords": "offset points", "zorder": 4}
        axes.annotate(names[n], (x[n, 0], y[n, 0]), fontsize="small", **where)
    words = _words(posterior)
    axes.set(xlabel=words.get(traits[0], traits[0]), ylabel=words.get(traits[1], traits[1]))
    if traits[0] == "specificity":
        axes.plot([0, 1], [1, 0], ":", color=MIDDLE, linewidth=1)
        axes.text(0.02, 0.02, "below the dotted line: worse than a coin", fontsize="small")
        axes.set(xlim=(0, 1.02), ylim=(0, 1.02))
    elif traits[0] == "bias":
        axes.axvline(0, color=MIDDLE, linestyle=":", linewidth=1)
    if traits[1] != "sensitivity":
        axes.set_ylim(bottom=0)
    axes.set_title(f"{len(table):,} raters", fontsize="medium")
    return axes


def _words(posterior: Fit) -> dict[str, str]:
    """What a trait is, for its axis."""
    unit = posterior.data.alphabet.kind.unit
    words = {
        "bias": "bias: labels less the truth" + (f", in {unit}" if unit else ""),
        "precision": "spread: standard deviation of labels around it",
        "concentration": "concentration around it: more is exacter",
    }
    if posterior.data.n_classes == 2:
        first, second = posterior.data.classes
        words["specificity"] = f"right where the truth is {first}"
        words["sensitivity"] = f"right where the truth is {second}"
    return words


def _ruler(posterior: Fit, ax: Axes | None, level: float) -> Axes:
    """Items, raters, criteria and steps between grades side by side on one vertical scale."""
    sites, data = posterior.result.sites, posterior.data
    step = sites["step"].mean - sites["step"].mean.mean(-1, keepdims=True)
    hard = sites["difficulty"].mean - sites["difficulty"].mean.mean() if "difficulty" in sites else np.zeros(1)
    table = annotators(posterior, level)
    columns = ["items", "raters", *(["criteria"] if len(hard) > 1 else []), "grades"]
    axes = axes_or_new(ax, 1.2 + 1.7 * len(columns), 6.4)
    place = posterior.result.truth.mean  # type: ignore[union-attr]
    bins = np.histogram_bin_edges(place, 30)
    home = np.clip(np.digitize(place, bins) - 1, 0, len(bins) - 2)
    widest = max(np.bincount(home))
    for k, n in zip(*np.unique(home, return_counts=True), strict=True):
        axes.barh((bins[k] + bins[k + 1]) / 2, 0.8 * n / widest, bins[1] - bins[0], -0.4, color="0.75")
    ends = table[["severity_low", "severity_high"]].to_numpy(float)
    axes.vlines(np.full(len(ends), 1), *ends.T, color="0.8", linewidth=1)
    _names_at(axes, 1, table["severity"].to_numpy(float), short_names(table.index, 14))
    if len(hard) > 1:
        numbers = getattr(posterior.model, "criteria", ()) or range(len(hard))
        _names_at(axes, 2, hard, [f"{number:g}" for number in numbers])
    grades = [f"{one} | {other}" for one, other in zip(data.classes[:-1], data.classes[1:], strict=True)]
    _names_at(axes, len(columns) - 1, step.mean(0), grades)
    axes.set_xticks(range(len(columns)), columns)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(columns) - 0.2), ylabel="logits: better, more severe, harder, higher")
    axes.axhline(0, color=MIDDLE, linestyle=":", linewidth=1, zorder=0)
    axes.set_xlabel(f"{data.n_items:,} items, {data.n_annotators:,} raters (line: {level:.0%} interval)")
    return axes


def _names_at(axes: Axes, column: float, y: np.ndarray, names: list[str]) -> None:
    """Points of one column with their names, moved apart where they would overlap; of many, the outer ones."""
    axes.plot(np.full(len(y), column), y, "o", color=ACCENT, markersize=4, zorder=3)
    low, high = axes.get_ylim()
    room = 0.035 * (high - low)
    last = -np.inf
    order = np.argsort(y, kind="stable")
    if len(order) > NAMED:
        order = np.concatenate([order[:8], order[-8:]])
    for n in order.tolist():
        last = max(last + room, float(y[n]))
        axes.annotate(names[n], (column, y[n]), (column + 0.12, last), va="center", fontsize="small")
