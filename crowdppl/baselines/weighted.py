"""Weighted votes and means: truths under weights, and weights by errors, in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crowdppl.agreement.votes import DeduplicatedVotes
from crowdppl.baselines.aggregation import Aggregation, class_votes, placed
from crowdppl.core.validation import share_between, whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.coded import require_labels
from crowdppl.data.kinds.numbers import NUMBER
from crowdppl.errors import MethodError

LEAST = 1e-12
"""Least loss of an annotator, who else would have infinite weight."""
TOLERANCE = 1e-9
"""Change of a truth, in standard deviations of the labels, at which iterations end."""


@dataclass(frozen=True)
class Claims:
    """Labels, classes or numbers, of which truths are weighted means.

    Attributes:
        item, annotator: codes, (S,).
        label: numbers (S,), or indicators of classes (S, K).
        share: part of an annotator's vote on an item, (S,).
        n_items, n_annotators: N, A.
    """

    item: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    share: np.ndarray
    n_items: int
    n_annotators: int

    @classmethod
    def of_votes(cls, votes: DeduplicatedVotes) -> Claims:
        """Votes for classes."""
        sizes = (votes.n_items, votes.n_annotators)
        return cls(votes.item, votes.annotator, np.eye(votes.n_classes)[votes.answer], votes.share, *sizes)

    @classmethod
    def of_numbers(cls, data: Annotations) -> Claims:
        """Labels that are numbers."""
        item, annotator, _ = data.label_codes()
        assert data.label_columns is not None
        label = data.label_columns[NUMBER].to_numpy(np.float64)
        return cls(item, annotator, label, np.ones(len(item)), data.n_items, data.n_annotators)

    def mean(self, weight: np.ndarray) -> np.ndarray:
        """Weighted sums of classes (N, K), or weighted means of numbers (N,), NaN without labels."""
        each = weight[self.annotator] * self.share
        if self.label.ndim == 2:
            cell = self.item[:, None] * self.label.shape[1] + np.arange(self.label.shape[1])
            sums = np.bincount(
                cell.ravel(), (each[:, None] * self.label).ravel(), self.n_items * self.label.shape[1]
            )
            return np.asarray(sums.reshape(self.n_items, -1))
        with np.errstate(invalid="ignore"):
            sums, total = (np.bincount(self.item, x, self.n_items) for x in (each * self.label, each))
            return np.asarray(sums / total)

    def errors(self, truth: np.ndarray) -> np.ndarray:
        """Errors of labels, (S,): squared, of numbers; of classes the share of the truth that is another."""
        if self.label.ndim == 1:
            return np.asarray((self.label - truth[self.item]) ** 2)
        top = truth >= truth.max(1, keepdims=True) - LEAST * np.abs(truth).max(1, keepdims=True)
        return np.asarray(1 - ((top / top.sum(1, keepdims=True))[self.item] * self.label).sum(1))

    def by_annotator(self, values: np.ndarray) -> np.ndarray:
        """Sums of values of labels (S,), by annotator (A,)."""
        return np.bincount(self.annotator, self.share * values, self.n_annotators)

    @property
    def spread(self) -> np.ndarray:
        """Of numbers the standard deviation of the item's labels, 1 where there is none, (S,); 1 of classes."""
        if self.label.ndim == 2:
            return np.ones(len(self.item))
        mean = self.mean(np.ones(self.n_annotators))
        sums, count = (np.bincount(self.item, x, self.n_items) for x in (self.errors(mean), self.share))
        sd = np.sqrt(sums / np.maximum(count, 1))
        return np.asarray(np.where(sd > 0, sd, 1)[self.item])


