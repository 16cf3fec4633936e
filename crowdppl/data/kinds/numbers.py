"""Labels that are numbers."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from crowdppl.core.validation import warn
from crowdppl.data.ids import (
    Codebook,
    Encoding,
    as_column,
    as_number,
    as_numbers,
    listed_answers,
    native,
    number_and_unit,
)
from crowdppl.data.kinds.kind import Kind, LabelSet, Settled
from crowdppl.data.kinds.parts import with_parts
from crowdppl.data.kinds.space import POSITIVE, REAL_LINE, RealLine
from crowdppl.data.notation import as_written
from crowdppl.data.tables import Rows
from crowdppl.errors import CrowdpplWarning, DataError

NUMBER = "label"
"""The label covariate that holds labels which are numbers; each is the only answer of its annotator."""
ONE_ANSWER = Codebook("answer", pd.Index(["a number"]))


@dataclass(frozen=True)
class Numbers(Kind):
    """Labels that are numbers, and so are truths.

    Attributes:
        own: where labels lie, if elsewhere than truths.
    """

    numeric: ClassVar[bool] = True
    space: RealLine = field(default=REAL_LINE, compare=False)
    own: RealLine | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        grades = np.arange(5.0)
        if self.example is None and not self.labels.contains(grades).all():
            object.__setattr__(self, "example", (tuple("abcdef"), self.labels.nearest(grades).tolist()))

    @property
    def labels(self) -> RealLine:
        """Where labels lie."""
        return self.space if self.own is None else self.own

    def candidates_of(
        self, columns: pd.DataFrame, known: np.ndarray | None, n_classes: int
    ) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Candidates of auto; on a log scale where all labels and known truths are above 0."""
        numbers = np.append(columns[NUMBER], [] if known is None else known[~np.isnan(known)])
        positive = POSITIVE.contains(numbers).all()
        found = super().candidates_of(columns, known, n_classes)
        return {name: x for name, x in found.items() if positive or x[1].get("scale") != "log"}

    def read(self, rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
        """Rows with numbers as a further column and the only answer in their place; DataError for others."""
        rows = without_abstentions(rows, options)
        if rows.label is not None:
            if rows.columns is not None and NUMBER in rows.columns:
                raise DataError(f"there is a further column {NUMBER!r} beside the labels; rename it")
            numbers = self._numbers(rows, options.get("decimal"))
            first = pd.DataFrame({NUMBER: numbers})
            more = [] if rows.columns is None else [rows.columns.reset_index(drop=True)]
            answers = Encoding(ONE_ANSWER.ids, np.zeros(len(numbers), np.int32))
            rows = replace(rows, label=answers, columns=pd.concat([first, *more], axis=1))
        return (rows, {**options}) if self.parts is None else with_parts(rows, options, self.parts)

    def answers(self, rows: Rows, options: Mapping[str, Any]) -> tuple[LabelSet, np.ndarray | None]:
        """No class, and one answer, that a number was given."""
        if options.get("classes") is not None or options.get("informative_abstentions", False):
            raise DataError(
                f"labels of kind={self.name!r} are numbers: leave out classes= and informative_abstentions="
            )
        return LabelSet(ONE_ANSWER, 0, self), None if rows.label is None else rows.label.codes

    def settled(self, rows: Rows, objects: Codebook | None, options: Mapping[str, Any]) -> Settled:
        """That there is one answer."""
        return Settled(LabelSet(ONE_ANSWER, 0, self), objects=objects)

    def mark_of(self, rows: Rows, options: Mapping[str, Any]) -> str | None:
        """The decimal mark of labels with commas, if any; DataError and warnings as where they are read."""
        with warnings.catch_warnings(action="ignore"):
            rows = without_abstentions(rows, options)
        said, given = options.get("decimal"), rows.label
        numbers = self._numbers(rows, said)
        values: Any = given.values if isinstance(given, Encoding) else given
        if said is not None or not any(isinstance(x, str) and "," in x for x in values):
            return said
        for mark in (",", "."):
            with warnings.catch_warnings(action="ignore"), suppress(DataError):
                if np.array_equal(self._numbers(rows, mark), numbers):
                    return mark
        return None

    def _numbers(self, rows: Rows, decimal: str | None) -> np.ndarray:
        """The labels as numbers, float64 (S,)."""
        given: Any = rows.label
        distinct = given.values if isinstance(given, Encoding) else given
        values = as_column(distinct, "label")
        labels = self.labels
        values = as_written(values, labels, decimal)
        found = as_numbers(values)
        codes = given.codes if isinstance(given, Encoding) else np.arange(len(found))
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero((~np.isfinite(found) | ~labels.contains(found))[codes])
        if len(wrong):
            value, more = native(values.iloc[codes[wrong[0]]]), len(wrong) - 1
            raise DataError(
                f"the label {value!r} at {rows.place(int(wrong[0]))} is not {labels.words}"
                + (f", nor are {more} others" if more else "")
                + f", which kind={self.name!r} asks for; {self._remedy(value, decimal)}, or leave the row out"
            )
        if why := labels.suspicion(found[codes]):
            other = next(unit for unit in self.units if unit != self.unit)
            warn(f"of the labels, {why}; if so, say unit={other!r}", CrowdpplWarning)
        return labels.canonical(found[codes])

    def _remedy(self, value: Any, decimal: str | None = None) -> str:
        """How to make a label of a value that is none."""
        if decimal == "," and isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", value.strip()):
            said = value.strip().replace(",", ".", 1)
            return f"it is {said} by decimal=',': say decimal='.' if commas stand between thousands"
        number = number_and_unit(value)[0]
        if math.isnan(as_number(value)) and self.labels.contains(np.array(number)):
            return f"write each as a number alone, {number:.15g}"
        if isinstance(value, str) and value.strip() and not any(letter.isdigit() for letter in value):
            return f"correct it, name it in abstentions=[{value!r}] if it means that there is no answer"
        return self.labels.remedy(number)


def without_abstentions(rows: Rows, options: Mapping[str, Any]) -> Rows:
    """Rows without those whose label is named as an abstention; their items and annotators stay."""
    away = listed_answers(options.get("abstentions", ()), "abstentions")
    if not away or rows.label is None:
        return rows
    given: Any = rows.label
    values = given.values if isinstance(given, Encoding) else as_column(given, "label")
    named = {*map(str, away)}
    out = np.array([str(native(x)) in named for x in values], bool)
    out = out[given.codes] if isinstance(given, Encoding) else out
    if not out.any():
        return rows
    warn(
        f"{out.sum()} of {len(out)} labels are abstentions and are left out, as numbers have none", CrowdpplWarning
    )
    return rows.chosen(~out)


REAL = Numbers(
    "real",
    "numbers",
    "numbers: ratings, measurements",
    aliases=("numeric", "numerical", "number", "float", "continuous", "regression", "measurement"),
    methods=("label_mean", "gain_annotators", "gaussian_annotators"),
    candidates={
        f"{name}{words}": (name, settings)
        for words, settings in (("", {}), (", log scale", {"scale": "log"}))
        for name in ("label_mean", "gaussian_annotators", "gain_annotators")
    },
)
