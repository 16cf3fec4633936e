"""The evaluation of a posterior by known truths: scores, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.baselines import Aggregation
from crowdppl.core.intervals import check_level, of_share
from crowdppl.core.validation import kind_of, seed_number, warn, whole_number
from crowdppl.data.gold import ITS_PROBABILITIES, class_codes, probability_array, rows_of_truths, with_one_class
from crowdppl.data.ids import by_item, native
from crowdppl.data.kinds.parts import in_one_column
from crowdppl.errors import CrowdpplWarning, DataError, NoProbabilitiesError
from crowdppl.evaluation import metrics
from crowdppl.evaluation.annotator_metrics import compared_with_gold
from crowdppl.evaluation.metrics import Sample, Scored, scores_of
from crowdppl.evaluation.number_metrics import NumberEvaluation, evaluate_numbers, warn_of_gold
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.results.spans import in_sequences, most_probable, tags_of
from crowdppl.results.truths import probabilities

WEIGHTS_AT_ONCE = 2**22
TOLERANCE = 1e-4
"""How far the sum of an item's probabilities may be from 1."""


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
    confidence, ties = probabilities.max(1), (metrics.label_shares(probabilities) > 0).sum(1)
    home, stream, n = metrics.bin_of(confidence), np.random.default_rng(seed), len(probabilities)
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
        compare: makes the table of annotators (``annotators_on_gold``), which may take longer than all else.
        spans: of sequences, right, found and true ones, (Q, 3); None for other labels.
        resamples, level, seed: of ``intervals``.
        of_labels: whether probabilities are only shares of labels that tie, as of baselines.
    """

    probabilities: np.ndarray
    truth: np.ndarray
    compare: Callable[[], pd.DataFrame | None]
    spans: np.ndarray | None
    resamples: int
    level: float
    seed: int
    of_labels: bool = False

    @cached_property
    def annotators(self) -> pd.DataFrame | None:
        """The annotators whose accuracies are compared; None for a table."""
        return self.compare()

    @cached_property
    def compared(self) -> np.ndarray:
        """Their estimated accuracies, those on gold, and whether the intervals hold these, (A, 3)."""
        columns = ["accuracy", "gold_accuracy", "held"]
        return np.empty((0, 3)) if self.annotators is None else self.annotators[columns].to_numpy(np.float64)

    @cached_property
    def of_items(self) -> dict[str, float]:
        """The scores of items by name."""
        return _numbers(scores_of("item", Sample.of(self.probabilities, self.truth), self.of_labels))

    @cached_property
    def scores(self) -> dict[str, float]:
        """All scores by name; those of spans are missing where labels have none."""
        some = self.compared if len(self.compared) else np.full((1, 3), np.nan)
        found = scores_of("annotator", some[None])
        if self.spans is not None:
            found |= scores_of("sequence", self.spans.sum(0)[None])
        return self.of_items | _numbers(found)

    def __getstate__(self) -> dict[str, Any]:
        """What was scored, without the fit."""
        return {**vars(self), "annotators": self.annotators, "compare": None}

    def draws(self) -> dict[str, np.ndarray]:
        """Scores on resamples, (resamples,) each, of what is scored, sorted so that a seed means the same."""
        p, truth = self.probabilities, self.truth
        order = np.lexsort((*p.T, truth, metrics.rounded_confidence(p)))
        scored = Scored(p[order], truth[order])
        parts = [
            scores_of("item", Sample(scored, _counts(rows)), self.of_labels) for rows in self._drawn(len(order))
        ]
        if len(self.compared):
            ordered = self.compared[np.lexsort(self.compared.T)]
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
        units = {"accuracy": len(self.truth), "annotator_coverage": len(self.compared)}
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


def nobody() -> None:
    """No annotators, of a table."""


def _numbers(found: Mapping[str, np.ndarray]) -> dict[str, float]:
    return {name: float(score[0]) for name, score in found.items()}


@dataclass(frozen=True, repr=False, eq=False)
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
        evidence: what ``intervals`` resamples.
    """

    n: int
    unscored: int
    evidence: Evidence

    @property
    def scores(self) -> Mapping[str, float]:
        """By name; ``crowdppl.evaluation.metrics`` has a function of each name that says what it is."""
        return self.evidence.scores

    @property
    def annotators(self) -> pd.DataFrame | None:
        """The annotators whose accuracies are compared (``annotators_on_gold``); None for a table."""
        return self.evidence.annotators

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Evaluation):
            return NotImplemented
        return (self.n, self.unscored, self.scores) == (other.n, other.unscored, other.scores)

    def keys(self) -> list[str]:
        """Names of the numbers of items and of the scores."""
        return ["n", "unscored", *self.scores]

    def __getitem__(self, name: str) -> float:
        """A score by its name."""
        if name in self.evidence.of_items:  # without the others, which may take long
            return self.evidence.of_items[name]
        return self.scores[name] if name in self.scores else {"n": self.n, "unscored": self.unscored}[name]

    def __getattr__(self, name: str) -> float:
        """A score as an attribute."""
        if "evidence" not in vars(self):  # while a copy is made
            raise AttributeError(name)
        if name in self.evidence.of_items or name in self.scores:
            return self[name]
        if self.evidence.of_labels and (name in metrics.METRICS or hasattr(type(self), name)):
            raise _no_probabilities(name)
        raise AttributeError(f"there is no score {name!r}; there are {', '.join(self.scores)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.scores]

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(f'{name}={self[name]!r}' for name in self.keys())})"

    @property
    def bins(self) -> pd.DataFrame:
        """The bins of ``ece``: DataFrame by bin of confidence with low, high, n, confidence and accuracy."""
        if self.evidence.of_labels:
            raise _no_probabilities("bins")
        return metrics.reliability_bins(self.evidence.probabilities, self.evidence.truth)

    @property
    def risk_coverage(self) -> pd.DataFrame:
        """By falling confidence: the share of items at least so confident, and the share of errors among them."""
        if self.evidence.of_labels:
            raise _no_probabilities("risk_coverage")
        return metrics.risk_coverage(self.evidence.probabilities, self.evidence.truth)

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
            DataFrame by score:

            - ``value``: the score
            - ``low``, ``high``: ends of the interval; NaN where the score does not exist
        """
        return self._intervals.copy()

    @cached_property
    def _intervals(self) -> pd.DataFrame:
        return self.evidence.intervals(self.scores)


def _no_probabilities(name: str) -> NoProbabilitiesError:
    return NoProbabilitiesError(
        f"{name} needs probabilities, and what was scored has labels alone; score a fit, or a table of them"
    )


def evaluate(
    posterior: Fit | Aggregation | pd.DataFrame,
    gold: pd.Series | Mapping[Any, Any],
    *,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Evaluation | NumberEvaluation:
    """Scores label probabilities, and the annotators' accuracies, against known truths.

    Args:
        posterior: a posterior, its probabilities (items x classes), or what a baseline infers, of which only scores
            of labels exist (``NoProbabilitiesError``); its annotators' weights take the place of accuracies.
        gold: the true class of items, a Series or a mapping by their ids or, where two columns name an item, by
            these, as results are. Of similarity also the cluster of each object; of comparisons also a series by
            object, called "rank" or "score", which tells the winners. Items that are not in the posterior are
            warned of, and so are those whose truth the fit was given (``GoldLeakWarning``).
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
    if isinstance(posterior, Fit):
        posterior.data.require_whole("a score")
    if isinstance(posterior, Fit) and isinstance(posterior.result.truth, NumberTruth):
        return evaluate_numbers(posterior, gold, bootstrap, level, seed)
    if isinstance(posterior, Aggregation) and posterior.of_numbers:
        return evaluate_numbers(posterior, gold, bootstrap, level, seed)
    p, code, row, unscored = matched(posterior, gold, of_labels=True)
    compare: Callable[[], pd.DataFrame | None] = nobody
    if not isinstance(posterior, pd.DataFrame):
        compare = partial(compared_with_gold, posterior, row, code, level)
    spans = span_counts(posterior, row, code) if isinstance(posterior, Fit) else None
    of_labels = isinstance(posterior, Aggregation) and not posterior.probabilistic
    return Evaluation(len(p), unscored, Evidence(p, code, compare, spans, bootstrap, level, seed, of_labels))


