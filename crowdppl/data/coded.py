"""Rows of labels as codes and blocks, with what is refused and what is warned of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crowdppl.data.blocks import Block, row_sizes
from crowdppl.data.ids import Codebook, Encoding, Place, encode, native, refuse_missing_text, texts_of
from crowdppl.data.kinds.classes import require_categories
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.data.kinds.parts import Parts
from crowdppl.data.kinds.sequences import beginnings_warning, edges_between
from crowdppl.data.options import AnnotationOptions, said_kind
from crowdppl.data.ragged import RaggedIndex, sorted_pairs
from crowdppl.data.tables import Rows
from crowdppl.errors import (
    CrowdpplWarning,
    DataError,
    DisconnectedWarning,
    OneClassWarning,
    SparseDataWarning,
)

BLOCK_LABELS = 500_000
"""Labels a block: few enough for the cache, enough to make the cost of tracing a model negligible."""


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

    def sorted_columns(self, columns: pd.DataFrame | None, kept: np.ndarray | None) -> pd.DataFrame | None:
        """Further columns of the rows that were ``kept``, None for all, in the order of ``by_code``."""
        if columns is None:
            return None
        return (columns if kept is None else columns.iloc[kept]).iloc[self.by_code].reset_index(drop=True)


def code_rows(rows: Rows, options: AnnotationOptions) -> Coded:
    """Codes the three columns; DataError for what is missing, mixed or unknown, and labels that are no classes."""
    like, features = options.get("like"), options.get("features")
    alphabet, answer = said_kind(options).answers(rows, options)
    known = [options.get("items"), features.index if isinstance(features, pd.DataFrame) else None]
    items, item = code_ids("item", rows.item, rows, rows.items, known)
    known = [options.get("annotators")]
    if like is not None:
        known.insert(0, like.annotator_book)
    grow = like is not None and options.get("grow", False)
    annotators, annotator = code_ids("annotator", rows.annotator, rows, rows.annotators, known, grow)
    check_tables(len(annotators), len(alphabet.book))
    said = any(options.get(name) is not None for name in ("kind", "classes", "like"))
    if answer is not None and not said and not isinstance(getattr(rows.label, "dtype", None), pd.CategoricalDtype):
        require_categories(alphabet.book.ids[: alphabet.n_classes], item, answer, rows.place)
    return Coded(items, annotators, alphabet, item, annotator, answer)


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
    pooled: bool = False,
) -> list[CrowdpplWarning]:
    """What users should know of their data: ids that look alike, and labels too few to learn from.

    Where labels are ``pooled``, that one annotator gave them is no news; nor is, of comparisons, that all name one
    side.
    """
    like, classes = options.get("like"), options.get("classes")
    found: list[CrowdpplWarning | None] = []
    if not isinstance(options.get("items"), Codebook):
        found.append(spelling_warning("items", coded.items.ids))
    if not isinstance(options.get("annotators"), Codebook) and (like is None or options.get("grow")):
        found.append(spelling_warning("annotators", coded.annotators.ids))
    if like is None and classes is None:
        found.append(spelling_warning("labels", coded.alphabet.book.ids))
    if like is None and coded.answer is not None:
        parts, compared = coded.alphabet.kind.parts, None
        if parts is not None and parts.objects is not None and of_items is not None:
            compared = Compared.of(parts, of_items, coded.item, coded.annotator, len(coded.annotators))
        found += find_warnings(blocks, coded.annotators, counts, compared)
        sides = parts is not None and parts.ranks
        known = (*([SparseDataWarning] if pooled else []), *([OneClassWarning] if sides else []))
        found = [x for x in found if not isinstance(x, known)]
        found += unused_warning(counts, coded.answer, coded.alphabet) if classes is None else []
        if units is not None and parts is not None and parts.ordered:
            codes = (coded.item, coded.annotator, coded.answer)
            found.append(beginnings_warning(coded.alphabet.classes.ids, units, *codes))
    return [warning for warning in found if warning is not None]


def build_blocks(
    item: np.ndarray,
    annotator: np.ndarray,
    answer: np.ndarray | None,
    *,
    n_items: int,
    n_annotators: int,
    n_classes: int,
    n_answers: int,
    block_labels: int | None = None,
    units: np.ndarray | None = None,
) -> tuple[np.ndarray, list[Block]]:
    """Sorts labels, codes (S,) each, into blocks of items; ``answer=None`` makes a design without labels.

    Items have one fixed pseudo-random order that depends on their number alone, whatever the order of the rows;
    within an item, labels are sorted by (annotator, answer). Sequences, of ``units`` (N, 2) as of ``units_of``,
    have such an order, too, and stay whole. Blocks have about ``block_labels``, by default 500,000, more where
    tables are larger.

    Returns ``order`` int32 (N,), the item code at each position, and the blocks, at least one.
    """
    order = np.random.default_rng(0).permutation(n_items).astype(np.int32)
    if units is not None:
        turn = np.random.default_rng(0).permutation(n_items)[units[:, 0]]
        order = np.lexsort((units[:, 1], turn)).astype(np.int32)
    position = np.empty(n_items, np.int32)
    position[order] = np.arange(n_items, dtype=np.int32)
    n_cells = n_annotators * n_answers
    cell = annotator.astype(np.int32) * np.int32(n_answers)
    if answer is not None:
        cell += answer.astype(np.int32, copy=False)
    whole = sorted_pairs(position[item], cell, n_items, n_cells)
    size = block_labels or max(BLOCK_LABELS, 4 * n_cells)
    n_blocks = max(1, min(-(-len(item) // size), n_items))
    edges = np.linspace(0, n_items, n_blocks + 1).round().astype(np.int64).tolist()
    edges = edges if units is None or not n_items else edges_between(edges, units[order, 0])
    sizes, has_labels = (n_annotators, n_classes, n_answers), answer is not None
    bags = [(RaggedIndex.of_matrix(whole[first:last]), first) for first, last in pairwise(edges)]
    return order, [Block(some, *sizes, first, has_labels=has_labels) for some, first in bags]


def check_tables(n_annotators: int, n_answers: int) -> None:
    """Refuses tables of A * L rows beyond 2**31; what their numbers take, a method says."""
    if n_annotators * n_answers >= 2**31:
        raise DataError(
            f"{n_annotators} annotators and {n_answers} answers need {n_annotators * n_answers} table rows, and "
            "2**31 is the limit; merge rare classes, leave out annotators of few labels, or give alike annotators "
            "one id"
        )


def cell_counts(blocks: Sequence[Block]) -> np.ndarray:
    """How often each annotator gave each answer, (A, L)."""
    first = blocks[0]
    counts = np.zeros(first.n_annotators * first.n_answers, np.int64)
    for block in blocks:
        counts += np.bincount(block.bags.cells.numpy(), minlength=len(counts))
    return counts.reshape(first.n_annotators, first.n_answers)


def spelling_warning(kind: str, ids: pd.Index[Any]) -> CrowdpplWarning | None:
    """What to say of "items", "annotators" or "labels" that differ in case, blanks or Unicode form alone."""
    texts = texts_of(ids)
    if texts.empty:
        return None
    bare = texts.str.strip().str.lower()
    if bare.str.contains(r"[^\x00-\x7f]").any():  # letters and their accents are one sign or two
        bare = bare.str.normalize("NFKC")
    if bare.equals(texts):  # no two are the same
        return None
    alike = texts[bare.duplicated(keep=False)]
    if alike.empty:
        return None
    one, other = alike[bare[alike.index] == bare[alike.index[0]]].iloc[:2]
    return CrowdpplWarning(
        f"{len(alike)} of {len(ids)} {kind} differ from another in case or blanks (or Unicode form) alone, such as "
        f"{one!r} and {other!r}, and count as different {kind}; spell each in one way, if they are meant to be the "
        "same"
    )


def find_warnings(
    blocks: Sequence[Block], annotators: Codebook, counts: np.ndarray, compared: Compared | None = None
) -> list[CrowdpplWarning]:
    """Warnings of few labels, of what no label connects, of annotators who give one class; of counts (A, L).

    Annotators who compare the same objects are connected by these, also where they share no pair of them.
    """
    n_classes, active = blocks[0].n_classes, counts.sum(1) > 0
    if compared is None:
        return warnings_of_counts(counts, annotators, n_classes, connected_sets(blocks, active))
    here = np.unique(compared.one)
    apart = disconnected(compared.joined(np.arange(len(compared.ids)))[here], compared.ids[here])
    return warnings_of_counts(counts, annotators, n_classes, None, apart)


def warnings_of_counts(
    counts: np.ndarray,
    annotators: Codebook,
    n_classes: int,
    sets: np.ndarray | None,
    apart: CrowdpplWarning | None = None,
) -> list[CrowdpplWarning]:
    """Warnings of counts (A, L), and of the sets of annotators that share items, as of ``connected_sets``."""
    active = counts.sum(1) > 0
    if sets is not None:
        apart = _disconnected(sets[active], annotators.ids[active], "annotators", "share no item")
    thin, same = _thin(counts.sum(1), annotators, n_classes), _one_class(counts[:, :n_classes], annotators)
    return [warning for warning in (thin, apart, same) if warning is not None]


def unused_warning(counts: np.ndarray, answer: np.ndarray, alphabet: LabelSet) -> list[SparseDataWarning]:
    """Warnings of classes without labels that nobody listed: unused categories, or those of repeats left out.

    Of counts (A, L), and the answer of each label before repeats were left out.
    """
    k = alphabet.n_classes
    unused = counts[:, :k].sum(0) == 0
    named = np.bincount(answer, minlength=counts.shape[1])[:k] > 0
    found = []
    for which, why, remedy in (
        (unused & named, "only repeats that are left out name them", "keep these repeats"),
        (unused & ~named, "they are unused categories", "use .cat.remove_unused_categories()"),
    ):
        names = [repr(native(name)) for name in alphabet.book.ids[:k][which]]
        if names:
            several = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            text = (
                f"{len(names)} of {k} classes have no label ({several}): {why}. A method without a prior may give "
                f"items to them; list the classes in classes=, or {remedy}"
            )
            found.append(SparseDataWarning(text))
    return found


def _thin(given: np.ndarray, annotators: Codebook, n_classes: int) -> SparseDataWarning | None:
    if np.count_nonzero(given) == 1:
        name = native(annotators.ids[int(given.argmax())])
        return SparseDataWarning(f"all labels are by {name!r}: from one annotator, no accuracy can be estimated")
    few = np.flatnonzero(given < n_classes)
    if not len(few):
        return None
    return SparseDataWarning(
        f"{len(few)} of {len(given)} annotators gave fewer labels than there are classes ({n_classes}), such as "
        f"{native(annotators.ids[few[0]])!r} with {given[few[0]]}. Their labels count, but do not judge them by "
        "their estimates, which rest on the prior"
    )


class Compared(NamedTuple):
    """Objects by name, the code of one (M,) in each comparison or ranking of several, and the code of that (M,)."""

    ids: pd.Index[Any]
    one: np.ndarray
    together: np.ndarray

    @classmethod
    def of(
        cls, parts: Parts, of_items: pd.DataFrame, item: np.ndarray, annotator: np.ndarray, n_annotators: int
    ) -> Compared:
        """Those of labels, whose item and annotator are given by code, (S,) each."""
        assert parts.objects is not None, "items name objects"
        one, other = (of_items[part].cat.codes.to_numpy(np.int64)[item] for part in parts.names)
        ids = of_items[parts.objects].cat.categories
        if parts.shared:
            return cls(ids, np.concatenate([one, other]), np.tile(item, 2))
        return cls(ids, other, one * n_annotators + annotator)

    def joined(self, sets: np.ndarray) -> np.ndarray:
        """The set of each object, those of one set joined by comparisons; they may be in ``sets`` already."""
        from scipy.sparse import coo_array  # slow to import
        from scipy.sparse.csgraph import connected_components

        n, group = len(self.ids), np.unique(self.together, return_inverse=True)[1]
        size = n + group.max(initial=0) + 1
        joined = coo_array((np.ones(len(self.one), bool), (sets[self.one], n + group)), shape=(size, size))
        found: np.ndarray = connected_components(joined, directed=False)[1][sets]
        return found


def disconnected(sets: np.ndarray, objects: pd.Index[Any]) -> DisconnectedWarning | None:
    """What to say of objects in several sets, by the set of each."""
    return _disconnected(sets, objects, "objects", "no label compares")


def _disconnected(sets: np.ndarray, ids: pd.Index[Any], what: str, why: str) -> DisconnectedWarning | None:
    kinds, first, sizes = np.unique(sets, return_index=True, return_counts=True)
    if len(kinds) < 2:
        return None
    some = ids[np.sort(first)[:2]]
    listed = ", ".join(map(str, np.sort(sizes)[::-1][:5])) + (", ..." if len(sizes) > 5 else "")
    return DisconnectedWarning(
        f"the {what} fall into {len(kinds)} sets (of {listed}) that {why}, such as those of "
        f"{native(some[0])!r} and {native(some[1])!r}; compare them within a set only, for across sets the prior "
        "alone does"
    )


def connected_sets(blocks: Sequence[Block], active: np.ndarray, sets: np.ndarray | None = None) -> np.ndarray:
    """The set of each annotator, (A,): those of one set, ``active`` with labels, are joined by shared items.

    They may be in ``sets`` already, by other items.
    """
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    n = len(active)
    sets = np.arange(n) if sets is None else sets
    part = max(1_000, 20 * n)  # mostly joins everyone already
    for block in blocks:
        for most in (part, None):
            one, other = repeats(block, most)
            joined = coo_array((np.ones(len(one), bool), (sets[one], sets[other])), shape=(n, n))
            sets = connected_components(joined, directed=False)[1][sets]
            if np.ptp(sets[active]) == 0:
                return sets
    return sets


def _one_class(counts: np.ndarray, annotators: Codebook) -> OneClassWarning | None:
    same = np.flatnonzero((counts.sum(1) > 1) & (np.count_nonzero(counts, 1) == 1))
    if not len(same):
        return None
    one = same[np.argmax(counts[same].sum(1))]
    return OneClassWarning(
        f"{len(same)} of {len(counts)} annotators always give one class, such as {native(annotators.ids[one])!r} "
        f"in all of {counts[one].sum()} labels. If other classes occur in their items, look at these annotators: "
        "such labels tell nothing, and a majority vote counts them in full"
    )


def require_labels(blocks: Sequence[Block]) -> None:
    """Refuses a design, which has no labels."""
    if not blocks[0].has_labels:
        n = sum(block.n_labels for block in blocks)
        raise DataError(
            f"these annotations are a design of {n} labels to be drawn: use crowdppl.simulate, or give "
            "annotations with labels"
        )


def repeats(block: Block, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Annotators of the (first ``most``) labels that follow each other within an item: int32 (pairs,), twice."""
    annotator, within = _in_order(block, most)
    return annotator[:-1][within], annotator[1:][within]


