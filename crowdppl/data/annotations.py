"""Annotations: labels of items by annotators, with known truths, features and covariates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal, Protocol, TypedDict, Unpack

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.validation import no_annotations, require_data, warn
from crowdppl.data.blocks import Block, build_blocks, count_repeats
from crowdppl.data.checks import (
    cell_counts,
    check_tables,
    find_warnings,
    refuse_repeat,
    repeats_warning,
    unused_warning,
)
from crowdppl.data.covariates import CovariateColumns, covariate_table, feature_table, gold_codes, history_table
from crowdppl.data.features import Features, StoredFeatures, numbers_of, rows_taken
from crowdppl.data.ids import (
    ONE_WAY,
    Codebook,
    Encoding,
    LabelSet,
    Place,
    as_index,
    composed,
    encode,
    encode_labels,
    is_text,
    listed,
    otherwise_spelled,
    plain,
    read_label_set,
    refuse_markers,
)
from crowdppl.data.ids import bare as bare_of
from crowdppl.data.ragged import RaggedIndex
from crowdppl.data.tables import Rows, rows_of_dicts, rows_of_frame, rows_of_matrix, rows_of_wide
from crowdppl.errors import CrowdpplWarning, DataError

REPEATS = ("keep", "error", "first", "last")


class KnownIds(Protocol):
    """Annotations whose annotators, classes and answers are to be used again."""

    @property
    def annotator_book(self) -> Codebook:
        """Codebook of the annotators."""
        ...

    @property
    def alphabet(self) -> LabelSet:
        """Classes and answers."""
        ...

    @property
    def abstainers(self) -> np.ndarray | None:
        """Annotators who may abstain, (A,)."""
        ...


class Options(TypedDict, total=False):
    """What may be said about annotations besides the labels; everything is optional.

    Attributes:
        classes: all classes, in their order; one that nobody gave stays. By default those given, sorted; of labels
            that are a categorical of pandas, its categories, in their order if they have one
            (``remove_unused_categories`` leaves out those of rows that were filtered away).
        abstentions: answers that are no class, such as "don't know".
        informative_abstentions: whether declining may depend on the class, so that an abstention is evidence of it.
            By default it tells nothing (it is ignorable): each annotator declines at a rate of their own.
        kind: "nominal", or "ordinal" where the order of classes means something: that of ``classes``, else
            that of labels as numbers.
        gold: series or mapping from item id to known class, for some or all items.
        features: DataFrame by item id, or array (N, ...) or torch Dataset whose rows belong to ``items``; a dataset
            stays where it is, and rows are read when a network looks at them.
        items, annotators: ids that are there even without labels; a ``Codebook`` fixes all of them.
        item_covariates, annotator_covariates: DataFrames by id; stories read them by the functions of these names.
        history: pseudo-counts from earlier work, to be added to a prior: mapping from annotator id to a
            (K, K) matrix [truth, label], or (A, K, K) in codebook order.
        repeats: what to do where an annotator labels an item again: "keep" (all count), "first" or "last"
            (one does), each with a warning that counts them; "error".
        like: annotations whose annotators, classes and answers have the same codes here; others are refused.
        grow: whether annotators unknown to ``like`` are appended instead.
    """

    classes: Iterable[Any] | None
    abstentions: Iterable[Any]
    informative_abstentions: bool
    kind: str
    gold: Any
    features: Any
    items: Iterable[Any] | None
    annotators: Iterable[Any] | Codebook | None
    item_covariates: pd.DataFrame | None
    annotator_covariates: pd.DataFrame | None
    history: Any
    repeats: Literal["keep", "error", "first", "last"]
    like: KnownIds | None
    grow: bool


def check_options(options: Options) -> None:
    """Refuses options that there are not.

    Raises:
        TypeError: for a name, as for any keyword that a function does not take.
        DataError: for a way to treat repeats.
    """
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise TypeError(
            f"{unknown[0]!r} is no option of annotations; there are {', '.join(Options.__annotations__)}"
        )
    repeats = options.get("repeats", "keep")
    if repeats not in REPEATS:
        raise DataError(f"repeats={repeats!r} is none of {', '.join(map(repr, REPEATS))}")


@dataclass(frozen=True)
class Coded:
    """Rows of codes, with what the codes mean."""

    items: Codebook
    annotators: Codebook
    alphabet: LabelSet
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


def _answers(rows: Rows, options: Options) -> tuple[LabelSet, np.ndarray | None]:
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
        alphabet = read_label_set(labels, classes, away, options.get("kind", "nominal"), informative)
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


CLOSE = 0.8
"""Similarity of two spellings, from 0 to 1, from which on one may be meant for the other."""
ZEROS = (re.compile(r"\n(?:\+|-?0[0-9])"), re.compile(r"\.0*\n"))
"""Marks of whole numbers that could be written shorter, in lines of ids."""


def spelling_warnings(coded: Coded, options: Options) -> list[CrowdpplWarning]:
    """What to say of items, annotators and labels that differ in spelling alone: at most one warning of each.

    Books that are given as such and classes that are listed are as their owner wants them, and are passed over.

    Args:
        coded: rows of codes, with what the codes mean.
        options: what was said about them.
    """
    new, named = options.get("like") is None, isinstance(options.get("annotators"), Codebook)
    looked_at = {
        "items": not isinstance(options.get("items"), Codebook),
        "annotators": options.get("grow", False) or (new and not named),
        "labels": new and options.get("classes") is None,
    }
    books = {"items": coded.items, "annotators": coded.annotators, "labels": coded.alphabet.book}
    found = [_warning(kind, book) for kind, book in books.items() if looked_at[kind]]
    if looked_at["labels"] and coded.answer is not None and len(coded.alphabet.book) > coded.alphabet.n_classes:
        found.append(_misspelt(coded.alphabet, np.bincount(coded.answer, minlength=len(coded.alphabet.book))))
    return [warning for warning in found if warning is not None]


def _misspelt(alphabet: LabelSet, given: np.ndarray) -> CrowdpplWarning | None:
    """Of an abstention that nobody gave, where a label is nearly spelled so and counts as a class.

    Args:
        alphabet: classes and abstentions.
        given: how often each was given.
    """
    names = [str(plain(name)) for name in alphabet.book.ids]
    classes = [names[code] for code in np.flatnonzero(given[: alphabet.n_classes])]
    for name in [name for name, n in zip(names, given, strict=True) if not n and name not in classes]:
        for near in get_close_matches(name, classes, 1, CLOSE):
            return CrowdpplWarning(
                f"nobody abstained by {name!r}, and {near!r} counts as a class; name it in abstentions= as it is "
                "spelled in the labels, or list the classes in classes= if it is one"
            )
    return None


def _warning(kind: str, book: Codebook) -> CrowdpplWarning | None:
    if kind == "labels":
        # Abstentions may be text where classes are numbers.
        texts = [text for text in book.ids if isinstance(text, str)]
        bare = list(map(bare_of, texts))
    elif is_text(book.ids):
        texts = book.ids.tolist()
        bare = _bare_ids(texts)
    else:
        return None
    if bare == texts or len(set(bare)) == len(bare):
        return None
    times = Counter(bare)
    alike = [position for position, one in enumerate(bare) if times[one] > 1]
    pair = [texts[position] for position in alike if bare[position] == bare[alike[0]]][:2]
    # Accents look alike in either Unicode form, so that the message spells them out.
    one, other = map(ascii if len({composed(text) for text in pair}) == 1 else repr, pair)
    unless = "or list all in classes=" if kind == "labels" else "or go on"
    return CrowdpplWarning(
        f"{len(alike)} of {len(book)} {kind} differ from another in blanks, zeros, case or Unicode form alone, "
        f"such as {one} and {other}, and count as {kind} of their own; spell each in one way, {unless} if they are "
        "meant to differ"
    )


def _bare_ids(texts: list[str]) -> list[str]:
    """Ids without blanks around them, in one Unicode form and case, and whole numbers without zeros.

    Zeros of decimals may tell ids apart: 1.1 and 1.10 number parts of something.
    """
    # All ids are searched as one text, which takes a tenth of the time of a look at each. Whole numbers of one
    # width, as 0001 to 9999, are each spelled once.
    bare = _each(composed, list(map(str.strip, texts)))
    lines = "\n".join(["", *bare, ""])
    if any(mark.search(lines) for mark in ZEROS) and not (
        len(set(map(len, bare))) == 1 and "".join(bare).isdecimal()
    ):
        bare = list(map(_whole, bare))
    return _in_one_case(bare)


def _in_one_case(texts: list[str]) -> list[str]:
    """Ids in lower case where case is that of a word: in Ann, ann and ANN, not in dQw4w9WgXcQ, nor in one letter.

    Other capitals may tell ids apart, as in base64; where most that differ in case have them, case does for all.
    """
    folded = _each(str.casefold, texts)
    if folded is texts or len(set(folded)) == len(texts):
        return texts
    low = dict(zip(texts, folded, strict=True))
    twice = pd.Index(list(low.values())).duplicated(keep=False)
    alike = [text for text, again in zip(low, twice.tolist(), strict=True) if again]
    words = {text: low[text] for text in alike if _a_word(text)}
    return [words.get(text, text) for text in texts] if 2 * len(words) > len(alike) else texts


def _a_word(text: str) -> bool:
    return len(text) > 1 and text in (text.lower(), text.upper(), text.capitalize(), text.title())


def _each(change: Callable[[str], str], texts: list[str]) -> list[str]:
    """Every text changed, all as one, by a change that looks at no letter beyond a line's end."""
    lines = "\n".join(texts)
    changed = change(lines)
    if changed == lines:
        return texts
    parts = changed.split("\n")
    return parts if len(parts) == len(texts) else list(map(change, texts))


