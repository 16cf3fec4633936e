"""Ids of items and annotators, and sets of labels, as codes and back: text or integers, spelled as given."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import kind_of, shown, warn
from crowdppl.errors import CrowdpplWarning, DataError

NUMBER = r"-?[0-9]+(\.[0-9]+)?"
MISSING = frozenset(["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"])
"""Text that stands for a missing value in files."""
EXACT = 2**53
"""Whole floats from here on may have lost digits."""

WITH_UNIT = re.compile(
    r"(?P<sign>[-+])?(?P<before>[<>~≈]?\s*(?:[A-Z]{0,3}[$€£¥₹₩]\s*)?)"
    r"(?P<number>(?(sign)|[-+]?)(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?)\s*"
    r"(?P<after>(?:[^\d.,;|-]\D{0,15})?|(?:/|(?:out )?of)\s*\d+)"
)
"""A number, also with commas between thousands, after a sign of money, before a unit, or out of a highest one."""
AS_SETS = 'say kind="set"'
"""What to do with labels that name several classes."""

Place = Callable[[int], str]
"""Where the row at a position stands: "line 5 of answers.csv"."""
READ_FROM = "read from"
"""The key of a file's name among ``attrs`` of a table."""


def place_in_rows(row: int) -> str:
    """Where a row stands in a table or in arrays."""
    return f"row {row} (counted from 0)"


def native(value: Any) -> Any:
    """A value in its native Python type, without numpy's around it, for messages."""
    return value.item() if isinstance(value, np.generic) else value


def tensor_to_numpy(values: Any, name: str) -> Any:
    """A tensor as an array (bfloat16 as float32), else the same; DataError where it is sparse."""
    kind = type(values)  # not the value: a table has its columns as attributes, whatever they are called
    tensor = hasattr(kind, "detach")
    if hasattr(kind, "nnz") or (tensor and str(values.layout) != "torch.strided"):
        raise DataError(f"{name} is sparse: whether a 0 is a value or nothing is unknown; make it dense")
    if not tensor:
        return values
    dense = values.detach().cpu().resolve_conj().resolve_neg()
    return (dense.float() if str(dense.dtype) == "torch.bfloat16" else dense).numpy()


def as_column(values: Any, name: str) -> pd.Series[Any]:
    """One value a row as a series; masked is missing. DataError for no list, not one dimension, half floats."""
    values = tensor_to_numpy(values, f"the {name} column")
    arrays = pd.Series | pd.Index | pd.api.extensions.ExtensionArray | np.ndarray
    if not isinstance(values, arrays) or isinstance(values, pd.MultiIndex):
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise DataError(f"the {name} column is {shown(values)}; give one value a row, as a list or an array")
        values = list(values)
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise DataError(f"the {name} column has shape {values.shape}; give one value a row")
    try:
        column: pd.Series[Any] = pd.Series(values).reset_index(drop=True)
        column.isna()  # which a signalling NaN refuses to say
    except (ValueError, TypeError, ArithmeticError) as error:  # also UnicodeError, for half a surrogate pair
        raise DataError(f"the {name} column cannot be read ({error}); use text or integers") from error
    if column.dtype == np.float16:
        raise DataError(f"the {name} column holds half floats, such as {native(values[0])!r}; use text or integers")
    if isinstance(column.dtype, pd.ArrowDtype) and "dictionary" in str(column.dtype):
        column = column.astype(object)
    return column


def as_index(values: Iterable[Any] | Codebook) -> pd.Index[Any]:
    """Ids as a flat index; floats that are all whole numbers become integers. DataError for what is no list."""
    if isinstance(values, Codebook):
        return values.ids
    column = as_column(values, "id")
    whole = _whole(column) if column.dtype.kind == "f" else None
    name = values.name if isinstance(values, pd.Index | pd.Series) else None
    return pd.Index(np.asarray(column) if whole is None else whole, name=name, tupleize_cols=False)


def texts_of(ids: pd.Index[Any]) -> pd.Series[str]:
    """Those of the ids that are text, by position."""
    if ids.dtype.kind in "iub":
        return pd.Series(dtype=object)
    texts = ids.to_series(index=pd.RangeIndex(len(ids)))
    return texts if ids.inferred_type == "string" else texts[[isinstance(x, str) for x in ids]].astype(str)


