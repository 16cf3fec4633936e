"""Which label to ask for next, where items are many: seconds and memory of ranking five million pairs."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from crowdppl.data.annotations import Annotations
from crowdppl.fitting import fit
from crowdppl.results.acquisition import suggest_labels
from tests.benchmarks.results import Recorder
from tests.benchmarks.simulated import draw
from tests.benchmarks.tables import markdown, seconds
from tests.benchmarks.timing import threads

TITLE = "Asking among five million pairs"
BAR = 1.0
"""CPU seconds within which the pairs are ranked."""
PRICES = {a: 0.5 + a % 7 / 7 for a in range(50)}
ASKED: dict[str, dict[str, Any]] = {
    "100": {"n": 100},
    "50,000": {"n": 50_000},
    "50,000, at most 1,000 an annotator": {"n": 50_000, "per_annotator": 1_000},
    "a budget of 20,000, seven prices": {"budget": 20_000, "costs": PRICES},
    "the same, at most 1,000 an annotator": {"budget": 20_000, "costs": PRICES, "per_annotator": 1_000},
}


def cpu_seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def test_asking(recorder: Recorder) -> None:
    simulated = draw(100_000, 2, 50, 5, seed=0)
    data = Annotations.from_arrays(simulated.item, simulated.annotator, simulated.label)
    rows = []
    with threads(1):
        posterior = fit("bayesian_dawid_skene", data, inference="vb", max_iterations=20, seed=0)
        for asked, given in ASKED.items():
            took = min(cpu_seconds(lambda x=given: suggest_labels(posterior, **x)) for _ in range(3))
            tracemalloc.start()
            suggest_labels(posterior, **given)
            peak = tracemalloc.get_traced_memory()[1] / 2**20
            tracemalloc.stop()
            rows.append([asked, seconds(took), f"{peak:.0f} MiB", "met" if took <= BAR else "not met"])
    text = (
        "`suggest_labels(posterior, n)` among 100,000 items with two labels each and 50 annotators, K = 5, after "
        "bayesian_dawid_skene by vb: CPU seconds of one thread, least of three rounds, and the most that Python "
        "and numpy held above what was there. The bar is 1 s.\n\n"
    )
    recorder.add(TITLE, text + markdown(("labels asked for", "CPU time", "memory", "bar"), rows))
