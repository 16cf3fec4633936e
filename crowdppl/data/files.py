"""Readers of annotation files: delimited text, JSON, CoNLL columns and Parquet."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO, Unpack, cast

import numpy as np
import pandas as pd

from crowdppl.core.validation import kind_of, require_path, shown, switch
from crowdppl.data.annotations import Annotations
from crowdppl.data.edges import require_two
from crowdppl.data.gold import without_blanks
from crowdppl.data.ids import READ_FROM, Origin, by_item, encode, native, place_in_rows, refuse_missing_text
from crowdppl.data.kinds.sequences import SEQUENCE
from crowdppl.data.label_studio import FLAT, TASK, rows_of_tasks, tasks_of_rows
from crowdppl.data.options import AnnotationOptions, columns_said, parts_of_items, said_kind
from crowdppl.data.parts import is_folder_of_parts
from crowdppl.data.shapes import Said, rows_of_table
from crowdppl.data.tables import (
    NAMING,
    Roles,
    Table,
    as_pandas,
    label_roles,
    looks_like,
    recognise,
    refuse_twins,
    two_parts,
)
from crowdppl.data.tagged import read_conll
from crowdppl.errors import DataError

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Source:
    """A file to read: where it is, how its text is encoded; of delimited text, which columns are read as text, None
    for all, and what separates fields, None for the usual.
    """

    path: Path
    encoding: str
    roles: Roles | None
    delimiter: str | None


class Format(NamedTuple):
    """A format of files: what it is called, how their names end, its reader, and whether it has a delimiter."""

    title: str
    endings: tuple[str, ...]
    read: Callable[[Source], Table]
    delimited: bool = False


def read_table(path: Any, roles: Roles | None, format: Any, delimiter: Any, encoding: Any) -> Table:
    """Reads a file as ``read_annotations`` does; ``roles`` are columns read as text, None for all."""
    path = require_path(path)
    require_texts(format=format, delimiter=delimiter, encoding=encoding)
    refuse_workbook(path)
    found = FORMATS.get(format or format_of(path) or ("csv" if delimiter else ""))
    if found is None:
        *titles, last = (known.title for known in FORMATS.values())
        raise DataError(
            f"{path.name if format is None else f'format={shown(format)}'} is no {', '.join(titles)} or {last} "
            f"file; say format={' or '.join(map(repr, FORMATS))} if it is one, or save its table as CSV"
        )
    if not path.is_file():
        raise DataError(f"{path} is {'no file' if path.exists() else 'not there'}; give the path of a file")
    if delimiter is not None and (not found.delimited or len(delimiter) != 1 or delimiter in '"\r\n'):
        raise DataError(
            f"delimiter={delimiter!r} must be one character, such as ';', and goes with CSV and TSV alone"
        )
    try:
        with reading(path, encoding):
            return found.read(Source(path, encoding or "utf-8", roles, delimiter))
    except LookupError as error:
        raise DataError(f"encoding={encoding!r} is unknown; give one such as 'cp1252' or 'utf-16'") from error


PACKED = {b"PK\x03\x04": "a workbook or another ZIP archive", b"\xd0\xcf\x11\xe0": "a workbook of an old kind"}
"""How files begin that are no tables but hold some."""


def refuse_workbook(path: Path) -> None:
    """Refuses workbooks of spreadsheets, and archives, however they are named."""
    if path.is_file():
        with reading(path, None), path.open("rb") as file:
            what = PACKED.get(file.read(4))
        if what is not None:
            raise DataError(f"{path.name} is {what}, and no text: open it, and save its table as CSV")


@contextmanager
def reading(path: Path, encoding: str | None) -> Iterator[None]:
    """Errors of a file that is damaged, or in another encoding, become a DataError."""
    try:
        yield
    except UnicodeError as error:
        text = (
            f"{path.name} is not {encoding or 'UTF-8'}; give encoding=, such as 'cp1252' or 'utf-16', if it is text"
        )
        raise DataError(text) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path.name} cannot be read: {error}; it may be truncated") from error


def require_texts(**given: Any) -> None:
    """Refuses arguments that are neither text nor None."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise DataError(f"{name} is {kind_of(value)}; give it as text, or leave it out")


