"""Labels that are numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from crowdppl.data.ids import Codebook, Encoding, as_column, listed_answers, native, number_and_unit
from crowdppl.data.kinds.kind import Kind, LabelSet
from crowdppl.data.kinds.parts import with_parts
from crowdppl.data.kinds.space import REAL_LINE, RealLine
from crowdppl.data.tables import Rows
from crowdppl.errors import DataError

NUMBER = "label"
"""The label covariate that holds labels which are numbers; each is the only answer of its annotator."""
ONE_ANSWER = Codebook("answer", pd.Index(["a number"]))
REACH, POINTS = 9.0, 2001
"""Of a grid that is dense in the middle, and reaches some 4,000 standard deviations out."""

Array = np.ndarray


def _grid(middle: float, scale: float) -> tuple[Array, Array]:
    """Points of the real line, and the width of each."""
    turn = np.linspace(-REACH, REACH, POINTS)
    return middle + scale * np.sinh(turn), scale * np.cosh(turn) * (turn[1] - turn[0])


@dataclass(frozen=True)
class Numbers(Kind):
    """Labels that are numbers, and so are truths.

    Attributes:
        holds: which finite numbers (n,) are labels, bool (n,).
        words: what a label is, for messages.
        candidates: of the method "auto", which takes the one that predicts best: method and settings by name, the
            plainest first.
        nearest: labels of any numbers, for small data of checks.
        grid: of a middle and a scale, labels (n,) and weights (n,), over which a density of labels sums to one.
    """

    numeric: ClassVar[bool] = True
    space: RealLine = field(default=REAL_LINE, compare=False)
    holds: Callable[[Array], Array] = field(default=np.isfinite, compare=False)
    words: str = field(default="a finite number", compare=False)
    candidates: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict, compare=False)
    nearest: Callable[[Array], Array] = field(default=np.asarray, compare=False)
    grid: Callable[[float, float], tuple[Array, Array]] = field(default=_grid, compare=False)

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

    def answers(self, rows: Rows, options: Mapping[str, Any]) -> tuple[LabelSet, Array | None]:
        """No class, and one answer, that a number was given."""
        away = listed_answers(options.get("abstentions", ()), "abstentions")
        informative = options.get("informative_abstentions", False)
        if options.get("like") is not None and (options.get("classes") is not None or away or informative):
            raise DataError("like= settles them: leave out classes=, abstentions= and informative_abstentions=")
        if options.get("classes") is not None or away:
            raise DataError(f"labels of kind={self.name!r} are numbers: leave out classes= and abstentions=")
        return LabelSet(ONE_ANSWER, 0, self), None if rows.label is None else rows.label.codes

    def _numbers(self, rows: Rows) -> Array:
        """The labels as numbers, float64 (S,)."""
        given: Any = rows.label
        distinct = given.values if isinstance(given, Encoding) else given
        values = as_column(distinct, "label")
        if values.dtype.kind in "cmM":  # pandas makes numbers of dates, durations and complex numbers
            values = values.astype(str)
        found = pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        codes = given.codes if isinstance(given, Encoding) else np.arange(len(found))
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero((~np.isfinite(found) | ~self.holds(found))[codes])
        if len(wrong):
            value, more = native(values.iloc[codes[wrong[0]]]), len(wrong) - 1
            raise DataError(
                f"the label {value!r} at {rows.place(int(wrong[0]))} is not {self.words}"
                + (f", nor are {more} others" if more else "")
                + f", which kind={self.name!r} asks for; {_remedy(value)}, or leave the row out"
            )
        return self.space.canonical(found[codes])


def _remedy(value: Any) -> str:
    """How to make a number of a label that is none."""
    number = number_and_unit(value)[0]
    return "correct it" if math.isnan(number) else f"write each as a number alone, {number:.15g}"


REAL = Numbers(
    "real",
    "numbers",
    "numbers: ratings, measurements",
    methods=("label_mean", "gain_annotators", "gaussian_annotators"),
    candidates={name: (name, {}) for name in ("label_mean", "gaussian_annotators", "gain_annotators")},
)
