"""Coordinate ascent: what em and vb share, and where they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from crowdppl.inference.density import FLOOR, Density, TraceSites
from crowdppl.inference.families import Family
from crowdppl.inference.gaussians import Gaussians
from crowdppl.inference.optimisers import LOOKS, PRIOR_LOOKS, LBFGSAscent
from crowdppl.inference.passes import FullPass, Total
from crowdppl.inference.problem import Problem
from crowdppl.inference.replay import with_prefix
from crowdppl.inference.sites import expected
from crowdppl.inference.state import (
    State,
    Tensors,
    first_state,
    gaussians_of,
    prior_and_counts,
    prior_parameters,
    refuse_inferred_priors,
    start_of,
)
from crowdppl.networks.outputs import network_of

NEWTON, FARTHEST = 8, 0.5
"""Steps to the unit of sites that have powers, and how far its logarithm moves in each at most."""


class MapUpdate:
    """em: the parameter is a statistic, updated to that of the mode under prior plus counts."""

    spreads = False  # a fit gives points
    many_iterations = True  # it mostly takes a dozen or more

    def start(self, problem: Problem, number: int) -> State:
        """A start of points. MethodError for a prior below 1, or one whose parameters are inferred."""
        refuse_inferred_priors(problem, "em")
        start = start_of(problem, number, points=True, modes=True)
        if not problem.of_kind("conjugate"):
            return start.state
        priors, counts = prior_and_counts(problem, start)
        parameters = {}
        for name, prior in priors.items():
            site = problem.sites[name]
            if not start.continued:
                site.conjugate.require_mode(name, prior, counts[name])
            # Where a fit is continued, too: under a flat prior, EM would leave rows without labels where they were.
            parameters[name] = self.update(site.conjugate, site.statistic(start.values[name]), prior, counts[name])
        return replace(start.state, parameters=parameters)

    def statistic(self, family: Family, parameter: Tensor) -> Tensor:
        """The statistic at which the labels' term is evaluated: the parameter itself."""
        return parameter

    def update(self, family: Family, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """The mode; a row without counts or prior keeps its value."""
        return family.mode(prior + counts, before)

    def with_scale(self, family: Family, parameter: Tensor, prior: Tensor) -> Tensor:
        """The most probable unit, where labels depend on ratios alone."""
        return family.mode_of_scale(parameter, prior)

    def prior_term(self, family: Family, prior: Any, parameter: Tensor) -> Tensor:
        """The site's term of the objective, one for each row: its log-prior."""
        return family.over(prior, family.log_prior, parameter)


class MeanFieldUpdate:
    """vb: the parameter is that of a distribution, evaluated at the expected statistic.

    Args:
        rate: weight of the new value in an update: 1 for full batches, decaying for minibatches (natural-gradient
            stochastic variational inference, Hoffman et al. 2013).
    """

    spreads = True
    many_iterations = False

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def start(self, problem: Problem, number: int) -> State:
        """A start of distributions, or of points for sites that are not conjugate, as the option ``guide`` says."""
        return first_state(problem, number, points=problem.options.guide == "point")

    def statistic(self, family: Family, parameter: Tensor) -> Tensor:
        """The expected statistic."""
        return family.mean(parameter)

    def update(self, family: Family, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """Prior plus counts."""
        new = prior + counts
        return new if self.rate == 1.0 else before + self.rate * (new - before)

    def with_scale(self, family: Family, parameter: Tensor, prior: Tensor) -> Tensor:
        """The unit that the objective prefers, where labels depend on ratios alone."""
        return family.mean_of_scale(parameter, prior)

    def prior_term(self, family: Family, prior: Any, parameter: Tensor) -> Tensor:
        """Minus the divergence of the posterior from the prior."""
        return -family.over(prior, lambda c, q: family.kl(q, c), parameter)


UpdateRule = MapUpdate | MeanFieldUpdate
"""How em or vb treats conjugate sites."""


@dataclass(frozen=True)
class Evaluated:
    """Objective, counts and gradients at the current state (pure functions).

    ``expected_counts``, ``new_logits`` and ``gaussian_gradient`` return tensors by name, so that their operations
    can be replayed.
    """

    problem: Problem
    rule: UpdateRule
    state: State

    @cached_property
    def gaussians(self) -> Gaussians:
        """Sites that are neither conjugate nor one-hot."""
        return gaussians_of(self.problem, self.state)

    @cached_property
    def full_pass(self) -> FullPass:
        """The model on all blocks, with as many chains as there are particles if labels depend on Gaussians."""
        return self.problem.full_pass(self.gaussians.chains if self.gaussians_in_labels else None)

    @property
    def density(self) -> Density:
        """The model's, with as many chains as there are particles."""
        return self.problem.density(self.gaussians.chains)

    @property
    def gaussians_in_labels(self) -> bool:
        """Whether labels depend on a Gaussian directly, so that moving it costs a pass over them."""
        return any(site.kind == "free" for site in self.gaussians.sites.values())

    @property
    def particles(self) -> int:
        """Particles over which a pass adds up."""
        return self.full_pass.density.chains or 1

    def statistics(self) -> Tensors:
        """Values of all sites but the Gaussians."""
        statistics = {n: self.rule.statistic(self._family(n), x) for n, x in self.state.parameters.items()}
        onehot = {n: x.softmax(-1) for n, x in self.state.logits.items()}
        return {**self.state.fixed, **statistics, **onehot}

    def values(self) -> Tensors:
        """The value of each site at which a pass over the labels is made."""
        with torch.no_grad():
            free = self.gaussians_in_labels
            return {**self.statistics(), **(self.gaussians.values() if free else self.gaussians.means())}

    def prior_sites(self, gaussians: Mapping[str, Tensor] | None = None) -> TraceSites:
        """The model's sites, for the priors of global ones, at values of the Gaussians; no pass over labels."""
        if gaussians is None:
            with torch.no_grad():
                return self.prior_sites(self.gaussians.values())
        return self.density.priors(self.full_pass.blocks[0], {**self.statistics(), **gaussians})

    def prior_parameters(self, sites: TraceSites | None = None) -> Tensors:
        """Prior parameters of the conjugate sites, averaged over particles; at the Gaussians by default."""
        sites = self.prior_sites() if sites is None else sites
        return prior_parameters(sites, self.state.parameters, self.full_pass, self.density.chains)

    def evaluate(self, marginals: Sequence[str] = ()) -> tuple[Tensor, Total, Tensors]:
        """One pass: the objective (without a network's penalty), the pass, and priors of conjugate sites."""
        total = self.full_pass(self.values(), gradient=list(self.state.parameters), marginals=marginals)
        gaussians = self.gaussians
        # The pass's own have priors at the means of Gaussians.
        sites = self.prior_sites() if gaussians.sites else total.trace_sites
        with torch.no_grad():
            terms = self.conjugate_terms(sites)
            for logits in self.state.logits.values():
                terms = terms - (logits.softmax(-1) * logits.log_softmax(-1).clamp(min=FLOOR)).sum()
            if gaussians.sites:
                at = gaussians.unconstrained()
                values = gaussians.values(at)
                terms = terms + self.gaussian_terms(gaussians.entropy(at, values), values, sites)
        objective = total.objective.mean() if total.objective.dim() else total.objective
        return objective + terms, total, self.prior_parameters(sites)

    def conjugate_terms(self, sites: TraceSites) -> Tensor:
        """Of conjugate sites; expected over particles, where prior parameters are inferred too."""
        total = self._zero()
        for name, parameter in self.state.parameters.items():
            term = self.rule.prior_term(self._family(name), sites[name].fn, parameter)
            total = total + expected(term, self.density.chains)
        return total

    def collapsed_terms(self, sites: TraceSites, counts: Mapping[str, Tensor]) -> Tensor:
        """Of conjugate sites and of these counts, when each site is prior plus counts.

        The maximum of vb's objective under a fixed truth: with ``B`` the integral of an unnormalised distribution,
        ``log B(prior + counts) - log B(prior)``; of Dirichlets, the counts' log-probability in a Polya urn. Both
        logarithms are expected over particles; the first is of their mean prior, because the site has one posterior
        for all.
        """
        total = self._zero()
        for name, prior in self.prior_parameters(sites).items():
            parameter, family = self.state.parameters[name], self._family(name)
            before = family.prior_normaliser(sites[name].fn, parameter)
            after = family.log_normaliser(prior + counts[name]).sum()
            total = total + after - expected(before, self.density.chains)
        return total

    def _family(self, name: str) -> Family:
        return self.problem.sites[name].conjugate

    def _zero(self) -> Tensor:
        return torch.zeros((), dtype=torch.float64, device=self.full_pass.blocks[0].device)

    def gaussian_terms(self, entropy: Tensor, values: Mapping[str, Tensor], found: TraceSites) -> Tensor:
        """Entropy plus expected log-priors; of sites of items block by block, of the others from the first's."""
        density, sites, total = self.density, self.full_pass.sites, entropy
        for name in values:
            if not sites[name].local:
                total = total + expected(found[name].fn.log_prob(values[name]), density.chains)
        local = [n for n in values if sites[n].local]
        for number, block in enumerate(self.full_pass.blocks if local else ()):
            of_block = self.full_pass.in_block({**self.statistics(), **values}, block)
            found = found if number == 0 else density.priors(block, of_block)
            for name in local:
                total = total + expected(found[name].fn.log_prob(of_block[name]), density.chains)
        return total

    def expected_counts(self) -> Tensors:
        """One pass: the objective, and of each conjugate site its prior and its counts."""
        objective, total, priors = self.evaluate()
        return {"objective": objective, **_counted(total, priors)}

    def new_logits(self, name: str) -> Tensors:
        """New logits of a one-hot site: given the truth's posterior, the objective is linear in it.

        It may also enter through the priors of conjugate sites (a community's own rows).
        """
        logits = self.full_pass(self.values(), gradient=[name]).gradient[name] / self.particles
        with torch.no_grad():
            values = {**self.statistics(), **self.gaussians.values()}
        values[name] = values[name].detach().requires_grad_()
        total = self.conjugate_terms(self.density.priors(self.full_pass.blocks[0], values))
        slope = torch.autograd.grad(total, values[name], allow_unused=True)[0] if total.requires_grad else None
        return {"logits": logits if slope is None else logits + slope}

    def gaussian_gradient(self, counts: Mapping[str, Tensor]) -> Tensors:
        """The objective as a function of the Gaussians (priors, entropy, labels that depend on any), with slopes.

        Conjugate sites follow the Gaussians with these counts; without any, they stay. Where labels depend on
        Gaussians, what ``expected_counts`` returns comes from the same pass.
        """
        moving = replace(self.state, loc=leaves_of(self.state.loc), log_scale=leaves_of(self.state.log_scale))
        gaussians = gaussians_of(self.problem, moving)
        at = gaussians.unconstrained()
        values = gaussians.values(at)
        sites = self.prior_sites(values)
        conjugate = self.collapsed_terms(sites, counts) if counts else self.conjugate_terms(sites)
        total = self.gaussian_terms(gaussians.entropy(at, values), values, sites) + conjugate
        objective, more = total.detach(), Tensors()
        if self.gaussians_in_labels:
            free = [n for n in values if self.full_pass.sites[n].kind == "free"]
            given = {**self.statistics(), **{n: x.detach() for n, x in values.items()}}
            labels = self.full_pass(given, gradient=[*free, *self.state.parameters])
            objective = objective + labels.objective.mean()
            with torch.no_grad():
                more = _counted(labels, self.prior_parameters(sites))
            for name in free:  # the pass returns numbers; this makes them depend on the values again
                total = total + ((labels.gradient[name] / self.particles) * values[name]).sum()
        found = torch.autograd.grad(total, gaussians.leaves, allow_unused=True)
        pairs = enumerate(zip(found, gaussians.leaves, strict=True))
        slopes = {f"slope.{i}": torch.zeros_like(x) if g is None else g for i, (g, x) in pairs}
        return {"objective": objective, **slopes, **more}


def _counted(total: Total, priors: Mapping[str, Tensor]) -> Tensors:
    """Counts and priors of conjugate sites, by ``count`` and ``prior``."""
    counts = {f"count.{name}": total.gradient[name] for name in priors}
    return counts | {f"prior.{name}": x for name, x in priors.items()}


def counts_beyond(problem: Problem, state: State, priors: Mapping[str, Tensor]) -> Tensors:
    """What conjugate sites count beside their priors; rounding makes no count negative."""
    counts = {n: state.parameters[n] - prior for n, prior in priors.items()}
    return {n: x.clamp(min=0) if problem.sites[n].conjugate.counts else x for n, x in counts.items()}


def leaves_of(tensors: Mapping[str, Tensor]) -> Tensors:
    """Copies of tensors that are leaves of a graph."""
    return {name: x.detach().requires_grad_() for name, x in tensors.items()}


SEARCH, LOOK = "search", "look"
"""What a state remembers: of the curvature, and of the look at the labels at which a search ended."""


@dataclass(frozen=True)
class CoordinateAscent:
    """em and vb: a step raises the objective, one block of sites at a time; each update is an ascent step."""

    name: str
    rule: UpdateRule

    def start(self, problem: Problem, number: int = 0) -> State:
        """The state in which a start begins; errors as of the rule."""
        return self.rule.start(problem, number)

    def at(self, problem: Problem, state: State) -> Evaluated:
        """Objective, counts and gradients at a state."""
        return Evaluated(problem, self.rule, state)

    def step(self, problem: Problem, state: State) -> tuple[State, float]:
        """One iteration: the next state, and the objective at this one.

        Where the last one ended with a look at the labels, that is this one's pass.
        """
        found = with_prefix(state.memory, LOOK)
        if not found:
            found = self._replay(problem, state, Evaluated.expected_counts)
        moved = self.update(problem, state, with_prefix(found, "prior"), with_prefix(found, "count"))
        return moved, float(found["objective"])

    def update(
        self, problem: Problem, state: State, priors: Mapping[str, Tensor], counts: Mapping[str, Tensor]
    ) -> State:
        """Moves each block of sites, given the priors and the summed counts of conjugate sites."""
        particles = self.at(problem, state).particles
        parameters = dict(state.parameters)
        for name, prior in priors.items():
            mean = counts[name] if particles == 1 else counts[name] / particles
            site = problem.sites[name]
            parameters[name] = self.rule.update(site.conjugate, parameters[name], prior, mean)
            if site.ratios:
                parameters[name] = self.rule.with_scale(site.conjugate, parameters[name], prior)
        if self.rule.spreads and problem.powers and not problem.knows_numbers:
            parameters |= _in_best_unit(problem, parameters, priors)
        state = replace(state, parameters=parameters)
        # Each has a pass of its own: where two enter a table together, one's gradient changes as the other moves.
        for name in state.logits:
            found = self._replay(problem, state, Evaluated.new_logits, name=name)
            state = replace(state, logits={**state.logits, name: found["logits"]})
        return self._search_gaussians(problem, state, priors) if state.loc else state

    def _search_gaussians(self, problem: Problem, state: State, priors: Mapping[str, Tensor]) -> State:
        """A search for the Gaussians, which keeps its curvature between iterations.

        Where they are parameters of priors alone, the conjugate sites, whose parameters were made with ``priors``,
        move with them: with fixed rows, a crowd's row and its annotators', whose prior it is, would follow each
        other in small steps.
        """
        in_labels, counts = self.at(problem, state).gaussians_in_labels, Tensors()
        if not in_labels:  # a minibatch's counts are mixed with an earlier prior
            counts = counts_beyond(problem, state, priors)
        known, memory = with_prefix(state.memory, LOOK), with_prefix(state.memory, SEARCH)
        looks = list[tuple[list[Tensor], Tensors]]()  # with the places that they are of
        moving = {part: {n: x.clone() for n, x in getattr(state, part).items()} for part in ("loc", "log_scale")}
        state = replace(state, **moving)
        leaves = leaves_of(state.loc) | {f"{n} scale": x for n, x in leaves_of(state.log_scale).items()}
        of_priors = not in_labels and network_of(problem.model) is None
        search = LBFGSAscent([*leaves.values()], *(PRIOR_LOOKS if of_priors else LOOKS), memory)

        def objective() -> tuple[float, list[Tensor]]:
            found = {} if looks or state.parameters else known  # others have moved since
            if not found:
                found = self._replay(problem, state, Evaluated.gaussian_gradient, counts)
            looks.append(([x.detach().clone() for x in leaves.values()], found))
            return float(found["objective"]), [found[f"slope.{i}"] for i in range(len(leaves))]

        search(objective)  # moves the numbers that the state shares with the leaves
        memory = {f"{SEARCH}.{n}": x for n, x in search.memory.items()}
        if in_labels:
            kept = not state.logits and network_of(problem.model) is None  # else these move before the next pass
            ends = (found for at, found in reversed(looks) if all(map(torch.equal, at, leaves.values())))
            last = next(ends) if kept else {}
            return replace(state, memory=memory | {f"{LOOK}.{n}": x for n, x in last.items()})
        state = replace(state, memory=memory)
        after = self._replay(problem, state, Evaluated.prior_parameters)
        return replace(state, parameters=state.parameters | {n: x + counts[n] for n, x in after.items()})

    def _replay(
        self, problem: Problem, state: State, function: Callable[..., Tensors], *more: Tensors, **fixed: str
    ) -> Tensors:
        """A function of what is known at a state, and of more tensors; replayed where that is right."""

        def elsewhere(arrays: Mapping[str, Tensor]) -> Tensors:
            given = ({n: arrays[n] for n in tensors} for tensors in more)
            return function(self.at(problem, state.at(arrays)), *given, **fixed)

        inputs = replace(state, memory={}).arrays()
        for given in more:
            inputs |= given
        often = self.rule.many_iterations or function is Evaluated.gaussian_gradient  # a search looks several times
        return problem.replay((function, type(self.rule), *fixed.values()), elsewhere, inputs, often)


EM, VB = CoordinateAscent("em", MapUpdate()), CoordinateAscent("vb", MeanFieldUpdate())


def _in_best_unit(problem: Problem, parameters: Tensors, priors: Mapping[str, Tensor]) -> Tensors:
    """Sites that have powers in the unit that their priors prefer, by Newton's steps: labels alone do not tell it.

    In small steps it would take long, and the objective would seem to have converged before. Known truths tell it:
    with them this is not the objective's unit.
    """
    terms, slope, exponents = [], torch.zeros((), dtype=torch.float64), {}
    for name, powers in problem.powers.items():
        family, own = problem.sites[name].conjugate, parameters[name].double()
        exponents[name], prior = family.exponents(powers), priors[name].double().expand(own.shape)
        log_alone = torch.zeros_like(own)
        log_alone[..., 0] = 1
        slope = slope + (family.log_prior(prior, log_alone) * powers[-1] + powers.sum()).sum()
        each = (prior * family.mean(own)).reshape(-1, own.shape[-1]).sum(0)
        terms.append(torch.stack([each, exponents[name]])[:, 1:])
    weight, power = torch.cat(terms, 1)
    log_s = torch.zeros((), dtype=torch.float64)
    for _ in range(NEWTON):
        first = weight * power * (power * log_s).exp()
        log_s = log_s + ((slope + first.sum()) / (first * power).sum().abs()).clamp(-FARTHEST, FARTHEST)
    gain = slope * log_s + (weight * (power * log_s).expm1()).sum()
    log_s = torch.where(gain > 0, log_s, 0.0)  # also where a step was not finite
    return {n: parameters[n] * (-x * log_s).exp().to(parameters[n]) for n, x in exponents.items()}
