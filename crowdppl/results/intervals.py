"""Means, standard deviations and intervals of annotators' tables and of the prevalence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from crowdppl.core.intervals import Estimate, check_level, from_draws, from_moments, from_point, from_share_moments
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.result import FitResult, NumberTruth, SiteResult
from crowdppl.primitives.labels import LARGE_TABLE

SAME = 1e-5
"""Difference of probabilities that is rounding."""


def confusion(result: FitResult, level: float) -> Estimate:
    """p(answer | annotator, truth) with its interval, (A, K, L)."""
    return _of_tables(result, np.asarray, level)


def prevalence(result: FitResult, level: float) -> Estimate:
    """Share of each class with its interval, (K,)."""
    check_level(level)
    if result.draws is None:
        return from_point(result.prevalence)
    exact = _same_site(result, ("class",), result.prevalence, SAME, level)
    if exact:
        return exact
    draws = result.draws().prevalence
    exact = _same_site(result, ("class",), result.prevalence, _errors(draws), level)
    return exact or from_draws(draws, level)


def among_classes(result: FitResult, level: float) -> Estimate:
    """p(class | annotator, truth, no abstention) with its interval, (A, K, K)."""
    return _of_tables(result, among_named, level)


def _of_tables(result: FitResult, of: Callable[[np.ndarray], np.ndarray], level: float) -> Estimate:
    """A function of the confusion, from (..., K, L), with its interval; exact where it is a site as it is."""
    check_level(level)
    drawn = result.table_draws
    if drawn is None:
        return from_point(of(result.table))
    draws = of(drawn)
    mean = result.table if draws is drawn else draws.mean(0, dtype=np.float64)
    exact = _same_site(result, ("annotator", "truth", "label"), mean, _errors(draws), level)
    return exact or _exact_mean(result, from_draws(draws, level), of(result.table))


def of_site(site: SiteResult, level: float) -> Estimate:
    """The values of a site with their intervals; without, where it is a point or what its family is not known."""
    check_level(level)
    if (drawn := site.drawn()) is not None:
        return replace(from_draws(drawn, level), mean=site.mean)
    if site.conjugate is not None:
        return site.conjugate.estimate(site.spread, level)
    if site.family == "draws":
        draws = site.arrays["draws"]
        return from_draws(draws.reshape(-1, *draws.shape[2:]), level)
    return from_point(site.mean)


def truths(truth: NumberTruth, level: float) -> Estimate:
    """Truths that are numbers with their intervals, (N,)."""
    return from_moments(truth.mean, truth.sd, level, truth.positive)


def accuracy(result: FitResult, level: float) -> Estimate:
    """Each annotator's probability of giving the true class to a new item, if they give a class, (A,).

    The sum over classes k of prevalence[k] * p(k | annotator, truth k, no abstention); NaN without any class. Of
    large tables that are a Dirichlet by vb, nothing is drawn: mean and standard deviation are exact, and the
    interval is that of the Beta distribution which has both.
    """
    rows, share = large_rows(result), _share_moments(result)
    if rows is None or share is None:
        return _over_truths(result, _right, level)
    right, total = rows.diagonal(axis1=-2, axis2=-1), rows[..., : rows.shape[-2]].sum(-1)
    p = right / total
    square = ((p @ share) * p).sum(-1) + (p * (1 - p) / (total + 1)) @ share.diagonal()
    mean = p @ result.prevalence
    return from_share_moments(mean, np.sqrt(np.maximum(square - mean**2, 0)), level)


def _is_shares(site: SiteResult) -> bool:
    """Whether values are rows of shares, with a parameter that counts."""
    return site.conjugate is not None and site.conjugate.counts


def large_rows(result: FitResult) -> np.ndarray | None:
    """Parameters (A, K, K or L) of a large table whose classes are such a site by vb; None of others."""
    table = result.confusions
    if result.draws is None or isinstance(table, CoinTables) or table.size <= LARGE_TABLE:
        return None
    for site in result.sites.values():
        if _is_shares(site) and site.dims == ("annotator", "truth", "label"):
            own, wanted = among_named(site.mean), among_named(table)
            if own.shape == wanted.shape and np.allclose(own, wanted, rtol=0, atol=SAME):
                return site.spread
    return None


def _share_moments(result: FitResult) -> np.ndarray | None:
    """Means (K, K) of products of two classes' shares: of even ones, or of such a site; None of others."""
    mean = result.prevalence
    if np.allclose(mean, 1 / len(mean), rtol=0, atol=SAME / len(mean)):
        return np.outer(mean, mean)
    for site in result.sites.values():
        if _is_shares(site) and site.dims == ("class",) and np.allclose(site.mean, mean, rtol=0, atol=SAME):
            total = site.spread.sum()
            return np.asarray((np.diag(mean) + total * np.outer(mean, mean)) / (total + 1))
    return None


