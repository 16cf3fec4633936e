"""Tables of labels, long (a row a label) or wide (a column an annotator), as rows of item, annotator and label."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import kind_of
from crowdppl.data.columns import (
    ALIASES,
    PARTS_OF_ITEMS,
    UNSPECIFIC,
    Roles,
    apart_from_roles,
    letters,
    looks_like,
    named,
    not_annotators,
    recognise,
    refuse_twins,
)
from crowdppl.data.ids import (
    EXACT,
    Codebook,
    Encoding,
    Place,
    as_column,
    as_index,
    encode_text,
    native,
    place_in_rows,
    tensor_to_numpy,
)
from crowdppl.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


NESTED = 100
"""Rows in which nested records are looked for."""


@dataclass(frozen=True)
class Rows:
    """Who gave which item which label, one row a label.

    Attributes:
        item, annotator: columns of ids, (S,); of items with two parts, a table (S, 2), pairs or text.
        label: column of labels; None for a design without labels.
        columns: further columns that travel with the rows.
        place: where a row stands, for messages.
        text: whether everything is text because the file knows nothing else.
        items, annotators: ids that are there whether or not they have labels.
        gold: truths in the table by item id, blank where unknown and repeated where known; None without.
        roles: the columns that were read, by what they hold, for the summary; empty where there was no table.
    """

    item: Any
    annotator: Any
    label: Any | None
    columns: pd.DataFrame | None = None
    place: Place = place_in_rows
    text: bool = False
    items: Any = None
    annotators: Any = None
    gold: pd.Series[Any] | None = None
    roles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_arrays(
        cls, item: Any, annotator: Any, label: Any | None, columns: pd.DataFrame | None = None, parts: bool = False
    ) -> Rows:
        """Rows of lists, arrays or tensors; ``label`` is None for a design; items may have two ``parts``."""
        labels = None if label is None else as_column(label, "label")
        items = item if parts else as_column(item, "item")
        return cls(items, as_column(annotator, "annotator"), labels, columns)

    def __post_init__(self) -> None:
        columns = {"item": self.item, "annotator": self.annotator, "label": self.label}
        lengths = {name: len(column) for name, column in columns.items() if column is not None}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{n} {name}s" for name, n in lengths.items())
            raise DataError(f"there are {counts}; give one of each a row")
        if self.columns is not None and len(self.columns) != lengths["item"]:
            raise DataError(
                f"there are {lengths['item']} labels and {len(self.columns)} rows of covariates; give one a label"
            )
        if lengths["item"] == 0:
            raise DataError("there are no rows; give at least one label")


def rows_of_frame(frame: Any, given: Roles, origin: str, place: Place = place_in_rows, text: bool = False) -> Rows:
    """A table with one label a row; ``given`` are columns by role: item or its parts, annotator, label, gold.

    A further column named like a role is kept as "other_label", say. DataError when it is no table, or a column is
    missing, ambiguous, or guessed to hold items and counts rows.
    """
    frame = require_table(frame, origin)
    names = list(frame.columns if isinstance(frame, pd.DataFrame) else frame.column_names)
    try:
        roles = recognise(names, given, origin)
    except DataError:
        _refuse_nested(frame, origin)
        raise
    rest = [name for name in names if name not in roles.values()]
    columns = _selected(frame, rest, origin).rename(columns=apart_from_roles(rest, roles)) if rest else None
    annotator, label = (encode_text(frame[roles[r]], r, place) for r in ("annotator", "label"))
    item: Any
    if "item" in roles:
        item = encode_text(frame[roles["item"]], "item", place)
        if given.get("item") is None and letters(roles["item"]) in UNSPECIFIC:
            _refuse_row_numbers(item, roles["item"], origin)
    else:
        parts = {role: column for role, column in roles.items() if role in PARTS_OF_ITEMS}
        item = _selected(frame, [*parts.values()], origin).set_axis([*parts], axis=1)
        item = item if parts else pd.DataFrame(index=range(len(frame)))
    gold = None
    if "gold" in roles:
        known = _selected(frame, [roles["gold"]], origin).iloc[:, 0]
        if isinstance(item, pd.DataFrame) and item.shape[1] == 2:
            gold = known.set_axis(pd.MultiIndex.from_frame(item))
        else:
            ids = item.iloc[:, 0] if isinstance(item, pd.DataFrame) and item.shape[1] else item
            gold = known.set_axis(ids.values.take(ids.codes) if isinstance(ids, Encoding) else as_index(ids))
    said = {role: str(column) for role, column in roles.items()}
    return Rows(item, annotator, label, columns, place, text, gold=gold, roles=said)


def _refuse_nested(frame: pd.DataFrame | pa.Table, origin: str) -> None:
    """Refuses a table of which a column holds records, as labelling tools export the annotations of a task."""
    head = frame.head(NESTED) if isinstance(frame, pd.DataFrame) else as_pandas(frame.slice(0, NESTED), origin)
    cells = [(name, cell) for name in head.columns for cell in head[name]]
    lists = [(name, cell[0]) for name, cell in cells if isinstance(cell, list | np.ndarray) and len(cell)]
    for name, record in [*lists, *cells]:
        if isinstance(record, Mapping):
            tool, remedy = "", "make a row of each label, as pandas.json_normalize does"
            if "completed_by" in record:
                tool, remedy = " of Label Studio", "export CSV or JSON-MIN, and name the column of labels"
            keys = ", ".join(map(str, [*record][:5]))
            raise DataError(f"{origin} is a nested export{tool}: {name!r} holds records of {keys}; {remedy}")


def _selected(frame: pd.DataFrame | pa.Table, names: list[Hashable], origin: str) -> pd.DataFrame:
    """Some columns of a table."""
    return frame[names] if isinstance(frame, pd.DataFrame) else as_pandas(frame.select(names), origin)


def _refuse_row_numbers(ids: Encoding | pd.Series[Any], column: Hashable, origin: str) -> None:
    """Refuses a column, guessed to hold items, that differs in each row."""
    distinct = len(ids.values) if isinstance(ids, Encoding) else ids.astype(str).nunique()
    if distinct == len(ids) > 1:
        raise DataError(f"{origin}: {column!r} differs in each row, and seems to count rows, not items; say item=")


def require_table(frame: Any, origin: str) -> pd.DataFrame | pa.Table:
    """A DataFrame as it is, any other table through its Arrow stream; DataError for all else."""
    if isinstance(frame, pd.DataFrame):
        return frame
    import pyarrow as pa  # slow to import

    try:
        if hasattr(type(frame), "__arrow_c_stream__"):
            return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError):
        pass  # a stream of something else than rows
    raise DataError(
        f"{origin} is {kind_of(frame)}, and no table; give a DataFrame of pandas or polars, a table of pyarrow or "
        "duckdb, or read a file by crowdppl.read_annotations"
    )


def as_pandas(frame: pd.DataFrame | pa.Table, origin: str) -> pd.DataFrame:
    """Either as a DataFrame, whose index counts rows if it comes from Arrow; DataError where pandas has no such."""
    if isinstance(frame, pd.DataFrame):
        return frame
    try:
        # Without the metadata of pandas, by which a column may become the index.
        found: pd.DataFrame = frame.to_pandas(ignore_metadata=True)
        return found
    except (ValueError, TypeError, NotImplementedError) as error:
        raise DataError(f"{origin} cannot be read: {error}") from error


def arrow_table(frame: pd.DataFrame) -> pa.Table:
    """A table for Arrow, its index the first column."""
    return _side_by_side([_arrow(frame.index)], [frame.index.name], frame)


def coded_table(columns: Mapping[str, tuple[pd.Index[Any], np.ndarray]], rest: pd.DataFrame | None) -> pa.Table:
    """Columns as values and codes, and further ones, for Arrow."""
    import pyarrow as pa  # slow to import

    coded = [pa.DictionaryArray.from_arrays(codes, _arrow(ids)) for ids, codes in columns.values()]
    return _side_by_side(coded, columns, pd.DataFrame() if rest is None else rest)


def _side_by_side(arrays: list[Any], names: Iterable[Hashable], rest: pd.DataFrame) -> pa.Table:
    """Arrays, then the columns of a table."""
    import pyarrow as pa  # slow to import

    more = [_arrow(rest.iloc[:, n]) for n in range(rest.shape[1])]
    return pa.Table.from_arrays([*arrays, *more], [str(name) for name in (*names, *rest.columns)])


def _arrow(column: Any) -> Any:
    """A column as an array of Arrow; values that no type of Arrow holds together become text."""
    import pyarrow as pa  # slow to import

    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        return pa.array(column.map(str, na_action="ignore"), from_pandas=True)


def rows_of_wide(
    frame: Any, given: Roles, annotators: Any = None, place: Place = place_in_rows, text: bool = False
) -> Rows:
    """A table with a row an item and a column an annotator; an empty cell, or one of blanks, is no label.

    Columns of annotators are those that ``annotators`` lists; else all but gold, of which none may look like
    something else. Items are in the column given for "item", else in one that is recognised where the index only
    counts rows, else in the index. DataError where columns are given for other roles, have one name or are those
    of a long table.
    """
    origin = "the wide table"
    frame = as_pandas(require_table(frame, origin), origin)
    refuse_twins(list(frame.columns), origin)
    others = {role: given[role] for role in ("annotator", "label") if given.get(role) is not None}
    if others:
        raise DataError(f"{others} name columns, but each column of a wide table is an annotator; leave them out")
    frame = _by_item(frame, given.get("item"), text, origin)
    said, gold = {"item": str(frame.index.name or "the index")}, None
    if given.get("gold") is not None:
        truth = recognise(list(frame.columns), {"gold": given["gold"]}, origin)["gold"]
        gold, said["gold"] = frame[truth], str(truth)
        frame = frame.drop(columns=truth)
    frame = _of_annotators(frame, annotators, origin)
    row, column, labels = _cells(frame, frame, np.nan)
    return Rows(
        frame.index.take(row),
        frame.columns.take(column),
        labels,
        place=lambda label: f"column {frame.columns[column[label]]!r} of {place(int(row[label]))}",
        text=text,
        items=frame.index,
        annotators=frame.columns,
        gold=gold,
        roles=said | {"annotator": ", ".join(map(str, frame.columns))},
    )


def _by_item(frame: pd.DataFrame, item: Hashable | None, text: bool, origin: str) -> pd.DataFrame:
    """A wide table with its items as the index: of a column, or as they are."""
    if item is None and _counts_rows(frame.index):
        _refuse_unspecific(frame, origin)
        if text or looks_like(list(frame.columns), "item"):
            item = recognise(list(frame.columns), {"item": None}, origin)["item"]
    if item is None:
        return frame
    return frame.set_index(recognise(list(frame.columns), {"item": item}, origin)["item"])


def _of_annotators(frame: pd.DataFrame, listed: Any, origin: str) -> pd.DataFrame:
    """The columns of annotators: those of a list; else all, and one that looks like something else is refused."""
    if listed is not None and not isinstance(listed, Codebook):
        known = Codebook("annotator", frame.columns)
        return frame.iloc[:, known.require_once(listed, "annotators=", "name columns of the table")]
    one, other = (named(list(frame.columns), ALIASES[role][0], role) for role in ("annotator", "label"))
    if one and other:
        raise DataError(
            f"{origin} has columns {one[0]!r} and {other[0]!r}, as a table with a label a row has; leave out "
            "wide=, or name the columns of annotators in annotators="
        )
    _refuse_others(frame, origin, "name the columns of annotators in annotators=, or give it as gold_column=")
    return frame


def _refuse_others(frame: pd.DataFrame, origin: str, remedy: str) -> None:
    """Refuses a column that looks like something else than an annotator's labels."""
    for column, why in not_annotators(frame):
        raise DataError(f"{origin} has a column {column!r} that looks like no annotator's, {why}; {remedy}")


