"""Krippendorff's alpha of labels that are numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdppl.agreement.resampling import Coefficient, resampled
from crowdppl.agreement.votes import ratio, require_labels_to_compare, require_two_annotators
from crowdppl.data.annotations import Annotations

Sums = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Labels, their sum, that of their squares, and of the squared differences within items, (C,) each."""


@dataclass(frozen=True)
class ItemSums:
    """What is summed of the numbers of every item; of an annotator's m labels of it, each has the weight 1/m.

    Attributes:
        size: how many annotators labelled each item, (N,).
        first, second: sums of their numbers, which are scaled to [0, 1], and of the squares of these, (N,).
        apart: squared differences of the numbers of two annotators, each pair counted twice, over the number of
            annotators less one, (N,); zero on items of one annotator.
    """

    size: np.ndarray
    first: np.ndarray
    second: np.ndarray
    apart: np.ndarray

    @classmethod
    def of(cls, item: np.ndarray, annotator: np.ndarray, numbers: np.ndarray) -> ItemSums:
        """The sums of labels, (S,) each, of items that are codes without gaps; DataError unless one has two."""
        pairs, vote, times = np.unique(np.stack([item, annotator]), axis=1, return_inverse=True, return_counts=True)
        several = np.bincount(pairs[0])[item] > 1
        require_two_annotators(int(item.max()) + 1, len(times))
        low, width = numbers[several].min(), np.ptp(numbers[several]) or 1.0
        numbers = np.where(several, (numbers - low) / width, 0)  # squares of large numbers have no digits left
        mean, square = (np.bincount(vote.reshape(-1), x) / times for x in (numbers, numbers**2))
        size, first, second, own = (np.bincount(pairs[0], x) for x in (np.ones(len(mean)), mean, square, mean**2))
        apart = np.where(size > 1, 2 * (second - (first**2 - own) / np.maximum(size - 1, 1)), 0)
        return cls(size, first, second, apart)

    def total(self, weight: np.ndarray) -> Sums:
        """Sums over items of two annotators or more that count ``weight`` times, (N, C)."""
        compared = weight * (self.size > 1)[:, None]
        return self.size @ compared, self.first @ compared, self.second @ compared, self.apart @ compared


def krippendorff_interval(totals: Sums) -> np.ndarray:
    """Krippendorff's alpha where the disagreement of two numbers is their squared difference, (C,)."""
    n, first, second, apart = totals
    return 1 - ratio(ratio(apart, n), 2 * ratio(second - ratio(first**2, n), n - 1))


def alpha_of_numbers(data: Annotations, samples: int, seed: int) -> Coefficient:
    """Alpha and its bootstrap samples of items; DataError for rankings, or where no item has two annotators."""
    require_labels_to_compare(data)
    item, annotator, _ = data.label_codes()
    numbers = data.frame()["label"].to_numpy(np.float64)
    sums = ItemSums.of(np.unique(item, return_inverse=True)[1], annotator, numbers)
    return resampled(sums, {"alpha": krippendorff_interval}, samples, seed)["alpha"]
