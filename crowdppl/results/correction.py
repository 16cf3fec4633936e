"""What was done to probabilities that are too sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from crowdppl.data.decoding import row_codes
from crowdppl.results.maps import TruthMap, softmax

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.posterior import Posterior

RATES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Correlations of an item's labels among which held-out labels choose."""
LEAST = 1e-300
"""A probability below is taken for this: evidence of more than 690 nats counts as 690."""
SEEN = 1e-6
"""A probability that is worth a note where it should be smaller."""
SPARSE = 2.0
"""Annotators an item below which labels left out have nothing to say."""


@dataclass(frozen=True)
class Correction:
    """What was done to the probabilities of a posterior, and what they were before.

    Attributes:
        raw: (N, K) probabilities of the method itself, in codebook order.
        weights: of the methods whose probabilities are averaged, by name.
        rates: discount of each of them, the correlation of an item's labels given its truth; 0 is none.
        scores: mean log-probability of a label left out, of each method, discounted, and of their average.
        gold: known truths to which the map was fitted; 0 without a map.
        truth_map: that map; None without one.
        notes: what else there is to say.
        others: fits of the other methods that are averaged, by name, each with its own probabilities.
    """

    raw: np.ndarray
    weights: Mapping[str, float]
    rates: Mapping[str, float]
    scores: Mapping[str, float]
    gold: int = 0
    truth_map: TruthMap | None = None
    notes: tuple[str, ...] = ()
    others: Mapping[str, Posterior] = field(default_factory=dict, repr=False)

    def __call__(
        self, found: Mapping[str, np.ndarray], data: Annotations, before: np.ndarray | None = None
    ) -> np.ndarray:
        """Discounted, averaged and mapped probabilities, (N, K); a known truth is certain.

        Args:
            found: (N, K) by each of the methods, by name.
            data: the items, whose labels are counted.
            before: labels that these items had in earlier fits, (N,).
        """
        labels, out = labels_an_item(data), np.zeros((data.n_items, data.n_classes))
        labels = labels if before is None else labels + before
        for name, weight in self.weights.items():
            out += weight * discount(found[name], labels, self.rates[name])
        out = out / out.sum(1, keepdims=True)
        out = out if self.truth_map is None else self.truth_map(out)
        if data.gold_codes is not None:
            known = np.flatnonzero(data.gold_codes >= 0)
            out[known] = np.eye(data.n_classes)[data.gold_codes[known]]
        return np.asarray(out)

    @property
    def main(self) -> str:
        """Name of the method of the largest weight."""
        return max(self.weights, key=lambda name: self.weights[name])

    @property
    def leaves_all(self) -> bool:
        """Whether the probabilities are still the method's own: one method, no discount, no map."""
        return len(self.weights) == 1 and not any(self.rates.values()) and not self.gold

    def __str__(self) -> str:
        parts = [
            f"{weight:.2f} {name}" + (f" (labels correlated by {self.rates[name]:g})" if self.rates[name] else "")
            for name, weight in self.weights.items()
        ]
        if len(parts) == 1:
            (name,) = self.rates
            rate = self.rates[name]
            text = f"labels of an item are taken to be correlated by {rate:g}" if rate else f"{name} as it is"
        else:
            text = "probabilities are averaged: " + " + ".join(parts)
        if self.truth_map is not None:
            text += f", then mapped to {self.gold} known truths (scale {self.truth_map.scale:.2f})"
        return text


def discount(probabilities: np.ndarray, labels: np.ndarray, rate: float) -> np.ndarray:
    """Probabilities as if n labels of an item were worth n / (1 + rate * (n - 1)) independent ones.

    The design effect of cluster samples (Kish 1965, Survey sampling): labels of an item that are correlated by
    ``rate`` given its truth say less than as many independent ones. The evidence is divided by it, the prevalence's
    part too, so that the most probable class stays. A fit's probabilities end at 1e-300: evidence beyond that is
    lost, so that an item with hundreds of labels comes out less sure than it should be (``cut``), and classes below
    it come out alike.

    Args:
        probabilities: (N, K).
        labels: number of labels of each item, (N,); an item without any stays as it is.
        rate: between 0, which changes nothing, and 1, by which any number of labels counts as one.
    """
    effect = 1 + rate * np.maximum(labels - 1, 0)
    return softmax(np.log(np.clip(probabilities, LEAST, None)) / effect[:, None])


def cut(probabilities: np.ndarray, labels: np.ndarray, rate: float) -> np.ndarray:
    """Which items lost evidence that shows: a class below 1e-300 that the discount lifts above 1e-6; bool (N,)."""
    lost = probabilities.min(1) < LEAST
    return np.asarray(lost & (discount(probabilities, labels, rate).min(1) > SEEN))


def labels_an_item(data: Annotations) -> np.ndarray:
    """Number of labels of each item that name a class, in codebook order, (N,); who abstains agrees with nobody."""
    return np.asarray(data.votes().sum(1))


def annotators_an_item(data: Annotations) -> float:
    """Annotators who gave an item a class, repeats counted once: the mean over items that have any."""
    item, cell = row_codes(data.blocks, data.order)
    annotator, answer = np.divmod(cell, np.int32(data.n_answers))
    named = answer < data.n_classes
    pairs = np.unique(item[named].astype(np.int64) * data.n_annotators + annotator[named])
    return len(pairs) / max(1, len(np.unique(pairs // data.n_annotators)))


def too_sparse(data: Annotations) -> bool:
    """Whether items have too few annotators for labels left out to say how far labels depend on each other."""
    return annotators_an_item(data) < SPARSE


def sparse_note(data: Annotations, method: str) -> str:
    """What to say where a method stands as it is, because annotators are too few."""
    return (
        f"{annotators_an_item(data):.2f} annotators an item, repeats and abstentions aside, are too few for labels "
        f"left out to say how far labels of an item depend on each other, so that {method} stands as it is"
    )
