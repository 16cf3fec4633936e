"""Probabilities of the method "auto" on real annotations whose truths had no part in how it came about."""

from pathlib import Path

import numpy as np

from tests.benchmarks.results import Recorder
from tests.benchmarks.test_accuracy import read
from tests.benchmarks.test_automatic import (
    AUTO,
    BESIDE,
    Table,
    automatic,
    in_words,
    named,
    rivals,
    score_tables,
    scored,
)

TITLE = "Probabilities by auto on other sets"
OTHERS = ("labelme", "cf_amt", "fact_eval_576", "trec2010_binary", "imagenet15n", "cifar10n")
ABOUT = (
    '`fit("auto", data)` as on the nine sets, on some whose truths had no part in how it came about. '
    "labelme: the items that annotators labelled; cifar10n: its three columns of labels as three annotators; "
    "imagenet15n has 1.3 labels an item, too few for a correction."
)


def test_auto_on_other_sets(recorder: Recorder, real_data: Path) -> None:
    table: Table = {method: {} for method in BESIDE}
    took, done = {}, {}
    for name in OTHERS:
        data, gold = read(real_data, name)
        free, _, took[name] = automatic(data)
        for method, probabilities in rivals(data, free).items():
            table[method][name] = scored(probabilities, gold)
        done[f"{name}, {data.n_labels:,} labels, {data.n_classes} classes"] = free.correction
        print(f"{name} {took[name]:.1f} s {table[AUTO][name]}")
        assert np.isfinite(free.probabilities().to_numpy()).all()
    recorder.add(
        TITLE,
        "\n\n".join([ABOUT, score_tables(table, TITLE, took), named(table), "What was done:", in_words(done)]),
    )
