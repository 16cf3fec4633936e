"""A file as a table, with the place of each of its rows for messages."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from crowdppl.errors import DataError
from crowdppl.tables.encoding import Place

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
