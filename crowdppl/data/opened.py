"""Annotations that were opened from parts: which these are, and counts of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crowdppl.core.collective import all_reduced
from crowdppl.data.blocks import Block
from crowdppl.data.coded import cell_counts
from crowdppl.data.parts import Stored


@dataclass(frozen=True)
class Opened:
    """The parts that annotations were opened from.

    Attributes:
        folder: the path.
        digest: SHA-256 of its dataset.json.
        parts: numbers of the parts that were opened.
        items: how many each of them has, in the same order.
    """

    folder: Path
    digest: str
    parts: range
    items: tuple[int, ...]

    @classmethod
    def of(cls, stored: Stored) -> Opened:
        """Of parts that were read."""
        sizes = tuple(stored.manifest.parts[number].items for number in stored.parts)
        return cls(stored.folder, stored.digest, stored.parts, sizes)


@dataclass(frozen=True, eq=False)
class Totals:
    """Counts of a whole data set, of whose items annotations have some.

    Attributes:
        n_items, n_labels: how many.
        labels: int64 (A,), those of each annotator, abstentions included.
        votes: int64 (K,), those of each class.
    """

    n_items: int
    n_labels: int
    labels: np.ndarray
    votes: np.ndarray

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Totals:
        """Of blocks; where processes share a data set, of those of all together."""
        counts = cell_counts(blocks)
        n_items, n_labels = sum(block.n_items for block in blocks), int(counts.sum())
        return cls(*all_reduced([n_items, n_labels, counts.sum(1), counts[:, : blocks[0].n_classes].sum(0)]))
