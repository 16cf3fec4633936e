"""Skills from pairwise agreement, of which the largest and smallest are left out: for colluding adversaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdppl.agreement.votes import DeduplicatedVotes
from crowdppl.baselines.aggregation import Aggregation, class_votes, labelled, placed
from crowdppl.core.validation import whole_number
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError

TOLERANCE = 1e-6
"""Change of the product of skills at which iterations end."""


def mmsr(data: Annotations, *, corrupted: int | None = None, max_iterations: int = 1000) -> Aggregation:
    """Votes weighted by skills that colluders cannot move: robust rank-one completion of pairwise agreement.

    Agreement of two annotators beyond chance, K / (K - 1) (share of common items that they label alike) - 1 / (K -
    1), is the product of their skills. In turn each skill is the mean of agreement over the other's skill, without
    the ``corrupted`` largest and smallest ratios. Signs are those of the first eigenvector of signs of agreement
    (the paper: of a signless Laplacian), most annotators being right. A vote weighs the log-odds of being right.
    Ma & Olshevsky (2020), "Adversarial crowdsourcing through robust rank-one matrix completion" (M-MSR).

    Args:
        data: classes.
        corrupted: how many adversaries an annotator shares items with, at most; by default one less than half the
            least number of annotators that any shares items with.
        max_iterations: at most.

    Raises:
        MethodError: for labels that are no classes, or where no two annotators share an item.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 50, {"hammer": 5, "adversary": 2}, seed=0)
        >>> found = crowdppl.baselines.mmsr(crowd.data)
        >>> int((found.annotators()["weight"] < 0).sum())
        2
    """
    votes, k = class_votes(data, "mmsr"), data.n_classes
    most = whole_number("max_iterations", max_iterations, 1, "1000 are usual")
    agreement, shared = agreements(votes)
    there = shared > 0
    seen = there.any(1)
    if not seen.any():
        raise MethodError("mmsr compares annotators on common items, and no two share one; fit 'majority_vote'")
    product = (agreement[np.ix_(seen, seen)] * k - 1) / (k - 1)
    there = there[np.ix_(seen, seen)]
    left_out = max(0, int(there.sum(1).min()) // 2 - 1)
    if corrupted is not None:
        left_out = whole_number("corrupted", corrupted, 0, "0 leaves nothing out")
    edge = 1 / np.sqrt(votes.n_items)
    size, converged, n = _sizes(np.abs(product), there, left_out, edge, most)
    skill = size * _signs(np.sign(product) * there)
    right = (np.clip(skill, edge - 1 / (k - 1), 1 - edge) * (k - 1) + 1) / k
    weight = np.zeros(votes.n_annotators)
    weight[seen] = np.log(right * (k - 1) / (1 - right))
    cell = votes.item * k + votes.answer
    scores = np.bincount(cell, weight[votes.annotator] * votes.share, votes.n_items * k).reshape(-1, k)
    weight[~labelled(votes)] = np.nan
    return Aggregation("mmsr", data, placed(scores, votes, data), weight, n, converged)


def agreements(votes: DeduplicatedVotes) -> tuple[np.ndarray, np.ndarray]:
    """Share of common items that two annotators label alike, and how many are common, 0 of oneself: (A, A) each."""
    from scipy.sparse import csr_array  # slow to import

    shape = (votes.n_annotators, votes.n_items)
    whole: Any = csr_array((votes.share, (votes.annotator, votes.item)), shape=shape)
    shared, same = (whole @ whole.T).toarray(), np.zeros((shape[0], shape[0]))
    for code in range(votes.n_classes):
        at = votes.answer == code
        own: Any = csr_array((votes.share[at], (votes.annotator[at], votes.item[at])), shape=shape)
        same += (own @ own.T).toarray()
    np.fill_diagonal(shared, 0)
    return np.where(shared > 0, same / np.maximum(shared, 1e-9), 0), shared


def _sizes(
    product: np.ndarray, there: np.ndarray, left_out: int, least: float, most: int
) -> tuple[np.ndarray, bool, int]:
    """Skills without sign, (A,), of which ``product`` is the outer one where it is known; at least ``least``."""
    u, v = np.ones(len(product)), np.ones(len(product))
    n, moved = 0, np.inf
    while moved >= TOLERANCE and n < most:
        before = np.outer(u, v)
        v = np.maximum(_trimmed(product / u[:, None], there, v, left_out), least)
        u = np.maximum(_trimmed((product / v).T, there, u, left_out), least)
        moved, n = float(np.linalg.norm(np.outer(u, v) - before)), n + 1
    return u / np.sqrt(np.linalg.norm(u) / np.linalg.norm(v)), moved < TOLERANCE, n


def _trimmed(ratio: np.ndarray, there: np.ndarray, before: np.ndarray, left_out: int) -> np.ndarray:
    """Means of columns less the largest and smallest ratios, of each at most as many as lie beyond ``before``."""
    ratio = np.sort(np.where(there, ratio, np.inf), axis=0)
    count = there.sum(0)
    row = np.arange(len(ratio))[:, None]
    low = np.minimum((ratio < before).sum(0), left_out)
    high = np.minimum(((ratio > before) & (row < count)).sum(0), left_out)
    kept = (row >= low) & (row < count - high)
    return np.where(kept.any(0), np.where(kept, ratio, 0).sum(0) / np.maximum(kept.sum(0), 1), before)


def _signs(signs: np.ndarray) -> np.ndarray:
    """Signs of annotators, (A,), whose products are those of agreement as far as can be; most are positive."""
    degree = np.sqrt(np.maximum(np.abs(signs).sum(1), 1))
    first = np.linalg.eigh(signs / np.outer(degree, degree))[1][:, -1]
    found = np.where(first < 0, -1.0, 1.0)
    return found if found.sum() >= 0 else -found
