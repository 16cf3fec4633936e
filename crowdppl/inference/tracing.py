"""Running a story at given values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from typing import Any

import pyro
from pyro import poutine
from pyro.poutine import Trace
from pyro.poutine.enum_messenger import EnumMessenger
from pyro.poutine.messenger import Messenger
from torch import Tensor

from crowdppl.blocks import Block


class _Enough(Exception):
    """Ends a story early; nothing is wrong."""


class _UntilLast(Messenger):
    """Ends a story once every one of some sites has been drawn."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self.missing = set(names)

    def _pyro_post_sample(self, message: Any) -> None:
        self.missing.discard(message["name"])
        if not self.missing:
            raise _Enough


def traced(
    model: Callable[[Block], Any],
    block: Block,
    values: Mapping[str, Tensor],
    plates: int,
    chains: int | None = None,
    enough: Collection[str] | None = None,
) -> Trace:
    """The trace of a story with every enumerated site enumerated.

    Args:
        model: the story.
        block: its argument.
        values: of sites, as the story is to receive them.
        plates: nesting depth of the story's plates.
        chains: how many chains ride along left of them, or None.
        enough: sites after the last of which the story is ended; None for all of it.
    """
    given = poutine.condition(model, data=dict(values))
    given = given if enough is None else _UntilLast(enough)(given)
    many = nullcontext() if chains is None else pyro.plate("chains", chains, dim=-plates - 1)
    first = -1 - plates - (chains is not None)
    # chains stand inside the enumeration: a discrete site is spread over chains before it is enumerated
    with poutine.trace() as tracer, suppress(_Enough), EnumMessenger(first_available_dim=first), many:
        given(block)
    return tracer.trace
