"""Annotators two by two, on the items that both labelled: Cohen's kappa of every pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from crowdppl.agreement.ballots import Ballots, Resamples, later
from crowdppl.statistics.coefficients import ratio

AT_ONCE = 250_000
"""Pairs of labels that are held at once; annotators are taken in turn until there are so many."""


@dataclass(frozen=True)
class Pairings:
    """Some pairs of annotators, in a form in which any weighting of items is a sparse product.

    The agreement that chance brings is the sum over classes k and l of weight[k, l] * (how often one gave k) *
    (how often the other gave l). Only the classes that a pair gave are held.

    Attributes:
        one, other: codes of the annotators, (P,).
        shared: 1 where a pair shares an item, sparse (P, N).
        agree: the weight of their agreement on it, sparse (P, N).
        gave: the part of an item's ballot that one gave to a class, sparse (rows, N), rows for (pair, class).
        met: the same for the other, sparse (further rows, N).
        weight: agreement between rows of ``gave`` and of ``met`` of the same pair, sparse.
        pair: 1 where a row of ``gave`` is of a pair, sparse (P, rows).
    """

    one: np.ndarray
    other: np.ndarray
    shared: Any
    agree: Any
    gave: Any
    met: Any
    weight: Any
    pair: Any

    def kappas(self, count: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cohen's kappa of every pair: (observed - chance) / (1 - chance).

        Cohen (1960), Educational and Psychological Measurement 20: 37-46; with weights Cohen (1968),
        Psychological Bulletin 70: 213-220.

        Args:
            count: how often each item counts, (N, C).

        Returns:
            Number of shared items, share of agreement on them, and kappa, each (P, C). Kappa is NaN where both
            gave all of them the same class, so that chance agreement is certain, and where there is but one
            item, which tells of agreement or of chance, but not of both.
        """
        n = self.shared @ count
        agreed = self.agree @ count
        chance = self.pair @ ((self.gave @ count) * (self.weight @ (self.met @ count)))
        agreement = ratio(agreed, n)
        expected = ratio(chance, n**2)
        kappa = ratio(agreement - expected, np.where(1 - expected > 1e-9, 1 - expected, 0))
        several = self.shared @ (count > 0).astype(np.float64) > 1.5
        return n, agreement, np.where(several, kappa, np.nan)

    def only(self, pairs: np.ndarray) -> Pairings:
        """Some of the pairs: positions, or bool (P,)."""
        rows = np.unique(self.pair[pairs].indices)
        weight = self.weight[rows]
        columns = np.unique(weight.indices)
        return Pairings(
            self.one[pairs],
            self.other[pairs],
            shared=self.shared[pairs],
            agree=self.agree[pairs],
            gave=self.gave[rows],
            met=self.met[columns],
            weight=weight[:, columns],
            pair=self.pair[pairs][:, rows],
        )

    def mean_parts(self, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum of kappa * shared items and of shared items over pairs that have a kappa: (C,) each."""
        n, _, kappa = self.kappas(count)
        known = np.isfinite(kappa)
        return np.where(known, n * kappa, 0).sum(0), np.where(known, n, 0).sum(0)


@dataclass(frozen=True)
class MeanKappa:
    """Mean of Cohen's kappa over pairs of annotators, weighted by the items that they share.

    Attributes:
        value: the mean, NaN where no pair has a kappa.
        resampled: the same for each resample, (B,).
        entered: items on which a pair with a kappa meets, bool (N,).
        shared: number of items that each pair with a kappa shares, (P,).
        undefined: pairs without a kappa.
    """

    value: float
    resampled: np.ndarray
    entered: np.ndarray
    shared: np.ndarray
    undefined: int


def mean_kappa(ballots: Ballots, weight: np.ndarray, resamples: Resamples) -> MeanKappa:
    """Mean of Cohen's kappa over pairs; see ``Pairings.kappas`` and ``pairings`` for the arguments."""
    every = np.ones((ballots.n_items, 1))
    entered = np.zeros(ballots.n_items, bool)
    above, below = np.zeros(1 + resamples.n), np.zeros(1 + resamples.n)
    shared, undefined = [np.empty(0, np.int64)], 0
    for some in pairings(ballots, weight):
        items, _, kappa = some.kappas(every)
        # A pair without a kappa has none in any sample of its items either.
        known = np.isfinite(kappa[:, 0])
        undefined += int((~known).sum())
        if not known.any():
            continue
        some = some.only(known)
        shared.append(items[known, 0].astype(np.int64))
        entered |= np.asarray(some.shared.sum(0)) > 0
        at = 0
        for count in chain([every], resamples):
            columns = slice(at, at := at + count.shape[1])
            sums = some.mean_parts(count)
            above[columns] += sums[0]
            below[columns] += sums[1]
    mean = ratio(above, below)
    return MeanKappa(float(mean[0]), mean[1:], entered, np.concatenate(shared), undefined)


def pairings(ballots: Ballots, weight: np.ndarray) -> Iterator[Pairings]:
    """All pairs of annotators that share items, some at a time, in the order of their codes.

    Args:
        ballots: the labels.
        weight: agreement of two classes, (K, K); 1 on the diagonal.
    """
    sizes = np.bincount(ballots.item, minlength=ballots.n_items)
    left = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(ballots.item)) - 1
    by_annotator = np.argsort(ballots.annotator, kind="stable")
    owner, begin = np.unique(ballots.annotator[by_annotator], return_index=True)
    partners = np.add.reduceat(left[by_annotator], begin)
    ends = np.append(begin[1:], len(by_annotator))
    start = 0
    while start < len(owner):
        # One annotator at least, however many pairs of labels that makes.
        stop = start + max(1, int(np.searchsorted(np.cumsum(partners[start:]), AT_ONCE, side="right")))
        rows = by_annotator[begin[start] : ends[stop - 1]]
        some = _pair_up(ballots, later(sizes, rows), weight)
        start = stop
        if len(some.one):
            yield some