def format_of(path: Path) -> str:
    """The format that the end of a file's name tells; "" for none."""
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    return next((name for name, known in FORMATS.items() if ending in known.endings), "")


def open_text(path: Path, encoding: str) -> TextIO:
    """A file of text, unpacked where its name ends in .gz, without a byte-order mark; line ends as they are."""
    packed = path.suffix == ".gz"
    file: Any = (gzip.open if packed else open)(path, "rt", encoding=encoding, newline="")
    if file.read(1) != "\ufeff":
        file.seek(0)
    opened: TextIO = file
    return opened


def _records(path: Path, delimiter: str, encoding: str, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not empty, the header first, with the line on which it begins."""
    with open_text(path, encoding) as file:
        reader, line = csv.reader(file, delimiter=delimiter, strict=strict), 1
        for record in reader:
            if record:
                yield line, record
            line = reader.line_num + 1


def delimiter_and_line(source: Source, usual: str) -> tuple[str, str]:
    """What separates fields, and the first line that is not empty."""
    with open_text(source.path, source.encoding) as file:
        first = next((line for line in file if line.strip()), "")
    return source.delimiter or (usual if usual in first else max(",;\t|", key=first.count)), first


def header_of(path: Path, delimiter: str, encoding: str, first: str) -> list[str]:
    """The names of columns; DataError where there are none, fewer than two in the ``first`` line, or one twice."""
    _, header = next(_records(path, delimiter, encoding), (0, []))
    if not header:
        raise DataError(f"{path.name} is empty; give a file with a line of column names, and a label a row")
    if len(header) < 2:
        raise DataError(
            f"{path.name} begins with {shown(first.strip())}, where a line of two column names or more must "
            "stand; say delimiter= where something else separates them"
        )
    refuse_twins(header, path.name)
    return header


def line_of(path: Path, delimiter: str, encoding: str, row: int) -> str:
    """Where a row of delimited text begins."""
    try:
        line = next(islice(_records(path, delimiter, encoding), row + 1, None))[0]
    except csv.Error:  # a field too long for Python's reader
        return f"{place_in_rows(row)} of {path.name}"
    return f"line {line} of {path.name}"


def _delimited(source: Source, usual: str) -> Table:
    """Reads delimited text by pyarrow, which refuses rows of differing length, unlike pandas."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    path, encoding, roles = source.path, source.encoding, source.roles
    delimiter, first = delimiter_and_line(source, usual)
    try:
        header = header_of(path, delimiter, encoding, first)
        all_text = roles is None or ({*FLAT} <= {*header} and SEQUENCE in roles)  # spans of Label Studio
        texts = header if all_text else _texts(header, roles or {}, path.name)
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(
                encoding="utf8" if codecs.lookup(encoding).name == "utf-8" else encoding
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(texts, pyarrow.string())),
        )
    except (pyarrow.ArrowInvalid, csv.Error) as error:
        raise DataError(fault_of(path, delimiter, encoding) or f"{path.name} cannot be read: {error}") from error
    # A quote that is never closed takes all further rows into one field, which arrow accepts.
    if table.num_rows and "\n" in str(table.columns[-1][-1]) and (fault := fault_of(path, delimiter, encoding)):
        raise DataError(fault)
    return Table(table.rename_columns(header), path.name, partial(line_of, path, delimiter, encoding), True)


def _texts(header: list[str], roles: Roles, origin: str) -> list[str]:
    """Columns of ids and labels; all where roles are not recognised, as the shape may be another."""
    try:
        known = recognise(header, roles, origin).values()
    except DataError:
        return header
    return [*dict.fromkeys(map(str, (*known, *(name for role in NAMING for name in looks_like(header, role)))))]


