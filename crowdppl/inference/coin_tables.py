"""Tables of annotators whose wrong answers depend on answer or truth alone, without what they repeat."""

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
    """

    right: Coin
    wrong: Coin
    other: Coin
    n_classes: int
    by_truth: bool = False

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
        out[np.arange(len(at)), at] = right[annotator, at]
        if not named.all():
            out[~named] = self.other[annotator[~named], answer[~named] - self.n_classes][:, None]
        return out

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

        All (K,). The likeliest wrong class is the same for all truths but itself.
        """
        own, wrong = (np.broadcast_to(weights @ x, self.n_classes) for x in (self.right, self.wrong))
        named = np.zeros(self.n_classes) if self.by_truth else wrong
        every, first = np.arange(self.n_classes), int(named.argmax())
        second = int(np.where(every == first, -np.inf, named).argmax())
        other = np.where(every == first, second, first)
        most = wrong if self.by_truth else wrong[other]
        return np.where(own >= most, every, other), np.maximum(own, most), np.asarray(own)

    def map(self, of: Callable[[np.ndarray], np.ndarray]) -> CoinTables:
        """One function of each of the three arrays, such as the mean over draws, which come first."""
        return replace(self, right=of(self.right), wrong=of(self.wrong), other=of(self.other))

    def rows(self) -> np.ndarray:
        """Sums over the answers, (..., A, K)."""
        wrong = np.broadcast_to(self.wrong, self.shape[:-1])
        every = self.n_classes * wrong if self.by_truth else wrong.sum(-1, keepdims=True)
        return np.asarray(self.right - wrong + every + self.other.sum(-1, keepdims=True))

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
            named = prevalence * right + (1 - prevalence) * wrong
            others = (1 - prevalence) * _bits(wrong, named)
        return np.asarray(np.maximum((prevalence * _bits(right, named) + others).sum(-1), 0))

    def along(self, prevalence: np.ndarray) -> np.ndarray:
        """Numbers that are linear in sites where truth and answer together are: (..., A, 2 K + W)."""
        k, share = self.n_classes, prevalence[..., None, :]
        right, wrong = (np.broadcast_to(x, (*x.shape[:-1], k)) for x in (self.right, self.wrong))
        return np.concatenate(
            [right * share, wrong * (share if self.by_truth else np.roll(share, 1, -1)), self.other], -1
        )

    @staticmethod
    def joined(parts: Sequence[CoinTables]) -> CoinTables:
        """Draws one after another."""
        three = ([getattr(x, name) for x in parts] for name in ("right", "wrong", "other"))
        right, wrong, other = map(np.concatenate, three)
        return replace(parts[0], right=right, wrong=wrong, other=other)


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
        require_shares(coins.rows(), place)

    return check
