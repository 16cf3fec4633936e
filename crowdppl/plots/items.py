"""Plots of items: how sure their truth is, and how far their annotators disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from crowdppl.core.validation import one_of
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.parts import compares
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import (
    ACCENT,
    DARK,
    LIGHT,
    MAX_POINTS,
    answer_names,
    axes_or_new,
    ink,
    legend_below,
    name_rows,
    short_names,
    write_beside,
)
from crowdppl.results.choices import choose
from crowdppl.results.truths import truth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_PROBABILITY = 0.999
"""Labels with a larger probability are drawn as if they had this one."""
CELLS = 40
"""Cells along each axis; items in one cell share a mark."""
SETTLED, LIKELY = 0.95, 0.7
"""Probabilities of a label from which on it is settled, or likely; below, it is open."""
SHADES = {"settled": ACCENT, "likely": "#8fb3d1", "open": LIGHT}
MAX_BARS = 40
"""Classes up to which counts are written into bars."""
NAMED = 5
"""The least sure items, which are named."""
AREA = 12.0
"""Area of the mark of one item in square points; n items have root n times that."""


def plot_item_map(posterior: Fit, *, ax: Axes | None = None) -> Axes:
    """Draws each item by how much its annotators disagree and how sure its label is nevertheless.

    Above left annotators agree and the label is sure; above right they disagree, and knowing who they are settles
    it; below, more labels or an expert are needed. A cross is an item whose label is not the one that most
    annotators gave. Items at nearly one place share a mark, larger for more. The vertical axis is logarithmic in
    the probability of another class. Where truths are numbers, it is the half-width of their 95 % interval, and
    labels disagree by their standard deviation.

    Args:
        posterior: what a fit returned. Items with fewer than two labels are left out; abstentions are no labels.
        ax: axes to draw on; made if absent.

    Raises:
        DataError: when no item has two labels.
        MethodError: for rankings, in which places of one problem depend on each other.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.plot_item_map().get_xlabel()
        'disagreement: share of pairs of labels that differ'
    """
    if isinstance(posterior.result.truth, NumberTruth):
        return _number_map(posterior, ax)
    data, p, votes = posterior.data, posterior.result.probabilities, np.asarray(posterior.data.votes())
    several = votes.sum(1) > 1
    _require_several(several)
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
    _title_map(axes, several)
    legend_below(axes, 3)
    return axes


def _require_several(several: np.ndarray) -> None:
    """Refuses items of which none has two labels."""
    if not several.any():
        raise DataError(f"none of {len(several)} items has two labels, so that nobody disagrees; label some twice")


def _title_map(axes: Axes, several: np.ndarray) -> None:
    """How many items are drawn, and how many are not."""
    out = len(several) - int(several.sum())
    left = f", {out:,} with fewer than two labels not shown" if out else ""
    axes.set_title(f"{int(several.sum()):,} items{left}", fontsize="medium")


def _number_map(posterior: Fit, ax: Axes | None) -> Axes:
    """Items by the spread of their labels and the width of their interval; the widest are named."""
    data = posterior.data
    if compares(data):
        raise MethodError("places in a ranking depend on each other; plot_items draws how sure each is")
    code, apart = apart_from_truth(posterior)
    times = np.bincount(code, minlength=data.n_items)
    several = times > 1
    _require_several(several)
    middle = np.bincount(code, apart, len(times)) / np.maximum(times, 1)
    spread = np.sqrt(np.bincount(code, (apart - middle[code]) ** 2, len(times)) / np.maximum(times - 1, 1))
    x, y, axes = spread[several], half_widths(truth(posterior), data)[several], axes_or_new(ax, 6.4, 5.0)
    axes.plot(x, y, "o", color=ACCENT, markersize=4, alpha=0.6, clip_on=False)
    names = short_names(posterior.data.items[several])
    for n in np.argsort(-y, kind="stable")[:NAMED]:
        axes.annotate(names[n], (x[n], y[n]), (5, 3), textcoords="offset points", fontsize="small")
    axes.set(xlim=(0, 1.1 * max(x.max(), 1e-9)), ylim=(0, 1.1 * y.max()))
    axes.set_xlabel("disagreement: standard deviation of an item's labels")
    axes.set_ylabel("95% interval of the truth: ± this much")
    _title_map(axes, several)
    return axes


def apart_from_truth(posterior: Fit) -> tuple[np.ndarray, np.ndarray]:
    """The item of each label, and the label less the estimate, (S,); of grades, less 0: they have no such scale."""
    block, data = posterior.data.as_block(), posterior.data
    code = data.order[np.asarray(block.item)]
    if block.numbers is None or not isinstance(posterior.result.truth, NumberTruth):
        return code, np.asarray(block.answer, float)
    return code, number_space(data.space).error(np.asarray(block.numbers), posterior.result.truth.mean[code])


def half_widths(table: pd.DataFrame, data: Annotations) -> np.ndarray:
    """Half the width of each item's interval in a table of truths, the shorter way round of angles, (N,)."""
    space = number_space(data.space)
    low, middle, high = table[["low", "estimate", "high"]].to_numpy(float).T
    return np.asarray((space.error(high, middle) - space.error(low, middle)) / 2)


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
    marked = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
    ticks = [p for p in marked if 1 - p <= doubt + 1e-9] + [MAX_PROBABILITY]
    axes.set_yticks([1 - p for p in ticks], [*(f"{p:g}" for p in ticks[:-1]), f"≥ {MAX_PROBABILITY:g}"])
    axes.set_yticks([], minor=True)
    axes.set(ylim=(1.1 * doubt, (1 - MAX_PROBABILITY) / 1.2), xlim=(-0.03 * most, 1.03 * most))
    axes.set(xlabel="disagreement: share of pairs of labels that differ", ylabel="probability of the label")