def fault_of(path: Path, delimiter: str, encoding: str) -> str:
    """The first line of delimited text that cannot be read, and why; "" where there is none."""
    line, width = 0, 0
    try:
        for line, record in _records(path, delimiter, encoding, strict=True):
            width = width or len(record)
            if len(record) != width:
                return (
                    f"line {line} of {path.name} has {len(record)} fields and the header has {width}; it is "
                    "truncated, or a field holds a separator and needs quotes"
                )
    except csv.Error as error:
        if "unexpected end of data" not in str(error):  # arrow does not mind
            return ""
        return (
            f"{path.name} cannot be read beyond line {line}: {error}; it is truncated, or a quote is never closed"
        )
    return ""


SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a sign beyond the first 65,536, as JSON writes it: two make one."""


def _json(source: Source) -> Table:
    """Reads an object a line, or an array of objects, by Python's reader: pandas takes the last of two twins."""
    path = source.path
    with open_text(path, source.encoding) as file:
        return table_of_json(file.read(), path)


def table_of_json(text: str, path: Path) -> Table:
    """A table of JSON, which a file holds or begins with."""
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    is_array = text.lstrip().startswith("[")
    unit = "entry" if is_array else "line"
    for number, part in enumerate(_parsed(text, path.name) if is_array else text.split("\n"), 1):
        where = f"{unit} {number} of {path.name}"
        if not (is_array or part.strip()):
            continue
        row = part if is_array else _parsed(part, where)
        if not isinstance(row, dict):
            raise DataError(f"{where} is {shown(row)}; write one JSON object a line, or an array of objects")
        rows.append(row)
        numbers.append(number)
    if not rows:
        raise DataError(f"{path.name} is empty; write one JSON object a line, or an array of objects")
    names = dict.fromkeys(name for row in rows for name in row)
    frame = pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})
    return Table(frame, path.name, lambda row: f"{unit} {numbers[row]} of {path.name}")


def _parsed(text: str, where: str) -> Any:
    try:
        found = json.loads(text, object_pairs_hook=_object)
        if SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise DataError(f"{where} holds {half!r}, half of a sign that takes two; write both, or none") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} cannot be read: {error}") from error


def fault_of_json(path: Path) -> str:
    """The first line of a file with an object a line that is none, and why; "" where there is none."""
    with open_text(path, "utf-8") as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.lstrip().startswith("["):
                break  # an array
            try:
                _parsed(line.strip() or "{}", f"line {number} of {path.name}")
            except DataError as error:
                return str(error)
    return ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} is given twice")
    return dict(pairs)


def _conll(source: Source) -> Table:
    path = source.path
    with open_text(path, source.encoding) as file:
        frame, numbers = read_conll(file, path.name)
    return Table(frame, path.name, lambda row: f"line {numbers[row]} of {path.name}", True, tokens=True)


def _parquet(source: Source) -> Table:
    import pyarrow
    from pyarrow import parquet

    path = source.path
    try:
        table = parquet.read_table(path)
        table.validate(full=True)  # a reader does not look whether text is UTF-8
    except (pyarrow.ArrowException, OSError, UnicodeError, LookupError) as error:
        raise DataError(f"{path.name} is no Parquet file, or a truncated or damaged one: {error}") from error
    return Table(table, path.name, lambda row: f"{place_in_rows(row)} of {path.name}")


FORMATS = {
    "csv": Format("CSV", (".csv",), partial(_delimited, usual=","), delimited=True),
    "tsv": Format("TSV", (".tsv", ".tab"), partial(_delimited, usual="\t"), delimited=True),
    "jsonl": Format("JSON", (".jsonl", ".ndjson", ".json"), _json),
    "conll": Format("CoNLL", (".conll",), _conll),
    "parquet": Format("Parquet", (".parquet", ".pq"), _parquet),
}
"""By what ``format=`` says."""


