"""Plates of a model: items, annotators and groups.

Items and annotators share the rightmost dimension (nothing belongs to both: labels are a ragged value inside the
plate of items), groups lie left of them, and an engine's chains left of everything.
"""

from __future__ import annotations

from typing import Protocol

import pyro
import torch

from crowdppl.core.validation import require_data
from crowdppl.data.blocks import Block


class Data(Protocol):
    """The argument of a model: a block, or whole annotations."""

    def as_block(self) -> Block:
        """The labels as one block."""
        ...


def block_of(data: Data) -> Block:
    """A model's argument as one block.

    Raises:
        DataError: when it is neither annotations nor a block of them.
    """
    return require_data(data).as_block()


def items(data: Data) -> pyro.plate:
    """The plate of items, at dimension -1; a minibatch is scaled up to the items it represents.

    Examples:
        >>> plate = crowdppl.primitives.plates.items(crowdppl.anaesthetists())
        >>> plate.name, plate.size, plate.dim
        ('items', 45, -1)
    """
    block = block_of(data)
    return _scaled("items", block, block.n_items)


def labels(data: Data) -> pyro.plate:
    """The plate of single labels, at dimension -1, for models that give each label a state of its own."""
    block = block_of(data)
    return _scaled("labels", block, block.n_labels)


def _scaled(name: str, block: Block, size: int) -> pyro.plate:
    """A plate of which a minibatch holds a part."""
    if block.scale == 1.0:
        return pyro.plate(name, size, dim=-1)
    batch = torch.arange(size, device=block.device)
    return pyro.plate(name, round(block.scale * size), subsample=batch, dim=-1)


def annotators(data: Data, name: str = "annotators") -> pyro.plate:
    """The plate of annotators, at dimension -1; Pyro wants another name for each plate object of a model.

    Examples:
        >>> plate = crowdppl.primitives.plates.annotators(crowdppl.anaesthetists())
        >>> plate.name, plate.size, plate.dim
        ('annotators', 5, -1)
    """
    return pyro.plate(name, block_of(data).n_annotators, dim=-1)


def groups(size: int) -> pyro.plate:
    """The plate of groups of annotators, at dimension -2; enter one object around tables and inside items."""
    return pyro.plate("groups", size, dim=-2)


def communities(size: int) -> pyro.plate:
    """The plate of communities of annotators, at dimension -1."""
    return pyro.plate("communities", size, dim=-1)
