"""Files of annotations as tables, with the line of each row for messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl.errors import DataError
from crowdppl.files.delimited import read_delimited
from crowdppl.files.table import AsText, Table, codec, frame_of, open_text, undecodable
from crowdppl.tables.encoding import place_in_rows

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
GZIP = b"\x1f\x8b"
"""How a gzipped file begins."""
USUAL = {"csv": ",", "tsv": "\t"}
"""What separates the fields of a format, where the file does not show that something else does."""


def read_table(
    path: str | Path, format: str | None, delimiter: str | None, as_text: AsText, encoding: str | None = None
) -> Table:
    """Reads CSV, TSV (also gzipped), parquet or JSON lines.

    Args:
        path: the file.
        format: "csv", "tsv", "parquet" or "jsonl"; by default what the file name ends in.
        delimiter: what separates the fields of CSV and TSV; by default what the file shows.
        as_text: columns that hold ids or labels.
        encoding: how a file of text is written; by default UTF-8.

    Raises:
        DataError: when the file cannot be read, with the line.
    """
    path, text = Path(path), codec(encoding)
    kind = format or FORMATS.get(Path(path.name.removesuffix(".gz")).suffix.lower(), "csv" if delimiter else "")
    if kind not in FORMATS.values():
        if format:
            raise DataError(f"format={format!r} is none of {', '.join(map(repr, dict.fromkeys(FORMATS.values())))}")
        raise DataError(
            f"{path.name or path} has no known ending; call it .csv, .tsv, .parquet or .jsonl, or say format="
        )
    if not path.is_file():
        if path.exists() and not path.is_dir():
            raise DataError(
                f"{path} is a pipe or a device, which cannot be read twice; save it to a file, and give that"
            )
        raise DataError(f"{path} is {'a folder' if path.exists() else 'not there'}; give the path of a file")
    _check_packing(path, kind)
    if delimiter is not None:
        _check_delimiter(delimiter, kind, path)
    if kind == "parquet":
        if encoding is not None:
            raise DataError(f"encoding={encoding!r} is for files of text, and {path.name} is parquet; leave it out")
        return _parquet(path, as_text)
    if kind == "jsonl":
        return _json_lines(path, text)
    return read_delimited(path, USUAL[kind], delimiter, as_text, text)


def _check_packing(path: Path, kind: str) -> None:
    """Refuses a file that is gzipped and not called so, or the other way round: its name says how it is read."""
    with path.open("rb") as file:
        head = file.read(len(GZIP))
    if kind != "parquet" and head and (head == GZIP) != (path.suffix.lower() == ".gz"):
        is_so = "is gzipped; call it" if head == GZIP else "is not gzipped; call it"
        raise DataError(f"{path.name} {is_so} {path.name + '.gz' if head == GZIP else path.stem}")


def _check_delimiter(delimiter: str, kind: str, path: Path) -> None:
    if kind not in USUAL:
        raise DataError(f"delimiter={delimiter!r} is for CSV and TSV, and {path.name} is {kind}; leave it out")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise DataError(f"delimiter={delimiter!r} is not one character that separates fields, such as ';'")


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
    return Table(frame_of(table, texts), lambda row: f"{place_in_rows(row)} of {path.name}", False)


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _json_lines(path: Path, encoding: str) -> Table:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    number = 0
    try:
        with open_text(path, encoding) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    rows.append(_object(line))
                    lines.append(number)
    except UnicodeError as error:
        raise DataError(undecodable(path, encoding)) from error
    except (ValueError, OSError, EOFError) as error:
        at = number if isinstance(error, ValueError) else number + 1
        raise DataError(
            f"line {at} of {path.name} cannot be read: {error}; write one JSON object a line"
        ) from error
    if not rows:
        raise DataError(f"{path.name} is empty; write one JSON object a line")
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    return Table(pd.DataFrame(columns), lambda row: f"line {lines[row]} of {path.name}", False)


def _object(line: str) -> dict[str, Any]:
    value = json.loads(line, object_pairs_hook=_named_once)
    if not isinstance(value, dict):
        raise json.JSONDecodeError("no JSON object", line, 0)
    return value


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of pairs; of two values of one name, the first would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for n, (name, _) in enumerate(pairs) if name in dict(pairs[:n]))
        raise ValueError(f"{twice!r} is given twice")
    return found