def crh(data: Annotations, *, max_iterations: int = 1000) -> Aggregation:
    """Weighted votes or means, each annotator's weight being the log of all losses over their own.

    Loss is the mean over an annotator's labels of 0 or 1 for classes, and for numbers of the squared error over the
    standard deviation of the item's labels; truths and weights are found in turn from equal weights, until truths
    stay. Li, Li, Gao, Zhao, Fan & Han (2014), "Resolving conflicts in heterogeneous data by truth discovery and
    source reliability estimation", https://doi.org/10.1145/2588555.2610509. The weight of an annotator without an
    error is bounded by a loss of 1e-12.

    Args:
        data: classes or numbers.
        max_iterations: at most.

    Raises:
        MethodError: for labels of another kind.

    Examples:
        >>> crowdppl.baselines.crh(crowdppl.anaesthetists()).labels()["label"].head(3).tolist()
        [1, 3, 2]
    """

    def weights(claims: Claims, error: np.ndarray) -> np.ndarray:
        count = claims.by_annotator(np.ones(len(error)))
        loss = claims.by_annotator(error / claims.spread) / np.maximum(count, LEAST)
        loss = np.maximum(loss, LEAST)
        return np.asarray(np.log(loss[count > 0].sum() / loss))

    return _in_turn("crh", data, weights, max_iterations)


def catd(data: Annotations, *, level: float = 0.95, max_iterations: int = 1000) -> Aggregation:
    """Weighted votes or means, each annotator's weight being one over an upper bound of their variance.

    The bound is the end of a chi squared interval, which is wide for those with few labels; of classes an error is
    0 or 1. Li, Li, Gao, Su, Zhao, Demirbas, Fan & Han (2014), "A confidence-aware approach for truth discovery on
    long-tail data", https://doi.org/10.14778/2735496.2735505. The sum of an annotator's errors is 1e-12 at least.

    Args:
        data: classes or numbers.
        level: of the interval.
        max_iterations: at most.

    Raises:
        MethodError: for labels of another kind, or a level that is not between 0 and 1.

    Examples:
        >>> found = crowdppl.baselines.catd(crowdppl.datasets.example("real"))
        >>> found.truth().columns.tolist()
        ['estimate', 'labels']
    """
    share_between("level", level, "0.95 means a 95 % interval")

    def weights(claims: Claims, error: np.ndarray) -> np.ndarray:
        from scipy.stats import chi2  # slow to import

        count = claims.by_annotator(np.ones(len(error)))
        return np.asarray(chi2.ppf((1 - level) / 2, count) / np.maximum(claims.by_annotator(error), LEAST))

    return _in_turn("catd", data, weights, max_iterations)


def _in_turn(
    name: str, data: Annotations, weights: Callable[[Claims, np.ndarray], np.ndarray], most: int
) -> Aggregation:
    """Truths and weights of annotators in turn, from equal weights."""
    most, kind = whole_number("max_iterations", most, 1, "1000 are usual"), require_annotations(data).alphabet.kind
    require_labels(data.blocks)
    if kind.numeric and not kind.space.ordered:
        raise MethodError(
            f"{name} takes means of numbers on a line, and labels are of kind={kind.name!r}; fit 'auto' or a "
            "method that zoo() lists"
        )
    votes = None if kind.numeric and kind.parts is None else class_votes(data, name)
    claims = Claims.of_numbers(data) if votes is None else Claims.of_votes(votes)
    if len(np.unique(claims.annotator)) < 2:
        raise MethodError(f"{name} weighs annotators against each other, and one gave all labels; take the labels")
    scale = TOLERANCE * (claims.label.std() if votes is None else 1)
    weight = np.ones(claims.n_annotators)
    truth, done, n = claims.mean(weight), False, 0
    while not done and n < most:
        weight, n = weights(claims, claims.errors(truth)), n + 1
        before, truth = truth, claims.mean(weight)
        if votes is None:
            done = bool(np.nanmax(np.abs(truth - before)) <= scale)
        else:  # votes end where labels do
            done = bool((claims.errors(truth) == claims.errors(before)).all())
    weight = np.where(np.bincount(claims.annotator, minlength=claims.n_annotators) > 0, weight, np.nan)
    return Aggregation(name, data, truth if votes is None else placed(truth, votes, data), weight, n, done)
