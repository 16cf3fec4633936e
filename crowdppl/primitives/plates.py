"""Plates of a model: items, annotators and groups of either.

Items, their groups and annotators share the rightmost dimension (nothing belongs to two: labels are a ragged value
inside the plate of items), groups of annotators lie left of them, and an engine's chains left of everything.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import pyro
import torch

from crowdppl.core.validation import require_data
from crowdppl.data.blocks import Block
from crowdppl.data.covariates import no_covariates
from crowdppl.errors import DataError


class Data(Protocol):
    """The argument of a model: a block, or whole annotations."""

    def as_block(self) -> Block:
        """The labels as one block."""
        ...


def block_of(data: Data) -> Block:
    """A model's argument as one block. DataError when it is neither annotations nor a block of them."""
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


def groups(data: Data, *names: Hashable) -> pyro.plate:
    """The plate of groups of items, such as documents of sentences, at dimension -1.

    A column of the item covariates names the group of each item, by text or whole numbers; ``item_groups`` gives
    its code. A group that is new at ``predict`` or ``update`` begins at the prior. Several columns may name groups
    of one kind, such as the two objects of a comparison: each is a ``pandas.Categorical`` with the same categories.

    Args:
        data: the model's argument.
        names: of the column, or columns.

    Raises:
        DataError: when the data have no such column, or it does not name a group for each item, or columns have
            other categories.

    Examples:
        A Dirichlet for each document: the shares of classes in it.

        >>> import pandas as pd, pyro, pyro.distributions as dist, torch
        >>> import crowdppl.primitives as cp
        >>> class ByDocument:
        ...     def model(self, data):
        ...         with cp.plates.groups(data, "document"):
        ...             shares = pyro.sample("shares", dist.Dirichlet(torch.ones(data.n_classes)))  # (G, K)
        ...         with cp.plates.annotators(data):
        ...             rows = dist.Dirichlet(cp.confusion_prior(data)).to_event(1)
        ...             confusion = pyro.sample("confusion", rows)
        ...         with cp.plates.items(data):
        ...             log_p = shares.log()[..., cp.item_groups(data, "document"), :]  # (..., N, K)
        ...             cp.annotate(data, confusion.log(), cp.truth(data, log_p))
        >>> books = pd.DataFrame({"document": ["first"] * 30 + ["second"] * 30})
        >>> design = crowdppl.random_design(60, 5, 3, classes=["no", "yes"], seed=0, item_covariates=books)
        >>> data = crowdppl.simulate(ByDocument(), design, seed=0).data
        >>> crowdppl.fit(ByDocument(), data, inference="vb", seed=0).site("shares").shape
        (2, 2)
    """
    held = block_of(data).item_covariates
    if held is None:
        raise DataError(f"the model reads groups of items, and {no_covariates('item')}")
    of = " and ".join(map(str, names))
    return pyro.plate(f"groups of {of}", held.groups(*names)[1], dim=-1)


def annotator_groups(size: int) -> pyro.plate:
    """The plate of groups of annotators, at dimension -2; enter one object around tables and inside items."""
    return pyro.plate("groups", size, dim=-2)


def communities(size: int) -> pyro.plate:
    """The plate of communities of annotators, at dimension -1."""
    return pyro.plate("communities", size, dim=-1)
