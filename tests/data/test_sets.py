"""Labels that are sets of classes, read as answers about each class."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.data.split import item_folds, label_folds
from crowdppl.errors import DataError

ROWS = pd.DataFrame(
    {
        "item": ["p", "p", "q", "q", "r"],
        "annotator": ["x", "y", "x", "y", "x"],
        "label": ["a;b", "a", "", "c; b", "b"],
        "seconds": [5, 6, 7, 8, 9],
    }
)
LISTS: list[Any] = [["a", "b"], ("a",), set(), frozenset("bc"), ["b"]]


def read(**options: Any) -> Annotations:
    return Annotations.from_frame(ROWS, kind="set", **options)


def yes(data: Annotations) -> set[tuple[str, str]]:
    rows = data.frame()
    return {*rows[rows["label"] == "yes"][["item", "annotator"]].itertuples(index=False, name=None)}


SAID = {("p | a", "x"), ("p | b", "x"), ("p | a", "y"), ("q | b", "y"), ("q | c", "y"), ("r | b", "x")}


def test_a_set_is_an_answer_about_each_class(tmp_path: Path) -> None:
    data = read(label_covariates=["seconds"])
    assert (data.kind, [*data.classes], data.n_items, data.n_labels) == ("set", ["no", "yes"], 9, 15)
    assert yes(data) == SAID
    assert data.frame().groupby("item")["seconds"].sum().to_dict()["p | c"] == 11
    ROWS.to_csv(tmp_path / "sets.csv", index=False)
    for other in (
        Annotations.from_frame(ROWS.assign(label=LISTS), kind="set"),
        Annotations.from_frame(ROWS.assign(label=['["a", "b"]', "('a',)", "set()", "{'c', 'b'}", "b"]), kind="set"),
        Annotations.from_frame(data.frame(), kind="set"),
        Annotations.from_frame(ROWS, like=data),
        crowdppl.read_annotations(tmp_path / "sets.csv", kind="set"),
    ):
        assert yes(other) == SAID and other.n_labels == 15


@pytest.mark.parametrize("nested", ["['a', ['b']]", ["a", ["b"]], ("a", ["b"])])
def test_a_set_in_a_set_is_refused(nested: Any) -> None:
    with pytest.raises(DataError, match="no class"):
        Annotations.from_arrays(["p", "q"], ["u", "u"], [nested, "a"], kind="set")


def test_known_sets_are_known_answers() -> None:
    want = {"p | a": "yes", "p | b": "no", "p | c": "no", "q | a": "no", "q | b": "no", "q | c": "no"}
    for gold in ({"p": {"a"}, "q": []}, want):
        given, later = read(gold=gold).gold, read().with_gold(gold).gold
        assert given is not None and later is not None and given.to_dict() == later.to_dict() == want
    posterior = crowdppl.fit("majority_vote", read(), inference="em", seed=0)
    assert crowdppl.evaluate(posterior, {"p": "a;b"}).accuracy == pytest.approx(2.5 / 3)  # b is a tie


def test_of_a_set_one_class_may_be_known() -> None:
    want = {"p | a": "yes", "p | b": "no", "p | c": "no", "q | b": "no"}
    for gold in ({"p": "a", ("q", "b"): "no"}, {"p": ["a"], ("q", "b"): False}, {"p": "a", "q | b": "no"}):
        given, later = read(gold=gold).gold, read().with_gold(gold).gold
        assert given is not None and later is not None and given.to_dict() == later.to_dict() == want
    settings = {"clusters": 1}
    known = crowdppl.fit("set_clusters", read(), gold={("q", "b"): "no"}, inference="em", settings=settings)
    unknown = crowdppl.fit("set_clusters", read(), inference="em", settings=settings).probabilities()["yes"]
    p = known.probabilities()["yes"]
    assert p["q", "b"] == 0 < unknown["q", "b"] and p["q", "a"] > 0 and p["q", "c"] > 0
    for wrong in ({("q", "d"): "no"}, {("q", "b"): "maybe"}):
        with pytest.raises(DataError):
            read(gold=wrong)


def test_folds_keep_the_classes_of_a_set_together() -> None:
    data = crowdppl.datasets.example("set")
    rows = data.frame()
    rows["of"] = rows["item"].str.split(" | ", regex=False).str[0]
    for fold, unit in ((label_folds(data, 3, 0), ["of", "annotator"]), (item_folds(data, 3, 0), ["of"])):
        assert (rows.assign(fold=fold).groupby(unit)["fold"].nunique() == 1).all() and len({*fold}) == 3


def test_listed_classes_abstentions_and_items() -> None:
    data = Annotations.from_frame(
        ROWS.replace({"label": {"b": "?"}}),
        kind="set",
        classes=["a", "b", "c", "d"],
        abstentions=["?"],
        items=["s"],
    )
    assert data.n_items == 16 and [*data.answers] == ["no", "yes", "?"]
    assert data.frame().set_index("item")["label"]["r | d"] == "?"
    design = Annotations.design(["s", "t"], ["x", "y"], kind="set", classes=["a", "b"])
    assert len(crowdppl.simulate("set_clusters", design, seed=0).truth) == 4


@pytest.mark.parametrize(
    ("label", "options", "told"),
    [
        (None, {}, r"row 0 .*missing.*\[\]"),
        ("a;z", {"classes": ["a", "b", "c"]}, "'z'.*row 0"),
        ([1.5], {}, "1.5"),
        ({"a": 1}, {}, "row 0"),
        ("a | b;c", {"features": pd.DataFrame({"u": [1.0]}, index=["p"])}, "features"),
    ],
)
def test_faults_are_refused(label: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        Annotations.from_frame(ROWS.assign(label=[label, *LISTS[1:]]), kind="set", **options)


def test_similarity_is_different_then_same() -> None:
    pairs = [("u", "v"), ("u", "w"), ("v", "w")]
    for words in (["Yes", "No", "No"], [1, 0, 0], ["same", "different", "different"]):
        data = Annotations.from_arrays(pairs, ["x"] * 3, words, kind="similarity")
        assert data.frame()["label"].tolist() == words and data.classes[1] == words[0]
    with pytest.raises(DataError, match=r"classes=\[different, same\]"):
        Annotations.from_arrays(pairs, ["x"] * 3, ["match", "none", "none"], kind="similarity")


def test_sets_that_are_separated_in_two_ways_are_refused() -> None:
    mixed = ROWS.assign(label=["a;b", "b,a", "", "c; b", "b"])
    with pytest.raises(DataError, match="'b,a' at row 1 .*';'"):
        Annotations.from_frame(mixed, kind="set")
    named = ROWS.assign(label=["a;b", "a;Paris, France", "", "c; b", "b"])  # no part of which is a class
    assert "Paris, France" in Annotations.from_frame(named, kind="set").item_covariates["class"].cat.categories


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["red\nblue", "blue", "red", "blue\nred"], None),
        (['{"choices": ["red", "blue"]}', "blue", "red", '{"choices": ["blue", "red"]}'], None),
        ([{"choices": ["red", "blue"]}, "blue", ["red"], {"choices": ["blue", "red"]}], None),
        (["red|blue", "blue", "red", "blue|red"], None),
        (["red blue", "blue", "red", "blue  red "], ["red", "blue"]),
        (["red; blue", "blue", "red", "blue,red"], ["red", "blue"]),
    ],
)
def test_sets_as_tools_write_them(labels: list[Any], classes: list[str] | None) -> None:
    frame = pd.DataFrame({"item": [1, 1, 2, 2], "annotator": ["a", "b"] * 2, "label": labels})
    data = Annotations.from_frame(frame, kind="set", classes=classes)
    assert sorted({item.split(" | ")[1] for item in data.items}) == ["blue", "red"]
    assert data.frame().label.tolist() == ["yes", "yes", "yes", "no", "no", "yes", "yes", "yes"]


def test_classes_with_commas_and_classes_within_classes_are_told_by_the_list() -> None:
    labels = ["Yes, mostly, No", "No", "New York Yes, mostly", "New York; York"]
    frame = pd.DataFrame({"item": [1, 1, 2, 2], "annotator": ["a", "b"] * 2, "label": labels})
    data = Annotations.from_frame(frame, kind="set", classes=["Yes, mostly", "No", "New York", "York"])
    yes = data.frame().query("label == 'yes'")
    found = [
        {item.split(" | ")[1] for item in rows} for _, rows in yes.groupby([yes.item.str[0], "annotator"]).item
    ]
    assert found == [{"Yes, mostly", "No"}, {"No"}, {"Yes, mostly", "New York"}, {"New York", "York"}]


def test_blanks_between_classes_that_nobody_lists_are_refused() -> None:
    frame = pd.DataFrame({"item": [1, 1, 2], "annotator": ["a", "b", "a"], "label": ["red blue", "blue", "red"]})
    with pytest.raises(DataError, match=r"'red blue' at row 0 .* write ';' for ' ' here, or list all in classes="):
        Annotations.from_frame(frame, kind="set")


@pytest.mark.parametrize(
    "labels",
    [
        ["[a;b]", "[a]", "[]", "[c;b]", "[b]"],
        ["{a, b}", "{a}", "{}", "{c, b}", "{b}"],
        ["a+b", "a", "", "c+b", "b"],
        ["a + b", "a", "", "b + c", "b"],
    ],
)
def test_sets_in_brackets_and_sums(labels: list[str]) -> None:
    assert yes(Annotations.from_frame(ROWS.assign(label=labels), kind="set")) == SAID
    with pytest.raises(DataError, match='say kind="set"'):
        Annotations.from_frame(ROWS.assign(label=[x if x.strip("{}") else "[]" for x in labels]))


def test_signs_in_names_of_classes_separate_nothing() -> None:
    labels = ["C++;R+D", "C++", "", "C++", "R+D"]
    assert {name for name, _ in yes(Annotations.from_frame(ROWS.assign(label=labels), kind="set"))} == {
        *("p | C++", "p | R+D", "q | C++", "r | R+D")
    }
    alone = Annotations.from_frame(ROWS.assign(label=["C++", "C++", "R+D", "C#", "R+D"]), kind="set")
    assert {name.split(" | ")[1] for name in alone.items} == {"C++", "R+D", "C#"}
    assert Annotations.from_frame(ROWS.assign(label=["A+", "A", "B+", "A+", "B"])).n_classes == 4