def _whole(text: str) -> str:
    if text.isdecimal():
        return text.lstrip("0") or "0"
    head, _, decimals = text.partition(".")
    digits = head.lstrip("+-")
    if decimals.strip("0") or not digits.isdecimal():
        return text
    return ("-" if head[0] == "-" else "") + (digits.lstrip("0") or "0")


class Parts(TypedDict):
    """What annotations are made of."""

    item_book: Codebook
    annotator_book: Codebook
    alphabet: LabelSet
    blocks: list[Block]
    order: np.ndarray
    gold_codes: np.ndarray | None
    features: pd.DataFrame | np.ndarray | StoredFeatures | None
    item_covariates: pd.DataFrame | None
    annotator_covariates: pd.DataFrame | None
    columns: pd.DataFrame | None
    warnings: tuple[CrowdpplWarning, ...]


def assemble(rows: Rows, options: Options) -> Parts:
    """Codes, checks and sorts labels.

    Args:
        rows: the labels.
        options: what else is said about them.

    Raises:
        DataError: for everything that is refused, with value, place and remedy.
        TypeError: for an unknown option.
    """
    check_options(options)
    like = options.get("like")
    coded = code_rows(rows, options)
    n_answers = len(coded.alphabet.book)
    check_tables(len(coded.annotators), coded.alphabet.n_classes, n_answers)
    answer = coded.answer
    coded, columns, order, blocks, warnings = _sort(coded, rows, options.get("repeats", "keep"))
    gold = gold_codes(options.get("gold"), coded.items, coded.alphabet)
    history = history_table(options.get("history"), coded.annotators, coded.alphabet.n_classes)
    warnings += spelling_warnings(coded, options)
    counts = cell_counts(blocks)
    if answer is not None and like is None:
        warnings += find_warnings(blocks, coded.annotators, counts)
        if options.get("classes") is None:
            warnings += unused_warning(counts, answer, coded.alphabet)
    may = _abstainers(coded, counts, like)
    shared = [None if table is None else torch.from_numpy(table) for table in (history, may)]
    tells = coded.alphabet.informative
    blocks = [replace(block, history=shared[0], abstainers=shared[1], informative=tells) for block in blocks]
    of_items = covariate_table(options.get("item_covariates"), coded.items)
    of_annotators = covariate_table(options.get("annotator_covariates"), coded.annotators)
    return Parts(
        item_book=coded.items,
        annotator_book=coded.annotators,
        alphabet=coded.alphabet,
        blocks=with_covariates([with_known(b, order, gold) for b in blocks], order, of_items, of_annotators),
        order=order,
        gold_codes=gold,
        features=feature_table(options.get("features"), options.get("items"), coded.items),
        item_covariates=of_items,
        annotator_covariates=of_annotators,
        columns=columns,
        warnings=tuple(warnings),
    )


