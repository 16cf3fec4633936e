"""Rows of labels as codes, with what the codes mean."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdppl.data.blocks import Block, build_blocks
from crowdppl.data.ids import Codebook, LabelSet


@dataclass(frozen=True)
class Coded:
    """Rows of codes, with what the codes mean."""

    items: Codebook
    annotators: Codebook
    alphabet: LabelSet
    item: np.ndarray
    annotator: np.ndarray
    answer: np.ndarray | None

    def blocks(self) -> tuple[np.ndarray, list[Block]]:
        """Sorts the rows into item blocks; returns the order of items, too."""
        return build_blocks(
            self.item,
            self.annotator,
            self.answer,
            n_items=len(self.items),
            n_annotators=len(self.annotators),
            n_classes=self.alphabet.n_classes,
            n_answers=len(self.alphabet.book),
        )

    def rows(self, kept: np.ndarray) -> Coded:
        """Some of the rows."""
        answer = None if self.answer is None else self.answer[kept]
        return replace(self, item=self.item[kept], annotator=self.annotator[kept], answer=answer)

    @property
    def by_code(self) -> np.ndarray:
        """The permutation of the rows that sorts them by item, annotator and answer."""
        keys = (self.annotator, self.item) if self.answer is None else (self.answer, self.annotator, self.item)
        return np.lexsort(keys)
