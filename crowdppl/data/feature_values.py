"""Features as plain numbers: tables, arrays and tensors in dtypes that networks and files can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.doors.telling import tell
from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.tables.codebook import plain

MOST = float(np.finfo(np.float32).max)
"""The largest number that networks can look at."""
STEPS = 256
"""A feature that takes fewer steps of float32 from its least value to its greatest is worth a warning."""


def plain_table(features: pd.DataFrame) -> pd.DataFrame:
    """The same table with columns of numpy's whole numbers, float32, float64 or bool.

    Sparse, nullable and arrow columns become dense; a missing value is NaN.

    Raises:
        DataError: when a column is no number; it names the column.
    """
    for name, kind in features.dtypes.items():
        if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind):
            raise DataError(
                f"the feature {plain(name)!r} is no number (its dtype is {kind}); encode it as numbers, or leave "
                "the column out"
            )
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
    """An array, tensor or nested list as an array of whole numbers, float32, float64 or bool.

    Raises:
        DataError: when it is sparse, or no real numbers; it says the dtype.
    """
    if hasattr(features, "toarray"):
        raise DataError(f"features are a sparse {type(features).__name__}; make them dense with .toarray()")
    if hasattr(features, "detach"):
        if str(features.layout) != "torch.strided":
            raise DataError(f"features are a tensor of layout {features.layout}; make them dense with .to_dense()")
        features = features.detach().cpu()
        features = features.float() if str(features.dtype) == "torch.bfloat16" else features.numpy()
    if np.ma.is_masked(features):  # what a mask hides is missing
        features = features.astype(np.float64).filled(np.nan)
    try:
        values = np.asarray(features)
    except ValueError as error:
        raise DataError(f"features are no array: {error}; give rows of one shape") from error
    if values.dtype.kind not in "iufb":
        raise DataError(f"features are of dtype {values.dtype}, which is no real number; give an array of numbers")
    with np.errstate(over="ignore"):  # what float64 cannot hold is then not finite
        return values.astype(_held(values.dtype), copy=False)


def require_finite(values: np.ndarray, ids: pd.Index[Any]) -> None:
    """Refuses what is not finite, or is not once networks look at it in float32.

    Args:
        values: (N, ...).
        ids: of the items (N,), for messages.

    Raises:
        DataError: names the first such item.
    """
    if values.dtype.kind != "f" or not len(values):
        return
    with np.errstate(over="ignore"):
        finite = np.isfinite(values.astype(np.float32, copy=False)).reshape(len(values), -1).all(1)
    if finite.all():
        return
    row = int(np.argmin(finite))
    own, item = values[row].ravel(), plain(ids[row])
    if not np.isfinite(own).all():
        raise DataError(f"a feature of item {item!r} is not finite; fill it in")
    largest = own[np.argmax(np.abs(own))]
    raise DataError(
        f"a feature of item {item!r} is {largest:g}; networks compute in float32, which ends at {MOST:.1e}: "
        "scale the feature"
    )


def whole_numbers(features: Any) -> bool:
    """Whether features came as whole numbers: those of a table, an array, or a dataset's first row."""
    if isinstance(features, pd.DataFrame):
        return all(kind.kind in "iu" for kind in features.dtypes)
    if isinstance(features, np.ndarray):
        return features.dtype.kind in "iu"
    return bool(getattr(features, "whole", False))


def warn_of_rounding(features: Any) -> None:
    """Warns of the columns of a plain table that differ between items by next to nothing in float32.

    Args:
        features: of annotations; images and datasets are not looked at.
    """
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
            text = (
                f"the feature {plain(name)!r} lies between {low:.10g} and {high:.10g}, where float32, in which "
                f"networks compute, takes steps of {step:g}: subtract its mean before, or what it says is lost"
            )
            tell(CrowdpplWarning(text))


def in_columns(table: pd.DataFrame, names: pd.Index[Any], what: str = "features") -> pd.DataFrame:
    """A table with its columns in the order of these names; ``what`` it holds, for messages.

    Raises:
        DataError: when it lacks one of them, or has one besides, or has one twice.
    """
    if table.columns.equals(names):
        return table
    lost, more = names.difference(table.columns, sort=False), table.columns.difference(names, sort=False)
    said = [f"lack {_listed(lost)}"] * bool(len(lost)) + [f"have {_listed(more)} besides"] * bool(len(more))
    if not said and not (names.is_unique and table.columns.is_unique):
        said = ["have several columns of one name, in another order"]
    if said:
        raise DataError(
            f"the columns of these {what} are not those of the fit: they {' and '.join(said)}; name columns as "
            f"the fit did{', or give .to_numpy() if their order is the same' * (what == 'features')}"
        )
    return table.loc[:, names]


def _listed(names: Sequence[Any] | pd.Index[Any]) -> str:
    few = ", ".join(repr(plain(name)) for name in names[:3])
    return few if len(names) <= 3 else f"{few} and {len(names) - 3} more"


def _held(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which such numbers are held: no half or long floats, no foreign byte order."""
    if kind.kind == "f":
        return np.dtype(np.float32 if kind.itemsize <= 4 else np.float64)
    return kind.newbyteorder("=")


def _column(column: pd.Series[Any]) -> np.ndarray:
    kind: Any = column.dtype
    if isinstance(kind, pd.SparseDtype):
        kind, column = kind.subtype, column.astype(kind.subtype)
    if isinstance(kind, np.dtype):
        with np.errstate(over="ignore"):
            return column.to_numpy().astype(_held(kind), copy=False)
    if bool(column.isna().any()):
        return column.to_numpy(np.float64, na_value=np.nan)
    target = np.dtype(getattr(kind, "numpy_dtype", np.float64))  # arrow's decimals have none but object
    return column.to_numpy(_held(target) if target.kind in "iufb" else np.float64)
