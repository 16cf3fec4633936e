"""Items that two columns name: comparisons of objects, positions in a sequence."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError

ARENA = pd.DataFrame(
    {
        "model_a": ["m1", "m1", "m2", "m3"],
        "model_b": ["m2", "m3", "m3", "m1"],
        "judge": ["x", "y", "x", "y"],
        "winner": ["model_a", "m3", "tie (no difference)", "m1"],
    }
)
TOKENS = pd.DataFrame(
    {
        "sentence": ["a", "a", "a", "b", "b", "a", "a", "a"],
        "index": [0, 1, 10, 0, 1, 0, 1, 10],
        "annotator": ["x"] * 5 + ["y"] * 3,
        "label": list("OBIOOOBI"),
    }
)


def arena(**changed: list[str]) -> Annotations:
    return Annotations.from_frame(ARENA.assign(**changed), kind="pair")


def test_a_winner_is_named_by_side_column_or_id() -> None:
    data = arena()
    assert data.kind == "pair" and list(data.classes) == ["left", "right", "tie"]
    assert data.frame()["label"].tolist() == ["left", "right", "tie", "right"]
    assert data.items.tolist() == ["m1 | m2", "m1 | m3", "m2 | m3", "m3 | m1"]


def test_that_both_are_bad_is_no_tie_but_left_out_where_told() -> None:
    winner = ["model_a", "m3", "tie (both bad)", "tie"]
    with pytest.raises(DataError, match=r"'tie \(both bad\)' at row 2 .* says that both are bad"):
        arena(winner=winner)
    told = Annotations.from_frame(ARENA.assign(winner=winner), kind="pair", abstentions=["tie (both bad)"])
    assert told.frame()["label"].tolist() == ["left", "right", "tie (both bad)", "tie"]
    assert [*told.classes] == ["left", "right", "tie"]
    without = Annotations.from_frame(ARENA.assign(winner=winner).drop(index=2), kind="pair")
    some, all_but = (crowdppl.fit("bradley_terry", x, inference="em", seed=0).ranking() for x in (told, without))
    pd.testing.assert_frame_equal(some, all_but, atol=1e-3)


def test_both_sides_code_the_same_objects() -> None:
    held = arena().item_covariates
    assert held["left"].cat.categories.tolist() == held["right"].cat.categories.tolist() == ["m1", "m2", "m3"]
    assert [*zip(held["left"], held["right"], strict=True)] == [*zip(ARENA.model_a, ARENA.model_b, strict=True)]


def test_rows_read_again_are_the_same(tmp_path: Path) -> None:
    data = arena()
    again = data.frame()
    arrays = Annotations.from_arrays(again["item"], again["annotator"], again["label"], kind="pair")
    ARENA.to_csv(tmp_path / "arena.csv", index=False)
    read = crowdppl.read_annotations(tmp_path / "arena.csv", kind="pair")
    named = crowdppl.read_annotations(tmp_path / "arena.csv", item=("model_a", "model_b"), kind="pair")
    table = Annotations.from_frame(again, kind="pair")
    for other in (arrays, read, named, table, Annotations.from_frame(ARENA, like=data)):
        pd.testing.assert_frame_equal(other.frame(), again)
        pd.testing.assert_frame_equal(other.item_covariates, data.item_covariates)


def test_truths_and_covariates_are_named_by_both_parts() -> None:
    far = pd.DataFrame({"far": [1.0, 2.0]}, index=pd.MultiIndex.from_tuples([("m1", "m2"), ("m3", "m1")]))
    data = Annotations.from_frame(ARENA, kind="pair", gold={("m1", "m2"): "m2"}, item_covariates=far)
    assert data.gold is not None and data.gold.to_dict() == {"m1 | m2": "right"}
    assert data.item_covariates is not None and data.item_covariates["far"].dropna().tolist() == [1.0, 2.0]
    with_column = Annotations.from_frame(
        ARENA.assign(best=["m2", None, None, None]), kind="pair", gold_column="best"
    )
    assert with_column.gold is not None and with_column.gold.to_dict() == {"m1 | m2": "right"}


@pytest.mark.parametrize(
    "winner, wanted",
    [
        ([-3, 1, 0, 2], ["left 3", "right", "tie", "right 2"]),
        (["A>>B", "[[B>A]]", "A=B", "b << a"], ["left 2", "right", "tie", "left 2"]),
        (["model_a>>model_b", "right", "left>right", "m3"], ["left 2", "right", "left", "left"]),
        ([-1.0, 1.0, 1.0, -1.0], ["left", "right", "right", "left"]),
    ],
)
def test_strengths_are_sides_with_a_grade(winner: list[Any], wanted: list[str], tmp_path: Path) -> None:
    data = Annotations.from_frame(ARENA.assign(winner=winner), kind="pair")
    assert data.frame()["label"].tolist() == wanted
    most = max(int(word[-1]) if word[-1].isdigit() else 1 for word in wanted)
    grades = [[*"lr"], ["left 2", "right 2"], ["left 3", "right 3"]][1:most]
    ties = ["tie"] if "tie" in wanted else []
    assert [*data.classes] == ["left", "right", *ties, *(word for both in grades for word in both)]
    again = Annotations.from_frame(data.frame(), kind="pair")
    pd.testing.assert_frame_equal(again.frame(), data.frame())
    ARENA.assign(winner=winner).to_csv(tmp_path / "arena.csv", index=False)
    read = crowdppl.read_annotations(tmp_path / "arena.csv", kind="pair")
    pd.testing.assert_frame_equal(read.frame(), data.frame())


def test_numbers_that_may_be_objects_are_no_strengths() -> None:
    numbered = {"model_a": [1, 1, 2, 3], "model_b": [2, 3, 3, 1], "winner": [-1, 3, 2, 3]}
    with pytest.raises(DataError, match=r"'-1' at row 0 .* objects have numbers, too"):
        Annotations.from_frame(ARENA.assign(**numbered), kind="pair")
    kept = Annotations.from_frame(ARENA.assign(winner=["m1", "m1", "m3", "-9"]), kind="pair", abstentions=["-9"])
    assert [*kept.classes] == ["left", "right"]


@pytest.mark.parametrize("strength", ["+1.5", "2", "m1 > m2"])
def test_how_much_better_one_is_is_no_side(strength: str) -> None:
    """Which side numbers without a negative one mean is not known, and "2" is no tie."""
    with pytest.raises(DataError, match=r"at row 0 .* how much better"):
        Annotations.from_frame(ARENA.assign(winner=strength), kind="pair")
    for wrong in ({"winner": "nobody"}, {"model_a": [7, 7, 2, 3], "model_b": [2, 3, 3, 7], "winner": 3}):
        with pytest.raises(DataError, match=r"names neither .* 'left', 'right' or 'tie'"):
            Annotations.from_frame(ARENA.assign(**wrong), kind="pair")


def test_positions_are_numbers_in_their_order(tmp_path: Path) -> None:
    data = Annotations.from_frame(TOKENS, kind="sequence")
    assert data.items.tolist() == ["a | 0", "a | 1", "a | 10", "b | 0", "b | 1"]
    assert data.item_covariates is not None and data.item_covariates["position"].tolist() == [0, 1, 10, 0, 1]
    TOKENS.to_csv(tmp_path / "tokens.csv", index=False)
    read = crowdppl.read_annotations(tmp_path / "tokens.csv", kind="sequence")
    pd.testing.assert_frame_equal(read.frame(), data.frame())
    more = Annotations.from_frame(TOKENS, kind="sequence", items=[("c", 2)])
    assert more.n_items == 6 and more.items[-1] == "c | 2"


@pytest.mark.parametrize("again", [1, 2])
@pytest.mark.parametrize("tags, told", [("I-P I-P O I-Q B-Q", "2 of 3 spans"), ("B-P I-P O I-Q B-Q", None)])
def test_spans_that_begin_with_i_are_told(tags: str, told: str | None, again: int) -> None:
    rows = [("s", n, "x", tag) for n, tag in enumerate(tags.split())] + [("s", 0, "y", "O")]
    table = pd.DataFrame(rows[::-1] * again, columns=["sequence", "position", "annotator", "label"])
    found = [str(warning) for warning in Annotations.from_frame(table, kind="sequence", stray="keep").warnings]
    assert [str(told) in text for text in found if "IOB1" in text] == [True] * bool(told)


def test_parts_are_kept_by_a_fit_and_its_archive(tmp_path: Path) -> None:
    posterior = crowdppl.fit("majority_vote", Annotations.from_frame(TOKENS, kind="sequence"))
    assert posterior.labels()["label"].tolist() == list("OBIOO")
    posterior.save(tmp_path / "kept")
    kept = crowdppl.load(tmp_path / "kept").data
    assert kept.kind == "sequence"
    pd.testing.assert_frame_equal(kept.item_covariates, posterior.data.item_covariates)


@pytest.mark.parametrize(
    "changed, told",
    [
        ({"winner": ["m9", "m3", "tie", "m1"]}, "m9"),
        ({"model_b": ["m1", "m3", "m3", "m1"]}, "itself"),
        ({"model_a": ["m | 1", "m1", "m2", "m3"]}, r"'m \| 1'"),
        ({"model_b": ["m9", " ", "m3", "m1"]}, "right at row 1 .* missing"),
    ],
)
def test_faults_are_refused_by_value(changed: dict[str, list[str]], told: str) -> None:
    with pytest.raises(DataError, match=told):
        arena(**changed)


@pytest.mark.parametrize("missing", ["NA", " "])
def test_a_part_that_seems_to_be_missing_is_one_where_it_is_named(missing: str, tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"left": [missing, "b"], "right": ["a", "a"], "annotator": "x", "winner": ["left", "right"]}
    )
    rows.to_csv(tmp_path / "pairs.csv", index=False)
    with pytest.raises(DataError, match="the left at line 2 .* missing .*name it in items="):
        crowdppl.read_annotations(tmp_path / "pairs.csv", kind="pair")
    named = [(missing, "a"), ("b", "a")]
    found = crowdppl.read_annotations(tmp_path / "pairs.csv", kind="pair", items=named)
    assert found.n_labels == 2 and f"{missing} | a" in found.items


def test_a_class_of_sets_may_be_called_na(tmp_path: Path) -> None:
    rows = pd.DataFrame({"item": ["NA", "2"], "annotator": "x", "label": ["N/A;a", "a"]})
    rows.to_csv(tmp_path / "sets.csv", index=False)
    options: Any = {"kind": "set", "classes": ["N/A", "a"]}
    with pytest.raises(DataError, match="the item at line 2 .* missing"):
        crowdppl.read_annotations(tmp_path / "sets.csv", **options)
    found = crowdppl.read_annotations(tmp_path / "sets.csv", items=["NA", "2"], **options)
    assert {"NA | N/A", "NA | a", "2 | N/A", "2 | a"} == {*found.items}


def test_one_column_or_a_position_that_is_no_number_is_refused() -> None:
    with pytest.raises(DataError, match="two columns"):
        Annotations.from_frame(ARENA, item="model_a", kind="pair")
    with pytest.raises(DataError, match="'last'"):
        Annotations.from_frame(TOKENS.assign(index=["last"] * 8), kind="sequence")
    with pytest.raises(DataError, match="'m1'"):
        Annotations.from_arrays(["m1", "m2"], ["x", "y"], ["left", "right"], kind="pair")
    wrong = pd.DataFrame({"left": ["m2"]}, index=["m1 | m2"])
    with pytest.raises(DataError, match="'left'"):
        Annotations.from_frame(ARENA, kind="pair", item_covariates=wrong)


def test_two_objects_are_alike_whichever_comes_first() -> None:
    rows = [("b", "a", "ann", "same"), ("a", "b", "bob", "same"), ("a", "c", "ann", "different")]
    table = pd.DataFrame(rows, columns=["left", "right", "annotator", "label"])
    gold = {("c", "a"): "different", "b | a": "same"}
    data = Annotations.from_frame(table, kind="similarity", gold=gold)
    assert list(data.items) == ["a | b", "a | c"] and data.votes().tolist() == [[0, 2], [1, 0]]
    assert data.gold is not None and data.gold.to_dict() == {"a | b": "same", "a | c": "different"}


@pytest.mark.parametrize("kind", ["nominal", "real", "pair", "ranking", "similarity", "sequence", "set"])
def test_there_is_an_example_of_each_kind(kind: str) -> None:
    data = crowdppl.datasets.example(kind)
    assert data.kind == kind and data.n_labels > 20
    assert np.bincount(data.label_codes()[0]).min() > 1
