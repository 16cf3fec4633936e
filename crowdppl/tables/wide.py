"""Annotations in other shapes than one label a row: wide tables, matrices, dictionaries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.errors import DataError
from crowdppl.tables.codebook import as_index, plain
from crowdppl.tables.columns import looks_like, recognise, refuse_twins, unspecific, usually
from crowdppl.tables.encoding import Place, place_in_rows
from crowdppl.tables.handover import as_matrix, unmasked
from crowdppl.tables.rows import Rows, require_table


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
