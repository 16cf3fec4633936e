"""Metrics of label probabilities against known truths, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.intervals import check_level, of_share
from crowdppl.core.validation import kind_of, seed_number, warn, whole_number
from crowdppl.data.gold import ITS_PROBABILITIES, class_codes, probability_array, rows_of_truths
from crowdppl.data.ids import by_item, native
from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.evaluation.annotator_metrics import compared_with_gold
from crowdppl.evaluation.number_metrics import NumberEvaluation, Scores, evaluate_numbers, warn_of_gold
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


def label_shares(probabilities: np.ndarray) -> np.ndarray:
    """The label of each item, (N, K): one for its most probable class, 1/m for each class of a tie of m."""
    top = best(probabilities)
    return np.asarray(top / top.sum(1, keepdims=True))


def right(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Share of each item's label that is its true class, (N,): 1, 0, or 1/m for a tie of m that holds the truth."""
    return np.asarray(label_shares(probabilities)[np.arange(len(truth)), truth])


def accuracy(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """Share of right labels, ties split in expectation."""
    return float(right(probabilities, truth).mean())


def surprise(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """-log p(truth) of each item in nats, (N,)."""
    return np.asarray(-np.log(np.clip(probabilities[np.arange(len(truth)), truth], MIN_PROBABILITY, None)))


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
    """The bin, of ``bins`` equal ones of 0 to 1, that holds each confidence, (N,); a bin is open below."""
    return np.clip(np.ceil(confidence * bins - 1e-9).astype(np.int64) - 1, 0, bins - 1)


def calibration_error(probabilities: np.ndarray, truth: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error over equal bins of the highest probability (Guo et al., 2017, equation 3)."""
    confidence = probabilities.max(1)
    gap = np.bincount(bin_of(confidence, bins), confidence - right(probabilities, truth), minlength=bins)
    return float(np.abs(gap).sum() / len(truth))


def reliability_bins(probabilities: np.ndarray, truth: np.ndarray, bins: int = BINS) -> pd.DataFrame:
    """The bins of the calibration error, a row each: low (open) and high, n, and mean confidence and accuracy."""
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
    """Margins of the expected confusion matrix of truth and label; leading dimensions are several sets of items.

    Attributes:
        right: items of each class that are labelled so, (..., K).
        truth: items of each class, (..., K).
        label: items labelled as each class, (..., K).
    """

    right: np.ndarray
    truth: np.ndarray
    label: np.ndarray

    @classmethod
    def of(cls, probabilities: np.ndarray, truth: np.ndarray) -> ClassCounts:
        """Counts one set of items."""
        k = probabilities.shape[1]
        hits = np.bincount(truth, right(probabilities, truth), minlength=k)
        return cls(hits, np.bincount(truth, minlength=k), label_shares(probabilities).sum(0))

    def scores(self) -> dict[str, np.ndarray]:
        """All three scores by name."""
        return {"balanced_accuracy": self.balanced_accuracy(), "macro_f1": self.macro_f1(), "mcc": self.mcc()}

    def balanced_accuracy(self) -> np.ndarray:
        """Mean recall over the classes that are some item's truth, (...)."""
        return _mean_ratio(self.right, self.truth)

    def macro_f1(self) -> np.ndarray:
        """Mean of F1 = 2 right / (truth + label) over the classes that are a truth or a label, (...)."""
        return _mean_ratio(2 * self.right, self.truth + self.label)

    def mcc(self) -> np.ndarray:
        """Matthews' correlation of truth and label (Gorodkin, 2004, equation 8), (...); NaN if one is constant."""
        n = self.truth.sum(-1)
        shared = self.right.sum(-1) * n - (self.truth * self.label).sum(-1)
        spread = [n**2 - (x**2).sum(-1) for x in (self.truth, self.label)]
        varied = np.minimum(*spread) > 1e-12 * n**2
        return np.where(varied, shared / np.sqrt(np.where(varied, spread[0] * spread[1], 1)), np.nan)


def _mean_ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Mean over classes of part / whole, without empty ones."""
    there = whole > 0
    return np.asarray((part / np.where(there, whole, 1)).sum(-1) / there.sum(-1))


@dataclass(frozen=True)
class RankedErrors:
    """Items by rising confidence, equal ones together; leading dimensions are several sets of items.

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

    def scores(self) -> dict[str, np.ndarray]:
        """Both scores by name."""
        return {"error_auroc": self.auroc(), "aurc": self.aurc()}

    def auroc(self) -> np.ndarray:
        """Probability that an error is less confident than a right label, ties being half; NaN without, (...)."""
        fine = self.items - self.wrong
        surer = fine.sum(-1, keepdims=True) - np.cumsum(fine, -1) + fine / 2
        pairs = self.wrong.sum(-1) * fine.sum(-1)
        return np.where(pairs > 0, (self.wrong * surer).sum(-1) / np.where(pairs > 0, pairs, 1), np.nan)

    def aurc(self) -> np.ndarray:
        """Mean over n = 1 ... N of the share of errors among the n most confident items, (...); lower is better.

        Geifman, Uziel & El-Yaniv (2019). Items of equal confidence come in random order, in expectation: where n
        items with e errors are followed by m equally confident ones with w errors, the sum over t = 1 ... m of
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
    """By falling confidence: the coverage, a share of items at least so confident, and their risk of errors."""
    ranked, levels = RankedErrors.of(probabilities, truth), np.unique(np.round(probabilities.max(1), DECIMALS))
    kept = np.cumsum(ranked.items[::-1])
    columns = {"coverage": kept / len(truth), "risk": np.cumsum(ranked.wrong[::-1]) / kept}
    return pd.DataFrame(columns, index=pd.Index(levels[::-1], name="confidence"))


def rank_correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Spearman's correlation along the last axis, (...); NaN for a constant."""
    from scipy.stats import rankdata  # slow to import

    x, y = (rankdata(np.round(z, DECIMALS), axis=-1) - (a.shape[-1] + 1) / 2 for z in (a, b))
    scale = (x**2).sum(-1) * (y**2).sum(-1)
    return np.where(scale > 0, (x * y).sum(-1) / np.sqrt(np.where(scale > 0, scale, 1)), np.nan)


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


def span_scores(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall and F1 by name, (...), from counts of right, found and true spans, (..., 3)."""
    right, found, true = np.moveaxis(counts, -1, 0)
    parts = {"precision": (right, found), "recall": (right, true), "f1": (2 * right, found + true)}
    return {
        f"span_{name}": np.where(n > 0, part / np.where(n > 0, n, 1), np.nan) for name, (part, n) in parts.items()
    }


WEIGHTS_AT_ONCE = 2**22


def resampled_scores(
    probabilities: np.ndarray, truth: np.ndarray, weights: Iterable[np.ndarray]
) -> dict[str, np.ndarray]:
    """Every score of labels, (resamples,), where items count as often as whole numbers (some, N) at a time say.

    Scores are functions of weighted sums over items, which come by rising confidence.
    """
    from scipy.sparse import csr_array  # slow to import

    (n, k), confidence, hit = probabilities.shape, probabilities.max(1), right(probabilities, truth)

    def by_column(values: np.ndarray, at: np.ndarray, width: int) -> Any:
        return csr_array((values, (np.arange(n), at)), shape=(n, width))

    starts = np.flatnonzero(np.diff(confidence_ranks(probabilities), prepend=-1))
    means = np.stack([hit, surprise(probabilities, truth), squared_error(probabilities, truth)], 1)
    gap = by_column(confidence - hit, bin_of(confidence), BINS)
    classes = by_column(hit, truth, k), by_column(np.ones(n), truth, k), csr_array(label_shares(probabilities))
    parts = []
    for w in weights:
        total = w.sum(1)
        accuracies, surprises, errors = np.asarray(means.T @ w.T) / total
        counts = ClassCounts(*(np.asarray(part.T @ w.T).T for part in classes))
        ranked = RankedErrors(*(np.add.reduceat(x, starts, axis=1) for x in (w, w * (1 - hit))))
        ece = np.abs(np.asarray(gap.T @ w.T)).sum(0) / total
        first = {"accuracy": accuracies, "log_score": surprises, "brier": errors, "ece": ece}
        parts.append(first | counts.scores() | ranked.scores())
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


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


def _draws(n: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """n numbers below n for each resample, (some resamples, n) at a time."""
    stream, size = np.random.default_rng(seed), max(1, WEIGHTS_AT_ONCE // n)
    for done in range(0, resamples, size):
        yield stream.integers(n, size=(min(size, resamples - done), n))


def _counts(draws: np.ndarray) -> np.ndarray:
    """How often each of n numbers was drawn in each resample: (some, n) to (some, n)."""
    cell = draws + draws.shape[1] * np.arange(len(draws))[:, None]
    return np.bincount(cell.ravel(), minlength=cell.size).reshape(cell.shape)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was scored, for resampling, with an interval's level and the seed of the resamples.

    Attributes: probabilities (N, K) and truth codes (N,) of items; annotators (A, 3), estimated accuracy, accuracy
    on gold, and whether the interval holds it; spans (Q, 3) of sequences, right, found and true, None for other
    labels.
    """

    probabilities: np.ndarray
    truth: np.ndarray
    annotators: np.ndarray
    spans: np.ndarray | None
    resamples: int
    level: float
    seed: int

    def draws(self) -> dict[str, np.ndarray]:
        """Scores on resamples, (resamples,) each, of what is scored, sorted so that a seed means the same."""
        p, truth = self.probabilities, self.truth
        order = np.lexsort((*p.T, truth, confidence_ranks(p)))
        weights = (_counts(rows) for rows in _draws(len(order), self.resamples, self.seed))
        found = resampled_scores(p[order], truth[order], weights)
        if len(self.annotators):
            ordered = self.annotators[np.lexsort(self.annotators.T)]
            drawn = [ordered[rows] for rows in _draws(len(ordered), self.resamples, self.seed)]
            found["annotator_spearman"] = np.concatenate([rank_correlation(x[..., 0], x[..., 1]) for x in drawn])
            found["annotator_coverage"] = np.concatenate([x[..., 2].mean(1) for x in drawn])
        if self.spans is not None and len(self.spans):
            ordered = self.spans[np.lexsort(self.spans.T)]
            total = [ordered[rows].sum(1) for rows in _draws(len(ordered), self.resamples, self.seed)]
            found |= span_scores(np.concatenate(total))
        return found

    def intervals(self, values: dict[str, float]) -> pd.DataFrame:
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


@dataclass(frozen=True)
class Evaluation(Scores):
    """Scores of a posterior; ``dict(evaluation)`` and ``evaluation["accuracy"]`` work.

    The label of an item is its most probable class. Where m classes tie for it, the item counts 1/m for each of
    them in every score of labels. A score that does not exist is NaN.

    Attributes:
        n, unscored: items that were scored; items with a known truth that are not in the posterior.
        accuracy: share of items whose label is the truth.
        log_score: mean of -log p(truth) in nats; 0 is perfect, log K is uninformed. Probabilities are clipped at
            1e-10.
        brier: mean over items of the summed squared error of the K probabilities; 0 is perfect, 2 the worst.
        ece: expected calibration error: the difference of confidence and accuracy, averaged over 15 equal bins of
            confidence; 0 is perfect, and a small sample alone makes it larger.
        balanced_accuracy: accuracy within each class that gold has, averaged over these classes.
        macro_f1: mean of F1, the harmonic mean of precision and recall, over classes that are a truth or a label.
        mcc: Matthews' correlation of label and truth (for any number of classes): 1 is perfect, 0 is chance. NaN
            where all truths, or all labels, are of one class.
        error_auroc: probability that an error is less confident than a right label (confidence is the highest
            probability); equally confident counts 1/2, so 0.5 is chance. NaN where all labels are right, or wrong.
        aurc: area under the risk-coverage curve: the share of errors among the n most confident items, averaged
            over n = 1 ... N. 0 is perfect.
        annotator_spearman: rank correlation of the annotators' estimated accuracies with their accuracies on
            gold, over annotators with at least 5 labels on items of gold. NaN for a bare table, and for fewer than
            two such annotators.
        annotator_coverage: share of these annotators whose interval of accuracy, widened by the binomial noise of
            gold, holds their accuracy on gold. A share below the level means that the posterior is too sure of
            annotators. NaN also where the engine gives points.
        annotators: the annotators that these two compare (``annotators_on_gold``); None for a table.
        evidence: what ``intervals`` resamples.
    """

    n: int
    unscored: int
    accuracy: float
    log_score: float
    brier: float
    ece: float
    balanced_accuracy: float
    macro_f1: float
    mcc: float
    error_auroc: float
    aurc: float
    annotator_spearman: float
    annotator_coverage: float
    annotators: pd.DataFrame | None = field(repr=False, compare=False)
    evidence: Evidence = field(repr=False, compare=False)

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

        Items are drawn with replacement, and annotators for the two scores of annotators; low and high are
        percentiles. Resamples in which a score does not exist are left out. Of labels that are all right, or
        all wrong, resamples are so, too: accuracy then has the exact binomial interval (of independent items,
        not those of a sequence), and so has annotator_coverage; other scores have one without width: too
        little was seen. The calibration error includes noise, and a resample has it twice; so its interval is
        mirrored at the value, cut off at 0 and stretched to hold the value, and to reach 0 where right
        probabilities might have such an error by chance.

        Returns:
            DataFrame by score with value, low and high.
        """
        return self._intervals.copy()

    @cached_property
    def _intervals(self) -> pd.DataFrame:
        return self.evidence.intervals({name: x for name, x in dict(self).items() if name not in ("n", "unscored")})


@dataclass(frozen=True)
class SpanEvaluation(Evaluation):
    """Scores of labels that are BIO tags of sequences, and of the spans of these labels.

    A span, ``posterior.spans()``, is right where its first item, last item and type are those of a true one. Only
    sequences count of which gold has all items; ``intervals`` draws sequences with replacement.

    Attributes:
        span_precision: share of the found spans that are right; NaN where none is found.
        span_recall: share of the true spans that are found; NaN where there is none.
        span_f1: 2 right / (found + true).
    """

    span_precision: float
    span_recall: float
    span_f1: float


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
        The scores; a ``SpanEvaluation`` where labels are BIO tags of sequences, a ``NumberEvaluation`` where truths
        are numbers, of which that of ranks is a ``RankingEvaluation``.

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
    classes, ranked = ClassCounts.of(p, code), RankedErrors.of(p, code)
    compared = np.empty((0, 3))
    if annotators is not None:
        compared = annotators[["accuracy", "gold_accuracy", "held"]].to_numpy(np.float64)
    some = len(compared) > 0
    scores = {name: float(score) for name, score in (classes.scores() | ranked.scores()).items()}
    spans = None if isinstance(posterior, pd.DataFrame) else span_counts(posterior, row, code)
    found = Evaluation(
        n=len(p),
        unscored=unscored,
        accuracy=accuracy(p, code),
        log_score=log_score(p, code),
        brier=brier_score(p, code),
        ece=calibration_error(p, code),
        **scores,
        annotator_spearman=float(rank_correlation(*compared.T[:2])) if some else np.nan,
        annotator_coverage=float(compared[:, 2].mean()) if some else np.nan,
        annotators=annotators,
        evidence=Evidence(p, code, compared, spans, bootstrap, level, seed),
    )
    if spans is None:
        return found
    more: dict[str, Any] = {name: float(score) for name, score in span_scores(spans.sum(0)).items()}
    return SpanEvaluation(**vars(found), **more)


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