def matched(
    posterior: Fit | Aggregation | pd.DataFrame, gold: pd.Series | Mapping[Any, Any], of_labels: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Items of gold in a posterior: probabilities (n, K), codes and rows (n,), and how many are not there.

    Of a baseline without probabilities shares of labels that tie, where these will do (``of_labels``).
    """
    table = table_of(posterior, of_labels)
    if not isinstance(posterior, pd.DataFrame):
        truth, ids = by_item(posterior.data.truths_by_id(gold)), posterior.data.items
    else:
        truth, ids = by_item(gold), in_one_column(table.index)
        truth = truth.set_axis(in_one_column(truth.index, table.index.names))
    truth = with_one_class(truth, table.columns)
    row = rows_of_truths(ids, truth.index)
    code = class_codes(table.columns, truth[row >= 0], isinstance(posterior, pd.DataFrame))
    unscored = int((row < 0).sum())
    if unscored:
        warn(
            f"{unscored} of {len(truth)} items with a known truth are not in the posterior and are not scored",
            CrowdpplWarning,
        )
    row = row[row >= 0]
    if not isinstance(posterior, pd.DataFrame):
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


def table_of(posterior: Fit | Aggregation | pd.DataFrame, of_labels: bool = False) -> pd.DataFrame:
    """Probabilities, items x classes; DataError for anything but a posterior or a DataFrame without twins."""
    if isinstance(posterior, Aggregation):
        index, classes = posterior.data.item_index, posterior.data.classes
        return pd.DataFrame(posterior.shares, index, classes) if of_labels else posterior.probabilities()
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
