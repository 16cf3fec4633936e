"""The picture of an order of objects: which is better than which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit
from crowdppl.plots.axes import axes_or_new, ink, outline, short_names
from crowdppl.results.rankings import order_probabilities, tiers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_WRITTEN = 30
"""Objects up to which probabilities are written into cells."""


def plot_order_probabilities(posterior: Fit, *, ax: Axes | None = None) -> Axes:
    """Draws how probable it is that the object of a row is better than that of a column, in per cent.

    Objects stand in the order of ``ranking()``. Boxes are tiers: a new one begins at the first object that the best
    of the tier is better than with 95 % probability.

    Args:
        posterior: a fit to comparisons or rankings.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: as ``order_probabilities``; for rankings by groups, which plot_estimates draws side by side.

    Examples:
        >>> posterior = crowdppl.fit("bradley_terry", crowdppl.datasets.example("pair"), inference="vb", seed=0)
        >>> posterior.plot_order_probabilities().get_title()
        '5 objects in 1 tier'
    """
    before = order_probabilities(posterior)
    if before.index.nlevels > 1:
        raise MethodError("there is an order for each group; plot_estimates draws them side by side")
    n, tier = len(before), tiers(before)
    side = 1.6 + min(0.34 * n, 9.0)
    axes = axes_or_new(ax, side + 0.6, side)
    axes.imshow(before, vmin=0, vmax=1, cmap="Greys")
    for (row, column), p in np.ndenumerate(before.to_numpy() if n <= MAX_WRITTEN else before.to_numpy()[:0]):
        if np.isfinite(p):
            axes.text(column, row, f"{100 * p:.0f}", ha="center", va="center", color=ink(p), fontsize="small")
    for number in range(1, tier[-1] + 1):
        outline(axes, float(np.flatnonzero(tier == number)[0]), int((tier == number).sum()))
    step, names = -(-n // 40), short_names(before.index)
    slanted: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    axes.xaxis.tick_top()
    axes.set_xticks(range(0, n, step), names[::step], fontsize="small", **slanted)
    axes.set_yticks(range(0, n, step), names[::step], fontsize="small")
    axes.set(xlabel="is better than this, in % (boxes: tiers)", ylabel="how probably this")
    axes.set_title(f"{n:,} objects in {tier[-1]} {'tiers' if tier[-1] > 1 else 'tier'}", fontsize="medium")
    return axes
