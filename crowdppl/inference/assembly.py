"""Results of engines, from their last states or their draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.devices import moved_to, pyro_state_kept
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.draws import crossed, draws_of, mean_of
from crowdppl.inference.problem import Problem, without_validation
from crowdppl.inference.result import (
    ClassProbabilities,
    FitResult,
    OnDemand,
    SiteResult,
    TableDraws,
    Tables,
    TruthSpread,
)
from crowdppl.inference.sites import Site
from crowdppl.inference.state import gaussians_of
from crowdppl.inference.tables import (
    MOST_DRAWS,
    affordable,
    are_linear,
    as_draws,
    by_code,
    draw_tables,
    number_truth,
    site_dims,
    table_draws,
    tables_at,
    tables_read,
    thinned,
    truth_at,
    truth_over,
)
from crowdppl.inference.vb.fit import AscentRun
from crowdppl.inference.vb.linear_response import widths
from crowdppl.networks.outputs import networks_of

T = TypeVar("T")

SPREAD_DRAWS, SPREAD_READ = 50, 250_000
"""Draws over which the spread of vb's probabilities is found at least, and the labels that more may read."""
TRUTH_DRAWS, LABELS_READ = 2_000, 2_500_000
"""Draws of a sampler over which the truth of small data is averaged, and the labels that this may read: of 200 the
Monte Carlo error is a fourteenth of a probability's spread, which turns an item that stands between two classes."""


def result_of_state(problem: Problem, order: np.ndarray, run: AscentRun, diagnostics: dict[str, Any]) -> FitResult:
    """The result of em (points) or vb (distributions) after its best run; ``order`` has item codes by position."""
    found = run.ascent.at(problem, run.state)
    values, chains = found.values(), found.full_pass.density.chains
    sites = _state_sites(problem, order, run)
    if problem.truth is None:  # numbers, which by vb are conditional on its mean field
        numbers = number_truth(problem, as_draws(values, chains), order)
        sites = _widened(replace(problem), run, sites) if run.ascent.rule.spreads else sites
        return FitResult(sites, numbers, None, diagnostics)
    truth = ClassProbabilities(truth_at(problem, values, chains, order))
    problem = replace(problem)  # lives on in the result, without what was recorded of its passes
    options, has_networks, spreads = problem.options, bool(networks_of(problem.model)), run.ascent.rule.spreads

    def compute(of: Problem) -> Tables:
        return _mean_tables(of, sites, order) if spreads else _tables_at(of, values, chains)

    tables = _later(lambda: problem, compute)
    if has_networks:
        tables()  # now, as weights may change
    if not spreads:
        return FitResult(sites, truth, tables, diagnostics)
    # Files may lack features; and the same numbers come on no other device, nor in another precision.
    again = not has_networks and options.device == "cpu" and options.dtype is None
    result = FitResult(_widened(problem, run, sites), truth, tables, diagnostics)
    return with_draws(lambda: problem, result, order, again)


def with_draws(
    problem: Callable[[], Problem], result: FitResult, order: np.ndarray, again: bool = True
) -> FitResult:
    """The result of vb on classes with draws on demand where it lacks them; ``again`` as of ``OnDemand``."""
    truth, draws, sites = result.truth, result.draws, result.sites
    assert isinstance(truth, ClassProbabilities)
    if truth.spread is None or truth.spread.left_out:
        truth = replace(truth, spread=_later(problem, lambda of: _truth_spread(of, sites, order), again))
    if draws is None or draws.left_out:
        draws = _later(problem, lambda of: _drawn_tables(of, sites, order), again)
    return replace(result, truth=truth, draws=draws)


def _mean_tables(problem: Problem, sites: Mapping[str, SiteResult], order: np.ndarray) -> Tables:
    """The mean over vb's distributions of the annotators' tables and the prevalence."""
    mean = _sufficient_mean(problem, sites)
    if mean is not None:
        return _tables_at(problem, mean, None)
    # Draws of mean field are narrower than those of the widened sites: the same mean with less noise.
    return _tables_over(_drawn_tables(problem, sites, order))