def _sort(
    coded: Coded, rows: Rows, repeats: str
) -> tuple[Coded, pd.DataFrame | None, np.ndarray, list[Block], list[CrowdpplWarning]]:
    """Blocks, after what is to happen to repeats has happened, and further columns in codebook order."""
    warnings: list[CrowdpplWarning] = []
    columns = rows.columns
    order, blocks = coded.blocks()
    extra = count_repeats(blocks)
    if extra and repeats == "error":
        refuse_repeat(coded.item, coded.annotator, (coded.items, coded.annotators), rows.place)
    if extra and coded.answer is not None:
        warnings.append(repeats_warning(extra, len(coded.item), repeats))
    if extra and repeats != "keep":
        pair = coded.item.astype(np.int64) * len(coded.annotators) + coded.annotator
        last = repeats == "last"
        kept = np.flatnonzero(~pd.Index(pair).duplicated(keep="last" if last else "first"))
        coded, columns = coded.rows(kept), None if columns is None else columns.iloc[kept]
        order, blocks = coded.blocks()
    if columns is not None:
        keys = (
            [coded.annotator, coded.item] if coded.answer is None else [coded.answer, coded.annotator, coded.item]
        )
        columns = columns.iloc[np.lexsort(keys)].reset_index(drop=True)
    return coded, columns, order, blocks, warnings


