"""Coordinate ascent for em and vb: update rules, and objective, counts and gradients at a state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from crowdppl.inference.checkpoint import with_prefix
from crowdppl.inference.density import FLOOR, Density, TraceSites
from crowdppl.inference.neural.learner import Learner
from crowdppl.inference.optimisers import LOOKS, PRIOR_LOOKS, LBFGSAscent
from crowdppl.inference.passes import FullPass, Total
from crowdppl.inference.replay import Replayed
from crowdppl.inference.sites import DIRICHLET, expected
from crowdppl.inference.state import State, prior_parameters

Tensors = dict[str, Tensor]


class MapUpdate:
    """em: the parameter is log theta, updated to the mode of Dirichlet(prior + counts)."""

    many_iterations = True  # a fit mostly takes a dozen or more

    def leaf(self, parameter: Tensor) -> Tensor:
        """Log theta at which the labels' term is evaluated: the parameter itself."""
        return parameter

    def update(self, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """The mode; a row without counts or prior keeps its value."""
        return DIRICHLET.mode(prior + counts, before)

    def prior_term(self, prior: Any, parameter: Tensor) -> Tensor:
        """The site's term of the objective, one for each row: ``sum of (c - 1) log theta``."""
        return DIRICHLET.over(prior, DIRICHLET.log_prior, parameter)


class MeanFieldUpdate:
    """vb: the parameter is a concentration, evaluated at expected log theta.

    Args:
        rate: weight of the new value in an update: 1 for full batches, decaying for minibatches (natural-gradient
            stochastic variational inference, Hoffman et al. 2013).
    """

    many_iterations = False

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def leaf(self, parameter: Tensor) -> Tensor:
        """Expected log theta."""
        return DIRICHLET.mean(parameter)

    def update(self, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """Prior plus counts."""
        new = prior + counts
        return new if self.rate == 1.0 else before + self.rate * (new - before)

    def prior_term(self, prior: Any, parameter: Tensor) -> Tensor:
        """Minus the divergence of the posterior from the prior."""
        return -DIRICHLET.over(prior, lambda c, q: DIRICHLET.kl(q, c), parameter)


UpdateRule = MapUpdate | MeanFieldUpdate
"""How em or vb treats conjugate sites."""


@dataclass(frozen=True)
class Evaluated:
    """Objective, counts and gradients at the current state (pure functions).

    ``expected_counts``, ``new_logits`` and ``gaussian_gradient`` return tensors by name, so that their operations
    can be replayed.

    Args:
        full_pass: the model on all blocks, with as many chains as there are particles if sites that are not
            conjugate enter labels, and none otherwise.
        rule: em's or vb's treatment of conjugate sites.
        state: the current state.
        fixed: values of sites that do not move.
    """

    full_pass: FullPass
    rule: UpdateRule
    state: State
    fixed: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def density(self) -> Density:
        """The model's, with as many chains as there are particles."""
        return replace(self.full_pass.density, chains=self.state.gaussians.chains)

    @property
    def gaussians_in_labels(self) -> bool:
        """Whether labels depend on a Gaussian directly, so that moving it costs a pass over them."""
        return any(self.full_pass.sites[n].kind == "free" for n in self.state.gaussians.sites)

    @property
    def particles(self) -> int:
        """Particles over which a pass adds up."""
        return self.full_pass.density.chains or 1

    def leaves(self) -> Tensors:
        """Values of all sites but the Gaussians."""
        leaves = {n: self.rule.leaf(x) for n, x in self.state.parameters.items()}
        onehot = {n: x.softmax(-1) for n, x in self.state.logits.items()}
        return {**self.fixed, **leaves, **onehot}

    def values(self) -> Tensors:
        """The value of each site at which a pass over the labels is made."""
        gaussians = self.state.gaussians
        with torch.no_grad():
            return {**self.leaves(), **(gaussians.values() if self.gaussians_in_labels else gaussians.means())}

    def prior_sites(self, gaussians: Mapping[str, Tensor] | None = None) -> TraceSites:
        """The model's sites, for the priors of global ones, at values of the Gaussians; no pass over labels."""
        if gaussians is None:
            with torch.no_grad():
                return self.prior_sites(self.state.gaussians.values())
        return self.density.priors(self.full_pass.blocks[0], {**self.leaves(), **gaussians})

    def prior_parameters(self, sites: TraceSites) -> Tensors:
        """Prior concentrations of the conjugate sites, averaged over particles."""
        return prior_parameters(sites, self.state.parameters, self.full_pass, self.density.chains)

    def evaluate(self, marginals: Sequence[str] = ()) -> tuple[Tensor, Total, Tensors]:
        """One pass: the objective (without a network's penalty), the pass, and priors of conjugate sites."""
        total = self.full_pass(self.values(), gradient=list(self.state.parameters), marginals=marginals)
        gaussians = self.state.gaussians
        # The pass's own have priors at the means of Gaussians.
        sites = self.prior_sites() if gaussians.sites else total.trace_sites
        with torch.no_grad():
            terms = self.dirichlet_terms(sites)
            for logits in self.state.logits.values():
                terms = terms - (logits.softmax(-1) * logits.log_softmax(-1).clamp(min=FLOOR)).sum()
            if gaussians.sites:
                at = gaussians.unconstrained()
                terms = terms + self.gaussian_terms(at, gaussians.values(at), sites)
        objective = total.objective.mean() if total.objective.dim() else total.objective
        return objective + terms, total, self.prior_parameters(sites)

    def dirichlet_terms(self, sites: TraceSites) -> Tensor:
        """Of conjugate sites; expected over particles, where prior parameters are inferred too."""
        total = self._zero()
        for name, parameter in self.state.parameters.items():
            total = total + expected(self.rule.prior_term(sites[name].fn, parameter), self.density.chains)
        return total

    def collapsed_terms(self, sites: TraceSites, counts: Mapping[str, Tensor]) -> Tensor:
        """Of conjugate sites and of these counts, when each site is prior plus counts.

        The maximum of vb's objective under a fixed truth: with ``B`` the integral of an unnormalised Dirichlet,
        ``log B(prior + counts) - log B(prior)``, the log-probability of the counts in a Polya urn. Both logarithms
        are expected over particles; the first is of their mean prior, because the site has one posterior for all.
        """
        total = self._zero()
        for name, prior in self.prior_parameters(sites).items():
            parameter = self.state.parameters[name]
            before = DIRICHLET.over(sites[name].fn, lambda c, _: DIRICHLET.log_normaliser(c), parameter)
            after = DIRICHLET.log_normaliser(prior + counts[name]).sum()
            total = total + after - expected(before, self.density.chains)
        return total

    def _zero(self) -> Tensor:
        return torch.zeros((), dtype=torch.float64, device=self.full_pass.blocks[0].device)

    def gaussian_terms(self, at: Mapping[str, Tensor], values: Mapping[str, Tensor], found: TraceSites) -> Tensor:
        """Expected log-prior plus entropy; sites of items block by block, the others from those of the first."""
        density, sites = self.density, self.full_pass.sites
        total = self.state.gaussians.entropy(at, values)
        for name in values:
            if not sites[name].local:
                total = total + expected(found[name].fn.log_prob(values[name]), density.chains)
        local = [n for n in values if sites[n].local]
        for number, block in enumerate(self.full_pass.blocks if local else ()):
            of_block = self.full_pass.cut({**self.leaves(), **values}, block)
            found = found if number == 0 else density.priors(block, of_block)
            for name in local:
                total = total + expected(found[name].fn.log_prob(of_block[name]), density.chains)
        return total

    def expected_counts(self) -> Tensors:
        """One pass: the objective, and of each conjugate site its prior and its counts."""
        objective, total, priors = self.evaluate()
        counts = {f"count.{name}": total.gradient[name] for name in priors}
        return {"objective": objective, **counts, **{f"prior.{name}": x for name, x in priors.items()}}

    def new_logits(self, name: str) -> Tensors:
        """New logits of a one-hot site: given the truth's posterior, the objective is linear in it.

        It may also enter through the priors of conjugate sites (a community's own Dirichlet).
        """
        logits = self.full_pass(self.values(), gradient=[name]).gradient[name] / self.particles
        with torch.no_grad():
            values = {**self.leaves(), **self.state.gaussians.values()}
        values[name] = values[name].detach().requires_grad_()
        total = self.dirichlet_terms(self.density.priors(self.full_pass.blocks[0], values))
        slope = torch.autograd.grad(total, values[name], allow_unused=True)[0] if total.requires_grad else None
        return {"logits": logits if slope is None else logits + slope}

    def gaussian_gradient(self, counts: Mapping[str, Tensor]) -> Tensors:
        """The objective as a function of the Gaussians (priors, entropy, labels that depend on any), with slopes.

        Args:
            counts: with which conjugate sites follow the Gaussians; empty where these stay.
        """
        gaussians = self.state.gaussians
        at = gaussians.unconstrained()
        values = gaussians.values(at)
        sites = self.prior_sites(values)
        dirichlets = self.collapsed_terms(sites, counts) if counts else self.dirichlet_terms(sites)
        total = self.gaussian_terms(at, values, sites) + dirichlets
        objective = total.detach()
        if self.gaussians_in_labels:
            free = [n for n in values if self.full_pass.sites[n].kind == "free"]
            given = {**self.leaves(), **{n: x.detach() for n, x in values.items()}}
            labels = self.full_pass(given, gradient=free)
            objective = objective + labels.objective.mean()
            for name in free:  # the pass returns numbers; this makes them depend on the values again
                total = total + ((labels.gradient[name] / self.particles) * values[name]).sum()
        found = torch.autograd.grad(total, gaussians.leaves, allow_unused=True)
        pairs = enumerate(zip(found, gaussians.leaves, strict=True))
        slopes = {f"slope.{i}": torch.zeros_like(x) if g is None else g for i, (g, x) in pairs}
        return {"objective": objective, **slopes}


@dataclass
class Ascent:
    """Raises the objective, one block of sites at a time; every block update is an ascent step.

    Args:
        full_pass, rule, fixed: as of ``Evaluated``.
        state: where to start; it is moved in place.
        repeats: whether the model is known to do the same at the same values, so that passes may be replayed.
        kind: shared by fits whose passes differ in data alone; None where nothing is known.
        learner: trains the network, where the model has one.
    """

    full_pass: FullPass
    rule: UpdateRule
    state: State
    fixed: Mapping[str, Tensor] = field(default_factory=dict)
    repeats: bool = False
    kind: Hashable = None
    learner: Learner | None = None
    _lbfgs: LBFGSAscent | None = None
    _replayed: dict[str, Replayed] = field(default_factory=dict)

    @property
    def current(self) -> Evaluated:
        """Objective, counts and gradients at the current state."""
        return Evaluated(self.full_pass, self.rule, self.state, self.fixed)

    def evaluate(self) -> tuple[float, Total, Tensors]:
        """One pass: the objective at the current state, the pass, and the priors of conjugate sites."""
        learner = self.learner
        objective, total, priors = self.current.evaluate(() if learner is None else (learner.truth,))
        return float(objective) + (0.0 if learner is None else learner.penalty), total, priors

    def step(self) -> float:
        """One iteration; returns the objective at its start. A network learns at its end."""
        learner = self.learner
        if learner is None:
            found = self._replay("pass", Evaluated.expected_counts)
            self._update(with_prefix(found, "prior"), with_prefix(found, "count"))
            return float(found["objective"])
        learner.learn_votes_first()
        objective, total, priors = self.evaluate()
        if not learner.on_votes:  # else annotators, too, stay as the votes made them
            self._update(priors, self._counting_pass(total, learner).gradient)
            moved = self.state.logits or self.state.gaussians.sites
            if learner.training.full_batch and moved:  # the pass's probabilities are then those of another state
                total = self.full_pass(self.current.values(), marginals=(learner.truth,))
        learner.learn(total.marginals[learner.truth])
        return objective

    def _counting_pass(self, total: Total, learner: Learner) -> Total:
        """The pass whose counts update the parameters: the objective's, unless the model has another for it."""
        counting = getattr(learner.problem.model, "counting", None)
        if counting is None:
            return total
        full_pass = replace(self.full_pass, density=replace(self.full_pass.density, model=counting))
        return full_pass(self.current.values(), gradient=list(self.state.parameters))

    def _replay(self, name: str, function: Callable[..., Tensors], *more: Tensors) -> Tensors:
        """A function of the current state and of more tensors, replayed where that is known to be right."""
        current = self.current
        if not self.repeats:
            return function(current, *more)

        def elsewhere(at: Mapping[str, Tensor]) -> Tensors:
            here = replace(current, state=current.state.at(at))
            return function(here, *({n: at[n] for n in given} for given in more))

        if name not in self._replayed:
            kind = self.kind and (self.kind, name, type(self.rule))
            self._replayed[name] = Replayed(elsewhere, 0 if self.rule.many_iterations else None, kind)
        inputs = self.state.arrays()
        for given in more:
            inputs |= given
        return self._replayed[name](inputs)

    def _update(self, priors: Mapping[str, Tensor], counts: Mapping[str, Tensor]) -> None:
        """Moves each block of sites, given the priors and the summed counts of conjugate sites."""
        particles, parameters = self.current.particles, self.state.parameters
        for name, prior in priors.items():
            mean = counts[name] if particles == 1 else counts[name] / particles
            parameters[name] = self.rule.update(parameters[name], prior, mean)
        # Each has a pass of its own: where two enter a table together, one's gradient changes as the other moves.
        for name in self.state.logits:
            found = self._replay(f"logits of {name}", partial(Evaluated.new_logits, name=name))
            self.state.logits[name] = found["logits"]
        if self.state.gaussians.sites:
            self._search_gaussians(priors)

    def _search_gaussians(self, priors: Mapping[str, Tensor]) -> None:
        """A search for the Gaussians, which keeps its curvature between iterations.

        Where they are parameters of priors alone, the conjugate sites move with them: with fixed Dirichlets, a
        crowd's row and its annotators', whose prior it is, would follow each other in small steps.

        Args:
            priors: of conjugate sites, as their parameters were made with.
        """
        in_labels, counts = self.current.gaussians_in_labels, Tensors()
        if not in_labels:
            with torch.no_grad():  # a minibatch's counts are mixed with an earlier prior
                counts = {n: (self.state.parameters[n] - prior).clamp(min=0) for n, prior in priors.items()}
        leaves = self.state.gaussians.leaves
        if self._lbfgs is None:
            of_priors = not in_labels and self.learner is None
            self._lbfgs = LBFGSAscent(leaves, *(PRIOR_LOOKS if of_priors else LOOKS))

        def objective() -> tuple[float, list[Tensor]]:
            found = self._replay("gaussians", Evaluated.gaussian_gradient, counts)
            return float(found["objective"]), [found[f"slope.{i}"] for i in range(len(leaves))]

        self._lbfgs(objective)
        if not in_labels:
            current = self.current
            for name, prior in current.prior_parameters(current.prior_sites()).items():
                self.state.parameters[name] = prior + counts[name]
