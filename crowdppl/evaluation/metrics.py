"""Metrics of label probabilities against known truths, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from crowdppl.core.intervals import check_level, of_share
from crowdppl.core.validation import kind_of, seed_number, warn, whole_number
from crowdppl.data.gold import ITS_PROBABILITIES, class_codes, probability_array, rows_of_truths
from crowdppl.data.ids import by_item, native
from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.evaluation.annotator_metrics import compared_with_gold
from crowdppl.evaluation.number_metrics import NumberEvaluation, evaluate_numbers, warn_of_gold
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.results.choices import best
from crowdppl.results.grouping import in_sequences, most_probable, tags_of
from crowdppl.results.truths import probabilities

MIN_PROBABILITY = 1e-10
"""Before a logarithm, so that one certain error is not infinitely bad."""
BINS = 15
"""Bins of confidence of the calibration error."""
DECIMALS = 14
"""Numbers that agree to so many decimals share their rank: rounding must not rank items."""
WEIGHTS_AT_ONCE = 2**22


def label_shares(probabilities: np.ndarray) -> np.ndarray:
    """The label of each item, (N, K): one for its most probable class, 1/m for each class of a tie of m."""
    top = best(probabilities)
    return np.asarray(top / top.sum(1, keepdims=True))


def confidence_ranks(probabilities: np.ndarray) -> np.ndarray:
    """The rank of each item's highest probability from 0, equal ones sharing it, (N,)."""
    return np.unique(np.round(probabilities.max(1), DECIMALS), return_inverse=True)[1]


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
        order = np.argsort(confidence_ranks(probabilities), kind="stable")
        return cls(probabilities[order], truth[order])

    @cached_property
    def confidence(self) -> np.ndarray:
        """The highest probability of each item, (N,)."""
        return np.asarray(self.probabilities.max(1))

    @cached_property
    def right(self) -> np.ndarray:
        """Share of each item's label that is its true class, (N,): 1, 0, or 1/m for a tie of m that holds it."""
        return np.asarray(label_shares(self.probabilities)[np.arange(len(self.truth)), self.truth])

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
        return right, truth, csr_array(label_shares(self.probabilities))

    def _in_columns(self, values: np.ndarray, column: np.ndarray, width: int) -> Any:
        from scipy.sparse import csr_array  # slow to import

        n = len(values)
        return csr_array((values, (np.arange(n), column)), shape=(n, width))

    @cached_property
    def ties(self) -> np.ndarray:
        """The first item of each confidence, (G,)."""
        return np.flatnonzero(np.diff(confidence_ranks(self.probabilities), prepend=-1))


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
    "sequence"), and its direction: 1 where more is better, -1 where less is, 0 where neither is."""

    of: Callable[[Any], np.ndarray]
    unit: str
    direction: int


METRICS: dict[str, Metric] = {}
Score = TypeVar("Score", bound=Callable[[Any], np.ndarray])


def metric(direction: int, unit: str = "item") -> Callable[[Score], Score]:
    """Registers a score under its name: a function of a ``Sample`` to (draws,), NaN where it does not exist.

    Scores of annotators are functions of (draws, A, 3), those of sequences of (draws, 3), as in ``Evidence``.
    """

    def register(of: Score) -> Score:
        METRICS[of.__name__] = Metric(of, unit, direction)
        return of

    return register


def scores_of(unit: str, sample: Any) -> dict[str, np.ndarray]:
    """All scores of a unit by name, (draws,) each."""
    return {name: score.of(sample) for name, score in METRICS.items() if score.unit == unit}


@metric(1)
def accuracy(sample: Sample) -> np.ndarray:
    """Share of items whose label is the truth."""
    return sample.mean(sample.scored.right)


@metric(-1)
def log_score(sample: Sample) -> np.ndarray:
    """Mean of -log p(truth) in nats, of probabilities clipped at 1e-10; 0 is perfect, log K is uninformed."""
    return sample.mean(sample.scored.surprise)


@metric(-1)
def brier(sample: Sample) -> np.ndarray:
    """Squared error of the K probabilities, summed, its mean over items (Brier, 1950); 0 is perfect, 2 the worst."""
    return sample.mean(sample.scored.squared_error)


@metric(-1)
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


@metric(1)
def error_auroc(sample: Sample) -> np.ndarray:
    """Probability that an error is less confident than a right label; .5 is chance.

    Confidence is the highest probability; equally confident counts 1/2. NaN where all labels are right, or wrong.
    """
    items, wrong = sample.ranked
    fine = items - wrong
    surer = fine.sum(-1, keepdims=True) - np.cumsum(fine, -1) + fine / 2
    return _ratio((wrong * surer).sum(-1), wrong.sum(-1) * fine.sum(-1))


@metric(-1)
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
    levels = np.unique(np.round(probabilities.max(1), DECIMALS))
    items, wrong = (np.cumsum(x[0, ::-1]) for x in Sample.of(probabilities, truth).ranked)
    columns = {"coverage": items / len(truth), "risk": wrong / items}
    return pd.DataFrame(columns, index=pd.Index(levels[::-1], name="confidence"))


def span_counts(posterior: Fit, row: np.ndarray, truth: np.ndarray) -> np.ndarray | None:
    """Spans of the most probable labels that are right, all of these, and the true ones, by sequence, (Q, 3).

    Of gold, rows and classes (n,), those sequences count of which it has all items; None without BIO tags.
    """
    tags = tags_of(posterior.data)
    if tags is None:
        return None
    order, starts = in_sequences(posterior.data)
    known = np.full(posterior.data.n_items, -1)
    known[row] = truth
    label, gold, sequence = most_probable(posterior)[order], known[order], np.cumsum(starts) - 1
    ends = [tags.ends(code, starts) for code in (label, gold)]
    found, true = (end >= 0 for end in ends)
    right = found & (ends[0] == ends[1]) & (label == gold)
    counts = [np.bincount(sequence, x, starts.sum()) for x in (right, found, true)]
    return np.asarray(np.stack(counts, 1)[np.bincount(sequence, gold < 0) == 0])


def errors_of_noise(probabilities: np.ndarray, resamples: int, seed: int = 0) -> np.ndarray:
    """Calibration errors that as many items have by chance where probabilities are right, (resamples,).

    Truths are drawn from the probabilities ("consistency resampling", Broecker & Smith 2007, "Increasing the
    reliability of reliability diagrams"); of m classes that tie, the true one counts 1/m.
    """
    confidence, ties = probabilities.max(1), (label_shares(probabilities) > 0).sum(1)
    home, stream, n = bin_of(confidence), np.random.default_rng(seed), len(probabilities)
    order = np.lexsort((ties, confidence))  # a seed means the same draws whatever the order of items
    confidence, ties, home = confidence[order], ties[order], home[order]
    starts, size, out = np.flatnonzero(np.diff(home, prepend=-1)), max(1, WEIGHTS_AT_ONCE // n), []
    for done in range(0, resamples, size):
        hit = stream.random((min(size, resamples - done), n)) < confidence * ties
        gap = np.add.reduceat(confidence - hit / ties, starts, axis=1)
        out.append(np.abs(gap).sum(1) / n)
    return np.concatenate(out)


def _counts(draws: np.ndarray) -> np.ndarray:
    """How often each of n numbers was drawn in each resample: (some, n) to (some, n)."""
    cell = draws + draws.shape[1] * np.arange(len(draws))[:, None]
    return np.bincount(cell.ravel(), minlength=cell.size).reshape(cell.shape).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was scored, for resampling, with an interval's level and the seed of the resamples.

    Attributes:
        probabilities, truth: of items, (N, K) and codes (N,).
        annotators: estimated accuracy, accuracy on gold, and whether the interval holds it, (A, 3).
        spans: of sequences, right, found and true ones, (Q, 3); None for other labels.
        resamples, level, seed: of ``intervals``.
    """

    probabilities: np.ndarray
    truth: np.ndarray
    annotators: np.ndarray
    spans: np.ndarray | None
    resamples: int
    level: float
    seed: int

    def scores(self) -> dict[str, float]:
        """The scores by name; those of spans are missing where labels have none."""
        found = scores_of("item", Sample.of(self.probabilities, self.truth))
        some = self.annotators if len(self.annotators) else np.full((1, 3), np.nan)
        found |= scores_of("annotator", some[None])
        if self.spans is not None:
            found |= scores_of("sequence", self.spans.sum(0)[None])
        return {name: float(score[0]) for name, score in found.items()}

    def draws(self) -> dict[str, np.ndarray]:
        """Scores on resamples, (resamples,) each, of what is scored, sorted so that a seed means the same."""
        p, truth = self.probabilities, self.truth
        order = np.lexsort((*p.T, truth, confidence_ranks(p)))
        scored = Scored(p[order], truth[order])
        parts = [scores_of("item", Sample(scored, _counts(rows))) for rows in self._drawn(len(order))]
        if len(self.annotators):
            ordered = self.annotators[np.lexsort(self.annotators.T)]
            parts += [scores_of("annotator", ordered[rows]) for rows in self._drawn(len(ordered))]
        if self.spans is not None and len(self.spans):
            ordered = self.spans[np.lexsort(self.spans.T)]
            parts += [scores_of("sequence", ordered[rows].sum(1)) for rows in self._drawn(len(ordered))]
        names = dict.fromkeys(name for part in parts for name in part)
        return {name: np.concatenate([part[name] for part in parts if name in part]) for name in names}

    def _drawn(self, n: int) -> Iterator[np.ndarray]:
        """n numbers below n for each resample, (some resamples, n) at a time."""
        stream, size = np.random.default_rng(self.seed), max(1, WEIGHTS_AT_ONCE // n)
        for done in range(0, self.resamples, size):
            yield stream.integers(n, size=(min(size, self.resamples - done), n))

    def intervals(self, values: Mapping[str, float]) -> pd.DataFrame:
        """Percentile intervals of scores that have these values: DataFrame by score with value, low and high."""
        rows, draws = {}, self.draws()
        units = {"accuracy": len(self.truth), "annotator_coverage": len(self.annotators)}
        for name, value in values.items():
            there = draws.get(name, np.empty(0))
            there = there[~np.isnan(there)]
            tails = ((1 - self.level) / 2, (1 + self.level) / 2)
            low, high = np.quantile(there, tails) if len(there) and not np.isnan(value) else (np.nan, np.nan)
            if name == "ece":  # noise adds to it, and a resample has the noise twice: mirrored at the value
                low, high = max(0.0, min(value, 2 * value - high)), max(value, 2 * value - low)
                if low > 0:
                    noise = errors_of_noise(self.probabilities, self.resamples, self.seed)
                    low = 0.0 if value <= np.quantile(noise, tails[1]) else low
            if name in units and value in (0, 1):
                low, high = of_share(value, units[name], self.level)
            rows[name] = (value, low, high)
        table = pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])
        return table.rename_axis("score")


