"""Classes and abstentions: what the truth can be and what can be said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import LabelSet, encode_labels, place_in_rows, read_label_set
from crowdppl.errors import DataError, SparseDataWarning


def alphabet(
    labels: Any, classes: Any = None, abstentions: Any = (), kind: str = "nominal", text: bool = False
) -> tuple[LabelSet, list[int]]:
    encoded = encode_labels(labels, place_in_rows, classes is not None, abstentions, text)
    found = read_label_set(encoded, classes, abstentions, kind)
    return found, found.code(encoded, place_in_rows).tolist()


def test_classes_are_sorted_and_abstentions_follow() -> None:
    found, codes = alphabet(["cat", "?", "ant", "cat"], abstentions=["?", "skipped"])
    assert list(found.book.ids) == ["ant", "cat", "?", "skipped"]
    assert (found.n_classes, codes) == (2, [1, 2, 0, 1])


def test_a_listed_class_stays_in_its_place() -> None:
    found, codes = alphabet(["b", "a"], classes=["c", "b", "a"])
    assert list(found.classes.ids) == ["c", "b", "a"]
    assert codes == [1, 2]


def test_numbers_with_a_word_for_declining() -> None:
    found, codes = alphabet([1, 0, "?"], abstentions=["?"])
    assert list(found.book.ids) == [0, 1, "?"]
    assert codes == [1, 0, 2]


def test_listed_numbers_name_labels_that_are_text() -> None:
    found, codes = alphabet(["1", "0", "-1"], classes=[0, 1, 2], abstentions=[-1], text=True)
    assert list(found.book.ids) == [0, 1, 2, -1]
    assert codes == [1, 0, 3]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"informative_abstentions": True}, "informative_abstentions"),
        ({"abstentions": ["?"], "informative_abstentions": "yes"}, "informative_abstentions='yes'"),
    ],
)
def test_abstentions_tell_something_only_where_there_are_some(options: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Annotations.from_arrays(["a", "b"], ["x", "y"], ["0", "1"], **options)


@pytest.mark.parametrize("told", [True, False])
def test_a_truth_value_of_numpy_is_taken_as_pythons(told: bool) -> None:
    options: Any = {"abstentions": ["?"], "informative_abstentions": np.bool_(told)}
    found = Annotations.from_arrays(["a", "b", "b"], ["x", "y", "x"], ["0", "1", "?"], **options)
    assert found.alphabet.informative is told and found.blocks[0].informative is told


def test_an_abstention_is_spelled_as_the_labels_are() -> None:
    found, _ = alphabet(["1", "0", "-1"], abstentions=[-1], text=True)
    assert list(found.book.ids) == ["0", "1", "-1"]


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (["10", "9", "1.5"], ["1.5", "9", "10"]),
        ([3, 1, 2], [1, 2, 3]),
        (pd.Categorical(["mid", "low"], ["low", "mid", "high"], ordered=True), ["low", "mid", "high"]),
        (pd.Categorical(["10", "9"], ["10", "1", "9"]), ["1", "9", "10"]),
    ],
)
def test_grades_in_order(labels: Any, order: list[Any]) -> None:
    assert list(alphabet(labels, kind="ordinal")[0].classes.ids) == order


@pytest.mark.parametrize(
    ("labels", "away", "answers"),
    [
        (pd.Categorical(["b", "a"], ["c", "b", "a"]), [], ["a", "b", "c"]),
        (pd.Categorical(["b", "a"], ["c", "b", "a"], ordered=True), [], ["c", "b", "a"]),
        (pd.Categorical(["b", "b"], ["b", "?", "a"]), ["?"], ["a", "b", "?"]),
        (pd.Categorical(["b", "?"], ["b", "?", "a", " "]), ["?"], ["a", "b", "?"]),
        (pd.Series(pd.Categorical([3, 1, 3], [1, 2, 3])), [], [1, 2, 3]),
    ],
)
def test_a_category_that_nobody_used_is_a_class(labels: Any, away: list[str], answers: list[Any]) -> None:
    found, codes = alphabet(labels, abstentions=away)
    assert list(found.book.ids) == answers
    assert [answers[code] for code in codes] == list(labels)


def test_classes_that_are_there_as_categories_alone_are_warned_of() -> None:
    labels = pd.Categorical(["x", "y", "x", "?"], ["x", "y", "?", "never"])
    given: Any = (["i", "i", "j", "j"], ["ann", "bob", "ann", "bob"], labels)
    with pytest.warns(SparseDataWarning, match=r"1 of 3 classes have no label \('never'\): .*categories"):
        assert list(Annotations.from_arrays(*given, abstentions=["?"]).classes) == ["never", "x", "y"]
    meant = Annotations.from_arrays(*given, abstentions=["?"], classes=["never", "x", "y"])
    used = Annotations.from_arrays(*given[:2], labels.remove_unused_categories(), abstentions=["?"])
    for data in (meant, used):
        assert not any("have no label" in str(warning) for warning in data.warnings)


@pytest.mark.parametrize("away", [[], ["?"]])
def test_a_class_that_only_repeats_left_out_named_is_warned_of(away: list[str]) -> None:
    labels = ["x", "rare", "y", "x"] if not away else ["?", "rare", "y", "x"]
    given: Any = (["i", "i", "j", "k"], ["ann", "ann", "ann", "ann"], labels)
    with pytest.warns(SparseDataWarning, match=r"1 of 3 classes .*'rare'.* repeats"):
        data = Annotations.from_arrays(*given, repeats="first", abstentions=away)
    assert list(data.classes) == ["rare", "x", "y"]
    kept = Annotations.from_arrays(*given, repeats="last", abstentions=away)
    assert not any("have no label" in str(warning) for warning in kept.warnings)


def test_a_list_of_classes_goes_before_categories() -> None:
    labels = pd.Categorical(["b", "a"], ["c", "b", "a"])
    assert list(alphabet(labels, classes=["b", "a"])[0].classes.ids) == ["b", "a"]
    first = Annotations.from_arrays(["x", "y"], ["ann", "bob"], ["a", "b"])
    more = Annotations.from_arrays(["x", "y"], ["ann", "bob"], labels, like=first)
    assert list(more.classes) == ["a", "b"]


def test_grades_in_a_listed_order() -> None:
    found, codes = alphabet(["low", "high"], classes=["low", "mid", "high"], kind="ordinal")
    assert (list(found.classes.ids), codes, found.kind) == (["low", "mid", "high"], [0, 2], "ordinal")


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["a", "x"], {"classes": ["a", "b"]}, r"'x' at row 1 .* none of the 2 classes \('a', 'b'\).*abstentions="),
        (["1", "2.0"], {"classes": ["1", "2"]}, r"'2.0' at row 1 .*\('1', '2'\)"),
        (["a", "a"], {}, "the labels have only 'a'.*classes="),
        (["a", "?"], {"abstentions": ["?"]}, r"only 'a'"),
        (["?"], {"abstentions": ["?"]}, r"none"),
        (["a", "b"], {"classes": ["a"]}, "classes= has only 'a'"),
        (["a", "b"], {"classes": []}, "classes= has none"),
        (["a"], {"classes": ["a", "b", "a"]}, r"'a' .* occurs twice"),
        (["a"], {"classes": ["a", "b"], "abstentions": ["b"]}, r"'b' .* occurs twice"),
        (["a"], {"classes": ["a", None]}, r"missing"),
        (["a", "b"], {"abstentions": "b"}, r"abstentions=\['b'\]"),
        (["a", "b"], {"classes": "ab"}, r"classes=\['ab'\]"),
        (["a", "b"], {"kind": "pairwise"}, "kind='pairwise'"),
        (["low", "high"], {"kind": "ordinal"}, "'(low|high)' is no number; .*classes="),
        (["1", "1.0", "2"], {"kind": "ordinal"}, "'1' and '1.0' are the same grade"),
        ([1, "b", "?"], {"abstentions": ["?"]}, r"mixed types: 1 \(int\) at row 0 .* 'b' \(str\) at row 1"),
        (["a", np.nan, "b"], {}, "label at row 1 .* missing"),
        ([0.0, np.inf], {}, "inf at row 1"),
        (["a", "", "b"], {"text": True}, r"label at row 1 .* \(''\).*abstentions=.*classes="),
        (["a", "b", "NA"], {"text": True}, r"row 2 .* \('NA'\)"),
    ],
)
def test_what_is_refused(labels: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        alphabet(labels, **options)


def test_a_listed_marker_is_a_class_like_any_other() -> None:
    assert list(alphabet(["NA", "EU"], classes=["EU", "NA"], text=True)[0].classes.ids) == ["EU", "NA"]
    assert list(alphabet(["NA", "a", "b"], abstentions=["NA"], text=True)[0].book.ids) == ["a", "b", "NA"]
    assert list(alphabet(["NA", "EU"])[0].classes.ids) == ["EU", "NA"]


def test_a_design_needs_a_list() -> None:
    with pytest.raises(DataError, match="list them in classes="):
        read_label_set(None, None, (), "nominal")
