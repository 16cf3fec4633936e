"""Python values as JSON and arrays, and back, with every type and spelling kept."""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd

from crowdppl.errors import ResultError

Arrays = dict[str, np.ndarray]
"""Arrays by name; JSON refers to them as ``{"$array": name}``."""
SPELLED: dict[type, tuple[str, Callable[[Any], str]]] = {
    dt.date: ("$date", dt.date.isoformat),
    UUID: ("$uuid", str),
    Decimal: ("$decimal", str),
    bytes: ("$bytes", bytes.hex),
}
"""What a text says exactly: by type its tag, and how it is spelled."""


def pack(value: Any, where: str, arrays: Arrays) -> Any:
    """Turns a value into what JSON can say, and puts arrays aside.

    None, booleans, whole numbers, strings, lists and dicts with string keys stay as they are. Anything else is
    a dict with one key that begins with "$".

    Args:
        value: also floats, tuples, numpy scalars and arrays, torch tensors and dtypes, dates, timestamps, time
            differences, UUIDs, decimals, bytes and pandas indexes, nested as you like.
        where: path of the value, which names its arrays and the place in an error.
        arrays: filled with the arrays of the value.

    Raises:
        ResultError: for a value of any other type, with its place.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if type(value) in (list, tuple):
        packed = [pack(part, f"{where}/{n}", arrays) for n, part in enumerate(value)]
        return packed if type(value) is list else {"$tuple": packed}
    if type(value) in SPELLED:
        tag, spell = SPELLED[type(value)]
        return {tag: spell(value)}
    if isinstance(value, Mapping):
        return _pack_mapping(value, where, arrays)
    if isinstance(value, pd.Index):
        return {"$index": _pack_index(value, where, arrays)}
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, str):
        return {"$array" if isinstance(value, np.ndarray) else "$scalar": _put(value, where, arrays)}
    special = _pack_time(value) or _pack_torch(value, where, arrays)
    if special is not None:
        return special
    if isinstance(value, str):
        return str(value)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise ResultError(
        f"{where} is a {kind}, which cannot be saved: {value!r:.80}; use numbers, strings, lists, dicts or arrays"
    )


def unpack(packed: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value that ``pack`` was given.

    Raises:
        ResultError: when the description is none that ``pack`` writes, or an array is missing.
    """
    if isinstance(packed, list):
        return [unpack(part, arrays) for part in packed]
    if not isinstance(packed, dict):
        return packed
    tag = next(iter(packed), "")
    if not tag.startswith("$"):
        return {key: unpack(part, arrays) for key, part in packed.items()}
    if tag not in _READERS:
        raise ResultError(f"the saved value {packed!r:.80} is of a kind that this version does not know")
    try:
        return _READERS[tag](packed[tag], arrays)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise ResultError(f"the saved value {packed!r:.80} cannot be read: {error}") from error


def _put(array: Any, where: str, arrays: Arrays) -> dict[str, Any]:
    """Stores a numeric array; text and times are stored by what they are made of."""
    array = np.asarray(array)
    if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
        # An array that is not contiguous would be written in the order of its memory.
        arrays[where] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        return {"name": where}
    if array.dtype.kind in "mM":
        return _put(array.view(np.int64), where, arrays) | {"dtype": array.dtype.str}
    if array.dtype.kind in "UOS":
        flat = [pack(part, f"{where}/{n}", arrays) for n, part in enumerate(array.ravel().tolist())]
        return {"values": flat, "shape": list(array.shape), "dtype": array.dtype.str}
    raise ResultError(f"{where} is an array of {array.dtype}, which cannot be saved")


def _get(packed: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    if "values" in packed:
        array = np.empty(math.prod(packed["shape"]), dtype=packed["dtype"])
        for n, part in enumerate(packed["values"]):
            array[n] = unpack(part, arrays)
        return array.reshape(packed["shape"])
    array = arrays[packed["name"]]
    return array.view(packed["dtype"]) if "dtype" in packed else array


def _pack_mapping(value: Mapping[Any, Any], where: str, arrays: Arrays) -> Any:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: pack(part, f"{where}/{key}", arrays) for key, part in value.items()}
    pairs = [
        [pack(key, f"{where}/key {n}", arrays), pack(part, f"{where}/{n}", arrays)]
        for n, (key, part) in enumerate(value.items())
    ]
    return {"$dict": pairs}


def _pack_time(value: Any) -> Any:
    """Timestamps, time differences and what pandas calls missing; None for anything else."""
    if value is pd.NA or value is pd.NaT:
        return {"$missing": "NA" if value is pd.NA else "NaT"}
    if isinstance(value, pd.Timestamp):
        zone = None if value.tzinfo is None else str(value.tzinfo)
        return {"$timestamp": [int(value.to_numpy().view(np.int64)), value.unit, zone]}
    if isinstance(value, pd.Timedelta):
        return {"$timedelta": [int(value.to_numpy().view(np.int64)), value.unit]}
    return None