def rows_of_matrix(matrix: Any, missing: Any, items: Any, annotators: Any) -> Rows:
    """A matrix (N, A) of labels: array, tensor, table or rows; what a mask covers, or is ``missing``, is no label.

    By default missing is what pandas takes so, -1 among what are no floats, and text of blanks; ``items`` and
    ``annotators`` are those of a table, else numbers. DataError if it is sparse or nothing fits.
    """
    values = tensor_to_numpy(matrix, "the matrix")
    try:
        values = np.asanyarray(values)
    except (TypeError, ValueError) as error:
        raise DataError(f"the matrix cannot be read ({error}); give rows of one length") from error
    if values.ndim != 2:
        raise DataError(f"the matrix has shape {values.shape}; give a row an item and a column an annotator")
    if isinstance(matrix, pd.DataFrame):
        items = matrix.index if items is None else items
        annotators = _annotators_of(matrix) if annotators is None else annotators
    ids = []
    for axis, names, size in zip(("items", "annotators"), (items, annotators), values.shape, strict=True):
        ids.append(as_index(np.arange(size) if names is None else names))
        if len(ids[-1]) != size:
            raise DataError(f"the matrix has {size} {axis}, but {axis}= names {len(ids[-1])}")
    row, column, labels = _cells(matrix, values, missing)
    return Rows(
        ids[0].take(row),
        ids[1].take(column),
        labels,
        place=lambda label: f"[{row[label]}, {column[label]}]",
        items=ids[0],
        annotators=ids[1],
    )


