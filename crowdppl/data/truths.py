"""Known truths by item id, however they were handed over, and the probabilities that they judge."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.doors.naming import kind_of
from crowdppl.errors import DataError
from crowdppl.tables.codebook import ONE_WAY, Codebook, as_index, named_twice, plain
from crowdppl.tables.variants import otherwise_spelled

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

ITS_PROBABILITIES = "give the posterior, or posterior.probabilities(), a DataFrame of items x classes"
"""What to hand over where truths are scored."""


def by_item(gold: Any) -> pd.Series[Any]:
    """Known truths as a series by item id; what is masked is missing.

    Raises:
        DataError: for anything but a series or a mapping.
    """
    if isinstance(gold, Mapping):
        values = [None if value is np.ma.masked else value for value in gold.values()]
        return pd.Series(values, index=as_index(gold), dtype=object)
    if not isinstance(gold, pd.Series):
        raise DataError(f"gold is {kind_of(gold)}; give a Series or a mapping from item id to class")
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


def table_of(posterior: Posterior | pd.DataFrame) -> pd.DataFrame:
    """Probabilities, items x classes.

    Raises:
        DataError: for what is neither a posterior nor a DataFrame, and for an item or a class that is there twice.
    """
    if not isinstance(posterior, pd.DataFrame):
        if not isinstance(posterior, import_module("crowdppl.posterior").Posterior):
            raise DataError(f"{kind_of(posterior)} holds no probabilities by item and class; {ITS_PROBABILITIES}")
        table: pd.DataFrame = posterior.probabilities()
        return table
    for what, ids in (("item", posterior.index), ("class", posterior.columns)):
        if not ids.is_unique:
            twice = plain(ids[ids.duplicated()][0])
            raise DataError(f"the probabilities have the {what} {twice!r} more than once; keep one")
    return posterior


def values_of(table: pd.DataFrame) -> np.ndarray:
    """Probabilities as numbers (N, K).

    Raises:
        DataError: when something is no number.
    """
    try:
        return table.to_numpy(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the probabilities hold something that is no number ({error}); give numbers") from error


def told(posterior: Posterior | pd.DataFrame, row: np.ndarray) -> str:
    """What to warn of when the fit was told truths of these rows; empty where it was told none."""
    codes = None if isinstance(posterior, pd.DataFrame) else posterior.data.gold_codes
    n = 0 if codes is None else int((codes[row] >= 0).sum())
    if not n:
        return ""
    return (
        f"the fit was told {n} of the {len(row)} truths that are scored here, so that it is right about these "
        "whatever the annotators say, and scores look better than they are; leave them out of gold"
    )


def rows(known: pd.Index, asked: pd.Index) -> np.ndarray:
    """The row of each item of gold in the table, -1 where it has none."""
    row = codes_once(Codebook("item", known), asked)
    if not (row >= 0).any():
        near = otherwise_spelled(plain(asked[0]), map(plain, known)) if len(asked) else ""
        example = (
            f" (gold has {plain(asked[0])!r}, the posterior {near or repr(plain(known[0]))})" if len(asked) else ""
        )
        raise DataError(f"no item of gold is in the posterior{example}; spell items as the answers do")
    return row


def codes(classes: pd.Index, truth: pd.Series, of_table: bool = False) -> np.ndarray:
    """The class code of each truth; columns ``of_table`` may be something else than classes."""
    code = Codebook("class", classes).codes(truth)
    unknown = np.flatnonzero(code < 0)
    if len(unknown):
        item, value = plain(truth.index[unknown[0]]), plain(truth.iloc[unknown[0]])
        names = ", ".join(repr(plain(name)) for name in classes)
        near = otherwise_spelled(value, map(plain, classes))
        remedy = (
            f"{near} is: {ONE_WAY}"
            if near
            else "correct it, or list all classes when the answers are read, in classes="
        )
        if of_table and len(unknown) == len(code) and not near:
            remedy += f". If these columns are no classes, {ITS_PROBABILITIES}"
        raise DataError(f"the truth {value!r} of item {item!r} is none of the classes ({names}); {remedy}")
    return code
