"""Frames that stream by Arrow say the same as frames of pandas, and annotations go back as tables of Arrow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError
from tests.data.test_annotations import everything


@pytest.fixture
def frame() -> pd.DataFrame:
    stream, size = np.random.default_rng(3), 300
    return pd.DataFrame(
        {
            "item": [f"i{k}" for k in stream.integers(0, 40, size)],
            "worker": stream.integers(100, 112, size),
            "label": stream.choice(["cat", "dög", "?", "emu"], size),
            "time": np.arange(size),
            "note": stream.choice(["a\rb", "ü", ""], size),
        }
    )


class Stream:
    """A frame of which nothing is known but that it streams, as that of any other library."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def retyped(kind: pa.DataType) -> Callable[[pd.DataFrame], Any]:
    """A table whose text is of another type of Arrow."""

    def made(frame: pd.DataFrame) -> pa.Table:
        table = pa.Table.from_pandas(frame)
        for name in ("item", "label"):
            table = table.set_column(table.column_names.index(name), name, table[name].cast(kind))
        return table

    return made


def chunked(frame: pd.DataFrame) -> pa.Table:
    return pa.concat_tables([pa.Table.from_pandas(part) for part in (frame[:7], frame[7:7], frame[7:])])


def of_polars(frame: pd.DataFrame) -> Any:
    return polars.DataFrame(pa.Table.from_pandas(frame))


def of_duckdb(frame: pd.DataFrame) -> Any:
    return duckdb.from_arrow(pa.Table.from_pandas(frame))


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "table": pa.Table.from_pandas,
    "batch": pa.RecordBatch.from_pandas,
    "chunks": chunked,
    "stream": lambda frame: Stream(pa.Table.from_pandas(frame)),
    "text of 32 bits": retyped(pa.string()),
    "text of 64 bits": retyped(pa.large_string()),
    "views": retyped(pa.string_view()),
    "dictionaries": retyped(pa.dictionary(pa.int16(), pa.string())),
    "polars": of_polars,
    "duckdb": of_duckdb,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_any_frame_that_streams_is_read_as_that_of_pandas_is(kind: str, frame: pd.DataFrame) -> None:
    wanted = Annotations.from_frame(frame, abstentions=["?"], gold={"i1": "emu"})
    found = Annotations.from_frame(FRAMES[kind](frame), abstentions=["?"], gold={"i1": "emu"})
    assert everything(found) == everything(wanted)
    pd.testing.assert_frame_equal(found.frame(), wanted.frame())


def test_wide_frames_and_new_labels_may_stream(frame: pd.DataFrame) -> None:
    wide = pa.table({"item": ["x", "y", "z"], "ann": ["a", "b", None], "bob": ["a", "", "b"]})
    found = Annotations.from_frame(wide, wide=True).frame()
    assert found["item"].tolist() == ["x", "x", "y", "z"] and found["annotator"].tolist() == [
        "ann",
        "bob",
        "ann",
        "bob",
    ]
    fitted = crowdppl.fit("one_coin", Annotations.from_frame(frame), inference="em")
    new = frame.assign(item="new")[:20]
    pd.testing.assert_frame_equal(fitted.predict(pa.Table.from_pandas(new)), fitted.predict(new))


def test_annotations_go_to_arrow_and_come_back(frame: pd.DataFrame) -> None:
    data = Annotations.from_frame(frame, abstentions=["?"])
    table = data.to_arrow()
    pd.testing.assert_frame_equal(table.to_pandas().astype(data.frame().dtypes.to_dict()), data.frame())
    assert everything(Annotations.from_frame(table, abstentions=["?"])) == everything(data)
    assert pa.types.is_dictionary(table.schema.field("item").type)
    mixed = Annotations.from_arrays([1, 1], ["x", "y"], [1, "a"], classes=[1, "a"])
    assert mixed.to_arrow()["label"].to_pylist() == ["1", "a"], "text, where Arrow has no type for both"
    design = Annotations.design([1, 2], ["x", "y"], classes=[0, 1])
    assert design.to_arrow().column_names == ["item", "annotator"]


def test_damaged_parquet_files_are_refused_by_name(tmp_path: Path) -> None:
    path, stream = tmp_path / "a.parquet", np.random.default_rng(3)
    frame = pd.DataFrame({"item": [*"aabb"] * 20, "annotator": [*"xyxy"] * 20, "label": [*"lmll"] * 20})
    frame.assign(when=pd.Timestamp("2026-03-14"), seconds=1.5).to_parquet(path)
    whole, refused = path.read_bytes(), 0
    for n in range(300):
        content = bytearray(whole[: stream.integers(len(whole))] if n % 5 == 0 else whole)
        for at in stream.integers(len(content), size=3) if content else ():
            content[at] = stream.integers(256)
        path.write_bytes(bytes(content))
        try:
            crowdppl.read_annotations(path)
        except CrowdpplError:
            refused += 1
    assert refused > 100
