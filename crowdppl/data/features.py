"""Features of items: tables, arrays, tensors, or rows read from disk when a network asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.devices import default_dtype
from crowdppl.core.validation import kind_of, listed, require_data, shown, warn
from crowdppl.data.ids import native, places_of, tensor_to_numpy
from crowdppl.errors import CrowdpplWarning, DataError, ResultError


@dataclass(frozen=True, eq=False, repr=False)
class StoredFeatures:
    """Rows of a ``torch.utils.data.Dataset``, one an item, read when a network asks for them.

    To networks it is a tensor (N, ...) of float32: a slice is a view, and rows by number are read. A dataset must
    give the same row each time; random crops of images belong into the network, where ``training`` is true.
    ``numpy.asarray`` reads everything.

    Attributes:
        dataset: gives a row by its number, or a tuple or list that begins with it, such as an image and its class.
        rows: int64 (N,), the number of each item's row.
        ids: of the items (N,), for messages.
        row_shape: of a row; () until one was read.
        device: where rows go.
        whole: whether the first row was of whole numbers.
    """

    dataset: Any
    rows: np.ndarray
    ids: pd.Index[Any]
    row_shape: tuple[int, ...] = ()
    device: torch.device | str = "cpu"
    whole: bool = False

    @classmethod
    def of(cls, dataset: Any, ids: pd.Index[Any]) -> StoredFeatures:
        """All rows of a dataset, in the order of these items; the first is read, for its shape."""
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise DataError(f"features are {kind_of(dataset)}; give a dataset with __len__ and __getitem__")
        if isinstance(dataset, StoredFeatures):
            found = replace(dataset, ids=ids)
        else:
            found = cls(dataset, np.arange(len(dataset)), ids)
        if len(found.rows) != len(ids):
            raise DataError(
                f"the dataset of features has {len(found.rows)} rows for {len(ids)} items; give one each"
            )
        first = found._given(0) if len(ids) else ()
        shape = tuple(found._numbers(first, 0).shape)
        whole = "int" in str(first.dtype if isinstance(first, Tensor) else np.asarray(first).dtype)
        if len(ids) and not shape:
            raise DataError(f"{found._place(0)} is a single number; let the dataset return rows of numbers")
        return replace(found, row_shape=shape, whole=whole)

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return (len(self.rows), *self.row_shape)

    @property
    def ndim(self) -> int:
        """Dimensions, that of items included."""
        return len(self.shape)

    def dim(self) -> int:
        """Dimensions, as a tensor says it."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        """A view for a slice; else the rows, by their numbers or by a mask, or the row, read."""
        if isinstance(at, slice):
            return self.at(at)
        if isinstance(at, int | np.integer):
            return self.at(np.array([at])).read()[0]
        return self.at(at).read()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.to("cpu").read().numpy(), dtype)

    def __repr__(self) -> str:
        return f"StoredFeatures({len(self)} rows {self.row_shape} of {type(self.dataset).__name__})"

    def at(self, rows: Any) -> StoredFeatures:
        """Some rows, not yet read, by a slice, numbers or a mask."""
        index = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
        return replace(self, rows=self.rows[index], ids=self.ids[index])

    def to(self, device: torch.device | str) -> StoredFeatures:
        """A copy whose rows go to a device."""
        return replace(self, device=device)

    def split(self, size: int) -> Iterator[Tensor]:
        """All rows, read so many at a time."""
        for first in range(0, max(1, len(self)), size):
            yield self[first : first + size].read()

    def read(self) -> Tensor:
        """All rows, float32 (N, ...), on the device; DataError, with row and item, for one that cannot be used."""
        at_home = torch.get_default_device().type == "cpu"
        with default_dtype(torch.float32), nullcontext() if at_home else torch.device("cpu"):  # as datasets expect
            found = [self._row(n) for n in range(len(self))]
        for n, row in enumerate(found):
            if tuple(row.shape) != self.row_shape:
                raise DataError(
                    f"{self._place(n)} has shape {tuple(row.shape)}, the first one {self.row_shape}; give one shape"
                )
        out = torch.stack(found) if found else torch.empty(self.shape, dtype=torch.float32, device="cpu")
        finite = out.isfinite().flatten(1).all(1)
        if not bool(finite.all()):
            raise DataError(f"a feature of {self._place(int((~finite).nonzero()[0]))} is not finite; fill it in")
        if torch.device(self.device).type == "cuda":
            out = out.pin_memory()  # so that the network need not wait for the copy
        return out.to(self.device, non_blocking=True)

    def described(self) -> dict[str, Any]:
        """What a saved result keeps: which rows, of what shape."""
        return {"rows": self.rows, "row_shape": list(self.row_shape), "whole": self.whole}

    @classmethod
    def recalled(cls, kept: Mapping[str, Any], ids: pd.Index[Any], dataset: Any = None) -> StoredFeatures:
        """The features that ``described`` describes; ResultError when length or first row show another dataset."""
        shape = tuple(kept["row_shape"])
        if dataset is None:
            return cls(Elsewhere(), kept["rows"], ids, shape, whole=kept.get("whole", False))
        if len(dataset) <= int(kept["rows"].max(initial=-1)):
            raise ResultError(f"the dataset has {len(dataset)} rows, and the fit used row {kept['rows'].max()}")
        first = cls.of(dataset, pd.RangeIndex(len(dataset)))
        if first.row_shape != shape:
            raise ResultError(f"the dataset has rows {first.row_shape}, and those of the fit were {shape}")
        return replace(first, rows=kept["rows"], ids=ids)

    def _row(self, n: int) -> Tensor:
        return self._numbers(self._given(n), n)

    def _given(self, n: int) -> Any:
        try:
            found = self.dataset[int(self.rows[n])]
        except DataError:
            raise
        except Exception as error:  # a user's dataset may raise anything
            raise DataError(f"{self._place(n)} cannot be read: {error!r}; mend the dataset, or that row") from error
        if not isinstance(found, tuple | list) or not found:
            return found
        begins = isinstance(found, tuple) or (isinstance(found[0], Tensor | np.ndarray) and found[0].ndim > 0)
        return found[0] if begins else found

    def _numbers(self, row: Any, n: int) -> Tensor:
        if isinstance(row, Tensor) and not row.is_complex() and row.layout == torch.strided:
            return row.detach().to("cpu", torch.float32)
        values = None
        with suppress(ValueError):  # of nested lists of several lengths
            values = None if isinstance(row, Tensor | Mapping | str) else np.asarray(row)
        if values is None or values.dtype.kind not in "iufb":
            raise DataError(
                f"{self._place(n)} is {kind_of(row)}, not numbers; let the dataset return tensors or arrays"
            )
        with np.errstate(over="ignore"):  # what float32 cannot hold is found by read
            return torch.from_numpy(np.array(values, np.float32))

    def _place(self, n: int) -> str:
        return f"row {int(self.rows[n])} of the dataset of features (item {native(self.ids[n])!r})"


class Elsewhere:
    """Stands for the dataset of a saved result that was loaded without it."""

    def __getitem__(self, row: int) -> Tensor:
        raise DataError(
            "the dataset of these features is not saved with the posterior; use crowdppl.load(path, features=...)"
        )


Features = Tensor | StoredFeatures
"""What networks look at, a row an item."""


def rows_taken(features: Features, at: Tensor) -> Features:
    """The rows of some items; of those that are stored, none is read yet."""
    return features[at] if isinstance(features, Tensor) else features.at(at)


def read_stored(features: Features) -> Tensor:
    """Features as a tensor."""
    return features.read() if isinstance(features, StoredFeatures) else features


def joined(parts: Sequence[Features]) -> Features:
    """One after the other, of parts of one kind."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if tensors:
        return torch.cat(tensors)
    stored = [part for part in parts if isinstance(part, StoredFeatures)]
    ids = stored[0].ids.append([part.ids for part in stored[1:]])
    return replace(stored[0], rows=np.concatenate([part.rows for part in stored]), ids=ids)


