"""Tables are read as what they hold, without being told; what is unclear is refused with what to say."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.cli.commands import main
from crowdppl.data.annotations import Annotations
from crowdppl.data.wide import not_annotators
from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.results.truths import labels

BATTLES = pd.DataFrame(
    {
        "question_id": ["q0", "q0", "q1", "q2"],
        "model_a": ["m0", "m0", "m2", "m1"],
        "model_b": ["m1", "m1", "m0", "m2"],
        "winner": ["model_a", "model_b", "tie", "model_b"],
        "judge": ["ann", "bob", "ann", "ann"],
    }
)
WON = [
    ("m0 | m1", "ann", "left"),
    ("m0 | m1", "bob", "right"),
    ("m1 | m2", "ann", "right"),
    ("m2 | m0", "ann", "tie"),
]
DUELS = pd.DataFrame({"winner": ["a", "c", "b"], "loser": ["b", "a", "c"], "user": ["u", "v", "u"]})


def rows(data: Annotations) -> list[tuple[Any, ...]]:
    return list(data.frame()[["item", "annotator", "label"]].itertuples(index=False, name=None))


@pytest.mark.parametrize("kind", [None, "pair"])
@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({}, {}),
        ({}, {"model_a": "A", "model_b": "[[B]]"}),
        ({"model_a": "model_1", "model_b": "model_2"}, {"model_a": "model_1", "model_b": "Model_2"}),
        ({"model_a": "left", "model_b": "right"}, {"model_a": "left", "model_b": "Right"}),
        ({"model_a": "response_a", "model_b": "response_b", "winner": "preference"}, {}),
        ({"winner": "label"}, {"model_a": "a", "model_b": "b"}),
    ],
)
def test_battles_are_comparisons(
    kind: str | None, names: dict[str, str], said: dict[str, str], tmp_path: Path
) -> None:
    frame = BATTLES.replace({"winner": said}).rename(columns=names)
    if "preference" in names.values():
        frame["preference"] = frame["preference"].replace({"model_a": "a", "model_b": "b"})
    data = Annotations.from_frame(frame, kind=kind)
    assert (data.kind, rows(data)) == ("pair", WON)
    assert data.summary()["columns"]["left"] == names.get("model_a", "model_a")
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert rows(crowdppl.read_annotations(tmp_path / "a.csv", kind=kind)) == WON


def test_ids_of_winners_are_sides_and_keep_their_spelling(tmp_path: Path) -> None:
    frame = pd.DataFrame({"left": ["007", "7"], "right": ["7", "08"], "label": ["007", "08"], "user": ["u", "u"]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for data in (Annotations.from_frame(frame), crowdppl.read_annotations(tmp_path / "a.csv")):
        assert rows(data) == [("007 | 7", "u", "left"), ("7 | 08", "u", "right")]


@pytest.mark.parametrize(
    ("names", "more"),
    [
        ({}, {}),
        ({}, {"kind": "pair"}),
        ({}, {"kind": "pair", "item": ("winner", "loser"), "label": "winner"}),
        ({"winner": "chosen", "loser": "rejected"}, {}),
        ({"winner": "x", "loser": "y"}, {"kind": "pair", "item": ("y", "x"), "label": "x"}),
    ],
)
def test_winners_and_losers_stand_on_either_side(names: dict[str, str], more: dict[str, Any]) -> None:
    data = Annotations.from_frame(DUELS.rename(columns=names), **more)
    assert rows(data) == [("a | b", "u", "left"), ("a | c", "v", "right"), ("b | c", "u", "left")]
    assert data.roles["loser"] == names.get("loser", "loser")
    tied = Annotations.from_frame(DUELS.rename(columns=names).assign(draw=[False, True, False]), **more)
    assert rows(tied)[1] == ("a | c", "v", "tie")
    with pytest.raises(DataError, match="'perhaps' at row 1"):
        Annotations.from_frame(DUELS.rename(columns=names).assign(draw=[0, "perhaps", 0]), **more)


def test_one_annotator_of_all_in_one_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = BATTLES.drop(columns=["judge", "question_id"])
    with pytest.raises(DataError, match="annotator=None for one annotator"):
        Annotations.from_frame(frame)
    data = Annotations.from_frame(frame, annotator=None)
    assert [*data.annotators] == ["all"] and data.n_labels == 4 and not data.warnings
    assert crowdppl.fit("bradley_terry", data, inference="em").ranking().shape[0] == 3
    frame.to_csv(tmp_path / "a.csv", index=False)
    out = ["--out", str(tmp_path / "out"), "--model", "bradley_terry", "--inference", "em"]
    with pytest.raises(SystemExit):
        main(["fit", str(tmp_path / "a.csv"), *out])
    assert "--no-annotator" in capsys.readouterr().err
    with pytest.raises(SystemExit) as done:
        main(["fit", str(tmp_path / "a.csv"), *out, "--no-annotator"])
    assert not done.value.code and "ranking.csv" in capsys.readouterr().out
    votes = pd.DataFrame({"item": list("xxy"), "label": list("abb")})
    assert labels(crowdppl.fit("majority_vote", Annotations.from_frame(votes, annotator=None)))["label"]["y"] == "b"


@pytest.mark.parametrize("item", ["object", "candidate", "item"])
@pytest.mark.parametrize("problem", [[], ["query"]])
def test_ranks_are_rankings(item: str, problem: list[str]) -> None:
    frame = pd.DataFrame({item: list("abc") * 2, "judge": ["u"] * 3 + ["v"] * 3, "rank": [1, 2, 3, 2, 1, 2]})
    data = Annotations.from_frame(frame.assign(**dict.fromkeys(problem, "q")))
    assert data.kind == "ranking" and data.n_items == 3 and data.roles["label"] == "rank"
    whole = pd.DataFrame({"judge": ["u", "v"], "ranking": ["a > b > c", "b > a = c"]})
    assert Annotations.from_frame(whole.assign(**dict.fromkeys(problem, "q"))).kind == "ranking"


def test_what_both_sides_hold_is_asked_where_labels_do_not_tell() -> None:
    frame = BATTLES.assign(winner=["same", "different", "same", "same"])
    assert Annotations.from_frame(frame).kind == "similarity"
    odd = BATTLES.assign(winner=["yes", "no", "yes", "no"])
    with pytest.raises(DataError, match=r"kind='pair' .* kind='similarity' .* kind='nominal'"):
        Annotations.from_frame(odd)
    assert Annotations.from_frame(odd, kind="nominal").kind == "nominal"
    assert Annotations.from_frame(odd, kind="similarity").kind == "similarity"
    with pytest.raises(DataError, match="both are bad.*read as kind='pair'"):
        Annotations.from_frame(BATTLES.replace({"winner": {"tie": "tie (bothbad)"}}))
    named = BATTLES.replace({"winner": {"tie": "tie (bothbad)"}})
    assert Annotations.from_frame(named, abstentions=["tie (bothbad)"]).kind == "pair"
    boxes = pd.DataFrame({"item": ["i", "j"], "worker": ["u", "u"], "left": [3, 5], "right": [9, 11]})
    assert Annotations.from_frame(boxes.assign(label=["cat", "dog"])).kind == "nominal"


def read_as_before(frame: pd.DataFrame) -> None:
    """Compares labels of a table with those of the same one whose columns are called otherwise."""

    def outcome(frame: pd.DataFrame, **options: Any) -> Any:
        try:
            data = Annotations.from_frame(frame, **options)
        except DataError as error:
            return re.sub("'[a-z]+'|with a row.*", "", str(error))
        return data.kind, rows(data)

    assert {"item", "annotator", "label"} <= {*frame}
    wanted = outcome(frame)
    count = range(len(frame))
    assert outcome(frame.rename(columns={"label": "rank"})) == wanted
    assert outcome(frame.assign(rank=1)) == outcome(frame.assign(left=count, rank=count)) == wanted
    assert outcome(frame.assign(left="x", right="y", start=0, end=1, token="t")) == wanted
    for name in ("left", "object", "winner", "sequence"):
        assert outcome(frame.rename(columns={"item": name}), item=name) == wanted
    for name in ("winner", "chosen", "tag", "ranking"):
        assert outcome(frame.rename(columns={"label": name}), label=name) == wanted


def test_classes_are_read_as_before_whatever_their_columns_are_called() -> None:
    for data in (crowdppl.anaesthetists(), crowdppl.datasets.example("ordinal")):
        read_as_before(data.frame())


SETS = (
    "web",
    "dogs",
    "rte",
    "face",
    "music",
    "judgebench",
    "varierr",
    "adult2",
    "bluebirds",
    "movie_reviews",
    "cifar10n",
)


@pytest.mark.parametrize("name", SETS)
def test_real_sets_are_read_as_before(real_data: Path, name: str) -> None:
    read_as_before(pd.read_csv(real_data / name / "answers.csv")[["item", "annotator", "label"]][:5_000])


def test_a_side_that_is_said_to_hold_labels_is_no_side() -> None:
    frame = pd.DataFrame({"item": [1, 1, 2, 2], "worker": list("vwvw"), "A": list("xyyy"), "B": list("yxyx")})
    data = Annotations.from_frame(frame, label="A")
    assert list(data.classes) == ["x", "y"] and data.n_items == 2


def test_ranks_that_are_means_from_0_or_ordinals_are_no_classes() -> None:
    frame = pd.DataFrame({"judge": list("vvvwww"), "object": list("pqrpqr"), "rank": [1.5, 1.5, 3, 1, 2, 3]})
    assert Annotations.from_frame(frame).kind == "ranking"
    for odd in ([0, 1, 2, 1, 0, 2], ["1st", "2nd", "3rd", "2nd", "1st", "3rd"]):
        with pytest.raises(DataError, match="kind='ranking'"):
            Annotations.from_frame(frame.assign(rank=odd))
        assert Annotations.from_frame(frame.assign(rank=odd), kind="nominal").n_classes == 3


def test_one_span_beyond_its_text_is_a_mistake_of_spans_and_makes_no_classes() -> None:
    rows = [("Ann met Bob x", who, start, start + 3, "PER") for who in "abc" for start in (0, 8)]
    columns = ["text", "annotator", "start", "end", "label"]
    frame = pd.DataFrame([*rows, ("Ann met Bob x", "c", 9, 14, "LOC")], columns=columns)
    with pytest.raises(DataError, match="9 to 14 at row 6"):
        Annotations.from_frame(frame)
    assert Annotations.from_frame(frame.iloc[:-1]).kind == "sequence"
    assert Annotations.from_frame(frame, kind="nominal").n_classes == 2


TOKENS = pd.DataFrame(
    {
        "sentence_id": ["s", "s", "s", "t", "t"] * 2,
        "token": ["Ann", "Lee", "sang", "Bob", "ran"] * 2,
        "tag": ["B-P", "I-P", "O", "B-P", "O", "B-P", "O", "O", "O", "O"],
        "annotator": ["a"] * 5 + ["b"] * 5,
    }
)


def test_tokens_without_positions_are_in_the_order_of_rows(tmp_path: Path) -> None:
    told = Annotations.from_frame(TOKENS.assign(position=[0, 1, 2, 0, 1] * 2))
    for frame in (
        TOKENS,
        TOKENS.sort_values("token", key=lambda x: x.index % 5, kind="stable"),  # annotators by turns
        TOKENS.rename(columns={"sentence_id": "doc_id", "token": "text", "tag": "label"}),
        TOKENS.drop(columns="token"),
    ):
        for kind in (None, "sequence"):
            data = Annotations.from_frame(frame, kind=kind)
            assert (data.kind, rows(data)) == ("sequence", rows(told))
    TOKENS.to_csv(tmp_path / "a.csv", index=False)
    assert rows(crowdppl.read_annotations(tmp_path / "a.csv")) == rows(told)


def test_tokens_have_positions_where_these_are_counted() -> None:
    for name in ("token_id", "index", "order"):
        data = Annotations.from_frame(TOKENS.assign(**{name: [1, 2, 3, 4, 5] * 2}))
        assert data.kind == "sequence"
        assert data.items.tolist() == ["s | 1", "s | 2", "s | 3", "t | 4", "t | 5"]


@pytest.mark.parametrize("frame", [TOKENS.drop(index=1), TOKENS.drop(columns="token").drop(index=1)])
def test_tokens_that_annotators_do_not_share_are_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="give a column 'position'"):
        Annotations.from_frame(frame)


def test_one_tag_a_text_is_a_class() -> None:
    frame = pd.DataFrame({"text": ["p", "p", "q"], "annotator": [*"aba"], "label": ["B-x", "O", "O"]})
    assert Annotations.from_frame(frame).kind == "nominal"


JUDGED = pd.DataFrame({"query": ["q", "r"] * 2, "document": ["d"] * 4, "rater": [*"aabb"], "grade": [1, 0, 1, 1]})


def test_items_that_two_columns_name_are_not_taken_together() -> None:
    with pytest.raises(DataError, match="seem to name the item"):
        Annotations.from_frame(JUDGED)
    assert Annotations.from_frame(JUDGED, item="document").n_items == 1
    with pytest.raises(DataError, match="seem to name the sequence"):
        Annotations.from_frame(pd.concat([TOKENS.assign(doc=n, position=[0, 1, 2, 0, 1] * 2) for n in (1, 2)]))
    for beside in (
        {"text": ["x"] * 4},
        {"id": [1, 2, 3, 4]},
        {"document_url": ["x", "y"] * 2},
        {"tag": [1, 2] * 2},
    ):
        frame = JUDGED.drop(columns="query").assign(**beside)
        assert Annotations.from_frame(frame).n_items == 1  # no columns of items: labels repeat


@pytest.mark.parametrize("role", ["item", "annotator", "label"])
def test_usual_names_of_roles_are_recognised(role: str) -> None:
    names = {
        "item": "comment post tweet comment_text passage",
        "annotator": "voter ranker assessor PROLIFIC_PID annotated_by worker_name",
        "label": "labels tags verdict",
    }
    frame = pd.DataFrame({"item": [*"ppqq"], "annotator": [*"abab"], "label": [*"xyxx"]})
    for name in names[role].split():
        assert rows(Annotations.from_frame(frame.rename(columns={role: name}))) == rows(
            Annotations.from_frame(frame)
        )


def test_a_remark_of_an_annotator_names_no_item() -> None:
    frame = pd.DataFrame({"comment": ["ok", "no idea", "hm"], "annotator": [*"aba"], "label": [*"xyx"]})
    with pytest.raises(DataError, match="seems to tell rows apart"):
        Annotations.from_frame(frame)
    wide = pd.DataFrame({"ann": [*"xyx"], "bob": [*"xyy"], "comment": ["ok", "ok", "hm"]})
    with pytest.raises(DataError, match="'comment', which may hold the items"):
        Annotations.from_frame(wide, wide=True)


def test_votes_for_each_side_are_refused_with_the_line_that_makes_rows() -> None:
    votes = pd.DataFrame({"model_a": [*"pq"], "model_b": [*"qr"], "wins_a": [3, 1], "wins_b": [1, 2]})
    with pytest.raises(DataError, match="pandas.concat") as refused:
        Annotations.from_frame(votes)
    line = re.search(r"pandas\.concat\(.*\.drop\(columns=\[.*?\]\)", str(refused.value))
    assert line is not None
    made = eval(line[0], {"pandas": pd, "table": votes})
    assert Annotations.from_frame(made, annotator=None).frame()["label"].value_counts().to_dict() == {
        "left": 4,
        "right": 3,
    }


def test_one_number_in_two_spellings_is_one_class_or_two_that_are_said() -> None:
    frame = pd.DataFrame({"item": [*"ppqq"], "annotator": [*"abab"], "label": ["1", "1.0", "2", "1"]})
    for kind in (None, "nominal", "ordinal"):
        with pytest.raises(DataError, match="spell it one way"):
            Annotations.from_frame(frame, kind=kind)
    assert Annotations.from_frame(frame, classes=["1", "1.0", "2"]).n_classes == 3
    with pytest.raises(DataError, match='say kind="ranking"'):
        Annotations.from_frame(frame.assign(label=["p>q", "q>p"] * 2))


LABELS = pd.DataFrame({"item": [*"ppqq"], "annotator": [*"abab"], "label": [*"xyxx"]})


def test_columns_of_toloka_and_mturk_are_recognised_and_rejected_work_is_named() -> None:
    names = {"item": "ASSIGNMENT:task_id", "annotator": "ASSIGNMENT:worker_id", "label": "OUTPUT:result"}
    toloka = LABELS.rename(columns=names).assign(**{"INPUT:image": [*"uuvv"], "ASSIGNMENT:status": "APPROVED"})
    assert rows(Annotations.from_frame(toloka, label="OUTPUT:result")) == rows(Annotations.from_frame(LABELS))
    names = {"item": "HITId", "annotator": "WorkerId", "label": "Answer.label"}
    mturk = LABELS.rename(columns=names).assign(AssignmentStatus=["Approved"] * 3 + ["Rejected"])
    with pytest.warns(CrowdpplWarning, match="1 of 4 rows have 'AssignmentStatus' 'Rejected'"):
        Annotations.from_frame(mturk, label="Answer.label")


def test_choices_of_prodigy_count_where_the_task_was_done() -> None:
    frame = LABELS.rename(columns={"label": "accept"}).assign(answer=["accept"] * 3 + ["ignore"])
    with pytest.warns(CrowdpplWarning, match="1 of 4 tasks were ignored or rejected"):
        assert rows(Annotations.from_frame(frame)) == rows(Annotations.from_frame(LABELS[:3]))
    binary = LABELS.assign(
        text=[*"ppqq"], label=["x", "x", "y", "y"], answer=["accept", "reject", "accept", "ignore"]
    )
    with pytest.raises(DataError, match=re.escape("abstentions=['ignore']")):
        Annotations.from_frame(binary, label="answer")
    both = binary.assign(annotator="a", item="p", label=[*"xyzw"])
    with pytest.raises(DataError, match="seem to name the item"):
        Annotations.from_frame(pd.concat([both, both.assign(annotator="b")]), label="answer")


def test_tables_of_coefficients_of_agreement() -> None:
    raters = pd.DataFrame({"Units": range(1, 7), "Rater1": [1, 2, 3, 3, 2, 1], "Rater2": [1, 2, 3, 3, 2, 2]})
    assert Annotations.from_frame(raters, wide=True).annotators.tolist() == ["Rater1", "Rater2"]
    with pytest.raises(DataError, match="'Row' that looks like no annotator's, because it counts rows"):
        Annotations.from_frame(raters.rename(columns={"Units": "Row"}), wide=True)
    coders = pd.DataFrame([["1", "2", "3", "*"], ["1", "2", "3", "3"]], ["coderA", "coderB"], [*"pqrs"])
    with pytest.raises(DataError, match="say columns='items'"):
        Annotations.from_frame(coders, wide=True)
    with pytest.raises(DataError, match=re.escape("abstentions=['*']")):
        Annotations.from_frame(coders, columns="items")
    assert Annotations.from_frame(coders, columns="items", abstentions=["*"]).n_classes == 3


def test_numbers_that_lie_elsewhere_are_found_as_by_looking_at_all_other_columns() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        size = int(rng.integers(2, 6))
        columns = [
            (rng.integers(0, 40, 4) + 10 * rng.integers(0, 3) + 0.5 * rng.integers(0, 2)).tolist()
            for _ in range(size)
        ]
        table = pd.DataFrame(dict(zip("pqrstu", columns, strict=False)))
        sets = [set(x) for x in columns]
        odd = []
        for n, own in enumerate(sets):
            others = [x for m, x in enumerate(sets) if m != n]
            every = [x for other in others for x in other]
            among = min(every) <= np.median([*own]) <= max(every) and (
                any(x % 1 for x in every) or not any(x % 1 for x in own)
            )
            if not own & set(every) and len(own) > 1 and size > 2 and not among:
                odd.append(table.columns[n])
        assert [column for column, _ in not_annotators(table)] == odd


def test_texts_of_questions_below_their_names_are_no_answers() -> None:
    """Qualtrics writes a second header, of texts, and a third, of ids, which some remove."""
    answers = pd.DataFrame(
        {
            "ResponseId": ["Response ID", "R_1", "R_2", "R_3", "R_4"],
            "Q1": ["Is it a cat?", "yes", "no", "yes", "no"],
            "Q2": ["Is it a dog?", "no", "no", "yes", "yes"],
        }
    )
    for options in ({}, {"columns": "items"}, {"columns": "items", "annotator": "ResponseId"}):
        found = crowdppl.Annotations.from_frame(answers, **options)
        assert found.classes.tolist() == ["no", "yes"] and found.n_annotators == 4
        assert found.items.tolist() == ["Q1", "Q2"]
    again = crowdppl.Annotations.from_frame(answers[1:], columns="items")  # without
    assert again.frame().equals(found.frame())
