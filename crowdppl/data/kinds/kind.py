"""A kind of label: how rows are read, where truths lie, which methods suit; the base of those beside it.

A new kind of numbers is one file in this folder and one line in ``KINDS`` (``kinds/__init__.py``):

    SHARE = Numbers(
        name="share",                                       # what kind= says
        plural="shares",                                    # in messages
        about="shares: probabilities, proportions",         # in the README's table
        space=Between(0, 1),                                # where labels and truths lie (``space.py``)
        methods=("beta_annotators",),                       # compared by default; the last is fitted by default
    )

Scores, agreement, pictures and checks are written against its space: ``RealLine``, ``NonNegative``, ``Between``,
or a subclass in the file of the kind. Where labels lie elsewhere than truths, as counts do, ``own`` is their space.
An ``example`` of its own and ``candidates`` of auto are given where the usual ones do not suit. What differs for a
kind beyond that stands where it is computed, in a dict keyed by the kind. Of annotations, ``data.alphabet.kind`` is
the kind, and ``data.kind`` its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from crowdppl.core.validation import shown
from crowdppl.data.ids import Codebook
from crowdppl.data.kinds.parts import Parts, ids_of_items
from crowdppl.data.kinds.space import Space
from crowdppl.data.tables import Rows
from crowdppl.errors import DataError


@dataclass(frozen=True)
class Small:
    """Small data on which methods of a kind are checked: the id of the item of a number below 12, the classes, and
    one more that nobody gives; None where there can be none.
    """

    item: Callable[[int], str] = "item {:02}".format
    letters: Sequence[str] = "abc"
    unused: str | None = "d"


@dataclass(frozen=True)
class Kind:
    """What labels are, and what truths they tell of.

    Attributes:
        name: what ``kind=`` says.
        plural: what labels are called, such as "numbers".
        about: what they are in a few words, for the table of kinds.
        space: where truths lie.
        parts: the two columns that name an item together; None where one does.
        unit, units: of the labels, and those that they may have (``in_unit``); None where they have none.
        methods: names of methods to compare where none is named; the last is fitted by default.
        candidates: of the method "auto", which takes the one that predicts best: method and settings by name, the
            plainest first; of numbers by default ``methods``. Classes without any are averaged instead.
        aliases: other words for it, which its refusal answers with the name.
        table: the method of a posterior that gives the table of such labels, written beside others; "" for none.
        example: ids of the items of a built-in example and the labels that three annotators give in turn; None
            where the grades of ``anaesthetists`` are one, as far as they are labels.
        small: on which data methods are checked.
        means: what a class says of an item, where its name alone does not; for people, in reports and pictures.
        numeric: whether labels are numbers and no classes.
        by_neighbours: whether a label is read by those of other items, as a tag is by the one before it.
        lists: whether a label may be a list.
    """

    numeric: ClassVar[bool] = False
    by_neighbours: ClassVar[bool] = False
    lists: ClassVar[bool] = False
    name: str
    plural: str = field(compare=False)
    about: str = field(compare=False)
    space: Space = field(compare=False)
    parts: Parts | None = field(default=None, compare=False)
    unit: str | None = field(default=None, compare=False)
    units: tuple[str, ...] = field(default=(), compare=False)
    methods: tuple[str, ...] = field(default=(), compare=False)
    candidates: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict, compare=False)
    aliases: tuple[str, ...] = field(default=(), compare=False)
    table: str = field(default="", compare=False)
    example: tuple[Sequence[Any], Sequence[Any]] | None = field(default=None, compare=False)
    small: Small = field(default=Small(), compare=False)
    means: Mapping[str, str] = field(default_factory=dict, compare=False)

    def candidates_of(
        self, columns: pd.DataFrame, known: np.ndarray | None, n_classes: int
    ) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Candidates of auto, by columns of labels, known truths and classes; none where methods are averaged."""
        return self.candidates or {name: (name, {}) for name in self.methods if self.numeric}

    def in_unit(self, unit: str | None) -> Kind:
        """The kind with labels in a unit, by default its own; DataError for one that it does not have."""
        if unit is not None and unit not in self.units:
            remedy = f"choose from {', '.join(map(repr, self.units))}" if self.units else "leave it out"
            raise DataError(f"unit={shown(unit)} is no unit of {self.plural}; {remedy}")
        return self if unit is None else replace(self, unit=unit)

    def read(self, rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
        """Rows of a table, and options, as those of one id an item and one answer a row; DataError for others."""
        raise NotImplementedError

    def answers(self, rows: Rows, options: Mapping[str, Any]) -> tuple[LabelSet, np.ndarray | None]:
        """What can be answered in rows that were read, and the code of each row's answer; None for a design."""
        raise NotImplementedError

    def settled(self, rows: Rows, objects: Codebook | None, options: Mapping[str, Any]) -> Settled:
        """What all labels tell, by rows of the distinct ones and the objects that items name."""
        raise NotImplementedError

    def truths(self, gold: pd.Series[Any], items: pd.Index[Any], covariates: pd.DataFrame, roles: Any) -> Any:
        """Known truths, by items as the labels name them, under the ids of ``items``."""
        several = isinstance(gold.index, pd.MultiIndex)
        if self.parts is None or (not several and gold.index.isin(items).all()):
            return gold
        return gold.set_axis(ids_of_items(gold.index, self.parts))


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Classes, then abstentions.

    Attributes:
        book: all answers; ``ids[:n_classes]`` are the classes, in their order.
        n_classes: K; 0 where labels are numbers.
        kind: of the labels.
        informative: whether an abstention may depend on the class.
        level: of the tree of which classes were paths; 0 where they are as they were read.
    """

    book: Codebook
    n_classes: int
    kind: Kind
    informative: bool = False
    level: int = 0

    @property
    def classes(self) -> Codebook:
        """What the truth can be."""
        return Codebook("class", self.book.ids[: self.n_classes])


class Settled(NamedTuple):
    """What all labels of a data set tell together, so that some of its rows are read as they are among all.

    Attributes:
        alphabet: what can be answered.
        options: of annotations of some rows.
        objects: the second parts of items, or both, where labels of any item may name them; None for none.
        words: labels by what is written for them in rows that are read alone.
        width: answers that a row makes.
    """

    alphabet: LabelSet
    options: Mapping[str, Any] = {}
    objects: Codebook | None = None
    words: Mapping[str, Any] = {}
    width: float = 1.0
