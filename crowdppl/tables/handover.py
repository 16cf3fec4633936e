"""Tensors, masked arrays and the like as plain arrays, so that nothing is read that nobody gave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.errors import DataError


def of_tensor(values: Any, what: str) -> Any:
    """A tensor as an array; anything else as it is. bfloat16 becomes float32, which holds all its numbers.

    Args:
        values: anything.
        what: what it is, for messages.

    Raises:
        DataError: for a sparse tensor or matrix, of which nobody knows whether a 0 that is not stored was given.
    """
    kind = type(values)  # not the value: a table has its columns as attributes, whatever they are called
    tensor = hasattr(kind, "detach")
    if hasattr(kind, "nnz") or (tensor and str(values.layout) != "torch.strided"):
        raise DataError(
            f"{what} is sparse, and does not say whether a 0 is a value or nothing; make it dense, or give one row "
            "a label (from_arrays)"
        )
    if not tensor:
        return values
    plain = values.detach().cpu().resolve_conj().resolve_neg()
    try:
        return plain.numpy()
    except TypeError:  # numpy has no bfloat16, and no float of 8 bits
        return plain.float().numpy()


def unmasked(values: Any) -> Any:
    """A masked array as one with None where it is masked; anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain = np.asarray(values.data)
    if np.ma.is_masked(values):
        plain = plain.astype(object)
        plain[np.ma.getmaskarray(values)] = None
    return plain


def spelled_out(values: Any) -> Any:
    """A column of pyarrow's dictionaries as one of their values, which pandas can sort; anything else as it is."""
    kind = getattr(values, "dtype", None)
    if not isinstance(kind, pd.ArrowDtype):
        return values
    import pyarrow as pa  # slow to import

    inner = kind.pyarrow_dtype
    return values.astype(pd.ArrowDtype(inner.value_type)) if pa.types.is_dictionary(inner) else values


def as_column(column: Any, name: str) -> np.ndarray | pd.api.extensions.ExtensionArray:
    """A column as an array that keeps the type of its values.

    Raises:
        DataError: when it has other than one dimension, or is sparse.
    """
    column = spelled_out(of_tensor(column, f"the {name} column"))
    if isinstance(column, pd.MultiIndex):
        return column.to_numpy()
    if isinstance(column, pd.Series | pd.Index):
        array = column.array
        plainly = isinstance(array, pd.arrays.NumpyExtensionArray) or (
            pd.api.types.is_integer_dtype(array.dtype) and not array.isna().any()
        )
        return column.to_numpy() if plainly else array
    if isinstance(column, pd.api.extensions.ExtensionArray):
        return column
    if not isinstance(column, np.ndarray):
        if not isinstance(column, Iterable):
            raise DataError(f"the {name} column is {column!r}; give one value a row, as a list or an array")
        column = list(column)
        column = np.fromiter(column, dtype=object, count=len(column))
    if column.ndim != 1:
        raise DataError(f"the {name} column has shape {column.shape}; give one value a row")
    return np.asarray(unmasked(column))


def as_matrix(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """A matrix and where it is masked, both (N, A).

    Args:
        matrix: array, tensor, table or list of rows, any of which may be masked.

    Raises:
        DataError: when it is sparse, its rows differ in length, or it has other than two dimensions.
    """
    values = of_tensor(matrix, "the matrix")
    try:
        rows = isinstance(values, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in values)
        values = np.ma.array(values) if rows else np.asanyarray(values)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the matrix cannot be read ({error}); it must have a row an item and a column an annotator"
        ) from error
    if values.ndim != 2:
        raise DataError(
            f"the matrix has shape {values.shape}; it must have a row an item and a column an annotator"
        )
    return np.asarray(np.ma.getdata(values)), np.ma.getmaskarray(values)
