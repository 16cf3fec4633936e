"""Pairs of annotators who agree more than a fitted model says that they should, and the groups that they form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdppl.statistics.holm import holm
from crowdppl.statistics.saddlepoint import upper_tail

if TYPE_CHECKING:
    from crowdppl.criticism.excess import Excess

PAIRS = 20
"""Pairs of annotators from which on their bulk tells how far a sound pair may be from the model."""


def bulk(z: np.ndarray) -> tuple[float, float]:
    """Middle and spread of sound pairs, never less strict than 0 and 1: median, and median distance from it.

    An "empirical null" (Efron 2004, "Large-scale simultaneous hypothesis testing"): where items are hard for all,
    every pair agrees more than expected, and only what stands out from that is copying.
    """
    if len(z) < PAIRS:
        return 0.0, 1.0
    middle = float(np.median(z))
    return max(0.0, middle), max(1.0, 1.4826 * float(np.median(np.abs(z - middle))))


def p_values(excess: Excess) -> np.ndarray:
    """Probability of so much weighed agreement, corrected for the number of pairs (Holm 1979), (P,)."""
    middle, spread = bulk(excess.surplus)
    p = np.maximum(excess.tail, upper_tail((excess.deviate - middle) / spread))
    return holm(p)


def loadings(excess: Excess, n_annotators: int) -> np.ndarray:
    """How much each annotator takes part in agreement that the model leaves over, (A,); 0 for noise.

    Under any confusions the expected agreement of annotators is a matrix of rank K squared at most: row a is
    confusion[a] times the root of the prevalence, seen as one vector. What the fitted matrix of that form leaves
    over, in standard deviations, is a symmetric matrix of noise unless some depend on each other given the truth;
    then it has eigenvalues above those of noise, at most 2 sqrt(pairs an annotator). The loading is the root of
    what these eigenvalues put on an annotator's own diagonal.
    """
    if not len(excess.one):
        return np.zeros(n_annotators)
    middle, spread = bulk(excess.z)
    matrix = np.zeros((n_annotators, n_annotators))
    matrix[excess.one, excess.other] = matrix[excess.other, excess.one] = (excess.z - middle) / spread
    values, vectors = np.linalg.eigh(matrix)
    edge = 2.2 * np.sqrt((matrix != 0).sum(1).max())
    out: np.ndarray = np.sqrt((vectors**2) @ np.where(values > edge, values, 0))
    return out


def groups(excess: Excess, linked: np.ndarray, n_annotators: int) -> np.ndarray:
    """Annotators joined by linked pairs, three or more: group numbers from 0, or -1, (A,)."""
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    pairs = (np.ones(int(linked.sum())), (excess.one[linked], excess.other[linked]))
    _, member = connected_components(coo_array(pairs, shape=(n_annotators, n_annotators)), directed=False)
    large = np.flatnonzero(np.bincount(member) > 2)
    number = np.full(member.max() + 1, -1)
    number[large] = np.arange(len(large))
    out: np.ndarray = number[member]
    return out
