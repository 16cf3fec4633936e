"""What may be said about annotations besides who gave which label."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol, TypedDict

import numpy as np
import pandas as pd

from crowdppl.errors import DataError
from crowdppl.tables.alphabet import Alphabet
from crowdppl.tables.codebook import Codebook

REPEATS = ("keep", "error", "first", "last")


class Known(Protocol):
    """Annotations whose annotators, classes and answers are to be used again."""

    @property
    def annotator_book(self) -> Codebook:
        """Codebook of the annotators."""
        ...

    @property
    def alphabet(self) -> Alphabet:
        """Classes and answers."""
        ...

    @property
    def abstainers(self) -> np.ndarray | None:
        """Annotators who may abstain, (A,)."""
        ...


class Options(TypedDict, total=False):
    """What may be said about annotations besides the labels; everything is optional.

    Attributes:
        classes: all classes, in their order; one that nobody gave stays. By default those given, sorted; of labels
            that are a categorical of pandas, its categories, in their order if they have one
            (``remove_unused_categories`` leaves out those of rows that were filtered away).
        abstentions: answers that are no class, such as "don't know".
        informative_abstentions: whether declining may depend on the class, so that an abstention is evidence of it.
            By default it tells nothing (it is ignorable): each annotator declines at a rate of their own.
        kind: "nominal", or "ordinal" where the order of classes means something: that of ``classes``, else
            that of labels as numbers.
        gold: series or mapping from item id to known class, for some or all items.
        features: DataFrame by item id, or array (N, ...) or torch Dataset whose rows belong to ``items``; a dataset
            stays where it is, and rows are read when a network looks at them.
        items, annotators: ids that are there even without labels; a ``Codebook`` fixes all of them.
        item_covariates, annotator_covariates: DataFrames by id; stories read them by the functions of these names.
        history: pseudo-counts from earlier work, to be added to a prior: mapping from annotator id to a
            (K, K) matrix [truth, label], or (A, K, K) in codebook order.
        repeats: what to do where an annotator labels an item again: "keep" (all count), "first" or "last"
            (one does), each with a warning that counts them; "error".
        like: annotations whose annotators, classes and answers have the same codes here; others are refused.
        grow: whether annotators unknown to ``like`` are appended instead.
    """

    classes: Iterable[Any] | None
    abstentions: Iterable[Any]
    informative_abstentions: bool
    kind: str
    gold: Any
    features: Any
    items: Iterable[Any] | None
    annotators: Iterable[Any] | Codebook | None
    item_covariates: pd.DataFrame | None
    annotator_covariates: pd.DataFrame | None
    history: Any
    repeats: Literal["keep", "error", "first", "last"]
    like: Known | None
    grow: bool


def check_options(options: Options) -> None:
    """Refuses options that there are not.

    Raises:
        TypeError: for a name, as for any keyword that a function does not take.
        DataError: for a way to treat repeats.
    """
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise TypeError(
            f"{unknown[0]!r} is no option of annotations; there are {', '.join(Options.__annotations__)}"
        )
    repeats = options.get("repeats", "keep")
    if repeats not in REPEATS:
        raise DataError(f"repeats={repeats!r} is none of {', '.join(map(repr, REPEATS))}")
