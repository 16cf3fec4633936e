"""Scores on labels left out, which need no gold: five methods on real sets, and the seconds that takes."""

import time
from pathlib import Path

import pandas as pd

from crowdppl.data.kinds.classes import PLAIN
from crowdppl.evaluation.compare import Comparison, compare
from crowdppl.fitting import fit
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_accuracy import NINE, SETS, read
from tests.benchmarks.timing import threads

TITLE = "Held-out scores"
METHODS = (*PLAIN, "dawid_skene")
BAR = {"web": 20.0}
"""Seconds within which all methods have their scores, on two threads."""


def test_heldout_scores(recorder: Recorder, real_data: Path) -> None:
    rows = []
    with threads(2):
        for name in NINE:
            data, _ = read(real_data, name)
            fit("one_coin", data, inference="em")  # what is done once in a process has no part in the seconds
            began = time.perf_counter()
            found = compare(METHODS, data, seed=0)
            rows.append([SETS[name], f"{data.n_labels:,}", *line(name, found, time.perf_counter() - began)])
    text = (
        "`crowdppl.compare(methods, data)` with its defaults: mean log-probability of a label left out, five "
        "folds, and in brackets the standard error of its difference from the best. Seconds of all five methods "
        "together on two threads; the bar is 20 on web. `dawid_skene` is maximum likelihood by em, the others by "
        f"{engines(found)}.\n\n"
    )
    recorder.add(TITLE, text + markdown(("set", "labels", *(f"`{m}`" for m in METHODS), "seconds"), rows))


def line(name: str, found: Comparison, took: float) -> list[str]:
    best = found.table.index[0]
    cells = [f"{row.log_p:.3f}" + ("" if m == best else f" ({row.difference_se:.3f})") for m, row in ranked(found)]
    bar = BAR.get(name)
    return [*cells, f"{took:.1f}" + ("" if bar is None else f", {'met' if took <= bar else 'not met'}")]


def ranked(found: Comparison) -> list[tuple[str, pd.Series]]:
    return [(method, found.table.loc[method]) for method in METHODS]


def engines(found: Comparison) -> str:
    return " and ".join(sorted({row.inference for method, row in ranked(found) if method != "dawid_skene"}))