def _abstainers(coded: Coded, counts: np.ndarray, like: KnownIds | None) -> np.ndarray | None:
    """Who may abstain: those who did here or in ``like``; in a design, everyone."""
    k = coded.alphabet.n_classes
    if counts.shape[1] == k:
        return None
    always = coded.answer is None and like is None
    may: np.ndarray = np.asarray(counts[:, k:].any(1)) & (coded.answer is not None) | always
    if like is not None and like.abstainers is not None:
        may[: len(like.abstainers)] |= like.abstainers
    return may


def with_known(block: Block, order: np.ndarray, gold: np.ndarray | None) -> Block:
    """A block with the known classes of its items.

    Args:
        block: the block.
        order: the item code at each position.
        gold: (N,) in codebook order, -1 where a class is not known; None without gold.
    """
    mine = order[block.offset : block.offset + block.n_items]
    return replace(block, gold=None if gold is None else torch.from_numpy(gold[mine].astype(np.int64)))


def with_covariates(
    blocks: Sequence[Block], order: np.ndarray, of_items: pd.DataFrame | None, of_annotators: pd.DataFrame | None
) -> list[Block]:
    """Blocks with the covariates of their items, and of all annotators, as stories read them.

    Args:
        blocks: all of the data.
        order: the item code at each position.
        of_items, of_annotators: tables in codebook order, or None.
    """
    if of_items is None and of_annotators is None:
        return list(blocks)
    items, annotators = (
        CovariateColumns.of(of_items, "item", order),
        CovariateColumns.of(of_annotators, "annotator"),
    )

    def of_block(block: Block) -> CovariateColumns | None:
        at = torch.arange(block.offset, block.offset + block.n_items)
        return None if items is None else items.at(at)

    return [replace(block, item_covariates=of_block(block), annotator_covariates=annotators) for block in blocks]


