"""One operation on tensors as it happened, and what is known of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Kind(NamedTuple):
    """What is known of an operation wherever it happens.

    Attributes:
        writes: which of its arguments it writes to.
        draws: whether it draws at random.
        shapes: whether numbers decide the shape of what comes out.
        masks: whether they do where it is given a mask.
    """

    writes: list[int]
    draws: bool
    shapes: bool
    masks: bool


class Operation(NamedTuple):
    """One operation as it happened: ``written`` are the tensors that it changed in place."""

    run: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: Any
    kind: Kind
    reads: list[Tensor]
    makes: list[Tensor]
    written: list[Tensor]

    @classmethod
    def of(cls, run: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, made: Any) -> Operation:
        """From what the recorder noted."""
        kind = _kind(run)
        reads = tensors((*args, *kwargs.values()) if kwargs else args)
        written = tensors([args[i] for i in kind.writes]) if kind.writes else []
        return cls(run, args, kwargs or {}, made, kind, reads, tensors(flat(made)), written)

    @property
    def unsteady(self) -> bool:
        """Whether numbers come out as Python's, or decide the shape of what comes out."""
        if self.kind.masks:
            return any(x.dtype in (torch.bool, torch.uint8) for x in self.reads[1:])
        return self.kind.shapes or len(self.makes) < len(flat(self.made))


def flat(x: Any) -> Sequence[Any]:
    """What an operation made, as a list."""
    return x if isinstance(x, (list, tuple)) else (x,)


def tensors(values: Sequence[Any]) -> list[Tensor]:
    """Those among some values, however deep in lists."""
    out: list[Tensor] = []
    for x in values:
        if isinstance(x, Tensor):
            out.append(x)
        elif isinstance(x, (list, tuple)):
            out += tensors(x)
    return out


@cache
def _kind(run: Any) -> Kind:
    declared = [x.alias_info for x in run._schema.arguments if not x.kwarg_only]
    writes = [i for i, info in enumerate(declared) if info is not None and info.is_write]
    seeded, dynamic = torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape
    masks = run is torch.ops.aten.index.Tensor  # of which only masks decide a shape
    return Kind(writes, seeded in run.tags, dynamic in run.tags, masks)
