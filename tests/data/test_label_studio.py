"""Exports of Label Studio are read as what was asked, and refused with the annotation and what helps."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import crowdppl
from crowdppl.cli.commands import main
from crowdppl.errors import CrowdpplWarning, DataError

TEXT = "Ann Lee sang in Rio."


def task(key: Any, *annotations: dict[str, Any], predictions: Any = (), **shows: Any) -> dict[str, Any]:
    made = {"annotations": [*annotations], "predictions": [*predictions], "drafts": []}
    return {"id": key, "data": shows or {"text": TEXT}, "meta": {}, **made}


def by(who: Any, *results: dict[str, Any], **more: Any) -> dict[str, Any]:
    said = {"was_cancelled": False, "ground_truth": False, "created_at": "2026-03-01T10:00:00Z", "lead_time": 2.5}
    return {"id": 1, "completed_by": who, "result": [*results], **said, **more}


def result(name: str, its_type: str, **value: Any) -> dict[str, Any]:
    return {"id": "x", "from_name": name, "to_name": "text", "type": its_type, "value": value, "origin": "manual"}


def choice(*names: Any, **more: Any) -> dict[str, Any]:
    return result("mood", "choices", choices=[*names], **more)


def stars(number: Any) -> dict[str, Any]:
    return result("stars", "rating", rating=number)


def prefers(side: str, to_name: str = "t1,t2") -> dict[str, Any]:
    return {**result("better", "pairwise", selected=side), "to_name": to_name}


def ranks(*names: str, **more: Any) -> dict[str, Any]:
    return result("order", "ranker", ranker={"order": [*names], **more})


def span(start: Any, end: Any, *names: str, **more: Any) -> dict[str, Any]:
    return result("entity", "labels", start=start, end=end, labels=[*names], **more)


def read(tmp_path: Path, *tasks: Any, **options: Any) -> crowdppl.Annotations:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([*tasks]))
    return crowdppl.read_annotations(path, **options)


def told(data: crowdppl.Annotations) -> dict[tuple[Any, Any], Any]:
    return {(i, a): x for i, a, x in data.frame()[["item", "annotator", "label"]].itertuples(index=False)}


def test_each_type_of_results_is_read_as_its_kind(tmp_path: Path) -> None:
    cases: list[tuple[str, Any, Any, dict[Any, Any]]] = [
        ("nominal", choice("good"), choice("bad"), {(7, "ann"): "good", (7, "bob"): "bad"}),
        ("nominal", choice(["pet", "dog"]), choice("bird"), {(7, "ann"): "pet/dog", (7, "bob"): "bird"}),
        ("ordinal", stars(4), stars(2), {(7, "ann"): 4, (7, "bob"): 2}),
        ("real", *(result("n", "number", number=x) for x in (1.5, 2)), {(7, "ann"): 1.5, (7, "bob"): 2.0}),
    ]
    for kind, one, other, wanted in cases:
        data = read(tmp_path, task(7, by("ann", one), by({"id": 3, "email": "bob"}, other)))
        assert data.kind == kind and told(data) == wanted
        assert data.roles == {"item": "id", "annotator": "completed_by", "label": one["from_name"]}
    data = read(tmp_path, task(7, by("ann", choice("b", "a")), by("bob", choice("b")), by("eve")))
    yes = {"7 | b": "yes", "7 | a": "no"}
    assert data.kind == "set" and told(data) == {
        **{(f"7 | {name}", "ann"): "yes" for name in "ab"},
        **{(item, "bob"): answer for item, answer in yes.items()},
        **{(f"7 | {name}", "eve"): "no" for name in "ab"},
    }
    data = read(tmp_path, task(7, by("ann", prefers("left")), by("bob", prefers("right")), text1="x", text2="y"))
    assert data.kind == "pair" and told(data) == {("x | y", "ann"): "left", ("x | y", "bob"): "right"}
    data = read(tmp_path, task(7, by("ann", ranks("b", "a")), by("bob", ranks("a", "b", _=["c"])), items=[1, 2]))
    assert data.kind == "ranking"
    assert told(data) == {("7 | a", "ann"): 2, ("7 | b", "ann"): 1, ("7 | a", "bob"): 1, ("7 | b", "bob"): 2}
    data = read(tmp_path, task(7, by("ann", span(0, 3, "PER", text="Ann")), by("bob")))
    assert data.kind == "sequence" and [x for x in told(data).values() if x != "O"] == ["B-PER"]
    assert data.frame()["lead_time"].tolist() == [2.5] * 12


def test_another_kind_that_fits_may_be_said(tmp_path: Path) -> None:
    tasks = [task(n, by(1, stars(n)), by(2, stars(n + 1))) for n in (1, 2)]
    assert read(tmp_path, *tasks, kind="real").frame()["label"].tolist() == [1.0, 2.0, 2.0, 3.0]
    same = task(1, by(1, choice("same")), by(2, choice("different")), text1="x", text2="y")
    assert read(tmp_path, same, kind="similarity").n_items == 1
    with pytest.raises(DataError, match="answers 'stars' by rating, .* kind='set'; leave kind= out$"):
        read(tmp_path, *tasks, kind="set")
    both = task(1, by(1, choice("a", "b")), by(2, choice("a")))
    with pytest.raises(
        DataError, match=r"the annotation of 1 at entry 1 of tasks.json chooses \['a', 'b'\].*'set'"
    ):
        read(tmp_path, both, kind="nominal")


def test_one_question_of_several(tmp_path: Path) -> None:
    tasks = [task(n, by(1, stars(n), choice("good")), by(2, stars(n), choice("bad"))) for n in (1, 2)]
    with pytest.raises(DataError, match=r"'stars' \(rating\), 'mood' \(choices\); say question='stars'"):
        read(tmp_path, *tasks)
    assert read(tmp_path, *tasks, question="stars").kind == "ordinal"
    assert read(tmp_path, *tasks, question="mood").kind == "nominal"
    assert read(tmp_path, *tasks, kind="set").roles["label"] == "mood"  # which alone may be sets
    with pytest.raises(DataError, match=r"question='none' is none of .*'mood' \(choices\)"):
        read(tmp_path, *tasks, question="none")
    for wrong in ({"label": "mood"}, {"annotator": "completed_by"}, {"wide": True}):
        with pytest.raises(DataError, match="holds tasks of Label Studio, .*say question="):
            read(tmp_path, *tasks, **wrong)
    flat = tmp_path / "flat.csv"
    flat.write_text("item,annotator,label\n1,a,x\n1,b,y\n")
    with pytest.raises(DataError, match="question= and predictions= are for tasks"):
        crowdppl.read_annotations(flat, question="mood")


def test_what_is_about_regions_is_no_label_of_a_task(tmp_path: Path) -> None:
    about = choice("good", start=0, end=3)
    tasks = [task(1, by(1, span(0, 3, "PER"), about), by(2, span(0, 3, "PER")))]
    assert read(tmp_path, *tasks).kind == "sequence"
    with pytest.raises(DataError, match=r"'mood' \(choices of regions\); say question='entity'"):
        read(tmp_path, *tasks, question="mood")
    box = result("box", "rectanglelabels", x=1, y=2, rectanglelabels=["dog"])
    with pytest.raises(DataError, match=r"entry 1 .*'box' \(rectanglelabels\); ask for one of these: choices"):
        read(tmp_path, task(1, by(1, box)))
    relation = {"from_id": "x", "to_id": "y", "type": "relation", "direction": "right"}
    assert read(tmp_path, task(1, by(1, span(0, 3, "PER"), relation), by(2))).n_labels == 12


def test_skipped_annotations_are_left_out_and_unanswered_ones_told(tmp_path: Path) -> None:
    good, bad = choice("good"), choice("bad")
    tasks = [
        task(1, by(1, good), by(2, bad), by(3, good, was_cancelled=True)),
        task(2, by(1, bad), by(2)),
        task(3, by(1, good, was_cancelled=True)),
    ]
    with pytest.warns(CrowdpplWarning) as said:
        data = read(tmp_path, *tasks)
    assert told(data) == {(1, 1): "good", (1, 2): "bad", (2, 1): "bad"}
    texts = [str(warning.message) for warning in said]
    assert any(text.startswith("1 of 3 tasks have no annotation that counts") for text in texts)
    assert any(text.startswith("1 of 4 annotations do not answer 'mood'") for text in texts)


def test_a_ground_truth_is_gold_and_no_annotator(tmp_path: Path) -> None:
    def gold(*results: dict[str, Any]) -> dict[str, Any]:
        return by(9, *results, ground_truth=True)

    two = {"text1": "x", "text2": "y"}
    ranked = {"1 | a": 1.0, "1 | b": 2.0}
    spans = {"1 | 0": "B-PER", **{f"1 | {n}": "O" for n in range(1, 6)}}
    cases: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[Any, Any]]] = [
        (choice("good"), choice("bad"), {}, {1: "bad"}),
        (choice("good"), choice("new"), {}, {1: "new"}),  # which no annotator chose
        (choice("good", "bad"), choice("bad"), {}, {"1 | good": "no", "1 | bad": "yes"}),
        (stars(3), stars(5), {}, {1: 5}),
        (prefers("left"), prefers("right"), two, {"x | y": "right"}),
        (ranks("b", "a"), ranks("a", "b"), {"items": [1]}, ranked),
        (span(4, 7, "PER"), span(0, 3, "PER"), {}, spans),
    ]
    for one, truth, shows, wanted in cases:
        other = choice("bad") if one["type"] == "choices" else one
        data = read(tmp_path, task(1, by(1, one), gold(truth), by(2, other), **shows))
        assert data.gold is not None and data.gold.to_dict() == wanted
        assert [*data.annotators] == [1, 2]
    alone = read(tmp_path, task(1, by(1, choice("a")), by(2, choice("b"))), task(2, gold(choice("b"))))
    assert [*alone.items] == [1, 2] and alone.gold is not None and alone.gold.to_dict() == {2: "b"}
    with pytest.warns(CrowdpplWarning, match="gold= is given"):
        other = read(tmp_path, task(1, by(1, choice("a")), by(2, choice("b")), gold(choice("b"))), gold={1: "a"})
    assert other.gold.to_dict() == {1: "a"}
    with pytest.raises(DataError, match="entry 2 .* is a ground truth, and differs"):
        read(tmp_path, task(1, by(1, choice("a")), gold(choice("b"))), task(1, gold(choice("a"))))
    unsure = task(1, by(1, choice("a")), by(2, choice("b")), gold(choice("?")), gold(choice("b")))
    found = read(tmp_path, unsure, abstentions=["?"])
    assert [*found.classes] == ["a", "b"] and found.gold is not None and found.gold.to_dict() == {1: "b"}
    with pytest.raises(DataError, match="no label is left"):
        read(tmp_path, task(1, gold(choice("b"))))


def test_predictions_are_annotators_where_asked(tmp_path: Path) -> None:
    model = {"model_version": "v2", "result": [choice("bad")], "score": 0.9}
    tasks = [task(n, by(1, choice("good")), by(2, choice("bad")), predictions=[model]) for n in (1, 2)]
    assert [*read(tmp_path, *tasks).annotators] == [1, 2]
    data = read(tmp_path, *tasks, predictions=True)
    assert [*data.annotators] == ["1", "2", "v2"] and told(data)[1, "v2"] == "bad"
    with pytest.raises(DataError, match="predictions at entry 1 .* such as 5; export a snapshot"):
        read(tmp_path, task(1, by(1, choice("good")), predictions=[5]), predictions=True)


def test_repeats_are_those_of_annotations(tmp_path: Path) -> None:
    good, bad = choice("good"), choice("bad")
    tasks = [task(1, by(1, good), by(2, good), by(1, bad)), task(1, by(2, bad))]
    assert told(read(tmp_path, *tasks, repeats="last")) == {(1, 1): "bad", (1, 2): "bad"}
    assert read(tmp_path, *tasks).n_labels == 4
    marks = task(1, by(1, span(0, 7, "PER")), by(1, span(4, 7, "LOC")), by(2))
    with pytest.raises(DataError, match="annotator 1 labels item '1 | 0' at the annotation of 1 at entry 1"):
        read(tmp_path, marks, repeats="error")
    last = read(tmp_path, marks, repeats="last").frame()
    assert last[last["annotator"] == 1]["label"].tolist() == ["O", "B-LOC", "O", "O", "O", "O"]


def test_fields_of_the_data_name_items(tmp_path: Path) -> None:
    tasks = [task(1, by(1, choice("a")), by(2, choice("b")), doc="x"), task(1, by(1, choice("b")), doc="y")]
    with pytest.raises(DataError, match="task 1 at entry 2 .* something else than at entry 1 .*say item="):
        read(tmp_path, *tasks)
    data = read(tmp_path, *tasks, item="doc")
    assert told(data) == {("x", 1): "a", ("x", 2): "b", ("y", 1): "b"} and data.roles["item"] == "doc"
    with pytest.raises(DataError, match="entry 1 .* no field 'no' .* there are 'doc'; say one"):
        read(tmp_path, *tasks, item="no")


def test_two_objects_are_compared(tmp_path: Path) -> None:
    def compared(to_name: str = "t1,t2", **shows: str) -> dict[str, Any]:
        return task(1, by(1, prefers("left", to_name)), by(2, prefers("right", to_name)), **shows)

    for shows in ({"right": "y", "left": "x"}, {"prompt": "p", "answer_b": "y", "answer_a": "x"}):
        assert [*read(tmp_path, compared(**shows)).items] == ["x | y"]
    assert [*read(tmp_path, compared("new,old", old="y", new="x")).items] == ["x | y"]
    unclear = compared(prompt="p", old="y", new="x")
    with pytest.raises(DataError, match=r"entry 1 .*'prompt', 'old', 'new'; say which as item=\('"):
        read(tmp_path, unclear)
    assert [*read(tmp_path, unclear, item=("new", "old")).items] == ["x | y"]
    with pytest.raises(DataError, match="must name two fields"):
        read(tmp_path, unclear, item="new")


EMOJI = "\U0001f4a9This is an annotation."


@pytest.mark.parametrize("text", ["annotation", None])
@pytest.mark.parametrize("start", [12, 13])
def test_offsets_are_units_of_utf16_unless_the_text_says_letters(
    tmp_path: Path, start: int, text: str | None
) -> None:
    marked = span(start, start + 10, "A", **({} if text is None else {"text": text}))
    data = read(tmp_path, task(1, by(1, marked), by(2), text=EMOJI))
    frame = data.frame()
    tokens = data.item_covariates["token"].reindex(frame["item"][frame["label"] != "O"]).tolist()
    if start == 13 or text is not None:
        assert tokens == ["annotation"]
    split = task(1, by(1, span(1, 3, "A")), text=EMOJI)  # between the halves of one letter
    with pytest.raises(DataError, match="marks 1 to 3, which is not so in its text"):
        read(tmp_path, split)


def test_blanks_in_the_text_of_a_span_may_be_spelled_otherwise(tmp_path: Path) -> None:
    marked = span(0, 7, "A", text="one\\ntwo")
    assert read(tmp_path, task(1, by(1, marked), by(2), text="one\ntwo three")).n_labels == 6


def test_the_text_of_spans_is_found_or_asked_for(tmp_path: Path) -> None:
    def two(*results: dict[str, Any], to_name: str = "t") -> dict[str, Any]:
        marked = [{**one, "to_name": to_name} for one in results]
        return task(1, by(1, *marked), by(2), title="Ann", body="So sang Ann")

    def tokens(data: crowdppl.Annotations) -> list[str]:
        return data.item_covariates["token"].tolist()

    assert tokens(read(tmp_path, two(span(0, 3, "PER"), to_name="title"))) == ["Ann"]
    assert tokens(read(tmp_path, two(span(8, 11, "PER", text="Ann")))) == ["So", "sang", "Ann"]
    with pytest.raises(DataError, match="any of the fields 'title', 'body'; say in which as item='title'"):
        read(tmp_path, two(span(0, 2, "PER")))
    assert tokens(read(tmp_path, two(span(0, 2, "PER")), item="body")) == ["So", "sang", "Ann"]
    other = task(2, by(1), image="a.png", caption=TEXT)
    with pytest.raises(DataError, match="no field of the data holds text in all tasks from entry 1"):
        read(tmp_path, task(1, by(1, span(0, 3, "A"))), other)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (by(1, span(0, 3, "PER", "LOC")), r"'PER', 'LOC'\]; give each span one label"),
        (by(1, span(1, 4, "PER", text="Ann")), "marks 1 to 4, and says that 'Ann' stands there"),
        (by(1, span(16, 90, "PER")), "marks 16 to 90"),
        (by(1, span(3, 3, "PER")), "marks 3 to 3"),
        (by(1, span(0.5, 1.5, "PER")), "0.5 to 1.5, which are no places of letters"),
        (by(1, span(0, 2, "PER", channel=0)), "no places of letters"),
        (by(1, span("/p[1]", "/p[1]", "PER")), "no places of letters"),
        (by(None), "'completed_by' of an annotation at entry 2 .* is None"),
        ({"completed_by": 1}, "'result' at the annotation of 1 at entry 2 .* is None, and a list"),
        (by(1, {"from_name": "x", "value": {}}), "'type' at the annotation of 1 at entry 2"),
        (by(1, {"from_name": "x", "type": "labels"}), "'value' at the annotation"),
        (by(1, choice("good"), {**stars(1), "from_name": "mood"}), "answers 'mood' by choices, and .* by rating"),
    ],
)
def test_wrong_annotations_are_refused(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(tmp_path, task("d", by(1), by(2)), task("e", wrong), kind="sequence")


def test_wrong_tasks_are_refused(tmp_path: Path) -> None:
    first = task(1, by(1, choice("a")), by(2, choice("b")))
    for change, said in (
        ({"annotations": None}, "'annotations' at entry 2 .* is None"),
        ({"annotations": [3]}, "'annotations' at entry 2 .* is 3, and an object"),
        ({"data": None}, "'data' at entry 2"),
        ({"id": None}, "the id of the task at entry 2"),
    ):
        with pytest.raises(DataError, match=said):
            read(tmp_path, first, {**task(2), **change})
    with pytest.raises(DataError, match="no task from entry 1 of tasks.json on has an annotation"):
        read(tmp_path, task(1))
    with pytest.raises(DataError, match="no annotation from entry 1 .* holds an answer"):
        read(tmp_path, task(1, by(1)))
    for wrong in (choice(3), stars("x"), stars(True), ranks("a", bad=["b"]), prefers(None)):  # type: ignore[arg-type]
        with pytest.raises(DataError, match="the annotation of 1 at entry 1 .* answers"):
            read(tmp_path, task(1, by(1, wrong), left="x", right="y"))
    with pytest.raises(DataError, match="has 2 answers to 'mood'"):
        read(tmp_path, task(1, by(1, choice("a"), choice("b"))))


def test_spans_in_a_column_of_csv_or_json_min(tmp_path: Path) -> None:
    marks = [{"start": 13, "end": 23, "text": "annotation", "labels": ["A"]}]
    shared = {"id": 7, "text": EMOJI, "lead_time": 2.5}
    rows = [
        {**shared, "entity": marks, "annotator": "ann", "annotation_id": 1, "mood": "good"},
        {**shared, "annotator": "bob", "annotation_id": 2, "mood": "bad"},
    ]
    small, table = tmp_path / "min.json", tmp_path / "spans.csv"
    small.write_text(json.dumps(rows))
    pd.DataFrame([{**row, "entity": json.dumps(row.get("entity", []))} for row in rows]).to_csv(table, index=False)
    wanted = read(tmp_path, task(7, by("ann", span(13, 23, "A", text="annotation")), by("bob"), text=EMOJI)).frame()
    for path, key in ((small, 7), (table, "7")):
        for options in ({"kind": "sequence"}, {"label": "entity"}, {"label": "entity", "kind": "sequence"}):
            found = crowdppl.read_annotations(path, **options).frame()
            assert found["label"].tolist() == wanted["label"].tolist() and found["item"][0] == f"{key} | 0"
    assert crowdppl.read_annotations(small, label="mood").kind == "nominal"


@pytest.mark.parametrize("as_text", [False, True])
def test_several_choices_in_a_column_ask_for_the_kind(tmp_path: Path, as_text: bool) -> None:
    cells: list[Any] = [{"choices": ["a", "b"]}, "a"]
    cells = [json.dumps(x) if as_text and isinstance(x, dict) else x for x in cells]
    rows = pd.DataFrame({"item": [1, 1], "annotator": [*"uv"], "label": cells})
    with pytest.raises(DataError, match='say kind="set"'):
        crowdppl.Annotations.from_frame(rows)
    assert crowdppl.Annotations.from_frame(rows, kind="set").votes().tolist() == [[0, 2], [1, 1]]


def test_options_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = {"model_version": "v2", "result": [choice("bad")]}
    path = tmp_path / "tasks.json"
    tasks = [task(n, by(1, stars(n), choice("good")), by(2, choice("bad")), predictions=[model]) for n in (1, 2)]
    path.write_text(json.dumps(tasks))
    with pytest.raises(SystemExit):
        main(["agreement", str(path)])
    assert "say --question stars" in capsys.readouterr().err
    pair = tmp_path / "pair.csv"
    with pytest.raises(SystemExit, match="0"):
        main(["agreement", str(path), "--question", "mood", "--predictions", "--by", "pair", "--out", str(pair)])
    assert pd.read_csv(pair).shape[0] == 3