def abstention(result: FitResult, level: float) -> Estimate:
    """Each annotator's probability of abstaining from a new item, (A,)."""
    return _over_truths(result, _abstaining, level)


def _over_truths(result: FitResult, of: Callable[[np.ndarray | CoinTables], np.ndarray], level: float) -> Estimate:
    """Mean over the truths of new items of a function from tables (..., A, K, L) to (..., A, K): (A,)."""
    check_level(level)
    at_mean, draws = of(result.confusions) @ result.prevalence, result.confusion_draws
    if draws is None or result.prevalence_draws is None:
        return from_point(at_mean)
    draws = np.einsum("dak,dk->da", of(draws), result.prevalence_draws)
    return _exact_mean(result, from_draws(draws, level), at_mean)


def _exact_mean(result: FitResult, estimate: Estimate, at_mean: np.ndarray) -> Estimate:
    """An estimate from draws, with the mean exact under vb, unless six errors off: it is not linear in sites."""
    sites = result.sites.values()
    mean_field = any(site.conjugate is not None for site in sites) and not any(x.family == "draws" for x in sites)
    if result.prevalence_draws is None or not mean_field:
        return estimate
    near = np.abs(estimate.mean - at_mean) <= 6 * estimate.sd / np.sqrt(len(result.prevalence_draws)) + 1e-6
    near = near | any(site.drawn() is not None for site in sites)  # chains tell how wide it is, not where vb is
    return replace(estimate, mean=np.where(near, at_mean, estimate.mean))


def among_named(table: np.ndarray) -> np.ndarray:
    """(..., K, L) over answers as (..., K, K) over the classes among them; NaN where none has a probability."""
    n_classes = table.shape[-2]
    if table.shape[-1] == n_classes:
        return table
    classes = table[..., :n_classes]
    total = classes.sum(-1, keepdims=True)
    return np.asarray(np.divide(classes, total, out=np.full_like(classes, np.nan), where=total > 0))


def _abstaining(table: np.ndarray | CoinTables) -> np.ndarray:
    if isinstance(table, CoinTables):
        return np.asarray(np.broadcast_to(1 - table.naming, table.shape[:-1]))
    return np.asarray(table[..., table.shape[-2] :].sum(-1))


def _right(table: np.ndarray | CoinTables) -> np.ndarray:
    if isinstance(table, CoinTables):
        return table.diagonal()
    return np.asarray(among_named(table).diagonal(axis1=-2, axis2=-1))


def _errors(draws: np.ndarray) -> np.ndarray:
    """By how much a mean may differ from that of draws: six standard errors."""
    return np.asarray(6 * draws.std(0, dtype=np.float64) / np.sqrt(len(draws)) + 1e-6)


def _same_site(
    result: FitResult, dims: tuple[str, ...], mean: np.ndarray, error: np.ndarray | float, level: float
) -> Estimate | None:
    """Exact estimate of the conjugate site that is this quantity, by dimensions and means, if there is any."""
    for site in result.sites.values():
        alike = site.conjugate is not None and site.dims == dims and site.mean.shape == mean.shape
        if alike and site.conjugate is not None and np.all(np.abs(site.mean - mean) <= error):
            return of_site(site, level)
    return None
