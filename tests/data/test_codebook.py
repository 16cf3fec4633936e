"""Ids keep type, spelling and code."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crowdppl.data.ids import Codebook, as_index, encode, place_in_rows
from crowdppl.errors import DataError


def book(values: object) -> tuple[Codebook, np.ndarray]:
    return encode(values, "item", place_in_rows).codebook("item")


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "c", "a"],
        ["007", "7", "10", "x"],
        [3, 1, 2, 1],
        [10**12, -5, 3, 10**12],
        [2**70, 1, 2**70],
        [1.5, 0.5, -2.0],
        [True, False, True],
        [("b", 1), ("a", 2), ("a", 1), ("a", 2)],
        [datetime.date(2024, 5, 1), datetime.date(2023, 1, 1)],
        [b"y", b"x"],
        np.array([3, 1, 2, 1], np.int16),
        np.array([200, 0, 255], np.uint8),
        np.array([-128, 127, 0], np.int8),
        np.arange(-128, 128).astype(np.int8),
        np.array(["b", "a", "b"]),
        np.array(["2024-05-01", "2023-01-01"], "datetime64[s]"),
        torch.tensor([5, 5, 2]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series([3, 1, 2], dtype="Int64"),
        pd.Index([2.5, 1.5]),
    ],
    ids=repr,
)
def test_codes_lead_back_to_the_values_and_follow_their_order(values: object) -> None:
    codebook, codes = book(values)
    given = values.tolist() if hasattr(values, "tolist") else list(values)  # type: ignore[call-overload]
    back = [codebook.ids[code] for code in codes]
    assert back == given
    plain = [x.item() if isinstance(x, np.generic) else x for x in back]
    assert all(isinstance(x, type(y)) for x, y in zip(plain, given, strict=True))
    assert list(codebook.ids) == sorted(set(given))
    assert codebook.codes(codebook.ids).tolist() == list(range(len(codebook)))


def test_integers_keep_their_width() -> None:
    assert book(np.array([3, 1], np.int16))[0].ids.dtype == np.int16


def test_numbers_spelled_as_text_are_sorted_by_value() -> None:
    assert list(book(["10", "9", "-1", "09"])[0].ids) == ["-1", "09", "9", "10"]
    assert list(book(["10.0", "9", "9.5"])[0].ids) == ["9", "9.5", "10.0"]
    assert list(book(["10", "9", "a"])[0].ids) == ["10", "9", "a"]


def test_far_apart_numbers_take_no_table() -> None:
    codebook, codes = book(np.array([10**15, 0, 5]))
    assert list(codebook.ids) == [0, 5, 10**15]
    assert codes.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "1"], r"mixed types: 1 \(int\) at row 0 .* and '1' \(str\) at row 1"),
        ([1, 2, 2.5], r"1 \(int\) at row 0 .* 2.5 \(float\) at row 2"),
        ([1, True], r"1 \(int\) at row 0 .* True \(bool\) at row 1"),
        (pd.Series(["a", 1], dtype="category"), r"mixed types"),
        (["a", None], r"item at row 1 .* missing or infinite \(None\)"),
        ([0.5, np.nan, np.inf], r"row 1 .* \(nan\) \(and in 1 more rows\)"),
        (np.array([1.0, -np.inf]), r"row 1 .* \(-inf\)"),
        (pd.Series(["a", None], dtype="category"), r"row 1 .* \(None\)"),
        (pd.Series([1.0, np.inf], dtype="category"), r"row 1 .* \(inf\)"),
        (pd.Series([1.0, np.inf], dtype=object).astype("category"), r"row 1 .* \(inf\)"),
        (3, r"the item column is 3; give one value a row"),
        (pd.Series([1, None], dtype="Int64"), r"row 1"),
        ([{"a": 1}], r"cannot be ids"),
        ([("a",), ("b", ["c"])], r"cannot be ids, such as \('b', \['c'\]\) at row 1"),
        ([1j, 2j], r"no order"),
        (np.zeros((2, 2)), r"shape \(2, 2\)"),
    ],
)
def test_ids_that_cannot_be_are_refused(values: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        book(values)


def test_unknown_values_have_no_code() -> None:
    codebook, _ = book(["a", "b"])
    assert codebook.codes(["b", "z", "a"]).tolist() == [1, -1, 0]
    assert codebook.codes([]).tolist() == []
    with pytest.raises(DataError, match=r"gold names the item 'z' \(and 1 more\).*such as 'a'; spell it right"):
        codebook.require(["z", "y"], "gold", "spell it right")


@pytest.mark.parametrize(
    ("known", "value"),
    [
        ("4.0", "4"),
        ("4", "4.0"),
        ("4.0", 4),
        ("04", 4.0),
        (4.0, " 4"),
        ("TRUE", True),
        ("true", "True"),
        (True, "TRUE"),
        ("ann ", "Ann"),
        ("caf\u00e9", "CAFE\u0301"),
    ],
)
def test_a_value_that_is_known_in_another_spelling_is_named_with_it(known: Any, value: Any) -> None:
    codebook, _ = book([known])
    with pytest.raises(DataError) as raised:
        codebook.require([value], "gold", "spell it right")
    said = f"{value!r}, which is not among the 1 known ones, but {known!r} is; spell it in one way, here and there"
    assert said in str(raised.value)


def test_numbers_find_the_text_that_spells_them_and_the_other_way_round() -> None:
    texts, _ = book(["7", "007", "x"])
    assert [texts.ids[c] if c >= 0 else None for c in texts.codes([7, 7.0, 8])] == ["7", "7", None]
    numbers, _ = book([7, 8])
    assert numbers.codes(["8", "007", "7"]).tolist() == [1, -1, 0]
    assert numbers.codes(np.array([8.0])).tolist() == [1]
    assert numbers.codes(["8.0"]).tolist() == [-1]


def test_whole_floats_are_found_as_they_are_and_as_they_are_printed() -> None:
    numbers, _ = book([0.0, 1.0, 2.5])
    assert numbers.codes(["1", "1.0", "2.5", "2.50", "0.0"]).tolist() == [1, 1, 2, -1, 0]
    texts, _ = book(["7.0", "x"])
    assert texts.codes(np.array([7.0, 8.0])).tolist() == [0, -1]
    both, _ = book(["7", "7.0"])
    assert [both.ids[code] for code in both.codes(np.array([7.0]))] == ["7"]


def test_codebooks_are_only_appended_to() -> None:
    codebook, _ = book(["m", "b"])
    longer = codebook.extended(["z", "m", "a", "z"])
    assert list(longer.ids) == ["b", "m", "a", "z"]
    assert codebook.extended(["b"]) is codebook
    assert len(codebook) == 2


def test_an_index_of_tuples_has_one_level() -> None:
    assert as_index([("a", 1), ("b", 2)]).nlevels == 1
