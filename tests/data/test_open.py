"""Folders of parts: their layout, the shares of processes, and what is refused."""

import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import load_file, save_file

import crowdppl
from crowdppl.data import annotations, parts_written
from crowdppl.data.block_files import TENSORS
from crowdppl.data.parts import ends_at_items, own_parts, part_of
from crowdppl.errors import DataError, ResultError
from tests.core.test_files import killed
from tests.inference.shared import by_processes

pytest.importorskip("duckdb")


def table(n_items: int = 200, labels: int = 3, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(n_items), labels)
    return pd.DataFrame(
        {
            "item": [f"item {n}" for n in item],
            "annotator": rng.integers(12, size=len(item)),
            "label": np.where(rng.random(len(item)) < 0.7, item % 3, rng.integers(3, size=len(item))),
        }
    )


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    table().to_parquet(folder / "a.parquet")
    crowdppl.convert(folder / "a.parquet", folder / "parts", n_parts=5)
    return folder / "parts"


def as_process(monkeypatch: pytest.MonkeyPatch, process: int, processes: int) -> None:
    """Stands in for a process group of torch.distributed."""
    for name, value in (("process", process), ("n_processes", processes)):
        monkeypatch.setattr(annotations, name, lambda value=value: value)


def shares(
    monkeypatch: pytest.MonkeyPatch, parts: Path, processes: int, **known: Any
) -> Iterator[crowdppl.Annotations]:
    for process in range(processes):
        as_process(monkeypatch, process, processes)
        yield crowdppl.Annotations.open(parts, **known)
    monkeypatch.undo()


def test_the_layout_is_as_it_is_written_down(parts: Path) -> None:
    about = json.loads((parts / "dataset.json").read_text())
    rows = list[pd.DataFrame]()
    who = parquet.read_table(parts / "annotators.parquet").to_pandas()
    for number, part in enumerate(about["parts"]):
        path = parts / part["file"]
        assert path.name == f"part-{number:05}.parquet"
        assert hashlib.sha256(path.read_bytes()).hexdigest() == part["sha256"]
        frame = parquet.read_table(path).to_pandas()
        assert [*frame.columns] == ["item", "annotator", "label"]
        assert frame["item"].is_monotonic_increasing
        digits = [hashlib.md5(item.encode()).hexdigest()[:8] for item in frame["item"]]
        assert {int(x, 16) % 5 for x in digits} == {number}
        assert (frame["item"].nunique(), len(frame)) == (part["items"], part["labels"])
        rows.append(frame)
    whole = pd.concat(rows)
    whole["annotator"] = who["annotator"].to_numpy()[whole["annotator"]]
    whole["label"] = np.array(about["classes"])[whole["label"]]
    names = [*whole.columns]
    pd.testing.assert_frame_equal(
        *(x.sort_values(names).reset_index(drop=True) for x in (whole, table())), check_dtype=False
    )
    assert (who["labels"] == table()["annotator"].value_counts().sort_index().to_numpy()).all()


def without_blocks(parts: Path, folder: Path) -> Path:
    """A copy of a folder whose blocks are left out."""
    folder.mkdir()
    for path in parts.iterdir():
        if path.suffix != ".blocks":
            (folder / path.name).write_bytes(path.read_bytes())
    about = json.loads((folder / "dataset.json").read_text())
    about["parts"] = [{name: x for name, x in part.items() if name != "blocks"} for part in about["parts"]]
    (folder / "dataset.json").write_text(json.dumps(about))
    return folder


def test_blocks_in_files_are_those_of_the_labels(parts: Path, tmp_path: Path) -> None:
    mapped, built = (crowdppl.Annotations.open(path) for path in (parts, without_blocks(parts, tmp_path / "parts")))
    assert np.array_equal(mapped.order, built.order)
    for one, other in zip(mapped.blocks, built.blocks, strict=True):
        assert (one.offset, one.n_items, one.bags.n_cells) == (other.offset, other.n_items, other.bags.n_cells)
        for name in TENSORS:
            a, b = getattr(one.bags, name), getattr(other.bags, name)
            assert a is b is None or (a.dtype == b.dtype and a.equal(b))
    assert rows_of(mapped).equals(rows_of(built))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the memory of a process is told by Linux alone")
