"""Functions that a fit asks thousands of times, repeated without their Python once they have been watched."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from crowdppl.inference.machinery.program import Program, Tensors
from crowdppl.inference.machinery.recording import Function, recorded

FIRST = 5
"""Calls before a function is written down: as many as that costs, so that a short fit loses at most what a long one
is sure to gain."""
_proven: set[Hashable] = set()


class Repeated:
    """A function of tensors that is soon repeated by its operations alone: the same numbers, to the last bit.

    On a small block, Pyro's and torch's bookkeeping takes longer than arithmetic does. After some calls the
    function is written down; at the next call elsewhere it is compared with what was written, and from then on the
    operations run without it. A function that cannot be repeated so is called each time.

    Args:
        function: of tensors by name, whose results depend on nothing else that changes. Its first result, where it
            is not finite, is the function's own to explain: it is called again.
        first: calls before it is written down; 0 where it is mostly called a dozen times or more.
        kind: what it has in common with functions that do the same with other data. Where one of them was compared
            and could be repeated, the others are no more compared, but written down anew.
    """

    def __init__(self, function: Function, first: int | None = None, kind: Hashable = None) -> None:
        self.function = function
        self.first = FIRST if first is None else first
        self.kind = kind
        self.calls = 0
        self.program: Program | None = None
        self.trusted = kind is not None and kind in _proven
        self._hopeless = False
        self._like: list[Any] = []
        self._at: Tensors = {}

    def __call__(self, inputs: Mapping[str, Tensor]) -> Tensors:
        """The function's results."""
        self.calls += 1
        if self._hopeless or self.calls <= self.first:
            return self.function(inputs)
        if self.program is None:
            return self._written(inputs)
        if _likeness(inputs) != self._like:
            return self.function(inputs)
        if self.program.stale:
            return self._given_up(inputs)
        if not self.trusted:
            return self._compared(inputs, self.program({n: x.detach().clone() for n, x in inputs.items()}))
        found = self.program(inputs)
        first = next(iter(found.values()))
        return found if math.isfinite(float(first.sum())) else self.function(inputs)

    def _written(self, inputs: Mapping[str, Tensor]) -> Tensors:
        try:
            results, self.program = recorded(self.function, inputs)
        except Exception:  # torch does not let everything be watched; an error of the function's own comes again
            results = self.function(inputs)
        self._hopeless = self.program is None
        self._like, self._at = _likeness(inputs), {n: x.detach().clone() for n, x in inputs.items()}
        return results

    def _compared(self, inputs: Mapping[str, Tensor], found: Tensors) -> Tensors:
        """The function's results, by which those of its operations are judged, unless nothing has moved."""
        results = self.function(inputs)
        if any(not torch.equal(x, inputs[n]) for n, x in self._at.items()):
            self.trusted = results.keys() == found.keys() and all(_same(x, found[n]) for n, x in results.items())
            self._hopeless, self._at = not self.trusted, {}
            if self.kind is not None and self.trusted:
                _proven.add(self.kind)
        return results

    def _given_up(self, inputs: Mapping[str, Tensor]) -> Tensors:
        self._hopeless, self.program = True, None
        return self.function(inputs)


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal to the last bit, NaN to NaN."""
    alike = (one.shape, one.dtype) == (other.shape, other.dtype)
    return alike and (torch.equal(one, other) or torch.allclose(one, other, rtol=0, atol=0, equal_nan=True))


def _likeness(inputs: Mapping[str, Tensor]) -> list[Any]:
    """What must be the same for the same operations to be right."""
    return [(name, x.shape, x.stride(), x.dtype) for name, x in inputs.items()]
