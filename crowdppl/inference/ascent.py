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
from crowdppl.inference.fold import Fold, Total
from crowdppl.inference.penalties import Penalties
from crowdppl.inference.rules import Rule
from crowdppl.inference.sites import Site
from crowdppl.inference.state import State

if TYPE_CHECKING:
    from crowdppl.inference.learning import Learner


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
    def penalties(self) -> Penalties:
        """Everything in the objective but the labels' term, at the current state."""
        return Penalties(self.fold, self.rule, self.state, self.fixed)

    @property
    def touching(self) -> bool:
        """Whether labels depend on a Gaussian directly, so that moving it costs a pass over them."""
        return any(self.sites[n].kind == "free" for n in self.state.gaussians.sites)

    def values(self) -> dict[str, Tensor]:
        """The value of each site at which a pass over the labels is made."""
        gaussians = self.state.gaussians
        with torch.no_grad():
            return {**self.penalties.leaves(), **(gaussians.values() if self.touching else gaussians.means())}

    def evaluate(self) -> tuple[float, Total, dict[str, Tensor]]:
        """One pass: the objective at the current state, the pass, and the priors of conjugate sites."""
        wanted = () if self.learner is None else (self.learner.truth,)
        total = self.fold(self.values(), gradient=list(self.state.parameters), marginals=wanted)
        penalties, trace = self.penalties, self._trace(total)
        penalty = penalties.total(trace) + (0.0 if self.learner is None else self.learner.penalty)
        return float(total.objective.mean()) + penalty, total, penalties.priors(trace)

    def priors(self, total: Total) -> dict[str, Tensor]:
        """Natural parameters of the conjugate sites' priors, after a pass at the current state."""
        return self.penalties.priors(self._trace(total))

    def _trace(self, total: Total) -> Trace:
        """What says the priors: the pass's own trace, unless Gaussians stood there at their means."""
        return self.penalties.trace() if self.state.gaussians.sites else total.trace

    def arrays(self) -> dict[str, Tensor]:
        """The state as tensors by name, with what the search for Gaussians remembers."""
        memory = self._climb.memory() if self._climb else {}
        return self.state.arrays() | {f"search.{name}": x for name, x in memory.items()}

    def restore(self, arrays: Mapping[str, Tensor]) -> None:
        """Takes back what ``arrays`` gave."""
        self.state.put(arrays)
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
        if self.learner is not None and self.learner.blind:  # annotators stay as the votes made them, too
            self.learner.learn(total.marginals[self.learner.truth])
            return objective
        share, counted = self.fold.density.chains or 1, self._counted(total)
        for name, prior in priors.items():
            counts = counted.gradient[name] / share
            self.state.parameters[name] = self.rule.update(self.state.parameters[name], prior, counts)
        if self.state.logits:
            self._update_onehot()
        if self.state.gaussians.sites:
            self._search_gaussians(priors)
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
            of_priors = self.penalties.mixture_gradient(name)
            self.state.logits[name] = total.gradient[name] / share + of_priors

    def _search_gaussians(self, priors: Mapping[str, Tensor]) -> None:
        """A search for the Gaussians.

        Where they are parameters of priors alone, the conjugate sites move with them: under Dirichlets that stay
        as they are, a crowd's row creeps towards its annotators', each of which leans on the crowd's.

        Args:
            priors: of conjugate sites, as their parameters were made with.
        """
        if self.touching:
            self._search()(lambda: self._gaussian_objective(None))
            return
        with torch.no_grad():  # a minibatch's counts are mixed with a prior of before
            counts = {n: (self.state.parameters[n] - prior).clamp(min=0) for n, prior in priors.items()}
        self._search()(lambda: self._gaussian_objective(counts))
        penalties = self.penalties
        for name, prior in penalties.priors(penalties.trace()).items():
            self.state.parameters[name] = prior + counts[name]

    def _gaussian_objective(self, counts: Mapping[str, Tensor] | None) -> tuple[float, list[Tensor]]:
        """The objective as a function of the Gaussians: priors, entropy, and labels where they touch any.

        Args:
            counts: by which conjugate sites follow the Gaussians; None for those that stay.
        """
        gaussians, penalties = self.state.gaussians, self.penalties
        at = gaussians.unconstrained()
        values = gaussians.values(at)
        trace = penalties.trace_at(values)
        conjugate = penalties.conjugate(trace) if counts is None else penalties.collapsed(trace, counts)
        total = penalties.gaussian(at, values, trace) + conjugate
        value = float(total.detach())
        if self.touching:
            free = [n for n in values if self.sites[n].kind == "free"]
            given = {**penalties.leaves(), **{n: x.detach() for n, x in values.items()}}
            labels = self.fold(given, gradient=free)
            share = self.fold.density.chains or 1
            value += float(labels.objective.mean())
            for name in free:  # the pass returns numbers; this gives them back their dependence
                total = total + ((labels.gradient[name] / share) * values[name]).sum()
        found = torch.autograd.grad(total, gaussians.leaves, allow_unused=True)
        pairs = zip(found, gaussians.leaves, strict=True)
        return value, [torch.zeros_like(x) if g is None else g for g, x in pairs]
