"""Agreement between annotators beyond chance (Krippendorff, Fleiss, Gwet, Cohen), with bootstrap intervals.

Everything is a function of sums over items, so that a bootstrap sample is another weighting of the same sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.core import validation
from crowdppl.core.intervals import check_level
from crowdppl.core.validation import seed_number, warn, whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.ids import plain
from crowdppl.errors import CrowdpplWarning, DataError, MethodError, SparseDataWarning

NOTHING = 1e-12
"""A chance of disagreement below this is rounding: agreement beyond chance is then not defined."""


@dataclass(frozen=True)
class Totals:
    """Sums over items for C weightings of them, which all coefficients below are made of.

    Attributes:
        items: items of two annotators or more, (C,).
        agreement: sum over these of the share of their pairs of labels that agree, (C,).
        shares: mean over all labelled items of the share of each class, (K, C).
        coincidence: Krippendorff's number of values that are matched with an equal one, (C,).
        values: labels of each class on items of two annotators or more, (K, C).
        mixed_items, mixed_values: as ``agreement`` and ``coincidence``, for each cell of two classes; (cells, C).
        low, high: the two classes of each cell, (cells,).
    """

    items: np.ndarray
    agreement: np.ndarray
    shares: np.ndarray
    coincidence: np.ndarray
    values: np.ndarray
    mixed_items: np.ndarray | None = None
    mixed_values: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None


Formula = Callable[[Totals], np.ndarray]
"""A coefficient as a function of totals, (C,)."""


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of a data set.

    Attributes:
        name: what it is called in tables.
        value: NaN where it is not defined.
        resampled: its value on each resample, (B,).
        items, pairs: what entered.
        items_left_out, pairs_left_out: what did not.
    """

    name: str
    value: float
    resampled: np.ndarray
    items: int
    pairs: int
    items_left_out: int
    pairs_left_out: int = 0

    def bias(self) -> float:
        """How far the mean of the resamples is from the value, in their standard deviations."""
        known = self.resampled[np.isfinite(self.resampled)]
        spread = known.std() if len(known) > 1 else 0.0
        return float(abs(known.mean() - self.value) / spread) if spread > NOTHING else 0.0

    def columns(self, level: float) -> dict[str, float]:
        """Its row of the table."""
        known = self.resampled[np.isfinite(self.resampled)]
        ends = np.quantile(known, [(1 - level) / 2, (1 + level) / 2]) if len(known) else [np.nan, np.nan]
        return {
            "value": self.value,
            "low": float(ends[0]),
            "high": float(ends[1]),
            "items": self.items,
            "pairs": self.pairs,
            "items_left_out": self.items_left_out,
            "pairs_left_out": self.pairs_left_out,
        }


def percent_agreement(totals: Totals) -> np.ndarray:
    """Share of pairs of labels on one item that are equal, averaged over items: (C,)."""
    return ratio(totals.agreement, totals.items)


def fleiss_kappa(totals: Totals) -> np.ndarray:
    """Fleiss' kappa (1971, Psychological Bulletin 76: 378-382), (C,).

    With numbers of labels that differ between items, Gwet's generalisation (2014, Handbook of Inter-Rater
    Reliability, 4th edition): every item counts the same, both in the agreement and in the shares of classes;
    items with one label count in the shares alone.
    """
    return beyond_chance(percent_agreement(totals), (totals.shares**2).sum(0))


def gwet(totals: Totals, near: np.ndarray) -> np.ndarray:
    """Gwet's AC2 for weights, and AC1 where only equal classes agree: (C,).

    AC1: Gwet (2008), British Journal of Mathematical and Statistical Psychology 61: 29-48; AC2: Gwet (2014),
    as above. Chance agreement is sum(w) / (K (K - 1)) * sum over classes of share (1 - share), for weights w.

    Args:
        totals: sums over items; with mixed cells unless the weights are the identity.
        near: (K, K), agreement of two classes; 1 on the diagonal.
    """
    k = len(near)
    chance = near.sum() / (k * (k - 1)) * (totals.shares * (1 - totals.shares)).sum(0)
    if totals.mixed_items is None:
        return beyond_chance(percent_agreement(totals), chance)
    apart = (1 - near)[totals.low, totals.high] @ totals.mixed_items
    return beyond_chance(1 - ratio(apart, totals.items), chance)


def krippendorff_nominal(totals: Totals) -> np.ndarray:
    """Krippendorff's alpha for classes without order, (C,).

    Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: 1 - observed over expected disagreement in
    the matrix of coincidences, with any number of annotators and labels that are missing.
    """
    n = totals.values.sum(0)
    expected = ratio(n**2 - (totals.values**2).sum(0), n * (n - 1))
    return 1 - ratio(ratio(n - totals.coincidence, n), expected)


