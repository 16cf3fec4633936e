"""What is refused and what is warned of once labels are coded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crowdppl.core.validation import shown
from crowdppl.data.blocks import Block, repeats
from crowdppl.data.ids import Codebook, Place, native, texts_of
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.errors import (
    CrowdpplWarning,
    DataError,
    DisconnectedWarning,
    OneClassWarning,
    RepeatsWarning,
    SparseDataWarning,
)


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


def refuse_repeat(item: np.ndarray, annotator: np.ndarray, books: tuple[Codebook, Codebook], place: Place) -> None:
    """Raises on the first pair of item and annotator, codes (S,), that is repeated, with both rows."""
    _, first, inverse = np.unique(item.astype(np.int64) * len(books[1]) + annotator, True, True)
    row = int(np.argmax(first[inverse] != np.arange(len(item))))
    names = [native(book.ids[code[row]]) for book, code in zip(books, (item, annotator), strict=True)]
    raise DataError(
        f"annotator {names[1]!r} labels item {names[0]!r} at {place(int(first[inverse[row]]))} and again at "
        f"{place(row)}; correct one, or use repeats='keep', 'first' or 'last'"
    )


def repeats_warning(extra: int, n_labels: int, repeats: str) -> RepeatsWarning:
    """What to say of ``extra`` labels beyond the first of each pair of item and annotator."""
    copied = (
        "all count as independent; if rows were copied, use repeats='first'; if different items share an id, as "
        "sentences of several documents do, give each its own"
    )
    done = copied if repeats == "keep" else f"only the {repeats} of each counts"
    return RepeatsWarning(
        f"{extra} of {n_labels} labels repeat an annotator's label of the same item; {done} (repeats={repeats!r})"
    )


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
        sets, why = connected_sets(blocks, active), "share no item"
        apart = _disconnected(sets[active], annotators.ids[active], "annotators", why)
    else:
        sets, ids = compared.sets()
        apart = _disconnected(sets, ids, "objects", "no label compares")
    found = [
        _thin(counts.sum(1), annotators, n_classes),
        apart,
        _one_class(counts[:, :n_classes], annotators),
    ]
    return [warning for warning in found if warning is not None]


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
        names = [repr(native(name)) for name in alphabet.classes.ids[which]]
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
        f"{native(annotators.ids[few[0]])!r} with {given[few[0]]}; their estimates rest on the prior"
    )


class Compared(NamedTuple):
    """Objects by name, the code of one (M,) in each comparison or ranking of several, and the code of that (M,)."""

    ids: pd.Index[Any]
    one: np.ndarray
    together: np.ndarray

    def sets(self) -> tuple[np.ndarray, pd.Index[Any]]:
        """The set of each object that is compared at all: those of one set are joined by comparisons."""
        from scipy.sparse import coo_array  # slow to import
        from scipy.sparse.csgraph import connected_components

        n, group = len(self.ids), np.unique(self.together, return_inverse=True)[1]
        size = n + group.max(initial=0) + 1
        joined = coo_array((np.ones(len(self.one), bool), (self.one, n + group)), shape=(size, size))
        here = np.unique(self.one)
        return connected_components(joined, directed=False)[1][here], self.ids[here]


def _disconnected(sets: np.ndarray, ids: pd.Index[Any], what: str, why: str) -> DisconnectedWarning | None:
    kinds, first, sizes = np.unique(sets, return_index=True, return_counts=True)
    if len(kinds) < 2:
        return None
    some = ids[np.sort(first)[:2]]
    listed = ", ".join(map(str, np.sort(sizes)[::-1][:5])) + (", ..." if len(sizes) > 5 else "")
    return DisconnectedWarning(
        f"the {what} fall into {len(kinds)} sets (of {listed}) that {why}, such as those of "
        f"{native(some[0])!r} and {native(some[1])!r}; across sets, the prior alone compares them"
    )


def connected_sets(blocks: Sequence[Block], active: np.ndarray) -> np.ndarray:
    """The set of each annotator, (A,): those of one set, ``active`` with labels, are joined by shared items."""
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    n = len(active)
    sets: np.ndarray = np.arange(n)
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
        f"in all of {counts[one].sum()} labels; their labels do not distinguish the classes"
    )


def require_labels(blocks: Sequence[Block]) -> None:
    """Refuses a design, which has no labels."""
    if not blocks[0].has_labels:
        n = sum(block.n_labels for block in blocks)
        raise DataError(
            f"these annotations are a design of {n} labels to be drawn: use crowdppl.simulate, or give "
            "annotations with labels"
        )


def require_one_of(name: str, value: object, known: Sequence[str]) -> None:
    """Refuses what is none of some names, whatever its type."""
    if not isinstance(value, str) or value not in known:
        raise DataError(f"{name}={shown(value)} is none of {', '.join(map(repr, known))}")
