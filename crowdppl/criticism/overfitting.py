"""How much a fit can learn by heart: its parameters, and the probability of each label without itself."""

from __future__ import annotations

import math

import numpy as np

from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.predict.answers import mean_field_tables
from crowdppl.inference.result import Fit

MIN_PROBABILITY = math.exp(-80)
NARROW_DRAWS, FEWEST_DRAWS, NARROW_NUMBERS = 50, 5, 5_000_000
"""Draws that show how narrow a posterior is; of large tables fewer, so that they are so many numbers."""
KNOWN = 1e6
"""Logit of a known truth: more than any number of votes makes."""
MAX_ROUNDS, SETTLED = 100, 1e-6
"""Of the search for the accuracy that a majority vote has, and the change at which it ends."""


def parameters(posterior: Fit) -> tuple[int, int]:
    """Free parameters of an annotator, and how many rows of proportions or single numbers they are in."""
    free, rows = 0, 0
    for site in posterior.result.sites.values():
        if "annotator" not in site.dims or "item" in site.dims or site.family == "onehot":
            continue
        value = site.arrays["draws"][0, 0] if site.family == "draws" else site.mean
        numbers, last = value.size // posterior.data.n_annotators, value.shape[-1]
        shares = site.dims[-1] != "annotator" and last > 1 and np.allclose(value.sum(-1), 1)
        rows += numbers // last if shares else numbers
        free += numbers // last * (last - 1) if shares else numbers
    return free, rows


def narrowness(draws: np.ndarray | CoinTables) -> np.ndarray:
    """How many labels a row of each annotator is worth, (A,): the concentration of Dirichlets with this spread."""
    if isinstance(draws, CoinTables):
        square = draws.each(lambda x: x.mean(0, dtype=np.float64) ** 2).rows()
        variance = draws.each(lambda x: x.var(0, dtype=np.float64, ddof=1)).rows()
    else:
        square = (draws.mean(0, dtype=np.float64) ** 2).sum(-1)
        variance = draws.var(0, dtype=np.float64, ddof=1).sum(-1)
    worth = (1 - square) / np.maximum(variance, 1e-12) - 1
    return np.asarray(worth.mean(-1))


def supported(posterior: Fit, few: np.ndarray, worth: float) -> bool:
    """Whether rows of the annotators ``few``, bool (A,), are as narrow as so many labels would make them."""
    drawn = posterior.result.draws
    if drawn is None:
        return False
    if any(site.conjugate is not None for site in posterior.result.sites.values()):
        most = NARROW_NUMBERS // math.prod(posterior.result.confusions.shape)
        draws, step = mean_field_tables(posterior, max(FEWEST_DRAWS, min(NARROW_DRAWS, most))), 1
    else:
        draws, step = drawn().tables, len(drawn().prevalence) // NARROW_DRAWS + 1
    some = draws.each(lambda x: x[::step, few]) if isinstance(draws, CoinTables) else draws[::step, few]
    return bool(np.median(narrowness(some)) >= worth)


def log_p_without_label(
    table: np.ndarray, counts: np.ndarray, annotator: np.ndarray, label: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Log-probability of each label, (S,), by its annotator's other labels and its item's other labels.

    Tables and counts are [annotator, truth, label]; ``share`` (S, K) is of the item's truth by all labels.
    """
    rest = np.maximum(counts[annotator, :, label] - share, 0)
    total = counts.sum(-1)[annotator] - share
    nothing = total < 1e-9
    p = np.where(nothing, 1 / table.shape[-1], rest / np.where(nothing, 1, total))
    truth = share / np.maximum(table[annotator, :, label], MIN_PROBABILITY)
    truth /= truth.sum(1, keepdims=True)
    return np.asarray(np.log((truth * np.maximum(p, MIN_PROBABILITY)).sum(1)))


def log_p_by_vote(votes: np.ndarray, gold: np.ndarray | None, item: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Log-probability of each label, (S,), by its item's other labels, where all annotators are right as often.

    Votes are (N, K), gold (N,) the known classes or -1, item and label (S,).
    """
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
