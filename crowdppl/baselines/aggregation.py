"""What a baseline infers: labels or numbers of items and weights of annotators, mostly without probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from crowdppl.agreement.votes import DeduplicatedVotes
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.coded import require_labels
from crowdppl.errors import MethodError, NoProbabilitiesError
from crowdppl.results import choices

TIE = 1e-9
"""Scores closer than this, relative to the largest of the item, are a tie."""


@dataclass(frozen=True, eq=False, repr=False)
class Aggregation:
    """Truths as a method without a model of labels infers them: the functions of ``crowdppl.baselines`` return it.

    It has the tables of a posterior that have a meaning without probabilities; whatever needs these raises a
    ``NoProbabilitiesError``. ``crowdppl.evaluate`` takes it as a posterior.

    Attributes:
        method: the name of the function.
        data: the annotations; their known truths play no part.
        scores: (N, K), of which the highest is an item's label, or numbers (N,), in codebook order.
        weights: (A,), what annotators count; NaN of those without labels.
        iterations: how many it took; 1 where there is a closed form.
        converged: whether they ended by themselves.
        probabilistic: whether scores are probabilities of the classes.

    Examples:
        >>> found = crowdppl.baselines.crh(crowdppl.anaesthetists())
        >>> found
        <Aggregation by crh: 45 items, 5 annotators, 4 classes>
        >>> found.labels().loc[[36, 38]]
              label  votes   tied
        item
        36        3      7  False
        38        3      7  False
        >>> found.annotators().round(2)
                   weight  labels
        annotator
        1            1.87     135
        2            1.18      45
        3            1.58      45
        4            1.87      45
        5            1.72      45
        >>> found.decide
        Traceback (most recent call last):
        crowdppl.errors.NoProbabilitiesError: crh has no probabilities, so no decide; ...
    """

    method: str
    data: Annotations
    scores: np.ndarray
    weights: np.ndarray
    iterations: int = 1
    converged: bool = True
    probabilistic: bool = False

    @property
    def of_numbers(self) -> bool:
        """Whether truths are numbers."""
        return self.scores.ndim == 1

    @property
    def shares(self) -> np.ndarray:
        """Probabilities (N, K) or, without any, 1/m for each of m classes that tie for the highest score."""
        if self.probabilistic:
            return self.scores
        top = self._top
        return np.asarray(top / top.sum(1, keepdims=True))

    @property
    def _top(self) -> np.ndarray:
        """Which classes share the highest score, bool (N, K)."""
        if self.probabilistic:
            return choices.best(self.scores)
        scale = np.abs(self.scores).max(1, keepdims=True)
        return np.asarray(self.scores >= self.scores.max(1, keepdims=True) - TIE * scale)

    def labels(self) -> pd.DataFrame:
        """The class of each item.

        Returns:
            DataFrame by item:

            - ``label``: that of the highest score; a tie is settled as by ``Posterior.labels``
            - ``votes``: labels of the item, without abstentions
            - ``tied``: whether another class has the same score

        Raises:
            MethodError: where truths are numbers.
        """
        if self.of_numbers:
            raise MethodError(f"truths that {self.method} tells here are numbers, and no classes; see truth()")
        votes = np.asarray(self.data.votes())
        code, tied = choices.settle(self._top, votes, self.data.items, self.data.classes)
        columns = {"label": self.data.classes.take(code), "votes": votes.sum(1).astype(np.int64), "tied": tied}
        return pd.DataFrame(columns, index=self.data.item_index)

    def truth(self) -> pd.DataFrame:
        """The estimate of each item's truth, a class or a number, and its labels: DataFrame by item."""
        if not self.of_numbers:
            found = self.labels()
            return found[["label", "votes"]].set_axis(["estimate", "labels"], axis=1)
        count = np.bincount(self.data.label_codes()[0], minlength=self.data.n_items)
        return pd.DataFrame({"estimate": self.scores, "labels": count}, index=self.data.item_index)

    def annotators(self) -> pd.DataFrame:
        """What each annotator counts: DataFrame by annotator with weight and labels, abstentions left out."""
        _, annotator, answer = self.data.label_codes()
        named = annotator[answer < self.data.n_classes] if self.data.n_classes else annotator
        count = np.bincount(named, minlength=self.data.n_annotators)
        return pd.DataFrame({"weight": self.weights, "labels": count}, index=self.data.annotators)

    def probabilities(self) -> pd.DataFrame:
        """Probability of each class, DataFrame (N, K); NoProbabilitiesError where the method has none."""
        if not self.probabilistic:
            self._refuse("probabilities")
        return pd.DataFrame(self.scores, index=self.data.item_index, columns=self.data.classes)

    def _refuse(self, name: str) -> NoReturn:
        raise NoProbabilitiesError(
            f"{self.method} has no probabilities, so no {name}; fit a model, such as "
            "crowdppl.fit('dawid_skene', data), for them"
        )

    def __getattr__(self, name: str) -> Any:
        """Refuses what posteriors have beyond these tables."""
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse(name)

    def __repr__(self) -> str:
        data = self.data
        classes = f", {data.n_classes} classes" if data.n_classes else ""
        return f"<Aggregation by {self.method}: {data.n_items} items, {data.n_annotators} annotators{classes}>"


def class_votes(data: Annotations, method: str) -> DeduplicatedVotes:
    """The votes of labels that are classes of single items; MethodError for other kinds."""
    kind = require_annotations(data).alphabet.kind
    require_labels(data.blocks)
    if kind.numeric or kind.parts is not None:
        raise MethodError(
            f"{method} takes classes, and labels are of kind={kind.name!r}; fit 'auto' or a method that zoo() lists"
        )
    return DeduplicatedVotes.of(data)


def labelled(votes: DeduplicatedVotes) -> np.ndarray:
    """Which annotators gave a class, bool (A,)."""
    return np.bincount(votes.annotator, minlength=votes.n_annotators) > 0


def placed(scores: np.ndarray, votes: DeduplicatedVotes, data: Annotations) -> np.ndarray:
    """Scores of labelled items as those of all, (N, K), 0 of others."""
    out = np.zeros((data.n_items, *scores.shape[1:]))
    out[votes.items] = scores
    return out
