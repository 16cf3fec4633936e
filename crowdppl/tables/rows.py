"""Labels as a table of rows, in whatever types they were handed over."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import pandas as pd

from crowdppl.errors import DataError
from crowdppl.tables.columns import recognise
from crowdppl.tables.encoding import ROW, Place, place_in_rows

MAKE_A_TABLE = "pandas.DataFrame(...) makes one of dictionaries, lists and records"


@dataclass(frozen=True)
class Rows:
    """Who gave which item which label, one row a label.

    Attributes:
        item, annotator: columns of ids, (S,).
        label: column of labels; None for a design without labels.
        columns: further columns that travel with the rows.
        place: where a row stands, for messages.
        text: whether everything is text because the file knows nothing else.
        items, annotators: ids that are there whether or not they have labels.
        without: how one label is left out, for messages.
    """

    item: Any
    annotator: Any
    label: Any | None
    columns: pd.DataFrame | None = None
    place: Place = place_in_rows
    text: bool = False
    items: Any = None
    annotators: Any = None
    without: str = ROW

    def __post_init__(self) -> None:
        columns = {"item": self.item, "annotator": self.annotator, "label": self.label}
        lengths = {_length(column, name) for name, column in columns.items() if column is not None}
        if len(lengths) > 1:
            raise DataError(
                f"there are {len(self.item)} items, {len(self.annotator)} annotators and "
                f"{len(self.item if self.label is None else self.label)} labels; give one of each a row"
            )
        if lengths == {0}:
            raise DataError("there are no rows, so that there is nothing to learn from; give at least one label")


def rows_of_frame(
    frame: pd.DataFrame,
    given: Mapping[str, Hashable | None],
    origin: str,
    place: Place = place_in_rows,
    text: bool = False,
) -> Rows:
    """A table with one label a row.

    Args:
        frame: the table.
        given: the column of "item", "annotator" and "label", or None to recognise it.
        origin: what the table is, for messages.
        place: where a row stands.
        text: whether ids and labels are text because the file knows nothing else.

    Raises:
        DataError: when it is no table, a column is missing or ambiguous, or a further one bears the name of one of
            the three.
    """
    require_table(frame, origin)
    roles = recognise(list(frame.columns), given, origin)
    rest = frame[[column for column in frame.columns if column not in roles.values()]]
    clash = [column for column in rest.columns if column in roles]
    if clash:
        raise DataError(
            f"{origin} has a column {clash[0]!r}, but {clash[0]} is read from "
            f"{roles[clash[0]]!r}; rename or drop one"
        )
    return Rows(
        frame[roles["item"]],
        frame[roles["annotator"]],
        frame[roles["label"]],
        columns=rest if len(rest.columns) else None,
        place=place,
        text=text,
    )


def require_table(frame: Any, origin: str) -> None:
    """Refuses what is no DataFrame.

    Raises:
        DataError: with what would make it one.
    """
    if isinstance(frame, pd.DataFrame):
        return
    remedy = "crowdppl.read_annotations reads files" if isinstance(frame, str | PathLike) else MAKE_A_TABLE
    raise DataError(f"{origin} is of type {type(frame).__name__}, and no pandas DataFrame; {remedy}")


def _length(column: Any, name: str) -> int:
    try:
        return len(column)
    except TypeError as error:
        raise DataError(
            f"the {name} column is of type {type(column).__name__}, which has no length; give one value a row, as "
            "a list or an array"
        ) from error
