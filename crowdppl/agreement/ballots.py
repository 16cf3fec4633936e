"""Labels as ballots, one an annotator and item: counted by item, and resampled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.data.decoding import row_codes
from crowdppl.statistics.coefficients import Totals

CELLS = 4_000_000
"""Weights of items by resamples that are held at once."""
WIDEST = 32
"""Resamples that are computed at once; more are no faster."""


@dataclass(frozen=True)
class Ballots:
    """Who gave which item which class, one row an item, annotator and class.

    An annotator has one ballot an item: who labels an item m times gives each of these labels 1/m of it.
    Abstentions are no class and are left out, and items without any class with them.

    Attributes:
        item, annotator, answer: codes, (R,), sorted in this order; items are numbered anew.
        share: the part of the ballot, (R,).
        n_items, n_annotators, n_classes: N labelled items, A, K.
    """

    item: np.ndarray
    annotator: np.ndarray
    answer: np.ndarray
    share: np.ndarray
    n_items: int
    n_annotators: int
    n_classes: int

    @classmethod
    def of(cls, data: Annotations) -> Ballots:
        """The ballots of annotations."""
        item, cell = row_codes(data.blocks, data.order)
        annotator, answer = np.divmod(cell, data.n_answers)
        said = answer < data.n_classes
        labelled, item = np.unique(item[said], return_inverse=True)
        ballot = item.astype(np.int64) * data.n_annotators + annotator[said]
        row, times = np.unique(ballot * data.n_classes + answer[said], return_counts=True)
        ballot, answer = np.divmod(row, data.n_classes)
        _, place = np.unique(ballot, return_inverse=True)
        share = times / np.bincount(place, times)[place]
        item, annotator = np.divmod(ballot, data.n_annotators)
        return cls(item, annotator, answer, share, len(labelled), data.n_annotators, data.n_classes)

    @property
    def first_rows(self) -> np.ndarray:
        """Where each annotator's ballot on an item begins."""
        return np.flatnonzero((np.diff(self.item, prepend=-1) != 0) | (np.diff(self.annotator, prepend=-1) != 0))


@dataclass(frozen=True)
class Tally:
    """What is counted of every item, so that any weighting of items is a sum.

    Attributes:
        size: how many annotators labelled each item, (N,).
        counts: how many gave it each class, sparse (K, N).
        same: pairs of labels by different annotators that are of one class, each counted twice, over the
            number of annotators less one, (N,); zero on items of one annotator.
        mixed: the same for the pairs of two classes, sparse (cells, N); None where only equality counts.
        low, high: the two classes of each row of ``mixed``, (cells,).
    """

    size: np.ndarray
    counts: Any
    same: np.ndarray
    mixed: Any = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    @classmethod
    def of(cls, ballots: Ballots, ordered: bool) -> Tally:
        """Counts ballots.

        Args:
            ballots: the labels.
            ordered: whether it matters which classes differ, and not only that they do.
        """
        from scipy.sparse import csr_array  # slow to import

        n, k = ballots.n_items, ballots.n_classes
        size = np.bincount(ballots.item[ballots.first_rows], minlength=n).astype(np.float64)
        counts = csr_array((ballots.share, (ballots.answer, ballots.item)), shape=(k, n))
        others = np.maximum(size - 1, 1)
        own = np.bincount(ballots.item, ballots.share**2, minlength=n)
        same = np.where(size > 1, (counts.power(2).sum(0) - own) / others, 0)
        if not ordered:
            return cls(size, counts, same)
        by_item = counts.tocsc()
        by_item.sort_indices()
        item = np.repeat(np.arange(n), np.diff(by_item.indptr))
        one, other = later(np.diff(by_item.indptr))
        ours, theirs = later(np.diff(ballots.first_rows, append=len(ballots.item)))
        value = [by_item.data[one] * by_item.data[other], -ballots.share[ours] * ballots.share[theirs]]
        cell = [
            by_item.indices[one].astype(np.int64) * k + by_item.indices[other],
            ballots.answer[ours] * k + ballots.answer[theirs],
        ]
        place = np.concatenate([item[one], ballots.item[ours]])
        used, row = np.unique(np.concatenate(cell), return_inverse=True)
        pairs = 2 * np.concatenate(value) / others[place]
        mixed = csr_array((pairs, (row, place)), shape=(len(used), n))
        return cls(size, counts, same, mixed, used // k, used % k)

    def total(self, weight: np.ndarray) -> Totals:
        """Sums over items.

        Args:
            weight: how often each item counts, (N, C): C weightings at once.
        """
        an_item = weight / self.size[:, None]
        compared = weight * (self.size > 1)[:, None]
        return Totals(
            items=compared.sum(0),
            agreement=self.same @ an_item,
            shares=(self.counts @ an_item) / weight.sum(0),
            coincidence=self.same @ weight,
            values=self.counts @ compared,
            mixed_items=None if self.mixed is None else self.mixed @ an_item,
            mixed_values=None if self.mixed is None else self.mixed @ weight,
            low=self.low,
            high=self.high,
        )


@dataclass(frozen=True)
class Resamples:
    """Bootstrap samples of items, the same whenever they are asked for.

    Attributes:
        n_items: N, of which each sample draws as many with replacement.
        n: number of samples.
        seed: of the draws.
    """

    n_items: int
    n: int
    seed: int

    def __iter__(self) -> Iterator[np.ndarray]:
        """How often each item was drawn, float64 (N, C) for C samples at a time."""
        rng = np.random.default_rng(self.seed)
        width = int(np.clip(CELLS // self.n_items, 1, WIDEST))
        for begin in range(0, self.n, width):
            size = min(width, self.n - begin)
            drawn = rng.integers(self.n_items, size=(size, self.n_items))
            drawn += np.arange(size)[:, None] * self.n_items
            counts = np.bincount(drawn.ravel(), minlength=size * self.n_items)
            yield np.ascontiguousarray(counts.reshape(size, self.n_items).T, np.float64)


def later(sizes: np.ndarray, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of rows that stand in one group, the earlier one first: two arrays (pairs,).

    Args:
        sizes: rows of each group; groups follow each other.
        rows: only pairs whose earlier row is one of these; by default all.
    """
    end = np.repeat(np.cumsum(sizes), sizes)
    mine = np.arange(len(end)) if rows is None else rows
    partners = end[mine] - mine - 1
    first = np.repeat(mine, partners)
    begin = np.repeat(np.cumsum(partners) - partners, partners)
    return first, first + 1 + np.arange(len(first)) - begin