def feature_tensor(data: Annotations) -> Features | None:
    """Features in codebook order, float32 (N, ...); None where the data have none."""
    given = require_data(data).features
    if given is None or isinstance(given, StoredFeatures):
        return given
    return torch.from_numpy(np.array(numbers_of(given), np.float32))


def placed_features(data: Annotations) -> Features | None:
    """Features by position, as blocks hold items; None where the data have none."""
    found = feature_tensor(data)
    return None if found is None else rows_taken(found, torch.from_numpy(data.order.astype(np.int64)))


@dataclass(frozen=True, eq=False, repr=False)
class Annotations:
    """Labels that annotators gave to items, coded, checked and held as blocks of items.

    ``read_annotations`` and the constructors below make them, told ``crowdppl.data.annotations.Options`` (classes,
    gold, features, history, ...). They refuse with a ``DataError`` that gives value, row and remedy, and warn by
    the classes of ``crowdppl.errors``. A story of plain Pyro may be given them as its data.

    Attributes:
        item_book, annotator_book: ids and their codes, N and A of them.
        alphabet: classes (K), then abstentions: together the answers (L).
        blocks: the labels; about 9 bytes each.
        order: int32 (N,), the item code at each position of the blocks.
        gold_codes: (N,), the known class of each item or -1; None without gold.
        features: DataFrame, array or ``StoredFeatures`` in codebook order of the items, or None.
        item_covariates, annotator_covariates: DataFrames in codebook order, or None.
        columns: further columns of the rows, in the order of ``frame()``, or None.
        warnings: what was warned of.

    Examples:
        >>> dicts = crowdppl.Annotations.from_dicts({"ann": {"x": 1, "y": 2}, "bob": {"x": 1, "y": 2}})
        >>> frame = crowdppl.Annotations.from_frame(dicts.frame())
        >>> arrays = crowdppl.Annotations.from_arrays(["x", "x", "y", "y"], ["ann", "bob"] * 2, [1, 1, 2, 2])
        >>> crowdppl.Annotations.from_matrix([[1, 1], [2, 2]], items=["x", "y"], annotators=["ann", "bob"])
        Annotations(2 items, 2 annotators, 2 classes, 4 labels)
    """

    item_book: Codebook
    annotator_book: Codebook
    alphabet: LabelSet
    blocks: list[Block]
    order: np.ndarray
    gold_codes: np.ndarray | None = None
    features: pd.DataFrame | np.ndarray | StoredFeatures | None = None
    item_covariates: pd.DataFrame | None = None
    annotator_covariates: pd.DataFrame | None = None
    columns: pd.DataFrame | None = None
    warnings: tuple[CrowdpplWarning, ...] = ()

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        item: Hashable | None = None,
        annotator: Hashable | None = None,
        label: Hashable | None = None,
        *,
        wide: bool = False,
        **options: Unpack[Options],
    ) -> Annotations:
        """Reads a table with one label a row, or with a row an item and a column an annotator.

        Args:
            frame: the table; further columns of a long one travel with its rows.
            item, annotator, label: columns, where they are not recognised by name.
            wide: whether columns are annotators; items are the index, unless ``item`` is given or recognised. An
                empty cell, or one of blanks, is no label; a row of a long table without a label is refused.
        """
        given = {"item": item, "annotator": annotator, "label": label}
        if wide:
            return cls.of_rows(rows_of_wide(frame, given), options)
        return cls.of_rows(rows_of_frame(frame, given, "the table"), options)

    @classmethod
    def from_arrays(cls, item: Any, annotator: Any, label: Any, **options: Unpack[Options]) -> Annotations:
        """Reads three arrays, tensors or lists of one length: item ids, annotator ids, labels."""
        return cls.of_rows(Rows(item, annotator, label), options)

    @classmethod
    def from_matrix(cls, matrix: Any, missing: Any = None, **options: Unpack[Options]) -> Annotations:
        """Reads a matrix (N, A) of labels: an array, a tensor, or a DataFrame, which names items and annotators.

        Args:
            missing: what, besides a mask, means that there is no label; by default NaN among floats, -1 among
                whole numbers, and a text that is empty or of blanks.
            options: ``items`` and ``annotators`` name rows and columns, also in place of a DataFrame's own names.
        """
        rows = rows_of_matrix(matrix, missing, options.get("items"), options.get("annotators"))
        return cls.of_rows(rows, options)

    @classmethod
    def from_dicts(cls, dicts: Mapping[Any, Mapping[Any, Any]], **options: Unpack[Options]) -> Annotations:
        """Reads ``{annotator: {item: label}}``."""
        return cls.of_rows(rows_of_dicts(dicts), options)

    @classmethod
    def design(cls, item: Any, annotator: Any, **options: Unpack[Options]) -> Annotations:
        """Who is to label what, without labels: for simulation; needs ``classes`` or ``like``."""
        return cls.of_rows(Rows(item, annotator, None), options)

    @classmethod
    def of_rows(cls, rows: Rows, options: Options) -> Annotations:
        """Builds annotations from rows that were read already, and warns of what was found."""
        parts = assemble(rows, options)
        for warning in parts["warnings"]:
            warn(warning)
        return cls(**parts)

    @property
    def n_items(self) -> int:
        """N, items without labels included."""
        return len(self.item_book)

    @property
    def n_annotators(self) -> int:
        """A."""
        return len(self.annotator_book)

    @property
    def n_classes(self) -> int:
        """K, what the truth can be."""
        return self.alphabet.n_classes

    @property
    def n_answers(self) -> int:
        """L, what an annotator can say: the classes and the abstentions."""
        return len(self.alphabet.book)

    @property
    def n_labels(self) -> int:
        """S, rows; an abstention is one."""
        return sum(block.n_labels for block in self.blocks)

    @property
    def items(self) -> pd.Index[Any]:
        """Item ids in codebook order."""
        return self.item_book.ids.rename("item")

    @property
    def annotators(self) -> pd.Index[Any]:
        """Annotator ids in codebook order."""
        return self.annotator_book.ids.rename("annotator")

    @property
    def classes(self) -> pd.Index[Any]:
        """Classes in their order."""
        return self.alphabet.classes.ids.rename("class")

    @property
    def answers(self) -> pd.Index[Any]:
        """Classes, then abstentions."""
        return self.alphabet.book.ids.rename("answer")

    @property
    def kind(self) -> str:
        """ "nominal" or "ordinal"."""
        return self.alphabet.kind

    @property
    def gold(self) -> pd.Series[Any] | None:
        """Known classes by item id, of the items for which they are known."""
        if self.gold_codes is None:
            return None
        known = np.flatnonzero(self.gold_codes >= 0)
        return pd.Series(self.classes[self.gold_codes[known]], index=self.items[known], name="gold")

    @property
    def abstainers(self) -> np.ndarray | None:
        """Annotators who may abstain, bool (A,); None where no abstention is named."""
        return None if (may := self.blocks[0].abstainers) is None else may.numpy()

    def frame(self) -> pd.DataFrame:
        """All rows: item, annotator, label (unless a design) and further columns, in codebook order."""
        item, annotator, answer = self.label_codes()
        columns: dict[str, Any] = {"item": self.items[item], "annotator": self.annotators[annotator]}
        if self.blocks[0].has_labels:
            columns["label"] = self.answers[answer]
        rows = pd.DataFrame(columns)
        return rows if self.columns is None else pd.concat([rows, self.columns], axis=1)

    def label_codes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Item, annotator and answer code of each label, each int32 (S,), in the order of ``frame()``."""
        item, cell = row_codes(self.blocks, self.order)
        annotator, answer = np.divmod(cell, np.int32(self.n_answers))
        return item, annotator, answer

    def votes(self) -> np.ndarray:
        """How often each item was given each class, float64 (N, K) in codebook order."""
        return count_votes(self.blocks, self.order)

    def on(self, device: str | torch.device, dtype: torch.dtype) -> list[Block]:
        """Fresh blocks for one fit, on a device and in a precision."""
        return [block.to(device, dtype) for block in self.blocks]

    def as_block(self) -> Block:
        """All items as one block, built once."""
        return self._whole

    def answered(self, cells: Sequence[Tensor]) -> Annotations:
        """The same design with other labels: for each block the int32 cells that ``annotate`` returned."""
        blocks, columns = answer_again(self.blocks, self.order, cells, self.columns)
        return replace(self, blocks=blocks, columns=columns)

    def with_gold(self, gold: Any) -> Annotations:
        """The same with other known truths, a series or mapping by item id, or None; DataError if not of these."""
        codes = gold_codes(gold, self.item_book, self.alphabet)
        return replace(
            self, gold_codes=codes, blocks=[with_known(block, self.order, codes) for block in self.blocks]
        )

    def summary(self) -> dict[str, Any]:
        """Counts and warnings, ready for JSON."""
        return summarise(self.blocks, self.alphabet, self.gold_codes, self.warnings)

    @cached_property
    def _whole(self) -> Block:
        return replace(join(self.blocks), features=placed_features(self))

    def __getattr__(self, name: str) -> Any:
        # What a story asks of its data is answered by one block of all items.
        if name in _SHARED:
            return getattr(self.blocks[0], name)
        if name.startswith("_") or not (hasattr(Block, name) or name in _FIELDS):
            raise AttributeError(f"annotations have no attribute {name!r}")
        return getattr(self.as_block(), name)

    def __repr__(self) -> str:
        what = "labels" if self.blocks[0].has_labels else "labels to be drawn"
        sizes = f"{self.n_items} items, {self.n_annotators} annotators, {self.n_classes} classes"
        return f"Annotations({sizes}, {self.n_labels} {what})"


# What is the same in every block, so that none has to be built of everything.
_SHARED = frozenset(["history", "scale", "has_labels", "dtype", "device"])
_FIELDS = frozenset(field.name for field in fields(Block))


def row_codes(blocks: Sequence[Block], order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Item and cell (annotator * L + answer) of each label, int32 (S,), sorted by item and cell."""
    item = np.repeat(order, np.concatenate([row_sizes(block) for block in blocks]))
    cell = np.concatenate([block.bags.cells.cpu().numpy() for block in blocks])
    by_item = np.argsort(item, kind="stable")
    return item[by_item], cell[by_item]


