"""Posteriors of single quantities as ridges, one above the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from crowdppl.core.intervals import Estimate
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit
from crowdppl.plots.axes import ACCENT, DARK, axes_or_new, name_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = (0.99, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2)
"""Of the intervals whose ends tell a posterior."""
POINTS, GRID = 200, 500
"""Points of a posterior that are smoothed, and places at which its density is drawn."""
SMOOTH = 0.35
"""Bandwidth in standard deviations: Silverman's (1986) of some hundred draws."""
HEIGHT = 1.7
"""Of a ridge, in rows."""


def draw_ridges(
    posterior: Fit,
    at: Callable[[float], Estimate],
    order: np.ndarray,
    names: list[str],
    bounds: tuple[float, float] | None,
    ax: Axes | None,
) -> tuple[Axes, bool]:
    """Draws a ridge for each estimate in order, the last on top; tells whether rows are named.

    A posterior is what the intervals ``at`` some levels say of it, whatever they are computed from. Smoothing adds
    nothing outside of ``bounds``. MethodError where there are no intervals.
    """
    found = [at(level).at(order) for level in LEVELS]
    if not np.isfinite(found[0].low).any():
        raise MethodError(
            f"{posterior.inference} found points, which have no posterior; leave ridges= out, or fit with vb"
        )
    share = np.array([*((1 - x) / 2 for x in LEVELS), *((1 + x) / 2 for x in LEVELS[::-1])])
    ends = np.stack([*(x.low for x in found), *(x.high for x in found[::-1])], 1)
    points = np.stack([np.interp((np.arange(POINTS) + 0.5) / POINTS, share, row) for row in ends])
    width = np.maximum(SMOOTH * points.std(1), 1e-3 * np.nanmax(np.ptp(ends, axis=1)))[:, None, None]
    low, high = np.nanmin(ends - 2 * width[:, 0]), np.nanmax(ends + 2 * width[:, 0])
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
        points = np.concatenate(
            [points, *(2 * end - points for end in bounds)], 1
        )  # what lies beyond is thrown back
    place = np.linspace(low, high, GRID)
    axes = axes_or_new(ax, 6.4, max(2.6, 1.6 + 0.26 * len(names)))
    for row in range(len(names) - 1, -1, -1):
        density = np.exp(-(((place[:, None] - points[row]) / width[row]) ** 2) / 2).sum(1)
        height = row + HEIGHT * density / density.max()
        seen = density > 0.003 * density.max()
        layer = len(names) - row
        axes.fill_between(place[seen], row, height[seen], color=ACCENT, alpha=0.55, linewidth=0, zorder=2 * layer)
        axes.plot(place[seen], height[seen], color="white", linewidth=1.2, zorder=2 * layer + 1)
        axes.plot(found[0].mean[row], row, "|", color=DARK, markersize=6, zorder=2 * len(names) + 4)
    axes.set_xlim(low, high)
    axes.set_ylim(-0.5, len(names) + HEIGHT - 0.7)
    return axes, name_rows(axes, names)