def one_or_several(ids: Any) -> pd.Index[Any]:
    """Ids as an index; a text, or what is no list, is one id."""
    return as_index([ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else ids)


def sorting(ids: pd.Index[Any], name: str) -> np.ndarray:
    """The permutation that sorts ids, text that is all numbers by value; DataError for text beside numbers."""
    if len(ids) and ids.inferred_type == "string" and ids.str.fullmatch(NUMBER).all():
        by_text, numbers = np.asarray(ids.argsort()), np.asarray(pd.to_numeric(ids.to_series()))
        if numbers.dtype != np.int64:
            numbers = np.array([Decimal(text) for text in ids])  # exact, however long
        return by_text[np.argsort(numbers[by_text], kind="stable")]  # the spelling settles "1" against "01"
    try:
        return np.asarray(ids.argsort(), np.int64)
    except TypeError as error:
        raise DataError(
            f"{name} ids are of mixed types, such as {native(ids[0])!r}; use text or integers"
        ) from error


class Origin(str):
    """The name of a file, and where each id stands in it; a table by id keeps it in ``attrs``, through pandas."""

    ids: pd.Index[Any]
    place: Place

    @classmethod
    def of(cls, name: str, ids: pd.Index[Any], place: Place) -> Origin:
        """That of a file with these ids, a row each."""
        made = cls(name)
        made.ids, made.place = ids, place
        return made

    def __deepcopy__(self, memo: Any) -> Origin:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)  # as a plain name

    def at(self, *values: Any) -> str:
        """Where an id stands, in brackets; "" where it does not, and the first two places of several.

        Of several ids, where all stand in one row of so many columns, of which ``ids`` has one after the other.
        """
        columns = self.ids.to_numpy().reshape(len(values), -1).T
        rows = [n for n, row in enumerate(columns) if all(map(_alike, row, values))]
        if not rows:
            return ""
        try:
            return f" ({' and '.join(map(self.place, rows[:2]))})"
        except OSError:  # the file is gone
            return f" ({self})"


def _alike(one: Any, other: Any) -> bool:
    """Whether two ids are the same, or written alike."""
    return bool(one == other) or str(one) == str(other)


def nowhere(*values: Any) -> str:
    """The place of an id of a table that comes from no file."""
    return ""


def places_of(table: Any) -> Callable[..., str]:
    """Where ids of a table by id stand in the file it was read from, " (line 5 of gold.csv)", or nothing."""
    found = getattr(table, "attrs", {}).get(READ_FROM)
    return found.at if isinstance(found, Origin) else nowhere


@dataclass(frozen=True, eq=False)
class Codebook:
    """Ids by code: the id with code 3 is ``ids[3]``; ``name`` says what they name: "item", "annotator" or
    "answer".

    Ids keep their type and spelling. A codebook made from data is sorted; afterwards ids are only appended, so
    that codes stay what they are.
    """

    name: str
    ids: pd.Index[Any]

    def __len__(self) -> int:
        return len(self.ids)

    def codes(self, values: Iterable[Any]) -> np.ndarray:
        """The code of each value, int64, -1 for an unknown one; DataError for what cannot be an id.

        A number also finds the text that spells it, and the other way round: 7 finds "7", but not "007".
        """
        wanted = as_index(values)
        try:
            found = np.array(self.ids.get_indexer(wanted), np.int64)
        except TypeError as error:
            odd = next((x for x in wanted if not isinstance(x, Hashable)), wanted)
            raise DataError(f"the {self.name}s hold {shown(odd)}, which is no id; use text or integers") from error
        lost = np.flatnonzero(found < 0)
        if len(lost) and wanted.dtype != self.ids.dtype:
            spelled = self.ids.map(str)
            if spelled.is_unique:
                found[lost] = spelled.get_indexer(wanted[lost].map(str))
        return found

    def require(
        self, values: Iterable[Any], origin: str, remedy: str, at: Callable[[Any], str] = nowhere
    ) -> np.ndarray:
        """The code of each value; DataError, with origin and remedy, when one is not in the book.

        ``at`` tells where a value stands (``places_of``).
        """
        wanted = as_index(values)
        codes = self.codes(wanted)
        if (codes < 0).any():
            lost = wanted[codes < 0]
            more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
            raise DataError(
                f"{origin} names the {self.name} {native(lost[0])!r}{at(lost[0])}{more}, none of the {len(self)} "
                f"known ones, such as {native(self.ids[0])!r}; {remedy}"
            )
        return codes

    def require_once(
        self, values: Iterable[Any], origin: str, remedy: str, at: Callable[[Any], str] = nowhere
    ) -> np.ndarray:
        """The code of each value; DataError also when one is named twice, however it is spelled."""
        codes = self.require(values, origin, remedy, at)
        self.refuse_twice(codes, origin, at)
        return codes

    def refuse_twice(self, codes: np.ndarray, origin: str, at: Callable[[Any], str] = nowhere) -> None:
        """Refuses codes of which one occurs twice; those below 0 may."""
        again = pd.Index(codes).duplicated() & (codes >= 0)
        if again.any():
            twice = native(self.ids[codes[np.argmax(again)]])
            raise DataError(f"{origin} names the {self.name} {twice!r} more than once{at(twice)}; keep one")

    def extended(self, values: Iterable[Any]) -> Codebook:
        """A codebook in which unknown values follow the known ones, sorted among themselves."""
        wanted = as_index(values)
        new = wanted[self.codes(wanted) < 0].unique()
        return Codebook(self.name, self.ids.append(new[sorting(new, self.name)])) if len(new) else self


