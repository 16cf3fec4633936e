"""From ids and labels to whole numbers, and what the numbers mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.blocks import Block, build_blocks
from crowdppl.errors import DataError
from crowdppl.tables.alphabet import Alphabet, encode_labels, listed, read_alphabet
from crowdppl.tables.codebook import ONE_WAY, Codebook, as_index, plain
from crowdppl.tables.encoding import Encoding, Place, encode, refuse_markers
from crowdppl.tables.options import Options
from crowdppl.tables.rows import Rows
from crowdppl.tables.variants import otherwise_spelled


@dataclass(frozen=True)
class Coded:
    """Rows of codes, with what the codes mean."""

    items: Codebook
    annotators: Codebook
    alphabet: Alphabet
    item: np.ndarray
    annotator: np.ndarray
    answer: np.ndarray | None

    def blocks(self) -> tuple[np.ndarray, list[Block]]:
        """Sorts the rows into item blocks; returns the order of items, too."""
        return build_blocks(
            self.item,
            self.annotator,
            self.answer,
            n_items=len(self.items),
            n_annotators=len(self.annotators),
            n_classes=self.alphabet.n_classes,
            n_answers=len(self.alphabet.book),
        )

    def rows(self, kept: np.ndarray) -> Coded:
        """Some of the rows."""
        answer = None if self.answer is None else self.answer[kept]
        return replace(self, item=self.item[kept], annotator=self.annotator[kept], answer=answer)


def code_rows(rows: Rows, options: Options) -> Coded:
    """Codes the three columns.

    Raises:
        DataError: for ids or labels that are missing, mixed or unknown, with value and row.
    """
    like, features = options.get("like"), options.get("features")
    alphabet, answer = _answers(rows, options)
    there = [rows.items, options.get("items"), features.index if isinstance(features, pd.DataFrame) else None]
    items, item = _ids("item", rows.item, rows, there)
    if like is None:
        annotators, annotator = _ids(
            "annotator", rows.annotator, rows, [rows.annotators, options.get("annotators")]
        )
    else:
        people = [like.annotator_book, rows.annotators, options.get("annotators")]
        annotators, annotator = _ids("annotator", rows.annotator, rows, people, options.get("grow"))
    return Coded(items, annotators, alphabet, item, annotator, answer)


def _answers(rows: Rows, options: Options) -> tuple[Alphabet, np.ndarray | None]:
    like, classes = options.get("like"), options.get("classes")
    away = listed(options.get("abstentions", ()), "abstentions")
    informative = options.get("informative_abstentions", False)
    if like is not None and (classes is not None or away or informative):
        raise DataError(
            "like= settles classes and abstentions; leave classes=, abstentions= and informative_abstentions= out"
        )
    classes = None if classes is None else listed(classes, "classes")
    labels = None
    if rows.label is not None:
        named = classes is not None or like is not None
        labels = encode_labels(rows.label, rows.place, named, away, rows.text, rows.without)
    if like is None:
        alphabet = read_alphabet(labels, classes, away, options.get("kind", "nominal"), informative)
    else:
        alphabet = like.alphabet
    return alphabet, None if labels is None else alphabet.code(labels, rows.place)


def _ids(
    name: str, column: Any, rows: Rows, there: Sequence[Iterable[Any] | Codebook | None], grow: bool | None = None
) -> tuple[Codebook, np.ndarray]:
    """The codebook of a column, with ids that are there anyway, and each row's code.

    A ``grow`` that is False, not left out, says that nobody new can come in here, and it is not advised.
    """
    given = encode(column, name, rows.place)
    if rows.text:
        there = [list(ids) if isinstance(ids, Iterator) else ids for ids in there]  # read twice
        named = [ids for ids in there if ids is not None and ids is not rows.items and ids is not rows.annotators]
        meant = {value for ids in named for value in as_index(ids) if isinstance(value, str)}
        remedy = f"give it an id or leave the row out; if it really is an id, name it in {name}s="
        refuse_markers(given, name, rows.place, meant, remedy)
    book = next((ids for ids in there if isinstance(ids, Codebook)), None)
    if book is not None and grow:
        book = book.extended(given.values)
    for ids in there:
        if ids is None or isinstance(ids, Codebook):
            continue
        more = encode(ids, name, lambda row: f"{name}s=[{row}]").values
        if book is None:
            given = _joined(given, more, name, rows.place)
        elif grow:
            book = book.extended(more)
        else:
            book.require(more, f"{name}s=", f"leave it out, or {_way_in(grow)}")
    return given.codebook(name) if book is None else _ids_of(book, given, rows.place, _way_in(grow))


def _ids_of(book: Codebook, given: Encoding, place: Place, way_in: str) -> tuple[Codebook, np.ndarray]:
    codes = book.codes(given.values)
    if (codes < 0).any():
        row = min(given.first_row(int(position)) for position in np.flatnonzero(codes < 0))
        value = plain(given.values[given.codes[row]])
        near = otherwise_spelled(value, map(plain, book.ids))
        raise DataError(
            f"the {book.name} {value!r} at {place(row)} is not among the {len(book)} known ones"
            + (f", but {near} is; {ONE_WAY}, " if near else "; correct it, ")
            + f"leave the row out, or {way_in}"
        )
    return book, codes.astype(np.int32)[given.codes]


def _way_in(grow: bool | None) -> str:
    """How somebody unknown is taken in."""
    if grow is None:
        return "append it with grow=True"
    return "fit anew with it (annotators= of Annotations lists who is to come and has no labels yet)"


def _joined(given: Encoding, ids: pd.Index[Any], name: str, place: Place) -> Encoding:
    """Adds ids that no row has."""
    lost = ids[Codebook(name, given.values).codes(ids) < 0]
    if not len(lost):
        return given
    known = len(given.values)
    both = encode(
        given.values.append(lost),
        name,
        lambda at: place(given.first_row(at)) if at < known else f"{name}s without labels",
    )
    return Encoding(both.values, both.codes[:known][given.codes])
