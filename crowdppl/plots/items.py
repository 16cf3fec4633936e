"""Plots of items: how sure their truth is, and how far their annotators disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.core import validation
from crowdppl.errors import DataError
from crowdppl.inference.result import Fit
from crowdppl.plots.axes import ACCENT, DARK, LIGHT, MAX_POINTS, axes_or_new, legend_below, short_names
from crowdppl.results.choices import choose, entropy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_PROBABILITY = 0.999
"""Labels with a larger probability are drawn as if they had this one."""
CELLS = 40
"""Cells along each axis; items in one cell share a mark."""
AREA = 12.0
"""Area of the mark of one item in square points; n items have root n times that."""


def plot_item_map(posterior: Fit, *, ax: Axes | None = None) -> Axes:
    """Draws each item by how much its annotators disagree and how sure its label is nevertheless.

    Above left annotators agree and the label is sure; above right they disagree, and knowing who they are settles
    it; below, more labels or an expert are needed. A cross is an item whose label is not the one that most
    annotators gave. Items at nearly one place share a mark, larger for more. The vertical axis is logarithmic in
    the probability of another class.

    Args:
        posterior: what a fit returned. Items with fewer than two labels are left out; abstentions are no labels.
        ax: axes to draw on; made if absent.

    Raises:
        DataError: when no item has two labels.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_item_map().get_xlabel()
        'disagreement: share of pairs of labels that differ'
    """
    data, p, votes = posterior.data, posterior.result.probabilities, np.asarray(posterior.data.votes())
    several = votes.sum(1) > 1
    if not several.any():
        raise DataError(f"none of {len(votes)} items has two labels, so that nobody disagrees; label some twice")
    code, _ = choose(p, votes, data.items, data.classes)
    overruled = (votes[np.arange(len(p)), code] < votes.max(1))[several]
    x, doubt = disagreement(votes[several]), np.maximum(1 - p.max(1)[several], 1 - MAX_PROBABILITY)
    axes = axes_or_new(ax, 6.4, 5.0)
    _map_axes(axes, float(x.max()) or 1.0, 1 - 1 / p.shape[1])
    circle: dict[str, Any] = {"marker": "o", "facecolor": LIGHT, "edgecolor": DARK, "linewidth": 0.7, "zorder": 2}
    cross: dict[str, Any] = {"marker": "x", "color": ACCENT, "linewidth": 1.5, "zorder": 3}
    kinds = ((~overruled, "most annotators' label", circle), (overruled, "another label", cross))
    for chosen, text, style in kinds:
        at_x, at_y, n = _cells(x[chosen], doubt[chosen], float(x.max()) or 1.0)
        label = f"{text} ({int(chosen.sum()):,})"
        axes.scatter(at_x, at_y, AREA * np.sqrt(n), clip_on=False, label=label, **style)
    for size in (10, 100, 1000, 10_000):
        if size <= len(x) / 3:
            axes.scatter([], [], AREA * size**0.5, label=f"{size:,} items", **circle)
    out = len(several) - int(several.sum())
    left = f", {out:,} with fewer than two labels not shown" if out else ""
    axes.set_title(f"{int(several.sum()):,} items{left}", fontsize="medium")
    legend_below(axes, 3)
    return axes


def disagreement(votes: np.ndarray) -> np.ndarray:
    """Share of pairs of labels of an item that differ: votes (N, K), two a row at least, to (N,)."""
    n = votes.sum(1)
    return np.asarray(1 - (votes * (votes - 1)).sum(1) / (n * (n - 1)))


def _cells(x: np.ndarray, doubt: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points moved to a lattice that is even in x and in the logarithm of the doubt: x, doubt and how many."""
    step = np.array([width, -np.log(1 - MAX_PROBABILITY)]) / CELLS
    cells, n = np.unique(np.round(np.stack([x, np.log(doubt)], 1) / step), axis=0, return_counts=True)
    return cells[:, 0] * step[0], np.exp(cells[:, 1] * step[1]), n


def _map_axes(axes: Axes, most: float, doubt: float) -> None:
    """Disagreement from 0 to the most; upwards the label's probability, from the least possible one."""
    axes.set_yscale("log")
    marked = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
    ticks = [p for p in marked if 1 - p <= doubt + 1e-9] + [MAX_PROBABILITY]
    axes.set_yticks([1 - p for p in ticks], [*(f"{p:g}" for p in ticks[:-1]), f"≥ {MAX_PROBABILITY:g}"])
    axes.set_yticks([], minor=True)
    axes.set(ylim=(1.1 * doubt, (1 - MAX_PROBABILITY) / 1.2), xlim=(-0.03 * most, 1.03 * most))
    axes.set(xlabel="disagreement: share of pairs of labels that differ", ylabel="probability of the label")


def plot_items(posterior: Fit, *, ax: Axes | None = None, show: str = "entropy") -> Axes:
    """Draws how sure the truth of the items is, from the surest to the least sure.

    Args:
        ax: axes to draw on; made if absent.
        show: "entropy" of the truth in bits, or "probability" of the label.

    Raises:
        MethodError: for another ``show``.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_items().get_ylabel()
        'entropy of the truth (bits)'
    """
    p = posterior.result.probabilities
    validation.one_of("show", show, ("entropy", "probability"))
    unsure = show == "entropy"
    values = entropy(p) if unsure else p.max(1)
    least, most = (0.0, float(np.log2(p.shape[1]))) if unsure else (1 / p.shape[1], 1.0)
    order = np.argsort(values if unsure else -values, kind="stable")
    values, place = values[order], np.arange(1, len(values) + 1)
    axes = axes_or_new(ax)
    axes.fill_between(place, least, values, step="mid", color=LIGHT, linewidth=0)
    axes.step(place, values, where="mid", color=ACCENT, linewidth=1.2)
    if len(values) <= MAX_POINTS:
        axes.plot(place, values, "o", color=ACCENT, markersize=3)
        names = short_names(posterior.data.items[order[-5:][::-1]])
        at, va = ((0.02, 0.96), "top") if unsure else ((0.02, 0.04), "bottom")
        text = "least sure:\n" + "\n".join(names)
        axes.text(*at, text, transform=axes.transAxes, va=va, fontsize="small")
    axes.set_xlim(0.5, len(values) + 0.5)
    if unsure:  # as far as the least sure item, so that items who are nearly sure can be told apart
        most = float(values[-1]) or most
    axes.set_ylim(least, most + 0.04 * (most - least))
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("item, the surest first")
    axes.set_ylabel("entropy of the truth (bits)" if unsure else "probability of the label")
    return axes
