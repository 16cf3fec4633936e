"""Values as JSON and arrays: what comes back is what was given, with type and spelling."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
import torch

from crowdppl.errors import ResultError
from crowdppl.results.archive import pack, unpack


def through_json(value: Any) -> Any:
    """Packs, writes and reads JSON, unpacks."""
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(pack(value, "it", arrays), allow_nan=False)
    return unpack(json.loads(text), arrays)


VALUES = [
    None,
    True,
    0,
    -(2**80),
    0.1 + 0.2,
    -0.0,
    1e-320,
    "007",
    "ein Wörtchen, \U0001f600 \ud800\n",
    [1, [2.5, "x"]],
    (1, (2, "y"), []),
    {"a": {"b": (1,)}, "c": None},
    {1: "x", (2, 3): "y", None: "z"},
    {"$array": 1},
    dt.date(2024, 2, 29),
    UUID("12345678-1234-5678-1234-567812345678"),
    Decimal("1.10"),
    Decimal("-0E-7"),
    Decimal("123456789012345678901234567890.123456789"),
    Decimal("Infinity"),
    b"",
    b"a\x00\xff",
    np.bytes_(b"ab"),
    {UUID(int=1): b"x", Decimal("2.0"): 1},
    pd.Timestamp("2024-02-29 12:00:00.123456789", tz="Europe/Paris"),
    pd.Timestamp("2024-02-29"),
    pd.Timedelta("3 days 00:00:00.5"),
    np.float32(0.1),
    np.int8(-3),
    np.bool_(True),
    np.datetime64("2024-01-01T00", "h"),
    torch.float32,
    torch.device("cpu"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_come_back_with_their_type(value: Any) -> None:
    found = through_json(value)
    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)


def test_what_pandas_calls_missing_comes_back() -> None:
    assert through_json(pd.NA) is pd.NA and through_json(pd.NaT) is pd.NaT


def test_numbers_that_json_does_not_have() -> None:
    found = through_json([float("nan"), float("inf"), -float("inf")])
    assert found[1:] == [float("inf"), -float("inf")]
    assert np.isnan(found[0])


ARRAYS = [
    np.arange(6, dtype=np.int32).reshape(2, 3),
    np.arange(6.0).reshape(2, 3).T,
    np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::-1, ::2],
    np.zeros((0, 3)),
    np.array(2.5),
    np.array([True, False]),
    np.array([np.nan, -0.0, np.inf]),
    np.array([1, 2], dtype=">i4").astype("i4"),
    np.array(["ab", "c"]),
    np.array([b"ab", b"\xff"]),
    np.array([["ab"], [None]], dtype=object),
    np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
    np.array([1, 2], dtype="timedelta64[ms]"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_come_back_with_type_and_shape(array: np.ndarray) -> None:
    found = through_json({"x": array})["x"]
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert array.dtype == object or found.tobytes() == array.tobytes()
    np.testing.assert_array_equal(found, array)


def test_tensors_come_back() -> None:
    found = through_json(torch.arange(6.0).reshape(2, 3).t())
    assert torch.equal(found, torch.arange(6.0).reshape(2, 3).t())


INDEXES = [
    pd.Index([3, 1, 2], name="item"),
    pd.Index([1, 2], dtype="uint8"),
    pd.Index([0.1, 1e300]),
    pd.Index([True, False]),
    pd.Index(["01", "1", " a, b", "ü\u0000\u20ac", "", '"quoted"\n']),
    pd.Index(["x", "y"], dtype=object),
    pd.Index(["x", "y"], dtype="string"),
    pd.Index([1, "don't know", 2.5, True], dtype=object),
    pd.Index([2**70, 1], dtype=object),
    pd.Index([dt.date(2024, 1, 1), dt.date(1, 1, 1)], dtype=object),
    pd.Index([UUID(int=2**100), UUID(int=0)], dtype=object),
    pd.Index([Decimal("1.10"), Decimal("1E+3")], dtype=object),
    pd.Index([b"\xff\x00", b"a"], dtype=object),
    pd.Index([1, 2], dtype="Int64"),
    pd.DatetimeIndex(["2024-03-31 01:30", "1999-01-01"], name="when"),
    pd.DatetimeIndex(["2024-10-27 00:30", "2024-10-27 01:30"], tz="UTC").tz_convert("Europe/Paris"),
    pd.DatetimeIndex(["2024-01-01 00:00:00.123456789"]).as_unit("ns"),
    pd.TimedeltaIndex(["1s", "2 days"]),
    pd.RangeIndex(4),
    pd.Index([], dtype=object),
]


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: f"{index.dtype}-{len(index)}")
def test_ids_come_back_with_type_and_spelling(index: pd.Index[Any]) -> None:
    found = through_json(index)
    pd.testing.assert_index_equal(found, index, exact="equiv")
    assert found.dtype == index.dtype
    assert [type(value) for value in found] == [type(value) for value in index]


def test_a_value_that_cannot_be_saved_is_named_with_its_place() -> None:
    with pytest.raises(ResultError, match=r"settings/net/1 is a .*\.object"):
        pack({"settings": {"net": [1, object()]}}, "it", {})
    with pytest.raises(ResultError, match="it/z is an array of complex128"):
        pack({"z": np.zeros(2, complex)}, "it", {})
    with pytest.raises(ResultError, match="it/1 is a pandas.*Period, which cannot be saved"):
        pack([1, pd.Period("2024-01", "M")], "it", {})


@pytest.mark.parametrize(
    "packed",
    [
        {"$new": 1},
        {"$array": {"name": "gone"}},
        {"$timestamp": [1]},
        {"$torch": "save"},
        {"$torch": "none"},
        {"$uuid": "1"},
        {"$uuid": 1},
        {"$decimal": "ten"},
        {"$bytes": "0g"},
    ],
)
def test_a_description_that_cannot_be_read_is_refused(packed: Any) -> None:
    with pytest.raises(ResultError, match="the saved value"):
        unpack(packed, {})