OF_IDS = ("gold", "features", "item_covariates", "annotator_covariates", "history")
"""Options that parts take, too."""
USUAL = ("keep", "shared", "repair")
"""Options of labels as they are where nobody says another."""


def read_annotations(
    path: str | Path,
    item: Hashable | tuple[Hashable, Hashable] | None = None,
    annotator: Hashable | None = ...,
    label: Hashable | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    wide: bool = False,
    columns: Literal["annotators", "classes", "items"] | None = None,
    gold_column: Hashable | None = None,
    question: str | None = None,
    predictions: bool = False,
    **options: Unpack[AnnotationOptions],
) -> Annotations:
    """Reads annotations from a file, whose format its name tells; text may be gzipped.

    In CSV and TSV, ids and labels are text, exactly as spelled: "007" stays "007". Classes, gold and other
    tables may still name them as numbers where the spelling is the same.

    Sequences come in two more forms, whose tokens become the item covariate "token". CoNLL columns have a token a
    line, then a tag of each annotator, "_" or "?" for none, and a blank line between sequences; columns are named
    by "# global.columns = ", or the last ones by ``annotators``, and those of parts of speech and of chunks beside
    other tags are left out, with a warning. Character spans have columns text, annotator, start, end and type (and
    the text's id), a span a row, blanks where somebody marked nothing; or text, annotator and a list of spans, as
    Prodigy and doccano write them (tasks that were ignored are left out). They become BIO tags of words.

    Tasks that Label Studio exports as JSON are read as what their results are: choices ("nominal", or "set" where
    somebody chose several), ratings ("ordinal"), numbers ("real"), pairs, rankings or spans of text ("sequence"),
    unless ``kind`` says another that fits. Annotations that were skipped are left out, those marked as ground truth
    are gold, and "created_at", "updated_at" and "lead_time" are further columns. Spans are read from its CSV and
    JSON-MIN, too.

    A folder that ``crowdppl.convert`` wrote is opened, as by ``Annotations.open``.

    Args:
        path: the file; a CSV or TSV begins with a line of column names.
        item, annotator, label: columns, where they are not recognised by name; of items with two parts, a pair
            of columns; ``annotator=None``: one gave all labels, for methods that need to know no more. In tasks of
            Label Studio, ``item`` is a field of their data: what names an item, by default the task's id, of spans
            the text, and of comparisons a pair of fields, the left one first.
        format: where the name does not tell it, "csv", "tsv", "jsonl" (an object a line, or one array), "conll" or
            "parquet".
        delimiter: what separates the fields of CSV and TSV; by default a comma (tab), or the semicolon, tab or bar
            that stands in the first line instead.
        encoding: of a file of text, such as "cp1252", "latin-1" or "utf-16"; by default UTF-8.
        wide: whether columns are annotators; an empty cell, or one of blanks, is no label. ``annotators`` names
            their columns where there are others.
        columns: what columns are, of a table with several for labels: "annotators", "classes" (counts of votes, or
            0 and 1) or "items" (a row an annotator), as of ``Annotations.from_frame``.
        gold_column: column of known truths, which inform the fit: blank where unknown, repeated where known.
        question: in tasks of Label Studio, the question to read (the name of its control), where there are several.
        predictions: whether predictions in them are read too, each model an annotator.
        options: see ``crowdppl.data.options.AnnotationOptions``.

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
    if is_folder_of_parts(path):
        columns_of = {"item": item, "annotator": annotator, "label": label, "gold_column": gold_column}
        read_as = {"format": format, "delimiter": delimiter, "encoding": encoding, "wide": wide, "columns": columns}
        more = {"question": question, "predictions": predictions}
        return _opened(path, {**columns_of, **read_as, **more, **options})
    several = switch("wide", wide) or columns_said(columns) is not None
    parts = () if several else parts_of_items(options)
    roles = label_roles(item, annotator, label, gold_column, parts)
    table = read_table(path, None if several else roles, format, delimiter, encoding)
    found = _tasks(table, question if label is None else label, options.get("kind"))
    if found is not None:
        named = (gold_column, *([label] if found is table.frame else []))
        if several or annotator not in (None, ...) or any(name is not None for name in named):
            raise DataError(
                f"{table.origin} holds tasks of Label Studio, and no such columns; leave out wide=, annotator=, "
                "label=, columns= and gold_column=, and say question= where there are several"
            )
        return Annotations.of_rows(*rows_of_tasks(found, table.place, options, item, question, predictions))
    if question is not None or predictions:
        raise DataError(
            f"question= and predictions= are for tasks of Label Studio, and {table.origin} holds none; leave them "
            "out, and name the column of labels by label="
        )
    said = Said(item, annotator, label, gold_column, wide, columns)
    rows, told = rows_of_table(table, said, said_kind(options), options)
    del table  # whose text is not kept
    return Annotations.of_rows(rows, cast(AnnotationOptions, told))


def _is_empty(value: Any) -> bool:
    """Whether a list or the like has nothing in it."""
    return isinstance(value, list | tuple | Mapping) and not value


def _opened(path: str | Path, given: Mapping[str, Any]) -> Annotations:
    """A folder of parts, of which no more may be said than that of items and annotators."""
    for name in [name for name in given if name not in OF_IDS]:
        value = given[name]
        usual = isinstance(value, str) and value in USUAL
        if not (usual or value is None or value is ... or value is False or _is_empty(value)):
            raise DataError(
                f"{path} holds parts, whose labels were settled when they were converted; leave out {name}=, or "
                "convert the labels again"
            )
    known: Any = {name: given.get(name) for name in OF_IDS}
    return Annotations.open(path, **known)


def _tasks(table: Table, named: Any, kind: str | None) -> pd.DataFrame | None:
    """Tasks of Label Studio, also those whose spans are in a column of CSV or JSON-MIN; None for other tables."""
    names = table.frame.columns if isinstance(table.frame, pd.DataFrame) else table.frame.column_names
    if {*TASK} <= {*names} and isinstance(table.frame, pd.DataFrame):
        return table.frame
    return tasks_of_rows(as_pandas(table.frame, ""), named, kind) if {*FLAT} <= {*names} else None


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
        path: a table, as of ``read_annotations``, of a column of items and one of classes, blank if unknown; it may
            be that of the labels, which repeats them. Where two columns name an item (left and right, sequence and
            position, problem and object; of sets, item and class beside a label, yes or no), the ids are pairs.
        item, label: their names, where they are not recognised.
        format, delimiter, encoding: as for ``read_annotations``.

    Raises:
        DataError: when the file cannot be read, a column or an id is missing, or no class is known.

    Examples:
        >>> import pandas as pd
        >>> pd.DataFrame({"item": ["007", "008"], "label": ["yes", "no"]}).to_csv("truth.csv", index=False)
        >>> crowdppl.read_gold("truth.csv").to_dict()
        {'007': 'yes', '008': 'no'}
    """
    frame, found = _by_id(path, {"item": item, "class": label}, format, delimiter, encoding, pairs=True)
    truths = frame[found["class"]].rename("gold").rename_axis(None)
    truths.attrs = frame.attrs
    return by_item(truths)


