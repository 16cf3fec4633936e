"""How well a posterior knows the truth and the annotators, scored against known truths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.data import truths
from crowdppl.doors.counts import seed_number, whole_number
from crowdppl.doors.telling import tell
from crowdppl.errors import CrowdpplWarning, DataError, ToldWarning
from crowdppl.results import intervals
from crowdppl.scoring import scores
from crowdppl.scoring.bootstrap import Evidence
from crowdppl.scoring.scores import accuracy, brier_score, calibration_error, log_score
from crowdppl.statistics.estimates import check_level
from crowdppl.tables.codebook import plain

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

SLACK = 1e-4
"""How far the probabilities of an item may add up to something else than one."""
COUNTS = ("n", "unscored")
"""Numbers of an evaluation that are no scores."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of a posterior; ``dict(evaluation)`` and ``evaluation["accuracy"]`` work.

    The label of an item is its most probable class. Where m classes tie for it, the item counts 1/m for each of
    them in every score that looks at labels. A score that does not exist is NaN.

    Attributes:
        n, unscored: items that were scored; those with a known truth that the posterior knows nothing of.
        accuracy: share of items whose label is the truth; a tie of m classes that holds the truth counts 1/m.
        log_score: mean of -log p(truth) in nats; 0 is perfect, log K is knowing nothing. Probabilities are
            clipped at 1e-10.
        brier: mean over items of the summed squared error of the K probabilities; 0 is perfect, 2 the worst.
        ece: expected calibration error: how far confidence and accuracy lie apart, averaged over 15 equal bins
            of confidence with the items as weights; 0 is perfect. A small sample alone makes it larger than 0.
        balanced_accuracy: accuracy within each class that gold has, averaged over these classes.
        macro_f1: mean of F1, the harmonic mean of precision and recall, over classes that are a truth or a label.
        mcc: Matthews' correlation of label and truth (for any number of classes): 1 is perfect, 0 is chance. NaN
            where all truths, or all labels, are of one class.
        error_auroc: probability that an error is less confident than a right label (confidence is the highest
            probability); equally confident counts 1/2, so 0.5 is chance. A tied item is an error in part. NaN
            without any error, and without anything else.
        aurc: area under the risk-coverage curve: the share of errors among the n most confident items, averaged
            over n = 1 ... N; equally confident items come in random order, in expectation. 0 is perfect.
        annotator_spearman: rank correlation of the annotators' estimated accuracies with their accuracies on
            gold, over annotators with at least 5 labels on items of gold. NaN for a bare table, for fewer than
            two such annotators, and where either accuracy is the same for all.
        annotator_coverage: share of these annotators whose interval of accuracy, at the level of the evaluation,
            holds their accuracy on gold, once it is widened by the binomial noise of a gold that has only some of
            their labels. Where gold has them all, a right posterior holds more than the level; a share below it
            means that the posterior is too sure of annotators. NaN also where the engine gives points.
        annotators: what these two compare, and how (``crowdppl.scoring.scores.annotators_on_gold``); None for a
            table.
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

    def keys(self) -> Iterator[str]:
        """Names of the scores."""
        return (field.name for field in fields(self) if field.compare)

    def __getitem__(self, name: str) -> float:
        """A score by its name."""
        if name not in self.keys():
            raise KeyError(name)
        value: float = getattr(self, name)
        return value

    @property
    def bins(self) -> pd.DataFrame:
        """What is behind ``ece``: DataFrame by bin of confidence with low, high, n, confidence and accuracy."""
        return scores.reliability_bins(self.evidence.probabilities, self.evidence.truth)

    @property
    def risk_coverage(self) -> pd.DataFrame:
        """The share of errors (risk) if only the share ``coverage`` of items, the most confident, is kept.

        Returns:
            DataFrame by confidence, falling, with coverage and risk: all items at least so confident are kept.
        """
        return scores.risk_coverage(self.evidence.probabilities, self.evidence.truth)

    def intervals(self) -> pd.DataFrame:
        """How far each score would move with other items: bootstrap intervals, computed at the first call.

        Items are drawn with replacement, and for the two scores of annotators, which are means over annotators,
        annotators; low and high are percentiles. Resamples in which a score does not exist are left out. The
        calibration error takes noise for error, and a resample has the noise twice; so its interval is mirrored
        at the value, cut off at 0 and stretched to hold the value, and to reach 0 where right probabilities might
        have such an error by chance. Where they are nearly right, it still holds the error of all items too
        seldom. A sample without errors says nothing here of how rare they are: accuracy 1 has the interval from 1
        to 1.

        Returns:
            DataFrame by score with value, low and high.
        """
        return self._intervals.copy()

    @cached_property
    def _intervals(self) -> pd.DataFrame:
        return self.evidence.intervals({name: x for name, x in dict(self).items() if name not in COUNTS})


