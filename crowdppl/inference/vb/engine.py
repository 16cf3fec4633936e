"""em and vb as engines: runs from several starts, and the results of their states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from crowdppl.core.collective import together
from crowdppl.core.devices import moved_to, pyro_state_kept, return_memory
from crowdppl.inference.assembly import tables_of_draws, tables_of_values
from crowdppl.inference.cavities import NoProductError
from crowdppl.inference.confusions import (
    MOST_DRAWS,
    affordable,
    are_linear,
    as_draws,
    by_code,
    draw_tables,
    number_truth,
    shares_at,
    shares_by_code,
    site_dims,
    thinned,
    truth_over,
)
from crowdppl.inference.draws import crossed, draws_of, mean_of
from crowdppl.inference.engine import ASCENT, KEPT, Engine
from crowdppl.inference.loop import diagnostics_of_runs
from crowdppl.inference.problem import Problem, model_runs
from crowdppl.inference.result import (
    ClassProbabilities,
    FitResult,
    NumberTruth,
    OnDemand,
    SiteResult,
    TableDraws,
    Tables,
    TruthSpread,
)
from crowdppl.inference.state import State, gaussians_of
from crowdppl.inference.vb.collapsed import collapsed
from crowdppl.inference.vb.coordinate_ascent import EM, VB, CoordinateAscent
from crowdppl.inference.vb.fit import AscentRun, epochs, run_starts
from crowdppl.inference.vb.linear_response import Widths, why_mean_field, widths
from crowdppl.networks.outputs import networks_of

T = TypeVar("T")

WAIT = 60.0
"""Seconds for which a process that asks for an interval waits for the others to ask."""
SPREAD_DRAWS, SPREAD_READ, NUMBERS_READ = 50, 250_000, 5_000_000
"""Draws at least for the spread of vb's truths, and labels that more may read: of classes, and of numbers."""


def _run(ascent: CoordinateAscent, problem: Problem, order: np.ndarray) -> FitResult:
    """The result of the best of several starts; ``order`` has item codes by position."""
    runs = run_starts(problem, ascent)
    learner = runs[0].learner
    more = "max_iterations" if learner is None else "training={'epochs': ...}"
    diagnostics = diagnostics_of_runs(ascent.name, runs, f"raise {more} or tolerance")
    if learner is not None and learner.on_votes:
        diagnostics["warnings"].append(
            f"the network still learned the votes when {ascent.name} ended, after {runs[0].progress.iterations} "
            f"epochs (training: warm_up={learner.training.warm_up}), so that annotators are as the votes made "
            "them; train for more epochs, or lower warm_up"
        )
    return result_of_state(problem, order, runs[0], diagnostics)


def _capability(ascent: CoordinateAscent, problem: Problem) -> str:
    """What em or vb does with a problem."""
    ascent.start(problem)
    if problem.of_kind("free"):
        return "gradient"
    return "mean-field" if ascent.rule.spreads or problem.of_kind("onehot") else "exact"


def result_of_state(problem: Problem, order: np.ndarray, run: AscentRun, diagnostics: dict[str, Any]) -> FitResult:
    """The result of em (points) or vb (distributions) after its best run; ``order`` has item codes by position."""
    found = run.ascent.at(problem, run.state)
    values, chains = found.values(), found.full_pass.density.chains
    sites = _state_sites(problem, order, run)
    if run.ascent.rule.spreads and (why := why_mean_field(problem, run.state)) is not None:
        diagnostics["widths"] = why
    if problem.truth is None:
        numbers = number_truth(problem, as_draws(values, chains), order)
        if run.ascent.rule.spreads:
            kept = replace(problem)
            sites = _widened(kept, run, sites, run.state, diagnostics)
            numbers = replace(numbers, spread=_later(lambda: kept, partial(_number_spread, numbers, sites, order)))
        return FitResult(sites, numbers, None, diagnostics)
    told = values
    if problem.telling is not problem and run.ascent.rule.spreads:  # as predict tells truths of new items
        told = values | mean_of(problem, sites, [s.name for s in problem.of_kind("conjugate")])
    shares, state = shares_at(problem, told, chains), run.state
    return_memory(len(order))
    if run.ascent.rule.spreads:
        try:
            own = collapsed(problem, found.prior_parameters(), values, shares)
        except NoProductError as reason:
            diagnostics["mean_field"] = reason.why
        else:
            diagnostics |= {"sweeps": own.sweeps, "change": own.change}
            shares = own.shares
            moved = {n: x.cpu().numpy() for n, x in own.parameters.items()}
            sites |= {n: sites[n].with_parameter(x) for n, x in moved.items()}
            state = replace(run.state, parameters={**run.state.parameters, **own.parameters})
    truth = ClassProbabilities(shares_by_code(shares, order))
    problem = replace(problem)  # lives on in the result, without what was recorded of its passes
    options, has_networks, spreads = problem.options, bool(networks_of(problem.model)), run.ascent.rule.spreads

    def compute(of: Problem) -> Tables:
        return _mean_tables(of, sites, order) if spreads else tables_of_values(of, values, chains)

    tables = _later(lambda: problem, compute)
    if has_networks:
        tables()  # now, as weights may change
    if not spreads:
        return FitResult(sites, truth, tables, diagnostics)
    # Files may lack features; and the same numbers come on no other device, nor in another precision.
    again = not has_networks and options.device == "cpu" and options.dtype is None
    result = FitResult(_widened(problem, run, sites, state, diagnostics), truth, tables, diagnostics)
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
        return tables_of_values(problem, mean, None)
    # Draws of mean field are narrower than those of the widened sites: the same mean with less noise.
    return tables_of_draws(_drawn_tables(problem, sites, order))


