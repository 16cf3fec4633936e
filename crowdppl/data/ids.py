"""Ids of items and annotators, and sets of labels, as codes and back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from numbers import Integral, Real
from typing import Any
from unicodedata import is_normalized, normalize

import numpy as np
import pandas as pd

from crowdppl.errors import DataError


def tensor_to_numpy(values: Any, what: str) -> Any:
    """A tensor as an array; anything else as it is. bfloat16 becomes float32, which holds all its numbers.

    Args:
        values: anything.
        what: what it is, for messages.

    Raises:
        DataError: for a sparse tensor or matrix, of which nobody knows whether a 0 that is not stored was given.
    """
    kind = type(values)  # not the value: a table has its columns as attributes, whatever they are called
    tensor = hasattr(kind, "detach")
    if hasattr(kind, "nnz") or (tensor and str(values.layout) != "torch.strided"):
        raise DataError(
            f"{what} is sparse, and does not say whether a 0 is a value or nothing; make it dense, or give one row "
            "a label (from_arrays)"
        )
    if not tensor:
        return values
    plain = values.detach().cpu().resolve_conj().resolve_neg()
    try:
        return plain.numpy()
    except TypeError:  # numpy has no bfloat16, and no float of 8 bits
        return plain.float().numpy()


def unmasked(values: Any) -> Any:
    """A masked array as one with None where it is masked; anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain = np.asarray(values.data)
    if np.ma.is_masked(values):
        plain = plain.astype(object)
        plain[np.ma.getmaskarray(values)] = None
    return plain


def decoded(values: Any) -> Any:
    """A column of pyarrow's dictionaries as one of their values, which pandas can sort; anything else as it is."""
    kind = getattr(values, "dtype", None)
    if not isinstance(kind, pd.ArrowDtype):
        return values
    import pyarrow as pa  # slow to import

    inner = kind.pyarrow_dtype
    return values.astype(pd.ArrowDtype(inner.value_type)) if pa.types.is_dictionary(inner) else values


def as_column(column: Any, name: str) -> np.ndarray | pd.api.extensions.ExtensionArray:
    """A column as an array that keeps the type of its values.

    Raises:
        DataError: when it has other than one dimension, or is sparse.
    """
    column = decoded(tensor_to_numpy(column, f"the {name} column"))
    if isinstance(column, pd.MultiIndex):
        return column.to_numpy()
    if isinstance(column, pd.Series | pd.Index):
        array = column.array
        plainly = isinstance(array, pd.arrays.NumpyExtensionArray) or (
            pd.api.types.is_integer_dtype(array.dtype) and not array.isna().any()
        )
        return column.to_numpy() if plainly else array
    if isinstance(column, pd.api.extensions.ExtensionArray):
        return column
    if not isinstance(column, np.ndarray):
        if not isinstance(column, Iterable):
            raise DataError(f"the {name} column is {column!r}; give one value a row, as a list or an array")
        column = list(column)
        column = np.fromiter(column, dtype=object, count=len(column))
    if column.ndim != 1:
        raise DataError(f"the {name} column has shape {column.shape}; give one value a row")
    return np.asarray(unmasked(column))


def as_matrix(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """A matrix and where it is masked, both (N, A).

    Args:
        matrix: array, tensor, table or list of rows, any of which may be masked.

    Raises:
        DataError: when it is sparse, its rows differ in length, or it has other than two dimensions.
    """
    values = tensor_to_numpy(matrix, "the matrix")
    try:
        rows = isinstance(values, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in values)
        values = np.ma.array(values) if rows else np.asanyarray(values)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the matrix cannot be read ({error}); it must have a row an item and a column an annotator"
        ) from error
    if values.ndim != 2:
        raise DataError(
            f"the matrix has shape {values.shape}; it must have a row an item and a column an annotator"
        )
    return np.asarray(np.ma.getdata(values)), np.ma.getmaskarray(values)


