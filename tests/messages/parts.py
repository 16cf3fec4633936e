"""Messages of labels that are converted to parts, and of parts that are opened."""

import hashlib
import json
import resource
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from safetensors.torch import load_file, save_file

import crowdppl
from crowdppl.data import annotations
from crowdppl.data.parts import part_of
from tests.messages.inputs import CSV, FOLDER, Row, covariates, pairs, written

NUMBER = count()


def convert(source: Any = CSV, name: str = "answers.csv", **options: Any) -> Path:
    """A new folder of a text, or of what else ``source`` is."""
    folder = FOLDER / f"parts-{next(NUMBER)}"
    source = written(source, name) if isinstance(source, str) and "\n" in source else source
    crowdppl.convert(source, folder, **{"n_parts": 2, **options})
    return folder


def opened(
    change: Callable[[Path, dict[str, Any]], Any] = lambda folder, about: None, text: str = CSV, **options: Any
) -> Any:
    """The annotations of a folder that was changed."""
    converted = {"gold_column": options.pop("gold_column")} if "gold_column" in options else {}
    folder = convert(text, **converted)
    about = json.loads((folder / "dataset.json").read_text())
    change(folder, about)
    (folder / "dataset.json").write_text(json.dumps(about))
    return crowdppl.Annotations.open(folder, **options)


def opened_linked(ends: list[tuple[int, int]]) -> Any:
    """The annotations of a folder of one part with edges that another program wrote."""
    folder = convert(n_parts=1, edges=[("1", "2")])
    path = folder / "edges-00000.parquet"
    pd.DataFrame(ends, columns=["one", "other"]).to_parquet(path)
    about = json.loads((folder / "dataset.json").read_text())
    about["parts"][0]["edges"]["bytes"] = path.stat().st_size
    (folder / "dataset.json").write_text(json.dumps(about))
    return crowdppl.Annotations.open(folder)


def of_processes(n: int) -> Any:
    """The share of the first of some processes."""
    folder = convert()
    group: dict[str, Any] = {"process": lambda: 0, "n_processes": lambda: n}
    with patch.multiple(annotations, **group):
        return crowdppl.Annotations.open(folder)


def on_a_full_disk() -> Any:
    """A conversion where no file may grow."""
    source, kept = written(CSV), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, kept[1]))
    try:
        return convert(source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)


def without_duckdb() -> Any:
    with patch.dict(sys.modules, {"duckdb": None}):
        return convert()


def first_part(folder: Path) -> Path:
    """A part that has rows."""
    return max(folder.glob("part-*.parquet"), key=lambda path: path.stat().st_size)


def spoil(folder: Path, about: dict[str, Any]) -> None:
    """Other bytes than Parquet's, as many."""
    path = first_part(folder)
    path.write_bytes(b"x" * path.stat().st_size)


def rewritten(change: Callable[[Any], Any], blocks: bool = False) -> Callable[[Path, dict[str, Any]], None]:
    """A change of the rows of a part, whose blocks are left out or kept; rows of two items where it has any."""

    def spoilt(folder: Path, about: dict[str, Any]) -> None:
        part = max(about["parts"], key=lambda part: part["labels"])
        path = folder / part["file"]
        parquet.write_table(change(parquet.read_table(path)), path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        part |= {"bytes": path.stat().st_size, "sha256": digest, **({} if blocks else {"blocks": None})}

    return spoilt


def with_blocks(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path, dict[str, Any]], None]:
    """A change of the tensors of blocks; of none, other bytes."""

    def spoilt(folder: Path, about: dict[str, Any]) -> None:
        part = max(about["parts"], key=lambda part: part["labels"])
        path = folder / part["blocks"]["file"]
        tensors = load_file(path)
        if change(tensors) is None:
            save_file({name: x.clone() for name, x in tensors.items()}, path)
        else:
            path.write_bytes(b"x" * 100)
        part["blocks"]["bytes"] = path.stat().st_size

    return spoilt


