"""Scores of label probabilities (N, K) against truth codes (N,): how often right, and how well that is known."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd

from crowdppl.statistics.choices import best
from crowdppl.statistics.estimates import Estimate

SMALLEST = 1e-10
"""Probabilities are clipped from below before a logarithm, so that one certain error is not infinitely bad."""
BINS = 15
"""Bins of confidence of the calibration error."""
ENOUGH = 5
"""Labels on items of gold from which on an annotator's accuracy on gold is looked at."""
DECIMALS = 14
"""Numbers that agree to so many decimals share their rank: rounding must not rank items."""


def named(probabilities: np.ndarray) -> np.ndarray:
    """What each item is called, (N, K): one for its most probable class, 1/m for each class of a tie of m."""
    top = best(probabilities)
    return np.asarray(top / top.sum(1, keepdims=True))


def right(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """How far each item is called by its true class, (N,): 1, 0, or 1/m for a tie of m that holds the truth."""
    return np.asarray(named(probabilities)[np.arange(len(truth)), truth])


def accuracy(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Share of right answers, ties split in expectation; larger is better."""
    return float(right(probabilities, truth).mean())


def surprise(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """-log p(truth) of each item in nats, (N,)."""
    return np.asarray(-np.log(np.clip(probabilities[np.arange(len(truth)), truth], SMALLEST, None)))


def log_score(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Mean of -log p(truth) in nats."""
    return float(surprise(probabilities, truth).mean())


def squared_error(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Sum over classes of (p - 1[class is the truth]) squared of each item, (N,)."""
    error = probabilities.copy()
    error[np.arange(len(truth)), truth] -= 1
    return np.asarray((error**2).sum(1))


def brier_score(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Mean over items of the squared error summed over classes (Brier, 1950)."""
    return float(squared_error(probabilities, truth).mean())


def bin_of(confidence: np.ndarray, bins: int = BINS) -> np.ndarray:
    """Which of ``bins`` equal bins of 0 to 1 holds each confidence, (N,); a bin is open below."""
    return np.clip(np.ceil(confidence * bins - 1e-9).astype(np.int64) - 1, 0, bins - 1)


def calibration_error(probabilities: np.ndarray, truth: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error over equal bins of the highest probability (Guo et al., 2017, equation 3)."""
    confidence = probabilities.max(1)
    gap = np.bincount(bin_of(confidence, bins), confidence - right(probabilities, truth), minlength=bins)
    return float(np.abs(gap).sum() / len(truth))


def reliability_bins(probabilities: np.ndarray, truth: np.ndarray, bins: int = BINS) -> pd.DataFrame:
    """What is behind the calibration error: bins of the highest probability.

    Returns:
        DataFrame, a row a bin: low (not in the bin) and high (in it), its ends; n, items in it; confidence and
        accuracy, their means over these items, NaN in an empty bin. The sum over bins of
        n |confidence - accuracy|, over N, is the calibration error.
    """
    confidence = probabilities.max(1)
    home = bin_of(confidence, bins)
    n = np.bincount(home, minlength=bins)
    sums = [np.bincount(home, x, minlength=bins) for x in (confidence, right(probabilities, truth))]
    means = [np.where(n > 0, total / np.maximum(n, 1), np.nan) for total in sums]
    ends = np.arange(bins + 1) / bins
    columns = {"low": ends[:-1], "high": ends[1:], "n": n, "confidence": means[0], "accuracy": means[1]}
    return pd.DataFrame(columns, index=pd.RangeIndex(bins, name="bin"))


@dataclass(frozen=True)
class ClassCounts:
    """The expected confusion matrix of items at its margins; leading dimensions are several sets of items.

    An item with a tie of m classes counts 1/m for each of them.

    Attributes:
        right: items of each class that are called by it, (..., K).
        truth: items of each class, (..., K).
        named: items called by each class, (..., K).
    """

    right: np.ndarray
    truth: np.ndarray
    named: np.ndarray

    @classmethod
    def of(cls, probabilities: np.ndarray, truth: np.ndarray) -> ClassCounts:
        """Counts one set of items."""
        k = probabilities.shape[1]
        hits = np.bincount(truth, right(probabilities, truth), minlength=k)
        return cls(hits, np.bincount(truth, minlength=k), named(probabilities).sum(0))

    def balanced_accuracy(self) -> np.ndarray:
        """Mean over the classes that are some item's truth of the share of their items that is right, (...)."""
        return _mean_ratio(self.right, self.truth)

    def macro_f1(self) -> np.ndarray:
        """Mean over the classes that are a truth or a name of F1 = 2 right / (truth + named), (...)."""
        return _mean_ratio(2 * self.right, self.truth + self.named)

    def mcc(self) -> np.ndarray:
        """Matthews' correlation of truth and name for any number of classes (Gorodkin, 2004, equation 8), (...).

        NaN where either does not vary: there is no correlation with a constant.
        """
        n = self.truth.sum(-1)
        shared = self.right.sum(-1) * n - (self.truth * self.named).sum(-1)
        spread = [n**2 - (x**2).sum(-1) for x in (self.truth, self.named)]
        varied = np.minimum(*spread) > 1e-12 * n**2
        return np.where(varied, shared / np.sqrt(np.where(varied, spread[0] * spread[1], 1)), np.nan)


@dataclass(frozen=True)
class RankedErrors:
    """Items by rising confidence, those of equal confidence together; leading dimensions are several sets.

    Attributes:
        items: items at each confidence, whole numbers, (..., G).
        wrong: how many of them are wrong, in expectation where classes are tied, (..., G).
    """

    items: np.ndarray
    wrong: np.ndarray

    @classmethod
    def of(cls, probabilities: np.ndarray, truth: np.ndarray) -> RankedErrors:
        """Ranks one set of items."""
        home = confidence_ranks(probabilities)
        return cls(np.bincount(home), np.bincount(home, 1 - right(probabilities, truth)))

    def auroc(self) -> np.ndarray:
        """Probability that an error is less sure than a right answer, (...); equally sure counts one half.

        NaN where there is no error, or nothing else.
        """
        fine = self.items - self.wrong
        surer = fine.sum(-1, keepdims=True) - np.cumsum(fine, -1) + fine / 2
        pairs = self.wrong.sum(-1) * fine.sum(-1)
        return np.where(pairs > 0, (self.wrong * surer).sum(-1) / np.where(pairs > 0, pairs, 1), np.nan)

    def aurc(self) -> np.ndarray:
        """Mean over n = 1 ... N of the share of errors among the n surest items, (...); lower is better.

        Geifman, Uziel & El-Yaniv (2019). Items of equal confidence come in random order, in expectation: where n
        items with e errors are followed by m equally sure ones with w errors, the sum over t = 1 ... m of
        (e + t w / m) / (n + t) has a closed form in harmonic numbers.
        """
        items, wrong = self.items[..., ::-1].astype(np.int64), self.wrong[..., ::-1]
        upto = np.cumsum(items, -1)
        before = upto - items
        share = wrong / np.maximum(items, 1)
        harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, upto[..., -1].max() + 1))])
        excess = np.cumsum(wrong, -1) - wrong - share * before
        area = wrong + excess * (harmonic[upto] - harmonic[before])
        return np.asarray(area.sum(-1) / upto[..., -1])


def confidence_ranks(probabilities: np.ndarray) -> np.ndarray:
    """The rank of each item's highest probability from 0, equal ones sharing it, (N,)."""
    return np.unique(np.round(probabilities.max(1), DECIMALS), return_inverse=True)[1]


def risk_coverage(probabilities: np.ndarray, truth: np.ndarray) -> pd.DataFrame:
    """Which share of labels is wrong if only the surest items are kept.

    Returns:
        DataFrame by confidence, falling: coverage, the share of items that are at least so sure, and risk, the
        share of errors among them.
    """
    ranked, levels = RankedErrors.of(probabilities, truth), np.unique(np.round(probabilities.max(1), DECIMALS))
    kept = np.cumsum(ranked.items[::-1])
    columns = {"coverage": kept / len(truth), "risk": np.cumsum(ranked.wrong[::-1]) / kept}
    return pd.DataFrame(columns, index=pd.Index(levels[::-1], name="confidence"))


def rank_correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Spearman's correlation along the last axis, (...); equal values share their rank, NaN for a constant."""
    ranks = (pd.DataFrame(np.atleast_2d(z).round(DECIMALS)).rank(axis=1).to_numpy() for z in (a, b))
    x, y = (z.reshape(a.shape) - (a.shape[-1] + 1) / 2 for z in ranks)
    scale = (x**2).sum(-1) * (y**2).sum(-1)
    return np.where(scale > 0, (x * y).sum(-1) / np.sqrt(np.where(scale > 0, scale, 1)), np.nan)


def annotators_on_gold(
    annotator: np.ndarray, answer: np.ndarray, truth: np.ndarray, estimate: Estimate, level: float
) -> pd.DataFrame:
    """Accuracies of annotators as estimated and as gold shows them.

    Gold that has m of an annotator's n labels shows their accuracy with binomial noise, so the interval is
    widened: its half-widths w become the root of w^2 + z^2 a (1 - a) / m (n - m) / (n - 1), with a the estimated
    accuracy and z the normal quantile of the level. The last factor, of sampling without replacement, adds
    nothing where gold has all labels. An interval of the accuracy on further items, which this is, then holds
    more than its level, for the posterior has seen the labels that gold judges.

    Args:
        annotator, answer, truth: codes of each label that names a class, its annotator, and its item's truth or
            -1, (S,).
        estimate: accuracies (A,) with an interval of the level.
        level: of the interval.

    Returns:
        DataFrame by annotator code, of those with at least 5 labels on gold: labels (abstentions are none here);
        on_gold, how many of them on items of gold; accuracy, accuracy_sd, accuracy_low and accuracy_high as
        estimated; gold_accuracy, the share of on_gold that is right; low and high, widened; held, 1 where they
        hold gold_accuracy, else 0, and NaN without an interval.
    """
    size, known = len(estimate.mean), truth >= 0
    labels, m = (np.bincount(part, minlength=size) for part in (annotator, annotator[known]))
    hits = np.bincount(annotator[known & (answer == truth)], minlength=size)
    at = np.flatnonzero(m >= ENOUGH)
    labels, m, part = labels[at], m[at], estimate.at(at)
    noise = part.mean * (1 - part.mean) / m * (labels - m) / (labels - 1)
    reach = NormalDist().inv_cdf((1 + level) / 2) ** 2 * noise.clip(0)
    low, high = (
        part.mean + sign * np.sqrt((part.mean - end) ** 2 + reach) for sign, end in ((-1, part.low), (1, part.high))
    )
    on_gold = hits[at] / m
    held = np.where(np.isnan(low), np.nan, (low - 1e-9 <= on_gold) & (on_gold <= high + 1e-9))
    columns = {"labels": labels, "on_gold": m, **part.columns("accuracy"), "gold_accuracy": on_gold}
    return pd.DataFrame(columns | {"low": low, "high": high, "held": held}, index=at)


def _mean_ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Mean over classes of part / whole, those without any left out."""
    there = whole > 0
    return np.asarray((part / np.where(there, whole, 1)).sum(-1) / there.sum(-1))
