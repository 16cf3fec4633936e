"""Files of annotations as tables, with the line of each row for messages."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from crowdppl.encoding import Place, place_in_rows
from crowdppl.errors import DataError

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}

AsText = Callable[[Sequence[str]], Sequence[Any]]
"""Given the names of all columns, those to be read as text, exactly as spelled."""


@dataclass(frozen=True)
class Table:
    """A file, read.

    Attributes:
        frame: its rows.
        place: where a row stands, such as "line 5 of answers.csv".
        text: whether ids and labels are text because the format knows nothing else.
    """

    frame: pd.DataFrame
    place: Place
    text: bool


def read_table(path: str | Path, format: str | None, as_text: AsText) -> Table:
    """Reads CSV, TSV (also gzipped), parquet or JSON lines.

    Args:
        path: the file.
        format: "csv", "tsv", "parquet" or "jsonl"; by default what the file name ends in.
        as_text: columns that hold ids or labels.

    Raises:
        DataError: when the file cannot be read, with the line.
    """
    path = Path(path)
    kind = format or FORMATS.get(Path(path.name.removesuffix(".gz")).suffix.lower(), "")
    if kind not in FORMATS.values():
        raise DataError(f"{path.name or path} has no known ending; say format='csv', 'tsv', 'parquet' or 'jsonl'")
    if not path.is_file():
        raise DataError(f"{path} is {'a folder' if path.exists() else 'not there'}; give the path of a file")
    if kind == "parquet":
        return _parquet(path, as_text)
    if kind == "jsonl":
        return _json_lines(path)
    return _delimited(path, "," if kind == "csv" else "\t", as_text)


def _delimited(path: Path, delimiter: str, as_text: AsText) -> Table:
    import pyarrow
    from pyarrow import csv as arrow_csv

    try:
        with _open(path) as file:
            header = next(csv.reader(file, delimiter=delimiter, strict=True), None)
        if header is None:
            raise EOFError
        text = as_text(header)
        kinds = dict.fromkeys(text, pyarrow.string())
        table = arrow_csv.read_csv(
            path,
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=kinds),
        )
    except (pyarrow.ArrowInvalid, csv.Error, UnicodeDecodeError, OSError, EOFError) as error:
        raise DataError(_what_is_wrong(path, delimiter) or f"{path.name} cannot be read: {error}") from error
    return Table(_frame(table, text), lambda row: f"line {_line_of(path, delimiter, row)} of {path.name}", True)


def _parquet(path: Path, as_text: AsText) -> Table:
    import pyarrow
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
        texts = [n for n in as_text(schema.names) if _is_text(pyarrow.types, schema.field(n).type)]
        table = parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        size = path.stat().st_size
        raise DataError(
            f"{path.name} ({size} bytes) is no parquet file, or a truncated one ({error}); write or copy it again"
        ) from error
    return Table(_frame(table, texts), lambda row: f"{place_in_rows(row)} of {path.name}", False)


def _frame(table: Any, texts: Sequence[str]) -> pd.DataFrame:
    """An arrow table for pandas, text as categories: 10 bytes a value instead of 60.

    Text is encoded over all chunks at once, because joining the dictionaries of chunks takes 5 times as long.
    """
    for name in texts:
        position = table.schema.get_field_index(name)
        encoded = table.column(position).dictionary_encode().combine_chunks()
        table = table.set_column(position, name, encoded)
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    return frame


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _json_lines(path: Path) -> Table:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    rows.append(_object(line))
                    lines.append(number)
    except UnicodeDecodeError as error:
        raise DataError(_not_text(path)) from error
    except (ValueError, OSError, EOFError) as error:
        at = number if isinstance(error, json.JSONDecodeError) else number + 1
        raise DataError(
            f"line {at} of {path.name} cannot be read: {error}; write one JSON object a line"
        ) from error
    if not rows:
        raise DataError(f"{path.name} is empty; write one JSON object a line")
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    return Table(pd.DataFrame(columns), lambda row: f"line {lines[row]} of {path.name}", False)


def _object(line: str) -> dict[str, Any]:
    value = json.loads(line)
    if not isinstance(value, dict):
        raise json.JSONDecodeError("no JSON object", line, 0)
    return value


def _open(path: Path) -> TextIO:
    import pyarrow

    return io.TextIOWrapper(pyarrow.input_stream(path, compression="detect"), encoding="utf-8-sig", newline="")


def _records(file: TextIO, delimiter: str) -> Any:
    """Each record that is not empty, with the line on which it begins."""
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    line = 1
    for record in reader:
        if record:
            yield line, record
        line = reader.line_num + 1


def _line_of(path: Path, delimiter: str, row: int) -> int:
    with _open(path) as file:
        return int(next(islice(_records(file, delimiter), row + 1, None))[0])


def _what_is_wrong(path: Path, delimiter: str) -> str:
    """Reads a file slowly, to name the line at which it cannot be read."""
    line, width = 0, None
    try:
        with _open(path) as file:
            for line, record in _records(file, delimiter):
                width = width or len(record)
                if len(record) != width:
                    return (
                        f"line {line} of {path.name} has {len(record)} fields and the header has {width}; "
                        "the line is truncated, or a field holds a separator and needs quotes"
                    )
    except (csv.Error, OSError, EOFError) as error:
        return (
            f"{path.name} cannot be read beyond line {line}: {error}; it is truncated, or a quote is never closed"
        )
    except UnicodeDecodeError:
        return _not_text(path)
    return f"{path.name} is empty; its first line must name the columns" if width is None else ""


def _not_text(path: Path) -> str:
    import pyarrow

    with pyarrow.input_stream(path, compression="detect") as stream:
        lines = enumerate(io.BufferedReader(stream), 1)
        number = next((number for number, line in lines if line.decode("utf-8", "ignore").encode() != line), 1)
    return f"line {number} of {path.name} is not UTF-8; save the file as UTF-8"
