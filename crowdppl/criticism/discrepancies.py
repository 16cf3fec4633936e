"""Statistics of labels by which a model is criticised: how labels of an item and of two annotators go together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdppl.agreement.ballots import later
from crowdppl.data.decoding import row_sizes
from crowdppl.errors import DataError

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

FEW = 10
"""Items that two annotators have to share for their agreement to be looked at."""
AT_ONCE = 2_000_000
"""Pairs of labels that are held at once."""
RAREST = 0.05
"""Probability of an answer below which agreement on it weighs no more."""


@dataclass(frozen=True)
class Design:
    """Who labelled what, by position, and what was answered.

    Attributes:
        item, annotator, answer: of each label, (S,); labels of an item stand together.
        labels: of each item, (N,).
        n_annotators, n_answers: A, L.
    """

    item: np.ndarray
    annotator: np.ndarray
    answer: np.ndarray
    labels: np.ndarray
    n_annotators: int
    n_answers: int

    @classmethod
    def of(cls, data: Annotations, named: bool = False) -> Design:
        """The design of annotations, and their answers.

        Args:
            named: whether to leave out labels that name no class.

        Raises:
            DataError: when no item has two labels.
        """
        labels = np.concatenate([row_sizes(block) for block in data.blocks])
        cells = np.concatenate([block.bags.cells.cpu().numpy() for block in data.blocks]).astype(np.int64)
        item = np.repeat(np.arange(len(labels)), labels)
        annotator, answer = np.divmod(cells, data.n_answers)
        if named and data.n_answers > data.n_classes:
            item, annotator, answer = (x[answer < data.n_classes] for x in (item, annotator, answer))
            labels = np.bincount(item, minlength=len(labels))
        if labels.max(initial=0) < 2:
            raise DataError(
                f"none of {len(labels)} items has two labels, so that nothing tells how labels vary on an item; "
                "have some items labelled twice"
            )
        return cls(item, annotator, answer, labels, data.n_annotators, data.n_answers)

    @property
    def sizes(self) -> np.ndarray:
        """Numbers of labels that items have, from two on."""
        return np.unique(self.labels[self.labels > 1])

    @property
    def sized(self) -> np.ndarray:
        """How many items have as many labels."""
        counts: np.ndarray = np.bincount(self.labels)[self.sizes]
        return counts

    def votes(self, answer: np.ndarray) -> np.ndarray:
        """How often each item was given each answer: (S,) to (N, L)."""
        return _counts(self.item, answer, (len(self.labels), self.n_answers))

    def spread(self, answer: np.ndarray) -> np.ndarray:
        """Variance of the top vote share among items of each of ``sizes``."""
        several = self.labels > 1
        size = self.labels[several]
        top = self.votes(answer)[several].max(1) / size
        n = np.maximum(np.bincount(size), 1)
        mean = np.bincount(size, top) / n
        variance: np.ndarray = (np.bincount(size, (top - mean[size]) ** 2) / n)[self.sizes]
        return variance

    def meetings(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Pairs of labels of an item by two annotators, some items at a time: two rows, and a key for who met."""
        end = np.cumsum(self.labels)
        chunk = np.cumsum(self.labels * (self.labels - 1) // 2) // AT_ONCE
        for part in np.split(np.arange(len(end)), np.flatnonzero(np.diff(chunk)) + 1):
            one, other = (rows + end[part[0]] - self.labels[part[0]] for rows in later(self.labels[part]))
            a, b = self.annotator[one], self.annotator[other]
            differ = a != b
            key = np.minimum(a, b) * self.n_annotators + np.maximum(a, b)
            yield one[differ], other[differ], key[differ]


def _unanimous(design: Design, answer: np.ndarray) -> float:
    several = design.labels > 1
    return float((design.votes(answer)[several].max(1) == design.labels[several]).mean())


def _pair_agreement(design: Design, answer: np.ndarray) -> float:
    votes = design.votes(answer)
    return float((votes * (votes - 1)).sum() / (design.labels * (design.labels - 1)).sum())


def _class_shares(design: Design, answer: np.ndarray) -> float:
    given = _counts(design.annotator, answer, (design.n_annotators, design.n_answers))
    n = given.sum(1, keepdims=True)
    distance = given / np.maximum(n, 1) - given.sum(0) / n.sum()
    return float((n * distance**2).sum() / n.sum())


STATISTICS: dict[str, Callable[[Design, np.ndarray], float]] = {
    "unanimous": _unanimous,
    "pair_agreement": _pair_agreement,
    "class_shares": _class_shares,
}
"""Those that one set of answers has by itself."""


def of_pairs(design: Design, answers: np.ndarray) -> dict[str, np.ndarray]:
    """The two statistics of annotator pairs, for each row of answers; none where no pair shares enough."""
    parts = [np.unique(key, return_counts=True) for _, _, key in design.meetings()]
    met, place = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    times = np.bincount(place, np.concatenate([n for _, n in parts]))
    met = met[times >= FEW]
    if not len(met):
        return {}
    rarity = _rarity(answers, design.n_answers)
    agreed = np.zeros((len(answers), len(met)))
    for one, other, key in design.meetings():
        column = np.minimum(np.searchsorted(met, key), len(met) - 1)
        kept = met[column] == key
        one, other, column = one[kept], other[kept], column[kept]
        for total, answer, weight in zip(agreed, answers, rarity, strict=True):
            same = answer[one] == answer[other]
            a, b = one[same], other[same]
            total += np.bincount(column[same], weight[a] * weight[b], len(met))
    distance = (agreed - agreed.mean(0)) / np.sqrt(agreed.var(0) + 1)
    return {"pair_excess": distance.max(1), "pair_misfit": (distance**2).mean(1)}


def _rarity(answers: np.ndarray, n_answers: int) -> np.ndarray:
    """One over the root of how probable each answer was at its place: (n, S), float32."""
    out = np.empty(answers.shape, np.float32)
    for answer in range(n_answers):
        given = answers == answer
        p = np.maximum(given.mean(0), RAREST)
        out[given] = np.broadcast_to(p**-0.5, given.shape)[given]
    return out


def _counts(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape)
