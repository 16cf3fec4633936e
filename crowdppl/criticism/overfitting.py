"""What a fit learned by heart: the probability of each label without itself."""

from __future__ import annotations

import math

import numpy as np

MIN_PROBABILITY = math.exp(-80)
KNOWN = 1e6
"""Logit of a known truth: more than any number of votes makes."""
MAX_ROUNDS, SETTLED = 100, 1e-6
"""Of the search for the accuracy that a majority vote has, and the change at which it ends."""


def log_p_without_label(
    table: np.ndarray, counts: np.ndarray, annotator: np.ndarray, label: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Log-probability of each label, (S,), by its annotator's and its item's other labels; of [annotator, truth,
    label] and shares (S, K) of the item's truth by all labels.
    """
    rest = np.maximum(counts[annotator, :, label] - share, 0)
    total = counts.sum(-1)[annotator] - share
    nothing = total < 1e-9
    p = np.where(nothing, 1 / table.shape[-1], rest / np.where(nothing, 1, total))
    truth = share / np.maximum(table[annotator, :, label], MIN_PROBABILITY)
    truth /= truth.sum(1, keepdims=True)
    return np.asarray(np.log((truth * np.maximum(p, MIN_PROBABILITY)).sum(1)))


def log_p_by_vote(votes: np.ndarray, gold: np.ndarray | None, item: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Log-probability of each label, (S,), by its item's other labels, where all annotators are right as often."""
    from scipy.special import softmax  # slow to import

    def weight(right: float) -> float:
        return math.log(right * (k - 1) / (1 - right))

    k, prior, rows = votes.shape[1], np.zeros(votes.shape), np.arange(len(item))
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        prior[known, gold[known]] = KNOWN
    right, before = 0.5 * (1 + 1 / k), 0.0
    for _ in range(MAX_ROUNDS):
        if abs(right - before) < SETTLED:
            break
        truth = softmax(votes * weight(right) + prior, axis=1)
        before, right = right, float(np.clip((truth * votes).sum() / votes.sum(), 1e-9, 1 - 1e-9))
    same = softmax((votes[item] - np.eye(k)[label]) * weight(right) + prior[item], axis=1)[rows, label]
    return np.asarray(np.log(same * right + (1 - same) * (1 - right) / (k - 1)))
