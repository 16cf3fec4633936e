"""From class probabilities to one answer an item: the label, ties, entropy, credible sets and grades."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd

Ids = pd.Index | Sequence[Any]
TIE = 1e-6
"""Probabilities closer than this, relative to the larger one, are a tie."""


def best(probabilities: np.ndarray) -> np.ndarray:
    """Which classes share the highest probability of each item: bool (N, K)."""
    return np.asarray(probabilities >= probabilities.max(1, keepdims=True) * (1 - TIE))


def choose(
    probabilities: np.ndarray, votes: np.ndarray, items: Ids, classes: Ids, totals: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable class of each item, int64 (N,), and whether others were as probable, bool (N,).

    A tie goes to the class with more votes (N, K) on the item, then on all items (``totals``, (K,), where these are
    some of them), then to the one whose name, hashed with the item's id, comes first: the order of classes and rows
    does not matter, and no class wins all ties.
    """
    return settle(best(probabilities), votes, items, classes, totals)


def settle(
    candidates: np.ndarray, votes: np.ndarray, items: Ids, classes: Ids, totals: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """One of the candidates of each item, bool (N, K), by the rule of ``choose``, and whether there were others."""
    tied = candidates.sum(1) > 1
    code = candidates.argmax(1)
    at = np.flatnonzero(tied)
    some = candidates[at]
    for score in (votes[at], np.broadcast_to(votes.sum(0) if totals is None else totals, some.shape)):
        score = np.where(some, score, -np.inf)
        some = score == score.max(1, keepdims=True)
    code[at] = some.argmax(1)
    for n in np.flatnonzero(some.sum(1) > 1):
        item = items[int(at[n])]
        code[at[n]] = min(np.flatnonzero(some[n]), key=lambda k: hashed(item, classes[int(k)]))
    return code, tied


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Entropy of each item's truth in bits, (N,): from 0 to log2 K."""
    parts = np.array_split(probabilities, probabilities.size // 1_000_000 + 1)  # copies are small
    tiny = np.finfo(np.float64).tiny
    return np.concatenate([-(p * np.log2(np.clip(p, tiny, 1))).sum(1) for p in parts]) + 0.0


def credible_sets(probabilities: np.ndarray, classes: Ids, level: float) -> list[tuple[Any, ...]]:
    """The fewest classes, and those as probable as the last, that hold the truth at ``level``, likeliest first."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    sorted_p = np.take_along_axis(probabilities, order, 1)
    reached = np.cumsum(sorted_p, 1) >= level - 1e-9
    last = np.where(reached.any(1), reached.argmax(1), probabilities.shape[1] - 1)
    bound = np.take_along_axis(sorted_p, last[:, None], 1)
    size = (sorted_p >= bound * (1 - TIE)).sum(1)
    names = list(classes)
    return [tuple(names[k] for k in row[:n]) for row, n in zip(order.tolist(), size.tolist(), strict=True)]


def grade_quantile(probabilities: np.ndarray, q: float) -> np.ndarray:
    """The lowest grade that the truth does not exceed with probability at least q: codes (N,)."""
    reached = np.cumsum(probabilities, 1) >= q - 1e-9
    return np.asarray(np.where(reached.any(1), reached.argmax(1), probabilities.shape[1] - 1))


def grade_sd(probabilities: np.ndarray) -> np.ndarray:
    """Standard deviation of each item's truth in steps between neighbouring grades, (N,)."""
    grades = np.arange(probabilities.shape[1])
    mean = probabilities @ grades
    return np.asarray(np.sqrt(np.clip(probabilities @ grades**2 - mean**2, 0, None)))


def hashed(*parts: Any, size: int = 8) -> float:
    """A number in [0, 1) that names and seeds decide, from a hash of so many bytes."""
    digest = blake2b("\x1f".join(map(str, parts)).encode(), digest_size=size).digest()
    return int.from_bytes(digest, "big") / 2.0 ** (8 * size)
