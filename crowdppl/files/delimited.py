"""Files of delimited text (CSV, TSV and their kin): where the header stands, and what separates the fields."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from crowdppl.errors import DataError
from crowdppl.files.table import UTF8, AsText, Table, frame_of, open_text, undecodable
from crowdppl.tables.columns import names_nothing

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
