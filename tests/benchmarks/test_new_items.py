"""Probabilities of the method "auto" for items that its fit did not have, beside those of a fit to all items."""

import time
from pathlib import Path

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.fitting import fit
from tests.benchmarks.results import Recorder
from tests.benchmarks.test_accuracy import NINE, read
from tests.benchmarks.test_automatic import BASE, Table, score_tables, scored

TITLE = "Probabilities by auto of new items"
WHOLE, NEW, MORE = "auto, all items fitted", "auto, predict", "auto, update"
OWN, IBCC = "auto, uncorrected, predict", "variational IBCC, default prior, predict"
ABOUT = (
    'Half of the items, drawn at random, are fitted by `fit("auto", data)`; the others are new: `predict` says '
    "what their labels mean by what was learned of annotators, `update` learns from their labels, too. Beside them "
    "`predict` by the method of the largest weight alone and by variational IBCC under its default prior, and the "
    "same items in a fit to all. Scores are of the new items, seed 0. CPU seconds: of `predict`."
)


def halves(data: Annotations, seed: int) -> tuple[Annotations, pd.DataFrame]:
    """A random half of the items with their labels, and the labels of the others; annotators are those of both."""
    rows = data.frame()[["item", "annotator", "label"]]
    chosen = np.random.default_rng(seed).permutation(data.items)[: data.n_items // 2]
    first = rows["item"].isin(pd.Index(chosen)).to_numpy()
    return Annotations.from_frame(rows[first], like=data), rows[~first]


def test_auto_on_new_items(recorder: Recorder, real_data: Path) -> None:
    table: Table = {method: {} for method in (WHOLE, NEW, MORE, OWN, IBCC)}
    took = {}
    for name in NINE:
        data, gold = read(real_data, name)
        old, rows = halves(data, 0)
        found, whole = fit("auto", old, seed=0), fit("auto", data, seed=0)
        began = time.process_time()
        said = found.predict(rows)
        took[name] = time.process_time() - began
        probabilities = {
            WHOLE: whole.probabilities().loc[said.index],
            NEW: said,
            MORE: found.update(rows).probabilities(),
            OWN: found.uncorrected().predict(rows),
            IBCC: fit(BASE, old, inference="vb", seed=0).predict(rows),
        }
        truth = gold[gold.index.isin(said.index)]
        for method, p in probabilities.items():
            table[method][name] = scored(p, truth)
        print(f"{name} {took[name]:.2f} s", {m: round(table[m][name]["log_score"], 3) for m in table})
    recorder.add(TITLE, f"{ABOUT}\n\n{score_tables(table, TITLE, took)}")
