"""EM's cost a label from a million to ten million labels."""

from __future__ import annotations

import time
import warnings
from itertools import pairwise

import pytest

from tests.benchmarks.recorder import Recorder
from tests.benchmarks.simulated import Drawn, draw
from tests.benchmarks.tables import markdown, times
from tests.benchmarks.timing import threads

pytestmark = pytest.mark.bench

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
