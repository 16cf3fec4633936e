"""Labels converted to parts and fitted by one process and by two, in turn: seconds and memory."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.results import ROOT, SCALE, Recorder
from tests.benchmarks.tables import markdown

SIZES = tuple(int(float(x)) for x in os.environ.get("CROWDPPL_SCALE", "1e6 1e7").split())
"""Labels; 10^8 take an hour, and 10 GB of disk."""
FITS = {"em": "dawid_skene", "vb": "bayesian_dawid_skene"}
FEW, MANY = 2, 8
"""Iterations of the short and of the long fit."""
ROUNDS = 2
"""How often each way is measured, in turn."""


def written(labels: int, path: Path) -> Path:
    """Five labels an item by 2,000 annotators (10,000 from 10^8 labels on) of accuracies .64 to .96, K = 5."""
    import duckdb

    annotators = 2_000 if labels < 10**8 else 10_000
    pairs = f"SELECT i, r, hash(i * 5 + r) % {annotators} AS w FROM range({labels // 5}) a(i), range(5) b(r)"
    query = (
        "SELECT 'item-' || i AS item, 'worker-' || w AS annotator, 'c' || CASE "
        "WHEN hash(i * 7 + r * 1000003) % 1000 < 550 + hash(w) % 400 THEN hash(i + 17) % 5 "
        f"ELSE hash(i * 11 + r * 31) % 5 END AS label FROM ({pairs})"
    )
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.sql(f"COPY ({query}) TO '{path}' (FORMAT csv, HEADER)")
    return path


def cpu_seconds(*command: str) -> float:
    """CPU seconds of a command and all it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def by_processes(n: int, *groups: Sequence[str]) -> list[dict[str, Any]]:
    """What each process says of itself: n of one thread share a fit, and groups of them fit at the same time."""
    how = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}"]
    started = [
        subprocess.Popen(
            [*how, "-m", "tests.benchmarks.scale", *group], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for group in groups
    ]
    said = [process.communicate()[0] for process in started]
    assert not any(process.returncode for process in started)
    found = [json.loads(line) for text in said for line in text.splitlines() if line.startswith("{")]
    assert len(found) == n * len(groups)
    return found


HEADER = (
    *("labels", "fit", "open, CPU s", "iteration, CPU ns a label", "iteration, one / two: wall, CPU"),
    *("one / halves apart", "whole fit, one / two", "one / halves apart"),
    *("labels written, CPU s", "memory, MB", "with doubts", "of each of two"),
)


def test_scale(recorder: Recorder, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    rows, notes = list[list[str]](), list[str]()
    for labels in SIZES:
        source, parts = written(labels, tmp_path / f"{labels}.csv"), tmp_path / f"{labels}"
        read = cpu_seconds("cat", str(source))
        convert = (sys.executable, "-m", "crowdppl", "convert")
        converted = cpu_seconds(*convert, str(source), str(parts))
        kept, size = sum(path.stat().st_size for path in parts.iterdir()), source.stat().st_size
        notes.append(
            f"- {labels:,} labels: a CSV of {size / 1e6:,.0f} MB, converted in {converted:.1f} CPU seconds "
            f"({read:.1f} to read it) to {kept / labels:.1f} bytes a label of parts and blocks"
        )
        halves = [tmp_path / f"{labels} {n}" for n in range(2)]
        for n, half in enumerate(halves):
            query = f"FROM '{source}' WHERE hash(item) % 2 = {n}"
            cpu_seconds(*convert, query, str(half), "--format", "sql", "--n-parts", "4")
        rows += [row(labels, engine, method, parts, halves) for engine, method in FITS.items()]
    recorder.add(SCALE, f"{ABOUT}\n\n{markdown(HEADER, rows)}\n\n" + "\n".join(notes))


def row(labels: int, engine: str, method: str, parts: Path, halves: Sequence[Path]) -> list[str]:
    """One fit, by one process, by two, and by two that each fit half of the labels and share nothing."""

    def given(folder: Path) -> list[str]:
        return [str(folder), method, engine, str(FEW), str(MANY), f"{folder} out"]

    ways: dict[str, tuple[int, list[list[str]]]] = {
        "one": (1, [given(parts)]),
        "two": (2, [given(parts)]),
        "apart": (1, [given(half) for half in halves]),
    }
    found = [{name: by_processes(n, *groups) for name, (n, groups) in ways.items()} for _ in range(ROUNDS)]

    def seconds(way: str, what: str, n: int) -> float:
        return min(float(max(x[what][n] for x in each[way])) for each in found)

    def times(way: str, what: str) -> str:
        return " / ".join(f"{seconds('one', what, n) / seconds(way, what, n):.2f}" for n in (0, 1))

    def memory(way: str, what: str) -> str:
        return f"{max(x[what] - x['libraries'] for x in found[-1][way]):,.0f}"

    return [
        f"{labels:,}",
        f"`{method}` by {engine}",
        f"{seconds('one', 'open', 1):.1f}",
        f"{seconds('one', 'iteration', 1) / labels * 1e9:.1f}",
        *(times(way, what) for what in ("iteration", "fit") for way in ("two", "apart")),
        f"{seconds('one', 'write', 1):.1f}",
        *(memory("one", "peak"), memory("one", "with doubts"), memory("two", "peak")),
    ]


ABOUT = (
    "`crowdppl convert`, then fits of 2 and of 8 iterations by one process and by two, of one thread each, started "
    "by torchrun in turn, twice, least of three fits each time; five labels an item, 2,000 annotators (10,000 from "
    "10^8 labels on), K = 5. An iteration is their difference. Ratios are of seconds of one process to those of "
    "the slower of two, of the wall and of the CPU, which does not count waiting. Halves apart are two processes "
    "that each fit half of the labels at the same time and share nothing: what the machine allows. Memory is the "
    "peak above libraries, without pages of mapped files."
)
