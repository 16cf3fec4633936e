"""Ids keep type, spelling and code; whatever is neither text nor an integer is refused."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import Codebook, encode
from crowdppl.errors import CrowdpplWarning, DataError


def book(values: object) -> tuple[Codebook, np.ndarray]:
    return encode(values, "item").codebook("item")


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "c", "a"],
        ["007", "7", "10", "x"],
        [10**12, -5, 3, 10**12],
        [2**70, 1, 2**70],
        [2**63 + 1, 2**63, 2**63 - 1],
        [True, False, True],
        np.array([2**64 - 1, 2**64 - 2], np.uint64),
        np.array([-128, 127, 0], np.int8),
        np.array(["b", "a", "b"]),
        torch.tensor([5, 5, 2]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series(["b", "a", "b"], dtype="string"),
        pd.Series([3, 1, 2], dtype="Int64"),
        pd.Index(["x", "w"]),
    ],
    ids=repr,
)
def test_codes_lead_back_to_the_values_and_follow_their_order(values: Any) -> None:
    codebook, codes = book(values)
    given = values.tolist() if hasattr(values, "tolist") else values
    back = [codebook.ids[code] for code in codes]
    assert back == given
    plain = [x.item() if isinstance(x, np.generic) else x for x in back]
    assert [type(x) for x in plain] == [type(x) for x in given]
    assert list(codebook.ids) == sorted(set(given))
    assert codebook.codes(codebook.ids).tolist() == list(range(len(codebook)))


def test_numbers_spelled_as_text_are_sorted_by_value() -> None:
    assert list(book(["10", "9", "-1", "09"])[0].ids) == ["-1", "09", "9", "10"]
    assert list(book(["10.0", "9", "9.5"])[0].ids) == ["9", "9.5", "10.0"]
    assert list(book(["10", "9", "a"])[0].ids) == ["10", "9", "a"]


def test_whole_floats_are_read_as_integers_with_a_warning() -> None:
    with pytest.warns(CrowdpplWarning, match="items .* integers"):
        codebook, codes = book(pd.Series([2.0, 1.0, 2.0]))
    assert (codebook.ids.tolist(), codebook.ids.dtype, codes.tolist()) == ([1, 2], np.int64, [1, 0, 1])
    with pytest.raises(DataError, match=r"9007199254740992.0 at row 0"):
        book([2.0**53, 2.0**53 + 2])  # floats have no odd numbers there, so that two ids may be one


@pytest.mark.parametrize("value", [1.5, Decimal(1), b"x", ("a", 1), [1], 1j, np.inf, datetime.date(2024, 5, 1)])
def test_what_is_neither_text_nor_an_integer_is_refused(value: object) -> None:
    with pytest.raises(DataError, match="at row 0 .* text or integers"):
        book([value, value])


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([1, "1"], r"1 \(int\) at row 0 .* and '1' \(str\) at row 1"),
        ([1, 2, 2.5], r"2.5 at row 2"),
        ([1, True], r"True \(bool\) at row 1"),
        (pd.Series(["a", 1], dtype="category"), "mixed types"),
        (["a", None], "item at row 1 .* missing"),
        ([0.5, np.nan, np.nan], "row 1 .* missing .* 1 more"),
        (pd.Series([1, None], dtype="Int64"), "row 1 .* missing"),
        (["a", "x\ud800y"], "item column"),
        (3, "item column is 3"),
        (np.zeros((2, 2)), r"\(2, 2\)"),
    ],
)
def test_ids_that_are_refused(values: object, named: str) -> None:
    with pytest.raises(DataError, match=named):
        book(values)


@pytest.mark.parametrize("role", ["item", "annotator"])
@pytest.mark.parametrize("blank", ["", " "])
def test_blank_ids_are_refused_unless_they_are_named(role: str, blank: str) -> None:
    frame = pd.DataFrame({"item": list("ppqq"), "annotator": list("xyxy"), "label": list("uvuv")})
    frame[role] = frame[role].replace({"q": blank, "y": blank})
    with pytest.raises(DataError, match=f"the {role} at row [12] .* missing .*{role}s="):
        Annotations.from_frame(frame)
    named: Any = {f"{role}s": frame[role].unique()}
    assert Annotations.from_frame(frame, **named).n_labels == 4


def test_unknown_values_have_no_code() -> None:
    codebook, _ = book(["a", "b"])
    assert codebook.codes(["b", "z", "a"]).tolist() == [1, -1, 0]
    assert codebook.codes([]).tolist() == []
    with pytest.raises(DataError, match=r"gold .* 'z' \(and 1 more\).*'a'; spell it right"):
        codebook.require(["z", "y"], "gold", "spell it right")
    with pytest.raises(DataError, match="'b' more than once"):
        codebook.require_once(["a", "b", "b"], "gold", "")


def test_numbers_find_the_text_that_spells_them_and_the_other_way_round() -> None:
    texts, _ = book(["7", "007", "x"])
    assert [texts.ids[c] if c >= 0 else None for c in texts.codes([7, 8])] == ["7", None]
    assert [texts.ids[c] for c in texts.codes([7.0])] == ["7"]
    numbers, _ = book([7, 8])
    assert numbers.codes(["8", "007", "7"]).tolist() == [1, -1, 0]
    assert numbers.codes(np.array([8.0, np.nan])).tolist() == [1, -1]


def test_codebooks_are_only_appended_to() -> None:
    codebook, _ = book(["m", "b"])
    assert list(codebook.extended(["z", "m", "a", "z"]).ids) == ["b", "m", "a", "z"]
    assert codebook.extended(["b"]) is codebook


PEOPLE, LABELS = ["ann", "bob", "cy", "dan"], ["x", "y", "x", "y"]


def spelling_warnings(item: Any, annotator: Any, label: Any, **options: Any) -> list[str]:
    data = Annotations.from_arrays(item, annotator, label, **options)
    return [str(one) for one in data.warnings if "case or blanks" in str(one)]


def test_ids_and_labels_that_differ_in_case_or_blanks_are_warned_of() -> None:
    (found,) = spelling_warnings(["x", " x", "y", "z"], PEOPLE, LABELS)
    assert found.startswith("2 of 4 items") and "'x'" in found and "' x'" in found
    (found,) = spelling_warnings(["\u00e9t\u00e9", "e\u0301te\u0301", "y", "z"], PEOPLE, LABELS)
    assert found.startswith("2 of 4 items")
    (found,) = spelling_warnings(LABELS, ["ann", "Ann", "ANN ", "bob"], LABELS)
    assert found.startswith("3 of 4 annotators")
    (found,) = spelling_warnings(list("ijkl"), PEOPLE, ["a", "b", "Unsure", "unsure"], abstentions=["unsure"])
    assert found.startswith("2 of 4 labels")
    for ids in (["1.1", "1.10", "007", "7"], [1, 2, 3, 4]):
        assert not spelling_warnings(ids, PEOPLE, LABELS) + spelling_warnings(LABELS, ids, LABELS)
