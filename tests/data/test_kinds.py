"""Labels that are no plain categories are refused with what they are, and ordinary ones are not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.data.files import read_annotations
from crowdppl.data.kinds.grades import order_of
from crowdppl.errors import DataError


def table(labels: list[Any]) -> pd.DataFrame:
    """Two annotators, who label items in turn."""
    n = np.arange(len(labels))
    return pd.DataFrame({"item": n // 2, "annotator": n % 2, "label": labels})


def measured(step: float, noise: float = 8.0, items: int = 40, seed: int = 0) -> pd.DataFrame:
    """Three annotators who measure items on a scale from 0 to 100, to a step."""
    rng = np.random.default_rng(seed)
    item, truth = np.repeat(np.arange(items), 3), rng.uniform(0, 100, items)
    given = np.clip(truth[item] + rng.normal(0, noise, len(item)), 0, 100)
    number = (given / step).round() * step
    return pd.DataFrame({"item": item, "annotator": np.tile(list("uvw"), items), "label": number.round(1)})


def named(accuracy: float, items: int, labels: int, classes: int, seed: int) -> pd.DataFrame:
    """Annotators who name one of many classes by its number, and err evenly."""
    rng = np.random.default_rng(seed)
    item, truth = np.repeat(np.arange(items), labels), rng.integers(0, classes, items)
    wrong = rng.integers(0, classes, len(item))
    label = np.where(rng.random(len(item)) < accuracy, truth[item], wrong)
    return pd.DataFrame({"item": item, "annotator": np.tile(np.arange(labels), items), "label": label})


@pytest.mark.parametrize("step", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("text", [False, True])
def test_many_numbers_that_agree_as_measurements_are_no_classes(step: float, text: bool, tmp_path: Path) -> None:
    frame = measured(step)
    frame["label"] = frame["label"].astype(str) if text else frame["label"]
    with pytest.raises(DataError, match='kind="real"'):
        Annotations.from_frame(frame)
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match='measurements.*kind="real".*kind="nominal"'):
        read_annotations(tmp_path / "a.csv")
    assert read_annotations(tmp_path / "a.csv", kind="real").kind == "real"
    for said in ({"kind": "nominal"}, {"kind": "ordinal"}, {"classes": frame["label"].astype(str).unique()}):
        assert read_annotations(tmp_path / "a.csv", **said).n_classes == frame["label"].nunique()
    labels = frame["label"].astype(str).astype("category")
    assert Annotations.from_frame(frame.assign(label=labels)).n_classes == frame["label"].nunique()


def test_numbers_of_a_matrix_beyond_all_integers_stay_what_they_are() -> None:
    data = Annotations.from_matrix([[1e200, 2e200]], kind="real")
    assert data.frame()["label"].tolist() == [1e200, 2e200]


@pytest.mark.parametrize(
    ("written", "alone"),
    [("{:.0f}%", "%"), ("{:.0f} %", " %"), ("${:.2f}", "[$]"), ("{:.1f} kg", " kg"), ("{:.1f}/100", "/100")],
)
def test_many_numbers_with_a_unit_are_no_classes(written: str, alone: str) -> None:
    frame = measured(0.1)
    frame["label"] = frame["label"].map(written.format)
    number = frame["label"].str.replace(alone, "", regex=True)
    with pytest.raises(DataError, match=r"measurements.*each as a number alone \(.* for '.*kind=\"real\""):
        Annotations.from_frame(frame)
    with pytest.raises(DataError, match="measurements"):  # whole numbers, one label an item
        Annotations.from_frame(frame.drop_duplicates("item"))
    assert Annotations.from_frame(frame.assign(label=number), kind="real").kind == "real"
    first = f"{float(number[0]):g}"
    if alone == "/100":
        assert Annotations.from_frame(frame, kind="real").frame()["label"][0] == float(first)
    else:
        with pytest.raises(
            DataError, match=f"not a finite number.*write each as a number alone, {first}, or leave"
        ):
            Annotations.from_frame(frame, kind="real")
    for said in ({"kind": "nominal"}, {"classes": frame["label"].unique()}):
        assert Annotations.from_frame(frame, **said).n_classes == frame["label"].nunique()


def test_commas_between_thousands_are_no_sets() -> None:
    frame = measured(0.01).assign(label=lambda rows: (rows["label"] * 50).map("{:,.0f}".format))
    frame = pd.concat([frame, table(["1", "2", "234", "999"]).astype(str)]).astype(str)
    with pytest.raises(DataError, match=r"1,\d{3}'\), and then cut"):
        Annotations.from_frame(frame)


@pytest.mark.parametrize("written", ["{}/10", "{} out of 10", "{}%", "${}"])
def test_few_numbers_with_a_unit_are_classes(written: str) -> None:
    few = measured(10).assign(label=lambda rows: rows["label"].map(lambda x: written.format(int(x) // 10)))
    assert Annotations.from_frame(few).n_classes == few["label"].nunique() <= 11
    many = named(0.7, 100, 3, 60, 0).assign(label=lambda rows: rows["label"].map(written.format))
    with pytest.raises(DataError, match="has the unit"):
        Annotations.from_frame(many)


@pytest.mark.parametrize("written", ["{} {}", "{}. {}", "{:03}_{}"])
def test_names_with_a_number_ahead_are_classes_although_neighbours_are_taken_for_one_another(written: str) -> None:
    near = measured(1.0).assign(label=lambda rows: rows["label"].astype(int))
    with pytest.raises(DataError, match="measurements"):
        Annotations.from_frame(near)
    letters = "abcdefghij"
    near["label"] = near["label"].map(lambda n: written.format(n, letters[n // 10 % 10] + letters[n % 10]))
    assert Annotations.from_frame(near).n_classes == near["label"].nunique() > 50


@pytest.mark.parametrize(("text", "number"), [("--5", None), ("+-5", None), ("$-5", "-5"), ("-$5", "-5")])
def test_of_two_signs_no_number_is_made(text: str, number: str | None) -> None:
    remedy = "correct it" if number is None else f"write each as a number alone, {number}"
    with pytest.raises(DataError, match=f"row 1 .* is not a finite number.*; {remedy}, or leave"):
        Annotations.from_arrays([1, 1], ["a", "b"], ["1", text], kind="real")


@pytest.mark.parametrize("written", ["B{}", "{}a", "#{}", "({})", "1-{}"])
def test_numbers_in_names_are_classes(written: str) -> None:
    codes = named(0.7, 100, 3, 60, 0).assign(label=lambda rows: rows["label"].map(written.format))
    assert Annotations.from_frame(codes).n_classes == codes["label"].nunique() > 50


@pytest.mark.parametrize("accuracy", [0.2, 0.5, 0.9])
@pytest.mark.parametrize(("labels", "classes"), [(2, 30), (3, 100), (10, 1000)])
@pytest.mark.parametrize("items", [10, 200])
def test_many_numbers_that_name_classes_are_taken(accuracy: float, labels: int, classes: int, items: int) -> None:
    for seed in range(3):
        frame = named(accuracy, items, labels, classes, seed)
        assert Annotations.from_frame(frame).n_classes == frame["label"].nunique()


def test_ratings_and_codes_are_taken() -> None:
    ten = measured(10, noise=15).assign(label=lambda rows: rows["label"] // 10 + 1)
    assert Annotations.from_frame(ten).classes.tolist() == list(range(1, 12))
    codes = named(0.7, 100, 3, 60, 0).assign(label=lambda rows: (rows["label"] + 250.25).astype(str))
    assert Annotations.from_frame(codes).n_classes == codes["label"].nunique()
    alone = named(0.7, 100, 1, 60, 0).drop_duplicates("item")
    assert Annotations.from_frame(alone).n_classes == alone["label"].nunique()
    with pytest.raises(DataError, match="measurements"):
        Annotations.from_frame(alone.assign(label=(alone["label"] + 0.5).astype(str)))


@pytest.mark.parametrize("mark", [";", "|", ",", ", "])
def test_answers_of_several_classes(mark: str) -> None:
    """Else "a;b" and "b;a" would be two classes."""
    for labels in (["a;b", "b;a", "c", "d"], ["a", "b", "a;b", "a"]):
        frame = table([label.replace(";", mark) for label in labels])
        with pytest.raises(DataError, match=r"names several classes.*kind=.set.*kind=\"nominal\""):
            Annotations.from_frame(frame)
        assert Annotations.from_frame(frame, kind="nominal").n_classes == len(set(labels))
        with pytest.raises(DataError, match="several classes"):
            Annotations.from_frame(frame.pivot(index="item", columns="annotator", values="label"), wide=True)


def test_arrays_as_text_are_the_lists_that_they_were() -> None:
    frame = table(["['cat' 'dog']", "['cat']", "['dog']", '["cat" "dog"]'])
    data = Annotations.from_frame(frame, kind="set")
    said = data.frame().set_index(["item", "annotator"])["label"]
    assert {*said.index.get_level_values(0)} == {f"{i} | {name}" for i in (0, 1) for name in ("cat", "dog")}


@pytest.mark.parametrize("value", [["a"], ("a", "b"), {"a"}, np.array(["a"])])
def test_lists_are_sets(value: Any) -> None:
    for first in ("x", value):
        with pytest.raises(DataError, match="kind=.set."):
            Annotations.from_frame(table([first, value, "x", "x"]))


@pytest.mark.parametrize(
    "labels",
    [
        ["yes", "no", "yes, definitely", "well, maybe"],
        ["Agree", "Disagree", "Neither agree, nor disagree", "Agree"],
        ["yes, but", "no, but", "yes", "no"],
        ["New York", "New", "York city", "new york"],
        ["[other]", "{none}", "a", "b"],
        ["maillot", "maillot, tank suit", "crane", "crane"],
        ["red, white", "red,white", "blue", "blue"],
        ["1-2", "2-1", "1", "2"],
    ],
)
def test_classes_with_commas_blanks_and_brackets_are_taken(labels: list[str]) -> None:
    assert Annotations.from_frame(table(labels)).n_classes == len(set(labels))


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        *(('[{"label": "cat"}]', "own"), ("{'label': 'cat'}", "own"), ("[['a']]", "own")),
        *((' ["cat"]', '"set"'), ("['cat', 'dog']", '"set"'), ("('cat', 1)", '"set"')),
    ],
)
def test_json_in_a_cell(text: str, remedy: str, tmp_path: Path) -> None:
    frame = table([text, "x", "x", text])
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match=rf"line 2 of a.csv is (JSON|a list).*{remedy}.*kind="):
        read_annotations(tmp_path / "a.csv")
    assert read_annotations(tmp_path / "a.csv", kind="nominal").classes.tolist() == sorted([text, "x"])
    for value in ({"label": "cat"}, [{"start": 0, "label": "PER"}], [[0, 5, "PER"]]):
        with pytest.raises(DataError, match="column of its own"):
            Annotations.from_frame(table([value, "x"]))


@pytest.mark.parametrize(
    "labels",
    [
        pd.to_datetime(["2020-01-01", "2021-01-01"]),
        pd.to_datetime(["2020-01-01", "2021-01-01"], utc=True),
        pd.to_timedelta([1, 2], unit="s"),
        np.array([1 + 1j, 2]),
    ],
)
@pytest.mark.parametrize("kind", ["real", "ranking"])
def test_dates_durations_and_complex_numbers_are_no_numbers(kind: str, labels: Any) -> None:
    with pytest.raises(DataError, match="row 0 .* is not a .*finite number"):
        Annotations.from_frame(table(list(labels)), kind=kind)


def test_nested_exports(tmp_path: Path) -> None:
    def saved(tasks: Any, lines: bool) -> Path:
        path = tmp_path / "export.json"
        path.write_text("\n".join(map(json.dumps, tasks)) if lines else json.dumps(tasks, indent=2))
        return path

    tasks = pd.DataFrame([{"id": 1, "data": {"text": "t"}, "annotations": [{"completed_by": 1, "result": []}]}])
    with pytest.raises(DataError, match="export of Label Studio: 'annotations' .*crowdppl.read_annotations"):
        Annotations.from_frame(tasks)
    with pytest.raises(DataError, match="nested export: 'responses' holds records of user, value"):
        read_annotations(saved([{"text": "t", "responses": {"user": 1, "value": "x"}}], True))
    flat = [{"item": n // 2, "user": n % 2, "label": "xyxx"[n], "meta": {"n": n}} for n in range(4)]
    assert read_annotations(saved(flat, False)).n_labels == 4
    with pytest.raises(DataError, match="label at entry 2 of export.json is missing"):
        read_annotations(saved([flat[0], flat[1] | {"label": None}], False))
    with pytest.raises(DataError, match="entry 2 of export.json is 7"):
        read_annotations(saved([flat[0], 7], False))


@pytest.mark.parametrize(
    ("classes", "order"),
    [
        ([3, 1, 2], [1, 2, 3]),
        (["10", "9", "11"], ["9", "10", "11"]),
        (["Good", "poor", "fair"], ["poor", "fair", "Good"]),
        (["neutral", "strongly agree", "disagree"], ["disagree", "neutral", "strongly agree"]),
        ([0, 1], None),
        ([1, 2, 4], None),
        (["cat", "dog", "good"], None),
    ],
)
def test_classes_that_may_be_grades_have_an_order(classes: list[Any], order: list[Any] | None) -> None:
    assert order_of(pd.Index(classes)) == order


def test_labels_that_are_all_different_are_no_classes() -> None:
    rows = pd.DataFrame(
        {"item": range(60), "annotator": ["a", "b"] * 30, "label": [f"text {n}" for n in range(60)]}
    )
    with pytest.raises(DataError, match="60 labels have 60 different values.*kind=.nominal"):
        Annotations.from_frame(rows)
    assert Annotations.from_frame(rows, kind="nominal").n_classes == 60
    twice = pd.concat([rows, rows.assign(annotator="c")])
    assert Annotations.from_frame(twice).n_classes == 60


@pytest.mark.parametrize(
    ("word", "kind"), [("numeric", "real"), ("NER", "sequence"), ("multi-label", "set"), ("ordnal", "ordinal")]
)
def test_another_word_for_a_kind_is_answered_with_its_name(word: str, kind: str) -> None:
    with pytest.raises(DataError, match=f"kind='{word}' is none of .*; say kind='{kind}'"):
        Annotations.from_arrays([1], ["a"], [1], kind=word)