def test_blocks_lie_in_files_and_not_in_memory(parts: Path) -> None:
    data = crowdppl.Annotations.open(parts)
    spans = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(".blocks")]
    ends = [tuple(int(x, 16) for x in span[0].split("-")) for span in spans]
    for block in data.on("cpu", torch.float32):
        for name in ("cells", "rows", "row_starts"):
            place = getattr(block.bags, name).data_ptr()
            assert any(first <= place < last for first, last in ends), name


DAMAGED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cells": lambda x: torch.full_like(x, 36),  # 12 annotators by 3 classes are 0 to 35
    "rows": lambda x: x - 1,
    "row_starts": lambda x: x.flip(0),
    "piece_starts": lambda x: x + 1,
    "order": lambda x: x * 0,
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("change", ["values", "length", "type", "lost"])
def test_blocks_that_a_pass_would_read_beyond_are_refused(
    parts: Path, tmp_path: Path, name: str, change: str
) -> None:
    folder = tmp_path / "parts"
    shutil.copytree(parts, folder)
    tensors = load_file(folder / "part-00000.blocks")
    key = name if name in tensors else f"0.{name}"
    given = tensors.pop(key)
    changed = {"values": DAMAGED[name](given), "length": given[:-1], "type": given.double()}
    if change != "lost":
        tensors[key] = changed[change].contiguous()
    save_file({x: tensor.clone() for x, tensor in tensors.items()}, folder / "part-00000.blocks")
    about = json.loads((folder / "dataset.json").read_text())
    about["parts"][0]["blocks"]["bytes"] = (folder / "part-00000.blocks").stat().st_size
    (folder / "dataset.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match=r"part-00000\.parquet: .*write the part anew"):
        crowdppl.Annotations.open(folder)


def rows_of(data: crowdppl.Annotations) -> pd.DataFrame:
    return data.frame().sort_values(["item", "annotator", "label"]).reset_index(drop=True)


def test_row_groups_end_at_items() -> None:
    rng = np.random.default_rng(1)
    for most in (1, 7, 40):
        item = np.repeat(np.arange(60), rng.integers(1, 9, 60))
        ends = ends_at_items(item, most // 2, most)
        assert (ends[0], ends[-1]) == (0, len(item))
        assert all(a < b for a, b in pairwise(ends))
        assert all(item[end] != item[end - 1] for end in ends[1:-1])
        assert all(b - a <= max(most, most // 2 + 9) for a, b in pairwise(ends))
    assert ends_at_items(np.zeros(0, int), 5, 10) == [0]
    assert ends_at_items(np.zeros(30, int), 5, 10) == [0, 30]  # one item


def test_large_parts_have_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_written, "GROUP", (50, 100))
    table().to_parquet(tmp_path / "a.parquet")
    crowdppl.convert(tmp_path / "a.parquet", tmp_path / "parts", n_parts=1)
    file = parquet.ParquetFile(tmp_path / "parts" / "part-00000.parquet")
    groups = [file.read_row_group(n)["item"].to_pylist() for n in range(file.num_row_groups)]
    assert len(groups) > 5 and all(50 <= len(group) <= 100 for group in groups[:-1])
    assert all(a[-1] != b[0] for a, b in pairwise(groups))


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_shares_are_runs_of_the_same_blocks(processes: int, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, found = crowdppl.Annotations.open(parts), [*shares(monkeypatch, parts, processes)]
    assert [data.share for data in found] == [(n, processes) for n in range(processes)]
    assert whole.share is None and len(whole.blocks) == 5
    assert [id for data in found for id in data.items] == [*whole.items]
    cells = [block.bags.cells.tolist() for data in found for block in data.blocks]
    assert cells == [block.bags.cells.tolist() for block in whole.blocks]
    first, places = 0, list[int]()
    for data in found:
        assert data.annotators.equals(whole.annotators) and data.classes.equals(whole.classes)
        places += [first + block.offset for block in data.blocks]
        first += data.n_items
    assert places == [block.offset for block in whole.blocks]


def test_annotators_and_classes_of_a_part_without_them_are_global(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.DataFrame({"item": ["a", "b", "c"], "annotator": ["x", "y", "z"], "label": ["r", "s", "don't know"]})
    rows.to_csv(tmp_path / "a.csv", index=False)
    crowdppl.convert(tmp_path / "a.csv", tmp_path / "parts", n_parts=8, abstentions=["don't know"])
    whole, found = crowdppl.Annotations.open(tmp_path / "parts"), [*shares(monkeypatch, tmp_path / "parts", 8)]
    assert sum(data.n_labels for data in found) == 3 and any(data.n_items == 0 for data in found)
    for data in found:
        assert [*data.annotators] == ["x", "y", "z"] and [*data.answers] == ["r", "s", "don't know"]
        assert whole.abstainers is not None and data.abstainers is not None
        assert data.abstainers.tolist() == whole.abstainers.tolist() == [False, False, True]


def test_what_is_known_by_id_goes_to_the_process_that_has_it(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = pd.DataFrame({"words": np.arange(200.0)}, index=[f"item {n}" for n in range(200)])
    gold = {f"item {n}": n % 3 for n in range(50)}
    known: dict[str, Any] = {"gold": gold, "item_covariates": words, "features": words}
    whole, found = crowdppl.Annotations.open(parts, **known), [*shares(monkeypatch, parts, 3, **known)]
    assert whole.gold is not None and whole.gold.to_dict() == gold
    assert {k: x for data in found if data.gold is not None for k, x in data.gold.items()} == gold
    for data in (whole, *found):
        assert data.item_covariates is not None and isinstance(data.features, pd.DataFrame)
        assert (data.item_covariates["words"] == words.loc[data.items, "words"]).all()
        assert (data.features["words"] == words.loc[data.items, "words"]).all()
    as_process(monkeypatch, int(part_of(["nobody"], 5)[0] in own_parts(5, 1, 2)), 2)
    with pytest.raises(DataError, match="names the item 'nobody'"):
        crowdppl.Annotations.open(parts, gold={"nobody": 1})


SVI: Any = {"inference": "svi", "max_iterations": 4}


def of_group(process: int, processes: int, folder: str) -> tuple[list[str], Any, dict[str, str]]:
    """In a process of a group: its items, what a fit finds, and what is said of faults, within seconds."""
    place, said = Path(folder), dict[str, str]()
    data = crowdppl.Annotations.open(place / "parts")

    def fit(given: crowdppl.Annotations = data, **how: Any) -> crowdppl.Posterior:
        return crowdppl.fit("dawid_skene", given, **{"inference": "em", "seed": 0, **how})

    def opened(name: str, of_all: bool = False) -> Any:
        return crowdppl.Annotations.open(place / (name if process or of_all else "parts"))

    def on_full_disk() -> None:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits[0] if process else 99, limits[1]))
        try:
            fit(checkpoint=place / "full" / "checkpoint")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    sites = {name: site.mean for name, site in fit(checkpoint=place / "checkpoint").result.sites.items()}
    fit(checkpoint=place / "svi", **SVI)
    faults: dict[str, Callable[[], Any]] = {
        "missing": lambda: opened("missing", of_all=True),
        "version": lambda: opened("version"),
        "other": lambda: opened("other"),
        "fitted": lambda: fit(replace(data, opened=replace(data.opened, digest=f"{process:064}"))),
        "twice": lambda: fit(replace(data, share=(0, processes))),
        "full": on_full_disk,
    }
    for name, fault in faults.items():
        began = time.perf_counter()
        try:
            fault()
        except crowdppl.errors.CrowdpplError as error:
            said[name] = f"{type(error).__name__}: {error}"
        assert time.perf_counter() - began < 30
    return [*data.items], sites, said


def test_processes_of_a_group_find_what_one_finds_and_name_faults(parts: Path, tmp_path: Path) -> None:
    for name in ("parts", "missing", "version"):
        shutil.copytree(parts, tmp_path / name)
    (tmp_path / "missing" / "part-00004.parquet").unlink()
    about = json.loads((parts / "dataset.json").read_text())
    (tmp_path / "version" / "dataset.json").write_text(json.dumps(about | {"version": 9}))
    crowdppl.convert(parts.parent / "a.parquet", tmp_path / "other", n_parts=4)
    found = by_processes(2, of_group, str(tmp_path))
    data, how = crowdppl.Annotations.open(parts), {"inference": "em", "seed": 0}
    alone = crowdppl.fit("dawid_skene", data, **how)
    assert [name for own, *_ in found for name in own] == [*data.items]
    calls: list[int] = []
    more: Any = {"checkpoint": tmp_path / "checkpoint", "callback": lambda t, _: calls.append(t)}
    again = crowdppl.fit("dawid_skene", data, **more, **how)
    assert not calls  # one process goes on where two have ended
    with pytest.raises(ResultError, match="random streams of 2 processes, and there are 1"):
        crowdppl.fit("dawid_skene", data, seed=0, checkpoint=tmp_path / "svi", **SVI)
    for _, sites, said in found:
        for name, site in alone.result.sites.items():
            np.testing.assert_allclose(sites[name], site.mean, rtol=1e-9)
            np.testing.assert_array_equal(sites[name], again.result.sites[name].mean)
        expected = {
            "missing": ("DataError", "part-00004.parquet is not there"),
            "version": ("DataError", "of version 9"),
            "other": ("ProcessError", "processes differ in the parts"),
            "fitted": ("ProcessError", "processes differ in the parts"),
            "twice": ("DataError", "has the share of process 0, whose labels would count twice"),
            "full": ("ResultError", "the checkpoint .*checkpoint is not written"),
        }
        assert said.keys() == expected.keys()
        for name, (kind, text) in expected.items():
            assert said[name].startswith(kind) and re.search(text, said[name]), said[name]
    assert not [*(tmp_path / "full").iterdir()]


@pytest.mark.slow
def test_a_fit_whose_process_is_killed_ends_in_the_same_bits(parts: Path, tmp_path: Path) -> None:
    """torchrun starts it again, and it goes on from its checkpoint; ``make bench ONLY=faults`` kills more often."""
    (tmp_path / "parts").symlink_to(parts)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["--max-restarts=2", "-m", "tests.inference.killed", str(tmp_path), "hierarchical_dawid_skene", "vb"]
    # https://github.com/pytorch/pytorch/issues/135712
    surroundings = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    done = subprocess.run([*command, "{}", "7"], env=surroundings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for process in range(2):
        found = json.loads((tmp_path / f"found-{process}").read_text())
        assert found["same"] and found["life"] == 1 and found["of"] > 8
        assert (tmp_path / f"began-{process}-1").read_text() == "8"


def test_others_may_write_the_layout(parts: Path, tmp_path: Path) -> None:
    """As a program without crowdppl does it, in another order of items and of labels."""
    about = json.loads((parts / "dataset.json").read_text())
    folder, rows = tmp_path / "own", table()
    folder.mkdir()
    (folder / "annotators.parquet").write_bytes((parts / "annotators.parquet").read_bytes())
    number = rows["item"].map(lambda x: int(hashlib.md5(x.encode()).hexdigest()[:8], 16) % 5)
    for n, part in enumerate(about["parts"]):
        own = rows[number == n].sort_values("item", ascending=False)[["item", "annotator", "label"]]
        path = folder / part["file"]
        own.astype({"annotator": "int32", "label": "int64"}).to_parquet(path, index=False)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        part |= {"bytes": path.stat().st_size, "sha256": digest, "blocks": None}
    (folder / "dataset.json").write_text(json.dumps(about))
    data = crowdppl.Annotations.open(folder, check=True)
    names = ["item", "annotator", "label"]
    frames = (x[names].sort_values(names).reset_index(drop=True) for x in (data.frame(), rows))
    pd.testing.assert_frame_equal(*frames, check_dtype=False)


def _rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path, dict[str, Any]], None]:
    def spoil(folder: Path, about: dict[str, Any]) -> None:
        path = folder / "part-00002.parquet"
        parquet.write_table(change(parquet.read_table(path)), path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        about["parts"][2] |= {"bytes": path.stat().st_size, "sha256": digest, "blocks": None}

    return spoil


def _with(column: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        at = rows.column_names.index(column)
        values = rows[column].to_pylist()
        return rows.set_column(at, column, pa.array([value, *values[1:]], rows[column].type))

    return change


SPOILT: dict[str, tuple[Callable[[Path, dict[str, Any]], Any], str, bool]] = {
    "no manifest": (lambda folder, about: about.clear(), "no description of parts", False),
    "another version": (lambda folder, about: about.update(version=1), "version 1", False),
    "another hash": (lambda folder, about: about.update(hash="crc32"), "'crc32'", False),
    "a path": (lambda folder, about: about["parts"][0].update(file="../x"), "no files of the folder", False),
    "another kind": (lambda folder, about: about.update(kind="nonsense"), "nonsense", False),
    "a missing part": (
        lambda folder, about: (folder / "part-00001.parquet").unlink(),
        "part-00001.parquet is not",
        False,
    ),
    "no annotators": (
        lambda folder, about: (folder / "annotators.parquet").unlink(),
        "annotators.parquet is not",
        False,
    ),
    "a part cut off": (
        lambda folder, about: (folder / "part-00001.parquet").write_bytes(b"PAR1"),
        "part-00001.parquet has 4 bytes",
        False,
    ),
    "a part of another set": (
        lambda folder, about: about["parts"][3].update(sha256="0" * 64),
        "part-00003.parquet has another digest",
        True,
    ),
    "an annotator too many": (_rewritten(_with("annotator", 12)), "annotators is none of 0 to 11", False),
    "a negative label": (_rewritten(_with("label", -1)), "labels is none of 0 to 2", False),
    "an item in another part": (_rewritten(_with("item", "item 1x")), "2.parquet", True),
    "rows of an item apart": (
        _rewritten(lambda rows: pa.concat_tables([rows[1:], rows[:1]])),
        "are not together",
        False,
    ),
    "rows that are missing": (_rewritten(lambda rows: rows[3:]), "says otherwise", False),
    "no column of labels": (_rewritten(lambda rows: rows.drop_columns("label")), "cannot be read", False),
}


@pytest.mark.parametrize("what", SPOILT)
def test_a_damaged_folder_is_refused(what: str, parts: Path, tmp_path: Path) -> None:
    spoil, says, check = SPOILT[what]
    folder = tmp_path / "parts"
    folder.mkdir()
    for path in parts.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    about = json.loads((folder / "dataset.json").read_text())
    spoil(folder, about)
    (folder / "dataset.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match=says):
        crowdppl.Annotations.open(folder, check=check)


def test_more_processes_than_parts_are_refused(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_process(monkeypatch, 0, 6)
    with pytest.raises(DataError, match="n_parts=6"):
        crowdppl.Annotations.open(parts)


def test_a_run_that_is_cut_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table().to_parquet(tmp_path / "a.parquet")
    written = parts_written.Writer.add
    calls = list[int]()

    def third(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return written(*given)

    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr(parts_written.Writer, "add", third)
        crowdppl.convert(tmp_path / "a.parquet", tmp_path / "parts", n_parts=5)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
    crowdppl.convert(tmp_path / "a.parquet", tmp_path / "parts", n_parts=5)
    with pytest.raises(ResultError, match="exists"):
        crowdppl.convert(tmp_path / "a.parquet", tmp_path / "parts", n_parts=5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_run_that_is_killed_leaves_no_half(tmp_path: Path) -> None:
    """Killed at some of its steps on the disk; ``make bench ONLY=faults`` kills it at random moments."""
    table().to_parquet(tmp_path / "a.parquet")
    whole = list[bool]()
    for step in (3, 9, 17, 25, 33, 10_000):
        folder = tmp_path / f"parts-{step}"
        ended = killed(step, lambda folder=folder: crowdppl.convert(tmp_path / "a.parquet", folder, n_parts=3))
        whole.append(folder.exists())
        assert whole[-1] or not ended
        if whole[-1]:
            assert crowdppl.Annotations.open(folder, check=True).n_labels == 600
    assert set(whole) == {False, True}


def test_a_million_labels_in_little_memory(tmp_path: Path) -> None:
    rows = table(200_000, 5)
    rows.to_parquet(tmp_path / "a.parquet")
    found = crowdppl.convert(tmp_path / "a.parquet", tmp_path / "parts", memory_limit="200MB")
    assert found == {"items": 200_000, "annotators": 12, "labels": 1_000_000, "parts": 8}
    data = crowdppl.Annotations.open(tmp_path / "parts")
    counts = np.zeros((12, 3), int)
    np.add.at(counts, (rows["annotator"], rows["label"]), 1)
    _, annotator, label = data.label_codes()
    assert (np.bincount(annotator * 3 + label, minlength=36).reshape(12, 3) == counts).all()
