"""The plot of a panel: correlations of annotators' errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.errors import MethodError
from crowdppl.evaluation.panel import panel
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.plots.axes import axes_or_new, outline, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_panel(
    posterior: Fit,
    gold: Mapping[Any, Any] | pd.Series | None = None,
    *,
    families: Mapping[Any, Any] | None = None,
    ax: Axes | None = None,
    seed: int = 0,
) -> Axes:
    """Draws the correlations of annotators' errors (``panel``) as a heat map, family by family.

    Args:
        gold, families, seed: as of ``panel``.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError, DataError: as ``panel``.

    Examples:
        >>> posterior = crowdppl.fit("auto", crowdppl.anaesthetists(), models=True, seed=0)
        >>> posterior.plot_panel().get_title()
        'error correlation, by other panels'
    """
    if isinstance(posterior.result.truth, NumberTruth):
        raise MethodError(f"{posterior.method} has no classes that two could get wrong alike; use plot_raters")
    found = panel(posterior, gold, families=families, seed=seed)
    order = np.argsort(found.family, kind="stable")
    square, pairs = np.full((len(order),) * 2, np.nan), found.pairs()["correlation"].to_numpy()
    one, other = np.triu_indices(len(order), 1)
    square[one, other] = square[other, one] = pairs
    square = square[np.ix_(order, order)]
    side = 2.2 + min(0.55 * len(order), 8)
    ax = axes_or_new(ax, side + 1.2, side)
    image = ax.imshow(square, vmin=-1, vmax=1, cmap="RdBu_r")
    names = short_names(posterior.data.annotators.take(found.code[order]))
    ax.set_xticks(range(len(order)), names, rotation=90)
    ax.set_yticks(range(len(order)), names)
    if len(order) <= 12:  # else numbers do not fit into cells
        for row, column in zip(*np.nonzero(np.isfinite(square)), strict=True):
            ax.text(column, row, f"{square[row, column]:.2f}", ha="center", va="center", fontsize="small")
    start = 0
    for size in np.unique(found.family[order], return_counts=True)[1]:
        if size > 1:
            outline(ax, start, size)
        start += size
    ax.figure.colorbar(image, ax=ax, label="correlation of errors")
    ax.set_title(f"error correlation, by {found.on}")
    return ax
