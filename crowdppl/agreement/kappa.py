"""Cohen's kappa of pairs of annotators, as sparse products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdppl.agreement.votes import DeduplicatedVotes, ratio, row_pairs

MAX_PAIRS = 250_000
"""Pairs of labels that are held at once; annotators are added until there are so many."""


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
    times = size[mine // k]
    row = np.repeat(np.arange(len(mine)), times)
    column = np.repeat(begin[mine // k] - (np.cumsum(times) - times), times) + np.arange(times.sum())
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
