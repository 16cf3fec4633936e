"""Edges between items, such as neighbouring pixels, linked pages or duplicates."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.validation import kind_of
from crowdppl.data.ids import READ_FROM, Codebook, as_index, native, places_of
from crowdppl.errors import DataError

NO_EDGES = "the data have none; give edges=, pairs of item ids, or an empty list where no items are linked"


@dataclass(frozen=True)
class Graph:
    """The edges of a block, each in both directions, in the order in which truths are updated: colour by colour.

    Two items of one colour are never linked.

    Attributes:
        order: int64 (n_items,), the items, those of the first colour first.
        colours: number of items of each colour.
        source, target: int64 (M,), the ends of each directed edge; those of sources of the first colour come first.
        back: int64 (M,), the place of each edge's other direction.
        sizes: number of directed edges whose source has each colour.
        kept: what was computed for the whole graph, by settings.
    """

    order: Tensor
    colours: tuple[int, ...]
    source: Tensor
    target: Tensor
    back: Tensor
    sizes: tuple[int, ...]
    kept: dict[Hashable, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, pairs: np.ndarray, n_items: int, device: torch.device) -> Graph:
        """That of pairs (E, 2) of places of items."""
        colour = _colours(pairs, n_items)
        both = np.concatenate([pairs, pairs[:, ::-1]])
        turn = np.lexsort((both[:, 1], both[:, 0], colour[both[:, 0]]))
        place = np.empty(len(both), np.int64)
        place[turn] = np.arange(len(both))
        back = place[(turn + len(pairs)) % max(1, len(both))]
        n = int(colour.max(initial=0)) + 1
        colours, edges = (tuple(np.bincount(x, minlength=n).tolist()) for x in (colour, colour[both[:, 0]]))
        found = (np.argsort(colour, kind="stable"), *both[turn].T, back)
        order, source, target, other = (torch.from_numpy(np.ascontiguousarray(x)).to(device) for x in found)
        return cls(order, colours, source, target, other, edges)


def _colours(pairs: np.ndarray, n_items: int) -> np.ndarray:
    """A colour of each item, other than its neighbours': two where that is possible, as on a grid; int64 (N,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, dijkstra

    if not len(pairs):
        return np.zeros(n_items, np.int64)
    links = coo_array((np.ones(len(pairs)), pairs.T), (n_items, n_items))
    first = np.unique(connected_components(links, directed=False)[1], return_index=True)[1]
    ends = (np.append(pairs[:, 0], np.full(len(first), n_items)), np.append(pairs[:, 1], first))
    rooted = coo_array((np.ones(len(ends[0])), ends), (n_items + 1, n_items + 1)).tocsr()
    steps = dijkstra(rooted, directed=False, indices=n_items, unweighted=True)[:-1]
    two = steps.astype(np.int64) % 2
    if (two[pairs[:, 0]] != two[pairs[:, 1]]).all():
        return np.asarray(two)
    one, other = np.concatenate([pairs, pairs[:, ::-1]]).T
    rank, out, colour = np.random.default_rng(0).permutation(n_items), np.full(n_items, -1), 0
    while (out < 0).any():  # items whose neighbours all come later (Luby 1986), as often as one colour holds more
        able = out < 0
        while able.any():
            rival = np.full(n_items, -1)
            open_ends = able[one] & able[other]
            np.maximum.at(rival, one[open_ends], rank[other[open_ends]])
            new = able & (rank > rival)
            out[new] = colour
            able &= ~new
            able[other[new[one]]] = False
        colour += 1
    return out


@dataclass(frozen=True)
class Edges:
    """Which of the items of a block are linked.

    Attributes:
        pairs: int64 (E, 2), linked items by their places in a block.
        own: int64 (n_items,), the place of each item that is here.
    """

    pairs: Tensor
    own: Tensor

    def at(self, rows: Tensor | slice) -> Edges:
        """Those between some of the items."""
        return Edges(self.pairs, self.own[rows])

    def to(self, device: torch.device | str) -> Edges:
        """A copy on a device."""
        return Edges(self.pairs.to(device), self.own.to(device))

    @staticmethod
    def joined(parts: Iterable[Edges]) -> Edges:
        """Those of several blocks, one after the other."""
        found = [*parts]
        ends = np.cumsum([0, *(len(part.own) for part in found)])
        pairs = [part._here() + first for part, first in zip(found, ends[:-1], strict=True)]
        device = found[0].own.device
        return Edges(torch.from_numpy(np.concatenate(pairs)).to(device), torch.arange(ends[-1], device=device))

    @cached_property
    def graph(self) -> Graph:
        """The edges of which both ends are here."""
        return Graph.of(self._here(), len(self.own), self.own.device)

    def _here(self) -> np.ndarray:
        """Pairs of which both ends are here, by their places among the items that are."""
        return edges_at(self.pairs.cpu().numpy(), self.own.cpu().numpy())


