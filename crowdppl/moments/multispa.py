"""MultiSPA: confusions from pairs of annotators, by successive projection onto what only one class explains."""

from __future__ import annotations

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.moments.joints import SHARED, Floats, Opinions
from crowdppl.moments.projections import naming
from crowdppl.moments.result import Moments, filled, found_of, moments_of, none_known, opinions_of, prevalence_of


def multispa(data: Annotations, *, most: int | None = None) -> Moments:
    """Confusions from pairs of annotators, by successive projection.

    Joints of one annotator with all others lie in a cone whose corners are what he calls each class, if for each
    class some annotator gives an answer to that class alone (a class expert). The prevalence explains best how
    often each annotator gives each class. Exact on exact moments under that condition; else errors grow with
    what is missing of it.

    Args:
        most: counts the annotators with most labels alone, so many; others get the mean confusion. None counts all.

    Raises:
        MethodError: where annotators and classes are too many for a table of their pairs.
        DataError: where labels are no classes, or no annotators share five items.

    Source: Ibrahim, Fu, Kargas & Huang (2019), Crowdsourcing via pairwise co-occurrences, NeurIPS 32, Algorithm 1.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 200, {"hammer": 4, "spammer": 1}, seed=0)
        >>> crowdppl.moments.multispa(crowd.data).confusion.mean(0).round(1)
        array([[0.6, 0.4],
               [0.4, 0.6]])
    """
    opinions, chosen = opinions_of(data, most)
    confusion = confusion_from_joints(opinions.joints)
    if not found_of(confusion).any():
        raise none_known(data.n_annotators)
    return moments_of("multispa", data, opinions, chosen, confusion, prevalence_of(opinions, confusion))


def first_guess(opinions: Opinions) -> tuple[Floats, Floats]:
    """Confusions and prevalence by MultiSPA, from which factorisations start; unknown ones are the mean."""
    found = confusion_from_joints(opinions.joints)
    if not found_of(found).any():
        raise none_known(opinions.n_annotators)
    return filled(opinions, found), prevalence_of(opinions, found)


def confusion_from_joints(joints: Floats) -> Floats:
    """Confusion matrices from pairwise joints by successive projection.

    For annotators m and j the joint is ``A_m' D A_j`` with D the prevalence. Stacking the normalised columns of
    all blocks of m gives points whose convex hull has the class profiles of m as corners, if for each class
    some annotator gives a label in that class alone; successive projection finds the corners, and diagonal
    dominance orders them. Exact on exact moments under that condition.

    Counts are (M, K, M, K); pairs of annotators that share fewer than 5 items are left out. The matrices are
    (M, K, K) [annotator, truth, label], NaN for annotators who share too few items with others.

    Source: Ibrahim, Fu, Kargas, Huang (2019), "Crowdsourcing via Pairwise Co-occurrences", algorithm MultiSPA.
    """
    m, k = joints.shape[:2]
    out, shared = np.full((m, k, k), np.nan), joints.sum((1, 3))
    enough = (shared >= np.minimum(SHARED, shared.sum(1, keepdims=True) / 2)) & ~np.eye(m, dtype=bool)
    for a in np.flatnonzero(enough.any(1)):
        columns = joints[a][:, enough[a]].reshape(k, -1)  # (K labels of a, K labels of each other)
        weight = columns.sum(0)
        points = columns[:, weight > 0] / weight[weight > 0]
        if np.linalg.matrix_rank(points) == k:
            profiles = points[:, _corners(points, k)].T
            out[a] = profiles[naming(profiles)]
    return out


def _corners(points: Floats, k: int) -> list[int]:
    """Successive projection: the longest column, then the longest orthogonal to it, and so on."""
    rest = points.copy()
    found: list[int] = []
    for _ in range(k):
        best = int(np.argmax((rest**2).sum(0)))
        found.append(best)
        direction = rest[:, best] / max(float(np.linalg.norm(rest[:, best])), 1e-12)
        rest = rest - np.outer(direction, direction @ rest)
    return found
