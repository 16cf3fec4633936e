"""Kinds of annotators whose labels depend on the truth alone: each is a confusion matrix."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from crowdppl.doors.counts import is_whole, number_within
from crowdppl.errors import DataError
from crowdppl.tables.alphabet import listed

Classes = int | Collection[Any]


class Kind(Protocol):
    """How an annotator errs. A class of your own is one, if it has these two."""

    name: ClassVar[str]

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """One annotator's confusion [truth, label], (K, K): rows sum to one.

        Args:
            classes: their number, or their names in order.
            rng: draws what differs between annotators of the kind.

        Raises:
            DataError: for fewer than two classes.
        """
        ...


@dataclass(frozen=True)
class Expert:
    """Almost always right; errors fall evenly on the other classes.

    Attributes:
        p: probability of the right label.
    """

    p: float = 0.95
    name: ClassVar[str] = "expert"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal, the rest even, (K, K)."""
        return spread(self.p, 1 - np.eye(count_classes(classes)))


@dataclass(frozen=True)
class Hammer:
    """Mostly right; errors fall evenly on the other classes.

    The word is that of Karger, Oh & Shah (2011), "Iterative learning for reliable crowdsourcing systems", whose
    hammers are never wrong: p = 1.

    Attributes:
        p: probability of the right label.
    """

    p: float = 0.75
    name: ClassVar[str] = "hammer"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p on the diagonal, the rest even, (K, K)."""
        return spread(self.p, 1 - np.eye(count_classes(classes)))


@dataclass(frozen=True)
class Spammer:
    """Answers without looking: the label says nothing of the truth.

    Raykar & Yu (2012), "Eliminating spammers and ranking annotators for crowdsourced labeling tasks": all rows of
    the confusion are equal.

    Attributes:
        one_class: always the same class, drawn for each annotator; else every class with the same probability.
    """

    one_class: bool = False
    name: ClassVar[str] = "spammer"

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """Equal rows, (K, K)."""
        k = count_classes(classes)
        if not self.one_class:
            return np.full((k, k), 1 / k)
        return np.tile(np.eye(k)[rng.integers(k)], (k, 1))


@dataclass(frozen=True)
class HammerSpammer:
    """Knows the truth with probability p, and answers without looking otherwise.

    Tanno et al. (2019), "Learning from noisy labels by regularized estimation of annotator confusion". A blind
    answer may be right. Where annotators are hammers or spammers for good, as in Khetan, Lipton & Anandkumar
    (2018), "Learning from noisy singly-labeled data", draw their kinds with ``draw_kinds``.

    Attributes:
        p: probability of knowing; that of the right label is p + (1 - p) / K.
    """

    p: float = 0.6
    name: ClassVar[str] = "hammer_spammer"

    def __post_init__(self) -> None:
        check_share(self, "p")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """p times the identity, and (1 - p) / K everywhere, (K, K)."""
        k = count_classes(classes)
        return self.p * np.eye(k) + (1 - self.p) / k


@dataclass(frozen=True)
class ClassWiseSpammer:
    """Knows some classes, and answers without looking where the truth is another.

    After the class-wise hammer-spammers of Khetan, Lipton & Anandkumar (2018), "Learning from noisy singly-labeled
    data", where each class is known with a fixed probability; here a fixed share is.

    Attributes:
        p: probability of the right label in a known class; errors fall evenly on the other classes.
        share: of classes answered without looking, rounded; they are drawn for each annotator.
    """

    p: float = 0.9
    share: float = 0.5
    name: ClassVar[str] = "class_wise_spammer"

    def __post_init__(self) -> None:
        check_share(self, "p")
        check_share(self, "share")

    def confusion(self, classes: Classes, rng: np.random.Generator) -> np.ndarray:
        """Rows of known classes with p on the diagonal, even rows for the others, (K, K)."""
        k = count_classes(classes)
        table = spread(self.p, 1 - np.eye(k))
        table[rng.permutation(k)[: round(self.share * k)]] = 1 / k
        return table


def count_classes(classes: Classes) -> int:
    """K, of a number or of names.

    Raises:
        DataError: for fewer than two.
    """
    given: Any = classes
    k = given if is_whole(given) else len(listed(given, "classes"))
    if k < 2:
        raise DataError(f"annotators need at least two classes to tell apart, and there are {k}; name them all")
    return k


def check_share(kind: Any, setting: str) -> None:
    """Refuses a setting that is no probability.

    Raises:
        MethodError: with the kind, the setting and its value.
    """
    number_within(f"{kind.name}: {setting}", getattr(kind, setting), "a number from 0 to 1", lambda x: 0 <= x <= 1)


def spread(p: float, others: np.ndarray) -> np.ndarray:
    """p on the diagonal and 1 - p spread evenly over the cells marked in each row; certain where none is."""
    given = others.sum(1, keepdims=True)
    wrong = (1 - p) * others / np.maximum(given, 1)
    out: np.ndarray = wrong + np.diag(np.where(given[:, 0] > 0, p, 1.0))
    return out
