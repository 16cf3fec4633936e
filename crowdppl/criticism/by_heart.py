"""The doubt that maximum likelihood learned labels by heart, told beside a fit without fitting again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from crowdppl.criticism.doubt import Doubt
from crowdppl.data.decoding import row_codes
from crowdppl.results.leave_one_out import standard_error

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

QUICK = 20_000
"""Labels up to which they are looked at beside a fit: 10 ms for 15,567 of five classes."""
LEAST = math.exp(-80)
"""Smallest probability of a label, as stories have it."""
ALIKE = 0.02
"""Largest difference between a table and the shares of its labels, which are counted after the last iteration."""
KNOWN = 1e6
"""Logit of a known truth: more than any number of votes makes."""
ROUNDS, SETTLED = 100, 1e-6
"""Of the search for the accuracy that a majority vote has, and the change at which it ends."""


def learned_by_heart(posterior: Posterior) -> Iterator[Doubt]:
    """Where each label, taken out of its annotator's row, is predicted worse than by a majority vote.

    Of points alone, by maximum likelihood with a confusion matrix for each annotator: there, an answer that an
    annotator gave once has probability 0 without it. Other labels' truths still know the label, so that the method
    predicts a little too well: a doubt too few, and none too many.
    """
    posterior, data = posterior.uncorrected(), posterior.data
    if posterior.memory is not None or data.n_answers > data.n_classes or data.n_labels > QUICK:
        return
    sites = posterior.result.sites.values()
    if {site.family for site in sites} != {"point"} or not any(_is_table(x.mean, posterior) for x in sites):
        return
    item, cell = row_codes(data.blocks, data.order)
    annotator, label = np.divmod(cell, data.n_classes)
    share = posterior.result.probabilities[item]
    counts = np.zeros((data.n_annotators, data.n_classes, data.n_classes))
    np.add.at(counts.transpose(0, 2, 1), (annotator, label), share)
    if not _of_labels_alone(posterior.result.table, counts):
        return
    asked = np.bincount(item)[item] > 1  # of an item's only label, nothing is known without it
    if not asked.any():
        return
    own = _without_itself(posterior.result.table, counts, annotator, label, share)
    votes = _by_vote(data.votes(), data.gold_codes, item, label)
    apart = (own - votes)[asked]
    error = standard_error(apart, np.unique(item[asked], return_inverse=True)[1])
    if apart.mean() < -2 * error:
        yield Doubt(
            "votes",
            f"{posterior.method} predicts a label from the others worse than a majority vote: "
            f"{own[asked].mean():.3f} nats a label against {votes[asked].mean():.3f} (difference "
            f"{apart.mean():.3f}, standard error {error:.3f}; by the labels left out of a fit it is mostly worse "
            "still). By maximum likelihood an answer that an annotator never gave is impossible: take "
            "bayesian_dawid_skene, or a method that crowdppl.compare finds; fit('auto', data) chooses by it",
        )


def _is_table(value: np.ndarray, posterior: Posterior) -> bool:
    """Whether a site's value is the annotators' confusions."""
    table = posterior.result.table
    return value.shape == table.shape and bool(np.allclose(value, table, atol=1e-6))


def _of_labels_alone(table: np.ndarray, counts: np.ndarray) -> bool:
    """Whether rows are the shares of their labels, without a prior."""
    total = counts.sum(-1, keepdims=True)
    seen = np.broadcast_to(total > 1, counts.shape)
    return bool((np.abs(counts / np.maximum(total, LEAST) - table)[seen] < ALIKE).all())


def _without_itself(
    table: np.ndarray, counts: np.ndarray, annotator: np.ndarray, label: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Log-probability of each label, by its annotator's other labels and its item's other labels.

    Args:
        table, counts: (A, K, K) [annotator, truth, label].
        annotator, label: (S,).
        share: of the truth of each label's item, (S, K), by all labels.
    """
    rest = np.maximum(counts[annotator, :, label] - share, 0)
    total = counts.sum(-1)[annotator] - share
    nothing = total < 1e-9
    log_p = np.where(nothing, 1 / table.shape[-1], rest / np.where(nothing, 1, total))
    truth = share / np.maximum(table[annotator, :, label], LEAST)
    truth /= truth.sum(1, keepdims=True)
    return np.asarray(np.log((truth * np.maximum(log_p, LEAST)).sum(1)))


def _by_vote(votes: np.ndarray, gold: np.ndarray | None, item: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Log-probability of each label by its item's other labels, where all annotators are right as often.

    Args:
        votes: (N, K).
        gold: known classes of items or -1, (N,).
        item, label: of each label, (S,).
    """
    from scipy.special import softmax  # slow to import, needed here alone

    k, told = votes.shape[1], np.zeros(votes.shape)
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        told[known, gold[known]] = KNOWN
    right, before = 0.5 * (1 + 1 / k), 0.0
    for _ in range(ROUNDS):
        if abs(right - before) < SETTLED:
            break
        truth = softmax(votes * _weight(right, k) + told, axis=1)
        before, right = right, float(np.clip((truth * votes).sum() / votes.sum(), 1e-9, 1 - 1e-9))
    one = np.zeros((len(item), k))
    one[np.arange(len(item)), label] = 1
    rest = softmax((votes[item] - one) * _weight(right, k) + told[item], axis=1)
    same = rest[np.arange(len(item)), label]
    return np.asarray(np.log(same * right + (1 - same) * (1 - right) / (k - 1)))


def _weight(right: float, k: int) -> float:
    return math.log(right * (k - 1) / (1 - right))