def _tables_at(problem: Problem, values: Mapping[str, Tensor], chains: int | None) -> Tables:
    """The annotators' tables and the prevalence at one value of the parameters."""
    read = tables_read(problem, values, chains)
    if read is not None:
        return Tables(*read)
    table, prevalence = tables_at(problem, values, chains)
    return Tables(table.cpu().numpy(), prevalence.cpu().numpy())


def _tables_over(drawn: TableDraws) -> Tables:
    """The means of draws of the annotators' tables and the prevalence."""
    tables = drawn.tables
    if isinstance(tables, CoinTables):
        return Tables(tables.each(lambda x: x.mean(0, dtype=np.float64)), drawn.prevalence.mean(0))
    return Tables(tables.mean(0, dtype=np.float64), drawn.prevalence.mean(0))


def _drawn_tables(problem: Problem, sites: Mapping[str, SiteResult], order: np.ndarray) -> TableDraws:
    """The tables at draws from vb's distributions, which are always the same."""
    return draw_tables(problem, sites, order, affordable(problem), problem.options.generator(8))


def _truth_spread(problem: Problem, sites: Mapping[str, SiteResult], order: np.ndarray) -> TruthSpread:
    """How truths vary over some of the same draws."""
    draws = draws_of(problem, sites, order, affordable(problem), problem.options.generator(8))
    few = max(SPREAD_DRAWS, SPREAD_READ // max(problem.n_labels, 1))
    return truth_over(problem, thinned(draws, few), order)[1]


def _later(problem: Callable[[], Problem], compute: Callable[[Problem], T], again: bool = False) -> OnDemand[T]:
    """What is computed on demand, in the surroundings of the fit; ``again`` as of ``OnDemand``."""

    def run() -> T:
        found = problem()
        device = found.options.device
        with ExitStack() as stack:
            stack.enter_context(pyro_state_kept())
            stack.enter_context(without_validation(device))
            for network in networks_of(found.model).values():
                stack.enter_context(moved_to(network, device))
            return compute(found)

    return OnDemand(run, again)


def result_of_draws(
    problem: Problem, order: np.ndarray, draws: Mapping[str, Tensor], diagnostics: dict[str, Any]
) -> FitResult:
    """The result of a sampler: draws by site, (C, D, ..., event)."""
    flat = {n: x.flatten(0, 1) for n, x in draws.items()}
    sites = {n: _drawn_site(problem, order, n, x) for n, x in draws.items()}
    many = thinned(flat, max(MOST_DRAWS, min(TRUTH_DRAWS, LABELS_READ // max(problem.n_labels, 1))))
    if problem.truth is None:
        return FitResult(sites, number_truth(problem, many, order), None, diagnostics)
    mean, spread = truth_over(problem, many, order)
    drawn = table_draws(problem, thinned(flat, max(MOST_DRAWS, affordable(problem))))
    truth, tables = ClassProbabilities(mean, OnDemand.of(spread)), OnDemand.of(_tables_over(drawn))
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
    return FitResult(sites, truth, OnDemand.of(_tables_at(problem, values, None)), diagnostics)


def _sufficient_mean(problem: Problem, sites: Mapping[str, SiteResult]) -> dict[str, Tensor] | None:
    """The mean of the sites where the table at the mean is the mean table, else None."""
    if problem.of_kind("free") or not all(s.conjugate.counts for s in problem.of_kind("conjugate")):
        return None
    mean = mean_of(problem, sites, [n for n, site in problem.sites.items() if not site.local])
    if mean and not are_linear(problem, crossed(problem, mean, problem.options.generator(8))):
        return None
    return mean


def _widened(problem: Problem, run: AscentRun, sites: Mapping[str, SiteResult]) -> dict[str, SiteResult]:
    """The sites of vb, which linear response makes as wide as they should be."""
    state, settled = run.state, run.progress.converged
    found = _later(lambda: problem, lambda of: widths(of, state, of.options.generator(13), settled=settled))

    def weight(name: str) -> np.ndarray | None:
        return found().weights[name].cpu().numpy() if name in found().weights else None

    def drawn(name: str) -> np.ndarray | None:
        return found().draws[name].cpu().numpy() if name in found().draws else None

    return {
        n: replace(site, weight=OnDemand(partial(weight, n)), drawn=OnDemand(partial(drawn, n)))
        for n, site in sites.items()
    }


def _drawn_site(problem: Problem, order: np.ndarray, name: str, x: Tensor) -> SiteResult:
    site = problem.sites[name]
    x = site.value(x)
    values = x.reshape(*x.shape[:2], *site.shape(problem.n_items)).cpu().numpy()
    if site.local:
        axis = 2 + site.batch_shape.index(-1)
        values = np.moveaxis(by_code(np.moveaxis(values, axis, 0), order), 0, axis)
    return SiteResult(name, site_dims(problem.model, site), "draws", {"draws": values})


def _state_sites(problem: Problem, order: np.ndarray, run: AscentRun) -> dict[str, SiteResult]:
    """The sites of a state of em or vb: conjugate, one-hot, then Gaussians or points."""
    state, found = run.state, {}
    means = gaussians_of(problem, state).means()

    def numpy(x: Tensor, name: str) -> np.ndarray:
        array = x.detach().cpu().numpy()
        return by_code(array, order) if name in means and problem.sites[name].local else array

    def add(name: str, family: str, arrays: Mapping[str, np.ndarray], support: str = "") -> None:
        found[name] = SiteResult(name, site_dims(problem.model, problem.sites[name]), family, arrays, support)

    for name, x in state.parameters.items():
        family = problem.sites[name].conjugate
        if run.ascent.rule.spreads:
            add(name, family.name, {family.key: numpy(x, name)})
        else:
            add(name, "point", {"value": numpy(family.value(x), name)})
    for name, x in state.logits.items():
        add(name, "onehot", {"probability": numpy(x.softmax(-1), name)})
    for name, mean in means.items():
        if name in state.log_scale:
            loc, scale = state.loc[name], state.log_scale[name].exp()
            site, arrays = problem.sites[name], {"loc": numpy(loc, name), "scale": numpy(scale, name)}
            arrays |= {"mean": numpy(mean, name)} | ({"unit": np.array(site.unit)} if site.unit else {})
            add(name, "normal", arrays, site.space)
        else:
            add(name, "point", {"value": numpy(mean, name)})
    return found


def mixing(draws: Mapping[str, Tensor], sites: Mapping[str, Site]) -> dict[str, Any]:
    """How well chains agree and how much their draws are worth, by site.

    The worst split R-hat over at most 200 of the site's entries, from at most 100 draws a chain (thinning takes
    nothing from a comparison of chains); and the smallest bulk and tail ESS, from all draws, of the 40 entries
    whose R-hat is worst.
    """
    import arviz as az  # slow to import, needed by samplers only

    out: dict[str, dict[str, float]] = {"rhat": {}, "ess_bulk": {}, "ess_tail": {}}
    with warnings.catch_warnings():  # many chains of few draws are no dimensions mixed up
        warnings.filterwarnings("ignore", "More chains", UserWarning)
        for name, x in draws.items():
            values = sites[name].value(x).reshape(*x.shape[:2], -1)
            at = torch.linspace(0, values.shape[-1] - 1, min(200, values.shape[-1])).round().long()
            array = values[..., at].cpu().numpy().astype(np.float64)
            array = array[..., array.std((0, 1)) > 1e-12]
            if array.shape[1] < 4 or array.shape[-1] == 0:
                continue
            rhat = np.full(array.shape[-1], np.nan)
            if len(array) > 1:  # one chain has none, and ArviZ would warn of each site
                some = az.convert_to_dataset({"x": array[:, :: max(1, array.shape[1] // 100)]})
                with np.errstate(divide="ignore", invalid="ignore"):  # chains that do not move are infinitely apart
                    rhat = az.rhat(some)["x"].values
            worst = az.convert_to_dataset({"x": array[..., np.argsort(-np.nan_to_num(rhat))[:40]]})
            out["rhat"][name] = float("nan") if np.isnan(rhat).all() else float(np.nanmax(rhat))
            for tail in ("bulk", "tail"):
                out[f"ess_{tail}"][name] = float(np.nanmin(az.ess(worst, method=tail)["x"].values))
    return out
