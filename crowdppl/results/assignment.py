"""Which annotator is asked about which item: best first, so many an item and so many an annotator."""

from __future__ import annotations

from collections import Counter

import numpy as np

ITEM, ANNOTATOR, GAIN, KEY = range(4)
"""Columns of a pair."""


class Assignment:
    """Pairs of an item and an annotator, taken in the order of what they gain while neither has enough.

    All pairs of an item are added at once; what cannot be taken any more is forgotten, so that memory does not grow
    with the number of pairs.

    Args:
        n: how many pairs.
        per_item: of an item at most.
        per_annotator: of an annotator at most; None for any number.

    Attributes:
        chosen: pairs [item, annotator, gain, tie key] that are settled, best first.
    """

    def __init__(self, n: int, per_item: int, per_annotator: int | None) -> None:
        self._n, self._per_item, self._per_annotator = n, per_item, per_annotator
        self.chosen: list[np.ndarray] = []
        self._open = np.empty((0, 4))
        self._of_item: Counter[int] = Counter()
        self._of_annotator: Counter[int] = Counter()

    @property
    def least(self) -> float:
        """A gain below which no pair is taken any more."""
        full = self._per_annotator is None and len(self.chosen) + len(self._open) >= self._n
        return float(self._open[-1, GAIN]) if full and len(self._open) else 0.0

    def add(self, items: np.ndarray, gain: np.ndarray, key: np.ndarray) -> None:
        """Takes up pairs of further items.

        Args:
            items: codes, (n,).
            gain: of each pair with an annotator, (n, A); below 0 where nobody is to be asked.
            key: between 0 and 1, (n, A); of pairs with the same gain the lowest comes first.
        """
        each = self._per_item if self._per_annotator is None else gain.shape[1]
        column = np.lexsort((key, -gain), axis=-1)[:, :each]
        row = np.repeat(np.arange(len(items)), column.shape[1])
        column = column.ravel()
        new = np.column_stack([items[row], column, gain[row, column], key[row, column]])
        both = np.concatenate([self._open, new[new[:, GAIN] >= 0]])
        self._open = self._possible(both[np.lexsort((both[:, KEY], -both[:, GAIN]))])

    def settle(self, most: float) -> bool:
        """Chooses among pairs that gain more than ``most``, which no later one does; says whether that is all."""
        ahead = int(np.searchsorted(-self._open[:, GAIN], -most, side="left"))
        for pair in self._open[:ahead]:
            item, annotator = int(pair[ITEM]), int(pair[ANNOTATOR])
            busy = self._per_annotator is not None and self._of_annotator[annotator] >= self._per_annotator
            if len(self.chosen) < self._n and self._of_item[item] < self._per_item and not busy:
                self.chosen.append(pair)
                self._of_item[item] += 1
                self._of_annotator[annotator] += 1
        self._open = self._open[ahead:]
        return len(self.chosen) == self._n

    def _possible(self, pairs: np.ndarray) -> np.ndarray:
        """Those of sorted pairs that can still be chosen.

        Before an annotator's next pair is reached, each better one is chosen itself, or passed over for another of
        its item that is chosen from now on. So the best pairs of an annotator, as many as are still to be chosen,
        are enough, once those of items that have enough are gone.
        """
        left = self._n - len(self.chosen)
        if self._per_annotator is None:
            return pairs[:left]
        busy = [a for a, count in self._of_annotator.items() if count >= self._per_annotator]
        full = [item for item, count in self._of_item.items() if count >= self._per_item]
        pairs = pairs[~np.isin(pairs[:, ANNOTATOR], busy) & ~np.isin(pairs[:, ITEM], full)]
        owner = pairs[:, ANNOTATOR].astype(np.int64)
        order = np.argsort(owner, kind="stable")
        sizes = np.bincount(owner)
        rank = np.empty(len(pairs), np.int64)
        rank[order] = np.arange(len(pairs)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.asarray(pairs[rank < left])