@dataclass(frozen=True)
class Encoding:
    """A column with each value spelled once.

    Attributes:
        values: distinct values.
        codes: int32, position of each row's value among them.
        listed: the categories of a categorical of pandas, whether or not a row has them; None for other columns.
        ranked: whether the categories have an order.
    """

    values: pd.Index[Any]
    codes: np.ndarray
    listed: pd.Index[Any] | None = None
    ranked: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    def times(self) -> np.ndarray:
        """How many rows have each value, (values,)."""
        return np.bincount(self.codes, minlength=len(self.values))

    def first_row(self, value: int) -> int:
        """The first row with the value at this position."""
        return int(np.argmax(self.codes == value))

    def codebook(self, name: str) -> tuple[Codebook, np.ndarray]:
        """The values as a sorted codebook, and each row's code in it."""
        order = sorting(self.values, name)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return Codebook(name, self.values[order]), rank[self.codes]

    def code_in(self, book: Codebook, place: Place, known: str, remedy: str) -> np.ndarray:
        """The code of each row's value in a book, int32; DataError for the first that is not in it."""
        codes = book.codes(self.values)
        if (codes < 0).any():
            row = int(np.argmax(codes[self.codes] < 0))
            value = native(self.values[self.codes[row]])
            raise DataError(f"the {book.name} {value!r} at {place(row)} is none of the {known}; {remedy}")
        return np.asarray(codes.astype(np.int32)[self.codes])


def encode_text(column: Any, name: str, place: Place) -> Encoding | pd.Series[Any]:
    """A column of text of Arrow by its dictionary, any other as pandas has it; DataError for a missing value."""
    if isinstance(column, pd.Series):
        return column
    import pyarrow as pa  # slow to import

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        if not pa.types.is_string_view(column.type):
            try:
                series: pd.Series[Any] = column.to_pandas()
            except (ValueError, TypeError, NotImplementedError) as error:  # a dictionary that names a value twice
                raise DataError(f"the {name} column cannot be read ({error}); use text or integers") from error
            return series
        column = column.cast(pa.large_string())
    if column.null_count:
        raise _missing(column.is_null().to_numpy(), None, name, place)
    found = column.dictionary_encode().combine_chunks()
    return Encoding(pd.Index(found.dictionary.to_pandas()), found.indices.to_numpy())


def _missing(missing: np.ndarray, value: Any, name: str, place: Place) -> DataError:
    """The error of a column of which some values are missing, the first of them ``value``."""
    row, more = int(np.argmax(missing)), int(missing.sum()) - 1
    return DataError(
        f"the {name} at {place(row)} is missing ({native(value)!r})"
        + (f", and in {more} more rows" if more else "")
        + "; give it, or leave it out. "
        + ("An empty set is [] or '', by kind=\"set\". " if name == "label" else "")
        + "pandas.read_csv takes 'NA' as missing but for keep_default_na=False"
    )


def encode(values: Any, name: str, place: Place = place_in_rows, *, mixed: bool = False) -> Encoding:
    """Finds the distinct values of a column of text or integers (or of True and False, for labels).

    Whole floats become integers, with a warning: pandas makes floats of integers where some are missing.
    DataError, with the row, for a value that is missing, or neither text nor an integer, and for mixed types.
    """
    if isinstance(values, Encoding):
        return values
    column = as_column(values, name)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        return _of_integers(column.to_numpy())
    missing = column.isna().to_numpy()
    if missing.any():
        raise _missing(missing, column.iloc[int(np.argmax(missing))], name, place)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _of_categories(column, name, place, mixed)
    codes, distinct = pd.factorize(_text_or_integers(column, name, place, mixed))
    return Encoding(pd.Index(np.asarray(distinct), tupleize_cols=False), codes.astype(np.int32, copy=False))


