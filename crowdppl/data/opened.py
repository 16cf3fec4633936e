"""Annotations that were opened from parts: which these are, counts of all of them, and the annotations of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crowdppl.core.collective import all_reduced
from crowdppl.data.coded import cell_counts
from crowdppl.data.ids import Codebook
from crowdppl.data.parts import Stored

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


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
    def of(cls, data: Annotations) -> Totals:
        """Of annotations; of processes that share them, of all together."""
        counts = cell_counts(data.blocks)
        return cls(*all_reduced([data.n_items, data.n_labels, counts.sum(1), counts[:, : data.n_classes].sum(0)]))


def by_part(data: Annotations) -> Iterator[tuple[int, slice, Annotations]]:
    """Annotations part by part: the number of the part, its items by code, and their labels without covariates.

    Those that were not opened from parts are one part.
    """
    if data.opened is None:
        yield 0, slice(0, data.n_items), data
        return
    totals, first = data.totals or Totals.of(data), 0
    for number, size in zip(data.opened.parts, data.opened.items, strict=True):
        own = slice(first, first + size)
        blocks = [b for b in data.blocks if own.start <= b.offset < own.stop]
        if blocks:  # else it has no items
            yield (
                number,
                own,
                replace(
                    data,
                    item_book=Codebook("item", data.item_book.ids[own]),
                    blocks=[replace(block, offset=block.offset - first) for block in blocks],
                    order=data.order[own] - np.int32(first),
                    known=None if data.known is None else data.known[own],
                    features=None,
                    item_covariates=None,
                    columns=None,
                    label_names=(),
                    time=None,
                    opened=None,
                    share=None,
                    totals=totals,
                ),
            )
        first += size
