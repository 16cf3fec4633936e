"""Sources of labels that DuckDB would read as something else: types, names of files, ends of lines, notation."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import DataError
from tests.data.test_convert import both, same

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")
TEXT = "item,annotator,label\n1,a,x\n1,b,y\n2,a,y\n2,b,x\n"


def crowd(label: list[Any], n_items: int = 12) -> pd.DataFrame:
    """Labels of items by three annotators, in turn; of numbers, the one kept by items 0 and 1 is the last."""
    rows = [(f"item {n}", who) for n in range(n_items) for who in "abc"]
    table = pd.DataFrame(rows, columns=["item", "annotator"])
    return table.assign(label=[label[n % len(label)] for n in range(len(rows))])


def opened(source: Any, folder: Path, **said: Any) -> crowdppl.Annotations:
    crowdppl.convert(source, folder, n_parts=3, **said)
    return crowdppl.Annotations.open(folder, check=True)


def test_numbers_of_several_files_are_not_rounded_to_the_type_of_the_first(tmp_path: Path) -> None:
    crowd([1, 2]).to_parquet(tmp_path / "0.parquet")
    crowd([1.6, 2.4]).assign(annotator="d").to_parquet(tmp_path / "1.parquet")
    data = opened(str(tmp_path / "*.parquet"), tmp_path / "parts", kind="real")
    assert {*data.frame()["label"]} == {1.0, 2.0, 1.6, 2.4}


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [("item", [7, 8], ["007", "008"]), ("label", [True, False], [1, 2]), ("when", ["3/4/2026"], [5])],
)
def test_files_of_other_types_or_columns_are_refused(column: str, one: Any, other: Any, tmp_path: Path) -> None:
    for n, values in enumerate((one, other)):
        table = crowd(["x", "y"])
        table[column] = [values[k % len(values)] for k in range(len(table))]
        table.to_parquet(tmp_path / f"{n}.parquet")
    with pytest.raises(DataError, match=f"{column!r} is .* in 1.parquet"):
        crowdppl.convert(str(tmp_path / "*.parquet"), tmp_path / "parts")
    table.assign(more=1).to_parquet(tmp_path / "0.parquet")
    with pytest.raises(DataError, match="same columns"):
        crowdppl.convert(str(tmp_path / "*.parquet"), tmp_path / "parts")


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_file_whose_name_is_a_pattern_is_read_alone(ending: str, tmp_path: Path) -> None:
    for name, who in (("a1", "d"), ("a[1]", "e")):
        table, path = crowd(["x", "y"]).replace({"annotator": {"a": who}}), tmp_path / f"{name}.{ending}"
        if ending == "csv":
            table.to_csv(path, index=False)
        elif ending == "jsonl":
            table.to_json(path, orient="records", lines=True)
        else:
            table.to_parquet(path)
    data = opened(tmp_path / f"a[1].{ending}", tmp_path / "parts")
    assert [*data.annotators] == ["b", "c", "e"]


def test_text_that_duckdb_reads_otherwise_is_refused_or_read(tmp_path: Path) -> None:
    for text, match in (
        ("\n" + TEXT, "a.csv begins with an empty line"),
        (TEXT.replace("\n", "\r\n", 2), "lines that end in"),
        (TEXT.replace("1,a", '"1" or 2,a'), "line: 2 .*unterminated"),
        (b"PK\x03\x04", "workbook"),
    ):
        (tmp_path / "a.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(DataError, match=f"(?is){match}"):
            crowdppl.convert(tmp_path / "a.csv", tmp_path / "parts")
    (tmp_path / "a.csv").write_bytes(TEXT.encode("utf-8-sig"))
    same(*both(tmp_path / "a.csv", tmp_path / "parts", encoding="utf-8-sig"))
    (tmp_path / "b.csv").write_text(TEXT.replace(",", ";"))
    with pytest.raises(DataError, match="b.csv begins with 'item;annotator;label'"):
        crowdppl.convert([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "again")


def test_a_query_may_end_in_a_semicolon_or_a_comment(tmp_path: Path) -> None:
    crowd(["x", "y"]).to_parquet(tmp_path / "a.parquet")
    for n, end in enumerate((";", " -- all", ";\n")):
        data = opened(f"FROM '{tmp_path / 'a.parquet'}'{end}", tmp_path / str(n), format="sql")
        assert data.n_labels == 36


@pytest.mark.parametrize("labels", [[1.5, 2, 3], [0.25, -7.5], [1.0, 2.0]])
def test_numbers_of_json_are_numbers(labels: list[float], tmp_path: Path) -> None:
    text = "\n".join(json.dumps(row) for row in crowd(labels).to_dict("records"))
    (tmp_path / "a.jsonl").write_text(text.replace(".0,", ","))
    same(*both(tmp_path / "a.jsonl", tmp_path / "parts", kind="real"))


def test_an_array_of_json_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    text = json.dumps(crowd(["x", "y"]).to_dict("records"))
    (tmp_path / "a.json").write_bytes(text.encode("utf-8-sig"))
    same(*both(tmp_path / "a.json", tmp_path / "parts"))


def test_ids_of_json_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    rows = crowd(["x", "y"]).assign(item=[2**63 + n // 3 for n in range(36)]).to_dict("records")
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    with pytest.raises(DataError, match=r"922337203685477\d+ at line \d+ of a.jsonl"):
        crowdppl.convert(tmp_path / "a.jsonl", tmp_path / "parts")


@pytest.mark.parametrize(
    "numbers",
    [
        ["1.234", "1.234", "2.500"] * 11 + ["1,5"] * 3,
        ["1,234", "2,345", "3,456"] * 11 + ["1,5"] * 3,
        ["7/10", "3/10"],
    ],
)
def test_how_numbers_are_written_all_labels_tell(numbers: list[str], tmp_path: Path) -> None:
    crowd(numbers).to_csv(tmp_path / "a.csv", index=False)
    same(*both(tmp_path / "a.csv", tmp_path / "parts", 6, kind="real"))


def test_that_angles_may_be_radians_all_labels_tell(tmp_path: Path) -> None:
    for name, labels, told in (("few", ["1.5"] * 33 + ["300"] * 3, 0), ("all", ["1.5", "-3"], 1)):
        crowd(labels).to_csv(tmp_path / f"{name}.csv", index=False)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            crowdppl.convert(tmp_path / f"{name}.csv", tmp_path / name, n_parts=3, kind="angle")
        assert sum("radians" in str(x.message) for x in found) == told


def test_what_are_no_classes_all_labels_tell(tmp_path: Path) -> None:
    many = crowd([f"class {n // 2}" for n in range(600)], 200)
    many["label"] = [f"class {n // 3}" for n in range(600)]
    many.to_csv(tmp_path / "a.csv", index=False)  # in one part, hardly two are equal
    same(*both(tmp_path / "a.csv", tmp_path / "parts", 8))
    numbers = crowd([str(n) for n in range(36)])
    numbers.to_csv(tmp_path / "b.csv", index=False)
    for read in (crowdppl.read_annotations, lambda path: crowdppl.convert(path, tmp_path / "no", n_parts=3)):
        with pytest.raises(DataError, match="measurements"):
            read(tmp_path / "b.csv")


def test_times_are_dates_in_all_parts_or_in_none(tmp_path: Path) -> None:
    table = crowd(["x", "y"]).assign(when=[f"2026-01-{n // 3 + 1:02}" for n in range(36)])
    table.loc[table["item"] == "item 7", "when"] = "20260107"
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="times"):
        crowdppl.convert(tmp_path / "a.csv", tmp_path / "parts", n_parts=30, time="when")


def test_truths_that_are_lists_are_read_in_parquet(tmp_path: Path) -> None:
    table = crowd([["red"], ["red", "dark"], []])
    table["known"] = [["red"] if n < 9 else None for n in range(36)]
    table.to_parquet(tmp_path / "a.parquet")
    same(*both(tmp_path / "a.parquet", tmp_path / "parts", gold_column="known", kind="set"))


def test_a_full_disk_is_told_of_the_folder_and_not_of_the_source(tmp_path: Path) -> None:
    crowd([f"class {n}" for n in range(90)], 3_000).to_csv(tmp_path / "a.csv", index=False)
    command = f"ulimit -f 4; exec {sys.executable} -m crowdppl convert a.csv parts --kind nominal"
    said = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 2 and "cannot be written to" in said.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