NUMBER_TEXT = re.compile(r"\+?(-?)0*([0-9]+?)(?:\.([0-9]*?)0*)?")
"""Sign, whole part and decimals of a number, without the zeros that change nothing."""


def bare(text: str) -> str:
    """A text without blanks around it, in one Unicode form and case; a number without zeros."""
    number = NUMBER_TEXT.fullmatch(text.strip())
    return f"{number[1]}{number[2]}.{number[3] or ''}" if number else composed(text.strip()).casefold()


def composed(text: str) -> str:
    """A text with each accent in its letter (NFC)."""
    return text if is_normalized("NFC", text) else normalize("NFC", text)


def otherwise_spelled(value: Any, ids: Iterable[Any]) -> str:
    """How an id that stands for the same as a value is written there; "" where there is none.

    Args:
        value: text, or what is looked at as text.
        ids: those that there are.
    """
    wanted = bare(str(value))
    return next((repr(one) for one in ids if bare(str(one)) == wanted), "")


ONE_WAY = "spell it in one way, here and there, if it is the same"
"""What to do about a value that is known in another spelling."""
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
BROKEN = "holds half a character (a lone surrogate), which no file of text can hold"
"""What is wrong with a text that has no UTF-8."""


@dataclass(frozen=True, eq=False)
class Codebook:
    """Ids by code: the id with code 3 is ``ids[3]``.

    Ids keep their type and spelling. A codebook made from data is sorted (text that is all numbers by value, so
    that "10" follows "9"); afterwards ids are only ever appended, so that codes stay what they are.

    Attributes:
        name: what the ids name: "item", "annotator" or "answer".
        ids: each id once.
    """

    name: str
    ids: pd.Index[Any]

    def __len__(self) -> int:
        return len(self.ids)

    def codes(self, values: Iterable[Any]) -> np.ndarray:
        """The code of each value, int64; -1 for a value that is not in the book.

        A number also finds the text that spells it, and the other way round: 7 finds "7", but not "007". A whole
        float is spelled both ways: 7.0 finds "7" or else "7.0".

        Raises:
            DataError: for a value that can be no id, such as a list.
        """
        wanted = as_index(values)
        try:
            found = np.asarray(self.ids.get_indexer(wanted), np.int64)
        except TypeError as error:
            odd = plain(wanted[first_unhashable(wanted)])
            raise DataError(f"the {self.name} {odd!r} cannot be an id ({error}); use text or numbers") from error
        for spell in (spelling, str):
            lost = np.flatnonzero(found < 0)
            if not len(lost) or wanted.dtype == self.ids.dtype:
                break
            spelled = _spelled(self.ids, spell)
            if spelled.is_unique:
                found[lost] = spelled.get_indexer(_spelled(wanted[lost], spell))
        return found

    def require(self, values: Iterable[Any], origin: str, remedy: str) -> np.ndarray:
        """The code of each value.

        Args:
            values: ids.
            origin: where they come from, for the message.
            remedy: what to do about one that is unknown.

        Raises:
            DataError: when a value is not in the book.
        """
        wanted = as_index(values)
        codes = self.codes(wanted)
        if (codes < 0).any():
            lost = wanted[codes < 0]
            more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
            near = otherwise_spelled(plain(lost[0]), map(plain, self.ids))
            raise DataError(
                f"{origin} names the {self.name} {plain(lost[0])!r}{more}, which is not among the {len(self)} "
                + (
                    f"known ones, but {near} is; {ONE_WAY}"
                    if near
                    else f"known ones, such as {plain(self.ids[0])!r}; {remedy}"
                )
            )
        return codes

    def extended(self, values: Iterable[Any]) -> Codebook:
        """A codebook in which unknown values follow the known ones, sorted among themselves."""
        wanted = as_index(values)
        new = wanted[self.codes(wanted) < 0].unique()
        if not len(new):
            return self
        return Codebook(self.name, self.ids.append(new[sorting(new, self.name)]))