def count_repeats(blocks: Sequence[Block]) -> int:
    """Labels beyond the first that an annotator gave to the same item."""
    found = 0
    for block in blocks:
        annotator, within = _in_order(block, None)
        found += int(np.count_nonzero((annotator[:-1] == annotator[1:]) & within))
    return found


def repeated_labels(blocks: Sequence[Block], order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Item, annotator and class code of labels that name a class and are not the annotator's only one of the item.

    They are found block by block: other labels take no memory.
    """
    found = list[tuple[np.ndarray, np.ndarray, np.ndarray]]()
    for block in blocks:
        cell = block.bags.cells.cpu().numpy()
        row = np.repeat(np.arange(block.n_items), row_sizes(block))
        named = cell % block.n_answers < block.n_classes
        cell, row = cell[named], row[named]
        annotator = cell // block.n_answers
        same = (annotator[1:] == annotator[:-1]) & (row[1:] == row[:-1])
        again = np.append(same, False) | np.append(False, same)
        found.append((order[block.offset + row[again]], annotator[again], cell[again] % block.n_answers))
    item, annotator, label = (np.concatenate(each) for each in zip(*found, strict=True))
    return item, annotator, label


def _in_order(block: Block, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The annotator of each label, int32 (S,), and whether it and the next are of one item, bool (S - 1,)."""
    assert block.bags.row_starts is not None, "a block's rows are items"
    annotator = block.bags.cells.numpy()[:most] // np.int32(block.n_answers)
    within, starts = np.ones(max(0, len(annotator) - 1), bool), block.bags.row_starts.numpy()
    first, last = np.searchsorted(starts, (1, len(annotator)))
    within[starts[first:last] - 1] = False
    return annotator, within
