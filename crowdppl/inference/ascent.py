"""Block coordinate ascent on a story's objective: what em and vb have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.inference.checkpoints import cut
from crowdppl.inference.climb import LOOKS, PRIOR_LOOKS, Climb
from crowdppl.inference.fold import Fold, Total
from crowdppl.inference.penalties import Penalties
from crowdppl.inference.repeating import Repeated
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
        repeats: whether the story says the same of the same values each time, so that passes may be repeated
            without it.
        learner: the network's part of the fit, where the story has one.
    """

    fold: Fold
    rule: Rule
    state: State
    fixed: Mapping[str, Tensor] = field(default_factory=dict)
    repeats: bool = False
    learner: Learner | None = None
    _climb: Climb | None = None
    _repeated: dict[str, Repeated] = field(default_factory=dict)

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
        objective, total, priors = self._pass()
        return float(objective) + (0.0 if self.learner is None else self.learner.penalty), total, priors

    def _pass(self) -> tuple[Tensor, Total, dict[str, Tensor]]:
        """The same, less the penalty of a network."""
        wanted = () if self.learner is None else (self.learner.truth,)
        total = self.fold(self.values(), gradient=list(self.state.parameters), marginals=wanted)
        penalties, trace = self.penalties, self._trace(total)
        return total.objective.mean() + penalties.total(trace), total, penalties.priors(trace)

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
            return self._step_with(self.learner)
        found = self._found("pass", Ascent._pass_as_tensors)
        self._update(cut(found, "prior"), cut(found, "count"))
        return float(found["objective"])

    def _pass_as_tensors(self, _: Mapping[str, Tensor]) -> dict[str, Tensor]:
        objective, total, priors = self._pass()
        counts = {f"count.{name}": total.gradient[name] for name in priors}
        return {"objective": objective, **counts, **{f"prior.{name}": x for name, x in priors.items()}}

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
            total = self.fold(self.values(), marginals=(learner.truth,))
        learner.learn(total.marginals[learner.truth])
        return objective

    def _counted(self, total: Total, learner: Learner) -> Total:
        """The pass whose counts update the parameters: the objective's, unless the story has one of its own."""
        counting = getattr(learner.problem.story, "counting", None)
        if counting is None:
            return total
        fold = replace(self.fold, density=replace(self.fold.density, model=counting))
        return fold(self.values(), gradient=list(self.state.parameters))

    def _found(
        self,
        name: str,
        what: Callable[[Ascent, Mapping[str, Tensor]], dict[str, Tensor]],
        more: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """What follows from the state, and from more tensors, by a function of both."""
        given = dict(more or {})
        if not self.repeats:
            return what(self, given)

        def elsewhere(at: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return what(Ascent(self.fold, self.rule, self.state.at(at), self.fixed), {n: at[n] for n in given})

        return self._repeated.setdefault(name, Repeated(elsewhere))({**self.state.arrays(), **given})

    def _update(self, priors: Mapping[str, Tensor], counted: Mapping[str, Tensor]) -> None:
        """Moves each block of sites, given the priors and the counts of conjugate sites."""
        share = self.fold.density.chains or 1
        for name, prior in priors.items():
            counts = counted[name] / share
            self.state.parameters[name] = self.rule.update(self.state.parameters[name], prior, counts)
        if self.state.logits:
            self._update_onehot()
        if self.state.gaussians.sites:
            self._search_gaussians(priors)

    def _update_onehot(self) -> None:
        """Given the truth's posterior, l is linear in a one-hot site: its gradient is the new logit.

        Each site has a pass of its own: where two enter a table together, the gradient by one changes as the other
        moves.
        """
        for name in self.state.logits:
            self.state.logits[name] = self._found(f"logits of {name}", partial(Ascent._logits, name=name))["logits"]

    def _logits(self, _: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
        total = self.fold(self.values(), gradient=[name])
        of_priors = self.penalties.mixture_gradient(name)
        return {"logits": total.gradient[name] / (self.fold.density.chains or 1) + of_priors}

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
        found = self._found("gaussians", Ascent._gaussian_terms, counts)
        return float(found["objective"]), [found[f"slope.{i}"] for i in range(len(self.state.gaussians.leaves))]

    def _gaussian_terms(self, counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
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
            share = self.fold.density.chains or 1
            objective = objective + labels.objective.mean()
            for name in free:  # the pass returns numbers; this gives them back their dependence
                total = total + ((labels.gradient[name] / share) * values[name]).sum()
        found = torch.autograd.grad(total, gaussians.leaves, allow_unused=True)
        pairs = enumerate(zip(found, gaussians.leaves, strict=True))
        slopes = {f"slope.{i}": torch.zeros_like(x) if g is None else g for i, (g, x) in pairs}
        return {"objective": objective, **slopes}
