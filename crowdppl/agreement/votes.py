"""Votes of annotators without repeats, of classes or sets; pairs of annotators; bootstrap samples of items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.devices import require_memory
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.sets import NO_YES, OF_SETS
from crowdppl.data.ragged import runs
from crowdppl.data.tables import EVERYONE
from crowdppl.errors import DataError

EPSILON = 1e-12
"""A chance of disagreement below this is rounding: agreement beyond chance is then not defined."""
MAX_COUNTS = 4_000_000
"""Counts of items in bootstrap samples that are held at once."""
MAX_SAMPLES = 32
"""Bootstrap samples that are computed at once; more are no faster."""
MAX_PAIRS = 250_000
"""Pairs of labels that are held at once; annotators are added until there are so many."""


@dataclass(frozen=True)
class DeduplicatedVotes:
    """Who gave which item which class, one row an item, annotator and class.

    An annotator has one vote an item: of m labels there each is 1/m of it. Abstentions are left out, and so are
    items without any class.

    Attributes:
        item, annotator, answer: codes, (R,), sorted in this order; items are numbered anew.
        share: the part of the vote, (R,).
        n_items, n_annotators, n_classes: N labelled items, A, K.
        items: codes of the labelled items in the annotations, (N,).
    """

    item: np.ndarray
    annotator: np.ndarray
    answer: np.ndarray
    share: np.ndarray
    n_items: int
    n_annotators: int
    n_classes: int
    items: np.ndarray

    @classmethod
    def of(cls, data: Annotations) -> DeduplicatedVotes:
        """The votes of annotations."""
        return cls.of_codes(*data.label_codes(), data.n_annotators, data.n_classes)

    @classmethod
    def of_codes(
        cls, item: np.ndarray, annotator: np.ndarray, answer: np.ndarray, n_annotators: int, n_classes: int
    ) -> DeduplicatedVotes:
        """The votes of labels, codes (S,) each; answers beyond the classes are abstentions."""
        is_class = answer < n_classes
        labelled, item = np.unique(item[is_class], return_inverse=True)
        vote = item.astype(np.int64) * n_annotators + annotator[is_class]
        row, times = np.unique(vote * n_classes + answer[is_class], return_counts=True)
        vote, answer = np.divmod(row, n_classes)
        _, place = np.unique(vote, return_inverse=True)
        share = times / np.bincount(place, times)[place]
        item, annotator = np.divmod(vote, n_annotators)
        return cls(item, annotator, answer, share, len(labelled), n_annotators, n_classes, labelled)

    @property
    def first_rows(self) -> np.ndarray:
        """Where each annotator's vote on an item begins."""
        return np.flatnonzero((np.diff(self.item, prepend=-1) != 0) | (np.diff(self.annotator, prepend=-1) != 0))


def are_unnamed(data: Annotations) -> bool:
    """Whether labels are votes of annotators whom nobody names, each of another."""
    return data.annotators.tolist() == [EVERYONE]


def votes_to_compare(data: Annotations, pairs: bool = False) -> DeduplicatedVotes:
    """The votes of annotations; DataError where they have no classes, or no item two annotators.

    Votes of annotators whom nobody names are each of another, and refused where ``pairs`` of annotators are wanted.
    """
    require_labels_to_compare(data)
    if data.alphabet.kind.numeric:
        raise DataError(
            f"labels of kind {data.kind!r} have no classes, which this table compares; take agreement_table, "
            "agreement_items or agreement_pairs"
        )
    if are_unnamed(data):
        if pairs:
            raise DataError(
                "labels are votes of annotators who have no names, so that no pairs of them are known; take "
                "agreement_table or agreement_items"
            )
        item, _, answer = data.label_codes()
        turn = pd.Series(item).groupby(item).cumcount().to_numpy()
        votes = DeduplicatedVotes.of_codes(item, turn, answer, int(turn.max()) + 1, data.n_classes)
    else:
        votes = DeduplicatedVotes.of(data)
    require_two_annotators(votes.n_items, len(votes.first_rows))
    return votes


def require_labels_to_compare(data: Annotations) -> None:
    """Refuses a design."""
    if not data.blocks[0].has_labels:
        raise DataError("a design has no labels to compare; simulate them, or read labels")


def require_two_annotators(items: int, votes: int) -> None:
    """Refuses so many votes for as many items."""
    if votes == items:
        raise DataError(
            f"none of {items} items was labelled by two annotators, abstentions aside; have some items "
            "labelled twice"
        )


