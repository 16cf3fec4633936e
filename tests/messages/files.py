"""Messages of files read and written."""

import gzip

import pandas as pd

import crowdppl
from tests.messages.inputs import CSV, FOLDER, Row, of_file, read, studio, table, tokens, written

HALF = '{"item": "\\ud800", "annotator": "a", "label": "x"}'
WORDS = pd.DataFrame({"token": ["Ann", "Lee", "sang"]}, index=["1 | 0", "1 | 1", "1 | 2"])
CONLL = "Ann B-P B-P\nsang O O\n"


def tagged(words: pd.DataFrame = WORDS, labels: tuple[str, ...] = ("B-X", "I-X", "O")) -> crowdppl.Annotations:
    return read(tokens(labels), kind="sequence", item_covariates=words)


ROWS = [
    Row("files.require_texts", lambda: of_file(delimiter=3), lambda: of_file(delimiter=",")),
    Row(
        "files.read_table", lambda: of_file(name="answers.xlsx"), lambda: of_file(name="answers.xlsx", format="csv")
    ),
    Row("files.refuse_workbook", lambda: of_file(b"PK\x03\x04", "answers.csv"), of_file),
    Row("files.read_table", lambda: of_file(delimiter=";;"), lambda: of_file(CSV.replace(",", ";"), delimiter=";")),
    Row("files.read_table", lambda: of_file(encoding="nonsense"), lambda: of_file(encoding="utf-8")),
    Row(
        "files.reading",
        lambda: of_file(CSV.replace("x", "é").encode("latin-1")),
        lambda: of_file(CSV.replace("x", "é").encode("latin-1"), encoding="latin-1"),
    ),
    Row(
        "files.reading",
        lambda: of_file(gzip.compress(CSV.encode())[:-9], "answers.csv.gz"),
        lambda: of_file(gzip.compress(CSV.encode()), "answers.csv.gz"),
    ),
    Row("files.header_of", lambda: of_file("item\n1\n"), lambda: of_file()),
    Row("files.header_of", lambda: of_file("\n"), lambda: of_file()),
    Row("files._delimited", lambda: of_file(CSV + "3,a\n"), lambda: of_file(CSV + "3,a,x\n")),
    Row(
        "files._delimited",
        lambda: of_file('item,annotator,label\n1,a,x\n1,b,"y\n2,a,x\n'),
        lambda: of_file('item,annotator,label\n1,a,x\n1,b,"y"\n2,a,x\n'),
    ),
    Row(
        "files.table_of_json",
        lambda: of_file("[1, 2]", "a.jsonl"),
        lambda: of_file(table().to_json(orient="records"), "a.jsonl"),
    ),
    Row(
        "files.table_of_json",
        lambda: of_file("", "a.jsonl"),
        lambda: of_file(table().to_json(orient="records", lines=True), "a.jsonl"),
    ),
    Row(
        "files._parsed",
        lambda: of_file(HALF, "a.jsonl"),
        lambda: of_file(table().to_json(orient="records"), "a.jsonl"),
    ),
    Row(
        "files._parsed",
        lambda: of_file("{", "a.jsonl"),
        lambda: of_file(table().to_json(orient="records"), "a.jsonl"),
    ),
    Row(
        "files._object",
        lambda: of_file('{"item": 1, "item": 2}', "a.jsonl"),
        lambda: of_file(table().to_json(orient="records"), "a.jsonl"),
    ),
    Row("files._parquet", lambda: of_file("no", "a.parquet"), lambda: _parquet()),
    Row("files.read_annotations", lambda: studio(label="q"), lambda: studio(question="q")),
    Row("files.read_annotations", lambda: of_file(question="q"), lambda: of_file(label="label")),
    Row(
        "files._by_id",
        lambda: crowdppl.read_gold(written("item,label\n1,\n", "gold.csv")),
        lambda: crowdppl.read_gold(written("item,label\n1,x\n", "gold.csv")),
    ),
    Row(
        "files._by_id",
        lambda: crowdppl.read_item_covariates(written("item,words\n1,3\n1,5\n", "words.csv")),
        lambda: crowdppl.read_item_covariates(written("item,words\n1,3\n2,5\n", "words.csv")),
    ),
    Row(
        "written.write_conll",
        lambda: crowdppl.write_conll(tagged(WORDS.replace("Lee", "L\tee")), FOLDER / "a.conll"),
        lambda: crowdppl.write_conll(tagged(), FOLDER / "a.conll"),
    ),
    Row(
        "written.write_conll",
        lambda: crowdppl.write_conll(tagged(WORDS.replace("Lee", "L\nee")), FOLDER / "a.conll"),
        lambda: crowdppl.write_conll(tagged(), FOLDER / "a.conll"),
    ),
    Row(
        "written.write_spans",
        lambda: crowdppl.write_spans(tagged(labels=("x", "y", "z")), FOLDER / "a.jsonl"),
        lambda: crowdppl.write_spans(tagged(), FOLDER / "a.jsonl"),
    ),
    Row(
        "written._tagged",
        lambda: crowdppl.write_conll(read(), FOLDER / "a.conll"),
        lambda: crowdppl.write_conll(of_file(CONLL, "t.conll"), FOLDER / "a.conll"),
    ),
    Row(
        "written._tagged",
        lambda: crowdppl.write_conll(tagged(), FOLDER / "a.conll", labels=pd.Series(["O"])),
        lambda: crowdppl.write_conll(tagged(), FOLDER / "a.conll", labels=pd.Series(["O"] * 3, WORDS.index)),
    ),
    Row(
        "written._tagged",
        lambda: crowdppl.write_conll(_twice(), FOLDER / "a.conll"),
        lambda: crowdppl.write_conll(_twice(repeats="last"), FOLDER / "a.conll"),
    ),
]


def _twice(**options: str) -> crowdppl.Annotations:
    return read(pd.concat([tokens(), tokens()]), kind="sequence", item_covariates=WORDS, **options)


def _parquet() -> crowdppl.Annotations:
    path = FOLDER / "right.parquet"
    table().to_parquet(path)
    return crowdppl.read_annotations(path)
