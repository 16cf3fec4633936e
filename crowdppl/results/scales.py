"""Truths on a scale: fair averages of graded items, and how reliably items are told apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from crowdppl.core.devices import default_dtype
from crowdppl.data.ids import as_number
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.results.tables import truth


def fair_averages(posterior: Fit, level: float = 0.95) -> pd.DataFrame:
    """The grade that each item would get on average over criteria from an average rater (Linacre 1989).

    Args:
        level: probability of the intervals, which are those of items' places at the estimates of all else.

    Returns:
        DataFrame by item: estimate, low and high, in grades where these are numbers, else counted from 0; grade,
        the class nearest to the estimate.

    Raises:
        MethodError: when the method has no raters' severities, or the level is out of range.

    Examples:
        >>> grades = crowdppl.datasets.example("ordinal")
        >>> posterior = crowdppl.fit("rater_facets", grades, inference="em", seed=0)
        >>> posterior.fair_averages().columns.tolist()
        ['estimate', 'low', 'high', 'grade']
    """
    fair = getattr(posterior.model, "fair_grades", None)
    if fair is None:
        raise MethodError(f"{posterior.method} knows no severity of raters; fit 'rater_facets'")
    sites = {name: torch.as_tensor(site.mean).double() for name, site in posterior.result.sites.items()}
    places = truth(posterior, level)
    classes = posterior.data.classes
    numbers = np.array([as_number(x) for x in classes])
    if np.isnan(numbers).any():
        numbers = np.arange(len(classes), dtype=np.float64)
    table = pd.DataFrame(index=posterior.data.items)
    with default_dtype(torch.float64):
        for name in ("estimate", "low", "high"):
            place = torch.tensor(places[name].to_numpy(np.float64))
            table[name] = fair(sites, place, torch.from_numpy(numbers)).numpy()
    nearest = np.abs(table[["estimate"]].to_numpy() - numbers).argmin(1)
    return table.assign(grade=classes.take(nearest))


def separation(posterior: Fit) -> float:
    """How reliably items are told apart: the share of the variance of truths that labels resolve.

    Returns:
        ``1 - mean(sd^2) / (var(estimate) + mean(sd^2))``, the reliability of separation (Wright & Masters 1982); 0
        where labels tell nothing, 1 where they tell all.

    Raises:
        MethodError: when truths are classes.

    Examples:
        >>> ratings = crowdppl.datasets.example("real")
        >>> 0 < crowdppl.fit("gaussian_annotators", ratings, inference="em", seed=0).separation() < 1
        True
    """
    found = posterior.result.truth
    if not isinstance(found, NumberTruth):
        raise MethodError(f"{posterior.method} has classes for truths; reliability of separation is of numbers")
    unsure = float((found.sd**2).mean())
    return 1 - unsure / (float(found.mean.var()) + unsure)