def row_pairs(sizes: np.ndarray, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of rows of one group, the earlier one first, twice (pairs,); of ``sizes`` of groups that follow
    each other, and only those whose earlier row is among ``rows``.
    """
    end = np.repeat(np.cumsum(sizes), sizes)
    mine = np.arange(len(end)) if rows is None else rows
    row, second = runs(mine + 1, end[mine] - mine - 1)
    return mine[row], second


def bootstrap_counts(n_items: int, samples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each item is in bootstrap samples of all items, float64 (N, C) for C samples at a time."""
    rng = np.random.default_rng(seed)
    width = int(np.clip(MAX_COUNTS // n_items, 1, MAX_SAMPLES))
    for begin in range(0, samples, width):
        size = min(width, samples - begin)
        drawn = rng.integers(n_items, size=(size, n_items))
        drawn += np.arange(size)[:, None] * n_items
        counts = np.bincount(drawn.ravel(), minlength=size * n_items)
        yield np.ascontiguousarray(counts.reshape(size, n_items).T, np.float64)


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above / below, NaN where the denominator is zero."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    return np.asarray(np.divide(above, below, out=np.full(shape, np.nan), where=np.abs(below) > EPSILON))


def set_votes(data: Annotations) -> tuple[DeduplicatedVotes, np.ndarray]:
    """Votes for whole sets, each distinct set being one class, and its members, bool (sets, C).

    Sets of which an answer is missing, or an abstention, are left out. Where an annotator gave an item several, the
    answers about each class belong to them in order.
    """
    assert data.item_covariates is not None
    answer_item, annotator, answer = data.label_codes()
    item, of_class = (data.item_covariates[name].cat for name in OF_SETS)
    at, n_classes = item.codes.to_numpy()[answer_item], len(of_class.categories)
    turn = pd.Series(answer).groupby([answer_item, annotator]).cumcount().to_numpy()
    places, place = np.unique(np.stack([at, annotator, turn]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    whole = np.bincount(place, answer < len(NO_YES)) == n_classes
    members = np.zeros((places.shape[1], n_classes), bool)
    members[place, of_class.codes.to_numpy()[answer_item]] = answer == NO_YES.index("yes")
    known, code = np.unique(members[whole], axis=0, return_inverse=True)
    at, annotator, _ = places[:, whole]
    return DeduplicatedVotes.of_codes(at, annotator, code.reshape(-1), data.n_annotators, len(known)), known


def masi_distances(members: np.ndarray) -> np.ndarray:
    """MASI distance of each two sets, (sets, sets), from their members, bool (sets, C).

    One minus the Jaccard index times 1 for equal sets, 2/3 where one contains the other, 1/3 where they overlap
    (Passonneau 2006, Measuring agreement on set-valued items (MASI) for semantic and pragmatic annotation, LREC).
    Two empty sets are equal.
    """
    n = len(members)
    require_memory(f"distances of {n:,} different sets", 4 * 8 * n**2, "leave rare classes out")
    both = members.astype(np.float64) @ members.T
    size = members.sum(1)
    least, union = np.minimum.outer(size, size), np.add.outer(size, size) - both
    monotonicity = np.select([both == union, both == least, both > 0], [1, 2 / 3, 1 / 3], 0)
    return np.asarray(1 - np.where(union > 0, both / np.maximum(union, 1), 1) * monotonicity)


@dataclass(frozen=True)
class AnnotatorPairs:
    """Some pairs of annotators, for which any weighting of items is a sparse product.

    Chance agreement is the sum over classes k and l of weight[k, l] * (how often one gave k) * (how often the other
    gave l). Only the classes that a pair gave are held.

    Attributes:
        one, other: codes of the annotators, (P,).
        shared: 1 where a pair shares an item, sparse (P, N).
        agree: the weight of their agreement on it, sparse (P, N).
        given, met: the part of an item's vote that one, and the other, gave to a class, sparse (rows, N) with a row
            for each pair and class.
        weight: agreement between rows of ``given`` and of ``met`` of the same pair, sparse.
        pair: 1 where a row of ``given`` is of a pair, sparse (P, rows).
    """

    one: np.ndarray
    other: np.ndarray
    shared: Any
    agree: Any
    given: Any
    met: Any
    weight: Any
    pair: Any

    @classmethod
    def of(
        cls, votes: DeduplicatedVotes, first: np.ndarray, second: np.ndarray, near: np.ndarray
    ) -> AnnotatorPairs:
        """The pairs of annotators whose votes are these rows, (labels,) each, with weights (K, K)."""
        from scipy.sparse import csr_array  # slow to import

        n, k = votes.n_items, votes.n_classes
        key = votes.annotator[first] * votes.n_annotators + votes.annotator[second]
        found, pair = np.unique(key, return_inverse=True)
        item, value = votes.item[first], votes.share[first] * votes.share[second]

        def by_item(row: np.ndarray, values: np.ndarray, n_rows: int) -> Any:
            return csr_array((values, (row, item)), shape=(n_rows, n))

        mine, my_row = np.unique(pair * k + votes.answer[first], return_inverse=True)
        yours, your_row = np.unique(pair * k + votes.answer[second], return_inverse=True)
        shared = by_item(pair, value, len(found))
        shared.data[:] = 1  # shares of a vote add up to one only within rounding
        agree = by_item(pair, value * near[votes.answer[first], votes.answer[second]], len(found))
        agree.eliminate_zeros()
        rows = (np.ones(len(mine)), (mine // k, np.arange(len(mine))))
        return cls(
            *np.divmod(found, votes.n_annotators),
            shared=shared,
            agree=agree,
            given=by_item(my_row, value, len(mine)),
            met=by_item(your_row, value, len(yours)),
            weight=_class_weights(mine, yours, near, len(found)),
            pair=csr_array(rows, shape=(len(found), len(mine))),
        )

    def kappas(self, count: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Shared items, share of agreement on them, and Cohen's kappa, (P, C) each; items count (N, C) times.

        Cohen (1960), Educational and Psychological Measurement 20: 37-46; with weights Cohen (1968), Psychological
        Bulletin 70: 213-220. Kappa is NaN for a single item, and where both gave all of them the same class.
        """
        n = self.shared @ count
        agreed = self.agree @ count
        chance = self.pair @ ((self.given @ count) * (self.weight @ (self.met @ count)))
        agreement = ratio(agreed, n)
        expected = ratio(chance, n**2)
        kappa = ratio(agreement - expected, np.where(1 - expected > 1e-9, 1 - expected, 0))
        several = self.shared @ (count > 0).astype(np.float64) > 1.5
        return n, agreement, np.where(several, kappa, np.nan)

    def only(self, pairs: np.ndarray) -> AnnotatorPairs:
        """Some of the pairs, bool (P,)."""
        rows = np.unique(self.pair[pairs].indices)
        weight = self.weight[rows]
        columns = np.unique(weight.indices)
        return AnnotatorPairs(
            self.one[pairs],
            self.other[pairs],
            shared=self.shared[pairs],
            agree=self.agree[pairs],
            given=self.given[rows],
            met=self.met[columns],
            weight=weight[:, columns],
            pair=self.pair[pairs][:, rows],
        )


def _class_weights(mine: np.ndarray, yours: np.ndarray, near: np.ndarray, n_pairs: int) -> Any:
    """Agreement of pair * K + class, sorted, of either annotator: sparse (len(mine), len(yours)); near (K, K)."""
    from scipy.sparse import csr_array  # slow to import

    k = len(near)
    size = np.bincount(yours // k, minlength=n_pairs)
    begin = np.cumsum(size) - size
    row, column = runs(begin[mine // k], size[mine // k])
    value = near[mine[row] % k, yours[column] % k]
    some = value != 0
    return csr_array((value[some], (row[some], column[some])), shape=(len(mine), len(yours)))


def annotator_pairs(votes: DeduplicatedVotes, near: np.ndarray) -> Iterator[AnnotatorPairs]:
    """All pairs of annotators that share items, some at a time, in the order of their codes."""
    sizes = np.bincount(votes.item, minlength=votes.n_items)
    left = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(votes.item)) - 1
    by_annotator = np.argsort(votes.annotator, kind="stable")
    owner, begin = np.unique(votes.annotator[by_annotator], return_index=True)
    partners = np.add.reduceat(left[by_annotator], begin)
    ends = np.append(begin[1:], len(by_annotator))
    start = 0
    while start < len(owner):
        # One annotator at least, however many pairs of labels that makes.
        stop = start + max(1, int(np.searchsorted(np.cumsum(partners[start:]), MAX_PAIRS, side="right")))
        first, second = row_pairs(sizes, by_annotator[begin[start] : ends[stop - 1]])
        start = stop
        differ = votes.annotator[first] != votes.annotator[second]
        if differ.any():
            yield AnnotatorPairs.of(votes, first[differ], second[differ], near)