def evaluate(
    posterior: Posterior | pd.DataFrame,
    gold: pd.Series | Mapping[Any, Any],
    *,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """Scores label probabilities, and the annotators' accuracies, against known truths.

    Args:
        posterior: a posterior, or its probabilities (items x classes).
        gold: the true class of items by their ids; items that the posterior does not have are warned of, and
            so are those whose truth the fit was told (``ToldWarning``): these are scored, but prove nothing.
        bootstrap, seed: resamples from which ``Evaluation.intervals`` are computed, and their seed.
        level: probability of these intervals, and of the annotators' whose coverage is counted.

    Raises:
        DataError: when there is no item to score, an id has two truths or two rows, a truth is no class, or the
            probabilities of an item are none.
        MethodError: when the level is not between 0 and 1, or the resamples or the seed are no whole numbers.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 4}, seed=0)
        >>> posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
        >>> round(crowdppl.evaluate(posterior, crowd.truth).accuracy, 3)
        0.887
    """
    check_level(level)
    bootstrap = whole_number("bootstrap", bootstrap, 1, "1000 resamples are usual")
    seed = seed_number(seed)
    p, code, row, unscored = matched(posterior, gold)
    annotators = None if isinstance(posterior, pd.DataFrame) else _on_gold(posterior, row, code, level)
    classes, ranked = scores.ClassCounts.of(p, code), scores.RankedErrors.of(p, code)
    nothing = np.empty((0, 3)) if annotators is None else annotators[["accuracy", "gold_accuracy", "held"]]
    compared = np.asarray(nothing, np.float64)
    some = len(compared) > 0
    return Evaluation(
        n=len(p),
        unscored=unscored,
        accuracy=accuracy(p, code),
        log_score=log_score(p, code),
        brier=brier_score(p, code),
        ece=calibration_error(p, code),
        balanced_accuracy=float(classes.balanced_accuracy()),
        macro_f1=float(classes.macro_f1()),
        mcc=float(classes.mcc()),
        error_auroc=float(ranked.auroc()),
        aurc=float(ranked.aurc()),
        annotator_spearman=float(scores.rank_correlation(*compared.T[:2])) if some else np.nan,
        annotator_coverage=float(compared[:, 2].mean()) if some else np.nan,
        annotators=annotators,
        evidence=Evidence(p, code, compared, bootstrap, level, seed),
    )


def matched(
    posterior: Posterior | pd.DataFrame, gold: pd.Series | Mapping[Any, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Items of gold in a posterior; the arguments and errors of ``evaluate``.

    Returns:
        Their probabilities (n, K), truth codes (n,) and rows in the posterior (n,), and how many are not there.
    """
    table, truth = truths.table_of(posterior), truths.by_item(gold).dropna()
    row = truths.rows(table.index, truth.index)
    code = truths.codes(table.columns, truth[row >= 0], isinstance(posterior, pd.DataFrame))
    unscored = int((row < 0).sum())
    if unscored:
        tell(
            f"{unscored} of {len(truth)} items with a known truth are not in the posterior and are not scored",
            CrowdpplWarning,
        )
    row = row[row >= 0]
    if warning := truths.told(posterior, row):
        tell(warning, ToldWarning)
    p = truths.values_of(table)[row]
    wrong = np.flatnonzero(~((p >= 0).all(1) & (np.abs(p.sum(1) - 1) <= SLACK)))
    if len(wrong):
        item, values = plain(table.index[row[wrong[0]]]), p[wrong[0]].tolist()
        raise DataError(
            f"the probabilities of item {item!r} are {values}; they must be at least 0 and add up to 1: divide "
            "counts by their sum, and leave out items of which nothing is known"
        )
    return p, code, row, unscored


def _on_gold(posterior: Posterior, row: np.ndarray, truth: np.ndarray, level: float) -> pd.DataFrame | None:
    """The annotators' accuracies on gold beside the posterior's; None for a design without labels."""
    from crowdppl.data.decoding import row_codes  # opens torch, which a bare table does not need

    data = posterior.data
    if not data.blocks[0].observed:
        return None
    known = np.full(data.n_items, -1)
    known[row] = truth
    item, cell = row_codes(data.blocks, data.order)
    annotator, answer = np.divmod(cell, np.int32(data.n_answers))
    named = answer < data.n_classes
    estimate = intervals.accuracy(posterior.result, level)
    table = scores.annotators_on_gold(annotator[named], answer[named], known[item[named]], estimate, level)
    return table.set_axis(data.annotators[table.index], axis=0)
