"""Hashes of items, annotators and classes by their labels, which key the base draws of variational Gaussians.

Items with the same labels then get the same base draws. With draws of their own, the Monte Carlo error of a few
particles tells apart items that no label tells apart, and may turn their truths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from crowdppl.data.blocks import Block

ROUNDS = 3


@dataclass(frozen=True)
class Signatures:
    """Hashes of entities, equal for entities that labels cannot tell apart.

    Attributes:
        items: uint64 (N,) by position.
        annotators: uint64 (A,).
        answers: uint64 (L,).
        n_classes: K.
    """

    items: np.ndarray
    annotators: np.ndarray
    answers: np.ndarray
    n_classes: int

    def uniform(self, shape: Sequence[int], plates: Sequence[str], name: str, seed: int, n: int) -> np.ndarray:
        """n uniform numbers for each coordinate of a site of some name: (n, *shape).

        ``plates`` says what each dimension of an unconstrained value counts: "items", "annotators", or "" for
        anything else; a dimension as long as there are classes counts as theirs.
        """
        key = np.array(seed % 2**63, np.uint64)
        for letter in name.encode():
            key = mix(key + np.uint64(letter))
        keys = np.full(tuple(shape), key)
        for dim, part in enumerate(self._parts(shape, plates)):
            view = [1] * len(shape)
            view[dim] = len(part)
            keys = mix(keys * np.uint64(3) + part.reshape(view))
        draws = np.arange(n, dtype=np.uint64).reshape((n,) + (1,) * len(shape))
        bits = mix(mix(keys[None] + mix(draws)))
        return np.asarray((bits >> np.uint64(11)).astype(np.float64) / 2.0**53)

    def _parts(self, shape: Sequence[int], plates: Sequence[str]) -> Iterator[np.ndarray]:
        """The hashes of each dimension."""
        for size, plate in zip(shape, plates, strict=True):
            if plate in ("items", "annotators"):
                yield self.items if plate == "items" else self.annotators
            elif size in (len(self.answers), self.n_classes):
                yield self.answers[:size]
            else:
                yield mix(np.arange(size, dtype=np.uint64))


def signatures(blocks: Sequence[Block]) -> Signatures:
    """Colour refinement on the graph of labels, in integers that wrap, so that no order of summation matters.

    A label is hashed as the number of labels of its item that agree with it, not as its name.
    """
    first = blocks[0]
    item = np.concatenate([b.item.cpu().numpy() + b.offset for b in blocks])
    annotator = np.concatenate([b.annotator.cpu().numpy() for b in blocks])
    n_items, width = sum(b.n_items for b in blocks), first.n_answers
    if first.n_classes:
        answer = np.concatenate([b.answer.cpu().numpy() for b in blocks])
    else:  # equal numbers are one answer
        numbers = [b.numbers.cpu().numpy() for b in blocks if b.numbers is not None]
        distinct, answer = np.unique(np.concatenate(numbers), return_inverse=True)
        width = len(distinct)
    cell = item * width + answer
    agree = mix(np.bincount(cell, minlength=n_items * width)[cell].astype(np.uint64))
    sides = [item, annotator, answer]
    hashes = [
        mix(np.bincount(codes, minlength=size).astype(np.uint64) + np.uint64(kind))
        for kind, (codes, size) in enumerate(zip(sides, (n_items, first.n_annotators, width), strict=True))
    ]
    for _ in range(ROUNDS):
        seen = [h[codes] for h, codes in zip(hashes, sides, strict=True)]
        edge = mix(mix(mix(seen[0] + agree) + seen[1]) + seen[2])
        hashes = [mix(h + _sums(edge, codes, len(h))) for h, codes in zip(hashes, sides, strict=True)]
    return Signatures(hashes[0], hashes[1], hashes[2] if first.n_classes else hashes[2][:0], first.n_classes)


def mix(x: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit integers that leaves no visible order (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def _sums(values: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
    """Sums by code, modulo 2**64."""
    order = np.argsort(codes, kind="stable")
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values[order], dtype=np.uint64)])
    ends = np.cumsum(np.bincount(codes, minlength=size))
    starts = ends - np.bincount(codes, minlength=size)
    return np.asarray(running[ends] - running[starts])
