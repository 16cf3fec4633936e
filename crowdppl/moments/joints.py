"""Labels as moments read them: joints of two annotators, and sums over triples without a table of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARED = 5
"""Items that two annotators must share for their joint to be used."""
MOST_CELLS = 6_000
"""Annotators x classes of which all pairs are counted: 288 MB of joints."""


def most_active(counts: Floats, most: int) -> Ints:
    """Codes of the annotators with most items (A,), sorted."""
    return np.sort(np.argsort(-counts, kind="stable")[:most])


@dataclass(frozen=True)
class Opinions:
    """What each annotator says of each item: one vote, of which repeats share equal parts; abstentions are none.

    Attributes:
        item, annotator: of each opinion (R,), sorted by annotator, then item.
        vote: the parts of the classes (R, K); rows sum to one.
        weight: how often each item counts (N,); a probability where moments are exact.
        n_annotators: A, those without an opinion among them.
    """

    item: Ints
    annotator: Ints
    vote: Floats
    weight: Floats
    n_annotators: int

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Opinions:
        """The opinions of the items in blocks, counted by position."""
        first, labels = blocks[0], []
        for block in blocks:
            use = block.named.cpu().numpy()
            labels.append(
                [x.cpu().numpy()[use] for x in (block.item + block.offset, block.annotator, block.answer)]
            )
        item, annotator, answer = (np.concatenate(x).astype(np.int64) for x in zip(*labels, strict=True))
        n_items, k = sum(block.n_items for block in blocks), first.n_classes
        return cls.of_codes(item, annotator, answer, np.ones(n_items), first.n_annotators, k)

    @classmethod
    def of_codes(
        cls, item: Ints, annotator: Ints, answer: Ints, weight: Floats, n_annotators: int, n_classes: int
    ) -> Opinions:
        """The opinions of labels that name a class, codes (S,) in any order."""
        pair, row = np.unique(annotator * len(weight) + item, return_inverse=True)
        vote = np.bincount(row * n_classes + answer, minlength=len(pair) * n_classes).reshape(-1, n_classes)
        annotator, item = np.divmod(pair, len(weight))
        return cls(item, annotator, vote / vote.sum(1, keepdims=True), weight, n_annotators)

    @property
    def n_classes(self) -> int:
        return int(self.vote.shape[1])

    @cached_property
    def counts(self) -> Floats:
        """Items of each annotator, (A,)."""
        return np.asarray(np.bincount(self.annotator, self.weight[self.item], self.n_annotators), float)

    @cached_property
    def rates(self) -> Floats:
        """How often each annotator gives each class, (A, K); rows of zeros for those who give none."""
        given = self.by_annotator(self.weight[self.item, None] * self.vote)
        return given / np.maximum(self.counts, 1e-300)[:, None]

    def of_annotators(self, chosen: Ints) -> Opinions:
        """The opinions of some annotators (sorted codes), who are then counted from 0."""
        own = np.isin(self.annotator, chosen)
        annotator = np.searchsorted(chosen, self.annotator[own])
        return replace(
            self, item=self.item[own], annotator=annotator, vote=self.vote[own], n_annotators=len(chosen)
        )

    def merged(self) -> Opinions:
        """The same opinions, items on which they are equal as one that counts as often as all of these."""
        order = np.argsort(self.item, kind="stable")
        who, vote, number = self.annotator[order], self.vote[order], dict[bytes, int]()
        ends = np.append(0, np.cumsum(np.bincount(self.item, minlength=len(self.weight)))).tolist()
        keys = (who[a:b].tobytes() + vote[a:b].tobytes() for a, b in pairwise(ends))
        kind = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
        own = np.isin(self.item, np.unique(kind, return_index=True)[1])
        return replace(
            self,
            item=kind[self.item[own]],
            annotator=self.annotator[own],
            vote=self.vote[own],
            weight=np.bincount(kind, self.weight).astype(np.float64),
        )

    def most_active(self, most: int) -> Ints:
        """Codes of the annotators with most items, sorted."""
        return most_active(self.counts, most)

    def by_annotator(self, x: Floats) -> Floats:
        """Sums over the opinions of each annotator, (R, ...) to (A, ...)."""
        out = np.zeros((self.n_annotators, *x.shape[1:]))
        who, first = np.unique(self.annotator, return_index=True)
        if len(who):
            out[who] = np.add.reduceat(x, first)
        return out

    @cached_property
    def _items(self) -> Any:
        """Items by opinions, sparse."""
        import scipy.sparse as sparse  # slow to import

        r = np.arange(len(self.item))
        return sparse.csr_matrix((np.ones(len(r)), (self.item, r)), (len(self.weight), len(r)))

    def by_item(self, x: Floats) -> Floats:
        """Sums over the opinions on each item, (R, F) to (N, F)."""
        return np.asarray(self._items @ x)

    @cached_property
    def joints(self) -> Floats:
        """How often two annotators give two classes to one item, (A, K, A, K) [annotator, label, annotator, label].

        For two annotators it estimates, times the number of items they share, ``C_a' D C_b`` with D the prevalence
        and C the confusions [truth, label]; of an annotator with himself, it is no such product.

        Raises:
            MethodError: where annotators and classes are too many for a table of their pairs.
        """
        import scipy.sparse as sparse  # slow to import

        a, k = self.n_annotators, self.n_classes
        if a * k > MOST_CELLS:
            raise MethodError(
                f"moments count pairs of annotators and classes, and {a:,} annotators with {k} classes make "
                f"{(a * k) ** 2:.2g} of them, where {MOST_CELLS**2:.2g} are the most; give most={MOST_CELLS // k}, "
                "by which those with most labels are counted, or take spectral, which counts groups"
            )
        row, answer = np.nonzero(self.vote)
        value, shape = self.vote[row, answer], (len(self.weight), a * k)
        seen = sparse.csr_matrix((value, (self.item[row], self.annotator[row] * k + answer)), shape)
        weighted = sparse.diags(self.weight) @ seen
        return np.asarray((seen.T @ weighted).toarray()).reshape(a, k, a, k)

    @cached_property
    def shared(self) -> Floats:
        """Items that two annotators share, (A, A); none with oneself."""
        out: Floats = self.joints.sum((1, 3))
        np.fill_diagonal(out, 0)
        return out

    def triples(self, x: Floats) -> float:
        """The sum of x x' x'' over all triples of annotators of each item, (R,) to a number."""
        first, second, third = (np.bincount(self.item, x**power, len(self.weight)) for power in (1, 2, 3))
        return float(self.weight @ (first**3 - 3 * first * second + 2 * third)) / 6
