"""Running a story at given values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from typing import Any

import pyro
from pyro.poutine import Trace
from pyro.poutine.enum_messenger import EnumMessenger
from torch import Tensor

from crowdppl.data.blocks import Block


class _Enough(Exception):
    """Ends a story early; nothing is wrong."""


class _Reading(EnumMessenger):
    """Gives sites their values, enumerates and records: Pyro's condition, enum and trace in one handler.

    On a small block, each handler that a sample statement passes costs as much as arithmetic does.

    Args:
        values: of sites, as the story is to receive them.
        first: the dimension of the first enumerated site.
        enough: sites after the last of which the story is ended; None for all of it.
    """

    def __init__(self, values: Mapping[str, Tensor], first: int, enough: Collection[str] | None) -> None:
        super().__init__(first_available_dim=first)
        self.values, self.trace = values, Trace()
        self.missing = None if enough is None else set(enough)

    def _pyro_sample(self, message: Any) -> None:
        value = self.values.get(message["name"])
        if value is not None:
            message["value"], message["is_observed"] = value, True
        if not _apart(message):
            super()._pyro_sample(message)

    def _pyro_post_sample(self, message: Any) -> None:
        if not _apart(message):
            super()._pyro_post_sample(message)
        if not message["infer"].get("_do_not_trace"):
            self.trace.add_node(message["name"], **message.copy())
        if self.missing is not None:
            self.missing.discard(message["name"])
            if not self.missing:
                raise _Enough

    def _pyro_post_param(self, message: Any) -> None:
        self.trace.add_node(message["name"], **message.copy())


def _apart(message: Any) -> bool:
    """Whether enumeration has nothing to do with a site: it has a value, and stands in no Markov chain."""
    return bool(message["is_observed"]) and "_markov_scope" not in message["infer"]


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
    many = nullcontext() if chains is None else pyro.plate("chains", chains, dim=-plates - 1)
    first = -1 - plates - (chains is not None)
    # chains stand inside the enumeration: a discrete site is spread over chains before it is enumerated
    with suppress(_Enough), _Reading(values, first, enough) as reading, many:
        model(block)
    return reading.trace
