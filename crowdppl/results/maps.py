"""From probabilities to better ones, as known truths advise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST = 1e-6
"""Probabilities are clipped here before their logarithms are mapped."""
SPREAD = 0.5
"""Prior standard deviation of a map's log scale and of its shifts."""
TEMPERATURES = np.exp(np.linspace(np.log(0.05), np.log(3.0), 25))
WIDE = 0.7
"""Prior standard deviation of a temperature's logarithm."""
MASS, DIAGONAL = 4.0, 0.9
"""Prior pseudo-counts of a channel's row, and the share of them that is on the diagonal, chance aside."""
ROUNDS = 50


@dataclass(frozen=True)
class TruthMap:
    """Maps probabilities to those under which known truths are likely; the mean of two kinds of maps.

    Attributes:
        scale, shift: of softmax(scale * log p + shift); shift is (K,).
        temperatures, weights: (T,), the weights with which temperatures are averaged over.
        channels: (T, K, K), for each temperature the probability of the truth given what labels point to.
    """

    scale: float
    shift: np.ndarray
    temperatures: np.ndarray
    weights: np.ndarray
    channels: np.ndarray

    def __call__(self, probabilities: np.ndarray) -> np.ndarray:
        """Mapped probabilities (N, K)."""
        x, out = _logits(probabilities), np.zeros(probabilities.shape)
        for temperature, weight, channel in zip(self.temperatures, self.weights, self.channels, strict=True):
            out += weight * (softmax(x / temperature) @ channel)
        return np.asarray(0.5 * softmax(self.scale * x + self.shift) + 0.5 * out)


def fit_map(probabilities: np.ndarray, truth: np.ndarray) -> TruthMap:
    """The map that known truths advise.

    Half of it is a scale and a shift for each class (Guo et al. 2017, "On calibration of modern neural networks"),
    drawn towards no change by Gaussian priors of standard deviation 1/2 on the log of the scale and on the shifts.
    The other half is averaged over temperatures: probabilities at a temperature go through a channel, a matrix that
    says how often labels point to one class and the truth is another (with a prior of 4 pseudo-counts a row that
    leans on the diagonal); a temperature weighs as much as it predicts each known truth with a channel that was
    not told it. Averages rather than the best temperature, because one odd truth would decide it. Ten known truths
    move either little. Class names and order have no say.

    Args:
        probabilities: (n, K) of items whose truth the fit did not see.
        truth: codes (n,).
    """
    k = probabilities.shape[1]
    scale, shift = fit_scale(probabilities, truth)
    prior = MASS * (DIAGONAL * np.eye(k) + (1 - DIAGONAL) / k)
    x = _logits(probabilities)
    found = [_channel(softmax(x / temperature), truth, prior) for temperature in TEMPERATURES]
    scores = np.array([score for _, score in found]) - np.log(TEMPERATURES) ** 2 / (2 * WIDE**2)
    return TruthMap(scale, shift, TEMPERATURES, softmax(scores), np.stack([channel for channel, _ in found]))


def fit_scale(probabilities: np.ndarray, truth: np.ndarray) -> tuple[float, np.ndarray]:
    """Scale and shift of the map softmax(scale * log p + shift): the mode under the priors above."""
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


def _channel(p: np.ndarray, truth: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, float]:
    """A channel (K, K) by EM, and the log-probability of the truths, each without its own part in it."""
    hit = np.eye(p.shape[1])[truth]
    counts = prior
    for _ in range(ROUNDS):
        channel = counts / counts.sum(1, keepdims=True)
        share = p * channel[:, truth].T
        share = share / share.sum(1, keepdims=True)  # (n, K): what labels pointed to, given the truth
        counts = prior + share.T @ hit
    left = counts[:, truth].T - share
    return counts / counts.sum(1, keepdims=True), float(np.log((p * left / (counts.sum(1) - share)).sum(1)).sum())


def softmax(x: np.ndarray) -> np.ndarray:
    """Shares along the last dimension, proportional to exp(x)."""
    from scipy.special import softmax as shares  # slow to import

    return np.asarray(shares(x, axis=-1))


def _logits(probabilities: np.ndarray) -> np.ndarray:
    x = np.log(np.clip(probabilities, LEAST, None))
    return np.asarray(x - x.mean(1, keepdims=True))
