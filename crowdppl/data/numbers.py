"""Labels that are numbers and no classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.blocks import NUMBER
from crowdppl.data.ids import Codebook, Encoding, LabelSet, as_column, native, number_and_unit
from crowdppl.data.rankings import RANKING, with_ranks
from crowdppl.data.tables import Rows
from crowdppl.errors import DataError


@dataclass(frozen=True)
class NumberKind:
    """A kind of labels that are numbers: what ``kind=`` says, which finite numbers (n,) can be labels, what one is
    in words, and what rows of labels are turned into first.
    """

    name: str
    holds: Callable[[np.ndarray], np.ndarray]
    words: str
    read: Callable[[Rows], Rows] = lambda rows: rows


NUMBERS = {
    kind.name: kind
    for kind in (
        NumberKind("real", np.isfinite, "a finite number"),
        NumberKind(RANKING, lambda rank: rank >= 1, "a rank, a finite number from 1, the best, on", with_ranks),
    )
}
"""The kinds of labels that are numbers; others of ``kind=`` are classes."""
ONE_ANSWER = Codebook("answer", pd.Index(["a number"]))


def label_set_of(kind: NumberKind) -> LabelSet:
    """The set of labels that are numbers: no class, and one answer, that a number was given."""
    return LabelSet(ONE_ANSWER, 0, kind.name)


def with_numbers(rows: Rows, kind: NumberKind) -> Rows:
    """The same rows, with numbers as a further column and the only answer in their place; DataError for others."""
    rows = kind.read(rows)
    if rows.label is None:
        return rows
    if rows.columns is not None and NUMBER in rows.columns:
        raise DataError(f"there is a further column {NUMBER!r} beside the labels; rename it")
    numbers = _numbers(rows, kind)
    first = pd.DataFrame({NUMBER: numbers})
    more = [] if rows.columns is None else [rows.columns.reset_index(drop=True)]
    answers = Encoding(ONE_ANSWER.ids, np.zeros(len(numbers), np.int32))
    return replace(rows, label=answers, columns=pd.concat([first, *more], axis=1))


def _numbers(rows: Rows, kind: NumberKind) -> np.ndarray:
    """The labels as numbers, float64 (S,)."""
    given: Any = rows.label
    distinct = given.values if isinstance(given, Encoding) else given
    values = as_column(distinct, "label")
    if values.dtype.kind in "cmM":  # pandas makes numbers of dates, durations and complex numbers
        values = values.astype(str)
    found = pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    codes = given.codes if isinstance(given, Encoding) else np.arange(len(found))
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero((~np.isfinite(found) | ~kind.holds(found))[codes])
    if len(wrong):
        value, more = native(values.iloc[codes[wrong[0]]]), len(wrong) - 1
        raise DataError(
            f"the label {value!r} at {rows.place(int(wrong[0]))} is not {kind.words}"
            + (f", nor are {more} others" if more else "")
            + f", which kind={kind.name!r} asks for; {_remedy(value)}, or leave the row out"
        )
    return np.asarray(found[codes])


def _remedy(value: Any) -> str:
    """How to make a number of a label that is none."""
    number = number_and_unit(value)[0]
    return "correct it" if math.isnan(number) else f"write each as a number alone, {number:.15g}"


def spread(numbers: np.ndarray) -> dict[str, float]:
    """The least, the median, the mean and the largest of some numbers, for a summary."""
    middle = {"median": float(np.median(numbers)), "mean": round(float(numbers.mean()), 3)}
    return {"min": numbers.min().item(), **middle, "max": numbers.max().item()}
