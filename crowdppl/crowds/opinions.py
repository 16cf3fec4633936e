"""What simulated annotators think of items, and the random numbers that each of them has alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.doors.counts import seed_number
from crowdppl.errors import MethodError

if TYPE_CHECKING:
    from crowdppl.crowds.annotator_kinds import Kind

Draw = Callable[..., np.random.Generator]
"""A fresh generator for an annotator and a purpose, both named by text."""


@dataclass(frozen=True)
class Scene:
    """What annotators are shown, and what is true.

    Attributes:
        truth: class codes, (N,).
        classes: names of the classes, K of them.
        items: ids, N of them.
        asked: whether anyone is asked about an item, bool (N,).
        features: float64 (N, M), or None.
    """

    truth: np.ndarray
    classes: pd.Index[Any]
    items: pd.Index[Any]
    asked: np.ndarray
    features: np.ndarray | None = None

    @property
    def n_items(self) -> int:
        """N."""
        return len(self.truth)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @cached_property
    def by_class(self) -> list[np.ndarray]:
        """Positions of the items of each class."""
        order = np.argsort(self.truth, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.truth, minlength=self.n_classes))[:-1])

    def nearest_classes(self) -> np.ndarray:
        """The class whose mean of standardised features is nearest, (K,); -1 for a class nobody is asked about."""
        assert self.features is not None, "asked for by kinds that made sure of it"
        x, truth = self.features[self.asked], self.truth[self.asked]
        spread = x.std(0)
        x = (x - x.mean(0)) / np.where(spread > 0, spread, 1)
        there = np.unique(truth)
        mean = np.stack([x[truth == k].mean(0) for k in there])
        apart = ((mean[:, None] - mean) ** 2).sum(-1)
        np.fill_diagonal(apart, np.inf)
        near = np.full(self.n_classes, -1)
        if len(there) > 1:
            near[there] = there[apart.argmin(1)]
        return near


@dataclass(frozen=True)
class Opinion:
    """What an annotator says, or would say, of every item.

    Attributes:
        labels: class codes, (N,).
        confusion: probability of each label given the truth, (K, K).
        able: items that the annotator may be asked about, bool (N,); None for all.
    """

    labels: np.ndarray
    confusion: np.ndarray
    able: np.ndarray | None = None


def streams(seed: int) -> Draw:
    """Random numbers that depend on a seed and on names alone, so that nobody's draws move another's.

    Raises:
        MethodError: when the seed is no whole number from 0, or too large.
    """
    seed = seed_number(seed)

    def draw(*names: str) -> np.random.Generator:
        digest = blake2b("\x1f".join(names).encode(), digest_size=16).digest()
        words = tuple(int(word) for word in np.frombuffer(digest, "<u4"))
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))

    return draw


def opinion_of(kind: Kind, scene: Scene, annotator: str, draw: Draw) -> Opinion:
    """Labels drawn from the confusion of a kind, for each item alone.

    Raises:
        MethodError: when a kind of a user's own gives no confusion.
    """
    prepare = getattr(kind, "prepare", None)
    ready: Kind = kind if prepare is None else prepare(scene)
    confusion = np.asarray(ready.confusion(scene.classes, draw(annotator, "confusion")), np.float64)
    shape = (scene.n_classes, scene.n_classes)
    if confusion.shape != shape or not (confusion >= 0).all() or not np.allclose(confusion.sum(1), 1):
        raise MethodError(
            f"the confusion of {annotator} must be {shape}, rows for the truth, not negative, with sums of 1; "
            f"{type(ready).__name__} gave {confusion!r}"
        )
    chance = draw(annotator, "labels").random(scene.n_items)
    labels = np.empty(scene.n_items, np.int32)
    for rows, row in zip(scene.by_class, confusion, strict=True):
        steps = np.cumsum(row)
        # Divided by its end, the last step is 1 exactly, and a class of no probability cannot be drawn.
        labels[rows] = np.searchsorted(steps / steps[-1], chance[rows], side="right")
    return Opinion(labels, confusion)
