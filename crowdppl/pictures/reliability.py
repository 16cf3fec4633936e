"""The picture of whether probabilities can be believed: how often labels of each confidence are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.doors.counts import whole_number
from crowdppl.pictures.canvas import axes_or_new
from crowdppl.scoring.metrics import matched
from crowdppl.scoring.scores import BINS, calibration_error, reliability_bins

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdppl.posterior import Posterior

Z = 1.96
"""Normal quantile of the 95 % intervals."""
LIGHT, DARK = "0.82", "0.15"


def plot_reliability(
    posterior: Posterior | pd.DataFrame,
    gold: pd.Series | Mapping[Any, Any],
    *,
    bins: int = BINS,
    ax: Axes | None = None,
) -> Axes:
    """Draws how often labels are right against how sure they are: points below the diagonal are too sure.

    A point is the share of right labels in a bin of their probability, at the bin's mean probability, with a
    95 % interval (Wilson, 1927). Bars in the background are the shares of items in the bins, on the same scale.

    Args:
        posterior: a posterior, or its probabilities (items x classes).
        gold: the true class of items by their ids.
        bins: equal bins of the probability from 0 to 1.
        ax: axes to draw on; made if absent.

    Raises:
        DataError: as ``crowdppl.evaluate``.
        MethodError: when there are no bins.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 3}, seed=0)
        >>> posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
        >>> crowdppl.plot_reliability(posterior, crowd.truth).get_xlabel()
        'probability of the label'
    """
    bins = whole_number("bins", bins, 1, "15 are usual")
    p, truth, _, _ = matched(posterior, gold)
    axes = axes_or_new(ax, 6.0, 4.8)
    _draw(axes, reliability_bins(p, truth, bins), 1 / p.shape[1])
    axes.set_title(
        f"{len(p):,} items, calibration error {calibration_error(p, truth, bins):.3f}", fontsize="medium"
    )
    return axes


def wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the 95 % score interval of a share of n, elementwise (Wilson, 1927)."""
    scale = 1 + Z**2 / n
    middle = (share + Z**2 / (2 * n)) / scale
    reach = Z / scale * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return middle - reach, middle + reach


def _draw(axes: Axes, table: pd.DataFrame, least: float) -> None:
    """Bars of shares, the diagonal and the points; no confidence is below ``least``, so nothing left of it."""
    used = table[table["n"] > 0]
    n = used["n"].to_numpy(np.float64)
    confidence, accuracy = used["confidence"].to_numpy(), used["accuracy"].to_numpy()
    width = (used["high"] - used["low"]).to_numpy()
    axes.bar(used["low"], n / n.sum(), width, align="edge", color=LIGHT, label="share of items", zorder=1)
    axes.plot([0, 1], [0, 1], ":", color="0.4", linewidth=1.2, label="calibrated", zorder=2)
    axes.vlines(confidence, *wilson(accuracy, n), color="0.5", linewidth=1.5, label="95% interval", zorder=3)
    axes.plot(confidence, accuracy, "o", color=DARK, markersize=5, label="share right", zorder=4, clip_on=False)
    start = max(0.0, min(least, used["low"].min()))
    axes.set_xlim(start - 0.02 * (1 - start), 1 + 0.02 * (1 - start))
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("probability of the label")
    axes.set_ylabel("share of labels that are right")
    # Below the axes, for points may lie anywhere on them.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, fontsize="small", frameon=False)
