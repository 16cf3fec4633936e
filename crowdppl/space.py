"""How wide a space is, and how far apart its classes lie: two numbers that tasks tell before a network learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from crowdppl.devices import device_of
from crowdppl.embedding import Embedding
from crowdppl.errors import NumericalError
from crowdppl.tasks import Tasks

SCALES, PRECISIONS = (1 / 30, 30.0), (1e-3, 1e3)
"""Where the two numbers are looked for: relative to the space as it was handed over, and as they are."""
PASSES = 40

Cost = Callable[[Tasks, Tensor, Tensor, Tensor], Tensor]
"""What a batch of tasks costs, given where support and query items are, and the precision of the means."""


def fit_space(embedding: Embedding, draws: Sequence[Tasks], cost: Cost) -> None:
    """Sets ``scale`` and ``tau`` of an embedding to where tasks cost least; its network stays as it is.

    Classes are clouds of unit variance, and their means have a prior. Neither says how wide an untrained space is
    beside a cloud, or how far means of few items are to be drawn to the middle. Both are found by L-BFGS.

    Args:
        embedding: is changed in place.
        draws: batches of tasks.
        cost: what the mean is taken of.

    Raises:
        NumericalError: when the cost is not finite.
    """
    from scipy.optimize import minimize  # slow to import

    with torch.no_grad():
        placed = [(embedding.places(tasks.support), embedding.places(tasks.query)) for tasks in draws]

    def value(logs: np.ndarray) -> tuple[float, np.ndarray]:
        x = torch.tensor(logs, dtype=torch.float32, device=device_of(embedding), requires_grad=True)
        wide, tau = x.exp()
        each = [
            cost(tasks, wide * here, wide * asked, tau) for tasks, (here, asked) in zip(draws, placed, strict=True)
        ]
        total = torch.stack(each).mean()
        if not bool(torch.isfinite(total)):
            raise NumericalError(
                f"the loss is {total.item()} before meta-training, where the space is {wide.item():g} times as "
                f"wide as it was and tau={tau.item():g}; look at the features' scale"
            )
        (slope,) = torch.autograd.grad(total, x)
        return total.item(), slope.double().cpu().numpy()

    bounds = [tuple(map(math.log, pair)) for pair in (SCALES, PRECISIONS)]
    begin = np.array([0.0, math.log(float(embedding.tau))])
    found = minimize(value, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": PASSES})
    wide, tau = np.exp(found.x)
    embedding.scale *= float(wide)
    embedding.tau.fill_(float(tau))
