"""Rankings of the objects that were compared."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crowdppl.core.intervals import check_level, from_draws, from_point
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit
from crowdppl.results.sites import draws_of_site, objects_of

SKILL = "skill"
"""The site of positive numbers of which the larger ranks first."""
DRAWS = 4_000
"""Draws of a distribution over which orders are counted: a probability is then known to .008."""


def ranking(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """The objects that were compared, the best first.

    Args:
        level: probability of the intervals.

    Returns:
        DataFrame by object: rank, from 1; score, the mean of its log-skill less the mean over objects, so that
        differences of scores are log-odds of being preferred; low and high, its interval, NaN where the engine
        gives points.

    Raises:
        MethodError: when the method ranks no objects, or the level is out of range.

    Examples:
        >>> posterior = crowdppl.fit("bradley_terry", crowdppl.datasets.example("pair"), inference="vb", seed=0)
        >>> posterior.ranking().round(1)
                rank  score  low  high
        object
        pear       1    0.5 -0.1   1.1
        apple      2    0.0 -0.7   0.6
        plum       3    0.0 -0.6   0.6
        fig        4   -0.2 -0.9   0.5
        kiwi       5   -0.4 -1.2   0.3
    """
    check_level(level)
    drawn = _scores(posterior)
    point = posterior.result.sites[SKILL].mean
    found = from_point(_centred(np.log(point))) if drawn is None else from_draws(drawn, level)
    table = pd.DataFrame(
        {"score": found.mean, "low": found.low, "high": found.high}, index=objects_of(posterior.data)
    )
    table = table.sort_values("score", ascending=False, kind="stable")
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    return table


def order_probabilities(posterior: Fit) -> pd.DataFrame:
    """How probable it is that one object is better than another: that its skill is the larger one.

    Where objects are known well, that is nearly 0 or 1, and how often one is preferred need not be
    (``probabilities``).

    Returns:
        DataFrame of objects x objects, in the order of ``ranking()``: that the one of the row is before the one of
        the column; NaN on the diagonal.

    Raises:
        MethodError: when the method ranks no objects, or the engine gives points.

    Examples:
        >>> posterior = crowdppl.fit("bradley_terry", crowdppl.datasets.example("pair"), inference="vb", seed=0)
        >>> posterior.order_probabilities().loc["pear", ["apple", "kiwi"]].round(1).tolist()
        [0.9, 1.0]
    """
    drawn, order = _scores(posterior), ranking(posterior).index
    if drawn is None:
        raise MethodError(
            f"{posterior.inference} found points, which tell no probability of an order; fit with inference='gibbs'"
        )
    before = np.stack([(x[:, None] > drawn).mean(0) for x in drawn.T])
    np.fill_diagonal(before, np.nan)
    objects = objects_of(posterior.data)
    return pd.DataFrame(before, index=objects, columns=objects).loc[order, order]


def _scores(posterior: Fit) -> np.ndarray | None:
    """Draws (n, O) of log-skills less their mean; None of points."""
    site = posterior.result.sites.get(SKILL)
    if site is None or objects_of(posterior.data) is None:
        raise MethodError(
            f"{posterior.method} ranks no objects; fit 'bradley_terry' or 'crowd_bt' to comparisons, read by "
            'kind="pair"'
        )
    found = draws_of_site(site, DRAWS, np.random.default_rng(0))
    return None if found is None else _centred(np.log(found[1].reshape(-1, found[1].shape[-1])))


def _centred(x: np.ndarray) -> np.ndarray:
    return np.asarray(x - x.mean(-1, keepdims=True))