def recast(rows: Any, column: str, kind: Any) -> Any:
    """Rows of which a column is of another type."""
    return rows.set_column(rows.column_names.index(column), column, rows[column].cast(kind))


def with_first(rows: Any, column: str, value: Any) -> Any:
    """Rows of which the first has another value."""
    values = pa.array([value, *rows[column].to_pylist()[1:]], rows[column].type)
    return rows.set_column(rows.column_names.index(column), column, values)


def elsewhere(rows: Any) -> str:
    """An item of another one of two parts than the rows have."""
    own = part_of(rows["item"].to_pylist()[:1], 2)
    return next(name for name in "abcdefgh" if part_of([name], 2) != own)


def two(header: str) -> list[Path]:
    """Two files, the second with columns of its own."""
    return [written(CSV), written(CSV.replace("item,annotator", header), "more.csv")]


def two_tables(**changed: Any) -> list[Path]:
    """Two tables of Parquet, the second with a column that is another or has another value."""
    table = pd.DataFrame([("1", "a", "x"), ("1", "b", "y")], columns=["item", "annotator", "label"])
    paths = [FOLDER / f"table-{next(NUMBER)}.parquet" for _ in range(2)]
    for path, more in zip(paths, ({}, changed), strict=True):
        table.assign(**more).to_parquet(path)
    return paths


def times(odd: str) -> str:
    """Labels with times, of which those of one item are written in a way."""
    return "item,annotator,label,when\n" + "".join(
        f"{n},{who},{'xy'[n % 2]},{odd if n == 7 else '2026-01-01'}\n" for n in range(9) for who in "ab"
    )


