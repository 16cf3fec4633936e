"""Results of engines from draws of the sites, or one value of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.confusions import (
    MOST_DRAWS,
    affordable,
    by_code,
    number_truth,
    site_dims,
    table_draws,
    tables_at,
    tables_read,
    thinned,
    truth_at,
    truth_of_sums,
    truth_over,
)
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import (
    ClassProbabilities,
    FitResult,
    OnDemand,
    SiteResult,
    TableDraws,
    Tables,
)

TRUTH_DRAWS, LABELS_READ = 2_000, 2_500_000
"""Draws of a sampler over which the truth of small data is averaged, and the labels that this may read: of 200 the
Monte Carlo error is a fourteenth of a probability's spread, which turns an item that stands between two classes."""


def tables_of_values(problem: Problem, values: Mapping[str, Tensor], chains: int | None) -> Tables:
    """The annotators' tables and the prevalence at one value of the parameters."""
    read = tables_read(problem, values, chains)
    if read is not None:
        return Tables(*read)
    table, prevalence = tables_at(problem, values, chains)
    return Tables(table.cpu().numpy(), prevalence.cpu().numpy())


def tables_of_draws(drawn: TableDraws) -> Tables:
    """The means of draws of the annotators' tables and the prevalence."""
    tables = drawn.tables
    if isinstance(tables, CoinTables):
        return Tables(tables.map(lambda x: x.mean(0, dtype=np.float64)), drawn.prevalence.mean(0))
    return Tables(tables.mean(0, dtype=np.float64), drawn.prevalence.mean(0))


def result_of_draws(
    problem: Problem,
    order: np.ndarray,
    draws: Mapping[str, Tensor],
    diagnostics: dict[str, Any],
    truth_sums: Sequence[Any] | None = None,
) -> FitResult:
    """The result of a sampler: draws by site, (C, D, ..., event); sums over draws of truths that were drawn."""
    flat = {n: x.flatten(0, 1) for n, x in draws.items()}
    sites = {n: _drawn_site(problem, order, n, x) for n, x in draws.items()}
    many = thinned(flat, max(MOST_DRAWS, min(TRUTH_DRAWS, LABELS_READ // max(problem.n_labels, 1))))
    if problem.truth is None:
        return FitResult(sites, number_truth(problem, many, order), None, diagnostics)
    mean, spread = truth_over(problem, many, order) if truth_sums is None else truth_of_sums(truth_sums, order)
    drawn = table_draws(problem, thinned(flat, max(MOST_DRAWS, affordable(problem))))
    truth, tables = ClassProbabilities(mean, OnDemand.of(spread)), OnDemand.of(tables_of_draws(drawn))
    return FitResult(sites, truth, tables, diagnostics, OnDemand.of(drawn))


def result_of_point(
    problem: Problem, order: np.ndarray, draws: Mapping[str, Tensor], diagnostics: dict[str, Any]
) -> FitResult:
    """The result of a guide that is a point: the only draw (1, 1, ...) of each site."""
    sites = {}
    for name, x in draws.items():
        drawn = _drawn_site(problem, order, name, x)
        sites[name] = SiteResult(name, drawn.dims, "point", {"value": np.asarray(drawn.arrays["draws"][0, 0])})
    if problem.truth is None:
        one = {n: x[0] for n, x in draws.items()}
        return FitResult(sites, number_truth(problem, one, order), None, diagnostics)
    values = {n: x[0, 0].reshape(problem.sites[n].shape(problem.n_items)) for n, x in draws.items()}
    truth = ClassProbabilities(truth_at(problem, values, None, order))
    return FitResult(sites, truth, OnDemand.of(tables_of_values(problem, values, None)), diagnostics)


def _drawn_site(problem: Problem, order: np.ndarray, name: str, x: Tensor) -> SiteResult:
    site = problem.sites[name]
    x = site.value(x)
    values = x.reshape(*x.shape[:2], *site.shape(problem.n_items)).cpu().numpy()
    if site.local:
        axis = 2 + site.batch_shape.index(-1)
        values = np.moveaxis(by_code(np.moveaxis(values, axis, 0), order), 0, axis)
    return SiteResult(name, site_dims(problem.model, site), "draws", {"draws": values})
