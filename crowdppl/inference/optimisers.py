"""Optimisers: L-BFGS ascent that never lowers the objective, and Adam with decay."""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from crowdppl.errors import NumericalError

LOOKS = (6, 6)
"""Looks at the objective an iteration, at first and later; with 2, the crowd's prior lags behind a network."""
PRIOR_LOOKS = (12, 3)
"""Looks for parameters of priors alone. With 3 from the start, the first short steps are taken for the end."""
KEPT = 4
"""Last points of a search that are remembered; it mostly ends at one of them."""
PAIRS = ("old_dirs", "old_stps", "ro")
"""torch's names of what L-BFGS remembers: changes of the gradient, steps, and the inverses of their products."""


class _LBFGS(torch.optim.LBFGS):
    """torch's own, which would import torch's compiler before its first step: seconds, and 100 MiB."""

    add_param_group = inspect.unwrap(torch.optim.LBFGS.add_param_group)


class _AdamW(torch.optim.AdamW):
    """AdamW of torch, without its compiler."""

    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    state_dict = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.AdamW.load_state_dict)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


class LBFGSAscent:
    """L-BFGS with a strong Wolfe search on an objective that is to be raised.

    The curvature memory is kept between calls, although the objective may have moved a little in between
    (other sites were updated); what changed the gradient between calls is not taken for curvature.

    Args:
        leaves: tensors to move, in place.
        first: looks at the objective by a call without memory, which begins with short steps.
        later: by any other call.
        memory: of the curvature, as ``memory`` returned it; empty at first.
    """

    def __init__(
        self, leaves: Sequence[Tensor], first: int, later: int, memory: Mapping[str, Tensor] | None = None
    ) -> None:
        self.leaves = list(leaves)
        self.first, self.later = first, later
        self._fresh()
        if memory:
            # The last step and its slope make no pair with the next: see ``_begin_anew``.
            nowhere = torch.cat([torch.zeros_like(x).reshape(-1) for x in self.leaves])
            self.search.state[self.leaves[0]].update(
                {key: list(memory[key]) for key in PAIRS},
                H_diag=memory["H_diag"],
                n_iter=int(memory["n_iter"]),
                func_evals=0,
                d=nowhere,
                t=1.0,
                prev_flat_grad=nowhere,
            )

    def _fresh(self) -> None:
        self.search: torch.optim.Optimizer = _LBFGS(
            self.leaves, history_size=20, line_search_fn="strong_wolfe", tolerance_change=0
        )

    @property
    def memory(self) -> dict[str, Tensor]:
        """What the search knows of the curvature, as tensors by name; empty where it knows nothing."""
        state = self.search.state[self.leaves[0]]
        if "old_dirs" not in state:
            return {}
        none = self.leaves[0].detach().new_zeros(0)
        pairs = {key: torch.stack(state[key]) if state[key] else none for key in PAIRS}
        return {**pairs, **{key: torch.as_tensor(state[key]) for key in ("H_diag", "n_iter")}}

    def __call__(self, objective: Callable[[], tuple[float, Sequence[Tensor]]]) -> float:
        """Raises an objective, given with its gradient by each leaf, to a value never below that at the start.

        A search that ends below it goes back to the best place it saw.
        """
        start: list[float] = []
        before = [x.detach().clone() for x in self.leaves]
        tried: deque[tuple[float, list[Tensor]]] = deque(maxlen=KEPT)
        best: list[tuple[float, list[Tensor]]] = []

        def closure() -> float:
            try:
                value, gradient = objective()
            except NumericalError:
                if not start:
                    raise
                value, gradient = math.nan, []
            if start and not math.isfinite(value):
                # a trial step went too far: a finite cliff makes the search turn back (infinity breaks it)
                value, gradient = -1e20, [torch.zeros_like(x) for x in self.leaves]
            for leaf, g in zip(self.leaves, gradient, strict=True):
                leaf.grad = -g.detach().to(leaf)
            if not start:
                self._begin_anew()
                start.append(value)
            tried.append((value, [x.detach().clone() for x in self.leaves]))
            if not best or value > best[0][0]:
                best[:] = [tried[-1]]
            return -value

        looks = self.later if self.search.state[self.leaves[0]].get("old_dirs") else self.first
        self.search.param_groups[0].update(max_iter=looks - 1, max_eval=looks)
        try:
            self.search.step(closure)
        except KeyboardInterrupt:  # a trial step may be anywhere
            self._back(before)
            raise
        places = [(start[0], before), *tried]
        last = next((value for value, at in reversed(places) if all(map(torch.equal, self.leaves, at))), None)
        if last is None:  # the search ended where it had not been
            last, _ = objective()
        if last >= start[0]:
            return last
        self._back(best[0][1])
        return best[0][0]

    def _back(self, before: Sequence[Tensor]) -> None:
        with torch.no_grad():
            for leaf, x in zip(self.leaves, before, strict=True):
                leaf.copy_(x)
        self._fresh()

    def _begin_anew(self) -> None:
        """Makes torch's search compare its next gradient with this one; a pair without change is left out."""
        state = self.search.state[self.leaves[0]]
        if state.get("prev_flat_grad") is not None:
            state["prev_flat_grad"] = torch.cat([x.grad.reshape(-1) for x in self.leaves if x.grad is not None])


def adamw(weights: Iterable[Any], **settings: Any) -> torch.optim.AdamW:
    """AdamW over weights, or groups of them, all of a step in one kernel where torch has one."""
    given = list(weights)
    every = (x for group in given for x in (group["params"] if isinstance(group, dict) else [group]))
    return _AdamW(given, fused=all(map(torch.is_floating_point, every)) or None, **settings)


def optimiser_arrays(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's memory as tensors by name."""
    state = optimiser.state_dict()["state"]
    return {f"optimiser.{i}.{key}": torch.as_tensor(x) for i, found in state.items() for key, x in found.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, arrays: Mapping[str, Tensor]) -> None:
    """Gives an optimiser its memory back."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, x in arrays.items():
        if name.startswith("optimiser."):
            _, i, key = name.split(".", 2)
            state.setdefault(int(i), {})[key] = x
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