def rows_of_dicts(dicts: Mapping[Hashable, Mapping[Hashable, Any]]) -> Rows:
    """Dictionaries {annotator: {item: label}}; DataError when they, or the inner values, are no mappings."""
    inner = dicts.values() if isinstance(dicts, Mapping) else [dicts]
    wrong = next((labels for labels in inner if not isinstance(labels, Mapping)), None)
    if wrong is not None or not isinstance(dicts, Mapping):
        raise DataError(f"labels are {kind_of(wrong)}; give a dictionary {{annotator: {{item: label}}}}")
    triples = [(i, a, label) for a, labels in dicts.items() for i, label in labels.items()]
    return Rows(
        item=[item for item, _, _ in triples],
        annotator=[annotator for _, annotator, _ in triples],
        label=[label for _, _, label in triples],
        place=lambda row: f"annotator {native(triples[row][1])!r}, item {native(triples[row][0])!r}",
        annotators=list(dicts),
    )


def _counts_rows(index: pd.Index[Any]) -> bool:
    """Whether an index says nothing of items; sorted and filtered tables keep whole numbers without a name."""
    return index.name is None and pd.api.types.is_integer_dtype(index.dtype)


def _refuse_unspecific(table: pd.DataFrame, origin: str, also: Sequence[Hashable] = ()) -> None:
    """Refuses a column that may hold the items or be an annotator's."""
    found = [*(column for column in table.columns if letters(column) in UNSPECIFIC), *also]
    if found:
        raise DataError(
            f"{origin} has a column {found[0]!r}, which may hold the items or be an annotator's; make it the "
            "index (a wide table: say item=), or drop it"
        )


