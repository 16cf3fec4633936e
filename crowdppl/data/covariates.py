"""Columns of numbers about items, annotators and labels, aligned by id."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from crowdppl.core.validation import kind_of, shown
from crowdppl.data.features import StoredFeatures, not_numbers, numbers_of, plain_array, plain_table, require_finite
from crowdppl.data.ids import (
    READ_FROM,
    Codebook,
    Place,
    as_index,
    listed,
    native,
    nowhere,
    places_of,
    sorting,
    tensor_to_numpy,
)
from crowdppl.errors import DataError

EPOCH, DAY = pd.Timestamp(0), pd.Timedelta(days=1)
"""Times are numbers of days from 1970 on."""


@dataclass(frozen=True)
class CovariateColumns:
    """Columns of a table of covariates; one that holds no numbers is an error only when a model reads it.

    Attributes:
        what: "item_covariates", "annotator_covariates" or "label_covariates".
        names: of the columns, (D,).
        values: float64 (n, D), a row an item or label of the block, or an annotator; of a column that holds no
            numbers, the codes of its groups.
        mean: (D,), over all items, annotators or labels of the data.
        faults: by name, why a column cannot be read as numbers.
        levels: by name, of columns whose values name groups of items: the value of each group, (G,).
        books: by name, the groups that such a column names.
        asked: names that a model has read.
    """

    what: str
    names: tuple[Hashable, ...]
    values: Tensor
    mean: Tensor
    faults: Mapping[Hashable, str]
    levels: Mapping[Hashable, Tensor] = field(default_factory=dict)
    books: Mapping[Hashable, Codebook] = field(default_factory=dict)
    asked: set[Hashable] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(
        cls, table: pd.DataFrame | None, entity: str, order: np.ndarray | None = None
    ) -> CovariateColumns | None:
        """The columns of a table in codebook order, its rows in another ``order`` if given."""
        if table is None:
            return None
        values, ids = np.full(table.shape, np.nan), table.index
        faults: dict[Hashable, str] = {}
        levels: dict[Hashable, Tensor] = {}
        books: dict[Hashable, Codebook] = {}

        def place(row: int) -> str:
            return f"the {entity} {native(ids[row])!r}"

        for n, name in enumerate(table.columns):
            fault = _fill(values[:, n], table.iloc[:, n], place)
            if fault or (table.columns == name).sum() > 1:
                faults[name] = fault or "occurs several times; rename all but one"
            book = group_book(table.iloc[:, n]) if entity == "item" else None
            if book is not None:
                if fault:
                    values[:, n] = book.codes(table.iloc[:, n].array)
                level = np.arange(len(book)) if fault else book.ids
                levels[name] = torch.from_numpy(np.array(level, np.float64))
                books[name] = book
        mean = torch.from_numpy(values.mean(0) if len(values) else np.zeros(values.shape[1]))
        found = torch.from_numpy(values if order is None else values[order])
        return cls(f"{entity}_covariates", tuple(table.columns), found, mean, faults, levels, books)

    def chosen(self, names: Sequence[Hashable]) -> Tensor:
        """Some columns (n, D), without names all; DataError where one does not hold a number for everyone."""
        wanted = tuple(names) or self.names
        for name in wanted:
            self._require(name)
            if name in self.faults:
                raise DataError(f"the column {native(name)!r} of {self.what} {self.faults[name]}")
        self.asked.update(wanted)
        return self.held(wanted)

    def held(self, names: Sequence[Hashable]) -> Tensor:
        """Some columns (n, D), as numbers or as codes of groups."""
        return self.values[:, [self.names.index(name) for name in names]]

    def groups(self, *names: Hashable) -> tuple[Tensor, int]:
        """The group of each item that a column names, int64 (n,), or of several (n, columns); and their number.

        DataError where a column names none for some item, or holds floats, or columns have other categories.
        """
        codes = [self._codes(name) for name in names]
        book = self.books[names[0]]
        for name in names[1:]:
            if not self.books[name].ids.equals(book.ids):
                raise DataError(
                    f"the columns {native(names[0])!r} and {native(name)!r} of {self.what} name groups of one "
                    "kind, and have other categories; make both a pandas.Categorical with those of all groups"
                )
        return (codes[0] if len(names) == 1 else torch.stack(codes, -1)), len(book)

    def _codes(self, name: Hashable) -> Tensor:
        """The group of each item that one column names."""
        self._require(name)
        if name not in self.levels:
            raise DataError(
                f"the column {native(name)!r} of {self.what} names no groups: it holds floats, mixed types, or "
                "nothing for some item; give text or whole numbers for each"
            )
        self.asked.add(name)
        levels = self.levels[name].to(self.values.device)
        rank = levels.argsort()
        place = torch.searchsorted(levels[rank], self.held([name])[:, 0].contiguous())
        return rank[place.clamp(max=len(levels) - 1)]

    def _require(self, name: Hashable) -> None:
        if name not in self.names:
            there = ", ".join(repr(native(x)) for x in self.names) or "none"
            raise DataError(
                f"{self.what} have no column {native(name)!r}, which the model reads; there are {there}"
            )

    def at(self, rows: Tensor | slice) -> CovariateColumns:
        """Those of some items or labels."""
        return replace(self, values=self.values[rows])

    def only(self, names: Sequence[Hashable], values: Tensor) -> CovariateColumns:
        """Some of the columns, by other values (n, D)."""
        at = [self.names.index(name) for name in names]
        return replace(self, names=tuple(names), values=values, mean=self.mean[at])

    def average(self, n: int) -> CovariateColumns:
        """Those of n items or labels of which nothing is known: the mean over all."""
        return replace(self, values=self.mean.expand(n, -1))

    def to(self, device: torch.device | str) -> CovariateColumns:
        """A copy on a device."""
        return replace(self, values=self.values.to(device), mean=self.mean.to(device))

    @staticmethod
    def joined(parts: Iterable[CovariateColumns | None]) -> CovariateColumns | None:
        """One after the other, of parts of one table."""
        found = [part for part in parts if part is not None]
        return replace(found[0], values=torch.cat([part.values for part in found])) if found else None


def no_covariates(entity: str) -> str:
    """That data have no covariates of items, annotators or labels, and how to give some: the end of a sentence."""
    form = "names of columns" if entity == "label" else f"a DataFrame by {entity} id"
    return f"the data have none; give {entity}_covariates=, {form}"


def group_book(column: pd.Series[Any]) -> Codebook | None:
    """The groups that a column names; None where it names none for some item, or holds floats or mixed types."""
    categories = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else None
    if column.isna().any() or pd.api.types.is_float_dtype(column.dtype if categories is None else categories.dtype):
        return None
    try:
        ids = pd.Index(column.unique()) if categories is None else categories
        return Codebook("group", ids[sorting(ids, "group")] if categories is None else ids)
    except (TypeError, DataError):
        return None


def regrouped(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """New covariates of items whose groups have the codes of the old ones, or follow; equal ones stay equal."""
    out = new.copy()
    names = new.columns[~new.columns.duplicated(keep=False)]
    pairs = {name: (group_book(old[name]), group_book(new[name])) for name in names}
    books = {name: (known, own) for name, (known, own) in pairs.items() if known is not None and own is not None}
    for name, (known, _) in books.items():
        book = known
        for was, own in books.values():
            book = book.extended(own.ids) if was.ids.equals(known.ids) else book
        out[name] = pd.Categorical.from_codes(book.codes(new[name].array), categories=book.ids)
    return out


def _fill(out: np.ndarray, column: pd.Series[Any], place: Place) -> str:
    """Writes the numbers of a column into ``out``; returns what is wrong with it, and where, or ""."""
    there = column.notna().to_numpy(bool)
    present = column[there].infer_objects()  # a gap makes a column of whole numbers or of bool another one
    if isinstance(present.dtype, pd.CategoricalDtype):
        present = present.astype(present.cat.categories.dtype)
    kind = present.dtype
    if pd.api.types.is_datetime64_any_dtype(kind):
        out[there] = (present - EPOCH.tz_localize(getattr(kind, "tz", None))) / DAY
        return "" if there.all() else f"has no time for {place(int(np.argmin(there)))}; fill it in"
    if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind):
        odd = not_numbers(present)
        if 0 < len(odd) < len(present):
            row = int(np.flatnonzero(there)[odd[0]])
            return f"holds {shown(present.iloc[odd[0]])} at {place(row)}, which is no number; correct it"
        return f"holds no numbers (its dtype is {kind}); encode it as numbers, as pandas.get_dummies does"
    out[there] = present.to_numpy(np.float64)
    wrong = ~np.isfinite(out)
    if not wrong.any():
        return ""
    return f"has no finite number for {place(int(np.argmax(wrong)))} ({int(wrong.sum())} in all); fill it in"


def feature_table(
    features: Any, items: Iterable[Any] | Codebook | None, book: Codebook
) -> pd.DataFrame | np.ndarray | StoredFeatures | None:
    """Features in codebook order, one row an item: a DataFrame for a DataFrame, an array (N, ...) for an array.

    They are a DataFrame by item id, or an array, tensor or dataset (N, ...) whose rows belong to ``items``. Tables
    and arrays become dense, of integers, float32, float64 or bool; rows of a dataset are read when a network asks
    for them. DataError for an item of no features or several, and for what is no number, or not finite in float32.
    """
    if features is None:
        return None
    given = features
    if isinstance(features, pd.DataFrame):
        features = plain_table(features)
        ids, values = features.index, numbers_of(features)
    else:
        if items is None:
            raise DataError("features are an array or a dataset; give the item id of each row in items=")
        ids = as_index(items)
        if is_dataset(features):
            return StoredFeatures.of(features, ids).at(_rows(ids, book, "features", every=True))
        values = plain_array(features)
    if values.ndim < 2 or len(values) != len(ids):
        raise DataError(f"features have shape {values.shape} for {len(ids)} items; give one row an item")
    rows = _rows(ids, book, "features", every=True, at=places_of(given))
    values = values[rows]
    require_finite(values, book.ids, given)
    return _placed(features.iloc[rows], book) if isinstance(features, pd.DataFrame) else values


def covariate_table(frame: Any, book: Codebook) -> pd.DataFrame | None:
    """Covariates, a DataFrame by id, in codebook order; missing values where an id has no row."""
    if frame is None:
        return None
    what = f"{book.name}_covariates"
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"{what} is {kind_of(frame)}; give a DataFrame indexed by {book.name} id")
    rows = _rows(frame.index, book, what, every=False, at=places_of(frame))
    return _placed(frame.set_axis(pd.RangeIndex(len(frame))).reindex(rows), book)


def _placed(table: pd.DataFrame, book: Codebook) -> pd.DataFrame:
    """Rows by the ids of a book, without the file they were read from."""
    table = table.set_axis(book.ids)
    table.attrs.pop(READ_FROM, None)
    return table


def label_columns(given: Any, columns: pd.DataFrame | None, place: Place) -> tuple[Hashable, ...]:
    """Names of label covariates, columns of the table with a finite number in every row; else DataError."""
    there = [] if columns is None else list(columns.columns)
    names = there if isinstance(given, pd.DataFrame) else listed([] if given is None else given, "label_covariates")
    for name in names:
        if there.count(name) != 1 or name in ("item", "annotator", "label"):
            raise DataError(
                f"label_covariates name {native(name)!r}, which must be one further column of the table of labels; "
                f"there are {', '.join(repr(native(x)) for x in there) or 'none'}"
            )
        column = cast(pd.DataFrame, columns)[name]
        fault = _fill(np.full(len(column), np.nan), column, place)
        if fault:
            raise DataError(f"the column {native(name)!r} of label_covariates {fault}")
    return tuple(names)


def some_columns(columns: pd.DataFrame | None, names: Sequence[Hashable]) -> pd.DataFrame | None:
    """Some of the further columns of rows; None for none."""
    return columns[list(names)] if columns is not None and names else None


def history_table(history: Any, annotators: Codebook, n_classes: int) -> np.ndarray | None:
    """Pseudo-counts [annotator, truth, label] from earlier work, for use in a prior: float64 (A, K, K), or None.

    They are a mapping from annotator id to (K, K), zeros for those left out, or (A, K, K) in codebook order.
    DataError for an annotator who is unknown or named twice, another shape, and counts below 0 or not finite.
    """
    if history is None:
        return None
    if n_classes == 0:
        raise DataError("history= counts labels by class, and these labels are numbers; leave it out")
    shape = (len(annotators), n_classes, n_classes)
    if isinstance(history, Mapping):
        table = np.zeros(shape)
        remedy = "leave it out, or add it to annotators= if it is an annotator without labels"
        codes = annotators.require_once(history, "history", remedy)
        for annotator, counts in zip(codes, history.values(), strict=True):
            table[annotator] = _counts(
                counts, shape[1:], f"history of annotator {native(annotators.ids[annotator])!r}"
            )
        return table
    return _counts(history, shape, "history")


def _counts(counts: Any, shape: tuple[int, ...], origin: str) -> np.ndarray:
    try:
        table = np.ma.filled(np.ma.array(tensor_to_numpy(counts, origin), np.float64), np.nan)
    except (TypeError, ValueError) as error:
        raise DataError(f"{origin} holds what is no number ({error}); it must be {shape}, pseudo-counts") from error
    if table.shape != shape:
        raise DataError(f"{origin} has shape {table.shape}; it must be {shape}, rows for the truth")
    wrong = ~np.isfinite(table) | (table < 0)
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        raise DataError(f"{origin} holds {table[place]} at {place}; pseudo-counts are finite and not negative")
    return table


def _rows(
    ids: pd.Index[Any], book: Codebook, what: str, every: bool, at: Callable[[Any], str] = nowhere
) -> np.ndarray:
    """The row of each id of the book; -1 where there is none."""
    codes = book.require_once(ids, what, "correct it, or leave the row out", at)
    rows = np.full(len(book), -1, np.int64)
    rows[codes] = np.arange(len(codes))
    if every and (rows < 0).any():
        lost = native(book.ids[int(np.argmax(rows < 0))])
        raise DataError(f"{what} has no row for the {book.name} {lost!r} ({int((rows < 0).sum())} in all); add it")
    return rows


def is_dataset(features: Any) -> bool:
    """Whether features are a map-style dataset of torch, or look like one."""
    if isinstance(features, StoredFeatures | Dataset):
        return True
    known = isinstance(features, (Sequence, Mapping)) or hasattr(features, "shape")
    return hasattr(features, "__getitem__") and hasattr(features, "__len__") and not known
