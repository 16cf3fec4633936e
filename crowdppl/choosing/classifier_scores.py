"""How well a method's classifier explains labels of items that it was not shown: a score that needs no gold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
import torch

from crowdppl import registry
from crowdppl.data.annotations import Annotations
from crowdppl.data.decoding import row_codes
from crowdppl.data.splitting import item_folds, keep
from crowdppl.doors import demands
from crowdppl.doors.counts import whole_number
from crowdppl.doors.naming import kind_of
from crowdppl.errors import ConvergenceWarning, CrowdpplWarning, DataError
from crowdppl.fitting import fit_alone
from crowdppl.inference.loop import uninterrupted
from crowdppl.inference.options import options_from, warn_of_unused
from crowdppl.inference.running import run
from crowdppl.results.leave_one_out import standard_error

if TYPE_CHECKING:
    from crowdppl.inference.options import FitOptions
    from crowdppl.stories.story import Story

JUDGE = "bayesian_dawid_skene"
"""The method that reads labels for every classifier alike."""
LEAST = 1e-12
"""The probability below which a classifier's is taken for this."""


@dataclass(frozen=True, repr=False)
class ClassifierScore:
    """Log predictive probabilities of all labels of items left out, in nats; higher is better.

    Attributes:
        method, inference: what was scored.
        items: DataFrame by item, for items with labels: labels, how many; fold; log_p, the log-probability of its
            labels together, given the item's features and the other items.
        probabilities: DataFrame by item, a column a class: the classifier's, which was not shown the item's labels.
        seconds: wall-clock time of all fits and predictions.
    """

    method: str
    inference: str
    items: pd.DataFrame
    probabilities: pd.DataFrame
    seconds: float

    @property
    def per_item(self) -> float:
        """Mean over items of ``log_p``."""
        return float(self.items["log_p"].mean())

    @property
    def per_item_se(self) -> float:
        """Standard error of ``per_item``."""
        return standard_error(self.items["log_p"].to_numpy(), np.arange(len(self.items)))

    def ahead_of(self, other: ClassifierScore) -> tuple[float, float]:
        """Mean difference from another score of the same items, and its standard error.

        Raises:
            DataError: when the items or their labels are others, or the other is no score.
        """
        if not isinstance(other, ClassifierScore):
            raise DataError(f"other is {kind_of(other)}; give what classifier_score returned")
        if not self.items["labels"].equals(other.items["labels"]):
            raise DataError(
                f"{self.method} and {other.method} were scored on different items; give both the same data"
            )
        return lead(self.items["log_p"].to_numpy(), other.items["log_p"].to_numpy())

    def __repr__(self) -> str:
        number = f"{self.per_item:.4f} +- {self.per_item_se:.4f} an item"
        return f"<ClassifierScore of {self.method} by {self.inference}: {number}>"


def lead(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """How far numbers of items, (N,) each, are ahead of others on average, and the standard error of that."""
    gap = one - other
    return float(gap.mean()), standard_error(gap, np.arange(len(gap)))


def classifier_score(
    model: str | Story,
    data: Annotations,
    *,
    folds: int = 5,
    inference: str = "auto",
    settings: Mapping[str, Any] | None = None,
    **options: Unpack[FitOptions],
) -> ClassifierScore:
    """How probable the labels of whole items are, to a classifier that was trained without them.

    Items are dealt out into folds. Each fold's labels (and known truths) are left out in turn, the method is fitted
    to the rest, and its classifier looks at the features of the items left out. Then Bayesian Dawid-Skene, with
    these probabilities in the place of the prevalence, learns the annotators from the other folds and says how
    probable the labels left out are. It is the same judge for every method, so that scores tell classifiers apart,
    whatever a method believes of annotators. Labels of an item err together: a method that knows the item's other
    labels may predict the next one well and the truth badly, which ``heldout_score`` rewards.

    Args:
        model: a method's name, or a story, with a classifier.
        data: the annotations, with features.
        folds: how many; 2 or more.
        inference, settings, options: as for ``fit``; its seed also deals out the folds.

    Raises:
        MethodError: for fewer than 2 folds, a method without a classifier, or what ``fit`` refuses.
        DataError: when data have no features, or fewer items with labels than folds.
        KeyboardInterrupt: when Ctrl-C stops one of the fits; there is no score from some of the folds.

    Examples:
        >>> data = crowdppl.digits(seed=0).data
        >>> short = {"training": {"epochs": 5}}
        >>> score = crowdppl.classifier_score("raykar", data, folds=2, inference="em", settings=short)
        >>> round(score.per_item)
        -5
    """
    folds = whole_number("folds", folds, 2, "one is left out, and the others are learned from")
    if demands.require_annotations(data).features is None:
        raise DataError("data have no features, so that no classifier could look at items; give features=")
    began = time.perf_counter()
    seed = options_from(options, inference).seed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fold that did not settle scores as it is
        warnings.simplefilter("ignore", CrowdpplWarning)
        item, _ = row_codes(data.blocks, data.order)
        fold = item_folds(data, folds, seed)
        if len(np.unique(fold)) < folds:
            raise DataError(f"folds={folds} are too many for {len(np.unique(item))} items with labels; give fewer")
        shares = np.full((data.n_items, data.n_classes), 1 / data.n_classes)
        for number in range(folds):
            hidden = np.unique(item[fold == number])
            shown = _without(data, fold != number, hidden)
            part = uninterrupted(fit_alone(model, shown, inference, settings, options))
            shares[hidden] = part.classify(data.features).reindex(data.items).to_numpy()[hidden]
        judged = _judged(data, shares, fold, folds, seed)
    warn_of_unused(options, [part.inference])
    told, first = np.unique(item, return_index=True)
    table = {"labels": np.bincount(item, minlength=data.n_items)[told], "fold": fold[first], "log_p": judged[told]}
    items = pd.DataFrame(table, index=data.items[told])
    probabilities = pd.DataFrame(shares[told], index=data.items[told], columns=data.classes)
    return ClassifierScore(part.method, part.inference, items, probabilities, time.perf_counter() - began)


def _without(data: Annotations, kept: np.ndarray, hidden: np.ndarray) -> Annotations:
    """Some of the labels, and no known truth of the items that are hidden."""
    part, gold = keep(data, kept), data.gold
    if gold is None:
        return part
    known = gold.drop(data.items[hidden], errors="ignore")
    return part.with_gold(known if len(known) else None)


def _judged(data: Annotations, shares: np.ndarray, fold: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Log-probability of each item's labels, (N,), by annotators that were learned from the other folds."""
    log = np.log(np.clip(shares, LEAST, None))
    item, cell = row_codes(data.blocks, data.order)
    annotator, answer = np.divmod(cell, np.int32(data.n_answers))
    plain = data if data.gold_codes is None else data.with_gold(None)
    story = registry.method(JUDGE, prevalence="uniform")
    options, of_labels = options_from({"seed": seed}, "vb"), np.zeros_like(log)
    for number in range(folds):
        known, out = keep(plain, fold != number), fold == number
        evidence = torch.from_numpy(log[known.order])
        result = run(story, known, "vb", options, evidence=evidence, spread=False)[2]
        if result.diagnostics["interrupted"]:
            raise KeyboardInterrupt
        np.add.at(of_labels, item[out], np.log(result.table[annotator[out], :, answer[out]]))
    return np.asarray(np.logaddexp.reduce(log + of_labels, axis=1))
