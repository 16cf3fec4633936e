"""The picture of all items at once: how far annotators disagree on them, and how sure the posterior is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.errors import DataError
from crowdppl.pictures.canvas import DARK, axes_or_new
from crowdppl.statistics.choices import choose

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.posterior import Posterior

SUREST = 0.999
"""Probability from which on items are drawn alike."""
TICKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
APART = 0.04
"""Part of the axis between two ticks."""
STEPS = 40
"""Places along each axis on which items are drawn as one mark."""
AREA = 12.0
"""Area of the mark of one item in square points; of n items it is root n times that."""


def plot_item_map(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Draws each item by how far its annotators disagree and how sure its label is all the same.

    Above left annotators agree and the label is sure; above right they disagree, and knowing who they are settles
    it; below, more labels or an expert are needed. A cross is an item whose label is not the one that most
    annotators gave. Items at nearly one place share a mark, larger for more. The upright axis is even in the
    logarithm of the probability of another class.

    Args:
        posterior: what a fit returned. Items with fewer than two labels are left out, for nobody can disagree;
            abstentions are no labels.
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
    apart, sure = disagreement(votes[several]), np.minimum(p.max(1)[several], SUREST)
    axes = axes_or_new(ax, 6.4, 5.0)
    least, most = 1 / p.shape[1], float(apart.max()) or 1.0
    _scale(axes, least, most)
    for which, marker, text in ((~overruled, "o", "most annotators' label"), (overruled, "x", "another label")):
        x, y, n = _places(apart[which] / most, _height(sure[which], least))
        axes.scatter(
            most * (x + (0.5 / STEPS if marker == "x" else 0)),  # beside those of the other kind
            _probability(y, least),
            AREA * np.sqrt(n),
            marker=marker,
            color=DARK,
            facecolor="0.8" if marker == "o" else DARK,
            linewidth=0.7 if marker == "o" else 1.2,
            label=f"{text} ({int(which.sum()):,})",
            clip_on=False,
            zorder=2 if marker == "o" else 3,
        )
    out = len(several) - int(several.sum())
    left = f", {out:,} with fewer than two labels not shown" if out else ""
    axes.set_title(f"{int(several.sum()):,} items{left}", fontsize="medium")
    _legend(axes, len(apart))
    return axes


def disagreement(votes: np.ndarray) -> np.ndarray:
    """Share of pairs of labels of an item that differ: votes (N, K), two a row at least, to (N,)."""
    n = votes.sum(1)
    out: np.ndarray = 1 - (votes * (votes - 1)).sum(1) / (n * (n - 1))
    return out


def _height(p: Any, least: float) -> Any:
    """Where a probability lies on its axis, from 0 for the least possible to 1."""
    doubt = np.log(np.maximum(1 - np.asarray(p), 1e-12) / (1 - least))
    return doubt / np.log((1 - SUREST) / (1 - least))


def _probability(height: Any, least: float) -> Any:
    """The probability at a height of the axis."""
    return 1 - (1 - least) * ((1 - SUREST) / (1 - least)) ** np.asarray(height)


def _places(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the unit square moved to a lattice: where there are any, and how many."""
    cells, n = np.unique(np.round(np.stack([x, y], 1) * STEPS), axis=0, return_counts=True)
    return cells[:, 0] / STEPS, cells[:, 1] / STEPS, n


def _scale(axes: Axes, least: float, most: float) -> None:
    """Axes from no to the most disagreement, and from the least possible to the highest probability."""
    axes.set_yscale("function", functions=(partial(_height, least=least), partial(_probability, least=least)))
    ticks: list[float] = []
    for p in TICKS:
        if p >= least - 1e-9 and (not ticks or _height(p, least) - _height(ticks[-1], least) > APART):
            ticks.append(p)
    axes.set_yticks(
        [*ticks, SUREST], [*(f"{p:g}".removeprefix("0") for p in ticks), f"≥ {SUREST:g}".replace("0.", ".")]
    )
    axes.set_yticks([], minor=True)
    axes.set_xlim(-0.03 * most, 1.03 * most)
    axes.set_ylim(*_probability([-0.03, 1.03], least))
    axes.set_xlabel("disagreement: share of pairs of labels that differ")
    axes.set_ylabel("probability of the label")


def _legend(axes: Axes, n_items: int) -> None:
    """What marks and sizes mean, below the axes, for items may lie anywhere on them."""
    from matplotlib.lines import Line2D

    handles, _ = axes.get_legend_handles_labels()
    style: dict[str, Any] = {"linestyle": "", "color": DARK, "markerfacecolor": "0.8", "markeredgewidth": 0.8}
    keys = [
        Line2D([], [], marker=marker, label=handle.get_label(), **style)
        for handle, marker in zip(handles, "ox", strict=True)
    ]
    keys += [
        Line2D([], [], marker="o", markersize=AREA**0.5 * n**0.25, label=f"{n:,} item{'s' * (n > 1)}", **style)
        for n in (1, 10, 100, 1000, 10_000)
        if n == 1 or n <= n_items / 3
    ]
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": 3}
    axes.legend(handles=keys, fontsize="small", frameon=False, **place)
