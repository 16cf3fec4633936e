"""Operations on tensors that stand for a function, without its Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

Tensors = dict[str, Tensor]


Memory = list[Any]


class Step(NamedTuple):
    """One operation.

    Attributes:
        run: the operation.
        args: takes its arguments from memory.
        kwargs: those by name, which are no tensors.
        places: of what it makes: one, or of a list.
    """

    run: Callable[..., Any]
    args: Callable[[Memory], Sequence[Any]]
    kwargs: dict[str, Any]
    places: int | Sequence[int]


@dataclass(frozen=True)
class Program:
    """What is left of a function without its Python: operations on tensors, in order.

    Attributes:
        memory: what is there before the first step: whatever depends on no input.
        inputs, outputs: their places in memory.
        steps: operations in order.
        found: tensors that were there before the function ran, and their versions.
    """

    memory: Memory
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    steps: Sequence[Step]
    found: Sequence[tuple[Tensor, int]]

    @property
    def stale(self) -> bool:
        """Whether something that the function found, such as a network's weight, was written to since."""
        return any(x._version != version for x, version in self.found)

    @torch.no_grad()
    def __call__(self, inputs: Mapping[str, Tensor]) -> Tensors:
        """The outputs at other inputs of the same shapes, strides and types."""
        memory = list(self.memory)
        for name, place in self.inputs.items():
            memory[place] = inputs[name]
        for run, args, kwargs, places in self.steps:
            made = run(*args(memory), **kwargs)
            if type(places) is int:
                memory[places] = made
            else:
                for place, x in zip(places, made, strict=True):  # type: ignore[arg-type]
                    memory[place] = x
        return {name: memory[place] for name, place in self.outputs.items()}


def fetching(args: Sequence[Any]) -> Callable[[Memory], Sequence[Any]]:
    """What takes arguments from their places in memory: quickly, unless there is a list of places among them."""
    if not args or list in map(type, args):
        return lambda memory: [_filled(x, memory) for x in args]
    return itemgetter(*args) if len(args) > 1 else itemgetter(slice(args[0], args[0] + 1))


def _filled(x: Any, memory: Memory) -> Any:
    return [_filled(y, memory) for y in x] if type(x) is list else memory[x]
