"""Rows of labels as codes, with what the codes mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.blocks import Block, build_blocks, count_repeats
from crowdppl.data.checks import (
    Compared,
    find_warnings,
    refuse_repeat,
    repeats_warning,
    spelling_warning,
    unused_warning,
)
from crowdppl.data.ids import Codebook, Encoding, Place, encode, refuse_missing_text
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.data.kinds.sequences import beginnings_warning
from crowdppl.data.tables import Rows
from crowdppl.errors import CrowdpplWarning


@dataclass(frozen=True)
class Coded:
    """Rows of codes, with what the codes mean."""

    items: Codebook
    annotators: Codebook
    alphabet: LabelSet
    item: np.ndarray
    annotator: np.ndarray
    answer: np.ndarray | None

    def blocks(self, units: np.ndarray | None = None) -> tuple[np.ndarray, list[Block]]:
        """Sorts the rows into item blocks; returns the order of items, too. Sequences (``units_of``) stay whole."""
        return build_blocks(
            self.item,
            self.annotator,
            self.answer,
            n_items=len(self.items),
            n_annotators=len(self.annotators),
            n_classes=self.alphabet.n_classes,
            n_answers=len(self.alphabet.book),
            units=units,
        )

    def rows(self, kept: np.ndarray) -> Coded:
        """Some of the rows."""
        answer = None if self.answer is None else self.answer[kept]
        return replace(self, item=self.item[kept], annotator=self.annotator[kept], answer=answer)

    @property
    def by_code(self) -> np.ndarray:
        """The permutation of the rows that sorts them by item, annotator and answer."""
        keys = (self.annotator, self.item) if self.answer is None else (self.answer, self.annotator, self.item)
        return np.lexsort(keys)


def code_ids(
    name: str,
    column: Any,
    rows: Rows,
    own: Any,
    known: Sequence[Iterable[Any] | Codebook | None],
    grow: bool = False,
) -> tuple[Codebook, np.ndarray]:
    """The codebook of "item" or "annotator", and the code of each of the column's rows.

    ``own`` ids are there whether or not a row has them, a codebook if these are all. Of ids ``known`` from
    options, a codebook fixes which there are, to which ``grow`` appends unknown ones.
    """
    given = encode(column, name, rows.place)
    if isinstance(own, Codebook):
        known, own = [*known, own], None
    book = next((ids for ids in known if isinstance(ids, Codebook)), None)
    others = [ids for ids in known if ids is not None and not isinstance(ids, Codebook)]
    named = [encode(ids, name, lambda n: f"{name}s=[{n}]").values for ids in others]
    remedy = f"give it an id or leave the row out; if it really is an id, name it in {name}s="
    refuse_missing_text(given, name, rows.place, chain(*named), remedy, rows.text)
    more = named if own is None else [encode(own, name).values, *named]
    if book is None:
        for ids in more:
            given = _joined(given, ids, name, rows.place)
        return given.codebook(name)
    remedy = "append it with grow=True"
    for ids in more:
        book = book.extended(ids) if grow else book
        book.require(ids, f"{name}s=", f"leave it out, or {remedy}")
    book = book.extended(given.values) if grow else book
    return book, given.code_in(book, rows.place, f"{len(book)} known ones", f"correct it, or {remedy}")


def _joined(given: Encoding, ids: pd.Index[Any], name: str, place: Place) -> Encoding:
    """Adds ids that no row has."""
    lost = ids[Codebook(name, given.values).codes(ids) < 0]
    if not len(lost):
        return given
    n = len(given.values)
    both = given.values.append(lost)
    found = encode(both, name, lambda at: place(given.first_row(at)) if at < n else f"{name}s without labels")
    return Encoding(found.values, found.codes[:n][given.codes])


def without_repeats(
    coded: Coded, blocks: Sequence[Block], place: Place, repeats: str, covariates: pd.DataFrame | None
) -> tuple[np.ndarray | None, list[CrowdpplWarning]]:
    """Rows that stay (None: all) where an annotator labels an item again, and a warning."""
    extra = count_repeats(blocks)
    if not extra:
        return None, []
    if repeats == "error":
        refuse_repeat(coded.item, coded.annotator, (coded.items, coded.annotators), place)
    if repeats == "keep" and covariates is not None:
        extra = int(covariates.assign(_item=coded.item, _annotator=coded.annotator).duplicated().sum())
    found = [] if coded.answer is None or not extra else [repeats_warning(extra, len(coded.item), repeats)]
    if repeats == "keep":
        return None, [*found]
    pair = pd.Index(coded.item.astype(np.int64) * len(coded.annotators) + coded.annotator)
    return np.flatnonzero(~pair.duplicated(keep="last" if repeats == "last" else "first")), [*found]


def who_abstains(coded: Coded, counts: np.ndarray, earlier: np.ndarray | None) -> np.ndarray | None:
    """Who may abstain, bool (A,): those who did here or ``earlier``; in a design, everyone. None: nobody can."""
    k = coded.alphabet.n_classes
    if counts.shape[1] == k:
        return None
    everyone = coded.answer is None and earlier is None
    may: np.ndarray = np.asarray(counts[:, k:].any(1)) & (coded.answer is not None) | everyone
    if earlier is not None:
        may[: len(earlier)] |= earlier
    return may


def warnings_of(
    coded: Coded,
    blocks: Sequence[Block],
    counts: np.ndarray,
    options: Mapping[str, Any],
    units: np.ndarray | None,
    of_items: pd.DataFrame | None,
) -> list[CrowdpplWarning]:
    """What users should know of their data: ids that look alike, and labels too few to learn from."""
    like, classes = options.get("like"), options.get("classes")
    found: list[CrowdpplWarning | None] = []
    if not isinstance(options.get("items"), Codebook):
        found.append(spelling_warning("items", coded.items.ids))
    if not isinstance(options.get("annotators"), Codebook) and (like is None or options.get("grow")):
        found.append(spelling_warning("annotators", coded.annotators.ids))
    if like is None and classes is None:
        found.append(spelling_warning("labels", coded.alphabet.book.ids))
    if like is None and coded.answer is not None:
        found += find_warnings(blocks, coded.annotators, counts, _compared(coded, of_items))
        found += unused_warning(counts, coded.answer, coded.alphabet) if classes is None else []
        parts = coded.alphabet.kind.parts
        if units is not None and parts is not None and parts.ordered:
            codes = (coded.item, coded.annotator, coded.answer)
            found.append(beginnings_warning(coded.alphabet.classes.ids, units, *codes))
    return [warning for warning in found if warning is not None]


def _compared(coded: Coded, of_items: pd.DataFrame | None) -> Compared | None:
    """Which objects each label of a pair compares, or each ranking; None where items are no objects."""
    parts = coded.alphabet.kind.parts
    if parts is None or parts.objects is None or of_items is None:
        return None
    one, other = (of_items[part].cat.codes.to_numpy(np.int64)[coded.item] for part in parts.names)
    ids = of_items[parts.objects].cat.categories
    if parts.shared:
        return Compared(ids, np.concatenate([one, other]), np.tile(coded.item, 2))
    return Compared(ids, other, one * len(coded.annotators) + coded.annotator)
