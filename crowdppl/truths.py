"""Known truths by item id, however they were handed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.codebook import Codebook, as_index, named_twice
from crowdppl.errors import DataError


def by_item(gold: Any) -> pd.Series[Any]:
    """Known truths as a series by item id; what is masked is missing.

    Raises:
        DataError: for anything but a series or a mapping.
    """
    if isinstance(gold, Mapping):
        values = [None if value is np.ma.masked else value for value in gold.values()]
        return pd.Series(values, index=as_index(gold), dtype=object)
    if not isinstance(gold, pd.Series):
        raise DataError(f"gold is a {type(gold).__name__}; give a Series or a mapping from item id to class")
    return gold


def codes_once(items: Codebook, named: pd.Index[Any]) -> np.ndarray:
    """The code of each item of gold, -1 for an unknown one.

    Raises:
        DataError: when an item is named twice, however it is spelled: two truths would contradict each other.
    """
    codes = items.codes(named)
    twice = named_twice(named, codes)
    if twice:
        raise DataError(f"gold names the item {twice} more than once; keep one class an item")
    return codes
