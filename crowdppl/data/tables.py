"""Tables of labels, long (a row a label) or wide (a column an annotator), as columns."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.ids import ROW, Place, as_index, as_matrix, place_in_rows, plain, unmasked
from crowdppl.errors import DataError

# Usual names first; the others count only where no usual one is there, because tables of labels often carry a
# text, an image or a value along.
ALIASES: Mapping[str, tuple[str, str]] = {
    "item": (
        "item task question subject example",
        "instance object unit document doc image sentence text patient sample hit record case",
    ),
    "annotator": (
        "annotator worker rater coder user",
        "labeler labeller judge grader observer reviewer expert performer contributor participant",
    ),
    "label": (
        "label answer rating response",
        "class category annotation judgment judgement grade score choice vote value",
    ),
    "class": ("label class truth gold answer", "category true rating target"),
}

SAID: Mapping[str, str] = {"class": "label"}
"""How a reader of files calls a role, where not by its name."""

# What tables call their rows: pandas writes an index under no name, and reads it back as "Unnamed: 0".
UNSPECIFIC = frozenset(["id", "ids", "index", "unnamed0"])


def recognise(
    columns: Sequence[Hashable], given: Mapping[str, Hashable | None], origin: str
) -> dict[str, Hashable]:
    """Finds the column of each role.

    Names are compared without regard to case, spaces, underscores and a final "id".

    Args:
        columns: names of all columns.
        given: for each role ("item", "annotator", "label"; "class" in a table of gold) the column that holds it,
            or None to look for it.
        origin: what the columns belong to, for messages.

    Raises:
        DataError: when a column is missing, occurs twice, or several could be meant.
    """
    listed = ", ".join(map(repr, columns)) or "none"
    refuse_twins(columns, origin)
    found = {role: column for role, column in given.items() if column is not None}
    for role, column in found.items():
        if column not in columns:
            raise DataError(f"{origin} has no column {column!r} for {role}; its columns are {listed}")
    taken = set(found.values())
    if len(taken) < len(found):
        raise DataError(f"one column is given for several of {', '.join(found)}; each needs one of its own")
    for role in [role for role in given if role not in found]:
        near = looks_like([c for c in columns if c not in taken], role)
        if len(near) > 1:
            names = ", ".join(map(repr, near))
            raise DataError(
                f"{origin}: the {role} could be any of the columns {names}; say {SAID.get(role, role)}="
            )
        if not near:
            lost = [one for one in ("annotator", "label") if one in given and one not in found]
            alike = len(lost) == 2 and not any(looks_like(columns, one) for one in lost)
            wide = ", or wide=True if each annotator has a column" if alike else ""
            raise DataError(
                f"{origin} has no column that looks like {role} (such as {ALIASES[role][0].replace(' ', ', ')}); "
                f"its columns are {listed}; say {SAID.get(role, role)}={wide}"
            )
        found[role] = near[0]
    return {role: found[role] for role in given}


def refuse_twins(columns: Sequence[Hashable], origin: str) -> None:
    """Refuses columns of one name.

    Raises:
        DataError: naming the first.
    """
    seen: set[Hashable] = set()
    for column in columns:
        if column in seen:
            raise DataError(f"{origin} has several columns named {column!r}; rename all but one")
        seen.add(column)


def unspecific(column: Hashable) -> bool:
    """Whether a column holds ids or row numbers by its name, without a word of what they number."""
    return isinstance(column, str) and re.sub(r"[^a-z0-9]", "", column.lower()) in UNSPECIFIC


def names_nothing(columns: Sequence[Hashable]) -> bool:
    """Whether no column is named like any role, as where the first line of a file is a row."""
    return not any(looks_like(columns, role) for role in ALIASES)


def looks_like(columns: Sequence[Hashable], role: str) -> list[Hashable]:
    """Columns that are named like a role: by a usual name, or else by one of the others."""
    return usually(columns, role) or _named(columns, ALIASES[role][1])


def usually(columns: Sequence[Hashable], role: str) -> list[Hashable]:
    """Columns that have a usual name of a role."""
    return _named(columns, ALIASES[role][0])


def _named(columns: Sequence[Hashable], names: str) -> list[Hashable]:
    return [column for column in columns if _bare(column) in names.split()]


def _bare(column: Hashable) -> str:
    word = re.sub(r"[^a-z0-9]", "", str(column).lower()) if isinstance(column, str) else ""
    return word.removesuffix("ids").removesuffix("id") if word not in ("id", "ids") else ""


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


def rows_of_wide(
    frame: pd.DataFrame, given: Mapping[str, Hashable | None], place: Place = place_in_rows, text: bool = False
) -> Rows:
    """A table with a row an item and a column an annotator; an empty cell, or one of blanks, is no label.

    Args:
        frame: the table.
        given: the column of "item" ids, by default one that is recognised where the index only counts rows,
            else the index; other roles have no column here.
        place: where a row stands.
        text: whether the cells are text because the file knows nothing else.

    Raises:
        DataError: when it is no table, a column is given for another role, two have one name, several could hold
            the items, or columns are called as those of a table with a label a row are.
    """
    require_table(frame, "the wide table")
    refuse_twins(list(frame.columns), "the wide table")
    others = {role: column for role, column in given.items() if column is not None and role != "item"}
    if others:
        raise DataError(f"{others} name columns, but each column of a wide table is an annotator; leave them out")
    item = given.get("item")
    if item is None and _counts_rows(frame.index):
        item = _item_column(list(frame.columns), text)
    if item is not None:
        item = recognise(list(frame.columns), {"item": item}, "the wide table")["item"]
        frame = frame.set_index(item)
    _refuse_long(list(frame.columns))
    row, column, cells = _cells(frame)
    return Rows(
        frame.index.take(row),
        frame.columns.take(column),
        cells,
        place=lambda label: f"column {frame.columns[column[label]]!r} of {place(int(row[label]))}",
        text=text,
        items=frame.index,
        annotators=frame.columns,
        without="leave the cell empty",
    )


def rows_of_matrix(matrix: Any, missing: Any, items: Any, annotators: Any) -> Rows:
    """A matrix (N, A) of labels.

    Args:
        matrix: array, tensor or table; what a masked array masks is no label.
        missing: what else means that there is no label; by default NaN among floats, -1 among whole numbers, and
            among texts one that is empty or of blanks.
        items, annotators: ids of rows and columns; by default those of a table, else their numbers.

    Raises:
        DataError: when it is sparse, has other than two dimensions, or ids do not fit.
    """
    missing = np.nan if missing is pd.NA else missing
    values, masked = as_matrix(matrix)
    if values.dtype == object:
        # pandas' own NA equals nothing, and differs from nothing.
        values = unmasked(np.ma.masked_array(values, pd.isna(values)))
    if isinstance(matrix, pd.DataFrame):
        items = matrix.index if items is None else items
        annotators = _annotators_of(matrix) if annotators is None else annotators
    ids = []
    for axis, names, size in zip(("items", "annotators"), (items, annotators), values.shape, strict=True):
        ids.append(as_index(np.arange(size) if names is None else names))
        if len(ids[-1]) != size:
            raise DataError(f"the matrix has {size} {axis}, but {axis}= names {len(ids[-1])}")
    row, column = np.nonzero(_given(values, missing) & ~masked)
    cells = _whole(values[row, column])
    return Rows(
        ids[0].take(row),
        ids[1].take(column),
        _of_categories(matrix, cells, -1 if missing is None else missing)
        if isinstance(matrix, pd.DataFrame)
        else cells,
        place=lambda label: f"[{row[label]}, {column[label]}]",
        items=ids[0],
        annotators=ids[1],
        without="make it NaN, which is no label",
    )


def rows_of_dicts(dicts: Mapping[Hashable, Mapping[Hashable, Any]]) -> Rows:
    """Dictionaries {annotator: {item: label}}.

    Raises:
        DataError: when they, or the inner values, are no mappings.
    """
    if not isinstance(dicts, Mapping):
        raise DataError(
            f"labels are of type {type(dicts).__name__}; give a dictionary {{annotator: {{item: label}}}}"
        )
    for annotator, labels in dicts.items():
        if not isinstance(labels, Mapping):
            raise DataError(
                f"annotator {annotator!r} has {labels!r}; give a dictionary {{annotator: {{item: label}}}}"
            )
    triples = [(i, a, label) for a, labels in dicts.items() for i, label in labels.items()]
    return Rows(
        item=[item for item, _, _ in triples],
        annotator=[annotator for _, annotator, _ in triples],
        label=[label for _, _, label in triples],
        place=lambda row: f"annotator {plain(triples[row][1])!r}, item {plain(triples[row][0])!r}",
        annotators=as_index(dicts),
        without="leave it out",
    )


def _refuse_long(columns: list[Hashable]) -> None:
    """Refuses a table with a label a row, whose columns would be taken for two annotators."""
    one, other = (usually(columns, role) for role in ("annotator", "label"))
    if one and other:
        raise DataError(
            f"the wide table has columns {one[0]!r} and {other[0]!r}, as a table with a label a row has; leave out "
            "wide=, or rename these columns if they are annotators"
        )


def _counts_rows(index: pd.Index[Any]) -> bool:
    """Whether an index says nothing of items; sorted and filtered tables keep whole numbers without a name."""
    return index.name is None and pd.api.types.is_integer_dtype(index.dtype)


def _item_column(columns: list[Hashable], text: bool) -> Hashable | None:
    """The column that is named like items; None where the table counts them, which a file of text does not."""
    unsaid = [column for column in columns if unspecific(column)]
    if unsaid:
        raise DataError(
            f"the wide table has a column {unsaid[0]!r}, which may hold the items or be an annotator's; say item=, "
            "or drop it"
        )
    if not text and not looks_like(columns, "item"):
        return None
    return recognise(columns, {"item": None}, "the wide table")["item"]


def _annotators_of(table: pd.DataFrame) -> pd.Index[Any]:
    """The columns of a matrix.

    Raises:
        DataError: when two have one name, or one seems to hold the items, so that its ids would be labels.
    """
    columns = list(table.columns)
    refuse_twins(columns, "the matrix")
    own = [column for column in columns if unspecific(column)] + looks_like(columns, "item")
    if own and _counts_rows(table.index):
        raise DataError(
            f"the matrix has a column {own[0]!r}, which may hold the items or be an annotator's; make it the "
            "index, drop it, or name the annotators in annotators="
        )
    return table.columns


def _given(values: np.ndarray, missing: Any) -> np.ndarray:
    """Where a matrix holds labels."""
    if missing is None and values.dtype.kind != "f":
        given: np.ndarray = np.asarray(values != -1)
        if values.dtype.kind in "OU":
            given &= ~_blank(values.ravel()).reshape(values.shape)
        return given
    found: np.ndarray = ~pd.isna(values) if missing is None or missing != missing else values != missing
    return found


def _cells(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, Any]:
    """Row, column and label of each cell that holds one."""
    filled = frame.notna().to_numpy(copy=True)
    if all(isinstance(kind, np.dtype) and kind.kind in "iufb" for kind in frame.dtypes):
        row, column = np.nonzero(filled)
        return row, column, _whole(frame.to_numpy()[row, column])
    cells = frame.to_numpy(dtype=object)
    filled[filled] = ~_blank(cells[filled])
    cells = cells[filled]
    kind = pd.api.types.infer_dtype(cells)
    row, column = np.nonzero(filled)
    numbers = kind in ("floating", "mixed-integer-float")
    return row, column, _of_categories(frame, _whole(cells.astype(np.float64)) if numbers else cells)


def _of_categories(table: pd.DataFrame, cells: np.ndarray, missing: Any = None) -> Any:
    """Cells of columns that are all categoricals as one, so that a category that nobody used stays a class.

    Args:
        table: the columns; their order of categories counts where it is the same in all.
        cells: labels, (S,).
        missing: a category that is no label.
    """
    kinds: list[Any] = list(table.dtypes)
    if not kinds or not all(isinstance(kind, pd.CategoricalDtype) for kind in kinds):
        return cells
    names = kinds[0].categories
    for kind in kinds[1:]:
        names = names.union(kind.categories, sort=False)
    names = pd.Index(_whole(names.to_numpy()))
    same = bool(kinds[0].ordered) and all(kind == kinds[0] for kind in kinds)
    return pd.Categorical(cells, names if missing is None else names[names != missing], ordered=same)


def _blank(cells: np.ndarray) -> np.ndarray:
    """Which of some cells hold a text that is empty or of blanks, bool (S,); each word is looked at once."""
    try:
        blanks = [word for word in set(cells.tolist()) if isinstance(word, str) and not word.strip()]
    except TypeError:  # a list, say, which is refused as a label
        return np.zeros(len(cells), bool)
    return pd.Series(cells, dtype=object).isin(blanks).to_numpy() if blanks else np.zeros(len(cells), bool)


def _whole(values: np.ndarray) -> np.ndarray:
    """Floats that are all whole numbers as such: only missing cells had made them floats."""
    if values.dtype.kind != "f" or not np.isfinite(values).all() or (values % 1).any():
        return values
    return values.astype(np.int64)