def plot_items(posterior: Fit, *, show: Literal["items", "classes"] = "items", ax: Axes | None = None) -> Axes:
    """Draws how sure the label of each item is, from the surest to the least sure.

    Shades part items into settled (95 % sure or more), likely and open ones (less than 70 %), with how many there
    are. Where truths are numbers, it is the half-width of their 95 % interval, from the narrowest to the widest.

    Args:
        show: "items", or "classes": a bar for each class, of how many items have this label, settled, likely and
            open.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: for another ``show``, and for "classes" where truths are numbers.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> ax = posterior.plot_items()
        >>> ax.get_ylabel(), [text.get_text() for text in ax.texts[:3]]
        ('probability of the label', ['settled: 42', 'likely: 3', 'open: 0'])
        >>> bars = posterior.plot_items(show="classes").containers[0]  # of settled items
        >>> [int(bar.get_width()) for bar in bars]
        [18, 18, 5, 1]
    """
    if one_of("show", show, ("items", "classes")) == "classes":
        return _draw_by_class(posterior, ax)
    numbers = isinstance(posterior.result.truth, NumberTruth)
    values = half_widths(truth(posterior), posterior.data) if numbers else posterior.result.probabilities.max(1)
    least = 0.0 if numbers else 1 / posterior.data.n_classes
    most = 1.08 * float(np.nanmax(values)) if numbers else 1.0
    order = np.argsort(values if numbers else -values, kind="stable")
    drawn, place, axes = values[order], np.arange(1, len(values) + 1), axes_or_new(ax)
    axes.set(xlim=(0.5, len(values) + 0.5), ylim=(least, most))
    if not numbers:
        _draw_shares(axes, values, least)
    axes.fill_between(place, least, drawn, step="mid", color=ACCENT, alpha=0.15, linewidth=0, zorder=2)
    axes.step(place, drawn, where="mid", color=ACCENT, linewidth=1.5, zorder=3)
    if len(values) <= MAX_POINTS:
        axes.plot(place, drawn, "o", color=ACCENT, markersize=3, clip_on=False, zorder=4)
    names = short_names(posterior.data.items[order[-NAMED:][::-1]])
    where: dict[str, Any] = {"transform": axes.transAxes, "fontsize": "small", "zorder": 5}
    text = "widest:\n" if numbers else "least sure:\n"
    axes.text(0.02, 0.05, text + "\n".join(names), va="bottom", **where)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel(f"{len(values):,} items, the {'narrowest' if numbers else 'surest'} first")
    axes.set_ylabel("95% interval: ± this much" if numbers else "probability of the label")
    return axes


def _draw_by_class(posterior: Fit, ax: Axes | None) -> Axes:
    """A stacked bar for each class: how many items have this label, settled, likely and open."""
    data = posterior.data
    if isinstance(posterior.result.truth, NumberTruth):
        raise MethodError(
            f"{posterior.method} has no classes; plot_items(show='items') draws how wide intervals are"
        )
    p, k = posterior.result.probabilities, data.n_classes
    label = choose(p, np.asarray(data.votes()), data.items, data.classes)[0]
    counts = np.array([list(shares(p.max(1)[label == n]).values()) for n in range(k)])
    axes = axes_or_new(ax, 6.4, float(np.clip(1.2 + 0.32 * k, 2.0, 9.0)))
    start, total = np.zeros(k, int), counts.sum(1)
    for (name, shade), n in zip(SHADES.items(), counts.T, strict=True):
        bars = axes.barh(range(k), n, left=start, color=shade, label=f"{name} ({n.sum():,})")
        if k <= MAX_BARS:
            wide = [f"{x:,}" if x >= 0.04 * total.max() else "" for x in n]
            axes.bar_label(bars, wide, label_type="center", color=ink(name != "open"), fontsize="small")
        start = start + n
    axes.set_ylim(-0.5, k - 0.5)
    axes.set_ylabel("label" if name_rows(axes, answer_names(data)[:k]) else f"{k:,} labels")
    axes.invert_yaxis()
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("items")
    axes.set_title(f"{len(p):,} items: settled are 95% sure or more, open less than 70%", fontsize="medium")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")
    return axes


def _draw_shares(axes: Axes, sure: np.ndarray, least: float) -> None:
    """Bands of settled, likely and open items, counted at the right; a band too low for its count has none."""
    edges = [max(SETTLED, least), max(LIKELY, least), least]
    for (name, n), low, high, shade in zip(
        shares(sure).items(), edges, [1.0, *edges], ("0.96", "0.9", "0.82"), strict=False
    ):
        if high > low:
            axes.axhspan(low, high, color=shade, linewidth=0, zorder=0)
            write_beside(axes, (low + high) / 2, f"{name}: {n:,}")


def shares(sure: np.ndarray) -> dict[str, int]:
    """How many labels are settled, likely and open, by their probabilities (N,)."""
    settled, likely = int((sure >= SETTLED).sum()), int((sure >= LIKELY).sum())
    return {"settled": settled, "likely": likely - settled, "open": len(sure) - likely}
