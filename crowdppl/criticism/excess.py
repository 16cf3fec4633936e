"""Agreement of pairs of annotators beyond what a fitted model expects of them, and how improbable it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdppl.criticism.discrepancies import FEW, Design
from crowdppl.criticism.expected_agreement import NUMBERS, Agreement, by_the_story, independent, shares_more
from crowdppl.errors import MethodError
from crowdppl.statistics.saddlepoint import deviates, upper_tail

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

BEYOND = 1.0
"""Standard deviations of excess from which on its tail is found, and a story asked whether it explains it."""
REPEATED = 0.6
"""Share of labels that a copier is supposed to repeat, when agreement is weighed."""
HELD = 8_000_000
"""Probabilities of agreement that are held at once, while the tails of some pairs are found."""


@dataclass(frozen=True)
class Excess:
    """Agreement of pairs of annotators, beside what the fitted model expects of them.

    Attributes:
        one, other: codes of the annotators, (P,).
        shared: pairs of labels by the two, (P,).
        agreed, expected: number of equal ones, and its expectation, (P,).
        variance: of the number under the model, (P,).
        surplus: standard deviations by which weighed agreement exceeds its expectation, (P,).
        deviate: standard normal deviate that is exceeded as seldom as weighed agreement is so large, (P,).
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
        """Probability of so much weighed agreement for each pair by itself, (P,)."""
        return upper_tail(self.deviate)


def excess_of(posterior: Posterior, alone: bool = False) -> Excess:
    """Agreement beyond the model, of all pairs of annotators who share at least 10 items.

    It is among labels that name a class: what is too hard for one is so for others, who abstain without copying.
    Whether two labels of an item agree is predicted from the *other* labels of the item, by the fitted confusions
    and prevalence, so that a pair cannot hide by having convinced the model of a truth. A story that lets labels of
    an item have more in common than its truth, as those of a group have, is asked itself what it expects of the
    pairs who agree more than that (``crowdppl.criticism.expected_agreement``): what it has explained is no excess.
    One that cannot be asked about items alone is not.

    A shared error tells more of copying than a shared right label, which most give. An agreement on a class weighs
    as much as it speaks for a pair of whom one repeats the other in a share ``REPEATED`` of items, c, and against
    one of whom each says its own: log(1 + c / (1 - c) x (probability that one names the class) / (that both do)),
    the logarithm of the ratio of likelihoods but for a constant.

    Args:
        alone: whether to take labels for independent given the truth whatever the story, which is quicker.

    Raises:
        DataError: when no item has two labels.
    """
    design, n_classes = Design.of(posterior.data, named=True), posterior.data.n_classes
    met, times = _met(design)
    keys, shared = met[times >= FEW], times[times >= FEW]
    sums, deviate = _sums_and_deviates(independent(posterior, design), design, keys, shared, n_classes)
    asked = (_distance(*sums[:3]) > BEYOND) | (_distance(*sums[3:]) > BEYOND)
    if asked.any() and not alone and shares_more(posterior.story):
        try:
            story = by_the_story(posterior, design)
            again = _sums_and_deviates(story, design, keys[asked], shared[asked], n_classes)
            sums[:, asked], deviate[asked] = again
        except MethodError:  # its plate is not that of items; better a doubt too many than a fit that fails for one
            pass
    one, other = np.divmod(keys, design.n_annotators)
    others = np.bincount(np.concatenate(np.divmod(met, design.n_annotators)), minlength=design.n_annotators)
    agreed, expected, variance = sums[:3]
    return Excess(one, other, shared, agreed, expected, variance, _distance(*sums[3:]), deviate, others)


def _distance(total: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """In standard deviations."""
    out: np.ndarray = (total - mean) / np.sqrt(np.maximum(variance, 1e-12))
    return out


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
    size, odds = max(1, NUMBERS // n_classes), REPEATED / (1 - REPEATED)
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
    held = np.cumsum(shared * n_classes) // HELD
    for part in np.split(np.arange(len(keys)), np.flatnonzero(np.diff(held)) + 1):
        found = list(_terms(design, probable, keys[part], n_classes)) if len(part) else []
        if found:
            terms = _Terms(*(np.concatenate(columns, -1) for columns in zip(*found, strict=True)))
            sums[:, part] = terms.sums(len(part))
            deviate[part] = _distance(*sums[3:, part])
            far = deviate[part] > BEYOND
            some = terms.of(far)
            deviate[part[far]] = deviates(sums[3, part[far]], some.weight, some.both, some.pair)
    return sums, deviate


def _met(design: Design) -> tuple[np.ndarray, np.ndarray]:
    """Keys of the pairs of annotators who share an item, and how many pairs of labels: two of (pairs,)."""
    parts = [np.unique(key, return_counts=True) for _, _, key in design.meetings()]
    met, place = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    return met, np.bincount(place, np.concatenate([n for _, n in parts]), len(met)).astype(np.int64)
