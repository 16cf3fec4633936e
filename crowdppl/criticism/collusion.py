"""Pairs and groups of annotators who agree more than a fit expects, with exact tail probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crowdppl.criticism.design import MIN_SHARED, Design
from crowdppl.criticism.expected_agreement import (
    NUMBERS_AT_ONCE,
    Agreement,
    expected_by_model,
    independent,
    shares_more,
)
from crowdppl.criticism.tails import holm, normal_deviates, upper_tail
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit

MIN_EXCESS = 1.0
"""Standard deviations of excess from which on its tail, and the model's own expectation, are computed."""
REPEATED = 0.6
"""Share of labels that a copier repeats, by which agreement is weighted."""


@dataclass(frozen=True)
class ExcessAgreement:
    """Agreement of pairs of annotators, and what the fitted model expects of them.

    Attributes:
        one, other: codes of the annotators, (P,).
        shared: pairs of labels by the two, (P,).
        agreed, expected: number of equal ones, and its expectation, (P,).
        variance: of the number under the model, (P,).
        surplus: standard deviations by which weighted agreement exceeds its expectation, (P,).
        deviate: standard normal deviate of the upper tail of weighted agreement, (P,).
        met: others with whom an annotator shares an item or more, (A,).
    """

    one: np.ndarray
    other: np.ndarray
    shared: np.ndarray
    agreed: np.ndarray
    expected: np.ndarray
    variance: np.ndarray
    surplus: np.ndarray
    deviate: np.ndarray
    met: np.ndarray

    @property
    def z(self) -> np.ndarray:
        """Standard deviations by which a pair agrees more than expected, each agreement counted as one, (P,)."""
        return _distance(self.agreed, self.expected, self.variance)

    @property
    def tail(self) -> np.ndarray:
        """Probability of so much weighted agreement for each pair by itself, (P,)."""
        return upper_tail(self.deviate)


def excess_agreement(posterior: Fit, alone: bool = False) -> ExcessAgreement:
    """Agreement beyond the model, of all pairs of annotators who share at least 10 items.

    Whether two labels of an item agree (abstentions aside) is predicted from the *other* labels of the item, so
    that a pair cannot hide by having convinced the model of a truth: by the fitted confusions and prevalence, as
    if labels were independent (``alone``, which is quicker), or by a model in which they have more in common than
    the truth.

    An agreement on a class is weighted by the log-likelihood ratio of a pair of whom one repeats the other in a
    share c = ``REPEATED`` of items: log(1 + c / (1 - c) x p(one names the class) / p(both do)). DataError without
    two labels.
    """
    design, n_classes = Design.of(posterior.data, named=True), posterior.data.n_classes
    met, times = design.met()
    keys, shared = met[times >= MIN_SHARED], times[times >= MIN_SHARED]
    sums, deviate = _sums_and_deviates(independent(posterior, design), design, keys, shared, n_classes)
    unexpected = (_distance(*sums[:3]) > MIN_EXCESS) | (_distance(*sums[3:]) > MIN_EXCESS)
    if unexpected.any() and not alone and shares_more(posterior.model):
        try:
            model = expected_by_model(posterior, design)
            again = _sums_and_deviates(model, design, keys[unexpected], shared[unexpected], n_classes)
            sums[:, unexpected], deviate[unexpected] = again
        except MethodError:  # its plate is not that of items: keep the independent expectation
            pass
    one, other = np.divmod(keys, design.n_annotators)
    others = np.bincount(np.concatenate(np.divmod(met, design.n_annotators)), minlength=design.n_annotators)
    agreed, expected, variance = sums[:3]
    return ExcessAgreement(one, other, shared, agreed, expected, variance, _distance(*sums[3:]), deviate, others)


