"""Dawid-Skene by EM: time and memory side by side with crowd-kit, and the cost of many labels."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.benchmarks.dawid_skene import by_crowdkit, by_crowdppl, by_hand, iterations_to_reach, log_likelihood
from tests.benchmarks.results import ROOT, Recorder
from tests.benchmarks.simulated import Drawn, draw
from tests.benchmarks.tables import markdown, seconds, times
from tests.benchmarks.timing import least_seconds, on_threads, threads

HEADER = ("labels", "what", "crowdppl, 1 thread", "crowdppl, 2 threads", "crowd-kit", "times faster, 1 / 2 threads")


def test_em_side_by_side(recorder: Recorder) -> None:
    pytest.importorskip("crowdkit", reason="crowd-kit is not installed: pip install '.[bench]'")
    million = draw(200_000, 5, 2_000, 5, seed=1)
    small = draw(10_000, 5, 200, 5, seed=2)
    rows, notes = [], []
    rows.append(iteration_row("1,000,000", million, (2, 6), (2, 22), rounds=3))
    rows.append(iteration_row("50,000", small, (2, 12), (2, 22), rounds=10))
    for name, data, rounds in (("1,000,000", million, 3), ("50,000", small, 15), *real()):
        more, note = whole_rows(name, data, rounds)
        rows += more
        notes.append(note)
    text = "\n".join(
        [
            "Maximum likelihood from integer arrays to label probabilities, packages in turn in one process, "
            "least of several rounds. 1,000,000 labels: 200,000 items x 5, 2,000 annotators, K = 5; 50,000: "
            "10,000 items x 5, 200 annotators, K = 5. crowd-kit runs on pandas, in one thread whatever is "
            "allowed. An iteration is the difference between a long and a short run, by the number of "
            "iterations between them. Before each turn garbage is collected, which, as the other package's turn, "
            "leaves little in the processor's caches; the second of two in a row finds what it needs there.",
            "",
            markdown(HEADER, rows),
            "",
            "Log-likelihoods reached, computed by the same code from both packages' confusions and prevalence:",
            "",
            *(f"- {note}" for note in notes),
        ]
    )
    recorder.add("EM side by side with crowd-kit", text)


MANY = (
    (10, 10_000, 12),
    (10, 100_000, 12),
    (20, 100_000, 12),
    (50, 100_000, 12),
    (10, 1_000_000, 6),
    (50, 1_000_000, 6),
)
"""Classes, labels, and iterations of the long run; the short one has 2."""


def test_many_classes(recorder: Recorder) -> None:
    rows = []
    for k, labels, last in MANY:
        data = draw(labels // 5, 5, 200, k, seed=3)
        assert by_crowdppl(data, last).iterations == last, "settled before the long run's end"
        ours, hand = (iteration_cost(partial(by, data), last) for by in (by_crowdppl, by_hand))
        rows.append([f"{k}", f"{labels:,}", seconds(ours), seconds(hand), f"{ours / hand:.2f}"])
    text = (
        "CPU seconds of an iteration of `dawid_skene` by em, and of the same EM written in torch with two sparse "
        "products; 200 annotators, 5 labels an item, one thread, the least of five runs of each.\n\n"
    )
    recorder.add("Many classes", text + markdown(("classes", "labels", "crowdppl", "by hand", "ratio"), rows))


def iteration_cost(run: Callable[[int], object], last: int) -> float:
    """CPU seconds of an iteration, from runs of 2 and of ``last`` iterations in turn."""
    took: dict[int, list[float]] = {2: [], last: []}
    with threads(1):
        for _ in range(5):
            for n, found in took.items():
                began = time.process_time()
                run(n)
                found.append(time.process_time() - began)
    return (min(took[last]) - min(took[2])) / (last - 2)


def side_by_side(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int, again: bool = False
) -> tuple[float, ...]:
    """Least seconds of crowdppl on one and two threads, and of crowd-kit."""
    tasks: Mapping[str, Callable[[], object]] = {
        "one": on_threads(1, ours),
        "two": on_threads(2, ours),
        "peer": on_threads(1, theirs),
    }
    return tuple(least_seconds(tasks, rounds, again=again).values())


def row(name: str, what: str, took: tuple[float, ...]) -> list[str]:
    one, two, peer = took
    return [name, what, *(seconds(t) for t in (one, two, peer)), f"{times(peer / one)} / {times(peer / two)}"]


def iteration_row(name: str, data: Drawn, theirs: tuple[int, int], ours: tuple[int, int], rounds: int) -> list[str]:
    """One iteration: (long run - short run) / (iterations between them)."""
    assert by_crowdppl(data, ours[1]).iterations == ours[1], "settled before the long run's end"
    short = side_by_side(partial(by_crowdppl, data, ours[0]), partial(by_crowdkit, data, theirs[0]), rounds)
    long = side_by_side(partial(by_crowdppl, data, ours[1]), partial(by_crowdkit, data, theirs[1]), rounds)
    between = (ours[1] - ours[0], ours[1] - ours[0], theirs[1] - theirs[0])
    took = tuple((b - a) / n for a, b, n in zip(short, long, between, strict=True))
    return row(name, "an iteration", took)


def whole_rows(name: str, data: Drawn, rounds: int) -> tuple[list[list[str]], str]:
    """A whole fit: each package by its own defaults, and crowdppl up to crowd-kit's objective."""
    with threads(1):
        ours, theirs = by_crowdppl(data), by_crowdkit(data)
        reached, target = log_likelihood(data, ours), log_likelihood(data, theirs)
        enough = iterations_to_reach(data, target)
        stopped = log_likelihood(data, by_crowdppl(data, enough))
    peer = partial(by_crowdkit, data)
    equal = side_by_side(partial(by_crowdppl, data, enough), peer, rounds)
    warm = side_by_side(partial(by_crowdppl, data, enough), peer, rounds, again=True)
    whole = side_by_side(partial(by_crowdppl, data), peer, rounds)
    same = f"whole fit to crowd-kit's log-likelihood ({enough} iterations, crowd-kit {theirs.iterations})"
    full = f"whole fit, default tolerances ({ours.iterations} iterations, crowd-kit {theirs.iterations})"
    note = (
        f"{name}: crowd-kit {target:,.1f}; crowdppl {stopped:,.1f} after {enough} iterations, {reached:,.1f} at "
        "its default tolerance"
    )
    assert reached >= target - 1e-6 * abs(target), note
    return [
        row(name, same, equal),
        row(name, "the same, the second of two in a row", warm),
        row(name, full, whole),
    ], note


