"""Means, standard deviations and intervals of annotators' tables and of the prevalence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from crowdppl.core.intervals import (
    Estimate,
    check_level,
    from_draws,
    from_gaussian,
    from_point,
    from_share_moments,
)
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.confusions import among_named
from crowdppl.inference.result import Fit, FitResult, SiteResult
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.labels import LARGE_TABLE
from crowdppl.primitives.model import card_of

MOST, MOST_NUMBERS = 2_000, 20_000_000
"""Draws of shares that are the softmax of a Gaussian, and the numbers in them."""


def confusion(fit: Fit, level: float) -> Estimate:
    """p(answer | annotator, truth) with its interval, (A, K, L)."""
    return _of_tables(fit, np.asarray, level)


def prevalence(fit: Fit, level: float) -> Estimate:
    """Share of each class with its interval, (K,); exact where it is a conjugate site."""
    check_level(level)
    site = _conjugate_site(fit, "prevalence")
    if fit.result.draws is None:
        return from_point(fit.result.prevalence)
    return from_draws(fit.result.draws().prevalence, level) if site is None else of_site(site, level)


def among_classes(fit: Fit, level: float) -> Estimate:
    """p(class | annotator, truth, no abstention) with its interval, (A, K, K)."""
    return _of_tables(fit, among_named, level)


def _of_tables(fit: Fit, of: Callable[[np.ndarray], np.ndarray], level: float) -> Estimate:
    """A function of the confusion, from (..., K, L), with its interval; exact where it is a conjugate site."""
    check_level(level)
    site, table = _conjugate_site(fit, "confusion"), of(fit.result.table)
    if fit.result.draws is None:
        return from_point(table)
    if site is not None and site.mean.shape == table.shape:
        return of_site(site, level)
    return _exact_mean(fit.result, from_draws(of(np.asarray(fit.result.table_draws)), level), table)


def named_site(fit: Fit, what: str) -> SiteResult | None:
    """The site that is the confusion or the prevalence, as the model's card says; None without.

    A network tells more of the classes of items than the site does.
    """
    card = card_of(fit.model)
    if card is None or (what == "prevalence" and networks_of(fit.model)):
        return None
    return fit.result.sites.get(getattr(card, what))


def _conjugate_site(fit: Fit, what: str) -> SiteResult | None:
    """The named site, where its posterior is of a family of conjugate priors."""
    site = named_site(fit, what)
    return None if site is None or site.conjugate is None else site


def of_site(site: SiteResult, level: float) -> Estimate:
    """The values of a site with their intervals; without, where it is a point or its space is not known."""
    check_level(level)
    if (drawn := site.drawn()) is not None:
        return replace(from_draws(drawn, level), mean=site.mean)
    if site.conjugate is not None:
        return site.conjugate.estimate(site.spread, level)
    if site.family == "draws":
        draws = site.arrays["draws"]
        return from_draws(draws.reshape(-1, *draws.shape[2:]), level)
    if site.family == "normal" and site.support:
        loc, scale = site.arrays["loc"], site.arrays["scale"]
        if site.support != "simplex":
            return from_gaussian(loc, scale, level, site.constrained)
        noise = np.random.default_rng(0).standard_normal((min(MOST, MOST_NUMBERS // loc.size + 2), *loc.shape))
        return replace(from_draws(site.constrained(loc + scale * noise), level), mean=site.mean)
    return from_point(site.mean)


def accuracy(fit: Fit, level: float) -> Estimate:
    """Each annotator's probability of giving the true class to a new item, if they give a class, (A,).

    The sum over classes k of prevalence[k] * p(k | annotator, truth k, no abstention); NaN without any class. Of
    large tables that are a Dirichlet by vb, nothing is drawn: mean and standard deviation are exact, and the
    interval is that of the Beta distribution which has both.
    """
    rows, share = large_rows(fit), _share_moments(fit)
    if rows is None or share is None:
        return _over_truths(fit.result, _right, level)
    right, total = rows.diagonal(axis1=-2, axis2=-1), rows[..., : rows.shape[-2]].sum(-1)
    p = right / total
    square = ((p @ share) * p).sum(-1) + (p * (1 - p) / (total + 1)) @ share.diagonal()
    mean = p @ fit.result.prevalence
    return from_share_moments(mean, np.sqrt(np.maximum(square - mean**2, 0)), level)


def large_rows(fit: Fit) -> np.ndarray | None:
    """Parameters (A, K, K or L) of a large table whose rows are a Dirichlet by vb; None of others."""
    site, table = _conjugate_site(fit, "confusion"), fit.result.confusions
    if fit.result.draws is None or site is None or isinstance(table, CoinTables) or table.size <= LARGE_TABLE:
        return None
    return site.spread


def _share_moments(fit: Fit) -> np.ndarray | None:
    """Means (K, K) of products of two classes' shares, where these are known or a Dirichlet; None of others."""
    card, mean, site = card_of(fit.model), fit.result.prevalence, _conjugate_site(fit, "prevalence")
    if site is not None:
        total = site.spread.sum()
        return np.asarray((np.diag(mean) + total * np.outer(mean, mean)) / (total + 1))
    known = card is not None and card.prevalence and card.prevalence not in fit.result.sites
    return np.outer(mean, mean) if known and not networks_of(fit.model) else None


def abstention(fit: Fit, level: float) -> Estimate:
    """Each annotator's probability of abstaining from a new item, (A,)."""
    return _over_truths(fit.result, _abstaining, level)


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


def _abstaining(table: np.ndarray | CoinTables) -> np.ndarray:
    if isinstance(table, CoinTables):
        return np.asarray(np.broadcast_to(1 - table.naming, table.shape[:-1]))
    return np.asarray(table[..., table.shape[-2] :].sum(-1))


def _right(table: np.ndarray | CoinTables) -> np.ndarray:
    if isinstance(table, CoinTables):
        return table.diagonal()
    return np.asarray(among_named(table).diagonal(axis1=-2, axis2=-1))
