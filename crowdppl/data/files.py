"""Readers of annotation files: delimited text, JSON lines and tables of other formats."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, Unpack

import numpy as np
import pandas as pd

from crowdppl.core.validation import require_path, require_text, shown, switch
from crowdppl.data.annotations import Annotations, Options
from crowdppl.data.ids import Place, encode, place_in_rows, refuse_markers
from crowdppl.data.tables import names_nothing, recognise, refuse_twins, rows_of_frame, rows_of_wide
from crowdppl.errors import DataError

UTF8 = "utf-8-sig"
"""UTF-8, with or without a mark at the beginning."""
MARKS = {
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}
"""What may stand at the beginning of a file in these encodings, and Python would take for its first letter."""
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


def frame_of(table: Any, texts: Sequence[str]) -> pd.DataFrame:
    """An arrow table for pandas, text as categories: 10 bytes a value instead of 60.

    Text is encoded over all chunks at once, because joining the dictionaries of chunks takes 5 times as long.
    """
    for name in texts:
        position = table.schema.get_field_index(name)
        encoded = table.column(position).dictionary_encode().combine_chunks()
        table = table.set_column(position, name, encoded)
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    return frame


def codec(encoding: str | None) -> str:
    """How a file of text is written, as Python calls it; by default ``UTF8``.

    Raises:
        DataError: for one that Python does not know.
    """
    try:
        "".encode(encoding := UTF8 if encoding is None else encoding)
        return UTF8 if codecs.lookup(encoding).name == "utf-8" else encoding
    except (LookupError, ValueError) as error:
        raise DataError(
            f"encoding={encoding!r} is none that Python knows; give one such as 'cp1252', 'latin-1' or 'utf-16'"
        ) from error


def open_text(path: Path, encoding: str = UTF8) -> TextIO:
    """A file of text, unpacked where it is gzipped, without the mark at its beginning; line ends as they are."""
    import pyarrow

    stream = io.BufferedReader(pyarrow.input_stream(path, compression="detect"))
    mark = MARKS.get(codecs.lookup(encoding).name, b"")
    if mark and stream.peek(len(mark)).startswith(mark):
        stream.read(len(mark))
    return io.TextIOWrapper(stream, encoding=encoding, newline="")


def undecodable(path: Path, encoding: str = UTF8) -> str:
    """What to say of a file that is not written as it should be; of one that is not UTF-8, with the first line."""
    import pyarrow

    if encoding != UTF8:
        return f"{path.name} is not {encoding}; give another encoding=, or save the file as UTF-8 and leave it out"
    with pyarrow.input_stream(path, compression="detect") as stream:
        lines = enumerate(io.BufferedReader(stream), 1)
        wrong = ((number, line) for number, line in lines if line.decode("utf-8", "ignore").encode() != line)
        number, line = next(wrong, (1, b""))
    likely = "utf-16" if line[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "cp1252"
    return (
        f"line {number} of {path.name} is not UTF-8; say encoding= (perhaps {likely!r}), or save the file as UTF-8"
    )


WRITE = "write one JSON object a line, or one list of objects"
"""What to do about a file of something else."""


def read_json(path: Path, encoding: str) -> Table:
    """Reads JSON: an object a line, or one list of objects.

    Args:
        path: the file.
        encoding: how the text is written.

    Raises:
        DataError: when the file cannot be read, with the line or the place in the list.
    """
    start = ""
    with open_text(path, encoding) as file, suppress(UnicodeError, OSError, EOFError):  # said when all is read
        start = next((line.lstrip() for line in file if line.strip()), "")
    return (_list if start.startswith("[") else _lines)(path, encoding)


def _list(path: Path, encoding: str) -> Table:
    try:
        with open_text(path, encoding) as file:
            rows = json.load(file, object_pairs_hook=_named_once)
    except UnicodeError as error:
        raise DataError(undecodable(path, encoding)) from error
    except (ValueError, RecursionError, OSError, EOFError) as error:
        raise DataError(f"{path.name} cannot be read: {error}; {WRITE}") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"entry {number} of {path.name} is {shown(row)}, and no object; {WRITE}")
    if not rows:
        raise DataError(f"{path.name} is empty; {WRITE}")
    return Table(_frame(rows), lambda row: f"entry {row + 1} of {path.name}", False)


def _lines(path: Path, encoding: str) -> Table:
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
    except (ValueError, RecursionError, OSError, EOFError) as error:
        at = number if isinstance(error, ValueError | RecursionError) else number + 1
        raise DataError(f"line {at} of {path.name} cannot be read: {error}; {WRITE}") from error
    if not rows:
        raise DataError(f"{path.name} is empty; {WRITE}")
    return Table(_frame(rows), lambda row: f"line {lines[row]} of {path.name}", False)


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})


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


DELIMITERS = (",", ";", "\t", "|")
"""What separates fields in files that spreadsheets and databases write."""
SAMPLE = 20
"""Records in which a delimiter has to find as many fields as in the header."""
SEP_LINE = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)
"""What Excel writes, and reads, before the header: the delimiter."""


@dataclass(frozen=True)
class Layout:
    """How a file is to be read.

    Attributes:
        delimiter: what separates fields.
        skipped: lines before the header, which say nothing but the delimiter.
        encoding: how the text is written.
    """

    delimiter: str
    skipped: int = 0
    encoding: str = UTF8

    def records(self, path: Path, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
        """Each record that is not empty, the header first, with the line on which it begins."""
        with open_text(path, self.encoding) as file:
            for _ in range(self.skipped):
                file.readline()
            reader = csv.reader(file, delimiter=self.delimiter, strict=strict)
            line = 1
            for record in reader:
                if record:
                    yield self.skipped + line, record
                line = reader.line_num + 1

    def widths(self, path: Path) -> list[int]:
        """How many fields the first records have, up to one that is too large for this reader."""
        found = []
        with suppress(csv.Error):
            for _, record in islice(self.records(path, strict=False), SAMPLE):
                found.append(len(record))
        return found


def read_delimited(path: Path, usual: str, delimiter: str | None, as_text: AsText, encoding: str = UTF8) -> Table:
    """Reads a file of delimited text.

    Args:
        path: the file.
        usual: the delimiter that its name promises.
        delimiter: the one that it has; by default ``layout_of`` finds it.
        as_text: columns that hold ids or labels.
        encoding: how the text is written.

    Raises:
        DataError: when the file cannot be read, with the line.
    """
    import pyarrow
    from pyarrow import csv as arrow_csv

    layout = Layout(delimiter or usual, encoding=encoding)
    try:
        layout = layout_of(path, layout, delimiter)
        line, header = next(layout.records(path), (0, []))
        if not header:
            raise EOFError
        if len(header) == 1:
            raise DataError(_one_column(header[0], layout.delimiter, f"line {line} of {path.name}"))
        text = _texts(header, as_text, f"line {line} of {path.name}")
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(
                skip_rows=layout.skipped, encoding="utf8" if encoding == UTF8 else encoding
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(text, pyarrow.string())),
        )
    except (pyarrow.ArrowInvalid, csv.Error, UnicodeError, OSError, EOFError) as error:
        raise DataError(_what_is_wrong(path, layout) or f"{path.name} cannot be read: {error}") from error
    # A quote that is never closed takes all further rows into one field, and arrow does not mind.
    if table.num_rows and set("\r\n") & set(str(table.columns[-1][-1])) and _never_closed(path, layout):
        raise DataError(_what_is_wrong(path, layout))
    return Table(frame_of(table, text), lambda row: f"line {_line_of(path, layout, row)} of {path.name}", True)


def layout_of(path: Path, usual: Layout, delimiter: str | None = None) -> Layout:
    """How a file is to be read: as told, as Excel's line ``sep=;`` says, or as its first records show.

    Another delimiter than the usual one is taken only where the usual one leaves the header in one piece or gives
    records of differing length, so that the file could not be read with it: no file is read in two ways.

    Raises:
        DataError: when several delimiters are as likely.
    """
    said, skipped = delimiter, 0
    with open_text(path, usual.encoding) as file:
        for line in file:
            hint = SEP_LINE.fullmatch(line)
            if not hint and line.strip('\r\n "' + "".join(DELIMITERS)):
                break
            said = said or (hint and hint[1])
            skipped += 1
    if said:
        return replace(usual, delimiter=said, skipped=skipped)
    common = usual.delimiter
    ways = [replace(usual, delimiter=one, skipped=skipped) for one in dict.fromkeys((common, *DELIMITERS))]
    seen = {way.delimiter: widths for way in ways if (widths := way.widths(path))[:1] > [1]}
    likely = [one for one, widths in seen.items() if len(set(widths)) == 1] or list(seen)
    if common not in likely and len(likely) > 1:
        raise DataError(f"{path.name} may be separated by any of {', '.join(map(repr, likely))}; say delimiter=")
    return replace(ways[0], delimiter=common if common in likely or not likely else likely[0])


def _texts(header: list[str], as_text: AsText, where: str) -> list[str]:
    """The columns to be read as text; where they are not found, the file may begin with a row."""
    try:
        return list(as_text(header))
    except DataError as error:
        if not names_nothing(header):
            raise
        raise DataError(
            f"{error}. If {where} is a row already, put a line that names the columns before it"
        ) from error


def _one_column(name: str, delimiter: str, where: str) -> str:
    return (
        f"{where} names one column, {name!r}, where items and labels need one each; begin with a line of column "
        f"names, and where something other than {delimiter!r} separates them, say delimiter="
    )


def _line_of(path: Path, layout: Layout, row: int) -> int:
    return next(islice(layout.records(path), row + 1, None))[0]


def _never_closed(path: Path, layout: Layout) -> bool:
    """Whether a file that arrow could read ends within quotes; whatever else this reader minds is no matter."""
    try:
        deque(layout.records(path), 0)
    except csv.Error as error:
        return str(error) == "unexpected end of data"
    return False


def _what_is_wrong(path: Path, layout: Layout) -> str:
    """Reads a file slowly, to name the line at which it cannot be read."""
    line, width = layout.skipped, 0
    try:
        for line, record in layout.records(path):
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
    except UnicodeError:
        return undecodable(path, layout.encoding)
    return "" if width else f"{path.name} is empty; its first line must name the columns"


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


def read_annotations(
    path: str | Path,
    item: Hashable | None = None,
    annotator: Hashable | None = None,
    label: Hashable | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    wide: bool = False,
    **options: Unpack[Options],
) -> Annotations:
    """Reads annotations from a file: CSV, TSV, JSON (all also gzipped) or parquet.

    In CSV and TSV, ids and labels are text, exactly as spelled: "007" stays "007". Classes, gold and other
    tables may still name them as numbers where the spelling is the same.

    Args:
        path: the file; a CSV or TSV begins with a line of column names, and JSON is an object a line, or one list
            of objects.
        item, annotator, label: columns, where they are not recognised by name.
        format: "csv", "tsv", "parquet" or "jsonl", where the name does not end so.
        delimiter: what separates the fields of CSV and TSV. By default the one that fits the first lines: a comma,
            semicolon, tab or bar, or what Excel's line ``sep=;`` says; blank lines before the header are skipped.
        encoding: how a file of text is written, such as "cp1252", "latin-1" or "utf-16"; by default UTF-8.
        wide: whether columns are annotators; an empty cell, or one of blanks, is no label.
        options: see ``crowdppl.data.annotations.Options``.

    Raises:
        DataError: with the value, the line and the remedy.

    Examples:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"task": ["007", "007", "008", "008"], "worker": ["ann", "bob"] * 2})
        >>> table.assign(answer=["yes", "no", "no", "yes"]).to_csv("answers.csv", index=False)
        >>> crowdppl.read_annotations("answers.csv").frame()
          item annotator label
        0  007       ann   yes
        1  007       bob    no
        2  008       ann    no
        3  008       bob   yes
    """
    given = {"item": item, "annotator": annotator, "label": label}
    name = require_path(path).name
    said = _given_texts(format=format, delimiter=delimiter, encoding=encoding)
    if switch("wide", wide):
        table = read_table(path, as_text=partial(_all, name), **said)
        return Annotations.of_rows(rows_of_wide(table.frame, given, table.place, table.text), options)
    table = read_table(path, as_text=lambda columns: list(recognise(columns, given, name).values()), **said)
    return Annotations.of_rows(rows_of_frame(table.frame, given, name, table.place, table.text), options)


def _given_texts(**said: Any) -> dict[str, str | None]:
    return {name: require_text(name, value) for name, value in said.items()}


def _all(name: str, columns: Sequence[str]) -> Sequence[str]:
    refuse_twins(columns, name)
    return columns


def read_gold(
    path: str | Path,
    item: str | None = None,
    label: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> pd.Series[Any]:
    """Known truths from a file, as a series by item id.

    Args:
        path: CSV, TSV, parquet or JSON with a column of items and one of classes.
        item, label: their names, where they are not recognised.
        format, delimiter, encoding: as for ``read_annotations``.

    Raises:
        DataError: when the file cannot be read or has no rows, a column is missing, or a value is.

    Examples:
        >>> import pandas as pd
        >>> pd.DataFrame({"item": ["007", "008"], "label": ["yes", "no"]}).to_csv("truth.csv", index=False)
        >>> crowdppl.read_gold("truth.csv").to_dict()
        {'007': 'yes', '008': 'no'}
    """
    given = {"item": item, "class": label}
    name = require_path(path).name
    said = _given_texts(format=format, delimiter=delimiter, encoding=encoding)
    table = read_table(path, as_text=lambda columns: list(recognise(columns, given, name).values()), **said)
    roles = recognise(list(table.frame.columns), given, name)
    if table.frame.empty:
        raise DataError(f"{name} has no rows, so that no truth is known; give some, or leave gold out")
    for role, column in roles.items():
        found = encode(table.frame[column], role, table.place)
        if table.text:
            refuse_markers(found, role, table.place, (), "leave the row out")
    values = {role: pd.Index(np.asarray(table.frame[column])) for role, column in roles.items()}
    return pd.Series(values["class"], index=values["item"], name="gold")


def read_item_covariates(
    path: str | Path,
    item: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """What is known of items, from a file: a table by item id, to be given as ``item_covariates``.

    Args:
        path: CSV, TSV, parquet or JSON with a column of items; what else it holds are covariates.
        item: name of that column, where it is not recognised.
        format, delimiter, encoding: as for ``read_annotations``.

    Raises:
        DataError: when the file cannot be read or has no rows, the column is missing, or an id is.

    Examples:
        >>> import pandas as pd
        >>> pd.DataFrame({"item": ["007", "008"], "words": [120, 45]}).to_csv("items.csv", index=False)
        >>> crowdppl.read_item_covariates("items.csv")["words"].to_dict()
        {'007': 120, '008': 45}
    """
    return _covariates(path, "item", item, _given_texts(format=format, delimiter=delimiter, encoding=encoding))


def read_annotator_covariates(
    path: str | Path,
    annotator: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """What is known of annotators, from a file: a table by annotator id, to be given as ``annotator_covariates``.

    Args:
        path: CSV, TSV, parquet or JSON with a column of annotators; what else it holds are covariates.
        annotator: name of that column, where it is not recognised.
        format, delimiter, encoding: as for ``read_annotations``.

    Raises:
        DataError: when the file cannot be read or has no rows, the column is missing, or an id is.

    Examples:
        >>> import pandas as pd
        >>> pd.DataFrame({"worker": ["ann", "bob"], "years": [20, 3]}).to_csv("people.csv", index=False)
        >>> crowdppl.read_annotator_covariates("people.csv")["years"].to_dict()
        {'ann': 20, 'bob': 3}
    """
    return _covariates(
        path, "annotator", annotator, _given_texts(format=format, delimiter=delimiter, encoding=encoding)
    )


def _covariates(path: str | Path, role: str, column: str | None, said: dict[str, Any]) -> pd.DataFrame:
    given, name = {role: column}, require_path(path).name
    table = read_table(path, as_text=lambda columns: list(recognise(columns, given, name).values()), **said)
    found = recognise(list(table.frame.columns), given, name)[role]
    if table.frame.empty:
        raise DataError(f"{name} has no rows, so that nothing is known of any {role}; give some, or leave it out")
    ids = encode(table.frame[found], role, table.place)
    if table.text:
        refuse_markers(ids, role, table.place, (), "leave the row out")
    rest = table.frame.drop(columns=[found]).infer_objects()
    return rest.set_axis(pd.Index(np.asarray(table.frame[found]), name=role))
