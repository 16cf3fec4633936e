"""Whatever the library returns, as flat arrays of numbers by name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

Numbers = dict[str, np.ndarray]
UNLIKE = ("seconds", "warnings")
"""What differs from run to run, or is made of words."""


def numbers(**values: Any) -> Numbers:
    """Flat arrays of everything that is given.

    Columns are named by position and name, so that a renamed one changes its key and nothing else. Words become
    checksums.
    """
    return {name: array for key, value in values.items() for name, array in _walk(key, value)}


def _walk(key: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays under a key, and under the keys below it."""
    if isinstance(value, pd.DataFrame):
        yield f"{key}/index", _flat(value.index)
        for i, name in enumerate(value.columns):
            if str(name) not in UNLIKE:
                yield f"{key}/{i:02} {name}", _flat(value.iloc[:, i])
    elif isinstance(value, pd.Series):
        yield from _walk(key, value.to_frame())
    elif isinstance(value, Mapping):
        for name, one in value.items():
            if str(name) not in UNLIKE:
                yield from _walk(f"{key}/{name}", one)
    elif isinstance(value, Sequence) and any(isinstance(one, Mapping) for one in value):
        for i, one in enumerate(value):
            yield from _walk(f"{key}/{i}", one)
    else:
        yield key, _flat(value)


def _flat(value: Any) -> np.ndarray:
    """Numbers as float64, words as a checksum each."""
    if isinstance(value, pd.Series) and pd.api.types.is_numeric_dtype(value):
        return value.to_numpy(np.float64, na_value=np.nan)
    array = np.asarray(value)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64).ravel()
    words = [value] if isinstance(value, str) or not np.iterable(value) else list(value)
    return np.array([crc32(str(word).encode()) for word in words], np.float64)
