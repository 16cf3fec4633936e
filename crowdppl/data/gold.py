"""Known truths, aligned with items and classes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import shown, warn
from crowdppl.data.ids import MISSING, Codebook, as_numbers, by_item, native, places_of
from crowdppl.data.kinds.classes import SEPARATORS, parsed
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.data.kinds.space import RealLine, number_space
from crowdppl.data.notation import as_written
from crowdppl.errors import CrowdpplWarning, DataError

ITS_PROBABILITIES = "give the posterior, or posterior.probabilities(), a DataFrame of items x classes"
"""What to hand over where truths are scored."""
DIFFERENT = "gold (with different truths)"
"""The origin of an item's second truth, in messages."""


def without_blanks(truths: pd.Series[Any], text: bool, classes: Iterable[Any] = ()) -> pd.Series[Any]:
    """A column of truths without blanks and, in a file of ``text``, "NA" and the like unless it is a class."""
    missing, named = MISSING if text else {""}, {x for x in classes if isinstance(x, str)}
    blank = truths.map(lambda x: isinstance(x, str) and x.strip() in missing and x not in named)
    return truths[truths.notna() & ~blank.astype(bool)]


def given_truths(option: Any, column: pd.Series[Any] | None, text: bool, alphabet: LabelSet) -> Any:
    """Known truths of an option or of a column of the labels' table; DataError when both give them."""
    if column is None:
        return option
    if option is not None:
        raise DataError("gold= and gold_column= both give truths; leave one out")
    return without_blanks(column, text, alphabet.classes.ids)


def with_one_class(known: pd.Series[Any], classes: pd.Index[Any]) -> pd.Series[Any]:
    """Known truths without those that accept any of several classes, "cat;dog" or a list, as is told."""
    book, one, several = Codebook("class", classes), known.astype(object), list[int]()
    is_name = np.array([isinstance(x, str) or not isinstance(x, Collection) for x in known], bool)
    odd = ~is_name
    odd[is_name] = book.codes(known[is_name]) < 0
    for n in np.flatnonzero(odd).tolist():
        names = _accepted(known.iloc[n])
        found = {*book.codes(names).tolist()} if names else {-1}
        if min(found) >= 0 and len(found) > 1:
            several.append(n)
        elif min(found) >= 0:
            one.iloc[n] = names[0]
    if several:
        value, item = native(known.iloc[several[0]]), native(known.index[several[0]])
        warn(
            f"{len(several)} of {len(known)} known truths accept several classes, such as {shown(value)} of item "
            f"{item!r}{places_of(known)(item)}, and count as unknown",
            CrowdpplWarning,
        )
    return one if not several else one[~np.isin(np.arange(len(one)), several)]


def _accepted(value: Any) -> list[Any]:
    """The classes that a truth may name: of a list, or of text that is one or has separators."""
    if isinstance(value, str):
        found = parsed(value)
        mark = next((mark for mark in SEPARATORS if mark in value), None)
        value = found if found is not None else [] if mark is None else [x.strip() for x in value.split(mark)]
    if isinstance(value, Mapping) or not isinstance(value, Collection | np.ndarray):
        return []
    return [x for x in map(native, value) if isinstance(x, str | int) and x != ""]


def probability_array(table: pd.DataFrame) -> np.ndarray:
    """Probabilities as numbers (N, K)."""
    try:
        return table.to_numpy(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the probabilities hold something that is no number ({error}); give numbers") from error


def rows_of_truths(known: pd.Index, wanted: pd.Index) -> np.ndarray:
    """The row of each item of gold in a table of probabilities, -1 where it has none; there must be one."""
    book = Codebook("item", known)
    row = book.codes(wanted)
    book.refuse_twice(row, DIFFERENT)
    if not (row >= 0).any():
        example = f" (gold has {native(wanted[0])!r}, the posterior {native(known[0])!r})" if len(wanted) else ""
        raise DataError(f"no item of gold is in the posterior{example}; spell items as the labels do")
    return row


def class_codes(classes: pd.Index, truth: pd.Series, of_table: bool = False) -> np.ndarray:
    """The class code of each truth; columns ``of_table`` may be something else than classes."""
    code = Codebook("class", classes).codes(truth)
    unknown = np.flatnonzero(code < 0)
    if len(unknown):
        item, value = native(truth.index[unknown[0]]), native(truth.iloc[unknown[0]])
        names = ", ".join(repr(native(name)) for name in classes)
        remedy = "correct it, or list all classes in classes= when labels are read"
        if of_table and len(unknown) == len(code):
            remedy += f". If these columns are no classes, {ITS_PROBABILITIES}"
        at = places_of(truth)(item)
        raise DataError(f"the truth {value!r} of item {item!r}{at} is none of the classes ({names}); {remedy}")
    return code


def known_truths(gold: Any, items: Codebook, alphabet: LabelSet, decimal: str | None = None) -> np.ndarray | None:
    """The known class of each item, integers (N,), -1 where gold has none; of numbers float64 (N,), NaN; or None.

    DataError when gold names an unknown item or class, or two truths of an item, however it is spelled.
    """
    if gold is None:
        return None
    known = by_item(gold)
    at = places_of(gold)
    items.refuse_twice(items.codes(known.index), DIFFERENT, at)
    remedy = "correct it, or add it to items= if it is an item without labels"
    item = items.require(known.index, "gold", remedy, at)
    if alphabet.kind.numeric:
        numbers = np.full(len(items), np.nan)
        numbers[item] = true_numbers(known, number_space(alphabet.kind.space), decimal)
        return numbers
    known = with_one_class(known, alphabet.classes.ids)
    item = items.codes(known.index)
    wrong = known.index[alphabet.classes.codes(known) < 0]
    given = alphabet.classes.require(
        known,
        "gold",
        "correct it, or list all classes in classes=",
        lambda _: f" of item {native(wrong[0])!r}{at(wrong[0])}",
    )
    codes = np.full(len(items), -1, np.int16 if alphabet.n_classes < 2**15 else np.int32)
    codes[item] = given
    return codes


def true_numbers(known: pd.Series, space: RealLine, decimal: str | None = None) -> np.ndarray:
    """Known truths that are numbers, (n,); a DataError for one that is not in their space."""
    found = as_numbers(as_written(known, space, decimal, "known truths"))
    wrong = np.flatnonzero(~np.isfinite(found) | ~space.contains(found))
    if len(wrong):
        item, value = native(known.index[wrong[0]]), native(known.iloc[wrong[0]])
        at = places_of(known)(item)
        raise DataError(
            f"the truth {value!r} of item {item!r}{at} is not {space.words}; correct it, or leave it out"
        )
    if why := space.suspicion(found):
        warn(f"of the known truths, {why}; give them in the unit of the labels", CrowdpplWarning)
    return space.canonical(found)
