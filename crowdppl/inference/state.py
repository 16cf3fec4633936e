"""Where a mean-field fit stands, and where each start of an engine begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.density import TraceSites
from crowdppl.inference.gaussians import Gaussians, base_draws
from crowdppl.inference.passes import FullPass
from crowdppl.inference.problem import Earlier, Problem
from crowdppl.inference.replay import arrays_of, put_back
from crowdppl.inference.sites import Site
from crowdppl.networks.outputs import networks_of

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class State:
    """Where em or vb stands: tensors alone, by site.

    Attributes:
        parameters: of conjugate sites: statistics of points for em, parameters of distributions for vb.
        logits: of one-hot sites; their softmax is the expected one-hot vector.
        loc, log_scale, noise: of all other sites, as of ``Gaussians``; the last two are empty for points.
        fixed: values of sites that do not move.
        memory: what the search for the Gaussians knows of the curvature, and of where it ended.
    """

    parameters: Tensors = field(default_factory=dict)
    logits: Tensors = field(default_factory=dict)
    loc: Tensors = field(default_factory=dict)
    log_scale: Tensors = field(default_factory=dict)
    noise: Tensors = field(default_factory=dict)
    fixed: Tensors = field(default_factory=dict)
    memory: Tensors = field(default_factory=dict)

    def arrays(self) -> Tensors:
        """The state as tensors by name."""
        return arrays_of(self)

    def at(self, arrays: Mapping[str, Tensor]) -> State:
        """Another state of the same sites, from what ``arrays`` returned."""
        found: State = put_back(replace(self, memory={}), arrays)
        return found


def gaussians_of(problem: Problem, state: State) -> Gaussians:
    """The sites of a state that are neither conjugate nor one-hot."""
    sites = {name: problem.sites[name] for name in state.loc}
    return Gaussians(sites, state.loc, state.log_scale, state.noise, problem.plates)


@dataclass(frozen=True)
class Start:
    """What a start is made of, before the parameters of conjugate sites are found.

    Attributes:
        state: with one-hot and Gaussian sites at first values; where an earlier fit is continued, all at its end.
        values: a first value of each site.
        tilt: log truth shares of the start, by the name of the truth.
        continued: whether an earlier fit is.
    """

    state: State
    values: Tensors
    tilt: Tensors
    continued: bool


def start_of(
    problem: Problem, number: int = 0, shares: int | None = None, *, points: bool, modes: bool = False
) -> Start:
    """A start by its number: first values and truth shares; the first continues an earlier fit, if there is one.

    Args:
        problem: model, data and sites.
        number: of the start, by which random numbers are drawn.
        shares: number of its truth shares, as of ``Problem.start_shares``; by default the same.
        points: whether Gaussian sites are points.
        modes: whether conjugate sites are points, too; else only an earlier mean field is continued.
    """
    options = problem.options
    values = problem.first_values(options.generator(2, number))
    logits = {s.name: values[s.name].clamp(min=1e-6).log() for s in problem.of_kind("onehot")}
    sites = {s.name: s for kind in ("free", "hyper") for s in problem.of_kind(kind)}
    loc = {n: s.transform.inv(values[n].double()).detach().clone().contiguous() for n, s in sites.items()}
    log_scale, noise = Tensors(), Tensors()
    if sites and not points:
        log_scale, noise = base_draws(sites, loc, problem.signatures, options.seed + number)
    state = State({}, logits, loc, log_scale, noise)
    if number == 0 and problem.earlier is not None and _fits(problem.earlier, problem, modes):
        return Start(_continued(problem, problem.earlier, state), values, {}, True)
    return Start(state, values, problem.start_potentials(number if shares is None else shares), False)


def first_state(problem: Problem, number: int = 0, shares: int | None = None, *, points: bool) -> State:
    """The mean field in which a start begins: conjugate sites from one pass tilted towards its truth.

    Arguments are as of ``start_of``. Any engine can start from it.
    """
    start = start_of(problem, number, shares, points=points)
    if start.continued or not problem.of_kind("conjugate"):
        return start.state
    priors, counts = prior_and_counts(problem, start)
    return replace(start.state, parameters={name: prior + counts[name] for name, prior in priors.items()})


def prior_and_counts(problem: Problem, start: Start) -> tuple[Tensors, Tensors]:
    """Prior parameters and expected counts of conjugate sites at a start."""
    state = start.state
    gaussians, in_labels = gaussians_of(problem, state), bool(problem.of_kind("free"))
    conjugate = state.parameters
    if not start.continued:
        conjugate = {s.name: s.statistic(start.values[s.name]) for s in problem.of_kind("conjugate")}
    statistics = {**conjugate, **{n: x.softmax(-1) for n, x in state.logits.items()}}
    drawn = gaussians.values()
    full_pass = problem.full_pass(gaussians.chains if in_labels else None)
    total = full_pass(
        statistics | (drawn if in_labels else gaussians.means()), gradient=list(conjugate), tilt=start.tilt
    )
    sites = total.trace_sites
    if gaussians.sites:
        with torch.no_grad():
            sites = problem.density(gaussians.chains).priors(problem.blocks[0], {**statistics, **drawn})
    priors = prior_parameters(sites, conjugate, full_pass, gaussians.chains)
    return priors, {n: x / (full_pass.density.chains or 1) for n, x in total.gradient.items()}


def prior_parameters(sites: TraceSites, names: Collection[str], full_pass: FullPass, chains: int | None) -> Tensors:
    """Prior parameters of conjugate sites, averaged over chains."""
    out = {}
    for name in names:
        site = full_pass.sites[name]
        x = site.conjugate.natural(sites[name].fn)
        mean = x if chains is None else x.expand(chains, *x.shape[1:]).mean(0)
        out[name] = mean.reshape(site.statistic_shape(full_pass.n_items))
    return out


def refuse_inferred_priors(problem: Problem, engine: str) -> None:
    """Refuses models whose priors are inferred, for engines that look for a mode: they have no joint one.

    MethodError naming the parameters of priors.
    """
    names, name = [s.name for s in problem.of_kind("hyper")], type(problem.model).__name__
    if names:
        others = "'vb' or 'nuts'" if problem.of_kind("free") else "'vb', 'gibbs' or 'nuts'"
        others = "'vb'" if networks_of(problem.model) else others
        raise MethodError(
            f"{engine} refuses {name}: the prior parameters {', '.join(names)} are inferred too, and their joint "
            "mode may be ill-posed (the density of rows at their mean grows without bound in a concentration); use "
            f"inference={others}"
        )


def _fits(earlier: Earlier, problem: Problem, modes: bool) -> bool:
    """Whether an earlier fit has every site, in the same shape; as distributions, unless ``modes`` are wanted."""
    shapes = {name: site.shape(problem.n_items) for name, site in problem.sites.items()}
    if not all(name in earlier.sites and earlier.sites[name].mean.shape == x for name, x in shapes.items()):
        return False
    return modes or all(earlier.sites[s.name].conjugate is not None for s in problem.of_kind("conjugate"))


def _continued(problem: Problem, earlier: Earlier, state: State) -> State:
    """The state in which the earlier fit ended; ``state`` has base draws for these data."""
    parameters, logits, loc, log_scale = Tensors(), Tensors(), dict(state.loc), dict(state.log_scale)

    def by_position(site: Site, x: np.ndarray) -> Tensor:
        return site.of_items(torch.from_numpy(np.array(x, np.float64)), earlier.order).to(problem.options.device)

    for name, site in problem.sites.items():
        stored = earlier.sites[name]
        mean = by_position(site, stored.mean)
        if site.kind == "onehot":
            logits[name] = mean.clamp(min=1e-30).log()
        elif site.kind == "conjugate":
            mode = stored.conjugate is None
            parameters[name] = site.statistic(mean) if mode else by_position(site, stored.parameter)
        else:
            normal = stored.family == "normal"
            loc[name] = by_position(site, stored.arrays["loc"]) if normal else site.transform.inv(mean)
            if normal and name in log_scale:
                log_scale[name] = by_position(site, stored.arrays["scale"]).log()
    return State(parameters, logits, loc, log_scale, state.noise)