def _pair_up(ballots: Ballots, rows: tuple[np.ndarray, np.ndarray], weight: np.ndarray) -> Pairings:
    """The pairs of annotators in pairs of labels on one item, given as rows of the ballots."""
    from scipy.sparse import csr_array  # slow to import

    apart = ballots.annotator[rows[0]] != ballots.annotator[rows[1]]
    first, second = rows[0][apart], rows[1][apart]
    n, k = ballots.n_items, ballots.n_classes
    key = ballots.annotator[first] * ballots.n_annotators + ballots.annotator[second]
    found, pair = np.unique(key, return_inverse=True)
    item, value = ballots.item[first], ballots.share[first] * ballots.share[second]

    def spread(row: np.ndarray, values: np.ndarray, n_rows: int) -> Any:
        return csr_array((values, (row, item)), shape=(n_rows, n))

    mine, my_row = np.unique(pair * k + ballots.answer[first], return_inverse=True)
    yours, your_row = np.unique(pair * k + ballots.answer[second], return_inverse=True)
    shared = spread(pair, value, len(found))
    shared.data[:] = 1  # shares of a ballot add up to one only within rounding
    agree = spread(pair, value * weight[ballots.answer[first], ballots.answer[second]], len(found))
    agree.eliminate_zeros()
    return Pairings(
        *np.divmod(found, ballots.n_annotators),
        shared=shared,
        agree=agree,
        gave=spread(my_row, value, len(mine)),
        met=spread(your_row, value, len(yours)),
        weight=_weights(mine, yours, weight, len(found)),
        pair=csr_array((np.ones(len(mine)), (mine // k, np.arange(len(mine)))), shape=(len(found), len(mine))),
    )


def _weights(mine: np.ndarray, yours: np.ndarray, weight: np.ndarray, n_pairs: int) -> Any:
    """The agreement of every class that one annotator of a pair gave with every class that the other gave.

    Args:
        mine, yours: pair * K + class, sorted.
        weight: (K, K).
        n_pairs: P.

    Returns:
        Sparse (len(mine), len(yours)).
    """
    from scipy.sparse import csr_array  # slow to import

    k = len(weight)
    size = np.bincount(yours // k, minlength=n_pairs)
    begin = np.cumsum(size) - size
    times = size[mine // k]
    row = np.repeat(np.arange(len(mine)), times)
    column = np.repeat(begin[mine // k] - (np.cumsum(times) - times), times) + np.arange(times.sum())
    value = weight[mine[row] % k, yours[column] % k]
    some = value != 0
    return csr_array((value[some], (row[some], column[some])), shape=(len(mine), len(yours)))
