"""Sequences of items, such as the tokens of a sentence: units that blocks, folds and minibatches keep whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.validation import warn
from crowdppl.data.edges import components
from crowdppl.data.ids import Encoding, Place, by_item, encode, native
from crowdppl.data.kinds.classes import Classes
from crowdppl.data.kinds.kind import Small
from crowdppl.data.kinds.parts import SEPARATOR, Parts
from crowdppl.data.kinds.rankings import OF_RANKS
from crowdppl.data.tables import Rows
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


def units_of(
    item_covariates: pd.DataFrame | None, edges: np.ndarray | None = None, n: int = 0
) -> np.ndarray | None:
    """The sequence of each item and its rank in it, int64 (N, 2), in codebook order; None without sequences.

    Of rankings, the problem of each object, and the object; of ``n`` items with edges, codes (E, 2), the linked
    part of each. DataError for an item without a sequence or a
    position, and for two at one.
    """
    if item_covariates is not None and {*OF_RANKS} <= {*item_covariates}:
        return np.stack([pd.factorize(item_covariates[name], sort=True)[0] for name in OF_RANKS], 1)
    if item_covariates is None or SEQUENCE not in item_covariates:
        return None if edges is None else components(edges, n)
    if POSITION not in item_covariates:
        raise DataError(f"item_covariates have a column {SEQUENCE!r} and none of the {POSITION!r} of items in it")
    known = item_covariates[[SEQUENCE, POSITION]]
    sequence, position = pd.factorize(known[SEQUENCE])[0], pd.to_numeric(known[POSITION], errors="coerce")
    wrong = (sequence < 0) | ~np.isfinite(position.to_numpy(np.float64))
    if wrong.any():
        item = native(known.index[int(np.argmax(wrong))])
        raise DataError(f"the item {item!r} has no {SEQUENCE} or no {POSITION} that is a number; give both")
    twice = known.duplicated().to_numpy()
    if twice.any():
        found = {name: native(value) for name, value in known[twice].iloc[0].items()}
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


AS_BIO = {"B": "B", "I": "I", "S": "B", "U": "B", "E": "I", "L": "I"}
"""What parts of spans are in BIO: B and I as in IOB1; S and E, or U and L, for one token and the last, as in BIOES
and BILOU."""
LAST = frozenset("SUEL")
"""Parts that end a span."""
STRAY = ("repair", "refuse", "keep")
"""What may be done with an I-X that continues no span."""


def tag_in_any_scheme(name: object) -> tuple[str, str] | None:
    """The part of a span and the type of a tag of IOB1, BIO, BIOES or BILOU; None for other names."""
    part, dash, its_type = str(name).partition("-")
    fits = part in AS_BIO and bool(dash) == bool(its_type) and (bool(dash) or part in ("B", "I"))
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


@dataclass(frozen=True)
class TagsOfTokens(Classes):
    """Labels of tokens; tags of IOB1, BIOES and BILOU are read as BIO."""

    by_neighbours: ClassVar[bool] = True

    def read(self, rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
        """Rows with one id a token, and tags of BIO; an I-X that continues no span is treated as ``stray`` says."""
        how = options.get("stray", STRAY[0])
        rows, changed = super().read(rows, options)
        known = changed["item_covariates"]
        units = units_of(known) if isinstance(known, pd.DataFrame) else None
        if units is None:
            return rows, changed
        item: Any = rows.item
        if rows.label is not None:
            given = encode(rows.label, "label", rows.place, mixed=True)
            annotator = encode(rows.annotator, "annotator", rows.place).codes
            label = _as_bio(given, annotator, units[item.codes], changed, how, rows.place)
            if label is not None and changed.get("classes") is not None:
                changed["classes"] = [*dict.fromkeys((*map(_name_in_bio, changed["classes"]), *_begun(label)))]
            rows = rows if label is None else replace(rows, label=label)
        gold = None if rows.gold is None else _truths_as_bio(rows.gold, known)
        if changed.get("gold") is not None:
            changed["gold"] = _truths_as_bio(by_item(changed["gold"]), known)
        return replace(rows, gold=gold), changed

    def truths(self, gold: pd.Series[Any], items: pd.Index[Any], covariates: pd.DataFrame, roles: Any) -> Any:
        """Known tags in BIO, by the ids of items."""
        return _truths_as_bio(super().truths(gold, items, covariates, roles), covariates)


def no_tags(values: Iterable[Any], options: Mapping[str, Any]) -> list[Any]:
    """Those that are no tags of spans in any scheme, abstentions apart."""
    away = {*map(str, options.get("abstentions", ()))}
    return [x for x in values if str(x) not in away and tag_in_any_scheme(x) is None]


def _begun(label: Encoding) -> list[str]:
    """Labels that begin a span."""
    return [x for x in label.values if (tag := tag_of(x)) and tag[0] == "B"]


def _name_in_bio(name: Any) -> Any:
    """A tag in BIO; other names as they are."""
    tag = tag_in_any_scheme(name)
    return name if tag is None or tag[0] == "O" else "-".join(filter(None, (AS_BIO[tag[0]], tag[1])))


def _truths_as_bio(gold: pd.Series[Any], covariates: pd.DataFrame) -> pd.Series[Any]:
    """Known tags, by item, in BIO."""
    units = units_of(covariates)
    place = covariates.index.get_indexer(gold.index)
    known = np.flatnonzero((place >= 0) & gold.notna().to_numpy() & (gold.astype(str) != "").to_numpy())
    if units is None or not len(known):
        return gold
    given = encode(gold.iloc[known], "gold", mixed=True)
    found = _as_bio(given, np.zeros(len(known), np.int64), units[place[known]], {}, "repair", None)
    if found is None:
        return gold
    out = gold.astype(object)
    out.iloc[known] = found.values.to_numpy()[found.codes]
    return out


def _as_bio(
    given: Encoding,
    annotator: np.ndarray,
    unit: np.ndarray,
    options: Mapping[str, Any],
    how: str,
    place: Place | None,
) -> Encoding | None:
    """Labels in BIO, of units (S, 2) as of ``units_of``; None where they are so, or no tags.

    An I-X continues a span where its annotator gave the token before it B-X or I-X. Where most spans begin with
    one that does not, as in IOB1, it is a B-X; elsewhere as ``how`` says. Beside a token that an annotator did not
    tag, this is unknown, and it stays. Without a ``place``, there are no warnings.
    """
    away = {*map(str, options.get("abstentions", ()))}
    tags = [None if str(x) in away else tag_in_any_scheme(x) for x in given.values]
    if no_tags(given.values, options) or not any(tag and tag[0] != "O" for tag in tags):
        return None
    types = {name: n for n, name in enumerate(dict.fromkeys(tag[1] for tag in tags if tag))}
    table = [
        (-1, -1, 0) if tag is None else ("OBI".index(AS_BIO.get(tag[0], "O")), types[tag[1]], tag[0] in LAST)
        for tag in tags
    ]
    part, its_type, last = np.array(table, np.int64)[given.codes].T
    order = np.lexsort((unit[:, 1], unit[:, 0], annotator))
    before = np.roll(order, 1)
    gap = unit[order] - unit[before]
    near = (annotator[order] == annotator[before]) & (gap[:, 0] == 0) & (gap[:, 1] == 1) & (part[before] >= 0)
    near[:1] = False
    goes_on = near & (part[before] > 0) & (its_type[before] == its_type[order]) & (last[before] == 0)
    stray = np.zeros(len(part), bool)
    stray[order] = (part[order] == 2) & ~goes_on & (near | (unit[order, 1] == 1))
    count, spans = int(stray.sum()), int(stray.sum() + (part == 1).sum())
    if count and 2 * count <= spans and place is not None and how != "keep":
        row = int(np.argmax(stray))
        one = f"{native(given.values[given.codes[row]])!r} at {place(row)}"
        if how == "refuse":
            raise DataError(
                f"the label {one} continues no span of its type; write B for I where a span begins, or say "
                "stray='repair' to have it so"
            )
        warn(
            f"{count} of {len(part)} labels are an I-X that continues no span of its type, such as {one}, and are "
            "read as B-X, which begins one; stray='refuse' refuses such labels",
            CrowdpplWarning,
        )
    if how == "keep" or not (count or last.any()):
        stray[:] = False
    if not (stray.any() or last.any() or any(tag and tag[0] in "SUEL" for tag in tags)):
        return None
    part = np.where(stray, 1, part)
    code = (part * len(types) + its_type) * (part > 0)
    names = [*types]
    used, codes = np.unique(np.where(part < 0, -1 - given.codes, code), return_inverse=True)
    words = [
        given.values[-1 - x]
        if x < 0
        else "O"
        if x == 0
        else "-".join(filter(None, ("OBI"[x // len(types)], names[x % len(types)])))
        for x in used
    ]
    return Encoding(pd.Index(words, dtype=object), codes.astype(np.int32))


SEQUENCES = TagsOfTokens(
    "sequence",
    "sequences",
    "tags of tokens: sequence, position",
    called="tags",
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
