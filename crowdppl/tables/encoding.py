"""Columns of ids or labels as distinct values and codes, whatever type they come in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.errors import DataError
from crowdppl.tables.codebook import BROKEN, Codebook, first_broken, first_unhashable, plain, sorting
from crowdppl.tables.handover import as_column

Place = Callable[[int], str]
"""Says where the row at a position stands: "line 5 of answers.csv"."""
ROW = "leave the row out"
"""How one value is left out of a table with a row each."""

INFINITE = ("inf", "-inf", "Inf", "-Inf", "Infinity", "-Infinity")
MISSING = frozenset(["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", *INFINITE])
"""What stands for a missing or infinite value in files of text."""

LOOKUP = 8
"""Whole numbers that span at most this many times their count are coded through a table, without sorting."""


@dataclass(frozen=True)
class Encoding:
    """A column with each value spelled once.

    Attributes:
        values: distinct values; sorted only where that came for free.
        codes: position of each row's value among them.
        listed: of a column of pandas' categories these, whether or not a row holds them; None of any other column.
        ranked: the column says itself in which order its values are to be read.
    """

    values: pd.Index[Any]
    codes: np.ndarray
    listed: pd.Index[Any] | None = None
    ranked: bool = False

    def first_row(self, value: int) -> int:
        """The first row that holds the value at this position."""
        return int(np.flatnonzero(self.codes == value)[0])

    def codebook(self, name: str) -> tuple[Codebook, np.ndarray]:
        """The values as a sorted codebook, and each row's code in it."""
        if self.values.is_monotonic_increasing and self.values.dtype.kind in "iuf":
            return Codebook(name, self.values), self.codes
        order = sorting(self.values, name)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return Codebook(name, self.values[order]), rank[self.codes]


def encode(column: Any, name: str, place: Place, *, one_type: bool = True, without: str = ROW) -> Encoding:
    """Finds the distinct values of a column.

    Args:
        column: array, tensor, series, index or list, (S,).
        name: what the column holds, for messages.
        place: where a row stands.
        one_type: whether values of different types are refused.
        without: how one value is left out, for messages.

    Raises:
        DataError: when a value is missing, infinite or no possible id, or types are mixed.
    """
    values = as_column(column, name)
    try:
        return _encoded(values, name, place, one_type, without)
    except UnicodeEncodeError as error:  # of pyarrow, in which pandas keeps text
        row = first_broken(values)
        remedy = f"spell it anew, or {without}"
        raise DataError(f"the {name} {str(values[row])!r} at {place(row)} {BROKEN}; {remedy}") from error


def _encoded(
    values: np.ndarray | pd.api.extensions.ExtensionArray, name: str, place: Place, one_type: bool, without: str
) -> Encoding:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and len(values):
        return _of_integers(values)
    if isinstance(values, pd.Categorical):
        return _of_categories(values, name, place, one_type)
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = _of_one_type(values, name, place) if one_type else values
    try:
        codes, distinct = pd.factorize(pd.Series(values, copy=False))
    except TypeError as error:
        row = first_unhashable(values)
        such = f"the {name} column holds values that cannot be ids, such as {values[row]!r:.60} at {place(row)}"
        raise DataError(f"{such} ({error}); use text or numbers") from error
    encoding = Encoding(pd.Index(distinct, tupleize_cols=False), codes)
    _refuse_missing(encoding, name, place, lambda row: values[row], without)
    return encoding


def place_in_rows(row: int) -> str:
    """Where a row stands in a table or in arrays."""
    return f"row {row} (counted from 0)"


def refuse_markers(
    encoding: Encoding, name: str, place: Place, known: Iterable[Any], remedy: str, text: bool = True
) -> None:
    """Refuses what stands for a missing value: a text that is empty or of blanks, and in a file of text "NA", too.

    Args:
        encoding: the column.
        name: what it holds.
        place: where a row stands.
        known: values that are meant as they are spelled.
        remedy: what else to do.
        text: whether the column comes from a file of text.

    Raises:
        DataError: naming the first such row.
    """
    meant = set(known)
    rows = [
        encoding.first_row(position)
        for position, value in enumerate(encoding.values)
        if isinstance(value, str)
        and (value.strip() in MISSING if text else not value.strip())
        and value not in meant
    ]
    if rows:
        value = encoding.values[encoding.codes[min(rows)]]
        raise DataError(f"the {name} at {place(min(rows))} is missing or infinite ({value!r}); {remedy}")


