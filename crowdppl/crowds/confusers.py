"""Kinds of annotators whose errors have a pattern: they confuse certain classes, or mislead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from crowdppl.crowds.annotator_kinds import Classes, check_share, count_classes, spread
from crowdppl.crowds.opinions import Scene
from crowdppl.doors.counts import is_whole
from crowdppl.errors import DataError, MethodError
from crowdppl.tables.codebook import Codebook, as_index


@dataclass(frozen=True)
class PairwiseFlipper:
    """Right with probability p, and otherwise gives one fixed wrong class for each class.

    Tanno et al. (2019), "Learning from noisy labels by regularized estimation of annotator confusion": the wrong
    class is drawn evenly, for each annotator and class alone.

    Attributes:
        p: probability of the right label.
    """

    p: float = 0.6
    name: ClassVar[str] = "pairwise_flipper"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal and 1 - p in one other cell of each row, (K, K)."""
        k = count_classes(classes)
        wrong = (np.arange(k) + 1 + rng.integers(k - 1, size=k)) % k
        table: np.ndarray = self.p * np.eye(k) + (1 - self.p) * np.eye(k)[wrong]
        return table


@dataclass(frozen=True)
class SimilarClassConfuser:
    """Mistakes a class for one that looks like it; classes that look like no other are always labelled right.

    Attributes:
        p: probability of the right label where there are similar classes; errors fall evenly on these.
        pairs: pairs of names of similar classes, either taken for the other; by default each class and the one
            whose features lie nearest in the mean, which needs features.
    """

    p: float = 0.7
    pairs: tuple[tuple[Any, Any], ...] | None = None
    name: ClassVar[str] = "similar_class_confuser"

    def __post_init__(self) -> None:
        check_share(self, "p")
        for pair in self.pairs or ():
            if len(pair) != 2 or pair[0] == pair[1]:
                raise MethodError(f"{self.name}: pairs hold {pair!r}; give pairs of two different classes")

    def prepare(self, scene: Scene) -> SimilarClassConfuser:
        """The same with its pairs, found from the features where none are given."""
        if self.pairs is not None:
            return self
        if scene.features is None:
            raise DataError(f"{self.name} looks for similar classes in features; give features=, or its pairs=")
        near = scene.nearest_classes()
        pairs = {(min(k, int(n)), max(k, int(n))) for k, n in enumerate(near) if n >= 0}
        return replace(self, pairs=tuple((scene.classes[k], scene.classes[n]) for k, n in sorted(pairs)))

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal and the rest on similar classes; a row without any is certain, (K, K)."""
        if self.pairs is None:
            raise MethodError(f"{self.name} has no pairs= of similar classes yet; give them")
        k = count_classes(classes)
        given: Any = classes
        names: pd.Index[Any] = pd.RangeIndex(k) if is_whole(given) else as_index(given)
        book, similar = Codebook("class", names), np.zeros((k, k))
        for one, other in (book.require(list(pair), "pairs=", "name known classes") for pair in self.pairs):
            similar[one, other] = similar[other, one] = 1
        return spread(self.p, similar)


@dataclass(frozen=True)
class NeighbourConfuser:
    """Misses by one step: errors fall on the classes next to the truth in the order of classes, as with grades.

    Attributes:
        p: probability of the right label; the lowest and the highest class have one neighbour, others two.
    """

    p: float = 0.7
    name: ClassVar[str] = "neighbour_confuser"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal and the rest beside it, (K, K)."""
        k = count_classes(classes)
        return spread(self.p, np.eye(k, k=1) + np.eye(k, k=-1))


@dataclass(frozen=True)
class Adversary:
    """Knows the truth and avoids it: some other class, another one each time.

    Attributes:
        p: probability of the right label, which keeps an adversary from being found at once.
    """

    p: float = 0.1
    name: ClassVar[str] = "adversary"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal, the rest even, (K, K)."""
        return spread(self.p, 1 - np.eye(count_classes(classes)))


@dataclass(frozen=True)
class Malicious:
    """Knows the truth and swaps classes by a plan, one to one, so that the labels mislead and yet tell everything.

    With two classes, the malicious annotator of Raykar & Yu (2012), who flips the label.

    Attributes:
        p: probability of the right label; the plan, drawn for each annotator, leaves no class in its place.
    """

    p: float = 0.1
    name: ClassVar[str] = "malicious"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal and 1 - p in one other cell of each row and each column, (K, K)."""
        k = count_classes(classes)
        plan = np.arange(k)
        while (plan == np.arange(k)).any():  # a third of the permutations, at least, move every class
            plan = rng.permutation(k)
        table: np.ndarray = self.p * np.eye(k) + (1 - self.p) * np.eye(k)[plan]
        return table
