"""Block coordinate ascent on a story's objective: what em and vb have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crowdppl.inference.checkpoints import cut
from crowdppl.inference.climbing.rules import Rule
from crowdppl.inference.climbing.state import State
from crowdppl.inference.climbing.vantage import Tensors, Vantage
from crowdppl.inference.machinery.climb import LOOKS, PRIOR_LOOKS, Climb
from crowdppl.inference.machinery.repeating import Repeated
from crowdppl.inference.reading.fold import Fold, Total

if TYPE_CHECKING:
    from crowdppl.inference.learning.learner import Learner


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

    fold: Fold
    rule: Rule
    state: State
    fixed: Mapping[str, Tensor] = field(default_factory=dict)
    repeats: bool = False
    kind: Hashable = None
    learner: Learner | None = None
    _climb: Climb | None = None
    _repeated: dict[str, Repeated] = field(default_factory=dict)

    @property
    def here(self) -> Vantage:
        """The current state, and what is seen from it."""
        return Vantage(self.fold, self.rule, self.state, self.fixed)

    def evaluate(self) -> tuple[float, Total, Tensors]:
        """One pass: the objective at the current state, the pass, and the priors of conjugate sites."""
        learner = self.learner
        objective, total, priors = self.here.passed(() if learner is None else (learner.truth,))
        return float(objective) + (0.0 if learner is None else learner.penalty), total, priors

    def arrays(self) -> Tensors:
        """The state as tensors by name, with what the search for Gaussians remembers."""
        memory = self._climb.memory() if self._climb else {}
        return self.state.arrays() | {f"search.{name}": x for name, x in memory.items()}

    def restore(self, arrays: Mapping[str, Tensor]) -> None:
        """Takes back what ``arrays`` gave."""
        self.state.put(arrays)
        if self.state.gaussians.sites:
            self._search().recall(cut(arrays, "search"))

    def step(self) -> float:
        """One iteration; returns the objective at its start."""
        if self.learner is not None:
            return self._step_with(self.learner)
        found = self._seen("pass", lambda here, _: here.counted())
        self._update(cut(found, "prior"), cut(found, "count"))
        return float(found["objective"])

    def _step_with(self, learner: Learner) -> float:
        """One iteration, in which the network learns last."""
        if learner.midway.kept:
            return learner.go_on()
        learner.warm()
        objective, total, priors = self.evaluate()
        if learner.blind:  # annotators stay as the votes made them, too
            learner.learn(total.marginals[learner.truth], objective)
            return objective
        self._update(priors, self._counted(total, learner).gradient)
        moved = self.state.logits or self.state.gaussians.sites
        if learner.training.full_batch and moved:  # then probabilities are not those of the pass
            total = self.fold(self.here.values(), marginals=(learner.truth,))
        learner.learn(total.marginals[learner.truth], objective)
        return objective

    def _counted(self, total: Total, learner: Learner) -> Total:
        """The pass whose counts update the parameters: the objective's, unless the story has one of its own."""
        counting = getattr(learner.problem.story, "counting", None)
        if counting is None:
            return total
        fold = replace(self.fold, density=replace(self.fold.density, model=counting))
        return fold(self.here.values(), gradient=list(self.state.parameters))

    def _seen(
        self,
        name: str,
        what: Callable[[Vantage, Tensors], Tensors],
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
            self._repeated[name] = Repeated(elsewhere, 0 if self.rule.slow else None, kind)
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

    def _search(self) -> Climb:
        """The search for Gaussians, which remembers earlier iterations."""
        if self._climb is None:
            of_priors = not self.here.touching and self.learner is None
            self._climb = Climb(self.state.gaussians.leaves, *(PRIOR_LOOKS if of_priors else LOOKS))
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


def _logits(name: str, here: Vantage, _: Tensors) -> Tensors:
    return here.logits(name)
