"""Annotations part by part, where they were opened from parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import Codebook
from crowdppl.data.opened import Totals


def by_part(data: Annotations) -> Iterator[tuple[int, slice, Annotations]]:
    """Annotations part by part: the number of the part, its items by code, and their labels without covariates
    but those that name items.

    Those that were not opened from parts are one part.
    """
    if data.opened is None:
        yield 0, slice(0, data.n_items), data
        return
    totals, first = data.totals or Totals.of(data.blocks), 0
    pair, table = data.alphabet.kind.parts, data.item_covariates
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
                    item_covariates=None if pair is None or table is None else table.iloc[own][[*pair.names]],
                    edges=_edges_of(data.edges, own),
                    columns=None,
                    label_names=(),
                    time=None,
                    opened=None,
                    share=None,
                    totals=totals,
                ),
            )
        first += size


def _edges_of(edges: np.ndarray | None, own: slice) -> np.ndarray | None:
    """The edges of a part, of those of all, which are sorted."""
    if edges is None:
        return None
    first, last = np.searchsorted(edges[:, 0], [own.start, own.stop])
    found: np.ndarray = edges[first:last] - own.start
    return found
