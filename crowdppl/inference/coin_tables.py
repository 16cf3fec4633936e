"""Tables of annotators whose wrong answers depend on little but answer or truth, without what they repeat."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from crowdppl.core.devices import require_memory
from crowdppl.core.fields import ROUNDING, Check, Numbers, Sizes, refusal, require_shape, require_shares

Coin = Annotated[np.ndarray, Numbers(None, low=0, high=1 + ROUNDING)]


@dataclass(frozen=True, eq=False)
class CoinTables:
    """Tables p(answer | annotator, truth), (..., A, K, L), in the memory of their coins; ``np.asarray`` forms them.

    Attributes:
        right: (..., A, 1 or K), of each class where it is the truth.
        wrong: the same, of each class where another is the truth; ``by_truth``, of any other class.
        other: (..., A, W), of abstentions.
        n_classes: K.
        by_truth: whether wrong answers depend on the truth, and not on the answer.
        near: (..., A, K, M), of each class where the truth is another of its node at each of M levels of a tree,
            from the parents up, and of no node below; None without a tree.
        nodes: (M, K), the number of each class's node.
    """

    right: Coin
    wrong: Coin
    other: Coin
    n_classes: int
    by_truth: bool = False
    near: Coin | None = None
    nodes: Annotated[np.ndarray, Numbers("levels K", kinds="i", low=0)] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the tables."""
        return (*self.other.shape[:-1], self.n_classes, self.n_classes + self.other.shape[-1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        remedy = "posterior.annotators() and posterior.labels() need no such table"
        size = np.dtype(dtype or self.right.dtype).itemsize * math.prod(self.shape)
        require_memory(f"the table of {' x '.join(map(str, self.shape))} confusions", size, remedy)
        full: np.ndarray = np.empty(self.shape, dtype or self.right.dtype)
        full[..., : self.n_classes] = self.wrong[..., None] if self.by_truth else self.wrong[..., None, :]
        full[..., self.n_classes :] = self.other[..., None, :]
        for near, node in self._levels:
            np.copyto(full[..., : self.n_classes], near[..., None, :], where=node[:, None] == node)
        every = np.arange(self.n_classes)
        full[..., every, every] = self.right
        return full

    def __getitem__(self, key: Any) -> np.ndarray:
        """The tables of some annotators; or, by (annotators, :, answers), how probable a truth makes an answer."""
        if not isinstance(key, tuple):
            return np.asarray(self.map(lambda x: x[key]))
        annotator, _, answer = key
        right, wrong = (np.broadcast_to(x, self.shape[:-1]) for x in (self.right, self.wrong))
        named, at = answer < self.n_classes, np.minimum(answer, self.n_classes - 1)
        out: np.ndarray = (
            wrong[annotator] if self.by_truth else np.repeat(wrong[annotator, at][:, None], self.n_classes, 1)
        )
        for near, node in self._levels:
            out = np.where(node[at][:, None] == node, near[annotator, at][:, None], out)
        out[np.arange(len(at)), at] = right[annotator, at]
        if not named.all():
            out[~named] = self.other[annotator[~named], answer[~named] - self.n_classes][:, None]
        return out

    @property
    def _levels(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Probabilities (..., A, K) and nodes (K,) of each level of a tree, from the outermost inwards."""
        if self.near is None or self.nodes is None:
            return []
        return [(self.near[..., level], self.nodes[level]) for level in reversed(range(len(self.nodes)))]

    @property
    def naming(self) -> np.ndarray:
        """Probability of naming a class, (..., A, 1)."""
        return np.asarray(1 - self.other.sum(-1, keepdims=True))

    def diagonal(self) -> np.ndarray:
        """Of the right class, among those that name one, (..., A, K); NaN where none is ever named."""
        if not self.other.shape[-1]:
            return np.broadcast_to(self.right, self.shape[:-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self.naming > 0, self.right / self.naming, np.nan)
        return np.asarray(np.broadcast_to(share, self.shape[:-1]))

    def most_frequent(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of annotators (A,), so weighted, for each truth: the likeliest class, its share, and the right one's.

        All (K,). The likeliest wrong class is the same for all truths but itself, except in a tree.
        """
        if self.nodes is not None:
            crowd = self.map(
                lambda x: np.tensordot(weights, np.broadcast_to(x, (len(weights), *x.shape[1:])), 1)[None]
            )
            mean = np.asarray(crowd)[0, :, : self.n_classes]
            return mean.argmax(1), mean.max(1), np.asarray(mean.diagonal())
        own, wrong = (np.broadcast_to(weights @ x, self.n_classes) for x in (self.right, self.wrong))
        named = np.zeros(self.n_classes) if self.by_truth else wrong
        every, first = np.arange(self.n_classes), int(named.argmax())
        second = int(np.where(every == first, -np.inf, named).argmax())
        other = np.where(every == first, second, first)
        most = wrong if self.by_truth else wrong[other]
        return np.where(own >= most, every, other), np.maximum(own, most), np.asarray(own)

    def map(self, of: Callable[[np.ndarray], np.ndarray]) -> CoinTables:
        """One function of each of the arrays, such as the mean over draws, which come first."""
        near = None if self.near is None else of(self.near)
        return replace(self, right=of(self.right), wrong=of(self.wrong), other=of(self.other), near=near)

    def rows(self) -> np.ndarray:
        """Sums over the answers, (..., A, K)."""
        wrong = np.broadcast_to(self.wrong, self.shape[:-1])
        every = self.n_classes * wrong if self.by_truth else wrong.sum(-1, keepdims=True)
        sums, outer = every + self.other.sum(-1, keepdims=True), wrong
        for near, node in self._levels:
            sums, outer = sums + _by_node(near - outer, node), near
        return np.asarray(sums + self.right - outer)

    def information(self, prevalence: np.ndarray) -> np.ndarray:
        """Mutual information in bits of truth, of these shares (K,), and the class that is named, (A,)."""
        right, wrong = (
            self.diagonal(),
            np.broadcast_to(self.wrong / np.maximum(self.naming, 1e-300), self.shape[:-1]),
        )
        if self.by_truth:
            missed = prevalence * wrong
            named = prevalence * right + missed.sum(-1, keepdims=True) - missed
            log_named = np.log2(np.maximum(named, 1e-300))
            own = (self.n_classes - 1) * np.log2(np.maximum(wrong, 1e-300))
            others = missed * (own - (log_named.sum(-1, keepdims=True) - log_named))
        else:
            near = [(x / np.maximum(self.naming, 1e-300), _by_node(prevalence, node)) for x, node in self._levels]
            values, shares = (list(x) for x in zip((wrong, np.ones_like(prevalence)), *near, strict=True))
            rest = [share - inner for share, inner in zip(shares, [*shares[1:], prevalence], strict=True)]
            named = prevalence * right + sum(share * x for share, x in zip(rest, values, strict=True))
            others = sum(share * _bits(x, named) for share, x in zip(rest, values, strict=True))
        return np.asarray(np.maximum((prevalence * _bits(right, named) + others).sum(-1), 0))

    def along(self, prevalence: np.ndarray) -> np.ndarray:
        """Numbers that are linear in sites where truth and answer together are: (..., A, 2 K + W)."""
        k, share = self.n_classes, prevalence[..., None, :]
        right, wrong = (np.broadcast_to(x, (*x.shape[:-1], k)) for x in (self.right, self.wrong))
        apart = np.roll(share, 1, -1)
        near = [x * apart for x, _ in self._levels]
        return np.concatenate([right * share, wrong * (share if self.by_truth else apart), *near, self.other], -1)

    @staticmethod
    def joined(parts: Sequence[CoinTables]) -> CoinTables:
        """Draws one after another."""
        three = ([getattr(x, name) for x in parts] for name in ("right", "wrong", "other"))
        right, wrong, other = map(np.concatenate, three)
        near = [x.near for x in parts if x.near is not None]
        found = replace(parts[0], right=right, wrong=wrong, other=other)
        return replace(found, near=np.concatenate(near)) if near else found


def _by_node(x: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Sums (..., K) over all classes of the node of each."""
    order = np.argsort(node, kind="stable")
    names, first = np.unique(node[order], return_index=True)
    return np.asarray(np.add.reduceat(x[..., order], first, -1)[..., np.searchsorted(names, node)])


def _bits(p: np.ndarray, among: np.ndarray) -> np.ndarray:
    """p log2(p / among), 0 where p is 0."""
    some = p > 0
    return np.asarray(np.where(some, p * np.log2(np.where(some, p, 1) / np.where(some, among, 1)), 0))


def tables(shape: str) -> Check:
    """Coins whose tables have this shape, with rows that add up to one."""

    def check(coins: CoinTables, place: str, sizes: Sizes) -> None:
        require_shape(coins.shape, shape.split(), place, sizes)
        wide = [(*coins.other.shape[:-1], width) for width in (1, coins.n_classes)]
        if coins.right.shape not in wide or coins.wrong.shape not in wide:
            raise refusal(place, f"of coins {coins.right.shape}, {coins.wrong.shape}", f"of {wide[-1]}")
        tree = None if coins.nodes is None else (*wide[-1], len(coins.nodes))
        if (None if coins.near is None else coins.near.shape) != tree:
            raise refusal(place, "of coins in a tree of other sizes", f"of {tree}")
        require_shares(coins.rows(), place)

    return check
