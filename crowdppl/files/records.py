"""Files of JSON records: an object a line, or one list of objects."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from crowdppl.doors.naming import shown
from crowdppl.errors import DataError
from crowdppl.files.table import Table, open_text, undecodable

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