def _distance(total: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """In standard deviations."""
    return np.asarray((total - mean) / np.sqrt(np.maximum(variance, 1e-12)))


class _Terms(NamedTuple):
    """Pairs of labels of an item: the pair of annotators, the class both gave or -1, (M,); the probabilities that
    both give a class, and what that weighs, (K, M)."""

    pair: np.ndarray
    named: np.ndarray
    both: np.ndarray
    weight: np.ndarray

    def of(self, pairs: np.ndarray) -> _Terms:
        """Those of some pairs, (pairs,) bool, counted anew."""
        kept = pairs[self.pair]
        number = (np.cumsum(pairs) - 1)[self.pair[kept]]
        return _Terms(number, self.named[kept], self.both[:, kept], self.weight[:, kept])

    def sums(self, n: int) -> np.ndarray:
        """Agreements of n pairs, their mean and variance; the same of what they weigh: (6, n)."""
        p, weighed = self.both.sum(0), self.both * self.weight
        mean = weighed.sum(0)
        weighed *= self.weight
        seen = self.weight[self.named, np.arange(len(p))] * (self.named >= 0)
        rows = (self.named >= 0, p, p * (1 - p), seen, mean, weighed.sum(0) - mean**2)
        return np.stack([np.bincount(self.pair, row, n) for row in rows])


def _terms(design: Design, probable: Agreement, keys: np.ndarray, n_classes: int) -> Iterator[_Terms]:
    """Of the pairs of annotators with these keys, not many at a time."""
    size, odds = max(1, NUMBERS_AT_ONCE // n_classes), REPEATED / (1 - REPEATED)
    for one, other, key in design.meetings():
        column = np.searchsorted(keys, key)
        kept = np.flatnonzero(keys[np.minimum(column, len(keys) - 1)] == key)
        for some in np.split(kept, range(size, len(kept), size)):
            a, b = one[some], other[some]
            both, either = probable(a, b)
            named = np.where(design.answer[a] == design.answer[b], design.answer[a], -1)
            yield _Terms(column[some], named, both, np.log1p(odds * either / both))


def _sums_and_deviates(
    probable: Agreement, design: Design, keys: np.ndarray, shared: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of the pairs of annotators with these keys, (6, pairs) and (pairs,), of which some are held at a time."""
    sums, deviate = np.zeros((6, len(keys))), np.zeros(len(keys))
    held = np.cumsum(shared * n_classes) // 8_000_000
    for part in np.split(np.arange(len(keys)), np.flatnonzero(np.diff(held)) + 1):
        found = list(_terms(design, probable, keys[part], n_classes)) if len(part) else []
        if found:
            terms = _Terms(*(np.concatenate(columns, -1) for columns in zip(*found, strict=True)))
            sums[:, part] = terms.sums(len(part))
            deviate[part] = _distance(*sums[3:, part])
            far = deviate[part] > MIN_EXCESS
            some = terms.of(far)
            deviate[part[far]] = normal_deviates(sums[3, part[far]], some.weight, some.both, some.pair)
    return sums, deviate


MIN_PAIRS = 20
"""Pairs of annotators from which on an empirical null is estimated."""


def empirical_null(z: np.ndarray) -> tuple[float, float]:
    """Centre and spread of most pairs: median and scaled median distance from it, at least 0 and 1.

    Efron (2004, "Large-scale simultaneous hypothesis testing"): where items are hard for all, every pair agrees
    more than expected, and only pairs that stand out from that copy.
    """
    if len(z) < MIN_PAIRS:
        return 0.0, 1.0
    middle = float(np.median(z))
    return max(0.0, middle), max(1.0, 1.4826 * float(np.median(np.abs(z - middle))))


def p_values(excess: ExcessAgreement) -> np.ndarray:
    """Probability of so much weighted agreement, corrected for the number of pairs (Holm 1979), (P,)."""
    middle, spread = empirical_null(excess.surplus)
    p = np.maximum(excess.tail, upper_tail((excess.deviate - middle) / spread))
    return holm(p)


def loadings(excess: ExcessAgreement, n_annotators: int) -> np.ndarray:
    """Each annotator's part in agreement that the model does not explain, (A,); 0 for noise.

    The residual agreement of pairs, in standard deviations, is a symmetric matrix of noise unless some annotators
    depend on each other given the truth; then it has eigenvalues above those of noise, at most 2 sqrt(pairs an
    annotator). The loading is the root of what these eigenvalues put on an annotator's diagonal entry.
    """
    if not len(excess.one):
        return np.zeros(n_annotators)
    middle, spread = empirical_null(excess.z)
    matrix = np.zeros((n_annotators, n_annotators))
    matrix[excess.one, excess.other] = matrix[excess.other, excess.one] = (excess.z - middle) / spread
    values, vectors = np.linalg.eigh(matrix)
    edge = 2.2 * np.sqrt((matrix != 0).sum(1).max())
    return np.asarray(np.sqrt((vectors**2) @ np.where(values > edge, values, 0)))


def groups(one: np.ndarray, other: np.ndarray, n_annotators: int) -> np.ndarray:
    """Annotators joined by pairs, codes (P,) of each side, three or more: group numbers from 0, or -1, (A,)."""
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    pairs = (np.ones(len(one)), (one, other))
    _, member = connected_components(coo_array(pairs, shape=(n_annotators, n_annotators)), directed=False)
    large = np.flatnonzero(np.bincount(member) > 2)
    number = np.full(member.max() + 1, -1)
    number[large] = np.arange(len(large))
    return np.asarray(number[member])
