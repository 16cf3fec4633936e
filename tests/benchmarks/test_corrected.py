"""Probabilities of the truth from features and labels, as they are and corrected (``calibrate=True``)."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import crowdppl
from crowdppl.evaluation.evaluate import evaluate
from tests.benchmarks.featured import Featured, read_featured
from tests.benchmarks.neural import ROWS, Row
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_automatic import GOLD, split

TITLE = "Probabilities from features and labels, corrected and not"
SETS = {"labelme": "LabelMe", "music": "Music"}
METHODS = ("bayes_dgc, default recipe", "bayes_dgc, plain", "raykar", "global_noise")
"""Methods of one truth an item, which folds of labels can be taken from."""
SEEDS = 3
HEADER = ("set", "method", "own", "corrected", f"own, rest of {GOLD}", f"corrected, {GOLD} truths")
ABOUT = (
    "Log score in nats / ECE of 15 bins of the truth of labelled items, by labels and classifier: as the method "
    "has them (own), with `calibrate=True` from labels alone (corrected), and with `calibrate=True` and "
    f"{GOLD} random known truths, scored on the other items beside the method's own on the same. Means of {SEEDS} "
    "seeds; settings as in the tables of truth from features and labels, but the default recipe keeps the volume "
    "that its first seed chose. A corrected fit takes six fits."
)


def test_truth_corrected_and_not(recorder: Recorder, real_data: Path) -> None:
    rows = [line for name in SETS for line in lines(real_data, name)]
    recorder.add(TITLE, f"{ABOUT}\n\n{markdown(HEADER, rows)}")


def lines(folder: Path, name: str) -> list[list[str]]:
    """A row of the table for each method."""
    found, out = read_featured(folder, name), []
    for row in (row for row in ROWS if row.title in METHODS):
        began = time.perf_counter()
        row = settled(found, row)
        scores = np.mean([measured(found, row, seed) for seed in range(SEEDS)], 0)
        out.append([SETS[name], row.title, *(f"{log:.3f} / {ece:.3f}" for log, ece in scores)])
        print(*out[-1], f"({time.perf_counter() - began:.0f} s)", flush=True)
    return out


def settled(found: Featured, row: Row) -> Row:
    """The row with the volume that its trials choose, so that they are not made for each fold of each fit."""
    if row.title != METHODS[0]:
        return row
    model: Any = quietly(found, row, 0).model
    return Row(row.title, row.method, row.engine, {"training": {"volume": model.training["volume"]}})


def measured(found: Featured, row: Row, seed: int) -> list[tuple[float, float]]:
    truth = found.truth[found.train]
    known, rest = split(truth, seed)
    corrected = quietly(found, row, seed, calibrate=True)
    told = quietly(found, row, seed, calibrate=True, gold=known)
    own = corrected.uncorrected()
    return [
        pair(posterior, gold) for posterior, gold in ((own, truth), (corrected, truth), (own, rest), (told, rest))
    ]


def pair(posterior: crowdppl.Posterior, gold: pd.Series) -> tuple[float, float]:
    found = evaluate(posterior.probabilities().loc[gold.index], gold)
    return found.log_score, found.ece


def quietly(found: Featured, row: Row, seed: int, **how: Any) -> crowdppl.Posterior:
    given: Any = {"inference": row.engine, "seed": seed, "settings": row.settings, **how}
    return crowdppl.fit(row.method, found.data, **given)
