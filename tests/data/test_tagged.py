"""Tagged text: CoNLL columns and character spans are read, written, and refused with their place."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import CrowdpplWarning, DataError

CONLL = """# global.columns = FORM\tann\tbob
# sent_id = first
New\tB-LOC\tB-LOC
York\tI-LOC\t_
.\tO\tO

# sent_id = second
Eve\tB-PER\tO
"""
TEXT = "Ann Lee sang in Rio."
SPANS: list[dict[str, Any]] = [
    {"id": "d", "text": TEXT, "annotator": "ann", "start": 0, "end": 7, "type": "PER"},
    {"id": "d", "text": TEXT, "annotator": "ann", "start": 16, "end": 19, "type": "LOC"},
    {"id": "d", "text": TEXT, "annotator": "bob", "start": 0, "end": 2, "type": "PER"},
    {"id": "d", "text": TEXT, "annotator": "eve", "start": None, "end": None, "type": None},
]


def read(path: Path, text: str, **options: Any) -> crowdppl.Annotations:
    path.write_text(text)
    return crowdppl.read_annotations(path, kind="sequence", **options)


def lines(rows: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, rows))


def test_columns_come_back_as_they_were(tmp_path: Path) -> None:
    data = read(tmp_path / "a.conll", CONLL)
    assert data.frame().value_counts().sum() == 7 and [*data.annotators] == ["ann", "bob"]
    assert data.item_covariates.loc["first | 1", ["position", "token"]].tolist() == [1, "York"]
    crowdppl.write_conll(data, tmp_path / "b.conll")
    assert (tmp_path / "b.conll").read_text() == CONLL
    bare = "\n".join(line.replace("\t", " ") for line in CONLL.splitlines() if not line.startswith("#"))
    other = read(tmp_path / "c.conll", bare, annotators=["ann", "bob"]).frame()
    assert other["label"].tolist() == data.frame()["label"].tolist() and other["item"][0] == "1 | 0"


def test_spans_come_back_as_they_were(tmp_path: Path) -> None:
    data = read(tmp_path / "a.jsonl", lines(SPANS))
    assert data.item_covariates["token"].tolist() == ["An", "n", "Lee", "sang", "in", "Rio", "."]  # cut by bob
    frame = data.frame()
    tags = frame["label"].groupby(frame["annotator"]).agg(" ".join)
    assert tags["ann"] == "B-PER I-PER I-PER O O B-LOC O" and tags["eve"] == "O O O O O O O"
    crowdppl.write_spans(data, tmp_path / "b.jsonl")
    assert [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()] == SPANS
    crowdppl.write_conll(data, tmp_path / "b.conll")
    again = crowdppl.read_annotations(tmp_path / "b.conll", kind="sequence")
    pd.testing.assert_frame_equal(again.frame(), frame)


def test_most_probable_labels_are_written(tmp_path: Path) -> None:
    data = read(tmp_path / "a.jsonl", lines([SPANS[0], {**SPANS[0], "annotator": "bob"}]))
    labels = crowdppl.fit("majority_vote", data, inference="em").labels()["label"]
    crowdppl.write_spans(data, tmp_path / "b.jsonl", labels)
    assert json.loads((tmp_path / "b.jsonl").read_text()) == {**SPANS[0], "annotator": "label"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"start": 5, "end": 9}, r"\(0, 7\) at line 1 .* \(5, 9\) at line 3"),
        ({"start": 8, "end": 40}, "to 40 at line 3"),
        ({"start": 9, "end": 9}, "line 3"),
        ({"start": "x", "end": 9}, "'x'"),
        ({"start": 8, "end": float("inf")}, "to inf at line 3"),
        ({"annotator": ["ann"]}, "annotator .* line 3"),
        ({"id": {"d": 1}}, "line 3"),
        ({"start": None, "end": 9}, "line 3"),
        ({"start": 8, "end": 12, "type": None}, "type"),
        ({"text": "other", "start": 0, "end": 2}, "line 3"),
    ],
)
def test_spans_that_are_none_are_refused(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(tmp_path / "a.jsonl", lines([*SPANS[:2], {**SPANS[0], **wrong}]))


def test_columns_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 3 of a.conll has 2 columns, and 3"):
        read(tmp_path / "a.conll", CONLL.replace("New\tB-LOC\tB-LOC", "New\tB-LOC"))
    for text, options in (("\n", {}), ("Eve\n", {}), (CONLL, {"annotators": ["ann", "bob", "eve"]})):
        with pytest.raises(DataError):
            read(tmp_path / "a.conll", text, **options)
    (tmp_path / "a.conll").write_text(CONLL)
    assert crowdppl.read_annotations(tmp_path / "a.conll").kind == "sequence"
    with pytest.raises(DataError, match="say kind='sequence'"):
        crowdppl.read_annotations(tmp_path / "a.conll", kind="nominal")
    with pytest.raises(DataError, match="token"):
        crowdppl.write_conll(crowdppl.anaesthetists(), tmp_path / "b.conll")


def tags(*given: str, **options: Any) -> list[str]:
    """What is read of the tags of one sequence by one annotator, beside another who tags nothing."""
    rows = [("s", n, "x", tag) for n, tag in enumerate(given)] + [("s", n, "y", "O") for n in range(len(given))]
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    frame = crowdppl.Annotations.from_frame(table, **options).frame()
    return frame[frame["annotator"] == "x"]["label"].tolist()


@pytest.mark.parametrize(
    "written",
    [
        "B-P I-P O B-Q B-Q O",  # BIO
        "I-P I-P O I-Q B-Q O",  # IOB1
        "B-P E-P O S-Q S-Q O",  # BIOES
        "B-P L-P O U-Q U-Q O",  # BILOU
    ],
)
def test_schemes_of_tags_become_bio(written: str) -> None:
    assert tags(*written.split()) == ["B-P", "I-P", "O", "B-Q", "B-Q", "O"]


def test_a_tag_that_continues_no_span_is_repaired_refused_or_kept() -> None:
    stray = ["B-P", "I-P", "O", "I-Q", "B-Q"]
    with pytest.warns(CrowdpplWarning, match="continues no span .* 'I-Q' at row 3"):
        assert tags(*stray) == ["B-P", "I-P", "O", "B-Q", "B-Q"]
    assert tags(*stray, stray="keep", kind="sequence") == stray
    with pytest.raises(DataError, match="'I-Q' at row 3 .* say stray='repair'"):
        tags(*stray, stray="refuse")
    with pytest.raises(DataError, match="stray='mend' is none of"):
        tags(*stray, stray="mend")


def test_columns_of_conll_2003_beside_tags_are_no_annotators(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- -X- O O\n\nEU NNP I-NP B-ORG B-ORG\nrejects VBZ I-VP O B-ORG\n\nPeter NNP I-NP B-PER O\n"
    (tmp_path / "a.conll").write_text(text)
    with pytest.warns(CrowdpplWarning, match="columns '1', '2' are read as no annotators'"):
        data = crowdppl.read_annotations(tmp_path / "a.conll")
    assert [*data.annotators] == ["3", "4"]
    assert data.n_items == 3 and "-DOCSTART-" not in [*data.item_covariates["token"]]


@pytest.mark.parametrize("form", ["frame", "csv", "lists", "doccano"])
def test_spans_of_any_table_are_those_of_json(tmp_path: Path, form: str) -> None:
    rows = [("Ann sang in Rome", who, 0, 3, "PER") for who in ("x", "y")] + [
        ("Ann sang in Rome", "x", 12, 16, "LOC")
    ]
    table = pd.DataFrame(rows, columns=["text", "annotator", "start", "end", "type"])
    wanted = read(tmp_path / "a.jsonl", lines(table.to_dict("records"))).frame()[["annotator", "label"]]
    if form == "frame":
        found = crowdppl.Annotations.from_frame(table)
    elif form == "csv":
        table.rename(columns={"type": "label", "annotator": "worker"}).to_csv(tmp_path / "a.csv", index=False)
        found = crowdppl.read_annotations(tmp_path / "a.csv")
    else:
        spans = [[[0, 3, "PER"], [12, 16, "LOC"]], [[0, 3, "PER"]]]
        if form == "lists":
            spans = [[dict(zip(("start", "end", "label"), x, strict=True)) for x in own] for own in spans]
        tasks = [{"text": rows[0][0], "annotator": who, "spans": own} for who, own in zip("xy", spans, strict=True)]
        (tmp_path / "b.jsonl").write_text(lines(tasks))
        found = crowdppl.read_annotations(tmp_path / "b.jsonl")
    assert found.kind == "sequence"
    pd.testing.assert_frame_equal(found.frame()[["annotator", "label"]], wanted)