TOLERANCE = 1e-4
"""How far the sum of an item's probabilities may be from 1."""


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Scores of a posterior; ``evaluation.accuracy``, ``evaluation["accuracy"]`` and ``dict(evaluation)`` work.

    The label of an item is its most probable class. Where m classes tie for it, the item counts 1/m for each of
    them in every score of labels. A score that does not exist is NaN.

    Where labels are BIO tags of sequences, their spans are scored, too: a span, ``posterior.spans()``, is right
    where its first item, last item and type are those of a true one. Only sequences count of which gold has all
    items.

    Attributes:
        n: items that were scored.
        unscored: items with a known truth that are not in the posterior.
        scores: by name; ``crowdppl.evaluation.metrics`` has a function of each name that says what it is.
        annotators: the annotators whose accuracies are compared (``annotators_on_gold``); None for a table.
        evidence: what ``intervals`` resamples.
    """

    n: int
    unscored: int
    scores: Mapping[str, float]
    annotators: pd.DataFrame | None = field(compare=False)
    evidence: Evidence = field(compare=False)

    def keys(self) -> list[str]:
        """Names of the numbers of items and of the scores."""
        return ["n", "unscored", *self.scores]

    def __getitem__(self, name: str) -> float:
        """A score by its name."""
        return self.scores[name] if name in self.scores else {"n": self.n, "unscored": self.unscored}[name]

    def __getattr__(self, name: str) -> float:
        """A score as an attribute."""
        scores = vars(self).get("scores", {})  # empty while a copy is made
        if name not in scores:
            raise AttributeError(f"there is no score {name!r}; there are {', '.join(scores)}")
        return float(scores[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.scores]

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(f'{name}={self[name]!r}' for name in self.keys())})"

    @property
    def bins(self) -> pd.DataFrame:
        """The bins of ``ece``: DataFrame by bin of confidence with low, high, n, confidence and accuracy."""
        return reliability_bins(self.evidence.probabilities, self.evidence.truth)

    @property
    def risk_coverage(self) -> pd.DataFrame:
        """By falling confidence: the share of items at least so confident, and the share of errors among them."""
        return risk_coverage(self.evidence.probabilities, self.evidence.truth)

    def intervals(self) -> pd.DataFrame:
        """Bootstrap intervals of the scores, computed at the first call.

        Items are drawn with replacement, annotators for the two scores of annotators, and sequences for those of
        spans; low and high are percentiles. Resamples in which a score does not exist are left out. Of labels that
        are all right, or all wrong, resamples are so, too: accuracy then has the exact binomial interval (of
        independent items, not those of a sequence), and so has annotator_coverage; other scores have one without
        width: too little was seen. The calibration error includes noise, and a resample has it twice; so its
        interval is mirrored at the value, cut off at 0 and stretched to hold the value, and to reach 0 where right
        probabilities might have such an error by chance.

        Returns:
            DataFrame by score with value, low and high.
        """
        return self._intervals.copy()

    @cached_property
    def _intervals(self) -> pd.DataFrame:
        return self.evidence.intervals(self.scores)


def evaluate(
    posterior: Fit | pd.DataFrame,
    gold: pd.Series | Mapping[Any, Any],
    *,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Evaluation | NumberEvaluation:
    """Scores label probabilities, and the annotators' accuracies, against known truths.

    Args:
        posterior: a posterior, or its probabilities (items x classes).
        gold: the true class of items by their ids; items that are not in the posterior are warned of, and
            so are those whose truth the fit was given (``GoldLeakWarning``).
        bootstrap, seed: resamples from which ``Evaluation.intervals`` are computed, and their seed.
        level: probability of these intervals, and of the annotators' whose coverage is counted; where truths are
            numbers, of the items' intervals.

    Returns:
        The scores; a ``NumberEvaluation`` where truths are numbers, of which that of ranks is a
        ``RankingEvaluation``.

    Raises:
        DataError: when there is no item to score, an id has two truths or two rows, a truth is no class, or the
            probabilities of an item do not add up to 1.
        MethodError: when the level is not between 0 and 1, resamples or a seed are no whole numbers, or for
            grades as truths of a method whose truths are places on a scale.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 4}, seed=0)
        >>> posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
        >>> round(crowdppl.evaluate(posterior, crowd.truth).accuracy, 3)
        0.887
    """
    check_level(level)
    bootstrap = whole_number("bootstrap", bootstrap, 1, "1000 resamples are usual")
    seed = seed_number(seed)
    if isinstance(posterior, Fit) and isinstance(posterior.result.truth, NumberTruth):
        return evaluate_numbers(posterior, gold, bootstrap, level, seed)
    p, code, row, unscored = matched(posterior, gold)
    annotators = None if isinstance(posterior, pd.DataFrame) else compared_with_gold(posterior, row, code, level)
    compared = np.empty((0, 3))
    if annotators is not None:
        compared = annotators[["accuracy", "gold_accuracy", "held"]].to_numpy(np.float64)
    spans = None if isinstance(posterior, pd.DataFrame) else span_counts(posterior, row, code)
    evidence = Evidence(p, code, compared, spans, bootstrap, level, seed)
    return Evaluation(len(p), unscored, evidence.scores(), annotators, evidence)


def matched(
    posterior: Fit | pd.DataFrame, gold: pd.Series | Mapping[Any, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Items of gold in a posterior: probabilities (n, K), codes and rows (n,), and how many are not there."""
    table = table_of(posterior)
    if isinstance(posterior, Fit):
        gold = posterior.data.truths_by_id(gold)
    truth = by_item(gold)
    row = rows_of_truths(table.index, truth.index)
    code = class_codes(table.columns, truth[row >= 0], isinstance(posterior, pd.DataFrame))
    unscored = int((row < 0).sum())
    if unscored:
        warn(
            f"{unscored} of {len(truth)} items with a known truth are not in the posterior and are not scored",
            CrowdpplWarning,
        )
    row = row[row >= 0]
    if isinstance(posterior, Fit):
        warn_of_gold(posterior, row)
    p = probability_array(table)[row]
    wrong = np.flatnonzero(~((p >= 0).all(1) & (np.abs(p.sum(1) - 1) <= TOLERANCE)))
    if len(wrong):
        item, values = native(table.index[row[wrong[0]]]), p[wrong[0]].tolist()
        raise DataError(
            f"the probabilities of item {item!r} are {values}; they must be at least 0 and add up to 1: divide "
            "counts by their sum, and leave out items without any"
        )
    return p, code, row, unscored


def table_of(posterior: Fit | pd.DataFrame) -> pd.DataFrame:
    """Probabilities, items x classes; DataError for anything but a posterior or a DataFrame without twins."""
    if not isinstance(posterior, pd.DataFrame):
        if not isinstance(posterior, Fit):
            raise DataError(f"{kind_of(posterior)} holds no probabilities by item and class; {ITS_PROBABILITIES}")
        return probabilities(posterior)
    if posterior.empty:
        raise DataError(f"a DataFrame of shape {posterior.shape} holds no probabilities; {ITS_PROBABILITIES}")
    for what, ids in (("item", posterior.index), ("class", posterior.columns)):
        if not ids.is_unique:
            twice = native(ids[ids.duplicated()][0])
            raise DataError(f"the probabilities have the {what} {twice!r} more than once; keep one")
    return posterior
