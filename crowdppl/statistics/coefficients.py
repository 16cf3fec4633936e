"""Coefficients of agreement that need to know only how often each item was given each class.

All of them are functions of sums over items, so that a bootstrap sample is another weighting of the same sums.
Packages that state them (krippendorff, statsmodels, scikit-learn) take a dense array of one sample, are slow a
thousand times over, and refuse or ignore items with different numbers of labels; tests compare with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
