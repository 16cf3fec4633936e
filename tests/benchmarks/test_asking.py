"""Which label to ask for next, where items are many: seconds and memory of ranking five million pairs."""

import tracemalloc

from crowdppl.data.annotations import Annotations
from crowdppl.fitting import fit
from crowdppl.results.acquisition import suggest_labels
from tests.benchmarks.results import Recorder
from tests.benchmarks.simulated import draw
from tests.benchmarks.tables import markdown, seconds
from tests.benchmarks.timing import least_seconds, threads

TITLE = "Asking among five million pairs"
BAR = 10.0
"""Seconds within which the pairs are ranked, on two threads."""


def test_asking(recorder: Recorder) -> None:
    simulated = draw(100_000, 2, 50, 5, seed=0)
    data = Annotations.from_arrays(simulated.item, simulated.annotator, simulated.label)
    rows = []
    with threads(2):
        posterior = fit("bayesian_dawid_skene", data, inference="vb", max_iterations=20, seed=0)
        for n in (100, 50_000):
            took = least_seconds({"ask": lambda n=n: suggest_labels(posterior, n)}, 3)["ask"]
            tracemalloc.start()
            suggest_labels(posterior, n)
            peak = tracemalloc.get_traced_memory()[1] / 2**20
            tracemalloc.stop()
            rows.append([f"{n:,}", seconds(took), f"{peak:.0f} MiB", "met" if took <= BAR else "not met"])
    text = (
        "`suggest_labels(posterior, n)` among 100,000 items with two labels each and 50 annotators, K = 5, after "
        "bayesian_dawid_skene by vb: least of three rounds on two threads, and the most that Python and numpy held "
        "above what was there. The bar is 10 s.\n\n"
    )
    recorder.add(TITLE, text + markdown(("items asked for", "seconds", "memory", "bar"), rows))
