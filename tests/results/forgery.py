"""Forged copies of a saved posterior whose digests are right, for tests of reading."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from safetensors.numpy import load_file, save_file

TEXT, ARRAYS = "posterior.json", "posterior.safetensors"
TABLES = ("labels", "items", "annotators")
AS_SAVED = {"compression": "none", "use_dictionary": False}
MANY = 3 * 10**6
"""Rows of one value, which are few bytes in a file."""
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 3, 10**9, 2**63, -(10**30), 1.5, 1e308, float("nan"), float("-inf")),
    *("", "vb", "\x00\u202e\U0001f600", "x" * 10_000, "../../etc", "\ud800"),
    *([], {}, [[]], [1, "x", None], {"": 1}, {"\u00e9": {}}),
    *(
        {"$array": "nothing"},
        {"$tensor": 7},
        {"$tuple": 5},
        {"$dict": [[[], 1]]},
        {"$index": {}},
        {"$FitResult": {}},
    ),
    *({"$OnDemand": None}, {"$later": "x"}, {"$": 1}, {"$SiteResult": {"name": 1}}, {"$tuple": [{"$tuple": []}]}),
)


@dataclass
class Forger:
    """Changes one thing of a saved posterior, at random."""

    good: Path
    stream: np.random.Generator

    def forge(self, folder: Path) -> str:
        """Makes a forged copy; returns what was changed."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.good, folder)
        kinds = (self._value, self._value, self._array, self._array, self._table, self._bytes)
        said = self._any(kinds)(folder)
        seal(folder)
        return said

    def _any(self, things: Any) -> Any:
        return things[self.stream.integers(len(things))]

    def _value(self, folder: Path) -> str:
        """A value of the JSON is another one, missing, of two names or in another's place."""
        about = json.loads((folder / TEXT).read_text())
        places = list(nodes(about["contents"]))
        parent, key = self._any(places)
        what = self._any(("put", "put", "put", "drop", "add", "swap"))
        if what == "put":
            parent[key] = value = self._any(VALUES)
            what = f"put {value!r:.40}"
        elif what == "drop":
            del parent[key]
        elif what == "add" and isinstance(parent, dict):
            parent[self._any(("more", "$array", ""))] = self._any(VALUES)
        else:
            other, name = self._any(places)
            parent[key], other[name] = other[name], parent[key]
        (folder / TEXT).write_text(json.dumps(about))
        return f"JSON {key!r}: {what}"

    def _array(self, folder: Path) -> str:
        """An array has another shape, dtype or values, is missing, or in another's place."""
        arrays = load_file(folder / ARRAYS)
        name = self._any(sorted(arrays))
        what = self._any(("shape", "shape", "dtype", "values", "values", "swap", "drop"))
        x = arrays[name]
        if what == "shape":
            x = self._any(
                (x[..., None], x.ravel(), x.ravel()[:0], x.T, x[None], np.concatenate([x.ravel(), x.ravel()]))
            )
        elif what == "dtype":
            kind = self._any((np.int64, np.int8, np.float16, np.float32, bool, np.uint64))
            with np.errstate(all="ignore"):
                x = x.astype(kind)
            what = f"dtype {kind}"
        elif what == "values" and x.size:
            x = x.copy()
            with np.errstate(all="ignore"):
                value = np.array([self._any((-1, np.nan, np.inf, 1e300, 2**31, 10**6, 0))]).astype(x.dtype)
            x.flat[self.stream.integers(x.size)] = value[0]
            what = f"value {value[0]}"
        elif what == "swap":
            other = self._any(sorted(arrays))
            x, arrays[other] = arrays[other], x
        arrays[name] = np.ascontiguousarray(x).reshape(x.shape)
        if what == "drop":
            del arrays[name]
        save_file(arrays, folder / ARRAYS)
        return f"array {name}: {what}"

    def _table(self, folder: Path) -> str:
        """A column has other values or another type, is missing or another's; rows are too few or far too many."""
        path = folder / f"posterior.{self._any(TABLES)}.parquet"
        table = parquet.read_table(path)
        at = int(self.stream.integers(table.num_columns))
        name, column, n = table.column_names[at], table.column(at), len(table)
        what = self._any(("values", "values", "type", "drop", "rename", "rows", "many", "note", "twice"))
        how: dict[str, Any] = AS_SAVED
        if what == "values":
            value = self._any((-1, 2**31 - 1, 10**6, -(2**31), None, 3))
            found = column.to_pylist()
            found[int(self.stream.integers(n))] = value if pa.types.is_integer(column.type) else None
            table = table.set_column(at, name, pa.array(found))
            what = f"value {value}"
        elif what == "type":
            kind = self._any(("string", "double", "null", "bytes", "list"))
            made: dict[str, Callable[[], Any]] = {
                "string": lambda: [str(x) for x in column.to_pylist()],
                "double": lambda: pa.array(np.full(n, np.nan)),
                "null": lambda: pa.nulls(n),
                "bytes": lambda: [b"\xff"] * n,
                "list": lambda: [[1]] * n,
            }
            table, what = table.set_column(at, name, pa.array(made[kind]())), f"type {kind}"
        elif what == "drop":
            table = table.remove_column(at)
        elif what == "rename":
            table = table.rename_columns(["x" if i == at else c for i, c in enumerate(table.column_names)])
        elif what == "rows":
            table = self._any((table.slice(0, n - 1), table.slice(0, 0), pa.concat_tables([table, table])))
        elif what == "many":
            table = pa.table({c: pa.repeat(table.column(c)[0], MANY) for c in table.column_names})
            how = self._any(({"compression": "none"}, {}))
        elif what == "note":
            note = self._any((b"{broken", b"{}", b'{"index_columns": ["x"], "columns": []}', b"[]", b"\xff"))
            table = table.replace_schema_metadata({"pandas": note})
        else:
            table = table.append_column(name, column)
        parquet.write_table(table, path, **how)
        return f"{path.name} {name}: {what}"

    def _bytes(self, folder: Path) -> str:
        """A bit of a file is flipped, or its end is lost."""
        path = folder / self._any((TEXT, ARRAYS, *(f"posterior.{name}.parquet" for name in TABLES)))
        whole = bytearray(path.read_bytes())
        at = int(self.stream.integers(min(len(whole), self._any((400, len(whole))))))
        if self.stream.random() < 0.8:
            whole[at] ^= 1 << int(self.stream.integers(8))
        else:
            del whole[at:]
        path.write_bytes(whole)
        return f"{path.name}: byte {at} of {len(whole)}"


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its key."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from nodes(part)


def seal(folder: Path) -> None:
    """Makes the digests right, where the JSON can be read."""
    text = folder / TEXT
    try:
        about = json.loads(text.read_text(encoding="utf-8"))
        about["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in about["files"]}
        about.pop("digest", None)
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        text.write_text(json.dumps({**about, "digest": digest}))
    except (ValueError, TypeError, KeyError, OSError, AttributeError, RecursionError):
        return


def rewritten(good: Path, folder: Path, table: str, **columns: Any) -> None:
    """A copy in which columns of a table have other values."""
    shutil.copytree(good, folder)
    path = folder / f"posterior.{table}.parquet"
    found = parquet.read_table(path)
    for name, values in columns.items():
        found = found.set_column(found.column_names.index(name), name, pa.array(values))
    parquet.write_table(found, path, **AS_SAVED)
    seal(folder)
