"""Probabilities that are too sure, made honest: by labels left out, and by known truths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

RATES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Correlations of an item's labels among which held-out labels choose."""
LEAST = 1e-6
"""Probabilities are clipped here before a map of their logarithms."""
SPREAD = 0.5
"""Prior standard deviation of a map's log scale and of its shifts."""


@dataclass(frozen=True)
class Correction:
    """What was done to the probabilities of a posterior, and what they were before.

    Attributes:
        raw: (N, K) probabilities of the method itself, in codebook order.
        weights: of the methods whose probabilities are averaged, by name.
        rates: discount of each of them, the correlation of an item's labels given its truth; 0 is none.
        scores: mean log-probability of a label left out, of each method, discounted, and of their average.
        gold: known truths to which the map was fitted; 0 without a map.
        scale, shift: of that map, softmax(scale * log p + shift); 1 and zeros without one.
        notes: what else there is to say.
    """

    raw: np.ndarray
    weights: Mapping[str, float]
    rates: Mapping[str, float]
    scores: Mapping[str, float]
    gold: int = 0
    scale: float = 1.0
    shift: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [
            f"{weight:.2f} {name}" + (f" (labels correlated by {self.rates[name]:g})" if self.rates[name] else "")
            for name, weight in self.weights.items()
        ]
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


def softmax(x: np.ndarray) -> np.ndarray:
    """Shares along the last dimension, proportional to exp(x)."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def fit_map(probabilities: np.ndarray, truth: np.ndarray) -> tuple[float, np.ndarray]:
    """Scale and shift of the map softmax(scale * log p + shift) under which known truths are most probable.

    A temperature and a shift for each class (Guo et al. 2017, "On calibration of modern neural networks"), drawn
    towards no change by Gaussian priors of standard deviation 1/2 on the log of the scale and on the shifts, so
    that ten known truths move it little. Class names and order have no say, and the map is monotone.

    Args:
        probabilities: (n, K) of items whose truth the fit did not see.
        truth: codes (n,).
    """
    from scipy.optimize import minimize  # slow to import

    x, k = _logits(probabilities), probabilities.shape[1]
    hit = np.eye(k)[truth]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        scale, shift = np.exp(theta[0]), theta[1:]
        p = softmax(scale * x + shift)
        error = p - hit
        value = -np.log(np.clip((p * hit).sum(1), 1e-300, None)).sum() + (theta**2).sum() / (2 * SPREAD**2)
        slope = np.concatenate([[scale * (error * x).sum()], error.sum(0)]) + theta / SPREAD**2
        return float(value), slope

    best = minimize(loss, np.zeros(k + 1), jac=True, method="L-BFGS-B").x
    return float(np.exp(best[0])), best[1:]


def apply_map(probabilities: np.ndarray, scale: float, shift: np.ndarray) -> np.ndarray:
    """Probabilities (N, K) through a map that ``fit_map`` found."""
    return softmax(scale * _logits(probabilities) + shift)


def _logits(probabilities: np.ndarray) -> np.ndarray:
    x = np.log(np.clip(probabilities, LEAST, None))
    return np.asarray(x - x.mean(1, keepdims=True))
