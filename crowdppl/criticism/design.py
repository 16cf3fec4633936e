"""The labels by item, and the pairs of annotators who meet on items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from crowdppl.agreement.votes import row_pairs
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import row_sizes
from crowdppl.data.kinds.space import RealLine, number_space
from crowdppl.errors import DataError

MIN_SHARED = 10
"""Items that two annotators have to share for their agreement to be looked at."""
PAIRS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Design:
    """The labels by item.

    Attributes:
        item, annotator, answer: of each label, (S,); labels of an item stand together. Answers may be numbers.
        place: of each label in the order of the blocks, (S,).
        labels: number of labels of each item, (N,).
        n_annotators, n_answers: A, L.
        space: of labels that are numbers.
    """

    item: np.ndarray
    annotator: np.ndarray
    answer: np.ndarray
    place: np.ndarray
    labels: np.ndarray
    n_annotators: int
    n_answers: int
    space: RealLine

    @classmethod
    def of(cls, data: Annotations, named: bool = False, least: int = 2, numbers: bool = False) -> Design:
        """The labels of annotations, ``named`` without abstentions, or ``numbers``.

        Raises:
            DataError: when no item has two labels, or as many as are the ``least``, or labels are no classes.
        """
        classes = 0 if numbers else len(data.classes)
        labels = np.concatenate([row_sizes(block) for block in data.blocks])
        cells = np.concatenate([block.bags.cells.cpu().numpy() for block in data.blocks]).astype(np.int64)
        item = np.repeat(np.arange(len(labels)), labels)
        annotator, answer = np.divmod(cells, data.n_answers)
        if numbers:
            answer = np.concatenate([np.asarray(block.numbers) for block in data.blocks])
        place = np.arange(len(cells))
        if named and data.n_answers > classes:
            item, annotator, answer, place = (x[answer < classes] for x in (item, annotator, answer, place))
            labels = np.bincount(item, minlength=len(labels))
        if labels.max(initial=0) < least:
            raise DataError(
                f"none of {len(labels)} items has two labels, which show how labels vary on an item; have some "
                "items labelled twice"
            )
        space = number_space(data.space)
        return cls(item, annotator, answer, place, labels, data.n_annotators, data.n_answers, space)

    def on(self, kept: np.ndarray) -> Design:
        """The labels of some items, bool (N,); the others have none."""
        some = kept[self.item]
        columns = {name: getattr(self, name)[some] for name in ("item", "annotator", "answer", "place")}
        return replace(self, **columns, labels=np.where(kept, self.labels, 0))

    @property
    def sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of labels that items have, from two on; and how many items have as many."""
        return np.unique(self.labels[self.labels > 1], return_counts=True)

    def votes(self, answer: np.ndarray) -> np.ndarray:
        """How often each item was given each answer: (S,) to (N, L)."""
        return self._counts(self.item, answer, len(self.labels))

    def given(self, answer: np.ndarray) -> np.ndarray:
        """How often each annotator gave each answer: (S,) to (A, L)."""
        return self._counts(self.annotator, answer, self.n_annotators)

    def _counts(self, row: np.ndarray, answer: np.ndarray, n: int) -> np.ndarray:
        cells = np.bincount(row * self.n_answers + answer, minlength=n * self.n_answers)
        return cells.reshape(n, self.n_answers)

    def spread(self, answer: np.ndarray) -> np.ndarray:
        """Variance of the top vote share among items of each of ``sizes``."""
        several = self.labels > 1
        size = self.labels[several]
        top = self.votes(answer)[several].max(1) / size
        n = np.maximum(np.bincount(size), 1)
        mean = np.bincount(size, top) / n
        return np.asarray((np.bincount(size, (top - mean[size]) ** 2) / n)[self.sizes[0]])

    def meetings(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Pairs of labels of an item by two annotators, some items at a time: two rows, and a key for who met."""
        end = np.cumsum(self.labels)
        chunk = np.cumsum(self.labels * (self.labels - 1) // 2) // PAIRS_AT_ONCE
        for part in np.split(np.arange(len(end)), np.flatnonzero(np.diff(chunk)) + 1):
            one, other = (rows + end[part[0]] - self.labels[part[0]] for rows in row_pairs(self.labels[part]))
            a, b = self.annotator[one], self.annotator[other]
            differ = a != b
            key = np.minimum(a, b) * self.n_annotators + np.maximum(a, b)
            yield one[differ], other[differ], key[differ]

    def met(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys of the pairs of annotators who share an item, and how many pairs of labels: two of (pairs,)."""
        parts = [np.unique(key, return_counts=True) for _, _, key in self.meetings()]
        met, place = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
        return met, np.bincount(place, np.concatenate([n for _, n in parts]), len(met)).astype(np.int64)
