"""Ids and labels that differ in spelling alone: one warning of each kind, none where they are meant to differ."""

from __future__ import annotations

import re
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.data.files import read_annotations
from crowdppl.data.ids import Codebook
from crowdppl.errors import SpellingWarning

PEOPLE, LABELS = ["ann", "bob", "cy", "dan"], ["x", "y", "x", "y"]


def said(item: Any, annotator: Any, label: Any, **options: Any) -> list[str]:
    """What is warned of spellings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = Annotations.from_arrays(item, annotator, label, **options)
    found = [str(one.message) for one in caught if issubclass(one.category, SpellingWarning)]
    assert found == [str(one) for one in data.warnings if isinstance(one, SpellingWarning)]
    return found


@pytest.mark.parametrize(
    ("ids", "pair"),
    [
        (["x", " x", "y", "z"], "2 of 4 {} differ .* such as ' x' and 'x', and count as {}"),
        (["x", "x\u00a0", "x\t", "z"], "3 of 4 {}"),
        (["1", "1.0", "2", "3"], "such as '1' and '1.0'"),
        (["007", "7", "8", "9"], "such as '007' and '7'"),
        (["+7", "7.", "8", "9"], "such as '\\+7' and '7.'"),
        (["-1", "-01", "1", "2"], "such as '-01' and '-1'"),
        (["00", "0", "a", "b"], "such as '0' and '00'"),
        ([" 1", "1.00", "a", "A"], "2 of 4 {}"),
        (["ann", "Ann", "ANN", "bob"], "3 of 4 {} .* such as 'ANN' and 'Ann'"),
        (["van dyck", "Van Dyck", "bob", "cy"], "2 of 4 {} .* such as 'Van Dyck' and 'van dyck'"),
        (["x1", "X1 ", "bob", "cy"], "2 of 4 {}"),
        (["caf\u00e9", "cafe\u0301", "b", "c"], r"2 of 4 {} .* such as 'cafe\\u0301' and 'caf\\xe9'"),
        (["CAF\u00c9", "cafe\u0301", "b", "c"], "2 of 4 {}"),
        (["ann\nbob", "Ann\nbob", "b", "c"], "2 of 4 {}"),
    ],
)
def test_ids_that_look_alike(ids: list[str], pair: str) -> None:
    for name, found in (("items", said(ids, PEOPLE, LABELS)), ("annotators", said(LABELS, ids, LABELS))):
        assert len(found) == 1 and re.search(pair.format(name, name), found[0])
        assert re.search("blanks, zeros, case or Unicode form alone, .*; spell each in one way, or go on", found[0])


@pytest.mark.parametrize(
    "ids",
    [
        ["dQw4w9WgXcQ", "dqw4w9wgxcq", "Zm9v", "zm9V"],
        ["1.1", "1.10", "1.100", "2"],
        ["-1", "1", "10", "100"],
        ["0001", "0010", "0100", "1000"],
        ["a b", "ab", "a  b", "b a"],
        ["1e2", "100", "0x10", "16"],
        [" a", " b", " c", " d"],
        ["a", "A", "b", "B"],
        ["McAdam", "mcadam", "Macadam", "ma"],
        [("x", 1), (" x", 1), ("y", 1), ("z", 1)],
        [1, 2, 3, 4],
        [1.0, 2.5, 3.0, 4.0],
    ],
    ids=repr,
)
def test_ids_that_may_well_differ(ids: list[Any]) -> None:
    assert said(ids, PEOPLE, LABELS) == said(LABELS, ids, LABELS) == []


def test_case_that_is_a_code_is_not_warned_of() -> None:
    codes = list(map("".join, product("abcXYZABCxyz", repeat=3)))
    assert {"abc", "ABC", "aBc"} <= set(codes)
    assert said(codes, codes, ["x", "y"] * (len(codes) // 2)) == []


@pytest.mark.parametrize(
    ("labels", "pair"),
    [
        (["yes", "Yes", "no", "no"], "2 of 3 labels differ .* such as 'Yes' and 'yes'"),
        (["yes", "yes ", "no", "no"], "such as 'yes' and 'yes '"),
        (["1", "1.0", "2", "3"], "such as '1' and '1.0'"),
        (["1.5", "1.50", "2", "3"], "such as '1.5' and '1.50'"),
        (["Straße", "STRASSE", "2", "3"], "such as 'STRASSE' and 'Straße'"),
        (["caf\u00e9", "cafe\u0301", "b", "c"], r"2 of 4 labels .* such as 'cafe\\u0301' and 'caf\\xe9'"),
    ],
)
def test_labels_that_look_alike(labels: list[str], pair: str) -> None:
    found = said(list("ijkl"), PEOPLE, labels)
    assert len(found) == 1 and re.search(pair, found[0])
    assert re.search(
        "zeros, case or Unicode form alone, .*, or list all in classes= if they are meant to differ", found[0]
    )
    assert said(list("ijkl"), PEOPLE, labels, classes=sorted(set(labels))) == []


def test_a_class_that_looks_like_an_abstention() -> None:
    found = said(list("ijkl"), PEOPLE, ["a", "b", "Unsure", "unsure"], abstentions=["unsure"])
    assert len(found) == 1 and "'Unsure' and 'unsure'" in found[0]
    assert len(said(list("ijkl"), PEOPLE, [1, 0, "?", "? "], abstentions=["?", "? "])) == 1


def test_one_warning_of_each_kind_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,worker,label\n1,ann,yes\n1.0,ann ,Yes\n2, ann,no\n3,bob,no\n3.0,bob,no\n")
    with pytest.warns(SpellingWarning) as caught:
        read_annotations(tmp_path / "a.csv")
    mine = [one for one in caught if one.category is SpellingWarning]
    assert [str(one.message).partition(" differ")[0] for one in mine] == [
        "4 of 5 items",
        "3 of 4 annotators",
        "2 of 3 labels",
    ]


def test_what_is_given_as_it_is_meant_is_passed_over() -> None:
    old = Annotations.from_arrays(["x", "y"], ["a", "b"], ["p", "q"])
    assert said([" x", "x"], ["a", "b"], ["p", "q"], items=Codebook("item", pd.Index([" x", "x"]))) == []
    assert said(["x", "y"], [" a", "a"], ["p", "q"], annotators=Codebook("annotator", pd.Index([" a", "a"]))) == []
    assert said(["x", "y"], ["a", "a"], ["p", "q"], like=old) == []
    assert len(said(["x", "y"], [" a", "a"], ["p", "q"], like=old, grow=True)) == 1
    assert len(said([" x", "x"], ["a", "a"], ["p", "q"], like=old)) == 1
    features = pd.DataFrame({"f": [1.0, 2.0, 3.0]}, index=["x", "y", "x "])
    assert "'x' and 'x '" in said(["x", "y"], ["a", "b"], ["p", "q"], features=features)[0]


def test_an_abstention_that_is_misspelt_is_warned_of() -> None:
    labels = ["yes", "no", "don't know", "yes"]
    (found,) = said(LABELS, PEOPLE, labels, abstentions=["dont know"])
    assert re.search("nobody abstained by 'dont know', and \"don't know\" counts as a class; name it", found)
    assert said(LABELS, PEOPLE, labels, abstentions=["don't know"]) == []
    assert said(LABELS, PEOPLE, labels, abstentions=["skipped"]) == []
    assert said(LABELS, PEOPLE, labels, abstentions=["dont know"], classes=["yes", "no", "don't know"]) == []