def _of_integers(values: np.ndarray) -> Encoding:
    """Integers in the order in which they come first: by a table of their range, where it is short."""
    n, low = len(values), int(values.min()) if len(values) else 0
    if not n or int(values.max()) - low > 4 * n or not np.can_cast(values.dtype, np.int64):
        codes, distinct = pd.factorize(values)
        return Encoding(pd.Index(distinct), codes.astype(np.int32, copy=False))
    place = values.astype(np.int64) - low
    first = np.full(int(place.max()) + 1, n, np.int32)
    first[place[::-1]] = np.arange(n - 1, -1, -1, dtype=np.int32)  # where rows share a place, the last one stays
    rows = np.sort(first[first < n])
    rank = np.empty(len(first), np.int32)
    rank[place[rows]] = np.arange(len(rows), dtype=np.int32)
    return Encoding(pd.Index(values[rows]), rank[place])


def _of_categories(column: pd.Series[Any], name: str, place: Place, mixed: bool) -> Encoding:
    codes, categories = column.cat.codes.to_numpy(), column.cat.categories

    def of_category(n: int) -> str:
        return place(int(np.argmax(codes == n))) if (codes == n).any() else "the categories"

    names = encode(categories.to_series().infer_objects(), name, of_category, mixed=mixed).values
    used = np.bincount(codes, minlength=len(names)) > 0
    rank = np.cumsum(used, dtype=np.int32) - np.int32(1)
    blank = np.array([isinstance(x, str) and not x.strip() for x in names], bool)  # where no row has it: no class
    return Encoding(names[used], rank[codes], names[used | ~blank], bool(column.cat.ordered))


def _whole(column: pd.Series[Any]) -> np.ndarray | None:
    """Floats that are all whole numbers as integers; None for others."""
    numbers = column.to_numpy(np.float64)
    with np.errstate(invalid="ignore"):
        whole = (numbers % 1 == 0) & (np.abs(numbers) < EXACT)
    return numbers.astype(np.int64) if whole.all() else None


def _text_or_integers(column: pd.Series[Any], name: str, place: Place, mixed: bool) -> Any:
    """The column, whole floats as integers; DataError for a value of another type, and for mixed types."""
    kind = pd.api.types.infer_dtype(column, skipna=False)
    if kind in ("string", "integer", "boolean", "empty"):
        return column
    if kind == "floating" and (whole := _whole(column)) is not None:
        warn(f"the {name}s are whole numbers held as floats; they are read as integers", CrowdpplWarning)
        return whole
    values = [int(x) if isinstance(x, float) and x.is_integer() and abs(x) < EXACT else x for x in column]
    first: dict[str, int] = {}
    for row, value in enumerate(values):
        if not isinstance(value, str | int | np.integer | np.bool_):
            what = kind_of(native(value))
            raise DataError(f"the {name} {native(value)!r:.60} at {place(row)} is {what}; {_remedy(value, name)}")
        type_name = "str" if isinstance(value, str) else type(native(value)).__name__
        first.setdefault(type_name, row)
    if len(first) > (2 if mixed and "str" in first else 1):
        one, other = (f"{native(values[row])!r} ({kind}) at {place(row)}" for kind, row in list(first.items())[:2])
        raise DataError(f"{name}s are of mixed types: {one} and {other}; make them all text, or all integers")
    return np.fromiter(values, dtype=object, count=len(values)) if mixed else pd.Series(values)


def _remedy(value: Any, name: str) -> str:
    """What to do with a value that is neither text nor an integer."""
    if name == "label" and choices_of(value) is not value:
        return AS_SETS
    plain = (
        isinstance(value, Collection) and is_iterable(value) and all(isinstance(part, str | int) for part in value)
    )
    if name == "label" and (isinstance(value, Mapping) or (isinstance(value, Collection) and not plain)):
        return "take the class out of it, into a column of its own, with a row for each part that has a class"
    if name == "label" and plain:
        return AS_SETS + (
            "; where each holds one class, take it out by .str[0] of pandas" if len(value) == 1 else ""
        )
    if name == "label" and isinstance(value, float):
        return (
            'cut measurements into classes (pandas.cut), or say kind="real"; if each is a class, use .astype(str)'
        )
    if isinstance(value, float) and EXACT <= abs(value) < math.inf:
        return "a float loses digits of long numbers; read the column as text, with dtype=str in pandas"
    return "use text or integers, as .astype(str) makes them"