def coded_edges(edges: Any, items: Codebook) -> np.ndarray:
    """Pairs of item ids as codes, int64 (E, 2): each pair once, the lower code first.

    Args:
        edges: a DataFrame of two columns, an array (E, 2), or a list of pairs.

    Raises:
        DataError: for what are no pairs, an item that is unknown, and one that is linked to itself.
    """
    remedy, at = "correct it, or name it in items=", places_of(edges)
    if READ_FROM in getattr(edges, "attrs", {}) and (items.codes([*edges.columns]) >= 0).all():
        raise DataError(no_header([*edges.columns], edges.attrs[READ_FROM]))
    pairs = np.stack([items.require(side, "edges=", remedy, at) for side in sides_of(edges)], 1).astype(np.int64)
    alone = pairs[:, 0] == pairs[:, 1]
    if alone.any():
        item = native(items.ids[pairs[alone][0, 0]])
        raise DataError(f"edges link the item {item!r} to itself{at(item, item)}; leave it out")
    return each_once(pairs, len(items.ids))


def each_once(pairs: np.ndarray, n_items: int) -> np.ndarray:
    """Pairs of codes, int64 (E, 2), sorted: each once, the lower code first."""
    n = max(1, n_items)
    return np.stack(np.divmod(np.unique(pairs.min(1) * n + pairs.max(1)), n), 1)  # quicker than rows


def sides_of(edges: Any) -> tuple[pd.Index[Any], pd.Index[Any]]:
    """The ids at both ends of edges; DataError for what are no pairs."""
    if isinstance(edges, pd.DataFrame):
        columns: list[Any] = [edges.iloc[:, n].infer_objects() for n in range(edges.shape[1])]
    else:
        columns = _columns(edges)
    require_two(len(columns))
    if not len(columns[0]):
        return pd.Index([]), pd.Index([])
    one, other = as_index(columns[0]), as_index(columns[1])
    lost = np.asarray(one.isna()) | np.asarray(other.isna())
    if lost.any():
        row = int(np.argmax(lost))
        pair = f"{native(one[row])!r} and {native(other[row])!r}"
        raise DataError(f"edges link {pair}, of which one is missing; leave the row out")
    return one, other


def no_header(names: Sequence[Any], origin: str) -> str:
    """What to say of a file of edges in which an edge stands for the names of columns."""
    one, other = (repr(native(name)) for name in names)
    return f"{origin} begins with {one} and {other}, which are items; write a line of two column names above"


def require_two(n_columns: int, origin: str = "") -> None:
    """Refuses edges of which a row has more or less than two ends, by a DataError."""
    if n_columns != 2:
        where = origin and f" in {origin}"
        raise DataError(f"edges{where} have {n_columns} columns; give two, the items that each edge links")


def _columns(edges: Any) -> list[Any]:
    """The columns of an array or of a list of pairs."""
    listed = None
    with suppress(TypeError):
        listed = edges if isinstance(edges, np.ndarray) else np.array([*map(_pair, edges)], object)
    if listed is None or isinstance(edges, str) or (listed.ndim != 2 and listed.size):
        raise DataError(
            f"edges are {kind_of(edges)}; give pairs of item ids, or a table of two columns "
            "(crowdppl.read_edges reads one of a file)"
        )
    if not listed.size:
        return [[], []]
    return [[*column] if listed.dtype == object else column for column in listed.T]


def components(pairs: np.ndarray, n_items: int) -> np.ndarray:
    """The connected part of each item and its rank in it, int64 (N, 2), as blocks keep them whole."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(pairs)), pairs.T), (n_items, n_items))
    return np.stack([connected_components(links, directed=False)[1], np.arange(n_items)], 1)


def edges_at(pairs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Edges (E, 2) among some items, (n,) codes that are different, by their places."""
    place = np.full(int(max(codes.max(initial=-1), pairs.max(initial=-1))) + 1, -1)
    place[codes] = np.arange(len(codes))
    here = place[pairs]
    return np.asarray(np.sort(here[(here >= 0).all(1)], 1))


def _pair(edge: Any) -> tuple[Any, ...] | None:
    """The ends of an edge; None for a text, which is no pair of its letters."""
    return None if isinstance(edge, str) else tuple(edge)
