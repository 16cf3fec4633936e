"""Which of a story's sites compute in another precision than the fit: plain Pyro multiplies factors of one only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pyro import poutine

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.density import nodes
from crowdppl.inference.problem import Problem


@contextmanager
def one_precision(problem: Problem, guide: Callable[[Block], Any], block: Block) -> Iterator[None]:
    """Names the sites that are to blame where a loss fails because factors differ in precision.

    Args:
        problem: of the fit, which is in float64.
        guide: of its story.
        block: some items.

    Raises:
        MethodError: in place of torch's error, where some site's log-probability is not in float64.
    """
    try:
        yield
    except RuntimeError as error:
        coarse = _coarse(problem, guide, block)
        if not coarse:
            raise
        raise MethodError(
            f"svi of {type(problem.model).__name__} computes {', '.join(coarse)} in {coarse[min(coarse)]}, and "
            "fits are in float64: make the story's tensors in model, or with dtype=torch.float64"
        ) from error


def _coarse(problem: Problem, guide: Callable[[Block], Any], block: Block) -> dict[str, str]:
    """The precision of each site whose log-probability is not in float64, where the guide stands."""
    model = poutine.enum(problem.program, first_available_dim=-1 - problem.plates)
    with torch.random.fork_rng():
        try:
            found = nodes(
                poutine.trace(poutine.replay(model, poutine.trace(guide).get_trace(block))).get_trace(block)
            )
            some = {n: x["fn"].log_prob(x["value"]).dtype for n, x in found.items() if x["type"] == "sample"}
        except RuntimeError:  # another one, which torch has said already
            return {}
    return {n: str(kind).removeprefix("torch.") for n, kind in some.items() if kind != torch.float64}