def krippendorff_ordinal(totals: Totals) -> np.ndarray:
    """Krippendorff's alpha for classes with an order, (C,).

    His difference of two classes, the number of labels from one to the other less half of those of the two
    classes, squared, is the squared difference of their mean ranks.
    """
    ranks = np.cumsum(totals.values, 0) - totals.values / 2
    return _krippendorff_scored(totals, ratio(ranks, totals.values.sum(0)))


def krippendorff_interval(totals: Totals, numbers: np.ndarray) -> np.ndarray:
    """Krippendorff's alpha for classes that are numbers, increasing, (K,): their squared difference. (C,)."""
    return _krippendorff_scored(totals, (numbers - numbers[0])[:, None] / (numbers[-1] - numbers[0]))


def _krippendorff_scored(totals: Totals, scores: np.ndarray) -> np.ndarray:
    """Alpha where the disagreement of two classes is the squared difference of their scores, (K, C) or (K, 1)."""
    assert totals.mixed_values is not None
    n = totals.values.sum(0)
    observed = (totals.mixed_values * (scores[totals.low] - scores[totals.high]) ** 2).sum(0)
    centred = scores - ratio((totals.values * scores).sum(0), n)
    expected = 2 * ratio((totals.values * centred**2).sum(0), n - 1)
    return 1 - ratio(ratio(observed, n), expected)