MOST = float(np.finfo(np.float32).max)
STEPS = 256
"""Warned of is a feature with fewer steps of float32 between its least and its greatest value."""


def not_numbers(column: pd.Series[Any]) -> np.ndarray:
    """Rows of a column of text that hold no number."""
    if not pd.api.types.is_string_dtype(column.dtype):
        return np.arange(len(column))
    return np.flatnonzero(pd.to_numeric(column, errors="coerce").isna() & column.notna())


def plain_table(features: pd.DataFrame) -> pd.DataFrame:
    """A table with columns of numpy's integers, float32, float64 or bool; missing values are NaN."""
    for n, (name, kind) in enumerate(features.dtypes.items()):
        if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind):
            column = features.iloc[:, n]
            odd = not_numbers(column)
            what = f"is no number (its dtype is {kind}); encode it, or leave it out"
            if 0 < len(odd) < len(column):
                item = column.index[odd[0]]
                at = places_of(features)(item)
                what = f"of item {shown(item)}{at} is {shown(column.iloc[odd[0]])}, no number; correct it"
            raise DataError(f"the feature {native(name)!r} {what}")
    if all(isinstance(kind, np.dtype) and _held(kind) == kind for kind in features.dtypes):
        return features
    columns = [_column(features.iloc[:, n]) for n in range(features.shape[1])]
    return pd.DataFrame(dict(enumerate(columns)), index=features.index).set_axis(features.columns, axis=1)


def numbers_of(features: pd.DataFrame | np.ndarray) -> np.ndarray:
    """A plain table or array as an array (N, ...), in a dtype that holds all columns."""
    if isinstance(features, np.ndarray):
        return features
    return features.to_numpy(np.result_type(np.bool_, *features.dtypes))


