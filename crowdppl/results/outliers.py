"""Items whose labels do not come about as those of other items do."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.doors import demands
from crowdppl.doors.telling import tell
from crowdppl.errors import DoubtWarning, MethodError

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

ENGINES = "crowdppl.inference.asking.marginals"
"""Module that sums other variables out; looked up by name, so that results import no engine."""
APART = 0.75
"""Area under the ROC curve that probabilities expect of themselves, below which they are doubted."""


def outlier_scores(posterior: Posterior) -> pd.Series[Any]:
    """How much each item looks like an outlier, for a method that allows for some.

    Where the story says whether an item is an outlier (site ``outlier``), the probability of it. Where labels
    depart by shifts of their own (site ``departure``), the root of the sum of their squares over the item's labels.

    A handful of labels hardly tells outliers from other items, and their rate can then be far off. Of 2,000
    simulated items, 15 % of them outliers with shares of their own, others labelled by annotators right in three of
    four, true parameters find them with an area under the ROC curve of .55, .64 and .72 for 2, 3 and 4 classes and
    5 labels an item, and .65 and .76 for 2 and 3 classes and 12 labels. ``coin_net`` from labels alone has .55, .62
    and .71, and rates of .34, .48 and .37; .64 and .76, and .19 and .15; and a likelihood above theirs each time.

    Args:
        posterior: a fit of such a method, such as ``coin_net``.

    Returns:
        Series by item, higher for outliers.

    Raises:
        MethodError: when the method knows no outliers.
        DoubtWarning: when, by the fit's own account, probabilities hardly tell outliers from other items.

    Examples:
        >>> truth, size = ["cat", "dog"] * 20, [[0.0], [1.0]] * 20
        >>> crowd = crowdppl.simulate_annotators(truth, {"hammer": 6}, features=size)
        >>> posterior = crowdppl.fit("coin_net", crowd.data, inference="vb", seed=0)
        >>> scores = crowdppl.outlier_scores(posterior)
        >>> bool(scores.between(0, 1).all())
        True
    """
    posterior = demands.require_posterior(posterior)
    site = posterior.result.sites.get("departure")
    if site is None:
        try:
            share = import_module(ENGINES).item_marginal(posterior, "outlier")
        except MethodError as error:
            raise MethodError(
                f"{error}; fit a method whose items may be outliers (help(crowdppl.outlier_scores) names one)"
            ) from error
        _doubt(share[:, 1])
        return pd.Series(share[:, 1], posterior.data.items, name="outlier")
    shift = site.mean - site.mean.mean(-1, keepdims=True)
    whole = posterior.data.as_block()
    square = np.bincount(whole.item.cpu().numpy(), (shift**2).sum(-1), minlength=whole.n_items)
    out = np.empty(whole.n_items)
    out[posterior.data.order] = np.sqrt(square)
    return pd.Series(out, posterior.data.items, name="outlier")


def _doubt(p: np.ndarray) -> None:
    """Warns where an outlier hardly scores above another item."""
    area = expected_area(p)
    if area < APART:
        tell(
            f"by the fit's own account an outlier scores above another item in {area:.0%} of pairs, by chance in "
            "50%: these labels hardly tell outliers apart, and how many there are can be far off; more labels an "
            "item help, and so do features",
            DoubtWarning,
        )


def expected_area(p: np.ndarray) -> float:
    """Area under the ROC curve that probabilities have if they are right; 1 where all are 0, or all are 1.

    Args:
        p: (N,) probabilities.
    """
    _, place = np.unique(p, return_inverse=True)
    yes, no = np.bincount(place, p), np.bincount(place, 1 - p)
    pairs = yes.sum() * no.sum()
    return float((yes * (no.cumsum() - no / 2)).sum() / pairs) if pairs > 0 else 1.0