def _annotators_of(table: pd.DataFrame) -> pd.Index[Any]:
    """The columns of a matrix; refuses two of one name, and one of items, whose ids would be labels."""
    refuse_twins(list(table.columns), "the matrix")
    if _counts_rows(table.index):
        _refuse_unspecific(table, "the matrix", looks_like(list(table.columns), "item"))
    _refuse_others(table, "the matrix", "drop it, or name all columns in annotators=")
    return table.columns


def _cells(matrix: Any, values: Any, missing: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Row, column and label of each cell with one: categoricals, if the matrix holds such; none is missing."""
    given, values = ~np.ma.getmaskarray(values), np.asarray(np.ma.getdata(values))
    if missing is None or pd.isna(missing):
        given &= ~pd.isna(values)
        if values.dtype.kind in "OU":
            given[given] = [not (isinstance(x, str) and not x.strip()) for x in values[given]]
        if missing is None and values.dtype.kind != "f":
            given[given] = values[given] != -1
    else:
        given &= np.where(pd.isna(values), True, values != missing)
    row, column = np.nonzero(given)
    labels = values[row, column]
    if pd.api.types.infer_dtype(labels) in ("floating", "mixed-integer-float"):
        labels = _whole(labels.astype(np.float64))
    if isinstance(matrix, pd.DataFrame):
        return row, column, _as_categories(matrix, labels, -1 if missing is None else missing)
    return row, column, labels


def _as_categories(table: pd.DataFrame, labels: np.ndarray, missing: Any) -> Any:
    """Labels of columns that are all categoricals as one, ordered if all are alike; unused ones stay classes."""
    kinds: list[Any] = list(table.dtypes)
    if not kinds or not all(isinstance(kind, pd.CategoricalDtype) for kind in kinds):
        return labels
    names = kinds[0].categories
    for kind in kinds[1:]:
        names = names.union(kind.categories, sort=False)
    names = pd.Index(_whole(names.to_numpy()))
    same = bool(kinds[0].ordered) and all(kind == kinds[0] for kind in kinds)
    return pd.Categorical(labels, names if pd.isna(missing) else names[names != missing], ordered=same)


def _whole(values: np.ndarray) -> np.ndarray:
    """Floats that are all whole numbers as integers: missing cells had made them floats."""
    if values.dtype.kind != "f" or not (np.abs(values) < EXACT).all() or (values % 1).any():
        return values
    return values.astype(np.int64)