def as_index(values: Iterable[Any] | Codebook) -> pd.Index[Any]:
    """Ids as an index of one level, whatever they are kept in.

    Raises:
        DataError: for what is no list, or holds a text that has no UTF-8.
    """
    try:
        return _as_index(values)
    except UnicodeEncodeError as error:  # of pyarrow, in which pandas keeps text
        raise DataError(f"{error.object!r} {BROKEN}; spell it anew, everywhere") from error


def _as_index(values: Iterable[Any] | Codebook) -> pd.Index[Any]:
    if isinstance(values, Codebook):
        return values.ids
    if isinstance(values, pd.Index | pd.Series):
        found = decoded(values)
        index: pd.Index[Any] = found if isinstance(found, pd.Index) else pd.Index(found.array)
        return index
    plainly = unmasked(tensor_to_numpy(values, "the list of ids"))
    if isinstance(plainly, np.ndarray):
        # pandas has no index of half floats
        return pd.Index(plainly.astype(np.float64) if plainly.dtype == np.float16 else plainly)
    if not isinstance(values, Iterable):
        raise DataError(f"{values!r} is no list of ids; give one, [{values!r}]")
    listed = [float(x) if isinstance(x, np.float16) else x for x in values]
    ids: pd.Index[Any] = pd.Index(listed, tupleize_cols=False)
    return ids


