"""Numbers as people write them: with a decimal comma, with thousands apart, as "7/10" or "7 out of 10"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import warn
from crowdppl.data.kinds.space import RealLine
from crowdppl.errors import CrowdpplWarning, DataError

WRITTEN: Mapping[str, tuple[str, re.Pattern[str], Mapping[int, int]]] = {
    "a decimal comma": (",", re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?"), str.maketrans(",.", ".,")),
    "commas between thousands": (".", re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?([eE][+-]?\d+)?"), {}),
}
"""How people write numbers, by the decimal mark, and what makes of it what Python writes, but for commas."""
OUT_OF = re.compile(r"(.*\d)\s*(?:/|(?:out )?of)\s*(\d+)")
"""A number out of a highest one."""


def as_written(
    values: pd.Series[Any], space: RealLine, decimal: str | None = None, what: str = "labels"
) -> pd.Series[Any]:
    """Text with a ``decimal`` comma (3,5) or point (1,234.5), or out of a highest number, as Python writes numbers.

    Without ``decimal``, the mark is the one by which all are numbers of the space; DataError where it may be
    either. Of what is no number so written, all stay as they are, and text without digits stays in any case.
    """
    written = [isinstance(x, str) and any(letter.isdigit() for letter in x) for x in values]
    texts = [x.strip() for x, is_number in zip(values, written, strict=True) if is_number]
    shares = [OUT_OF.fullmatch(x) for x in texts]
    highest = {found[2] for found in shares if found}
    numbers = [found[1].strip() if found else x for x, found in zip(texts, shares, strict=True)]
    first = next((n for n, x in enumerate(numbers) if "," in x or shares[n]), 0 if decimal and texts else None)
    if first is None or len(highest) > 1:
        return values
    found = dict[str, list[str]]()
    for how, (mark, form, marks) in WRITTEN.items():
        if decimal in (None, mark) and all(form.fullmatch(x) for x in numbers):
            read = [x.translate(marks).replace(",", "") for x in numbers]
            inside = np.array([float(x) for x in read])
            if space.contains(inside).all() and (inside <= min([math.inf, *map(float, highest)])).all():
                found[how] = read
    if len({*map(tuple, found.values())}) > 1:
        first = next(n for n, x in enumerate(numbers) if "," in x or "." in x)
        either = " or ".join(read[first] for read in found.values())
        remedy = "say decimal=',' or decimal='.'" if what == "labels" else "write them without commas"
        raise DataError(f"{what} such as {texts[first]!r} may mean {either}; {remedy}")
    for how, read in found.items():
        said = how if any("," in x for x in numbers) else ""
        said += f"{' and ' if said else ''}out of {highest.pop()}" if highest else ""
        if (said and decimal is None) or "out" in said:
            warn(f"{what} with {said} are read as numbers, such as {read[first]}", CrowdpplWarning)
        as_python = iter(read)
        out = [next(as_python) if is_number else x for x, is_number in zip(values, written, strict=True)]
        return pd.Series(out, values.index, dtype=object)
    return values


def with_decimal_commas(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """A table of which columns of numbers with a decimal comma are numbers."""
    if table is None:
        return None
    _, form, marks = WRITTEN["a decimal comma"]
    changed = dict[Any, Any]()
    for name in table.columns[~table.columns.duplicated(keep=False)]:
        texts = [x.strip() for x in table[name].dropna() if isinstance(x, str)]
        if any("," in x for x in texts) and all(form.fullmatch(x) for x in texts):
            read = [x.strip().translate(marks).replace(",", "") if isinstance(x, str) else x for x in table[name]]
            changed[name] = pd.to_numeric(pd.Series(read, table.index))
    return table.assign(**changed) if changed else table
