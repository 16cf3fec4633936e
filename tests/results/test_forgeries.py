"""A forged archive, whose digests are right, is refused by name or is a posterior like another."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from safetensors.numpy import load_file, save_file

import crowdppl
from crowdppl.errors import CrowdpplError, ResultError
from crowdppl.inference.result import ClassProbabilities, OnDemand
from crowdppl.posterior import Posterior
from crowdppl.results.archive import ARRAYS, TEXT

pytestmark = pytest.mark.filterwarnings("ignore")
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 10**9, -(10**30), 1e308, float("nan"), "", "vb", "\x00\u202e", "x" * 10_000, [], {}, [[]]),
    *({"$array": "nothing"}, {"$tuple": 5}, {"$dict": [[[], 1]]}, {"$FitResult": {}}, {"$later": "x"}, {"$": 1}),
)


def small() -> Posterior:
    rows = {"item": [1, 1, 2, 2, 3, 3], "annotator": list("abbcca"), "label": list("xyyx?x")}
    data = crowdppl.Annotations.from_frame(
        pd.DataFrame(rows | {"note": list("uvwxyz")}),
        abstentions=["?"],
        gold={1: "x"},
        history=np.ones((3, 2, 2)),
        item_covariates=pd.DataFrame({"long": [1.5]}, index=[3]),
    )
    found = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    found.annotators()  # files hold the draws that were asked for
    return found


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "good"
    small().save(folder)
    return folder


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its key."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from nodes(part)


def sealed(folder: Path, about: dict[str, Any]) -> Path:
    """A folder with this text, and digests that are right."""
    about = about | {"files": {x: hashlib.sha256((folder / x).read_bytes()).hexdigest() for x in about["files"]}}
    about.pop("digest", None)
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    (folder / TEXT).write_text(json.dumps({**about, "digest": digest}))
    return folder


def rewritten(good: Path, folder: Path, table: str, **columns: Any) -> Path:
    """A copy in which columns of a table have other values."""
    shutil.copytree(good, folder)
    found = parquet.read_table(path := folder / f"posterior.{table}.parquet")
    for name, values in columns.items():
        found = found.set_column(found.column_names.index(name), name, pa.array(values))
    parquet.write_table(found, path, compression="none", use_dictionary=False)
    return sealed(folder, json.loads((folder / TEXT).read_text()))


def refused(folder: Path, what: str) -> bool:
    """Whether a forgery is refused by name; any other error is one of the library."""
    try:
        crowdppl.load(folder).labels()
    except CrowdpplError:
        return True
    except BaseException as error:
        raise AssertionError(what) from error
    return False


def test_values_of_the_text_that_are_others(good: Path, tmp_path: Path) -> None:
    folder, stream = shutil.copytree(good, tmp_path / "forged"), np.random.default_rng(0)
    whole, found = (good / TEXT).read_text(), []
    for _ in range(80):
        about = json.loads(whole)
        places = list(nodes(about["contents"]))
        parent, key = places[stream.integers(len(places))]
        if stream.random() < 0.8:
            parent[key] = VALUES[stream.integers(len(VALUES))]
        else:
            del parent[key]
        found.append(refused(sealed(folder, about), f"{key!r}"))
    assert sum(found) > len(found) / 2


def test_arrays_that_are_others(good: Path, tmp_path: Path) -> None:
    folder, about = shutil.copytree(good, tmp_path / "forged"), json.loads((good / TEXT).read_text())
    whole, found = load_file(good / ARRAYS), []
    for name, x in whole.items():
        for other in (x[None], x.ravel()[:0], x.astype(np.float16), np.full_like(x, 100)):
            save_file(whole | {name: np.ascontiguousarray(other)}, folder / ARRAYS)
            found.append(refused(sealed(folder, about), f"{name}: {other.dtype} {other.shape}"))
        save_file({key: y for key, y in whole.items() if key != name}, folder / ARRAYS)
        assert refused(sealed(folder, about), name)
    assert sum(found) > len(found) / 2


@pytest.mark.parametrize(
    "packing",
    [{"use_dictionary": ["column 0 note"]}, {"column_encoding": {"column 0 note": "DELTA_BYTE_ARRAY"}}],
    ids=["dictionary", "prefix"],
)
def test_text_that_stands_once_for_many_rows(packing: dict[str, Any], good: Path, tmp_path: Path) -> None:
    folder, name = rewritten(good, tmp_path / "forged", "labels"), "column 0 note"
    path = folder / "posterior.labels.parquet"
    table = parquet.read_table(path)
    table = table.set_column(table.column_names.index(name), name, pa.array(["x" * 10_000] * len(table)))
    parquet.write_table(table, path, **{"compression": "none", "use_dictionary": False} | packing)
    with pytest.raises(ResultError, match="than its bytes"):
        crowdppl.load(sealed(folder, json.loads((folder / TEXT).read_text())))


@pytest.mark.parametrize(
    "column",
    [
        lambda n: pa.nulls(n, pa.binary(70_000_000 // n)),
        lambda n: pa.nulls(n, pa.list_(pa.int64(), 10)),
        lambda n: pa.ListArray.from_arrays([0, *[9_000_000] * n], pa.nulls(9_000_000, pa.int64())),
    ],
    ids=["of a fixed length", "lists of a fixed length", "lists"],
)
def test_missing_values_that_take_no_bytes_in_the_file(column: Any, good: Path, tmp_path: Path) -> None:
    folder, name = rewritten(good, tmp_path / "forged", "labels"), "column 0 note"
    path = folder / "posterior.labels.parquet"
    table = parquet.read_table(path)
    table = table.set_column(table.column_names.index(name), name, column(len(table)))
    parquet.write_table(table, path, compression="none", use_dictionary=False)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(ResultError, match="than its bytes"):
        crowdppl.load(sealed(folder, json.loads((folder / TEXT).read_text())))


def test_columns_that_are_missing_in_most_rows_are_saved(tmp_path: Path) -> None:
    n = 50_000
    more = {f"note {k}": [None] * (n - 1) + ["x"] for k in range(40)}
    table = pd.DataFrame({"item": np.arange(n) // 2, "annotator": np.arange(n) % 2, "label": np.arange(n) % 3 % 2})
    posterior = crowdppl.fit("majority_vote", crowdppl.Annotations.from_frame(table.assign(**more)), inference="em")
    posterior.save(tmp_path / "fit")
    assert crowdppl.load(tmp_path / "fit").data.columns.shape == (n, 40)


@pytest.mark.parametrize("column", ["item", "annotator", "answer"])
@pytest.mark.parametrize("code", [-1, 3, 2**31 - 1])
def test_codes_lie_in_their_codebooks(column: str, code: int, good: Path, tmp_path: Path) -> None:
    codes = np.array([0, 0, 1, code, 2, 2], np.int32)
    with pytest.raises(ResultError, match=column):
        crowdppl.load(rewritten(good, tmp_path / "forged", "labels", **{column: codes}))


def test_what_was_rounded_is_no_forgery(tmp_path: Path) -> None:
    found = small()
    assert isinstance(found.result.truth, ClassProbabilities) and found.result.truth.spread is not None
    spread = found.result.truth.spread()
    for faint, name in ((-1e-16, "rounded"), (-1e-3, "forged")):
        entropies = np.where(spread.entropies < spread.entropies.mean(), faint, spread.entropies)
        truth = replace(found.result.truth, spread=OnDemand.of(replace(spread, entropies=entropies)))
        replace(found, result=replace(found.result, truth=truth)).save(tmp_path / name)
    crowdppl.load(tmp_path / "rounded")
    with pytest.raises(ResultError, match="entropies"):
        crowdppl.load(tmp_path / "forged")


def test_gold_lies_among_the_classes(good: Path, tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="gold"):
        crowdppl.load(rewritten(good, tmp_path / "forged", "items", gold=np.array([99, -1, -1], np.int16)))
