"""Files: every format, every alias, and the line of whatever is wrong."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.files import read_annotations, read_gold
from crowdppl.data.tables import recognise
from crowdppl.errors import DataError
from tests.benchmarks.results import ROOT

ROWS = [
    ("007", "ann", "cat"),
    ("007", "bob", "dog"),
    ("7", "ann", "dog"),
    ("x,1", "bob", "cat"),
    ("x,1", "ann", "dog"),
]


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=["item", "worker", "label"])


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def saved(frame: pd.DataFrame, path: Path) -> Path:
    if "parquet" in path.name:
        frame.to_parquet(path)
    elif "json" in path.name:
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if "tsv" in path.name else ",")
    return path


def rows(data: Annotations) -> list[tuple[Any, ...]]:
    return list(data.frame().itertuples(index=False, name=None))


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet", "jsonl.gz", "CSV"])
def test_every_format_gives_the_same_annotations(frame: pd.DataFrame, tmp_path: Path, ending: str) -> None:
    data = read_annotations(saved(frame, tmp_path / f"answers.{ending}"))
    assert rows(data) == sorted(ROWS)
    assert list(data.items) == ["007", "7", "x,1"]


def test_parquet_and_json_keep_numbers_and_csv_keeps_spelling(tmp_path: Path) -> None:
    frame = pd.DataFrame({"item": [3, 10, 3], "annotator": [1, 1, 2], "label": [0, 1, 1]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_csv(tmp_path / "a.csv", index=False)
    for ending in ("parquet", "jsonl"):
        assert rows(read_annotations(tmp_path / f"a.{ending}")) == [(3, 1, 0), (3, 2, 1), (10, 1, 1)]
    data = read_annotations(tmp_path / "a.csv", gold={3: 1, 10: 0}, classes=[0, 1])
    assert rows(data) == [("3", "1", 0), ("3", "2", 1), ("10", "1", 1)]
    assert data.gold.to_dict() == {"3": 1, "10": 0}


def test_quoted_line_breaks_and_blank_lines_do_not_shift_lines(tmp_path: Path) -> None:
    text = '\ufeffitem,worker,label\n"a\nb",w,0\n\nc,w,1\r\nd,w,2\n'
    data = read_annotations(written(tmp_path / "a.csv", text))
    assert list(data.items) == ["a\nb", "c", "d"]
    with pytest.raises(DataError, match=r"the label '2' at line 6 of a.csv"):
        read_annotations(tmp_path / "a.csv", classes=["0", "1"])


GOOD = '{"item": 1, "worker": 2, "label": 0}\n'


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("a.csv", "item,worker,label\na,w,0\nb,w\n", "line 3 of a.csv has 2 fields .* 3"),
        ("a.csv", "item;worker;label\na;w;0;1\n", "line 2 of a.csv has 4 fields"),
        ("a.csv", 'item,worker,label\na,w,0\nb,"w,1\nc,w,1\n', "line 2.*quote"),
        ("a.csv", b"item,worker,label\na,w,0\nb,\xff\xfe,1\n", "a.csv is not UTF-8"),
        ("a.csv", "", "a.csv"),
        ("a.csv", "item,worker,label\n", "no rows"),
        ("a.csv", "0,0,1\n0,1,1\n", "'0'"),
        ("a.csv", "item worker label\na w 0\n", "delimiter="),
        ("a.csv", "item;who;label\na;w;0\n", "annotator .*'item', 'who', 'label'"),
        ("a.csv", "item,worker,label\na,w,0\n,w,1\n", r"item at line 3 of a.csv .*\(''\)"),
        ("a.csv", "item,worker,label\na,nan,0\nb,w,1\n", r"annotator at line 2 of a.csv .*\('nan'\)"),
        ("a.csv", "item,worker,label\na,w,0\nb, NA ,1\n", r"annotator at line 3 of a.csv .*\(' NA '\)"),
        ("a.csv", "item,worker,label\na,w,0\nb,w,#N/A\n", r"label at line 3 of a.csv .*\('#N/A'\).*abstentions="),
        ("a.jsonl", GOOD + '{"item": 1, "wor', "line 2 of a.jsonl"),
        ("a.jsonl", GOOD + "\n[1]\n", "line 3 of a.jsonl"),
        ("a.jsonl", "\n" + GOOD + '{"item": 1, "worker": 2}\n', "label at line 3"),
        ("a.jsonl", '{"item": 1, "worker": 2, "label": NaN}\n', "label at line 1"),
        ("a.jsonl", '{"item": {"id": 7}, "worker": 2, "label": 1}\n' + GOOD, "'id': 7.* at line 1 of a.jsonl"),
        ("a.jsonl", '{"item": 1, "worker": 2, "label": 0, "label": 1}\n', "line 1 of .*: 'label'"),
        ("a.jsonl", GOOD + '{"item": "\\ud800", "worker": 2, "label": 1}\n', r"line 2 of a.jsonl holds '.ud800'"),
        ("a.jsonl", "", "a.jsonl is empty"),
        ("a.csv.gz", "item,worker,label\na,w,0\n", "a.csv.gz"),
        ("a.xlsx", "", "a.xlsx .*save its table as CSV"),
        ("a.parquet", "PAR1 and nothing more", "a.parquet"),
    ],
)
def test_files_that_cannot_be_read_name_the_line(tmp_path: Path, name: str, text: str, named: str) -> None:
    with pytest.raises(DataError, match=named):
        read_annotations(written(tmp_path / name, text))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "item;worker;label\n{0};ann;1,5\n{0};bob;2\n"),
        ("a.csv", "item\tworker\tlabel\n{0}\tann\t1,5\n{0}\tbob\t2\n"),
        ("a.csv", "item|worker|label\n{0}|ann|1,5\n{0}|bob|2\n"),
        ("a.tsv", 'item,worker,label\n{0},ann,"1,5"\n{0},bob,2\n'),
        ("a.csv", '\n\r\nitem,worker,label\n{0},ann,"1,5"\n{0},bob,2\n'),
    ],
    ids=["semicolon", "tab", "bar", "comma", "blank lines"],
)
def test_the_delimiter_is_what_the_file_shows(name: str, text: str, tmp_path: Path) -> None:
    data = read_annotations(written(tmp_path / name, text.format("007")))
    assert rows(data) == [("007", "ann", "1,5"), ("007", "bob", "2")]
    gold = written(tmp_path / f"gold{name[1:]}", "item;gold\n007;1,5\n")
    assert read_gold(gold).to_dict() == {"007": "1,5"}


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl"])
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-32-le", "utf-8-sig"])
def test_the_encoding_can_be_said(ending: str, encoding: str, tmp_path: Path) -> None:
    lines = [("item", "worker", "label"), ("Köln", "Zoë", "ja"), ("Ulm", "Bob", "nein")]
    text = "\n".join(map(",".join, lines)) + "\n"
    if ending == "jsonl":
        text = "\n".join(json.dumps(dict(zip(lines[0], row, strict=True)), ensure_ascii=False) for row in lines[1:])
    mark = "\ufeff" * encoding.endswith("le")  # no part of the header
    content = (mark + text).encode(encoding)
    path = written(tmp_path / f"a.{ending}", gzip.compress(content) if ending.endswith("gz") else content)
    assert rows(read_annotations(path, encoding=encoding)) == lines[1:]


def test_an_id_that_looks_missing_is_one_where_it_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "item,worker,label\na,NA,1\nb,x,2\nnull,x,1\n")
    with pytest.raises(DataError, match=r"item at line 4 .*\('null'\).*items="):
        read_annotations(path, annotators=["NA"])
    data = read_annotations(path, annotators=["NA"], items=iter(["null"]))
    assert rows(data) == [("a", "NA", "1"), ("b", "x", "2"), ("null", "x", "1")]
    with pytest.raises(DataError, match=r"item at row 2 .*keep_default_na=False"):
        Annotations.from_frame(pd.read_csv(path))
    wide = written(tmp_path / "wide.csv", "item,NA,x\na,1,2\nnull,2,2\n")
    with pytest.raises(DataError, match=r"item at column 'NA' of line 3 .*\('null'\)"):
        read_annotations(wide, wide=True, annotators=["NA", "x"])
    data = read_annotations(wide, wide=True, annotators=["NA", "x"], items=["null"])
    assert rows(data) == [("a", "NA", "1"), ("a", "x", "2"), ("null", "NA", "2"), ("null", "x", "2")]


def test_the_delimiter_can_be_said(tmp_path: Path) -> None:
    text = "item worker label\n1 ann x\n1 bob y\n"
    for name in ("a.csv", "a.txt"):
        data = read_annotations(written(tmp_path / name, text), delimiter=" ")
        assert rows(data) == [("1", "ann", "x"), ("1", "bob", "y")]
    gold = written(tmp_path / "gold.txt", "item:gold\n1:x\n")
    assert read_gold(gold, delimiter=":").to_dict() == {"1": "x"}
    for wrong in (";;", "", "\n"):
        with pytest.raises(DataError, match="delimiter="):
            read_annotations(tmp_path / "a.csv", delimiter=wrong)
    with pytest.raises(DataError, match="delimiter=';'"):
        read_annotations(written(tmp_path / "a.jsonl", "{}"), delimiter=";")
    with pytest.raises(DataError, match="format='xls'"):
        read_annotations(tmp_path / "a.csv", format="xls")


@pytest.mark.parametrize(
    "names", [["taskID", "Worker Id", "Response"], ["HITId", "WorkerId", "category"], ["item_id", "user", "Answer"]]
)
def test_columns_are_recognised_by_name(names: list[str]) -> None:
    given = {"item": None, "annotator": None, "label": None}
    assert recognise(["time", *names, 3], given, "it") == dict(zip(given, names, strict=True))


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        (["item", "task", "worker", "label"], {}, r"item could be any of the columns 'item', 'task'; say item="),
        (["item", "worker", "label", "rating"], {}, r"label could be any of the columns 'label', 'rating'"),
        (["item", "who", "label"], {"annotator": "whom"}, "'whom' for annotator; .*'item', 'who', 'label'"),
        (["item", "worker", "worker"], {}, r"several columns named 'worker'"),
        (["item", "worker"], {"item": "item", "label": "item"}, r"one column is given for several"),
    ],
)
def test_columns_that_are_missing_or_ambiguous(columns: list[str], given: dict[str, str], message: str) -> None:
    roles = {"item": None, "annotator": None, "label": None, **given}
    with pytest.raises(DataError, match=message):
        recognise(columns, roles, "the table")


@pytest.mark.parametrize("content", ["text", "image", "url"])
def test_an_id_beside_a_text_is_the_item_unless_it_counts_rows(content: str) -> None:
    tasks = pd.DataFrame({"id": [4, 4, 7, 7], content: list("xxyy"), "user": list("abab"), "tag": list("cddc")})
    assert Annotations.from_frame(tasks, label="tag").items.tolist() == [4, 7]
    rows = tasks.assign(id=range(4))
    with pytest.raises(DataError, match="'id' differs in each row, .*say item="):
        Annotations.from_frame(rows, label="tag")
    assert Annotations.from_frame(rows, item=content, label="tag").items.tolist() == ["x", "y"]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet", "frame"])
@pytest.mark.parametrize("blank", ["", " ", None, "NA"])
def test_gold_from_a_column_of_the_answers(tmp_path: Path, ending: str, blank: str | None) -> None:
    rows = [(f"u{n}", "xy"[n % 2], "xy"[n % 2] if n < 5 else blank, w) for n in range(12) for w in "abc"]
    frame = pd.DataFrame(rows, columns=["INPUT:image", "OUTPUT:result", "GOLDEN:result", "ASSIGNMENT:worker_id"])
    columns: Any = {"item": "INPUT:image", "annotator": "ASSIGNMENT:worker_id", "label": "OUTPUT:result"}
    wanted = {f"u{n}": "xy"[n % 2] for n in range(5)}
    if blank == "NA" and ending not in (".csv", ".tsv"):
        frame["GOLDEN:result"] = frame["GOLDEN:result"].where(frame["GOLDEN:result"] != "NA")
    if ending == "frame":
        data = Annotations.from_frame(frame, **columns, gold_column="GOLDEN:result")
    else:
        path = saved(frame, tmp_path / f"a{ending}")
        data = read_annotations(path, **columns, gold_column="GOLDEN:result")
        assert read_gold(path, item="INPUT:image", label="GOLDEN:result").to_dict() == wanted
    assert data.gold is not None and data.gold.to_dict() == wanted
    assert data.summary()["columns"]["gold"] == "GOLDEN:result"
    assert data.columns is None


def test_gold_from_a_column_that_contradicts_itself_or_is_given_twice() -> None:
    frame = pd.DataFrame({"item": list("iij"), "user": list("aba"), "label": list("xyx"), "gold": ["x", "y", None]})
    assert Annotations.from_frame(frame).gold is None, "gold informs a fit: it is never guessed"
    with pytest.raises(DataError, match="'i' more than once"):
        Annotations.from_frame(frame, gold_column="gold")
    with pytest.raises(DataError, match="no column 'truth' for gold"):
        Annotations.from_frame(frame, gold_column="truth")
    with pytest.raises(DataError, match="gold= and gold_column="):
        Annotations.from_frame(frame.assign(gold="x"), gold_column="gold", gold={"i": "x"})
    named = Annotations.from_frame(
        frame.assign(gold=["NA", None, "x"]), gold_column="gold", classes=["x", "y", "NA"]
    )
    assert named.gold is not None and named.gold.to_dict() == {"i": "NA", "j": "x"}


def test_gold_is_read_like_labels(tmp_path: Path) -> None:
    path = written(tmp_path / "truth.csv", "item,label\n007,cat\n7,dog\n")
    assert read_gold(path).to_dict() == {"007": "cat", "7": "dog"}
    lines = "\n".join(json.dumps({"id_of_it": k, "truth": k % 2}) for k in range(3))
    path = written(tmp_path / "truth.jsonl", lines)
    assert read_gold(path, item="id_of_it").to_dict() == {0: 0, 1: 1, 2: 0}
    for text, named in (
        ("item,label\n", "t.csv has no rows"),
        ("item,gold\n1,\n", "t.csv has no rows of known class"),
        ("item,gold\n1,x\n,y\n", "item at line 3 of t.csv"),
        ("item,answer,label\n1,x,y\n", "'answer', 'label'; say label="),
    ):
        with pytest.raises(DataError, match=named):
            read_gold(written(tmp_path / "t.csv", text))
    with pytest.raises(DataError, match="not there"):
        read_gold(tmp_path / "nothing.csv")


@pytest.mark.slow
def test_ten_million_labels_load_within_four_gibibytes(tmp_path: Path) -> None:
    n, stream = 10_000_000, np.random.default_rng(0)
    item, annotator = np.repeat(np.arange(n // 5), 5), stream.integers(0, 20_000, n)
    items = pa.array([f"item-{i:07d}" for i in range(n // 5)]).take(pa.array(item))  # text takes more than numbers
    people = pa.array([f"annotator-{a}" for a in range(20_000)]).take(pa.array(annotator))
    rows = pa.table({"item": items, "annotator": people, "label": stream.integers(0, 5, n)})
    pq.write_table(rows, tmp_path / "answers.parquet")
    code = (
        "import sys; from crowdppl import read_annotations; from tests.benchmarks.peak import status\n"
        "data = read_annotations(sys.argv[1]); print(data.n_items, data.n_labels, status('VmHWM'))"
    )
    ran = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "answers.parquet")]
    found = subprocess.run(ran, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert found[:2] == ["2000000", "10000000"] and float(found[2]) < 4096


@pytest.mark.parametrize("label", ["annotation_id", "label_id", "AnswerID"])
def test_ids_are_never_labels(label: str) -> None:
    """They would be as many classes as there are labels."""
    with pytest.raises(DataError, match="no column that looks like label"):
        recognise(["item", "annotator", label], dict.fromkeys(["item", "annotator", "label"]), "it")
    assert recognise(["item", label, "vote"], dict.fromkeys(["item", "label"]), "it")["label"] == "vote"


def test_further_columns_may_be_dates(tmp_path: Path) -> None:
    text = "item,annotator,label,day\na,x,0,2026-01-02\na,y,1,2026-01-03\nb,x,1,2026-01-04\n"
    assert read_annotations(written(tmp_path / "a.csv", text)).n_labels == 3


def test_the_columns_that_were_read_are_said(tmp_path: Path) -> None:
    frame = pd.DataFrame({"image": list("iijj"), "user": list("abab"), "answer": list("xyxx")})
    data = Annotations.from_frame(frame.assign(seconds=[3, 1, 4, 1]), label_covariates=["seconds"])
    wanted = {"item": "image", "annotator": "user", "label": "answer", "label_covariates": "seconds"}
    assert data.summary()["columns"] == wanted
    posterior = crowdppl.fit("majority_vote", data, inference="em", seed=0)
    said = "item from 'image', annotator from 'user', label from 'answer', label_covariates from 'seconds'"
    assert f"columns: {said}" in posterior.summary()
    posterior.save(tmp_path)
    assert crowdppl.load(tmp_path).data.roles == data.roles
    wide = Annotations.from_frame(frame.pivot(index="image", columns="user", values="answer"), wide=True)
    assert wide.summary()["columns"] == {"item": "image", "annotator": "a, b"}
    assert Annotations.from_dicts({"a": {"i": 1, "j": 2}, "b": {"i": 1}}).summary()["columns"] == {}


def test_truncated_archives_and_parquet(frame: pd.DataFrame, tmp_path: Path) -> None:
    big = pd.concat([frame.assign(item=frame.item + str(k)) for k in range(200)])
    big.to_parquet(tmp_path / "a.parquet")
    packed = gzip.compress(big.to_csv(index=False).encode())
    for name, data in (("b.parquet", (tmp_path / "a.parquet").read_bytes()), ("b.csv.gz", packed)):
        with pytest.raises(DataError, match="truncated"):
            read_annotations(written(tmp_path / name, data[: len(data) // 2]))
