"""Networks that learn from all items at once, so that the objective of a fit never falls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from crowdppl.data.stored_features import read
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.learning.learner import Learner
from crowdppl.inference.learning.regularisers import wanted
from crowdppl.inference.learning.rehearsal import require_reached
from crowdppl.inference.machinery.climb import Climb
from crowdppl.inference.reading.problem import Problem
from crowdppl.networks.standardise import parts
from crowdppl.networks.training import Training

LOOKS = 12
"""Looks at the network's objective an iteration, nearly as many as quasi-Newton steps."""


class FullBatch(Learner):
    """A learner that climbs one function of its weights, on all items, without chance.

    Its function is the part of the fit's objective that the weights enter: the expected log-probability of the
    truth, less ``wanted`` and half the weight decay of the squared weights for each item of which something is
    known. Items without labels take part, as they do in the objective. It learns the votes before the first
    iteration, so that the objective begins with what came of that.
    """

    def __init__(self, problem: Problem, training: Training) -> None:
        _refuse(problem, training)
        self.warmed = training.warm_up == 0
        super().__init__(problem, training)
        require_reached(self.network, "network", self.network(read(self.features[:2])))
        self._settle()

    @property
    def blind(self) -> bool:
        """Whether it has yet to learn the votes."""
        return not self.warmed

    def warm(self) -> None:
        """Learns the votes of items that have some, unless it has."""
        if self.warmed:
            return
        told = torch.zeros_like(self.votes[:, :1])
        told[self.rows] = 1
        for _ in range(self.training.warm_up):
            self.epoch(told * self.votes)
        self.epochs, self.warmed = 0, True
        self._tell()

    def restore(self, arrays: Mapping[str, Tensor], epochs: int) -> None:
        """Takes back what ``arrays`` gave after some epochs."""
        self.warmed = True
        super().restore(arrays, epochs)
        self._settle()

    def epoch(self, targets: Tensor, objective: float = math.nan) -> None:
        """Some quasi-Newton steps, on all items."""

        def looked() -> tuple[float, Sequence[Tensor]]:
            log_p = self._look()
            total = (targets * log_p.double()).sum() + self._penalty(log_p)
            if not bool(torch.isfinite(total)):
                raise NumericalError(
                    f"the network's objective is {total.item()} in epoch {self.epochs + 1}; look at the features' "
                    "scale and the network's first weights"
                )
            return float(total.detach()), torch.autograd.grad(total, self.weights)

        self.network.eval()
        self.epochs += 1
        if self.weights:
            Climb(self.weights, LOOKS, LOOKS)(looked)
            self._settle()

    def _look(self) -> Tensor:
        return torch.cat([self.network(part) for part in parts(self.features)]).log_softmax(-1)

    def _penalty(self, log_p: Tensor) -> Tensor:
        squares = sum((x.double().square().sum() for x in self.weights), torch.zeros(()))
        terms = wanted(log_p.exp(), self.training, self.shares).double()
        return -len(self.rows) * (terms + 0.5 * self.training.weight_decay * squares)

    @torch.no_grad()
    def _settle(self) -> None:
        """The penalty of the weights as they are."""
        self.network.eval()
        self.penalty = float(self._penalty(self._look()))


def _refuse(problem: Problem, training: Training) -> None:
    if training.mixup > 0:
        raise MethodError(
            f"training: mixup={training.mixup} blends items by chance, and full_batch=True leaves nothing to "
            "chance; set mixup=0"
        )
    if getattr(problem.story, "counting", None) is not None:
        raise MethodError(
            "this story counts otherwise than its objective says, so that full_batch=True could not keep it from "
            "falling; leave full_batch out (raykar: bootstrapped=False)"
        )