TAGS = "sequence,position,annotator,label\n" + "".join(
    f"s,{n},{who},O\ns,1{n},{who},B-X\n" for n in (1, 2) for who in "ab"
)
STRAY = TAGS.replace("B-X", "I-X") + "".join(f"{x},1,a,O\n{x},2,a,I-X\n" for x in "tuvwxyz")
PAIRS = pairs().to_csv(index=False)
JSON = '{"item": 1, "annotator": "a", "label": "x"}\n{"item": 1, "annotator": "b", "label": "y"}\n'
MANY = "item,annotator,label\n" + "".join(f"{n},{who},{'xy'[n % 2]}\n" for n in range(9) for who in "ab")
BOOLEAN = "".join(
    f'{{"item": {item}, "annotator": "{who}", "label": "is {who}"}}\n' for item in ("true", "false") for who in "ab"
)
TEXT = BOOLEAN.replace("true", '"true"').replace("false", '"false"')
ENDS = '{"one": true, "other": false}\n'
"""Items that are no texts, the same as texts, and an edge between them."""
LISTS = '{"item": 1, "annotator": ["a", "b"], "label": ["x", "y"]}\n'
KNOWN = "item,annotator,label,g\n" + "".join(f"{n},{who},{'xy'[n % 2]},x\n" for n in range(9) for who in "ab")
CLEAN = "item,annotator,label\n1,a,x\n1,b,y\n2,a,y\n2,b,x\n"
REPEATED = CSV + "2,b,x\n"
ROWS = [
    Row("parts_convert._require_taken", lambda: convert(items=["1"]), lambda: convert()),
    Row("parts_convert._require_taken", lambda: convert(repeats="share"), lambda: convert(repeats="one")),
    Row(
        "parts_convert._require_taken",
        lambda: convert(TAGS, kind="sequence", stray="refuse"),
        lambda: convert(TAGS, kind="sequence", stray="keep"),
    ),
    Row(
        "parts_convert.settled_by",
        lambda: convert(STRAY + "s,50,a,verb\n", kind="sequence"),
        lambda: convert(STRAY, kind="sequence"),
    ),
    Row(
        "annotations._of_parts",
        lambda: opened(item_covariates=pd.DataFrame({"sequence": ["s", "s"]}, index=["1", "2"])),
        lambda: convert(TAGS, kind="sequence"),
    ),
    Row(
        "parts_convert._require_one_part",
        lambda: convert(TAGS.replace("sequence,position", "item").replace("s,", "s | "), kind="sequence"),
        lambda: convert(TAGS, kind="sequence"),
    ),
    Row(
        "parts_convert.of",
        lambda: convert(written(LISTS, "a.jsonl")),
        lambda: crowdppl.read_annotations(written(LISTS, "a.jsonl")),
    ),
    Row(
        "parts_convert.of",
        lambda: convert(TAGS, kind="sequence", edges=[("s", "t")]),
        lambda: convert(TAGS, kind="sequence"),
    ),
    Row(
        "parts_edges._take_files",
        lambda: convert(edges=written("1,2\n")),
        lambda: convert(edges=written("one,other\n1,2\n")),
    ),
    Row(
        "parts_edges.read",
        lambda: convert(written(BOOLEAN, "a.jsonl"), edges=written(ENDS, "b.jsonl")),
        lambda: convert(written(TEXT, "a.jsonl"), edges=written(ENDS, "b.jsonl")),
    ),
    Row("parts_edges._check", lambda: convert(edges=[("1", "9")]), lambda: convert(edges=[("1", "2")])),
    Row("parts_edges._check", lambda: convert(edges=[("1", "1")]), lambda: convert(edges=[("1", "2")])),
    Row("parts_written.finish", lambda: convert(REPEATED), lambda: convert(CLEAN)),
    Row("scan.read", lambda: convert(memory_limit="1MB"), lambda: convert(memory_limit="4GiB")),
    Row("scan.read", on_a_full_disk, lambda: convert()),
    Row("scan.connected", without_duckdb, lambda: convert()),
    Row("scan.connected", lambda: convert(memory_limit="much"), lambda: convert(memory_limit="500MB")),
    Row("scan.read", lambda: convert(CSV + "3,a\n"), lambda: convert(CSV + "3,a,x\n")),
    Row("scan.scanned", lambda: convert([written(CSV), written(JSON, "a.jsonl")]), lambda: convert([written(CSV)])),
    Row("scan.scanned", lambda: convert(encoding="cp1252"), lambda: convert(encoding="utf-8")),
    Row("scan.scanned", lambda: convert(delimiter=";;"), lambda: convert(CSV.replace(",", ";"), delimiter=";")),
    Row("scan._of_text", lambda: convert(two("item,who")), lambda: convert(two("item,annotator"))),
    Row("scan._of_text", lambda: convert("\n" + CSV), lambda: convert()),
    Row("scan._require_types", lambda: convert(two_tables(who="a")), lambda: convert(two_tables(annotator="a"))),
    Row("scan._require_types", lambda: convert(two_tables(item=7)), lambda: convert(two_tables(item="7"))),
    Row(
        "scan.encoded",
        lambda: convert(written(JSON.replace(": 1,", f": {2**63},"), "a.jsonl")),
        lambda: convert(written(JSON.replace(": 1,", f': "{2**63}",'), "a.jsonl")),
    ),
    Row(
        "parts_convert.annotations",
        lambda: convert(times("20260102"), n_parts=30, time="when"),
        lambda: convert(times("2026-01-02"), n_parts=30, time="when"),
    ),
    Row(
        "files.reading",
        lambda: convert(written(CSV.replace("x", "é").encode("latin-1"))),
        lambda: convert(written(CSV.replace("x", "é").encode("latin-1")), encoding="latin-1"),
    ),
    Row(
        "scan._of_json",
        lambda: convert(written(JSON, "a.jsonl"), encoding="latin-1"),
        lambda: convert(written(JSON, "a.jsonl")),
    ),
    Row(
        "scan._of_query",
        lambda: convert(3, format="sql"),
        lambda: convert("SELECT * FROM (VALUES (1, 2, 'x'), (1, 3, 'y')) t(item, annotator, label)", format="sql"),
    ),
    Row("annotations._of_parts", lambda: opened(gold=["x"]), lambda: opened(gold={"1": "x"})),
    Row(
        "annotations.open",
        lambda: crowdppl.Annotations.open(convert(REPEATED)),
        lambda: crowdppl.Annotations.open(convert(CLEAN)),
    ),
    Row(
        "files._opened",
        lambda: crowdppl.read_annotations(convert(), kind="ordinal"),
        lambda: crowdppl.read_annotations(convert(), item_covariates=covariates(["1", "2"])),
    ),
    Row("parts.read", lambda: crowdppl.Annotations.open(FOLDER), lambda: opened()),
    Row("parts.read", lambda: opened(lambda folder, about: about.update(parts=[])), lambda: opened()),
    Row("parts.read", lambda: opened(lambda folder, about: about.pop("kind")), lambda: opened()),
    Row("parts.read", lambda: opened(lambda folder, about: about.update(version=9)), lambda: opened()),
    Row("parts.read_parts", lambda: of_processes(3), lambda: of_processes(2)),
    Row("parts._file", lambda: opened(lambda folder, about: first_part(folder).unlink()), lambda: opened()),
    Row("parts._file", lambda: opened(lambda folder, about: first_part(folder).write_bytes(b"")), lambda: opened()),
    Row("parts._file", lambda: opened(spoil, check=True), lambda: opened(check=True)),
    Row("parts._table", lambda: opened(spoil), lambda: opened()),
    Row(
        "parts._read_part",
        lambda: opened(lambda folder, about: [part.update(labels=7) for part in about["parts"]]),
        lambda: opened(),
    ),
    Row(
        "parts._read_part",
        lambda: opened(rewritten(lambda rows: with_first(rows, "item", elsewhere(rows))), check=True),
        lambda: opened(check=True),
    ),
    Row("parts.read", lambda: opened(lambda folder, about: about.update(linked="yes")), lambda: opened()),
    Row(
        "parts._edges",
        lambda: opened_linked([(0, 0)]),
        lambda: opened_linked([(0, 1)]),
    ),
    Row(
        "parts._items",
        lambda: opened(rewritten(lambda rows: pa.concat_tables([rows, rows[:1]])), text=MANY),
        lambda: opened(text=MANY),
    ),
    Row(
        "parts._items",
        lambda: opened(rewritten(lambda rows: recast(rows, "item", pa.dictionary(pa.int32(), pa.string())))),
        lambda: opened(rewritten(lambda rows: recast(rows, "item", pa.large_string()))),
    ),
    Row(
        "parts._known",
        lambda: opened(rewritten(lambda rows: with_first(rows, "gold", 2)), text=KNOWN, gold_column="g"),
        lambda: opened(text=KNOWN, gold_column="g"),
    ),
    Row(
        "parts._known",
        lambda: opened(rewritten(lambda rows: with_first(rows, "gold", 1)), text=KNOWN, gold_column="g"),
        lambda: opened(text=KNOWN, gold_column="g"),
    ),
    Row("parts._coded", lambda: opened(rewritten(lambda rows: with_first(rows, "label", 9))), lambda: opened()),
    Row(
        "parts._pairs",
        lambda: opened(rewritten(lambda rows: with_first(rows, "left", 9)), text=PAIRS),
        lambda: opened(text=PAIRS),
    ),
    Row(
        "parts.read", lambda: opened(lambda folder, about: about.update(objects=None), text=PAIRS), lambda: opened()
    ),
    Row(
        "parts._read_part",
        lambda: opened(rewritten(lambda rows: with_first(rows, "label", 1), blocks=True), text=MANY, check=True),
        lambda: opened(rewritten(lambda rows: with_first(rows, "label", 1)), text=MANY, check=True),
    ),
    Row("block_files.mapped_blocks", lambda: opened(with_blocks(lambda tensors: True)), lambda: opened()),
    Row(
        "block_files.mapped_blocks",
        lambda: opened(with_blocks(lambda x: x["0.cells"].fill_(99) is None or None), text=MANY),
        lambda: opened(text=MANY),
    ),
    Row(
        "block_files.mapped_blocks",
        lambda: opened(with_blocks(lambda x: x["order"].zero_() is None or None), text=MANY),
        lambda: opened(),
    ),
]
