"""A column that says when labels were given, and which of an annotator's labels of an item came first or last."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import listed, shown
from crowdppl.data.ids import Place, as_numbers, native
from crowdppl.errors import DataError

ZONE = r"\b((?!OCT|SEPT)[A-Z]{2,3}T)\b"
"""A zone such as PST, of which it does not matter which it is where all times have it."""


def one_of_each(
    pair: np.ndarray, how: str, columns: pd.DataFrame | None, time: Hashable | None, place: Place
) -> np.ndarray:
    """The "first" or "last" row of each ``pair``, codes (S,), in order: by a column of times, else by the rows.

    DataError where the column is missing, where a row that is repeated has no time, and where the day or the month
    may come first, and it makes a difference.
    """
    turn, found = np.arange(len(pair)), list[np.ndarray]()
    given = pd.Series(turn) if time is None else column_of_times(columns, time)
    group = np.unique(pair, return_inverse=True)[1].reshape(-1)
    repeated = np.bincount(group)[group] > 1
    for when in _times(given):
        wrong = np.flatnonzero(repeated & np.isnan(when))
        if len(wrong):
            raise _no_time(given, int(wrong[0]), place, ", of a label that is given again,")
        sign = 1 if how == "first" else -1
        order = np.lexsort((sign * turn, sign * when, pair))
        found.append(np.sort(order[np.diff(pair[order], prepend=-1) != 0]))
    if not np.array_equal(found[0], found[-1]):
        raise _unclear(given, int(np.setxor1d(found[0], found[-1])[0]), place)
    return found[0]


def with_times(columns: pd.DataFrame | None, time: Hashable, place: Place) -> pd.DataFrame:
    """The columns, that of times as float64, or as datetime64[us] in UTC.

    DataError where it is missing, where a row has no time, and where the day or the month may come first.
    """
    given = column_of_times(columns, time)
    found = _times(given)
    if (none := ~np.isfinite(found[0]) | ~np.isfinite(found[-1])).any():
        raise _no_time(given, int(none.argmax()), place)
    if (differ := found[0] != found[-1]).any():
        raise _unclear(given, int(differ.argmax()), place)
    times = found[0] if len(found) == 1 else found[0].astype(np.int64).astype("datetime64[us]")
    assert columns is not None  # for it has the column
    out = columns.copy(deep=False)
    out[time] = times
    return out


def _no_time(given: pd.Series[Any], row: int, place: Place, which: str = "") -> DataError:
    return DataError(
        f"the time {shown(native(given.iloc[row]))} at {place(row)}{which} is no time; write it as 2026-03-14 "
        "15:09:26 or as a number, or leave the row out"
    )


def _unclear(given: pd.Series[Any], row: int, place: Place) -> DataError:
    return DataError(
        f"the day or the month may come first in the time {shown(native(given.iloc[row]))} at {place(row)}; "
        "write times as 2026-03-14"
    )


def column_of_times(columns: pd.DataFrame | None, time: Hashable) -> pd.Series[Any]:
    """The further column of that name; DataError where there is none."""
    if columns is None or time not in columns:
        there = listed([*map(repr, () if columns is None else columns)]) or "none"
        raise DataError(f"no further column is called {time!r}; there are {there}: name one of times as time=")
    found: pd.Series[Any] = columns[time]
    return found


def _times(given: pd.Series[Any]) -> Sequence[np.ndarray]:
    """Times as numbers, NaN for none; of dates such as 3/4/2026 with the month first and with the day first."""
    if not pd.api.types.is_datetime64_any_dtype(given):
        numbers = as_numbers(given)
        if np.isfinite(numbers[given.notna().to_numpy()]).all():
            return [numbers]
    if pd.api.types.infer_dtype(given, skipna=True) == "string":
        zones = given.str.extract(ZONE, expand=False)
        given = given.str.replace(ZONE, "", regex=True) if zones.nunique() == 1 else given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats that differ
        sure = pd.to_datetime(given, utc=True, errors="coerce", format="ISO8601")
        rest = given.where(sure.isna())
        read = [
            sure.fillna(pd.to_datetime(rest, utc=True, errors="coerce", format="mixed", dayfirst=first))
            for first in (False, True)
        ]
    moments = [x.to_numpy("datetime64[us]") for x in read]
    return [np.where(np.isnat(x), np.nan, x.astype(np.int64).astype(np.float64)) for x in moments]
