"""A start from second moments: confusion matrices from how often pairs of annotators agree (MultiSPA)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.bags import bag
from crowdppl.data.blocks import Block
from crowdppl.inference.reading.starts import soft_truth, votes

MOST_ANNOTATORS = 300
"""Annotators whose pairs are counted: those with most labels."""
SHARED = 5
"""Items that two annotators must share for their joint to be used."""


def pairwise_joints(blocks: Sequence[Block]) -> tuple[np.ndarray, np.ndarray]:
    """How often each pair of annotators gives each pair of classes to the same item.

    Args:
        blocks: the data; the annotators with most labels are used, at most 300.

    Returns:
        The annotators' codes (M,), and counts (M, K, M, K) [annotator, label, annotator, label].
    """
    import scipy.sparse as sparse  # slow to import, needed by spectral starts only

    first = blocks[0]
    k, width = first.n_classes, first.n_answers
    given = np.bincount(np.concatenate([b.annotator.cpu().numpy() for b in blocks]), minlength=first.n_annotators)
    chosen = np.sort(np.argsort(-given, kind="stable")[:MOST_ANNOTATORS])
    place = np.full(first.n_annotators, -1)
    place[chosen] = np.arange(len(chosen))
    total = np.zeros((len(chosen) * k,) * 2)
    for block in blocks:
        cells = block.bags.cells.cpu().numpy()
        annotator, answer = place[cells // width], cells % width
        use = (annotator >= 0) & (answer < k)
        item = block.item.cpu().numpy()[use]
        column = annotator[use] * k + answer[use]
        shape = (block.n_items, len(chosen) * k)
        seen = sparse.csr_matrix((np.ones(len(item)), (item, column)), shape=shape)
        total += np.asarray((seen.T @ seen).todense())
    return chosen, total.reshape(len(chosen), k, len(chosen), k)


def confusion_from_joints(joints: np.ndarray) -> np.ndarray:
    """Confusion matrices from pairwise joints by successive projection.

    For annotators m and j the joint is ``A_m' D A_j`` with D the prevalence. Stacking the normalised columns of
    all blocks of m gives points whose convex hull has the class profiles of m as corners, if for each class
    some annotator gives a label in that class alone; successive projection finds the corners, and diagonal
    dominance orders them. Exact on exact moments under that condition.

    Source: Ibrahim, Fu, Kargas, Huang (2019), "Crowdsourcing via Pairwise Co-occurrences", algorithm MultiSPA.

    Args:
        joints: (M, K, M, K) counts; pairs of annotators that share fewer than 5 items are left out.

    Returns:
        (M, K, K) [annotator, truth, label]; NaN for annotators who share too few items with others.
    """
    m, k = joints.shape[:2]
    out = np.full((m, k, k), np.nan)
    for a in range(m):
        others = [j for j in range(m) if j != a and joints[a, :, j].sum() >= min(SHARED, joints[a].sum() / 2)]
        if not others:
            continue
        columns = np.concatenate([joints[a, :, j] for j in others], 1)  # (K labels of a, K labels of others)
        weight = columns.sum(0)
        points = columns[:, weight > 0] / weight[weight > 0]
        if np.linalg.matrix_rank(points) < k:
            continue
        out[a] = _order(points[:, _corners(points, k)].T)
    return out


def _corners(points: np.ndarray, k: int) -> list[int]:
    """Successive projection: the longest column, then the longest orthogonal to it, and so on."""
    rest = points.copy()
    found: list[int] = []
    for _ in range(k):
        best = int(np.argmax((rest**2).sum(0)))
        found.append(best)
        direction = rest[:, best] / max(float(np.linalg.norm(rest[:, best])), 1e-12)
        rest = rest - np.outer(direction, direction @ rest)
    return found


def _order(profiles: np.ndarray) -> np.ndarray:
    """Assigns profiles (rows) to classes so that the diagonal is as large as possible."""
    from scipy.optimize import linear_sum_assignment

    k = len(profiles)
    if k <= 3:
        best = max(permutations(range(k)), key=lambda p: sum(profiles[p[i], i] for i in range(k)))
        return profiles[list(best)]
    rows, columns = linear_sum_assignment(-profiles)
    out = np.empty_like(profiles)
    out[columns] = profiles[rows]
    return out


def spectral_truth(blocks: Sequence[Block]) -> Tensor:
    """Truth shares (N, K) by position under confusion matrices found from moments, prevalence uniform.

    Annotators whose matrix cannot be found count as the mean of the others; where none is found, the shares
    are those of the votes.
    """
    first = blocks[0]
    k = first.n_classes
    chosen, joints = pairwise_joints(blocks)
    found = confusion_from_joints(joints)
    known = np.isfinite(found).all((1, 2))
    if not known.any():
        return soft_truth(votes(blocks))
    table = np.broadcast_to(found[known].mean(0), (first.n_annotators, k, k)).copy()
    table[chosen[known]] = found[known]
    table = 0.9 * table + 0.1 / k
    log_p = torch.zeros(first.n_annotators, first.n_answers, k, dtype=torch.float64)
    log_p[:, :k] = torch.from_numpy(np.log(table)).transpose(1, 2)
    wide = log_p.reshape(-1, k).to(first.device)
    logits = torch.cat([bag(wide, b.bags, torch.float64) for b in blocks])
    return logits.softmax(-1).clamp(min=1e-6)