def real() -> list[tuple[str, Drawn, int]]:
    folder = os.environ.get("CROWDPPL_DATA")
    if not folder:
        return []
    return [
        (f"{name}, {len(data.item):,}", data, 10)
        for name in ("bluebirds", "rte")
        for data in [real_set(folder, name)]
    ]


def real_set(folder: str, name: str) -> Drawn:
    """Real answers as arrays, codes without gaps, exact duplicates dropped."""
    rows = pd.read_csv(Path(folder) / name / "answers.csv").drop_duplicates()
    codes = [np.unique(rows[column], return_inverse=True)[1] for column in ("item", "annotator", "label")]
    return Drawn(*codes, truth=np.zeros(codes[0].max() + 1, int))


def test_peak_memory(recorder: Recorder) -> None:
    pytest.importorskip("crowdkit", reason="crowd-kit is not installed: pip install '.[bench]'")
    peaks = {package: measured(package) for package in ("crowdppl", "crowdkit")}
    ours, theirs = peaks["crowdppl"], peaks["crowdkit"]
    rows = [["peak above the imports", f"{ours:.0f} MiB", f"{theirs:.0f} MiB", f"{ours / theirs:.2f}"]]
    text = (
        "Resident set of a whole fit on 1,000,000 labels (200,000 items x 5, 2,000 annotators, K = 5), from "
        "integer arrays to label probabilities, above what the process held before: imports, a first small fit "
        "and the arrays. A process for each package, one thread.\n\n"
    )
    recorder.add("Memory of EM", text + markdown(("", "crowdppl", "crowd-kit", "ratio"), rows))


def measured(package: str) -> float:
    """MiB that a fit adds, in a fresh process."""
    command = [sys.executable, "-m", "tests.benchmarks.peak", package]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out: float = json.loads(done.stdout.splitlines()[-1])["mib"]
    return out


SIZES = (1_000_000, 3_000_000, 10_000_000)


def test_cost_a_label_stays_the_same(recorder: Recorder) -> None:
    rows = []
    for n_threads in (1, 2):
        with threads(n_threads):
            costs = interleaved(SIZES)
        first = costs[SIZES[0]]
        rows += [
            [f"{size:,}", f"{n_threads}", f"{1e9 * costs[size]:.2f} ns", times(costs[size] / first)]
            for size in SIZES
        ]
    text = (
        "`dawid_skene` by em, float32, five labels an item, 2,000 annotators, K = 5: median time of an iteration, "
        "by the number of labels. Linear is 1.0x; sizes take turns, least of three rounds.\n\n"
    )
    table = markdown(("labels", "threads", "an iteration, a label", "of the cost at 1,000,000"), rows)
    recorder.add("EM from a million to ten million labels", text + table)


def interleaved(sizes: tuple[int, ...]) -> dict[int, float]:
    """Least over three rounds of the median seconds a label and iteration."""
    data = {size: draw(size // 5, 5, 2_000, 5, seed=3) for size in sizes}
    cost = dict.fromkeys(sizes, float("inf"))
    for _ in range(3):
        for size in sizes:
            cost[size] = min(cost[size], cost_a_label(data[size]))
    return cost


def cost_a_label(data: Drawn) -> float:
    """Median seconds of an iteration, by the number of labels; the first ones are not counted."""
    from crowdppl.data.annotations import Annotations
    from crowdppl.fitting import fit

    ticks: list[float] = []
    annotations = Annotations.from_arrays(data.item, data.annotator, data.label)
    fit(
        "dawid_skene",
        annotations,
        inference="em",
        max_iterations=10,
        tolerance=0.0,
        callback=lambda t, value: ticks.append(time.perf_counter()),
    )
    steps = sorted(b - a for a, b in pairwise(ticks[1:]))
    return steps[len(steps) // 2] / len(data.item)
