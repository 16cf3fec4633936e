"""Names of items, annotators or answers, and the whole numbers that stand for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.errors import DataError
from crowdppl.tables.handover import of_tensor, spelled_out, unmasked
from crowdppl.tables.variants import otherwise_spelled

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
        found = spelled_out(values)
        index: pd.Index[Any] = found if isinstance(found, pd.Index) else pd.Index(found.array)
        return index
    plainly = unmasked(of_tensor(values, "the list of ids"))
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
