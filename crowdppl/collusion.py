"""Pairs of annotators who agree more than a fitted model says that they should, and the groups that they form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdppl.discrepancies import FEW, Design
from crowdppl.errors import MethodError
from crowdppl.expected_agreement import Agreement, by_the_story, independent, shares_more

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

BEYOND = 1.0
"""Standard deviations of excess from which on a story is asked whether it explains them."""
PAIRS = 20
"""Pairs of annotators from which on their bulk tells how far a sound pair may be from the model."""


@dataclass(frozen=True)
class Excess:
    """Agreement of pairs of annotators, beside what the fitted model expects of them.

    Attributes:
        one, other: codes of the annotators, (P,).
        shared: pairs of labels by the two, (P,).
        agreed, expected: number of equal ones, and its expectation, (P,).
        variance: of the number under the model, (P,).
    """

    one: np.ndarray
    other: np.ndarray
    shared: np.ndarray
    agreed: np.ndarray
    expected: np.ndarray
    variance: np.ndarray

    @property
    def z(self) -> np.ndarray:
        """Standard deviations by which a pair agrees more than expected, (P,)."""
        out: np.ndarray = (self.agreed - self.expected) / np.sqrt(np.maximum(self.variance, 1e-12))
        return out

    @property
    def log_tail(self) -> np.ndarray:
        """Bound on the log-probability of so much agreement, (P,).

        The number is a sum of independent coins. Hoeffding (1956), "On the distribution of the number of successes
        in independent trials": beyond the mean, equal coins of the mean probability have the heavier tail.
        """
        from scipy.stats import binom  # slow to import

        p = np.clip(self.expected / self.shared, 0, 1)
        out: np.ndarray = np.where(self.agreed > self.expected, binom.logsf(self.agreed - 1, self.shared, p), 0)
        return out


def excess_of(posterior: Posterior, alone: bool = False) -> Excess:
    """Agreement beyond the model, of all pairs of annotators who share at least 10 items.

    It is among labels that name a class: what is too hard for one is so for others, who abstain without copying.
    Whether two labels of an item agree is predicted from the *other* labels of the item, by the fitted confusions
    and prevalence, so that a pair cannot hide by having convinced the model of a truth. A story that lets labels of
    an item have more in common than its truth, as those of a group have, is asked itself what it expects of the
    pairs who agree more than that (``crowdppl.expected_agreement``): what it has explained is no excess. One that
    cannot be asked about items alone is not.

    Args:
        alone: whether to take labels for independent given the truth whatever the story, which is quicker.

    Raises:
        DataError: when no item has two labels.
    """
    design = Design.of(posterior.data, named=True)
    met, times = _met(design)
    found = _agreements(design, independent(posterior, design), met, times)
    if alone or not shares_more(posterior.story):
        return found
    asked = found.z > BEYOND
    try:
        again = _agreements(design, by_the_story(posterior, design), met[asked], times[asked])
    except MethodError:  # its plate is not that of items; a doubt too many is better than a fit that fails for one
        return found
    np.place(found.expected, asked, again.expected)
    np.place(found.variance, asked, again.variance)
    return found


def _agreements(design: Design, probable: Agreement, met: np.ndarray, times: np.ndarray) -> Excess:
    """Of the pairs with these keys, who share so many labels."""
    sums = np.zeros((3, len(met)))
    for one, other, key in design.meetings():
        column = np.searchsorted(met, key)
        kept = np.flatnonzero(met[np.minimum(column, len(met) - 1)] == key) if len(met) else column[:0]
        a, b, at = one[kept], other[kept], column[kept]
        p = probable(a, b)
        for total, value in zip(sums, (design.answer[a] == design.answer[b], p, p * (1 - p)), strict=True):
            total += np.bincount(at, value, len(met))
    one, other = np.divmod(met, design.n_annotators)
    return Excess(one, other, times, *sums)


def _met(design: Design) -> tuple[np.ndarray, np.ndarray]:
    """Keys of the pairs of annotators who share enough, and how many pairs of labels: (P,) each."""
    parts = [np.unique(key, return_counts=True) for _, _, key in design.meetings()]
    met, place = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    times = np.bincount(place, np.concatenate([n for _, n in parts]), len(met)).astype(np.int64)
    return met[times >= FEW], times[times >= FEW]


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
    """Probability of so much agreement for each pair, corrected for the number of pairs (Holm 1979), (P,)."""
    from scipy.stats import norm  # slow to import

    middle, spread = bulk(excess.z)
    p = np.exp(excess.log_tail)
    if (middle, spread) != (0.0, 1.0):
        p = np.maximum(p, norm.sf((norm.isf(np.clip(p, 1e-300, 1)) - middle) / spread))
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty(len(p))
    out[order] = np.minimum(1, steps)
    return out


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
