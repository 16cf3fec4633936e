"""Krippendorff's alpha of labels that are numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdppl.agreement.resampling import Coefficient, resampled
from crowdppl.agreement.votes import ratio, require_labels_to_compare, require_two_annotators
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.space import number_space

Sums = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Labels, (C,), the sums of their coordinates, (D, C), of the squares of these and of ``apart``, (C,) each."""


@dataclass(frozen=True)
class ItemSums:
    """What is summed of the numbers of every item; of an annotator's m labels of it, each has the weight 1/m.

    Attributes:
        size: how many annotators labelled each item, (N,).
        first, second: sums of their numbers' coordinates, which are scaled to [0, 1], (D, N), and of the squares of
            these, (N,).
        apart: squared distances of the numbers of two annotators, each pair counted twice, over the number of
            annotators less one, (N,); zero on items of one annotator.
    """

    size: np.ndarray
    first: np.ndarray
    second: np.ndarray
    apart: np.ndarray

    @classmethod
    def of(cls, item: np.ndarray, annotator: np.ndarray, points: np.ndarray) -> ItemSums:
        """The sums of labels, codes (S,) without gaps and coordinates (S, D); DataError unless an item has two."""
        pairs, vote, times = np.unique(np.stack([item, annotator]), axis=1, return_inverse=True, return_counts=True)
        several = np.bincount(pairs[0])[item] > 1
        require_two_annotators(int(item.max()) + 1, len(times))
        low, width = points[several].min(0), np.ptp(points[several], axis=0).max() or 1.0
        points = np.where(several, ((points - low) / width).T, 0)  # squares of large numbers have no digits left
        *means, square = (np.bincount(vote.reshape(-1), x) / times for x in (*points, (points**2).sum(0)))
        size, first = np.bincount(pairs[0]), np.stack([np.bincount(pairs[0], x) for x in means])
        second, own = (np.bincount(pairs[0], x) for x in (square, (np.stack(means) ** 2).sum(0)))
        apart = np.where(size > 1, 2 * (second - ((first**2).sum(0) - own) / np.maximum(size - 1, 1)), 0)
        return cls(size, first, second, apart)

    def total(self, weight: np.ndarray) -> Sums:
        """Sums over items of two annotators or more that count ``weight`` times, (N, C)."""
        compared = weight * (self.size > 1)[:, None]
        return self.size @ compared, self.first @ compared, self.second @ compared, self.apart @ compared


def _alpha(totals: Sums) -> np.ndarray:
    """Krippendorff's alpha where the disagreement of two numbers is their squared distance, (C,)."""
    n, first, second, apart = totals
    return 1 - ratio(ratio(apart, n), 2 * ratio(second - ratio((first**2).sum(0), n), n - 1))


def alpha_of_numbers(data: Annotations, samples: int, seed: int) -> dict[str, Coefficient]:
    """Alpha and its bootstrap samples of items; DataError for rankings, or where no item has two annotators."""
    require_labels_to_compare(data)
    item, annotator, _ = data.label_codes()
    space = number_space(data.space)
    points = space.coordinates(data.frame()["label"].to_numpy(np.float64))
    sums = ItemSums.of(np.unique(item, return_inverse=True)[1], annotator, points)
    return resampled(sums, {f"krippendorff_{space.scale}": _alpha}, samples, seed)
