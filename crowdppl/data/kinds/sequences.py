"""Sequences of items, such as the tokens of a sentence: units that blocks, folds and minibatches keep whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.data.kinds.classes import Classes
from crowdppl.data.kinds.kind import Small
from crowdppl.data.kinds.parts import SEPARATOR, Parts
from crowdppl.data.kinds.rankings import OF_RANKS
from crowdppl.errors import CrowdpplWarning, DataError

SEQUENCE, POSITION = "sequence", "position"
"""Item covariates: the sequence of an item, and a number by which the items of a sequence are in order."""


@dataclass(frozen=True)
class Sequences:
    """The items of a block in the order in which chains are summed: all first items, all second ones, and so on.

    Attributes:
        order: int64 (n_items,), the item at each place; longer sequences come first.
        back: int64 (n_items,), the place of each item.
        sizes: number of sequences that have a first item, a second one, and so on.
    """

    order: Tensor
    back: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, sequence: Tensor) -> Sequences:
        """Those of items that stand in order: ``sequence`` (n_items,), equal for neighbours in one."""
        code = sequence.cpu().numpy()
        first = np.flatnonzero(np.append(True, code[1:] != code[:-1])[: len(code)])
        lengths = np.diff(first, append=len(code))
        rank = np.arange(len(code)) - np.repeat(first, lengths)
        order = np.lexsort((np.repeat(np.arange(len(first)), lengths), -np.repeat(lengths, lengths), rank))
        at = torch.from_numpy(order).to(sequence.device)
        return cls(at, at.argsort(), tuple(np.bincount(rank).tolist()))

    @cached_property
    def starts(self) -> Tensor:
        """Which items are first of their sequence, bool (n_items,)."""
        return self.back < (self.sizes[0] if self.sizes else 0)

    @cached_property
    def last(self) -> Tensor:
        """The place of the last item of each sequence, int64 (n_sequences,)."""
        ends = np.cumsum(self.sizes, dtype=np.int64)
        column = np.arange(self.sizes[0] if self.sizes else 0)
        length = len(self.sizes) - np.searchsorted(self.sizes[::-1], column, "right")
        return torch.from_numpy((ends - self.sizes)[length - 1] + column).to(self.order.device)

    @cached_property
    def previous(self) -> Tensor:
        """The place of the item before that at each place, int64 (n_items,); itself where it is a first one."""
        ahead = np.repeat(np.append(0, self.sizes[:-1]), self.sizes).astype(np.int64)
        return torch.arange(len(self.order), device=self.order.device) - torch.from_numpy(ahead).to(self.order)

    @cached_property
    def before(self) -> Tensor:
        """The item before each item, int64 (n_items,); itself where it is the first."""
        return self.order[self.previous][self.back]


def units_of(item_covariates: pd.DataFrame | None) -> np.ndarray | None:
    """The sequence of each item and its rank in it, int64 (N, 2), in codebook order; None without sequences.

    Of rankings, the problem of each object, and the object. DataError for an item without a sequence or a
    position, and for two at one.
    """
    if item_covariates is not None and {*OF_RANKS} <= {*item_covariates}:
        return np.stack([pd.factorize(item_covariates[name], sort=True)[0] for name in OF_RANKS], 1)
    if item_covariates is None or SEQUENCE not in item_covariates:
        return None
    if POSITION not in item_covariates:
        raise DataError(f"item_covariates have a column {SEQUENCE!r} and none of the {POSITION!r} of items in it")
    known = item_covariates[[SEQUENCE, POSITION]]
    sequence, position = pd.factorize(known[SEQUENCE])[0], pd.to_numeric(known[POSITION], errors="coerce")
    wrong = (sequence < 0) | ~np.isfinite(position.to_numpy(np.float64))
    if wrong.any():
        item = known.index[int(np.argmax(wrong))]
        raise DataError(f"the item {item!r} has no {SEQUENCE} or no {POSITION} that is a number; give both")
    twice = known.duplicated().to_numpy()
    if twice.any():
        found = known[twice].iloc[0].to_dict()
        raise DataError(f"two items have one place, {found}; give each of a sequence a position of its own")
    return np.stack([sequence, position.groupby(sequence).rank().to_numpy(np.int64)], 1)


def edges_between(edges: list[int], unit: np.ndarray) -> list[int]:
    """Edges of blocks, moved on to where the next unit begins; ``unit`` (N,) is of the items in their order."""
    starts = np.append(np.flatnonzero(np.append(True, unit[1:] != unit[:-1])), len(unit))
    return [int(edge) for edge in np.unique(starts[np.searchsorted(starts, edges)])]


def tag_of(name: object) -> tuple[str, str] | None:
    """The part of a span, B, I or O, and the type of a BIO tag, "" of a bare one; None for other names."""
    part, dash, its_type = str(name).partition("-")
    fits = part in ("B", "I") and bool(dash) == bool(its_type)
    return (part, its_type) if fits or str(name) == "O" else None


@dataclass(frozen=True)
class Tags:
    """Classes that are BIO tags: a span is a B-X and all I-X that follow it.

    Attributes:
        types: the type of each class, "" for O and bare tags.
        begins: which classes are B-X, bool (K,).
        inside: the code of the I-X of each class's type, int64 (K,); -1 for O, and where there is none.
    """

    types: tuple[str, ...]
    begins: np.ndarray
    inside: np.ndarray

    @classmethod
    def of(cls, classes: Iterable[object]) -> Tags | None:
        """Those of classes in codebook order; None where one is no tag."""
        tags = [*map(tag_of, classes)]
        found = [tag for tag in tags if tag is not None]
        if len(found) < len(tags):
            return None
        code = {its_type: n for n, (part, its_type) in enumerate(found) if part == "I"}
        inside = [-1 if part == "O" else code.get(its_type, -1) for part, its_type in found]
        begins = [part == "B" for part, _ in found]
        return cls(tuple(its_type for _, its_type in found), np.array(begins), np.array(inside))

    def ends(self, code: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """The last place of the span that begins at each place, int64 (N,), or -1; of codes in order."""
        goes_on = ~starts & (code == self.inside[np.roll(code, 1)])
        first = np.flatnonzero(~goes_on)
        last = np.append(first[1:], len(code)) - 1
        out = np.full(len(code), -1)
        out[first] = np.where(self.begins[code[first]], last, -1)
        return out


def beginnings_warning(
    classes: Iterable[object], units: np.ndarray, item: np.ndarray, annotator: np.ndarray, answer: np.ndarray
) -> CrowdpplWarning | None:
    """What to say where most spans of labels, codes (S,) each, begin with I-X, as in IOB1."""
    tags = Tags.of([*classes, "O"])  # abstentions count as O
    if tags is None:
        return None
    once = np.unique(annotator * np.int64(len(units)) + item, return_index=True)[1]
    order = once[np.lexsort((*units[item[once]].T[::-1], annotator[once]))]
    code, who, (sequence, rank) = (
        np.minimum(answer[order], len(tags.types) - 1),
        annotator[order],
        units[item[order]].T,
    )
    goes_on = (
        (np.diff(who) == 0) & (np.diff(sequence) == 0) & (np.diff(rank) == 1) & (code[1:] == tags.inside[code[:-1]])
    )
    loose = np.count_nonzero((tags.inside[code] == code) & ~np.append(False, goes_on))
    spans = loose + np.count_nonzero(tags.begins[code])
    if 2 * loose <= spans:
        return None
    return CrowdpplWarning(
        f"{loose} of {spans} spans of labels begin with I-X, as in IOB1, and count as none; let each begin with B-X"
    )


SEQUENCES = Classes(
    "sequence",
    "sequences",
    "tags of tokens: sequence, position",
    parts=Parts("sequence", (SEQUENCE, POSITION), ordered=True),
    aliases=("spans", "span", "ner", "tags", "tagging", "token", "tokens", "bio"),
    methods=("bayesian_dawid_skene", "hmm_crowd", "sequence_crowd"),
    table="spans",
    members={"hmm_crowd": {}, "sequence_crowd": {}},
    example=(
        [(text, place) for text in ("first", "second", "third") for place in range(4)],
        ("O", "B-name", "I-name"),
    ),
    small=Small(lambda n: f"item {n // 4}{SEPARATOR}{n}"),
)