def has_informative_label(block: Block) -> np.ndarray:
    """Items with a label that tells of their truth, bool (n_items,); to decline tells only where data say so."""
    telling = block.item if block.informative else block.item[block.named]
    return (torch.bincount(telling, minlength=block.n_items) > 0).cpu().numpy()


def row_sizes(block: Block) -> np.ndarray:
    """Labels of each item of a block, int64 (n_items,)."""
    assert block.bags.row_starts is not None, "a block's rows are items"
    return np.diff(block.bags.row_starts.cpu().numpy(), append=block.n_labels).astype(np.int64)


def count_votes(blocks: Sequence[Block], order: np.ndarray) -> np.ndarray:
    """How often each item was given each class, float64 (N, K) in codebook order."""
    first = blocks[0]
    votes = np.zeros((len(order), first.n_classes))
    for block in blocks:
        answer = block.bags.cells.cpu().numpy() % np.int32(first.n_answers)
        item = np.repeat(np.arange(block.n_items), row_sizes(block))
        shape = (block.n_items, first.n_answers)
        counts = np.bincount(item * first.n_answers + answer, minlength=shape[0] * shape[1]).reshape(shape)
        votes[order[block.offset : block.offset + block.n_items]] = counts[:, : first.n_classes]
    return votes


def join(blocks: Sequence[Block]) -> Block:
    """One block of all items, in the order of the blocks."""
    if len(blocks) == 1:
        return replace(blocks[0])
    first = blocks[0]
    row = np.repeat(np.arange(sum(b.n_items for b in blocks)), np.concatenate([row_sizes(b) for b in blocks]))
    cell = torch.cat([block.bags.cells for block in blocks]).cpu().numpy()
    bags = RaggedIndex.of_pairs(row, cell, sum(b.n_items for b in blocks), first.bags.n_cells).to(first.device)
    known: dict[str, Any] = {}
    for name in ("gold", "evidence", "features"):
        parts = [getattr(b, name) for b in blocks]
        known[name] = None if parts[0] is None else torch.cat(parts)
    known["item_covariates"] = CovariateColumns.joined(block.item_covariates for block in blocks)
    seen = [block.seen for block in blocks if block.seen is not None]
    known["seen"] = {name: torch.cat([x[name] for x in seen]) for name in seen[0]} if seen else None
    return replace(first, bags=bags, entries=None, **known)


