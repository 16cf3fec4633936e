"""Story and data put before an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crowdppl.blocks import Block
from crowdppl.errors import DataError
from crowdppl.inference.options import Options
from crowdppl.inference.problem import LARGE, Problem
from crowdppl.networks import placed_features
from crowdppl.sight import networks_of, seen_by
from crowdppl.story import Story

if TYPE_CHECKING:
    from crowdppl.annotations import Annotations


def pose(
    story: Story,
    data: Annotations,
    options: Options,
    start: Mapping[str, Tensor] | None = None,
    evidence: Tensor | None = None,
) -> Problem:
    """Puts story and data before an engine: fresh blocks on the device, in the right precision."""
    dtype = options.dtype or (torch.float64 if data.n_labels < LARGE else torch.float32)
    blocks = looked_at(story, data, data.on(options.device, dtype))
    known = None if evidence is None else evidence.to(options.device, dtype)
    if known is not None:
        blocks = [replace(b, evidence=known[b.offset : b.offset + b.n_items], _views={}) for b in blocks]

    def whole() -> Any:
        if len(blocks) == 1:
            return blocks[0]
        every = looked_at(story, data, [data.as_block().to(options.device, dtype)])[0]
        return replace(every, evidence=known, _views={})

    def moments() -> Tensor:
        from crowdppl.inference.spectral import spectral_truth  # only restarts need it

        return spectral_truth(blocks)

    return Problem(story, blocks, options, whole, moments, dict(start or {}))


def looked_at(story: Story, data: Annotations, blocks: list[Block]) -> list[Block]:
    """Blocks with features, and with what the story's networks make of them, where it has any.

    Raises:
        DataError: when the story has a network and the data have no features.
    """
    found = networks_of(story)
    if not found:
        return blocks
    features = placed_features(data)
    if features is None:
        raise DataError("the method has a network, but the data have no features; give features=")
    features = features.to(blocks[0].device)
    for network in found.values():
        network.to(blocks[0].device)
    spans = (slice(b.offset, b.offset + b.n_items) for b in blocks)
    looking = [replace(b, features=features[at], _views={}) for b, at in zip(blocks, spans, strict=True)]
    return seen_by(story, looking)
