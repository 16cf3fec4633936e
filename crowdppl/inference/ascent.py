"""Block coordinate ascent on a story's objective: what em and vb have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.inference.checkpoints import cut
from crowdppl.inference.climb import LOOKS, PRIOR_LOOKS, Climb
from crowdppl.inference.density import FLOOR, Density
from crowdppl.inference.families import DIRICHLET
from crowdppl.inference.fold import Fold, Total
from crowdppl.inference.gaussians import Gaussians
from crowdppl.inference.nodes import nodes
from crowdppl.inference.rules import Rule
from crowdppl.inference.sites import Site, per_chain

if TYPE_CHECKING:
    from crowdppl.inference.learning import Learner


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


@dataclass
class Ascent:
    """Raises l + penalties, one block of sites at a time; every block update is an ascent step.

    Args:
        fold: the story on all blocks; its density has as many chains as there are particles, if sites that are
            not conjugate touch labels, and none otherwise.
        rule: em's or vb's treatment of conjugate sites.
        state: where to start.
        fixed: values of sites that are not to move.
        learner: the network's part of the fit, where the story has one.
    """

    fold: Fold
    rule: Rule
    state: State
    fixed: Mapping[str, Tensor] = field(default_factory=dict)
    learner: Learner | None = None
    _climb: Climb | None = None

    @property
    def sites(self) -> Mapping[str, Site]:
        """The story's sites."""
        return self.fold.sites

    @property
    def touching(self) -> bool:
        """Whether labels depend on a Gaussian directly, so that moving it costs a pass over them."""
        return any(self.sites[n].kind == "free" for n in self.state.gaussians.sites)

    def values(self) -> dict[str, Tensor]:
        """The value of each site at which a pass over the labels is made."""
        gaussians = self.state.gaussians
        with torch.no_grad():
            return {**self._updated(), **(gaussians.values() if self.touching else gaussians.means())}

    def _updated(self) -> dict[str, Tensor]:
        leaves = {n: self.rule.leaf(x) for n, x in self.state.parameters.items()}
        onehot = {n: x.softmax(-1) for n, x in self.state.logits.items()}
        return {**self.fixed, **leaves, **onehot}

    def evaluate(self) -> tuple[float, Total, dict[str, Tensor]]:
        """One pass: the objective at the current state, the pass, and the priors of conjugate sites."""
        wanted = () if self.learner is None else (self.learner.truth,)
        total = self.fold(self.values(), gradient=list(self.state.parameters), marginals=wanted)
        priors, penalty = self.penalties(None if self.state.gaussians.sites else total.trace)
        penalty += 0.0 if self.learner is None else self.learner.penalty
        return float(total.objective.mean()) + penalty, total, priors

    def arrays(self) -> dict[str, Tensor]:
        """The state as tensors by name, with what the search for Gaussians remembers."""
        memory = self._climb.memory() if self._climb else {}
        return self._parts() | {f"search.{name}": x for name, x in memory.items()}

    def _parts(self) -> dict[str, Tensor]:
        gaussians = self.state.gaussians
        parts = {
            "parameter": self.state.parameters,
            "logit": self.state.logits,
            "loc": gaussians.loc,
            "log_scale": gaussians.log_scale,
        }
        return {f"{kind}.{name}": x for kind, found in parts.items() for name, x in found.items()}

    def restore(self, arrays: Mapping[str, Tensor]) -> None:
        """Takes back what ``arrays`` gave."""
        with torch.no_grad():
            for name, x in self._parts().items():
                x.copy_(arrays[name])
        if self.state.gaussians.sites:
            self._search().recall(cut(arrays, "search"))

    def _search(self) -> Climb:
        """The search for Gaussians, which remembers earlier iterations."""
        if self._climb is None:
            of_priors = not self.touching and self.learner is None
            self._climb = Climb(self.state.gaussians.leaves, *(PRIOR_LOOKS if of_priors else LOOKS))
        return self._climb

    def step(self) -> float:
        """One iteration; returns the objective at its start."""
        if self.learner is not None:
            self.learner.warm()
        objective, total, priors = self.evaluate()
        share, counted = self.fold.density.chains or 1, self._counted(total)
        for name, prior in priors.items():
            counts = counted.gradient[name] / share
            self.state.parameters[name] = self.rule.update(self.state.parameters[name], prior, counts)
        if self.state.logits:
            self._update_onehot()
        if self.state.gaussians.sites:
            self._search()(self._gaussian_objective)
        if self.learner is not None:
            moved = self.state.logits or self.state.gaussians.sites
            if self.learner.training.full_batch and moved:  # then probabilities are not those of the pass
                total = self.fold(self.values(), marginals=(self.learner.truth,))
            self.learner.learn(total.marginals[self.learner.truth])
        return objective

    def _counted(self, total: Total) -> Total:
        """The pass whose counts update the parameters: the objective's, unless the story has one of its own."""
        counting = getattr(self.learner.problem.story, "counting", None) if self.learner is not None else None
        if counting is None:
            return total
        fold = replace(self.fold, density=replace(self.fold.density, model=counting))
        return fold(self.values(), gradient=list(self.state.parameters))

    def _update_onehot(self) -> None:
        """Given the truth's posterior, l is linear in a one-hot site: its gradient is the new logit.

        Each site has a pass of its own: where two enter a table together, the gradient by one changes as the other
        moves.
        """
        share = self.fold.density.chains or 1
        for name in self.state.logits:
            total = self.fold(self.values(), gradient=[name])
            self.state.logits[name] = total.gradient[name] / share + self.mixture_gradient([name]).get(name, 0.0)

    def mixture_gradient(self, names: list[str]) -> dict[str, Tensor]:
        """How one-hot sites enter the priors of conjugate sites (a community's own Dirichlet)."""
        values = {n: x.detach().requires_grad_() if n in names else x for n, x in self.prior_values().items()}
        trace = self._prior_density().priors(self.fold.blocks[0], values)
        total = self._conjugate_penalty(trace)
        if not total.requires_grad:
            return {}
        found = torch.autograd.grad(total, [values[n] for n in names], allow_unused=True)
        return {n: g for n, g in zip(names, found, strict=True) if g is not None}

    def prior_values(self) -> dict[str, Tensor]:
        """Values at which priors are evaluated: Gaussians as particles."""
        with torch.no_grad():
            return {**self._updated(), **self.state.gaussians.values()}

    def _prior_density(self) -> Density:
        density = self.fold.density
        return Density(density.model, density.plates, self.state.gaussians.chains, density.log_sites)

    def prior_trace(self) -> Trace:
        """The story's trace at the current state, for the priors of global sites; no pass over labels."""
        with torch.no_grad():
            return self._prior_density().priors(self.fold.blocks[0], self.prior_values())

    def priors(self, trace: Trace) -> dict[str, Tensor]:
        """Natural parameters of the conjugate sites' priors, averaged over particles."""
        chains = self._prior_density().chains
        out = {}
        for name in self.state.parameters:
            x = DIRICHLET.natural(nodes(trace)[name]["fn"]).double()
            shape = self.sites[name].shape(self.fold.n_items)
            mean = x if chains is None else x.expand(chains, *x.shape[1:]).mean(0)
            out[name] = mean.reshape(shape)
        return out

    def penalties(self, trace: Trace | None = None) -> tuple[dict[str, Tensor], float]:
        """Everything in the objective but the labels' term, with the conjugate priors it is made of."""
        trace = self.prior_trace() if trace is None else trace
        with torch.no_grad():
            total = self._conjugate_penalty(trace)
            for logits in self.state.logits.values():
                total = total - (logits.softmax(-1) * logits.log_softmax(-1).clamp(min=FLOOR)).sum()
            gaussians = self.state.gaussians
            if gaussians.sites:
                at = gaussians.unconstrained()
                total = total + self._gaussian_terms(at, gaussians.values(at), trace)
        return self.priors(trace), float(total)

    def _conjugate_penalty(self, trace: Trace) -> Tensor:
        """Expected over particles, where prior parameters are inferred too."""
        chains = self._prior_density().chains
        total = torch.zeros((), dtype=torch.float64, device=self.fold.blocks[0].device)
        for name, parameter in self.state.parameters.items():
            total = total + per_chain(self.rule.penalty(nodes(trace)[name]["fn"], parameter), chains).mean()
        return total

    def _gaussian_terms(self, at: Mapping[str, Tensor], values: Mapping[str, Tensor], trace: Trace) -> Tensor:
        """Expected log-prior plus entropy; sites of items block by block, the others from the first's trace."""
        density = self._prior_density()
        total = self.state.gaussians.entropy(at, values)
        for name in values:
            if not self.sites[name].local:
                total = total + per_chain(nodes(trace)[name]["fn"].log_prob(values[name]), density.chains).mean()
        local = [n for n in values if self.sites[n].local]
        for number, block in enumerate(self.fold.blocks if local else ()):
            cut = self.fold.cut({**self._updated(), **values}, block)
            found = nodes(trace if number == 0 else density.priors(block, cut))
            for name in local:
                total = total + per_chain(found[name]["fn"].log_prob(cut[name]), density.chains).mean()
        return total

    def _gaussian_objective(self) -> tuple[float, list[Tensor]]:
        """The objective as a function of the Gaussians: labels (where they touch any), priors, entropy."""
        gaussians = self.state.gaussians
        at = gaussians.unconstrained()
        values = gaussians.values(at)
        trace = self._prior_density().priors(self.fold.blocks[0], {**self._updated(), **values})
        total = self._gaussian_terms(at, values, trace) + self._conjugate_penalty(trace)
        value = float(total.detach())
        if self.touching:
            free = [n for n in values if self.sites[n].kind == "free"]
            given = {**self._updated(), **{n: x.detach() for n, x in values.items()}}
            labels = self.fold(given, gradient=free)
            share = self.fold.density.chains or 1
            value += float(labels.objective.mean())
            for name in free:  # the pass returns numbers; this gives them back their dependence
                total = total + ((labels.gradient[name] / share) * values[name]).sum()
        found = torch.autograd.grad(total, gaussians.leaves, allow_unused=True)
        pairs = zip(found, gaussians.leaves, strict=True)
        return value, [torch.zeros_like(x) if g is None else g for g, x in pairs]
