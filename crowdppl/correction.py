"""What was done to probabilities that are too sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from crowdppl.maps import softmax

RATES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Correlations of an item's labels among which held-out labels choose."""


@dataclass(frozen=True)
class Correction:
    """What was done to the probabilities of a posterior, and what they were before.

    Attributes:
        raw: (N, K) probabilities of the method itself, in codebook order.
        weights: of the methods whose probabilities are averaged, by name.
        rates: discount of each of them, the correlation of an item's labels given its truth; 0 is none.
        scores: mean log-probability of a label left out, of each method, discounted, and of their average.
        gold: known truths to which the map was fitted; 0 without a map.
        scale, shift: of the half of that map that is softmax(scale * log p + shift); 1 and nothing without one.
        channel: (K, K) mean channel of its other half, [class that labels point to, truth]; None without one.
        notes: what else there is to say.
    """

    raw: np.ndarray
    weights: Mapping[str, float]
    rates: Mapping[str, float]
    scores: Mapping[str, float]
    gold: int = 0
    scale: float = 1.0
    shift: tuple[float, ...] = ()
    channel: np.ndarray | None = None
    notes: tuple[str, ...] = ()

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
        return text + (f", then mapped to {self.gold} known truths (scale {self.scale:.2f})" if self.gold else "")


def discount(probabilities: np.ndarray, labels: np.ndarray, rate: float) -> np.ndarray:
    """Probabilities as if n labels of an item were worth n / (1 + rate * (n - 1)) independent ones.

    The design effect of cluster samples (Kish 1965, Survey sampling): labels of an item that are correlated by
    ``rate`` given its truth say less than as many independent ones. The evidence is divided by it, the prevalence's
    part too, so that the most probable class stays.

    Args:
        probabilities: (N, K).
        labels: number of labels of each item, (N,).
        rate: between 0, which changes nothing, and 1, by which any number of labels counts as one.
    """
    effect = 1 + rate * np.maximum(labels - 1, 0)
    return softmax(np.log(np.clip(probabilities, 1e-300, None)) / effect[:, None])
