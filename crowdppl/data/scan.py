"""Tables as DuckDB reads them: files of text, JSON and Parquet, and queries; where their rows stand."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import escape, glob
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import require_path, shown
from crowdppl.data.files import (
    Source,
    delimiter_and_line,
    fault_of,
    fault_of_json,
    format_of,
    header_of,
    line_of,
    open_text,
    read_table,
    reading,
    refuse_workbook,
    require_texts,
    table_of_json,
)
from crowdppl.data.ids import Encoding, Place, encode, encode_text, place_in_rows
from crowdppl.data.tables import Table, numbers_of_text
from crowdppl.errors import DataError, MethodError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

HEAD = 10_000
"""Rows by which a table is recognised."""
ENCODINGS = {"utf-8": "utf-8", "utf-8-sig": "utf-8", "iso8859-1": "latin-1", "utf-16": "utf-16"}
"""Encodings that DuckDB reads by itself."""
NUMBERS = frozenset(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"])
"""Types of numbers, of which those of whole ones may begin with a U."""
EMPTY = '"NULL"'
"""The type of a column without values."""
AS_IS = "hive_partitioning = false"
"""Folders are no columns, also where they are called like one, worker=ann."""


def connected(memory_limit: Any) -> duckdb.DuckDBPyConnection:
    """A connection to an empty database in memory."""
    try:
        import duckdb
    except ImportError as error:
        raise MethodError("convert needs DuckDB; install it by: pip install crowdppl[scale]") from error
    connection = duckdb.connect()
    try:
        connection.execute(f"SET memory_limit = {as_text(str(memory_limit))}")
    except duckdb.Error as error:
        raise DataError(f"memory_limit={shown(memory_limit)} is no size; write it as '1GiB' or '500MB'") from error
    return connection


def as_text(value: str) -> str:
    """A text of SQL."""
    return "'" + value.replace("'", "''") + "'"


def as_name(value: str) -> str:
    """A name of SQL."""
    return '"' + value.replace('"', '""') + '"'


def _listed(paths: Sequence[Path]) -> str:
    """SQL of a list of files, whose names are no patterns, also where they hold a star."""
    return f"[{', '.join(as_text(escape(str(path))) for path in paths)}]"


def _reason(error: Exception) -> str:
    """What DuckDB says, without the line that it is about and the options that it proposes."""
    said = re.split(r"\n(?:Possible|LINE \d)", str(error))[0]
    return " ".join(line for line in said.splitlines() if line and not line.startswith("Original Line"))[:300]


@dataclass(frozen=True)
class Scan:
    """What is read: files of one format, or a query.

    Attributes:
        connection: to DuckDB.
        origin: what it is called in messages.
        paths: the files, in order; none of a query.
        relation: SQL that reads some of them.
        head: the first rows of the first file.
        place: where a row of a file stands.
        column: SQL of a column's values; of JSON, of their text.
        fault: of a file that cannot be read, its first fault, "" where none is found.
        key: SQL of the text of an item's id, by which it is hashed.
        is_json: whether values are texts of JSON.
        lists: columns that hold lists or records, of types of their own.
        texts: columns of which lists and records are read as texts of JSON.
    """

    connection: duckdb.DuckDBPyConnection
    origin: str
    paths: list[Path]
    relation: Callable[[Sequence[Path]], str]
    head: Table
    place: Callable[[Path | None, int], str]
    column: Callable[[str], str]
    key: Callable[[str], str]
    fault: Callable[[Path], str] = lambda path: ""
    is_json: bool = False
    lists: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    def select(self, columns: Mapping[str, str], path: Path | None = None, *more: str) -> str:
        """SQL of some columns by new names, and of ``more``, of all files or one."""
        named = (f"{self._read_as(name)} AS {as_name(new)}" for new, name in columns.items())
        return f"SELECT {', '.join([*named, *more])} FROM {self.relation(self.paths if path is None else [path])}"

    def _read_as(self, name: str) -> str:
        """SQL of a column's values, of lists their text where that is read."""
        return f"to_json({as_name(name)})::VARCHAR" if name in self.texts & self.lists else self.column(name)

    def fetch(self, query: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """The rows of a query."""
        with self.read():
            return self.connection.sql(query, params=list(parameters)).to_arrow_table()

    @contextmanager
    def read(self) -> Iterator[None]:
        """DuckDB's errors become those of the file that they are of."""
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException as error:
            raise DataError(
                f"DuckDB has too little memory for {self.origin}; say memory_limit='4GiB', say"
            ) from error
        except duckdb.Error as error:
            if isinstance(error, duckdb.IOException) and "write" in str(error):
                raise OSError(_reason(error)) from error
            text = ""
            for path in self.paths:
                with reading(path, None):
                    text = text or self.fault(path)
            text = text or f"{self.origin} cannot be read: {_reason(error)}"
            raise DataError(text) from error

    def locate(self, columns: Mapping[str, str], values: Mapping[str, Any]) -> str:
        """Where the first row stands that has some values, by name of ``columns``."""
        where = " AND ".join(f"{as_name(name)} IS NOT DISTINCT FROM ?" for name in values)
        self.connection.execute("SET preserve_insertion_order = true")
        paths: list[Path | None] = [*self.paths] or [None]
        for path in paths:
            inner = self.select(columns, path, "row_number() OVER () - 1 AS row")
            row = self.fetch(f"SELECT min(row) FROM ({inner}) WHERE {where}", [*values.values()])[0][0].as_py()
            if row is not None:
                return self.place(path, row)
        return self.origin

    def encoded(
        self,
        column: pa.ChunkedArray,
        name: str,
        place: Place,
        mixed: bool = False,
        lists: bool = False,
        numbers: bool = False,
    ) -> Any:
        """A column with each value spelled once, of JSON's ``lists`` their text; ``numbers`` as they are."""
        if not self.is_json:
            return encode_text(column, name, place)
        found = column.dictionary_encode().combine_chunks()
        codes = found.indices.to_numpy()
        values = pd.Series([_one_value(text, lists) for text in found.dictionary.to_pylist()], dtype=object)
        if numbers:
            return Encoding(pd.Index(values, dtype=object), codes)
        long = next((n for n, x in enumerate(values) if isinstance(x, int) and not -(2**63) <= x < 2**63), None)
        if long is not None and not mixed:
            at = place(int(np.argmax(codes == long)))
            raise DataError(f"the {name} {values[long]} at {at} has more than 64 bits; write it as text")
        each = encode(values, name, lambda n: place(int(np.argmax(codes == n))), mixed=mixed)
        return Encoding(each.values, each.codes[codes])

    def values(self, column: pa.ChunkedArray) -> pd.Series[Any]:
        """A further column: of text that is all numbers or blanks, numbers."""
        found: pd.Series[Any] = column.to_pandas()
        if self.is_json:
            found = pd.Series([json.loads(text) for text in found], dtype=object).infer_objects()
        return numbers_of_text(found) if self.head.text else found


def _one_value(text: str, lists: bool) -> Any:
    """A value of JSON; if wanted, a list or an object as its text."""
    found = json.loads(text)
    return text if lists and isinstance(found, list | dict) else found


def scanned(connection: duckdb.DuckDBPyConnection, source: Any, format: Any, delimiter: Any, encoding: Any) -> Scan:
    """What is to be read; DataError for files that are not there, of several formats, or without rows."""
    require_texts(format=format, delimiter=delimiter, encoding=encoding)
    if format == "sql":
        return _of_query(connection, source)
    given = [source] if isinstance(source, str | Path) or not isinstance(source, Sequence) else [*source]
    paths = list[Path]()
    for one in given:
        path = require_path(one)
        found = [] if path.exists() else [*map(Path, sorted(glob(str(path), recursive=True)))]  # noqa: PTH207
        paths += found or [path]
    for path in paths:
        refuse_workbook(path)
    known = {format or format_of(path) for path in paths}
    name = known.pop() if len(known) == 1 else ""
    readers: dict[str, Callable[..., Scan]] = {
        "csv": _of_text,
        "tsv": _of_text,
        "jsonl": _of_json,
        "parquet": _of_parquet,
    }
    reader = readers.get(name)
    if reader is None or not all(path.is_file() for path in paths):
        for path in paths:
            read_table(path, None, format, delimiter, encoding)  # refuses most
        raise DataError(
            f"{shown(source)} is no CSV, TSV, JSON or Parquet, or several of these; give files of one format, or a "
            "query with format='sql'"
        )
    told = codecs.lookup(encoding or "utf-8").name if _is_encoding(encoding) else encoding
    if told not in ENCODINGS:
        raise DataError(
            f"encoding={shown(encoding)} is none of {', '.join(map(repr, ENCODINGS))}, which convert reads; write "
            "the files as UTF-8"
        )
    if delimiter is not None and (reader is not _of_text or not isinstance(delimiter, str) or len(delimiter) != 1):
        raise DataError(f"delimiter={shown(delimiter)} must be one character, such as ';', of CSV or TSV")
    return reader(connection, paths, name, told, delimiter)


def _is_encoding(name: Any) -> bool:
    """Whether Python knows an encoding; the usual one for None."""
    try:
        return name is None or bool(codecs.lookup(name))
    except (LookupError, TypeError, ValueError):
        return False


def _of_text(connection: Any, paths: Sequence[Path], name: str, encoding: str, delimiter: str | None) -> Scan:
    """Delimited text, all columns of which are text."""
    usual = "\t" if name == "tsv" else ","
    with reading(paths[0], encoding):
        mark, line = delimiter_and_line(Source(paths[0], encoding, None, delimiter), usual)
        header = header_of(paths[0], mark, encoding, line)
    for path in paths:
        with reading(path, encoding), open_text(path, encoding) as file:
            first = file.readline()
        if first and not first.strip("\r\n"):
            raise DataError(f"{path.name} begins with an empty line; begin it with the names of columns")
        with reading(path, encoding):
            own = header_of(path, mark, encoding, first)
        if own != header:
            raise _other_columns(path, own, paths[0], header, "the same columns in the same order")
    numbered = {name: f"column {n}" for n, name in enumerate(header)}  # names may be empty, or differ in case alone
    types = ", ".join(f"{as_text(name)}: 'VARCHAR'" for name in numbered.values())
    how = (
        f"{AS_IS}, auto_detect = false, header = true, delim = {as_text(mark)}, quote = '\"', escape = '\"', "
        f"strict_mode = true, encoding = {as_text(ENCODINGS[encoding])}, columns = {{{types}}}"
    )

    def relation(some: Sequence[Path]) -> str:
        return f"read_csv({_listed(some)}, {how})"

    scan = Scan(
        connection,
        paths[0].name,
        [*paths],
        relation,
        Table(pd.DataFrame()),
        lambda path, row: place_in_rows(row) if path is None else line_of(path, mark, encoding, row),
        lambda column: f"coalesce({as_name(numbered[column])}, '')",
        lambda column: f"coalesce({as_name(numbered[column])}, '')",
        lambda path: fault_of(path, mark, encoding) or _fault_of_ends(path, encoding),
    )
    return _with_head(scan, dict(zip(header, header, strict=True)), True)


def _fault_of_ends(path: Path, encoding: str) -> str:
    """That lines end in several ways, which DuckDB does not read; "" where they do not."""
    with open_text(path, encoding) as file:
        ends = {line[len(line.rstrip("\r\n")) :] for line in file} - {""}
    several = " and ".join(sorted(map(repr, ends)))
    return f"{path.name} has lines that end in {several}; write it anew, with one end" if len(ends) > 1 else ""


def _with_head(scan: Scan, columns: Mapping[str, str], text: bool) -> Scan:
    """With the first rows of the first file that has any."""
    table: Any = None
    path: Path | None = None
    paths: list[Path | None] = [*scan.paths] or [None]
    numbered = {f"column {n}": name for n, name in enumerate(columns.values())}
    for path in paths:
        table = scan.fetch(f"{scan.select(numbered, path)} LIMIT {HEAD}").rename_columns([*columns])
        if len(table):
            break
    head = Table(table, scan.origin, lambda row: scan.place(path, row), text)
    return replace(scan, head=head)


def _of_json(connection: Any, paths: Sequence[Path], name: str, encoding: str, delimiter: None) -> Scan:
    """JSON with an object a line, or an array of objects, all values of which are texts of JSON."""
    if encoding != "utf-8":
        raise DataError(f"encoding={encoding!r} is for CSV and TSV, and JSON is UTF-8; leave it out")
    form = "array" if all(map(_is_array, paths)) else "auto"  # which a byte-order mark misleads

    def relation(some: Sequence[Path]) -> str:
        return f"read_json_objects({_listed(some)}, format = '{form}', {AS_IS})"

    def at(column: str) -> str:
        escaped = column.replace('"', '\\"')
        return as_text(f'$."{escaped}"')

    def key(column: str) -> str:
        text = f"json ->> {at(column)}"
        number = _whole_as_text(f"({text})::DOUBLE")
        return f"CASE json_type(json, {at(column)}) WHEN 'DOUBLE' THEN {number} ELSE coalesce({text}, '') END"

    def place(path: Path | None, row: int) -> str:
        assert path is not None
        if _is_array(path):
            return f"entry {row + 1} of {path.name}"
        with open_text(path, encoding) as file:
            filled = (n for n, line in enumerate(file, 1) if line.strip())
            return f"line {next(islice(filled, row, None))} of {path.name}"

    scan = Scan(
        connection,
        paths[0].name,
        [*paths],
        relation,
        Table(pd.DataFrame()),
        place,
        lambda column: f"coalesce(json -> {at(column)}, 'null')::VARCHAR",
        key,
        fault_of_json,
        is_json=True,
    )
    for path in paths:
        texts = scan.fetch(f"SELECT json::VARCHAR AS json FROM {relation([path])} LIMIT {HEAD}")["json"].to_pylist()
        if texts:
            break
    head = table_of_json("\n".join(" ".join(text.splitlines()) for text in texts), path)
    return replace(scan, head=head)


def _is_array(path: Path) -> bool:
    """Whether a file of JSON begins with a bracket."""
    with reading(path, None), open_text(path, "utf-8") as file:
        return next((x for x in iter(lambda: file.read(1), "") if x.strip()), "") == "["


def _whole_as_text(number: str) -> str:
    """SQL of a number's text, of a whole one without a point."""
    whole = f"{number} = floor({number}) AND abs({number}) < 9e18"
    return f"CASE WHEN {whole} THEN {number}::BIGINT::VARCHAR ELSE {number}::VARCHAR END"


def _of_parquet(connection: Any, paths: Sequence[Path], name: str, encoding: str, delimiter: None) -> Scan:
    """Parquet, whose values have types."""

    def relation(some: Sequence[Path]) -> str:
        return f"read_parquet({_listed(some)}, union_by_name = true, {AS_IS})"

    return _typed(connection, paths[0].name, paths, relation)


def _other_columns(path: Path, own: list[str], first: Path, usual: list[str], what: str) -> DataError:
    """A file has other columns than the first."""
    return DataError(
        f"{path.name} has the columns {', '.join(map(repr, own))}, and {first.name} has "
        f"{', '.join(map(repr, usual))}; give files with {what}"
    )


def _like(kind: str) -> str:
    """What types are called that hold the same values, of which one is widened to the other."""
    return "number" if kind.removeprefix("U") in NUMBERS or kind.startswith("DECIMAL") else kind


def _of_query(connection: Any, source: Any) -> Scan:
    """The rows of a query."""
    if not isinstance(source, str):
        raise DataError(f"source={shown(source)} is no text of SQL, which format='sql' asks for")
    query = source.strip().removesuffix(";")
    return _typed(connection, "the query", [], lambda some: f"({query}\n)")


def _require_types(scan: Scan) -> None:
    """Refuses files whose columns are of other names or types than those of the first: DuckDB casts silently."""
    usual = _types(scan, scan.paths[:1])
    for path in scan.paths[1:]:
        own, first = _types(scan, [path]), scan.paths[0]
        if {*own} != {*usual}:
            raise _other_columns(path, [*own], first, [*usual], "the same columns")
        for name, kind in own.items():
            if _like(kind) != _like(usual[name]) and EMPTY not in (kind, usual[name]):
                raise DataError(
                    f"the column {name!r} is {kind} in {path.name}, and {usual[name]} in {first.name}; write it as "
                    "one type, or say in a query, with format='sql', what is read"
                )
            usual[name] = kind if usual[name] == EMPTY else usual[name]


def _types(scan: Scan, paths: Sequence[Path]) -> dict[str, str]:
    """The type of each column of some files, as DuckDB calls it."""
    about = scan.fetch(f"DESCRIBE SELECT * FROM {scan.relation(paths)}")
    return dict(zip(about["column_name"].to_pylist(), about["column_type"].to_pylist(), strict=True))


def _typed(connection: Any, origin: str, paths: Sequence[Path], relation: Callable[[Sequence[Path]], str]) -> Scan:
    """Columns with types of their own."""

    def place(path: Path | None, row: int) -> str:
        return f"{place_in_rows(row)} of {origin if path is None else path.name}"

    scan = Scan(connection, origin, [*paths], relation, Table(pd.DataFrame()), place, as_name, as_name)
    _require_types(scan)
    types = _types(scan, paths)
    floats = {name for name, kind in types.items() if kind in ("FLOAT", "DOUBLE")}

    def key(column: str) -> str:
        number = _whole_as_text(as_name(column)) if column in floats else f"{as_name(column)}::VARCHAR"
        return f"coalesce({number}, '')"

    nested = {name for name, kind in types.items() if kind.endswith("]") or kind.startswith(("STRUCT", "MAP"))}
    return _with_head(replace(scan, key=key, lists=frozenset(nested)), {name: name for name in types}, False)
