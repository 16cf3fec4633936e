"""Line-searched ascent that never ends lower than it began."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crowdppl.errors import NumericalError

CLIFF = 1e20


class Climb:
    """L-BFGS with a strong Wolfe search on an objective that is to be raised.

    The curvature memory is kept between calls, although the objective may have moved a little in between
    (other sites were updated): the search itself starts from a fresh gradient, and what changed the gradient
    between calls is not taken for curvature.

    Args:
        leaves: tensors to move, in place.
        steps: quasi-Newton steps a call.
    """

    def __init__(self, leaves: Sequence[Tensor], steps: int) -> None:
        self.leaves = list(leaves)
        self.steps = steps
        self._fresh()

    def _fresh(self) -> None:
        self.search = torch.optim.LBFGS(
            self.leaves,
            max_iter=self.steps,
            history_size=20,
            line_search_fn="strong_wolfe",
            tolerance_change=0,
        )

    def __call__(self, objective: Callable[[], tuple[float, Sequence[Tensor]]]) -> float:
        """Raises the objective.

        Args:
            objective: returns its value and its gradient by each leaf.

        Returns:
            The value reached: never below the value at the start.
        """
        before = [x.detach().clone() for x in self.leaves]
        values: list[float] = []

        def closure() -> float:
            try:
                value, gradient = objective()
            except NumericalError:
                if not values:
                    raise
                # a trial step went too far: a finite cliff makes the search turn back (infinity breaks it)
                value, gradient = -CLIFF, [torch.zeros_like(x) for x in self.leaves]
            for leaf, g in zip(self.leaves, gradient, strict=True):
                leaf.grad = -g.detach().to(leaf)
            if not values:
                self._begin_anew()
            values.append(value)
            return -value

        self.search.step(closure)
        last, _ = objective()
        if last >= values[0]:
            return last
        with torch.no_grad():
            for leaf, x in zip(self.leaves, before, strict=True):
                leaf.copy_(x)
        self._fresh()
        return values[0]

    def _begin_anew(self) -> None:
        """Makes torch's search compare its next gradient with this one; a pair without change is left out."""
        state = self.search.state[self.leaves[0]]
        if state.get("prev_flat_grad") is not None:
            state["prev_flat_grad"] = torch.cat([x.grad.reshape(-1) for x in self.leaves if x.grad is not None])