def one_or_several(ids: Any) -> pd.Index[Any]:
    """Ids as an index; a text, or what is no list, is one id."""
    return as_index([ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else ids)


def named_twice(ids: pd.Index[Any], codes: np.ndarray) -> str:
    """The first id whose code an earlier one has, and how that one was spelled; "" where there is none.

    Args:
        ids: as they were given.
        codes: of each, from ``Codebook.codes``; those below 0 are passed over.
    """
    known = np.flatnonzero(codes >= 0)
    again = pd.Index(codes[known]).duplicated()
    if not again.any():
        return ""
    later = int(known[np.argmax(again)])
    texts = [repr(plain(ids[row])) for row in (int(np.argmax(codes == codes[later])), later)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} (also as {texts[1]})"


def sorting(ids: pd.Index[Any], name: str) -> np.ndarray:
    """The permutation that sorts ids: numbers by value, and so numbers spelled as text.

    Raises:
        DataError: when the ids cannot be compared with each other.
    """
    if isinstance(ids[0], str) and NUMBER.fullmatch(ids[0]) and _all_numbers(texts := ids.tolist()):
        # Decimals compare exactly, however long; the spelling settles "1" against "01".
        keys = sorted(range(len(texts)), key=lambda position: (Decimal(texts[position]), texts[position]))
        return np.asarray(keys, np.int64)
    try:
        return np.asarray(ids.argsort(), np.int64)
    except TypeError as error:
        kind = type(ids[0]).__name__
        raise DataError(
            f"{name} ids such as {ids[0]!r} ({kind}) have no order, so that they cannot be coded the same way "
            "every time; use text or numbers"
        ) from error


def plain(value: Any) -> Any:
    """A value as messages print it: without numpy's type around it."""
    return value.item() if isinstance(value, np.generic) else value


def is_text(ids: pd.Index[Any]) -> bool:
    """Whether all ids are text."""
    return pd.api.types.infer_dtype(ids, skipna=False) == "string"


def spelling(value: Any) -> str:
    """A value as text: whole floats as whole numbers, because tables turn 1 into 1.0 where others are missing."""
    if isinstance(value, float | np.floating) and np.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def first_unhashable(values: Iterable[Any]) -> int:
    """Where the first value stands that can be no id."""
    for place, value in enumerate(values):
        try:
            hash(value)
        except TypeError:
            return place
    return 0


def first_broken(values: Iterable[Any]) -> int:
    """Where the first text stands that has no UTF-8."""
    for place, value in enumerate(values):
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            return place
    return 0


def _spelled(ids: pd.Index[Any], spell: Callable[[Any], str]) -> pd.Index[Any]:
    return pd.Index([spell(value) for value in ids], dtype=object)


def _all_numbers(texts: Sequence[Any]) -> bool:
    return len(texts) > 0 and all(isinstance(text, str) and NUMBER.fullmatch(text) for text in texts)


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


KINDS = ("nominal", "ordinal")


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Classes, then abstentions.

    Attributes:
        book: all answers; ``ids[:n_classes]`` are the classes, in their order.
        n_classes: K.
        kind: "nominal", or "ordinal" where the order of the classes means something.
        informative: whether an abstention may tell of the class.
    """

    book: Codebook
    n_classes: int
    kind: str = "nominal"
    informative: bool = False

    @property
    def classes(self) -> Codebook:
        """What the truth can be."""
        return Codebook("class", self.book.ids[: self.n_classes])

    def code(self, labels: Encoding, place: Place) -> np.ndarray:
        """The answer code of each row.

        Raises:
            DataError: when a label is no answer, with its value and row.
        """
        codes = self.book.codes(labels.values)
        if (codes < 0).any():
            row = min(labels.first_row(int(position)) for position in np.flatnonzero(codes < 0))
            value = plain(labels.values[labels.codes[row]])
            classes = ", ".join(repr(plain(c)) for c in self.book.ids[: min(self.n_classes, 12)])
            near = otherwise_spelled(value, map(plain, self.book.ids))
            raise DataError(
                f"the label {value!r} at {place(row)} is none of the {self.n_classes} classes ({classes}); "
                + (f"{near} is there: {ONE_WAY}, or " if near else "correct it, ")
                + "add it to classes=, or name it in abstentions= if it means that there is no answer"
            )
        if np.array_equal(codes, np.arange(len(codes))):
            return labels.codes
        return np.asarray(codes.astype(np.int32)[labels.codes])


def check_kind(kind: str) -> None:
    """Refuses kinds of labels that are not supported, by name.

    Raises:
        DataError: for any but "nominal" and "ordinal".
    """
    if kind not in KINDS:
        raise DataError(f"labels of kind {kind!r} are not supported yet; use kind='nominal' or kind='ordinal'")


def check_informative(informative: Any, abstentions: list[Any]) -> None:
    """Refuses to take abstentions as informative where none is named, and anything but yes and no.

    Raises:
        DataError: naming the option.
    """
    if not isinstance(informative, bool | np.bool_):
        raise DataError(f"informative_abstentions={informative!r} is neither True nor False")
    if informative and not abstentions:
        raise DataError(
            'informative_abstentions=True, and no abstention is named; name them, as in abstentions=["don\'t know"]'
        )


def listed(values: Iterable[Any], name: str) -> list[Any]:
    """Values as a list; one text, which is a list of letters to Python, and one number are refused.

    Raises:
        DataError: naming the option.
    """
    if isinstance(values, str):
        raise DataError(f"{name}={values!r} is one text; give a list, {name}=[{values!r}]")
    if not isinstance(values, Iterable):
        raise DataError(f"{name}={values!r} is no list; give one, {name}=[{values!r}, ...]")
    return list(unmasked(tensor_to_numpy(values, f"{name}=")))


def encode_labels(
    column: Any,
    place: Place,
    named: bool,
    abstentions: Iterable[Any],
    text: bool,
    without: str = ROW,
) -> Encoding:
    """Finds the distinct labels of a column.

    Args:
        column: the labels.
        place: where a row stands.
        named: whether the classes are listed, so that they may be of mixed types.
        abstentions: values that are no class.
        text: whether the labels were read from a file of text, in which a missing value is text, too.
        without: how one label is left out.

    Raises:
        DataError: for missing, empty, infinite or mixed labels, with value and row.
    """
    away = list(abstentions)
    labels = encode(column, "label", place, one_type=not away and not named, without=without)
    if not named:
        remedy = f"{without}, or name it in abstentions=; if it really is a class, list it in classes="
        refuse_markers(labels, "label", place, away, remedy, text)
    if away and not named:
        mine = np.flatnonzero(~_among(labels.values, away))
        kept = as_index(labels.values[mine].tolist())
        encode(kept, "label", lambda position: place(labels.first_row(int(mine[position]))))
    return labels


def read_label_set(
    labels: Encoding | None,
    classes: Iterable[Any] | None,
    abstentions: Iterable[Any],
    kind: str,
    informative: bool = False,
) -> LabelSet:
    """Settles classes and abstentions.

    Args:
        labels: what was given; None for a design.
        classes: the classes in their order; by default the categories of labels that pandas holds as such (in
            their order if they have one), else those given, sorted. A class that nobody gave stays.
        abstentions: answers that are no class.
        kind: "nominal" or "ordinal".
        informative: whether an abstention may tell of the class.

    Raises:
        DataError: when there are fewer than two classes, one is listed twice, grades have no order, or abstentions
            are said to tell something and there are none.
    """
    check_kind(kind)
    away = listed(abstentions, "abstentions")
    check_informative(informative, away)
    if classes is not None:
        ids = as_index(listed(classes, "classes"))
    elif labels is None:
        raise DataError("a design has no labels to take the classes from; list them in classes=")
    else:
        ids = _found(labels, away, kind)
    if len(ids) < 2:
        only = f"only {plain(ids[0])!r}" if len(ids) else "none"
        whose = "the labels have" if classes is None else "classes= has"
        raise DataError(
            f"there must be at least two classes, and {whose} {only}; list all that the truth can be, in classes="
        )
    texts = is_text(ids)
    answers = as_index([*ids, *(spelling(value) if texts else value for value in away)])
    if answers.isna().any() or not answers.is_unique:
        bad = answers[answers.isna() | answers.duplicated()][0]
        raise DataError(f"{plain(bad)!r} is missing or occurs twice in classes= and abstentions=; list each once")
    return LabelSet(Codebook("answer", answers if away else ids), len(ids), kind, bool(informative))


def _found(labels: Encoding, away: list[Any], kind: str) -> pd.Index[Any]:
    given = labels.values if labels.listed is None else labels.listed
    if away:
        given = as_index(given[~_among(given, away)].tolist())
    if labels.ranked or not len(given):
        return given
    return _graded(given) if kind == "ordinal" else given[sorting(given, "label")]


def _among(values: pd.Index[Any], away: list[Any]) -> np.ndarray:
    return Codebook("answer", as_index(away)).codes(values) >= 0 if away else np.zeros(len(values), bool)


def _graded(ids: pd.Index[Any]) -> pd.Index[Any]:
    """Grades by their numeric value.

    Raises:
        DataError: when a grade is no number, or two are the same number.
    """
    grades = np.array([_number(value) for value in ids])
    if np.isnan(grades).any():
        wrong = [plain(ids[int(np.flatnonzero(np.isnan(grades))[0])])]
        raise DataError(
            f"ordinal classes have no order that can be read off {wrong[0]!r}; "
            "list them from lowest to highest in classes="
        )
    order = np.argsort(grades, kind="stable")
    same = np.flatnonzero(np.diff(grades[order]) == 0)
    if len(same):
        pair = [plain(ids[int(order[same[0] + step])]) for step in (0, 1)]
        raise DataError(f"{pair[0]!r} and {pair[1]!r} spell the same grade; spell it one way, or list classes=")
    return ids[order]


def ranked(ids: pd.Index[Any]) -> bool:
    """Whether classes are numbers that rise, so that their order is that of grades."""
    grades = [_number(value) for value in ids]
    return all(low < high for low, high in pairwise(grades))


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan
