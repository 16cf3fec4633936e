"""Metrics of label probabilities against known truths: one function each, of items that may be weighted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from crowdppl.results.choices import best

MIN_PROBABILITY = 1e-10
"""Before a logarithm, so that one certain error is not infinitely bad."""
BINS = 15
"""Bins of confidence of the calibration error."""
DECIMALS = 14
"""Numbers that agree to so many decimals share their rank: rounding must not rank items."""


def label_shares(probabilities: np.ndarray) -> np.ndarray:
    """The label of each item, (N, K): one for its most probable class, 1/m for each class of a tie of m."""
    top = best(probabilities)
    return np.asarray(top / top.sum(1, keepdims=True))


def rounded_confidence(probabilities: np.ndarray) -> np.ndarray:
    """The highest probability of each item, (N,), rounded so that ties are equal."""
    return np.asarray(np.round(probabilities.max(1), DECIMALS))


def bin_of(confidence: np.ndarray, bins: int = BINS) -> np.ndarray:
    """The bin, of ``bins`` equal ones of 0 to 1, that holds each confidence, (N,); a bin is open below."""
    return np.clip(np.ceil(confidence * bins - 1e-9).astype(np.int64) - 1, 0, bins - 1)


@dataclass(frozen=True, eq=False)
class Scored:
    """Items with known truths, by rising confidence, and what their scores are made of.

    Attributes:
        probabilities: (N, K).
        truth: codes, (N,).
    """

    probabilities: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, probabilities: np.ndarray, truth: np.ndarray) -> Scored:
        """Sorts items by confidence."""
        order = np.argsort(rounded_confidence(probabilities), kind="stable")
        return cls(probabilities[order], truth[order])

    @cached_property
    def confidence(self) -> np.ndarray:
        """The highest probability of each item, (N,)."""
        return np.asarray(self.probabilities.max(1))

    @cached_property
    def label(self) -> np.ndarray:
        """The label of each item, (N, K), as of ``label_shares``."""
        return label_shares(self.probabilities)

    @cached_property
    def right(self) -> np.ndarray:
        """Share of each item's label that is its true class, (N,): 1, 0, or 1/m for a tie of m that holds it."""
        return np.asarray(self.label[np.arange(len(self.truth)), self.truth])

    @cached_property
    def surprise(self) -> np.ndarray:
        """-log p(truth) of each item in nats, (N,)."""
        p = self.probabilities[np.arange(len(self.truth)), self.truth]
        return np.asarray(-np.log(np.clip(p, MIN_PROBABILITY, None)))

    @cached_property
    def squared_error(self) -> np.ndarray:
        """Sum over classes of (p - 1[class is the truth]) squared of each item, (N,)."""
        error = self.probabilities.copy()
        error[np.arange(len(self.truth)), self.truth] -= 1
        return np.asarray((error**2).sum(1))

    @cached_property
    def gaps(self) -> Any:
        """Confidence less accuracy of each item in the column of its bin, sparse (N, bins)."""
        return self._in_columns(self.confidence - self.right, bin_of(self.confidence), BINS)

    @cached_property
    def margins(self) -> tuple[Any, Any, Any]:
        """Of each item what is right, its truth and its label, in the columns of their classes, sparse (N, K)."""
        from scipy.sparse import csr_array  # slow to import

        n, k = self.probabilities.shape
        right, truth = (self._in_columns(x, self.truth, k) for x in (self.right, np.ones(n)))
        return right, truth, csr_array(self.label)

    def _in_columns(self, values: np.ndarray, column: np.ndarray, width: int) -> Any:
        from scipy.sparse import csr_array  # slow to import

        n = len(values)
        return csr_array((values, (np.arange(n), column)), shape=(n, width))

    @cached_property
    def ties(self) -> np.ndarray:
        """The first item of each confidence, (G,)."""
        return np.flatnonzero(np.diff(rounded_confidence(self.probabilities), prepend=-1))


@dataclass(frozen=True, eq=False)
class Sample:
    """Scored items, each as often as it was drawn; several draws at once.

    Attributes:
        scored: the items.
        times: whole numbers, (draws, N); one where each item counts once.
    """

    scored: Scored
    times: np.ndarray

    @classmethod
    def of(cls, probabilities: np.ndarray, truth: np.ndarray) -> Sample:
        """Each item once: one draw."""
        return cls(Scored.of(probabilities, truth), np.ones((1, len(truth))))

    @cached_property
    def n(self) -> np.ndarray:
        """Items drawn, (draws,)."""
        return np.asarray(self.times.sum(1))

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean of (N,) values of the scored items, (draws,)."""
        return np.asarray(self.times @ values / self.n)

    def sums(self, columns: Any) -> np.ndarray:
        """Sums of sparse columns (N, width), (draws, width)."""
        return np.asarray(columns.T @ self.times.T).T

    @cached_property
    def margins(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By class, the items of it that are labelled so, those of it and those labelled so, (draws, K) each."""
        right, truth, label = map(self.sums, self.scored.margins)
        return right, truth, label

    @cached_property
    def ranked(self) -> tuple[np.ndarray, np.ndarray]:
        """Items at each confidence, which rises, and how many of them are wrong in expectation, (draws, G) each."""
        wrong = self.times * (1 - self.scored.right)
        items, errors = (np.add.reduceat(x, self.scored.ties, axis=1) for x in (self.times, wrong))
        return items, errors


class Metric(NamedTuple):
    """A score: its function, whose docstring says what it is, the unit that it is of ("item", "annotator" or
    "sequence"), its direction: 1 where more is better, -1 where less is, 0 where neither is; and whether it needs
    probabilities or only labels."""

    of: Callable[[Any], np.ndarray]
    unit: str
    direction: int
    of_labels: bool


METRICS: dict[str, Metric] = {}
Score = TypeVar("Score", bound=Callable[[Any], np.ndarray])


def metric(direction: int, unit: str = "item", *, of_labels: bool = True) -> Callable[[Score], Score]:
    """Registers a score under its name: a function of a ``Sample`` to (draws,), NaN where it does not exist.

    One that needs probabilities is not ``of_labels``. Scores of annotators are functions of (draws, A, 3), those of
    sequences of (draws, 3), as in ``Evidence``.
    """

    def register(of: Score) -> Score:
        METRICS[of.__name__] = Metric(of, unit, direction, of_labels)
        return of

    return register


def scores_of(unit: str, sample: Any, of_labels: bool = False) -> dict[str, np.ndarray]:
    """All scores of a unit by name, (draws,) each; those of labels alone where there are no probabilities."""
    kept = {name: x for name, x in METRICS.items() if x.unit == unit and (x.of_labels or not of_labels)}
    return {name: score.of(sample) for name, score in kept.items()}


@metric(1)
def accuracy(sample: Sample) -> np.ndarray:
    """Share of items whose label is the truth."""
    return sample.mean(sample.scored.right)


@metric(-1, of_labels=False)
def log_score(sample: Sample) -> np.ndarray:
    """Mean of -log p(truth) in nats, of probabilities clipped at 1e-10; 0 is perfect, log K is uninformed."""
    return sample.mean(sample.scored.surprise)


@metric(-1, of_labels=False)
def brier(sample: Sample) -> np.ndarray:
    """Mean of the squared error summed over the K classes (Brier, 1950); 0 is perfect, 2 is the worst."""
    return sample.mean(sample.scored.squared_error)


@metric(-1, of_labels=False)
def ece(sample: Sample) -> np.ndarray:
    """Difference of confidence and accuracy, averaged over 15 equal bins of confidence; 0 is perfect.

    The expected calibration error (Guo et al., 2017, equation 3). A small sample alone makes it larger.
    """
    return np.asarray(np.abs(sample.sums(sample.scored.gaps)).sum(1) / sample.n)


@metric(1)
def balanced_accuracy(sample: Sample) -> np.ndarray:
    """Accuracy within each class that gold has, averaged over these classes."""
    right, truth, _ = sample.margins
    return _mean_ratio(right, truth)


@metric(1)
def macro_f1(sample: Sample) -> np.ndarray:
    """Mean of F1, the harmonic mean of precision and recall, over classes that are a truth or a label."""
    right, truth, label = sample.margins
    return _mean_ratio(2 * right, truth + label)


@metric(1)
def mcc(sample: Sample) -> np.ndarray:
    """Matthews' correlation of label and truth: 1 is perfect, 0 is chance.

    For any number of classes (Gorodkin, 2004, equation 8). NaN where all truths, or all labels, are of one class.
    """
    right, truth, label = sample.margins
    n = sample.n
    shared = right.sum(-1) * n - (truth * label).sum(-1)
    spread = [n**2 - (x**2).sum(-1) for x in (truth, label)]
    return _ratio(shared, np.sqrt(np.abs(spread[0] * spread[1])), np.minimum(*spread) > 1e-12 * n**2)


@metric(1, of_labels=False)
def error_auroc(sample: Sample) -> np.ndarray:
    """Probability that an error is less confident than a right label; .5 is chance.

    Confidence is the highest probability; equally confident counts 1/2. NaN where all labels are right, or wrong.
    """
    items, wrong = sample.ranked
    fine = items - wrong
    surer = fine.sum(-1, keepdims=True) - np.cumsum(fine, -1) + fine / 2
    return _ratio((wrong * surer).sum(-1), wrong.sum(-1) * fine.sum(-1))


