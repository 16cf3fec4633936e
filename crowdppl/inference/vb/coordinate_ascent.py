"""Coordinate ascent for em and vb: state, objective, updates and prior terms."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.checkpoint import with_prefix
from crowdppl.inference.density import FLOOR, Density, nodes
from crowdppl.inference.neural.learner import Learner
from crowdppl.inference.optimisers import LOOKS, PRIOR_LOOKS, LBFGSAscent
from crowdppl.inference.passes import FullPass, Total
from crowdppl.inference.replay import Replayed
from crowdppl.inference.sites import DIRICHLET, Site, expected
from crowdppl.inference.vb.gaussians import Gaussians


class Rule(Protocol):
    """One treatment of the conjugate sites of a story.

    Attributes:
        slow: whether a fit mostly takes a dozen iterations or more.
    """

    slow: bool

    def leaf(self, parameter: Tensor) -> Tensor:
        """Log theta at which the labels' term is evaluated."""
        ...

    def update(self, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """New parameter, given prior concentrations and expected counts."""
        ...

    def penalty(self, prior: Any, parameter: Tensor) -> Tensor:
        """What the site adds to the objective, a term for each row; ``prior`` is the trace's distribution."""
        ...


class MapUpdate:
    """em: the parameter is log theta, updated to the mode of Dirichlet(prior + counts)."""

    slow = True

    def leaf(self, parameter: Tensor) -> Tensor:
        """Log theta itself."""
        return parameter

    def update(self, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """The mode; a row without counts or prior keeps its value."""
        return DIRICHLET.mode(prior + counts, before)

    def penalty(self, prior: Any, parameter: Tensor) -> Tensor:
        """``sum of (c - 1) log theta``."""
        return DIRICHLET.over(prior, DIRICHLET.log_prior, parameter)


class MeanFieldUpdate:
    """vb: the parameter is a concentration, evaluated at expected log theta.

    Args:
        rate: share of the new value in an update: 1 for full batches, decaying for minibatches (natural-
            gradient stochastic variational inference, Hoffman et al. 2013).
    """

    slow = False

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def leaf(self, parameter: Tensor) -> Tensor:
        """Expected log theta."""
        return DIRICHLET.mean(parameter)

    def update(self, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """Prior plus counts."""
        new = prior + counts
        return new if self.rate == 1.0 else before + self.rate * (new - before)

    def penalty(self, prior: Any, parameter: Tensor) -> Tensor:
        """Minus the divergence of the posterior from the prior."""
        return -DIRICHLET.over(prior, lambda c, q: DIRICHLET.kl(q, c), parameter)


def refuse_below_one(name: str, prior: Tensor) -> None:
    """Refuses a prior whose mode lies at the border, where em would not be monotone.

    Raises:
        MethodError: naming the site, its smallest concentration and the remedy.
    """
    smallest = float(prior.min())
    if smallest < 1:
        raise MethodError(
            f"em refuses site {name!r}: its smallest prior concentration is {smallest:.4g}, and below 1 the "
            "posterior has no interior mode and EM is not monotone; use inference='vb', or a prior of at least 1"
        )


@dataclass
class State:
    """Where a fit is.

    Attributes:
        parameters: of conjugate sites: log theta for em, concentrations for vb.
        logits: of one-hot sites; their softmax is the expected one-hot vector.
        gaussians: Gaussians or points for all other sites.
    """

    parameters: dict[str, Tensor]
    logits: dict[str, Tensor]
    gaussians: Gaussians

    def arrays(self) -> dict[str, Tensor]:
        """All of it as tensors by name."""
        parts = {
            "parameter": self.parameters,
            "logit": self.logits,
            "loc": self.gaussians.loc,
            "log_scale": self.gaussians.log_scale,
        }
        return {f"{kind}.{name}": x for kind, found in parts.items() for name, x in found.items()}

    def at(self, arrays: Mapping[str, Tensor]) -> State:
        """Another state of the same fit, whose arrays are these; they get no gradients by it."""
        loc, log_scale = (
            {name: x.detach().requires_grad_() for name, x in with_prefix(arrays, kind).items()}
            for kind in ("loc", "log_scale")
        )
        gaussians = replace(self.gaussians, loc=loc, log_scale=log_scale)
        return State(dict(with_prefix(arrays, "parameter")), dict(with_prefix(arrays, "logit")), gaussians)

    def copy(self) -> dict[str, Tensor]:
        """The same, which stays as it is when the fit goes on."""
        return {name: x.detach().clone() for name, x in self.arrays().items()}

    def put(self, arrays: Mapping[str, Tensor]) -> None:
        """Takes back what ``arrays`` gave."""
        device = {name: x.device for name, x in self.arrays().items()}
        moved = {name: arrays[name].to(where) for name, where in device.items()}
        self.parameters, self.logits = dict(with_prefix(moved, "parameter")), dict(with_prefix(moved, "logit"))
        with torch.no_grad():
            for kind, found in (("loc", self.gaussians.loc), ("log_scale", self.gaussians.log_scale)):
                for name, x in found.items():
                    x.copy_(moved[f"{kind}.{name}"])


@dataclass(frozen=True)
class PriorTerms:
    """What priors say of a state, and what of it is known already.

    Args:
        fold: the story on all blocks; priors of sites of items are read block by block.
        rule: em's or vb's treatment of conjugate sites.
        state: where the fit is.
        fixed: values of sites that do not move.
    """

    fold: FullPass
    rule: Rule
    state: State
    fixed: Mapping[str, Tensor]

    def leaves(self) -> dict[str, Tensor]:
        """Values of all sites but the Gaussians."""
        leaves = {n: self.rule.leaf(x) for n, x in self.state.parameters.items()}
        onehot = {n: x.softmax(-1) for n, x in self.state.logits.items()}
        return {**self.fixed, **leaves, **onehot}

    def trace(self) -> Trace:
        """The story's trace at the current state, for the priors of global sites; no pass over labels."""
        with torch.no_grad():
            return self.trace_at(self.state.gaussians.values())

    def trace_at(self, values: Mapping[str, Tensor]) -> Trace:
        """The same at other values of the Gaussians, as particles."""
        return self.density.priors(self.fold.blocks[0], {**self.leaves(), **values})

    @property
    def density(self) -> Density:
        """The story's, with as many chains as there are particles."""
        density = self.fold.density
        return Density(density.model, density.plates, self.state.gaussians.chains, density.log_sites)

    def priors(self, trace: Trace) -> dict[str, Tensor]:
        """Natural parameters of the conjugate sites' priors, averaged over particles."""
        chains = self.density.chains
        out = {}
        for name in self.state.parameters:
            x = DIRICHLET.natural(nodes(trace)[name]["fn"])
            shape = self.fold.sites[name].shape(self.fold.n_items)
            mean = x if chains is None else x.expand(chains, *x.shape[1:]).mean(0)
            out[name] = mean.reshape(shape)
        return out

    def total(self, trace: Trace) -> Tensor:
        """All penalties at the current state."""
        with torch.no_grad():
            total = self.conjugate(trace)
            for logits in self.state.logits.values():
                total = total - (logits.softmax(-1) * logits.log_softmax(-1).clamp(min=FLOOR)).sum()
            gaussians = self.state.gaussians
            if gaussians.sites:
                at = gaussians.unconstrained()
                total = total + self.gaussian(at, gaussians.values(at), trace)
        return total

    def conjugate(self, trace: Trace) -> Tensor:
        """Of conjugate sites; expected over particles, where prior parameters are inferred too."""
        chains = self.density.chains
        total = torch.zeros((), dtype=torch.float64, device=self.fold.blocks[0].device)
        for name, parameter in self.state.parameters.items():
            total = total + expected(self.rule.penalty(nodes(trace)[name]["fn"], parameter), chains)
        return total

    def collapsed(self, trace: Trace, counts: Mapping[str, Tensor]) -> Tensor:
        """Of conjugate sites, when each is what its prior and these counts make of it, and the counts' term.

        The most that vb's objective can be under a truth that stays as it is: with ``B`` the integral of an
        unnormalised Dirichlet, ``log B(prior + counts) - log B(prior)``, the log-probability of the counts in an
        urn of Polya. Both logarithms are expected over particles; the first is of their mean prior, because the
        site has one posterior for all of them.
        """
        chains = self.density.chains
        total = torch.zeros((), dtype=torch.float64, device=self.fold.blocks[0].device)
        for name, prior in self.priors(trace).items():
            fn, parameter = nodes(trace)[name]["fn"], self.state.parameters[name]
            before = DIRICHLET.over(fn, lambda c, _: DIRICHLET.log_normaliser(c), parameter)
            total = total + DIRICHLET.log_normaliser(prior + counts[name]).sum() - expected(before, chains)
        return total

    def mixture_gradient(self, name: str) -> Tensor | float:
        """How a one-hot site enters the priors of conjugate sites (a community's own Dirichlet)."""
        with torch.no_grad():
            values = {**self.leaves(), **self.state.gaussians.values()}
        values[name] = values[name].detach().requires_grad_()
        total = self.conjugate(self.density.priors(self.fold.blocks[0], values))
        if not total.requires_grad:
            return 0.0
        (found,) = torch.autograd.grad(total, values[name], allow_unused=True)
        return 0.0 if found is None else found

    def gaussian(self, at: Mapping[str, Tensor], values: Mapping[str, Tensor], trace: Trace) -> Tensor:
        """Expected log-prior plus entropy; sites of items block by block, the others from the first's trace."""
        density, sites = self.density, self.fold.sites
        total = self.state.gaussians.entropy(at, values)
        for name in values:
            if not sites[name].local:
                total = total + expected(nodes(trace)[name]["fn"].log_prob(values[name]), density.chains)
        local = [n for n in values if sites[n].local]
        for number, block in enumerate(self.fold.blocks if local else ()):
            cut = self.fold.cut({**self.leaves(), **values}, block)
            found = nodes(trace if number == 0 else density.priors(block, cut))
            for name in local:
                total = total + expected(found[name]["fn"].log_prob(cut[name]), density.chains)
        return total


Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Evaluated:
    """A state, and the objective, counts and slopes there.

    ``counted``, ``logits`` and ``gaussians`` return tensors by name, so that their operations may be repeated.

    Args:
        fold: the story on all blocks; its density has as many chains as there are particles, if sites that are
            not conjugate touch labels, and none otherwise.
        rule: em's or vb's treatment of conjugate sites.
        state: where the fit is.
        fixed: values of sites that are not to move.
    """

    fold: FullPass
    rule: Rule
    state: State
    fixed: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def sites(self) -> Mapping[str, Site]:
        """The story's sites."""
        return self.fold.sites

    @property
    def penalties(self) -> PriorTerms:
        """Everything in the objective but the labels' term."""
        return PriorTerms(self.fold, self.rule, self.state, self.fixed)

    @property
    def touching(self) -> bool:
        """Whether labels depend on a Gaussian directly, so that moving it costs a pass over them."""
        return any(self.sites[n].kind == "free" for n in self.state.gaussians.sites)

    @property
    def particles(self) -> int:
        """Particles that a pass adds up over."""
        return self.fold.density.chains or 1

    def values(self) -> Tensors:
        """The value of each site at which a pass over the labels is made."""
        gaussians = self.state.gaussians
        with torch.no_grad():
            return {**self.penalties.leaves(), **(gaussians.values() if self.touching else gaussians.means())}

    def passed(self, marginals: Sequence[str] = ()) -> tuple[Tensor, Total, Tensors]:
        """One pass: the objective less a network's penalty, the pass itself, and priors of conjugate sites."""
        total = self.fold(self.values(), gradient=list(self.state.parameters), marginals=marginals)
        penalties, trace = self.penalties, self._trace(total)
        objective = total.objective.mean() if total.objective.dim() else total.objective
        return objective + penalties.total(trace), total, penalties.priors(trace)

    def priors(self, total: Total) -> Tensors:
        """Natural parameters of the conjugate sites' priors, after a pass here."""
        return self.penalties.priors(self._trace(total))

    def _trace(self, total: Total) -> Trace:
        """What says the priors: the pass's own trace, unless Gaussians stood there at their means."""
        return self.penalties.trace() if self.state.gaussians.sites else total.trace

    def counted(self) -> Tensors:
        """One pass: the objective, and of each conjugate site its prior and its counts."""
        objective, total, priors = self.passed()
        counts = {f"count.{name}": total.gradient[name] for name in priors}
        return {"objective": objective, **counts, **{f"prior.{name}": x for name, x in priors.items()}}

    def logits(self, name: str) -> Tensors:
        """New logits of a one-hot site: given the truth's posterior, the objective is linear in it."""
        total = self.fold(self.values(), gradient=[name])
        return {"logits": total.gradient[name] / self.particles + self.penalties.mixture_gradient(name)}

    def gaussians(self, counts: Mapping[str, Tensor]) -> Tensors:
        """The objective as a function of the Gaussians (priors, entropy, labels where they touch any), and slopes.

        Args:
            counts: by which conjugate sites follow the Gaussians; none where these stay.
        """
        gaussians, penalties = self.state.gaussians, self.penalties
        at = gaussians.unconstrained()
        values = gaussians.values(at)
        trace = penalties.trace_at(values)
        conjugate = penalties.collapsed(trace, counts) if counts else penalties.conjugate(trace)
        total = penalties.gaussian(at, values, trace) + conjugate
        objective = total.detach()
        if self.touching:
            free = [n for n in values if self.sites[n].kind == "free"]
            given = {**penalties.leaves(), **{n: x.detach() for n, x in values.items()}}
            labels = self.fold(given, gradient=free)
            objective = objective + labels.objective.mean()
            for name in free:  # the pass returns numbers; this gives them back their dependence
                total = total + ((labels.gradient[name] / self.particles) * values[name]).sum()
        found = torch.autograd.grad(total, gaussians.leaves, allow_unused=True)
        pairs = enumerate(zip(found, gaussians.leaves, strict=True))
        return {"objective": objective} | {
            f"slope.{i}": torch.zeros_like(x) if g is None else g for i, (g, x) in pairs
        }


@dataclass
class Ascent:
    """Raises l + penalties, one block of sites at a time; every block update is an ascent step.

    Args:
        fold: the story on all blocks; its density has as many chains as there are particles, if sites that are
            not conjugate touch labels, and none otherwise.
        rule: em's or vb's treatment of conjugate sites.
        state: where to start.
        fixed: values of sites that are not to move.
        repeats: whether the story says the same of the same values each time, so that passes may be repeated
            without it.
        kind: what fits have in common whose passes are the same but for the data; None where nothing is known.
        learner: the network's part of the fit, where the story has one.
    """

    fold: FullPass
    rule: Rule
    state: State
    fixed: Mapping[str, Tensor] = field(default_factory=dict)
    repeats: bool = False
    kind: Hashable = None
    learner: Learner | None = None
    _climb: LBFGSAscent | None = None
    _repeated: dict[str, Replayed] = field(default_factory=dict)

    @property
    def here(self) -> Evaluated:
        """The current state, and what is seen from it."""
        return Evaluated(self.fold, self.rule, self.state, self.fixed)

    def evaluate(self) -> tuple[float, Total, Tensors]:
        """One pass: the objective at the current state, the pass, and the priors of conjugate sites."""
        learner = self.learner
        objective, total, priors = self.here.passed(() if learner is None else (learner.truth,))
        return float(objective) + (0.0 if learner is None else learner.penalty), total, priors

    def step(self) -> float:
        """One iteration; returns the objective at its start."""
        if self.learner is not None:
            return self._step_with(self.learner)
        found = self._seen("pass", lambda here, _: here.counted())
        self._update(with_prefix(found, "prior"), with_prefix(found, "count"))
        return float(found["objective"])

    def _step_with(self, learner: Learner) -> float:
        """One iteration, in which the network learns last."""
        learner.warm()
        objective, total, priors = self.evaluate()
        if learner.blind:  # annotators stay as the votes made them, too
            learner.learn(total.marginals[learner.truth])
            return objective
        self._update(priors, self._counted(total, learner).gradient)
        moved = self.state.logits or self.state.gaussians.sites
        if learner.training.full_batch and moved:  # then probabilities are not those of the pass
            total = self.fold(self.here.values(), marginals=(learner.truth,))
        learner.learn(total.marginals[learner.truth])
        return objective

    def _counted(self, total: Total, learner: Learner) -> Total:
        """The pass whose counts update the parameters: the objective's, unless the story has one of its own."""
        counting = getattr(learner.problem.model, "counting", None)
        if counting is None:
            return total
        fold = replace(self.fold, density=replace(self.fold.density, model=counting))
        return fold(self.here.values(), gradient=list(self.state.parameters))

    def _seen(
        self,
        name: str,
        what: Callable[[Evaluated, Tensors], Tensors],
        more: Mapping[str, Tensor] | None = None,
    ) -> Tensors:
        """What follows from the state, and from more tensors, by a function of both."""
        here, given = self.here, dict(more or {})
        if not self.repeats:
            return what(here, given)

        def elsewhere(at: Mapping[str, Tensor]) -> Tensors:
            return what(replace(here, state=here.state.at(at)), {n: at[n] for n in given})

        if name not in self._repeated:
            kind = self.kind and (self.kind, name, type(self.rule))
            self._repeated[name] = Replayed(elsewhere, 0 if self.rule.slow else None, kind)
        return self._repeated[name]({**self.state.arrays(), **given})

    def _update(self, priors: Mapping[str, Tensor], counted: Mapping[str, Tensor]) -> None:
        """Moves each block of sites, given the priors and the counts of conjugate sites."""
        particles = self.here.particles
        for name, prior in priors.items():
            counts = counted[name] if particles == 1 else counted[name] / particles
            self.state.parameters[name] = self.rule.update(self.state.parameters[name], prior, counts)
        # Each has a pass of its own: where two enter a table together, one's gradient changes as the other moves.
        for name in self.state.logits:
            self.state.logits[name] = self._seen(f"logits of {name}", partial(_logits, name))["logits"]
        if self.state.gaussians.sites:
            self._search_gaussians(priors)

    def _search(self) -> LBFGSAscent:
        """The search for Gaussians, which remembers earlier iterations."""
        if self._climb is None:
            of_priors = not self.here.touching and self.learner is None
            self._climb = LBFGSAscent(self.state.gaussians.leaves, *(PRIOR_LOOKS if of_priors else LOOKS))
        return self._climb

    def _search_gaussians(self, priors: Mapping[str, Tensor]) -> None:
        """A search for the Gaussians.

        Where they are parameters of priors alone, the conjugate sites move with them: under Dirichlets that stay
        as they are, a crowd's row creeps towards its annotators', each of which leans on the crowd's.

        Args:
            priors: of conjugate sites, as their parameters were made with.
        """
        if self.here.touching:
            self._search()(lambda: self._look(None))
            return
        with torch.no_grad():  # a minibatch's counts are mixed with a prior of before
            counts = {n: (self.state.parameters[n] - prior).clamp(min=0) for n, prior in priors.items()}
        self._search()(lambda: self._look(counts))
        penalties = self.here.penalties
        for name, prior in penalties.priors(penalties.trace()).items():
            self.state.parameters[name] = prior + counts[name]

    def _look(self, counts: Mapping[str, Tensor] | None) -> tuple[float, list[Tensor]]:
        """The objective as a function of the Gaussians, and its slopes."""
        found = self._seen("gaussians", lambda here, given: here.gaussians(given), counts)
        return float(found["objective"]), [found[f"slope.{i}"] for i in range(len(self.state.gaussians.leaves))]


def _logits(name: str, here: Evaluated, _: Tensors) -> Tensors:
    return here.logits(name)
