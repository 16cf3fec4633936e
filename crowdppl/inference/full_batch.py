"""Networks that learn from all items at once, so that the objective of a fit never falls."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.climb import Climb
from crowdppl.inference.learning import Learner, wanted
from crowdppl.inference.problem import Problem
from crowdppl.networks import parts
from crowdppl.training import Training

STEPS = 10
"""Quasi-Newton steps of the network an iteration."""


class FullBatch(Learner):
    """A learner that climbs one function of its weights, on all items, without chance.

    Its function is the part of the fit's objective that the weights enter: the expected log-probability of the
    truth, less N times ``wanted`` and half the weight decay of the squared weights. Items without labels take part,
    as they do in the objective. Warming up is done before the fit, which begins with what was learned of the votes.

    Attributes:
        penalty: what balance, volume and weight decay add to the fit's objective.
    """

    def __init__(self, problem: Problem, training: Training) -> None:
        _refuse(problem, training)
        super().__init__(problem, training)
        self.weights = [x for x in self.network.parameters() if x.requires_grad]
        self.penalty = 0.0
        for _ in range(training.warm_up):
            self.epoch(self.votes)
        self.epochs = 0
        self._tell()

    @property
    def blind(self) -> bool:
        """Never: it has learned the votes before it is asked."""
        return False

    def epoch(self, targets: Tensor) -> float:
        """Some quasi-Newton steps.

        Args:
            targets: probabilities (N, K) of the truth, by position.

        Returns:
            Mean loss.

        Raises:
            NumericalError: when the objective is not finite.
        """

        def objective() -> tuple[float, Sequence[Tensor]]:
            log_p = torch.cat([self.network(part) for part in parts(self.features)]).log_softmax(-1)
            penalty = self._penalty(log_p)
            total = (targets * log_p.double()).sum() + penalty
            if not bool(torch.isfinite(total)):
                raise NumericalError(
                    f"the network's objective is {total.item()} in epoch {self.epochs + 1}; look at the features' "
                    "scale and the network's first weights"
                )
            self.penalty = float(penalty.detach())
            return float(total.detach()), torch.autograd.grad(total, self.weights)

        self.network.eval()
        Climb(self.weights, STEPS)(objective)
        value, _ = objective()
        self.epochs += 1
        return -value / len(targets)

    def _penalty(self, log_p: Tensor) -> Tensor:
        n, squares = len(log_p), sum((x.double().square().sum() for x in self.weights), torch.zeros(()))
        terms = wanted(log_p.exp(), self.training, self.shares).double()
        return -n * (terms + 0.5 * self.training.weight_decay * squares)


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
