"""Items that nobody has seen: what sites of single items may be for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.inference.reading.density import FLOOR, Density
from crowdppl.inference.reading.nodes import nodes
from crowdppl.inference.reading.starts import Typical

LOOKS = 8
"""Quantiles that stand for a prior: of GLAD's difficulties, they give accuracies to within .004."""


def fresh_items(
    density: Density, block: Block, given: Mapping[str, Tensor], names: Sequence[str]
) -> Iterator[dict[str, Tensor]]:
    """Values of items' own sites which together stand for the prior of a fresh item, given everything shared.

    Sites of one number go through evenly spaced quantiles of their prior; several are paired at random, since
    they are independent. The rest stand at the prior mean: quantiles of many numbers would take many more looks.

    Args:
        density: the story, with or without chains.
        block: the items, which all get the same values.
        given: a value for every site that is shared.
        names: sites of items; without any there is one look, at nothing.
    """
    if not names:
        yield {}
        return
    stream = torch.Generator(device=block.device).manual_seed(0)
    with Typical(stream):
        found = nodes(density.trace(block, given))
    plain = {n: found[n]["value"].detach() for n in names}
    plain = {n: x.clamp(min=math.exp(FLOOR)).log() if n in density.log_sites else x for n, x in plain.items()}
    moving = {n: found[n]["fn"] for n in names if _quantile(found[n]["fn"], 0.5, block.device) is not None}
    shuffled = {n: torch.randperm(LOOKS, generator=stream, device=block.device).tolist() for n in moving}
    for look in range(LOOKS if moving else 1):
        at = {n: _quantile(fn, (shuffled[n][look] + 0.5) / LOOKS, block.device) for n, fn in moving.items()}
        yield plain | {n: x for n, x in at.items() if x is not None}


def _quantile(fn: Any, share: float, device: torch.device) -> Tensor | None:
    """A quantile of each of the distributions of one number, [C,] items; None where there is none to be had."""
    if fn.event_shape:
        return None
    try:
        out: Tensor = fn.icdf(torch.full(fn.batch_shape, share, dtype=torch.float64, device=device)).detach()
    except (NotImplementedError, AttributeError):
        return None
    return out