def _of_integers(values: np.ndarray) -> Encoding:
    low, high = int(values.min()), int(values.max())
    if high - low > LOOKUP * len(values) + 1024:
        distinct, codes = np.unique(values, return_inverse=True)
        return Encoding(pd.Index(distinct), codes)
    # Each kind of integer in its own arithmetic: what is above 2**63 fits no int64.
    wide = np.uint64 if values.dtype.kind == "u" else np.int64
    shifted = values if low == 0 else (values.astype(wide) - wide(low)).astype(np.int64)
    present = np.zeros(high - low + 1, bool)
    present[shifted] = True
    offsets = np.flatnonzero(present)
    distinct = pd.Index((offsets.astype(wide) + wide(low)).astype(values.dtype))
    if len(offsets) == len(present):
        return Encoding(distinct, shifted)
    rank = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return Encoding(distinct, rank[shifted])


def _of_categories(values: pd.Categorical, name: str, place: Place, one_type: bool) -> Encoding:
    codes = np.asarray(values.codes)
    _refuse_missing(
        Encoding(values.categories.infer_objects(), codes),
        name,
        place,
        lambda row: None if codes[row] < 0 else values.categories[codes[row]],
    )
    used = np.bincount(codes, minlength=len(values.categories)) > 0
    kept = values.categories[used]
    rank = np.cumsum(used, dtype=np.int32) - np.int32(1)
    blank = np.array([isinstance(x, str) and not x.strip() for x in values.categories], bool)
    listed = values.categories[used | ~blank]  # a blank that no row holds stood for nothing
    encoding = Encoding(kept, codes if used.all() else rank[codes], listed, bool(values.ordered))
    if one_type and kept.dtype == object:
        _of_one_type(kept.to_numpy(), name, lambda position: place(encoding.first_row(position)))
    return encoding


def _of_one_type(values: np.ndarray, name: str, place: Place) -> np.ndarray:
    """Objects of one type as an array of that type where there is one.

    Raises:
        DataError: when types are mixed, with a row of each.
    """
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if not kind.startswith("mixed"):
        whole = kind in ("integer", "boolean") and not pd.isna(values).any()
        try:
            array = np.asarray(values.tolist()) if whole or kind == "floating" else values
        except OverflowError:
            return values
        # Whole numbers on both sides of 2**63 fit no integer of numpy, and floats would make one of several.
        return values if whole and array.dtype.kind == "f" else array
    first: dict[str, int] = {}
    for row, value in enumerate(values):
        if pd.api.types.is_scalar(value) and (pd.isna(value) or value in (math.inf, -math.inf)):
            raise DataError(_missing(name, place(row), value))
        first.setdefault(_type_name(value), row)
    if len(first) > 1:
        examples = " and ".join(f"{plain(values[r])!r} ({t}) at {place(r)}" for t, r in list(first.items())[:2])
        these = "labels" if name == "label" else f"{name} ids"
        raise DataError(f"{these} are of mixed types: {examples}; make them all text, or all numbers")
    return values


def _type_name(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, Integral):
        return "int"
    if isinstance(value, Real):
        return "float"
    return "str" if isinstance(value, str) else type(value).__name__


def _refuse_missing(found: Encoding, name: str, place: Place, at: Callable[[int], Any], without: str = ROW) -> None:
    wrong = found.codes < 0
    if found.values.dtype.kind == "f":
        infinite = np.flatnonzero(np.isinf(np.asarray(found.values)))
        if len(infinite):
            wrong |= np.isin(found.codes, infinite)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(_missing(name, place(row), at(row), int(wrong.sum()) - 1, without))


def _missing(name: str, where: str, value: Any, others: int = 0, without: str = ROW) -> str:
    more = f" (and in {others} more rows)" if others else ""
    advice = f"give it a value or {without}"
    if name == "label":
        advice += '; for "don\'t know", write a value and name it in abstentions='
    if value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        advice += '. If pandas read it: a text such as "NA" is missing to it, unless told keep_default_na=False'
    return f"the {name} at {where} is missing or infinite ({plain(value)!r}){more}; {advice}"
