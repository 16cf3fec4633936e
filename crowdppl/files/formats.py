"""Files of annotations as tables, with the line of each row for messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crowdppl.errors import DataError
from crowdppl.files.delimited import read_delimited
from crowdppl.files.records import read_json
from crowdppl.files.table import AsText, Table, codec, frame_of
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
READ = (
    "CSV (.csv), TSV (.tsv, .tab), JSON (.jsonl, .ndjson, .json), each also with .gz, and parquet (.parquet, .pq)"
)
"""What is read, for messages."""
SPREADSHEETS = dict.fromkeys(
    (".xlsx", ".xls", ".xlsm", ".ods"),
    "a spreadsheet: save it as CSV, or read it with pandas and give the table to crowdppl.Annotations.from_frame",
)
PACKED = dict.fromkeys(
    (".zip", ".7z", ".rar", ".tar", ".tgz", ".bz2", ".xz", ".zst"), "packed: unpack it, or gzip it"
)
UNREAD = {**SPREADSHEETS, **PACKED}
"""Why files that end so are not read, and what to do."""
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
"""How a gzipped file begins, and one that is a zip, as spreadsheets are, too."""
USUAL = {"csv": ",", "tsv": "\t"}
"""What separates the fields of a format, where the file does not show that something else does."""


def read_table(
    path: str | Path, format: str | None, delimiter: str | None, as_text: AsText, encoding: str | None = None
) -> Table:
    """Reads CSV, TSV, JSON (also gzipped) or parquet.

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
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    kind = format or FORMATS.get(ending, "csv" if delimiter else "")
    if kind not in FORMATS.values():
        if format:
            raise DataError(f"format={format!r} is none of {', '.join(map(repr, dict.fromkeys(FORMATS.values())))}")
        why = UNREAD.get(ending, "of no known ending: call it what it is, or say format=")
        raise DataError(f"{path.name or path} is {why}. Read are {READ}")
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
        return read_json(path, text)
    return read_delimited(path, USUAL[kind], delimiter, as_text, text)


def _check_packing(path: Path, kind: str) -> None:
    """Refuses a file that is gzipped and not called so, or the other way round: its name says how it is read."""
    with path.open("rb") as file:
        start = file.read(len(ZIP))
    if start == ZIP:
        raise DataError(f"{path.name} is a zip file, to be unpacked, or {UNREAD['.xlsx']}")
    head = start[: len(GZIP)]
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