def _pack_torch(value: Any, where: str, arrays: Arrays) -> Any:
    """Tensors and dtypes of torch, which is not imported for it; None for anything else."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(value, torch.Tensor):
        return {"$tensor": _put(value.detach().cpu().numpy(), where, arrays)}
    if isinstance(value, torch.dtype):
        return {"$torch": str(value).removeprefix("torch.")}
    return {"$device": str(value)} if isinstance(value, torch.device) else None


def _pack_index(index: pd.Index, where: str, arrays: Arrays) -> dict[str, Any]:
    """An index by its dtype, its name and its values: millions of ids are arrays, not JSON."""
    spec = {"dtype": str(index.dtype), "name": pack(index.name, f"{where}/name", arrays)}
    if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex):
        zone = None if isinstance(index, pd.TimedeltaIndex) or index.tz is None else str(index.tz)
        values = index if zone is None else index.tz_convert("UTC").tz_localize(None)  # type: ignore[union-attr]
        return spec | {"times": _put(values.to_numpy(), where, arrays), "zone": zone}
    if isinstance(index.dtype, np.dtype) and index.dtype.kind in "biuf":
        return spec | {"numbers": _put(index.to_numpy(), where, arrays)}
    values = index.tolist()
    if all(type(value) is str for value in values):
        return spec | {"text": _put_text(values, where, arrays)}
    return spec | {"values": [pack(value, f"{where}/{n}", arrays) for n, value in enumerate(values)]}


def _put_text(texts: list[str], where: str, arrays: Arrays) -> list[str]:
    """Strings as one run of bytes and where each ends; lone surrogates survive too."""
    coded = [text.encode("utf-8", "surrogatepass") for text in texts]
    arrays[f"{where}/text"] = np.frombuffer(b"".join(coded), np.uint8)
    arrays[f"{where}/ends"] = np.cumsum([len(text) for text in coded], dtype=np.int64)
    return [f"{where}/text", f"{where}/ends"]


def _get_index(spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    name: Any = unpack(spec["name"], arrays)
    if "times" in spec:
        index = pd.Index(_get(spec["times"], arrays), name=name)
        zone = spec["zone"]
        return index if zone is None else pd.DatetimeIndex(index).tz_localize("UTC").tz_convert(zone)
    if "numbers" in spec:
        return pd.Index(_get(spec["numbers"], arrays), name=name)
    if "text" in spec:
        text, ends = (arrays[key] for key in spec["text"])
        run, bounds = text.tobytes(), [0, *ends.tolist()]
        values = [run[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]
        return pd.Index(values, dtype=spec["dtype"], name=name)
    values = unpack(spec["values"], arrays)
    return pd.Index(values, dtype=spec["dtype"], name=name, tupleize_cols=False)


def _get_tensor(spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    import torch  # a result without tensors is read without torch

    return torch.from_numpy(_get(spec, arrays).copy())


def _get_torch(name: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    import torch

    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name} is no dtype of torch")
    return dtype


def _get_device(name: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    import torch

    return torch.device(name)


def _get_timestamp(spec: Any, arrays: Mapping[str, np.ndarray]) -> pd.Timestamp:
    value, unit, zone = spec
    stamp = pd.Timestamp(np.datetime64(value, unit))
    return stamp if zone is None else stamp.tz_localize("UTC").tz_convert(zone)


_READERS: dict[str, Callable[[Any, Mapping[str, np.ndarray]], Any]] = {
    "$float": lambda text, arrays: float(text),
    "$tuple": lambda parts, arrays: tuple(unpack(part, arrays) for part in parts),
    "$dict": lambda pairs, arrays: {unpack(k, arrays): unpack(v, arrays) for k, v in pairs},
    "$index": _get_index,
    "$array": _get,
    "$scalar": lambda spec, arrays: _get(spec, arrays)[()],
    "$tensor": _get_tensor,
    "$torch": _get_torch,
    "$device": _get_device,
    "$missing": lambda name, arrays: pd.NA if name == "NA" else pd.NaT,
    "$timestamp": _get_timestamp,
    "$timedelta": lambda spec, arrays: pd.Timedelta(np.timedelta64(spec[0], spec[1])),
    "$date": lambda text, arrays: dt.date.fromisoformat(text),
    "$uuid": lambda text, arrays: UUID(text),
    "$decimal": lambda text, arrays: Decimal(text),
    "$bytes": lambda text, arrays: bytes.fromhex(text),
}