def answer_again(
    blocks: Sequence[Block], order: np.ndarray, cells: Sequence[Tensor], columns: pd.DataFrame | None
) -> tuple[list[Block], pd.DataFrame | None]:
    """The same designs with other labels, and the further columns of their rows.

    Labels of an item are sorted, so that those of an annotator who labels it twice may trade places, and
    their columns with them.

    Args:
        blocks: the designs.
        order: the item code at each position.
        cells: for each block int32 (S,), as ``crowdppl.primitives.annotate`` draws them.
        columns: in codebook order, or None.
    """
    drawn = [cell.cpu().to(torch.int32) for cell in cells]
    again = [block.answered(cell) for block, cell in zip(blocks, drawn, strict=True)]
    if columns is None:
        return again, None
    item = np.repeat(order, np.concatenate([row_sizes(block) for block in blocks]))
    by_item = np.argsort(item, kind="stable")
    trade = np.lexsort([torch.cat(drawn).numpy()[by_item], item[by_item]])
    return again, columns.iloc[trade].reset_index(drop=True)


def summarise(
    blocks: Sequence[Block],
    alphabet: LabelSet,
    gold_codes: np.ndarray | None,
    warnings: Sequence[CrowdpplWarning],
) -> dict[str, Any]:
    """Counts of items, annotators, labels and classes, and what was warned of, ready for JSON."""
    counts = cell_counts(blocks)
    per_item = np.concatenate([row_sizes(block) for block in blocks])
    k = alphabet.n_classes
    answers = [str(plain(answer)) for answer in alphabet.book.ids]
    observed = blocks[0].has_labels
    given = dict(zip(answers, counts.sum(0).tolist(), strict=True)) if observed else {}
    return {
        "items": len(per_item),
        "annotators": len(counts),
        "labels": int(counts.sum()),
        "kind": alphabet.kind,
        "classes": answers[:k],
        "abstentions": answers[k:],
        "informative_abstentions": alphabet.informative,
        "labels_by_answer": given,
        "labels_an_item": _spread(per_item),
        "labels_an_annotator": _spread(counts.sum(1)),
        "items_without_labels": int((per_item == 0).sum()),
        "repeats": count_repeats(blocks),
        "gold": 0 if gold_codes is None else int((gold_codes >= 0).sum()),
        "warnings": [f"{type(warning).__name__}: {warning}" for warning in warnings],
    }


def _spread(counts: np.ndarray) -> dict[str, float]:
    return {
        "min": int(counts.min()),
        "median": float(np.median(counts)),
        "mean": round(float(counts.mean()), 3),
        "max": int(counts.max()),
    }


def labels_given(data: Annotations) -> np.ndarray:
    """How many labels each annotator gave, abstentions included: int64 (A,)."""
    return np.asarray(cell_counts(data.blocks).sum(1))


def require_annotations(data: Any, name: str = "data") -> Annotations:
    """The same, when it is annotations.

    Args:
        data: what was given.
        name: of the argument, for the message.

    Raises:
        DataError: for anything else, a DataFrame of labels say.
    """
    if isinstance(data, Annotations):
        return data
    raise no_annotations(data, name)
