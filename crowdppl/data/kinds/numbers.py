"""Labels that are numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
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
from crowdppl.data.kinds.kind import Kind, LabelSet
from crowdppl.data.kinds.parts import with_parts
from crowdppl.data.kinds.space import REAL_LINE, RealLine
from crowdppl.data.tables import Rows
from crowdppl.errors import CrowdpplWarning, DataError

WRITTEN: Mapping[str, tuple[re.Pattern[str], Mapping[int, int]]] = {
    "a decimal comma": (re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?"), str.maketrans(",.", ".,")),
    "commas between thousands": (re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?"), {}),
}
"""How people write numbers, and what makes of it what Python writes, but for commas."""
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

    def read(self, rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
        """Rows with numbers as a further column and the only answer in their place; DataError for others."""
        if rows.label is not None:
            if rows.columns is not None and NUMBER in rows.columns:
                raise DataError(f"there is a further column {NUMBER!r} beside the labels; rename it")
            numbers = self._numbers(rows)
            first = pd.DataFrame({NUMBER: numbers})
            more = [] if rows.columns is None else [rows.columns.reset_index(drop=True)]
            answers = Encoding(ONE_ANSWER.ids, np.zeros(len(numbers), np.int32))
            rows = replace(rows, label=answers, columns=pd.concat([first, *more], axis=1))
        return (rows, {**options}) if self.parts is None else with_parts(rows, options, self.parts)

    def answers(self, rows: Rows, options: Mapping[str, Any]) -> tuple[LabelSet, np.ndarray | None]:
        """No class, and one answer, that a number was given."""
        away = listed_answers(options.get("abstentions", ()), "abstentions")
        informative = options.get("informative_abstentions", False)
        if options.get("like") is not None and (options.get("classes") is not None or away or informative):
            raise DataError("like= settles them: leave out classes=, abstentions= and informative_abstentions=")
        if options.get("classes") is not None or away:
            raise DataError(f"labels of kind={self.name!r} are numbers: leave out classes= and abstentions=")
        return LabelSet(ONE_ANSWER, 0, self), None if rows.label is None else rows.label.codes

    def _numbers(self, rows: Rows) -> np.ndarray:
        """The labels as numbers, float64 (S,)."""
        given: Any = rows.label
        distinct = given.values if isinstance(given, Encoding) else given
        values = as_column(distinct, "label")
        labels = self.labels
        values = _as_written(values, labels)
        found = as_numbers(values)
        codes = given.codes if isinstance(given, Encoding) else np.arange(len(found))
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero((~np.isfinite(found) | ~labels.contains(found))[codes])
        if len(wrong):
            value, more = native(values.iloc[codes[wrong[0]]]), len(wrong) - 1
            raise DataError(
                f"the label {value!r} at {rows.place(int(wrong[0]))} is not {labels.words}"
                + (f", nor are {more} others" if more else "")
                + f", which kind={self.name!r} asks for; {self._remedy(value)}, or leave the row out"
            )
        numbers = labels.canonical(found[codes])
        if why := labels.suspicion(numbers):
            warn(f"of the labels, {why}; if so, say unit=", CrowdpplWarning)
        return numbers

    def _remedy(self, value: Any) -> str:
        """How to make a label of a value that is none."""
        number = number_and_unit(value)[0]
        if math.isnan(as_number(value)) and self.labels.contains(np.array(number)):
            return f"write each as a number alone, {number:.15g}"
        return self.labels.remedy(number)


def _as_written(values: pd.Series[Any], labels: RealLine) -> pd.Series[Any]:
    """Text with a decimal comma (3,5), or with commas between thousands (1,234.5), as Python writes numbers.

    DataError where commas may be either.
    """
    texts = [x.strip() for x in values if isinstance(x, str)]
    first = next((x for x in texts if "," in x), None)
    if first is None:
        return values
    found = dict[str, list[str]]()
    for how, (form, marks) in WRITTEN.items():
        if all(form.fullmatch(x) for x in texts):
            read = [x.translate(marks).replace(",", "") for x in (first, *texts)]
            if labels.contains(np.array([float(x) for x in read])).all():
                found[how] = read
    if len(found) > 1:
        either = " or ".join(read[0] for read in found.values())
        raise DataError(f"labels such as {first!r} may mean {either}; write them without commas")
    for how, (one, *read) in found.items():
        warn(f"labels with {how} are read as numbers, such as {one}", CrowdpplWarning)
        numbers = iter(read)
        return pd.Series([next(numbers) if isinstance(x, str) else x for x in values], dtype=object)
    return values


REAL = Numbers(
    "real",
    "numbers",
    "numbers: ratings, measurements",
    aliases=("numeric", "numerical", "number", "float", "continuous", "regression", "measurement"),
    methods=("label_mean", "gain_annotators", "gaussian_annotators"),
    candidates={name: (name, {}) for name in ("label_mean", "gaussian_annotators", "gain_annotators")},
)