def choices_of(value: Any) -> Any:
    """The list in {"choices": list}, as Label Studio writes several choices; another value as it is."""
    return value["choices"] if isinstance(value, Mapping) and value.keys() == {"choices"} else value


def refuse_missing_text(
    found: Encoding, name: str, place: Place, known: Iterable[Any], remedy: str, text: bool = True
) -> None:
    """Refuses text, unless ``known``, of blanks and, in a file of ``text``, "NA" and the like."""
    texts = texts_of(found.values)
    if texts.empty:
        return
    wrong = texts[
        texts.str.strip().isin(MISSING if text else {""}) & ~texts.isin({x for x in known if isinstance(x, str)})
    ]
    if len(wrong):
        row = int(np.argmax(np.isin(found.codes, wrong.index)))
        raise DataError(f"the {name} at {place(row)} is missing ({found.values[found.codes[row]]!r}); {remedy}")


def by_item(gold: Any) -> pd.Series[Any]:
    """Known truths, a series or a mapping, as a series by item id; one that is repeated stands once."""
    if isinstance(gold, Mapping):
        gold = pd.Series(list(gold.values()), index=as_index(gold), dtype=object)
    if not isinstance(gold, pd.Series):
        column = ": one of its columns, by item" if isinstance(gold, pd.DataFrame) else ""
        raise DataError(f"gold is {kind_of(gold)}; give a Series or a mapping from item id to class{column}")
    known = gold[as_column(gold, "gold").notna().to_numpy()]
    if known.index.is_unique and known.index.inferred_type in ("integer", "string"):  # no two are written alike
        return known
    again = pd.DataFrame({"item": [*map(str, known.index)], "truth": [*map(str, known)]}).duplicated()
    return known[~again.to_numpy()]


def is_iterable(value: Any) -> bool:
    """Whether one can go through it; an array without a dimension says so, and fails."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def require_list(values: Any, name: str) -> None:
    """DataError for an option that is no list: for one text, which is a list of letters to Python, too."""
    if isinstance(values, str) or not (isinstance(values, Codebook) or is_iterable(values)):
        raise DataError(f"{name}={shown(values)} is no list; give one, such as {name}=[{shown(values)}]")


def listed(values: Iterable[Any], name: str) -> list[Any]:
    """Values of an option as a list of distinct ones."""
    require_list(values, name)
    found = list(as_column(values, f"{name}=").array)
    try:
        again = len({*found}) < len(found)
    except TypeError as error:
        raise DataError(f"{name}= holds a value that is no name ({error}); use text or integers") from error
    if again:
        twice = next(x for n, x in enumerate(found) if x in found[:n])
        raise DataError(f"{name}= names {native(twice)!r} more than once; list each once")
    return found


def listed_answers(values: Iterable[Any], name: str) -> list[Any]:
    """Classes or abstentions as a list, of text and numbers."""
    found = listed(values, name)
    for value in found:
        if not isinstance(native(value), str | Real) and value is not None and value is not pd.NA:
            raise DataError(f"{name}= holds {shown(value)}, which is no label; use text or integers")
    return found


def ranked(ids: pd.Index[Any]) -> bool:
    """Whether classes are numbers that rise, so that their order is that of grades."""
    return all(low < high for low, high in pairwise(map(as_number, ids)))


def as_number(value: Any) -> float:
    """An id as a number, NaN where it is none or infinite."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def as_numbers(values: pd.Series[Any]) -> np.ndarray:
    """Values as numbers, float64 (n,), NaN where one is none, as a date, a duration or a complex number is."""
    found = pd.to_numeric(values, errors="coerce")
    if values.dtype.kind in "cmM" or found.dtype.kind == "c":  # of which pandas makes numbers
        found = pd.to_numeric(values.astype(str), errors="coerce")
    return found.to_numpy(np.float64, na_value=np.nan)


def number_and_unit(value: Any) -> tuple[float, str]:
    """A number and its unit: 12 and "kg" of "12 kg", 3.5 and "/5" of "3.5/5", 1234 and "" of "1,234"; else NaN."""
    number = as_number(value)
    found = WITH_UNIT.fullmatch(value.strip()) if math.isnan(number) and isinstance(value, str) else None
    if found is None:
        return number, ""
    return float((found["sign"] or "") + found["number"].replace(",", "")), "".join(
        f"{found['before']}{found['after']}".split()
    )
