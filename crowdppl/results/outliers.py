"""Items whose labels do not come about as those of other items do."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.doors import demands
from crowdppl.errors import MethodError

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

ENGINES = "crowdppl.inference.asking.marginals"
"""Module that sums other variables out; looked up by name, so that results import no engine."""


def outlier_scores(posterior: Posterior) -> pd.Series[Any]:
    """How much each item looks like an outlier, for a method that allows for some.

    Where the story says whether an item is an outlier (site ``outlier``), the probability of it. Where labels
    depart by shifts of their own (site ``departure``), the root of the sum of their squares over the item's labels.

    Args:
        posterior: a fit of such a method, such as ``coin_net``.

    Returns:
        Series by item, higher for outliers.

    Raises:
        MethodError: when the method knows no outliers.

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
        return pd.Series(share[:, 1], posterior.data.items, name="outlier")
    shift = site.mean - site.mean.mean(-1, keepdims=True)
    whole = posterior.data.as_block()
    square = np.bincount(whole.item.cpu().numpy(), (shift**2).sum(-1), minlength=whole.n_items)
    out = np.empty(whole.n_items)
    out[posterior.data.order] = np.sqrt(square)
    return pd.Series(out, posterior.data.items, name="outlier")
