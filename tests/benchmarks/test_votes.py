"""Majority vote side by side with crowd-kit."""

import time
from collections.abc import Callable

import pandas as pd
import pytest

import crowdppl
from tests.benchmarks.results import Recorder
from tests.benchmarks.simulated import Drawn, draw
from tests.benchmarks.tables import markdown, seconds
from tests.benchmarks.timing import threads

ABOUT = (
    "CPU seconds from a frame of labels to each item's label, one thread, the least of five runs in turn; five "
    "labels an item, K = 5. crowd-kit counts votes. `majority_vote` fits a model by em, with probabilities, the "
    "crowd's accuracy and doubts."
)


def test_majority_vote_side_by_side(recorder: Recorder) -> None:
    pytest.importorskip("crowdkit", reason="crowd-kit is not installed: pip install '.[bench]'")
    rows = []
    for items, annotators in ((2_000, 100), (20_000, 200), (200_000, 2_000)):
        ours, theirs = cpu_seconds(draw(items, 5, annotators, 5, seed=4))
        rows.append([f"{5 * items:,}", seconds(ours), seconds(theirs), f"{ours / theirs:.1f}"])
    table = markdown(("labels", "crowdppl", "crowd-kit", "ratio"), rows)
    recorder.add("Majority vote side by side with crowd-kit", f"{ABOUT}\n\n{table}")


def cpu_seconds(data: Drawn) -> tuple[float, float]:
    """Least CPU seconds of crowdppl and of crowd-kit."""
    from crowdkit.aggregation import MajorityVote

    ours = pd.DataFrame({"item": data.item, "annotator": data.annotator, "label": data.label})
    theirs = ours.set_axis(["task", "worker", "label"], axis=1)

    def by_crowdppl() -> object:
        return crowdppl.fit("majority_vote", crowdppl.Annotations.from_frame(ours), inference="em").labels()

    tasks: tuple[Callable[[], object], ...] = (by_crowdppl, lambda: MajorityVote().fit_predict(theirs))
    took: list[list[float]] = [[], []]
    with threads(1):
        for _ in range(5):
            for found, task in zip(took, tasks, strict=True):
                began = time.process_time()
                task()
                found.append(time.process_time() - began)
    return min(took[0]), min(took[1])