def _drawn_tables(problem: Problem, sites: Mapping[str, SiteResult], order: np.ndarray) -> TableDraws:
    """The tables at draws from vb's distributions, which are always the same."""
    return draw_tables(problem, sites, order, affordable(problem), problem.options.generator(8))


def _truth_spread(problem: Problem, sites: Mapping[str, SiteResult], order: np.ndarray) -> TruthSpread:
    """How truths vary over some of the same draws."""
    draws = draws_of(problem, sites, order, affordable(problem), problem.options.generator(8))
    few = max(SPREAD_DRAWS, SPREAD_READ // max(problem.n_labels, 1))
    return truth_over(problem, thinned(draws, few), order)[1]


def _number_spread(
    numbers: NumberTruth, sites: Mapping[str, SiteResult], order: np.ndarray, problem: Problem
) -> np.ndarray:
    """Standard deviations of truths that are numbers: of mean field, unless draws of the sites tell more."""
    if all(site.drawn() is None for site in sites.values()):
        return numbers.sd
    few = max(SPREAD_DRAWS, min(MOST_DRAWS, NUMBERS_READ // max(problem.n_labels, 1)))
    draws = draws_of(problem, sites, order, few, problem.options.generator(8))
    return number_truth(problem, draws, order).sd


def _later(problem: Callable[[], Problem], compute: Callable[[Problem], T], again: bool = False) -> OnDemand[T]:
    """What is computed on demand, in the surroundings of the fit; ``again`` as of ``OnDemand``."""

    @together(WAIT)
    def run() -> T:
        found = problem()
        device = found.options.device
        with ExitStack() as stack:
            stack.enter_context(pyro_state_kept())
            stack.enter_context(model_runs(found.model, found, device))
            for network in networks_of(found.model).values():
                stack.enter_context(moved_to(network, device))
            return compute(found)

    return OnDemand(run, again)


def _sufficient_mean(problem: Problem, sites: Mapping[str, SiteResult]) -> dict[str, Tensor] | None:
    """The mean of the sites where the table at the mean is the mean table, else None."""
    if problem.of_kind("free") or not all(s.conjugate.counts for s in problem.of_kind("conjugate")):
        return None
    mean = mean_of(problem, sites, [n for n, site in problem.sites.items() if not site.local])
    if mean and not are_linear(problem, crossed(problem, mean, problem.options.generator(8))):
        return None
    return mean


def _widened(
    problem: Problem,
    run: AscentRun,
    sites: Mapping[str, SiteResult],
    state: State,
    diagnostics: dict[str, Any],
) -> dict[str, SiteResult]:
    """The sites of vb in a state, made as wide as they should be; diagnostics say where they cannot be."""
    mean_field, settled = run.state, run.progress.converged

    def compute(of: Problem) -> Widths:
        found = widths(of, state, mean_field, of.options.generator(13), settled=settled)
        if found.mean_field is not None:
            diagnostics["widths"] = found.mean_field
        return found

    found = _later(lambda: problem, compute)

    def weight(name: str) -> np.ndarray | None:
        return found().weights[name].cpu().numpy() if name in found().weights else None

    def drawn(name: str) -> np.ndarray | None:
        return found().draws[name].cpu().numpy() if name in found().draws else None

    return {
        n: replace(site, weight=OnDemand(partial(weight, n)), drawn=OnDemand(partial(drawn, n)))
        for n, site in sites.items()
    }


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


def _engine(ascent: CoordinateAscent, *options: str) -> Engine:
    of: Any = (partial(function, ascent) for function in (_run, _capability, epochs))
    run, capability, training = of
    return Engine(ascent.name, run, capability, (*ASCENT, *KEPT, *options), training, shares=("networks",))


ENGINES = (_engine(EM), _engine(VB, "batch_size", "guide"))