def read_item_covariates(
    path: str | Path,
    item: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """What is known of items, by item id, to be given as ``item_covariates``.

    Args:
        path: a table, as of ``read_annotations``, with a column of items; its other columns are covariates.
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
    return _by_id(path, {"item": item}, format, delimiter, encoding)[0]


def read_annotator_covariates(
    path: str | Path,
    annotator: str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """What is known of annotators, by annotator id, to be given as ``annotator_covariates``.

    ``annotator`` names the column of ids, where it is not recognised; all else is as in ``read_item_covariates``.

    Examples:
        >>> import pandas as pd
        >>> pd.DataFrame({"worker": ["ann", "bob"], "years": [20, 3]}).to_csv("people.csv", index=False)
        >>> crowdppl.read_annotator_covariates("people.csv")["years"].to_dict()
        {'ann': 20, 'bob': 3}
    """
    return _by_id(path, {"annotator": annotator}, format, delimiter, encoding)[0]


def read_edges(
    path: str | Path, *, format: str | None = None, delimiter: str | None = None, encoding: str | None = None
) -> pd.DataFrame:
    """Which items are linked, an edge a row, to be given as ``edges``.

    Args:
        path: a table, as of ``read_annotations``, of two columns, whatever their names: the items that each edge
            links, in either order.
        format, delimiter, encoding: as for ``read_annotations``.

    Raises:
        DataError: when the file cannot be read, has not two columns, or an id is missing.

    Examples:
        >>> import pandas as pd
        >>> pd.DataFrame({"page": ["007", "008"], "links to": ["008", "009"]}).to_csv("links.csv", index=False)
        >>> crowdppl.read_edges("links.csv").to_numpy().tolist()
        [['007', '008'], ['008', '009']]
    """
    table, name = read_table(path, None, format, delimiter, encoding), require_path(path).name
    frame = as_pandas(table.frame, name)
    require_two(frame.shape[1], name)
    for column in frame.columns:
        values = encode(frame[column], "item", table.place)
        if table.text:
            refuse_missing_text(values, "item", table.place, (), "leave the row out")
    n, ids = max(1, len(frame)), pd.Index(frame.to_numpy().T.ravel(), dtype=object)
    frame.attrs[READ_FROM] = Origin.of(name, ids, lambda row: table.place(row % n))
    return frame


def _by_id(
    path: Any, roles: Roles, format: Any, delimiter: Any, encoding: Any, *, pairs: bool = False
) -> tuple[pd.DataFrame, dict[str, Hashable]]:
    """A file as a table by the column, or pair of columns, of its first role, and the column of each role."""
    table = read_table(path, None if pairs else roles, format, delimiter, encoding)
    name = require_path(path).name
    frame = as_pandas(table.frame, name)
    two = two_parts(list(frame.columns)) if pairs and roles["item"] is None else ()
    roles = {**dict.fromkeys(two), "class": roles["class"]} if two else roles
    if pairs and not any(roles.values()) and {"item", "class", "label"} <= {*frame.columns}:  # of sets, by class
        two, roles = ("item", "of"), {"item": "item", "of": "class", "class": "label"}
    found, place = recognise(list(frame.columns), roles, name), table.place
    if "class" in found:
        known = without_blanks(frame[found["class"]], table.text).index
        frame, place = frame.loc[known], lambda row: table.place(int(known[row]))
    if frame.empty:
        raise DataError(f"{name} has no rows{' of known class' if 'class' in found else ''}; give some")
    for role, column in found.items():
        values = encode(frame[column], role, place)
        if table.text:
            refuse_missing_text(values, role, place, (), "leave the row out")
    if two:
        first, second = (frame[found[part]] for part in two)
        ids: pd.Index[Any] = pd.Index([*zip(first, second, strict=True)], tupleize_cols=False)
        frame.attrs[READ_FROM] = Origin.of(name, ids, place)
        return frame.set_axis(ids), found
    role, column = next(iter(found.items()))
    ids = pd.Index(np.asarray(frame[column]), name=role)
    if "class" not in found and not ids.is_unique:
        again = int(np.argmax(ids.duplicated()))
        before = int(np.argmax(ids == ids[again]))
        raise DataError(
            f"the {role} {native(ids[again])!r} is at {place(before)} and again at {place(again)}; keep one of them"
        )
    frame.attrs[READ_FROM] = Origin.of(name, ids, place)
    return frame.drop(columns=[column]).infer_objects().set_axis(ids), found