def plain_array(features: Any) -> np.ndarray:
    """An array, tensor or nested list as an array of integers, float32, float64 or bool; else DataError."""
    features = tensor_to_numpy(features, "the array of features")
    if np.ma.is_masked(features):
        raise DataError("features are masked; fill them in")
    try:
        values = np.asarray(features)
    except ValueError as error:
        raise DataError(f"features are no array: {error}; give rows of one shape") from error
    if values.dtype == object:
        for place, value in np.ndenumerate(values):
            if not isinstance(value, Real):
                where = ", ".join(map(str, place))
                raise DataError(f"features hold {shown(value)} at [{where}], which is no number; correct it")
        values = values.astype(np.float64)
    if values.dtype.kind not in "iufb":
        what = "text" if values.dtype.kind in "US" else kind_of(values.flat[0] if values.size else values)
        raise DataError(f"features are {what}, no real numbers; give numbers")
    with np.errstate(over="ignore"):  # what float64 cannot hold is then not finite
        return values.astype(_held(values.dtype), copy=False)


def require_finite(values: np.ndarray, ids: pd.Index[Any], features: Any = None) -> None:
    """Refuses features (N, ...) of items that are not finite, also in float32, in which networks compute.

    ``features`` are as they were given, of which a table has names of columns, and one of a file places.
    """
    if values.dtype.kind != "f" or not len(values):
        return
    with np.errstate(over="ignore"):
        finite = np.isfinite(values.astype(np.float32, copy=False)).reshape(len(values), -1).all(1)
    if finite.all():
        return
    row = int(np.argmin(finite))
    own, item = values[row].ravel(), native(ids[row])
    at = places_of(features)(item)
    if not np.isfinite(own).all():
        n = int(np.argmin(np.isfinite(own)))
        named = isinstance(features, pd.DataFrame)
        which = f"the feature {native(features.columns[n])!r}" if named else f"feature {n} (counted from 0)"
        raise DataError(f"{which} of item {item!r}{at} is {own[n]}, not finite; fill it in")
    largest = own[np.argmax(np.abs(own))]
    raise DataError(
        f"a feature of item {item!r}{at} is {largest:g}; networks compute in float32, below {MOST:.1e}: scale it"
    )


def whole_numbers(features: Any) -> bool:
    """Whether features came as whole numbers: those of a table, an array, or a dataset's first row."""
    if isinstance(features, pd.DataFrame):
        return all(kind.kind in "iu" for kind in features.dtypes)
    if isinstance(features, np.ndarray):
        return features.dtype.kind in "iu"
    return bool(getattr(features, "whole", False))


def warn_of_rounding(features: Any) -> None:
    """Warns of columns whose values hardly differ in float32; images and datasets are not checked."""
    if not isinstance(features, pd.DataFrame | np.ndarray) or features.ndim != 2 or not len(features):
        return
    table = features if isinstance(features, pd.DataFrame) else pd.DataFrame(features, copy=False)
    for n, name in enumerate(table.columns):
        column = table.iloc[:, n].to_numpy()
        if column.dtype.kind not in "iuf" or column.dtype == np.float32:
            continue
        low, high = float(column.min()), float(column.max())
        step = float(np.spacing(np.float32(max(-low, high))))
        if 0 < high - low < STEPS * step:
            warn(
                f"the feature {native(name)!r} lies between {low:.10g} and {high:.10g}, where float32 has steps of "
                f"{step:g}: subtract its mean, or networks cannot tell its values apart",
                CrowdpplWarning,
            )


def in_columns(table: pd.DataFrame, names: pd.Index[Any], what: str = "features") -> pd.DataFrame:
    """A table with its columns in the order of these names; DataError when it has not just these."""
    if table.columns.equals(names):
        return table
    lost, more = names.difference(table.columns, sort=False), table.columns.difference(names, sort=False)
    said = [f"lack {listed([repr(native(name)) for name in lost], 3)}"] * bool(len(lost))
    said += [f"have {listed([repr(native(name)) for name in more], 3)} besides"] * bool(len(more))
    if not said and not (names.is_unique and table.columns.is_unique):
        said = ["have several columns of one name, in another order"]
    if said:
        raise DataError(
            f"the columns of these {what} are not those of the fit: they {' and '.join(said)}; name columns as "
            f"the fit did{', or give .to_numpy() if their order is the same' * (what == 'features')}"
        )
    return table.loc[:, names]


def _held(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which such numbers are held: no half or long floats, no foreign byte order."""
    if kind.kind == "f":
        return np.dtype(np.float32 if kind.itemsize <= 4 else np.float64)
    return kind.newbyteorder("=")


def _column(column: pd.Series[Any]) -> np.ndarray:
    """A column as an array; sparse, nullable and arrow columns become dense, missing values NaN."""
    with np.errstate(over="ignore"):
        values = column.to_numpy(np.float64, na_value=np.nan) if column.isna().any() else column.to_numpy()
        values = values if values.dtype.kind in "iufb" else values.astype(np.float64)  # arrow's decimals
        return np.asarray(values, _held(values.dtype))


def feature_tensor(data: Any) -> Features | None:
    """Features in codebook order, float32 (N, ...); None where the data have none."""
    given = require_data(data).features
    if given is None or isinstance(given, StoredFeatures):
        return given
    return torch.from_numpy(np.array(numbers_of(given), np.float32))


def placed_features(data: Any) -> Features | None:
    """Features by position, as blocks hold items; None where the data have none."""
    found = feature_tensor(data)
    return None if found is None else rows_taken(found, torch.from_numpy(data.order.astype(np.int64)))