def beyond_chance(observed: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """(observed - chance) / (1 - chance), NaN where chance agreement is certain."""
    return ratio(observed - chance, 1 - chance)


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above / below, NaN where there is nothing below."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    found: np.ndarray = np.divide(above, below, out=np.full(shape, np.nan), where=np.abs(below) > NOTHING)
    return found


def nearness(n_classes: int, weights: str) -> np.ndarray:
    """Agreement of two classes, (K, K): 1 on the diagonal, 0 for the two that are farthest apart."""
    if weights == "identity":
        return np.eye(n_classes)
    steps = np.abs(np.subtract.outer(np.arange(n_classes), np.arange(n_classes))) / (n_classes - 1)
    return np.asarray(1 - (steps if weights == "linear" else steps**2))


CELLS = 4_000_000
"""Weights of items by resamples that are held at once."""
WIDEST = 32
"""Resamples that are computed at once; more are no faster."""


@dataclass(frozen=True)
class DeduplicatedVotes:
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
    def of(cls, data: Annotations) -> DeduplicatedVotes:
        """The ballots of annotations."""
        item, annotator, answer = data.label_codes()
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
    def of(cls, ballots: DeduplicatedVotes, ordered: bool) -> Tally:
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
        one, other = bootstrap_values(np.diff(by_item.indptr))
        ours, theirs = bootstrap_values(np.diff(ballots.first_rows, append=len(ballots.item)))
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


def bootstrap_values(sizes: np.ndarray, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
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


def mean_kappa(ballots: DeduplicatedVotes, weight: np.ndarray, resamples: Resamples) -> MeanKappa:
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


def pairings(ballots: DeduplicatedVotes, weight: np.ndarray) -> Iterator[Pairings]:
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
        some = _pair_up(ballots, bootstrap_values(sizes, rows), weight)
        start = stop
        if len(some.one):
            yield some


def _pair_up(ballots: DeduplicatedVotes, rows: tuple[np.ndarray, np.ndarray], weight: np.ndarray) -> Pairings:
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


Weights = Literal["identity", "linear", "quadratic"]
WEIGHTS = ("identity", "linear", "quadratic")
FEW = 10
"""Items that annotators should share two by two: on fewer, kappas are biased by more than a twentieth."""
BIAS = 0.5
"""Bias of a coefficient in standard errors from which on its interval covers too seldom."""


def agreement_table(
    data: Annotations,
    *,
    weights: Weights | None = None,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """How far annotators agree: the usual coefficients side by side, each with a bootstrap interval.

    Labels that are missing are no problem to any of them. Abstentions are no class and count as missing. An
    annotator who labels an item m times has one vote there, of which each label has 1/m, and is never compared
    with itself. Items labelled by one annotator have nothing to compare and are left out; in Fleiss' kappa, AC1
    and AC2 they still count in the shares of classes, as in Gwet (2014).

    The intervals resample items, not annotators: they say what other items by the same annotators would have
    given. Time goes mostly into cohen_kappa: about two seconds for a million pairs of labels on one item, with a
    thousand samples. No matrix of items by annotators is built.

    The rows:

    - percent_agreement: share of equal pairs of labels, averaged over items.
    - cohen_kappa: mean of Cohen's kappa over pairs of annotators, weighted by the number of items they share.
      Pairs without a kappa are left out: one shared item, or one class throughout. Where pairs share few items it
      is biased towards 0, and its interval even more, so that this may not hold the value; a warning says so.
    - fleiss_kappa: Gwet's (2014) generalisation to different numbers of labels an item, in which items count
      the same; with two annotators and no missing label it is Scott's pi.
    - krippendorff_nominal, krippendorff_ordinal, krippendorff_interval: Krippendorff's alpha. The last two only
      where the classes have an order, interval only where they also are numbers.
    - gwet_ac1, gwet_ac2: Gwet's coefficients; AC2 only with weights. All K classes count, used or not.

    Args:
        data: the annotations.
        weights: how near two classes are in cohen_kappa and gwet_ac2: "identity", equal or not; "linear" or
            "quadratic", one minus the (squared) number of steps between them over the largest. By default
            quadratic where the classes are ordinal, else identity. Nominal classes may be given weights where
            they are increasing numbers, and are then taken as ordinal.
        bootstrap: samples of items, drawn with replacement, for the intervals; with 0 these are NaN. A sample in
            which a coefficient is not defined does not count for it.
        level: probability of the intervals, which lie between quantiles of the samples.
        seed: of the samples.

    Returns:
        DataFrame by coefficient: value; low; high; items that entered; pairs, of annotators for cohen_kappa and
        of labels by different annotators for the others; items_left_out, labelled items that did not enter;
        pairs_left_out, pairs of annotators without a kappa; weights, empty where they play no part. A
        coefficient that is not defined, because only one class was used, is NaN with a warning.

    Raises:
        DataError: when there are no labels, or no item was labelled by two annotators.
        MethodError: unknown weights, weights of classes without order, a level, bootstrap or seed that is none.

    Examples:
        >>> table = crowdppl.agreement_table(crowdppl.anaesthetists(), bootstrap=200, seed=0)
        >>> table.loc[["percent_agreement", "fleiss_kappa", "gwet_ac1"], ["value", "low", "high"]].round(2)
                           value   low  high
        coefficient
        percent_agreement   0.70  0.63  0.79
        fleiss_kappa        0.55  0.44  0.65
        gwet_ac1            0.62  0.52  0.73
    """
    weights = _settle(data, weights)
    check_level(level)
    samples, seed = whole_number("bootstrap", bootstrap, 0, "use 0 for no intervals"), seed_number(seed)
    ballots = _ballots(data)
    resamples = Resamples(ballots.n_items, samples, seed)
    found = _by_items(Tally.of(ballots, _ordered(data, weights)), resamples, _formulas(data, weights))
    found.insert(1, _cohen(ballots, nearness(data.n_classes, weights), resamples))
    _warn_of_gaps(found)
    names = pd.Index([each.name for each in found], name="coefficient")
    table = pd.DataFrame([each.columns(level) for each in found]).set_index(names)
    return table.assign(weights=np.where(names.isin(["cohen_kappa", "gwet_ac2"]), weights, ""))


def agreement_pairs(data: Annotations, *, weights: Weights | None = None) -> pd.DataFrame:
    """How far annotators agree two by two: Cohen's kappa of every pair that shares an item.

    Missing labels, abstentions and repeats are treated as by ``agreement_table``, whose cohen_kappa is the mean
    of these, weighted by ``items``.

    Args:
        data: the annotations.
        weights: as in ``agreement_table``.

    Returns:
        DataFrame by (annotator, other) in codebook order: items that both labelled; agreement on them, weighted;
        kappa, NaN where both gave all of them the same class, and for a single item, which cannot tell
        agreement from chance.

    Raises:
        DataError, MethodError: as ``agreement_table``.

    Examples:
        >>> crowdppl.agreement_pairs(crowdppl.anaesthetists()).round(2).head(3)
                         items  agreement  kappa
        annotator other
        1         2         45       0.64   0.48
                  3         45       0.75   0.61
                  4         45       0.79   0.68
    """
    weights = _settle(data, weights)
    near = nearness(data.n_classes, weights)
    ballots = _ballots(data)
    every = np.ones((ballots.n_items, 1))
    parts = [(some.one, some.other, *some.kappas(every)) for some in pairings(ballots, near)]
    one, other, items, agreement, kappa = (np.concatenate(column).ravel() for column in zip(*parts, strict=True))
    names = ["annotator", "other"]
    index = pd.MultiIndex.from_arrays([data.annotators[one], data.annotators[other]], names=names)
    return pd.DataFrame({"items": items.astype(np.int64), "agreement": agreement, "kappa": kappa}, index)


def _settle(data: Annotations, weights: Weights | None) -> Weights:
    """The weights that are meant, once they make sense for the classes."""
    require_annotations(data)
    if weights is None:
        return "quadratic" if data.kind == "ordinal" else "identity"
    validation.one_of("weights", weights, WEIGHTS)
    if weights != "identity" and data.kind != "ordinal" and _numbers(data) is None:
        names = ", ".join(repr(plain(name)) for name in data.classes[:5])
        raise MethodError(
            f"weights={weights!r} needs classes with an order, and these ({names}) are nominal; read the data with "
            "kind='ordinal' and classes= from lowest to highest"
        )
    return weights


def _numbers(data: Annotations) -> np.ndarray | None:
    """The classes as numbers, (K,), if that is what they are and they increase."""
    try:
        numbers = np.array([float(plain(name)) for name in data.classes])
    except (TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() and (np.diff(numbers) > 0).all() else None


def _ballots(data: Annotations) -> DeduplicatedVotes:
    """Labels to be compared, of which there must be some."""
    if not data.blocks[0].has_labels:
        raise DataError("a design has no labels that could agree; simulate them, or read labels")
    ballots = DeduplicatedVotes.of(data)
    if len(ballots.first_rows) == ballots.n_items:
        raise DataError(
            f"none of {ballots.n_items} items was labelled by two annotators, so that no labels can be compared; "
            "have some items labelled twice (abstentions are no labels)"
        )
    return ballots


def _ordered(data: Annotations, weights: Weights) -> bool:
    return data.kind == "ordinal" or weights != "identity"


def _formulas(data: Annotations, weights: Weights) -> dict[str, Formula]:
    """The coefficients that are functions of totals and that these classes have."""
    formulas: dict[str, Formula] = {
        "percent_agreement": percent_agreement,
        "fleiss_kappa": fleiss_kappa,
        "krippendorff_nominal": krippendorff_nominal,
    }
    if _ordered(data, weights):
        formulas["krippendorff_ordinal"] = krippendorff_ordinal
        numbers = _numbers(data)
        if numbers is not None:
            formulas["krippendorff_interval"] = partial(krippendorff_interval, numbers=numbers)
    formulas["gwet_ac1"] = partial(gwet, near=nearness(data.n_classes, "identity"))
    if weights != "identity":
        formulas["gwet_ac2"] = partial(gwet, near=nearness(data.n_classes, weights))
    return formulas


def _by_items(tally: Tally, resamples: Resamples, formulas: Mapping[str, Formula]) -> list[Coefficient]:
    """Coefficients that are functions of totals."""
    once = tally.total(np.ones((len(tally.size), 1)))
    resampled: dict[str, list[np.ndarray]] = {name: [np.empty(0)] for name in formulas}
    for count in resamples:
        totals = tally.total(count)
        for name, formula in formulas.items():
            resampled[name].append(formula(totals))
    several = tally.size > 1
    pairs = int((tally.size * (tally.size - 1)).sum()) // 2
    used = (int(several.sum()), pairs, int((~several).sum()), 0)
    return [
        Coefficient(name, float(formula(once)[0]), np.concatenate(resampled[name]), *used)
        for name, formula in formulas.items()
    ]


def _cohen(ballots: DeduplicatedVotes, near: np.ndarray, resamples: Resamples) -> Coefficient:
    """Cohen's kappa, with a warning where pairs of annotators share too few items for it."""
    mean = mean_kappa(ballots, near, resamples)
    used = (int(mean.entered.sum()), len(mean.shared), int((~mean.entered).sum()), mean.undefined)
    found = Coefficient("cohen_kappa", mean.value, mean.resampled, *used)
    if mean.shared[mean.shared < FEW].sum() * 2 > mean.shared.sum() or found.bias() > BIAS:
        text = (
            f"cohen_kappa is a mean over {len(mean.shared)} pairs of annotators that share so few items (median "
            f"{np.median(mean.shared):g}) that kappas, and more so the ends of the interval, are biased towards 0; "
            "rather use fleiss_kappa or krippendorff_nominal"
        )
        warn(SparseDataWarning(text))
    return found


def _warn_of_gaps(found: list[Coefficient]) -> None:
    """Warns of coefficients without a value, and of intervals that only some samples made."""
    gaps = [each.name for each in found if np.isnan(each.value)]
    if gaps:
        text = (
            f"{', '.join(gaps)} is not defined and NaN: where all labels to be compared are of one class, "
            "agreement by chance is certain, and cohen_kappa also needs annotators who share two items"
        )
        warn(CrowdpplWarning(text))
    for each in found:
        n, lost = len(each.resampled), int(np.isnan(each.resampled).sum())
        if lost > n / 20 and each.name not in gaps:
            made = f"the interval of {each.name} is made from {n - lost} of {n} samples; in the others it is not "
            why = "defined, because all labels that they compare are of one class, or none can be compared"
            warn(SparseDataWarning(made + why))