@metric(-1, of_labels=False)
def aurc(sample: Sample) -> np.ndarray:
    """Share of errors among the n most confident items, averaged over n = 1 ... N; 0 is perfect.

    The area under the risk-coverage curve (Geifman, Uziel & El-Yaniv 2019). Items of equal confidence come in
    random order, in expectation: where n items with e errors are followed by m equally confident ones with w
    errors, the sum over t = 1 ... m of (e + t w / m) / (n + t) has a closed form in harmonic numbers.
    """
    items, wrong = (x[..., ::-1] for x in sample.ranked)
    items = items.astype(np.int64)
    upto = np.cumsum(items, -1)
    before = upto - items
    share = wrong / np.maximum(items, 1)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, upto[..., -1].max() + 1))])
    excess = np.cumsum(wrong, -1) - wrong - share * before
    area = wrong + excess * (harmonic[upto] - harmonic[before])
    return np.asarray(area.sum(-1) / upto[..., -1])


@metric(1, "annotator")
def annotator_spearman(compared: np.ndarray) -> np.ndarray:
    """Rank correlation of the annotators' estimated accuracies with their accuracies on gold.

    Over annotators with at least 5 labels on items of gold. NaN for a bare table, and for fewer than two of them.
    """
    return rank_correlation(compared[..., 0], compared[..., 1])


@metric(0, "annotator")
def annotator_coverage(compared: np.ndarray) -> np.ndarray:
    """Share of annotators whose interval of accuracy, widened by the noise of gold, holds their accuracy on gold.

    Of those with at least 5 labels on items of gold. A share below the level means that the posterior is too sure
    of annotators. NaN for a bare table, and where the engine gives points.
    """
    return np.asarray(compared[..., 2].mean(-1))


@metric(1, "sequence")
def span_precision(spans: np.ndarray) -> np.ndarray:
    """Share of the found spans that are right; NaN where none is found."""
    return _ratio(spans[..., 0], spans[..., 1])


@metric(1, "sequence")
def span_recall(spans: np.ndarray) -> np.ndarray:
    """Share of the true spans that are found; NaN where there is none."""
    return _ratio(spans[..., 0], spans[..., 2])


@metric(1, "sequence")
def span_f1(spans: np.ndarray) -> np.ndarray:
    """2 right / (found + true) of spans."""
    return _ratio(2 * spans[..., 0], spans[..., 1] + spans[..., 2])


def _ratio(part: np.ndarray, whole: np.ndarray, there: np.ndarray | None = None) -> np.ndarray:
    """NaN where the whole is nothing, or elsewhere than ``there``."""
    there = whole > 0 if there is None else there
    return np.where(there, part / np.where(there, whole, 1), np.nan)


def _mean_ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Mean over classes of part / whole, without empty ones."""
    return np.asarray(np.nanmean(_ratio(part, whole), -1))


def rank_correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Spearman's correlation along the last axis, (...); NaN for a constant."""
    from scipy.stats import rankdata  # slow to import

    x, y = (rankdata(np.round(z, DECIMALS), axis=-1) - (a.shape[-1] + 1) / 2 for z in (a, b))
    return _ratio((x * y).sum(-1), np.sqrt((x**2).sum(-1) * (y**2).sum(-1)))


def reliability_bins(probabilities: np.ndarray, truth: np.ndarray, bins: int = BINS) -> pd.DataFrame:
    """The bins of the calibration error, a row each: low (open) and high, n, and mean confidence and accuracy."""
    scored = Scored(probabilities, truth)
    home = bin_of(scored.confidence, bins)
    n = np.bincount(home, minlength=bins)
    confidence, right = (_ratio(np.bincount(home, x, bins), n) for x in (scored.confidence, scored.right))
    ends = np.arange(bins + 1) / bins
    columns = {"low": ends[:-1], "high": ends[1:], "n": n, "confidence": confidence, "accuracy": right}
    return pd.DataFrame(columns, index=pd.RangeIndex(bins, name="bin"))


def risk_coverage(probabilities: np.ndarray, truth: np.ndarray) -> pd.DataFrame:
    """By falling confidence: the coverage, a share of items at least so confident, and their risk of errors."""
    levels = np.unique(rounded_confidence(probabilities))
    items, wrong = (np.cumsum(x[0, ::-1]) for x in Sample.of(probabilities, truth).ranked)
    columns = {"coverage": items / len(truth), "risk": wrong / items}
    return pd.DataFrame(columns, index=pd.Index(levels[::-1], name="confidence"))
