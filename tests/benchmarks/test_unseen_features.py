"""The default recipe on tables of features that had no part in how it came about."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.datasets import DIGITS_CROWD
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.fitting import fit
from crowdppl.simulation.crowd import SimulatedCrowd, simulate_annotators
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown, mean_and_error

TITLE = "Features that had no part in the recipe"
SETS = ("iris", "wine", "breast_cancer", "digits")
SEEDS = 5
EACH = (1, 3)
"""Labels of an item."""
TEST = 0.3
"""Share of the items that nobody labels."""
DEFAULT, BASE = "bayes_dgc, default", "bayesian_dawid_skene"
ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    DEFAULT: ("bayes_dgc", "vb", {"recipe": "default"}),
    "bayes_dgc, plain": ("bayes_dgc", "vb", {"recipe": "plain"}),
    "raykar": ("raykar", "em", {}),
    BASE: (BASE, "vb", {}),
}
"""Method, engine and settings of each row."""
SCORES = {"accuracy": 1, "log score": 3, "ECE": 3, "test accuracy": 1, "test log score": 3, "test ECE": 3}
"""Digits of each score."""

EXPLAINED = (
    "Four tables that come with scikit-learn, labelled by the ten simulated annotators of `crowdppl.digits`; "
    f"{TEST:.0%} of the items have no labels and are the test part, called from their features. Default "
    f"settings, of which none was changed after a look at these figures; mean of {SEEDS} seeds (of crowd, split "
    "and fit) ± its standard error, accuracies in per cent, log scores in nats, lower is better, ECE of 15 bins. "
    "bayesian_dawid_skene sees no features. Thinned digits had a part in one rule of the recipe, for classes of "
    "uneven size, which here are even."
)

# By set and row: for each seed, the scores in order.
Runs = dict[tuple[str, str], list[list[float]]]


def test_features_that_had_no_part(recorder: Recorder) -> None:
    parts, began = [], time.perf_counter()
    for each in EACH:
        runs: Runs = {}
        for name in SETS:
            for seed in range(SEEDS):
                crowd = labelled(name, each, seed)
                for row in ROWS:
                    runs.setdefault((name, row), []).append(measured(row, crowd, seed))
            shown = {row: np.mean(runs[name, row], 0).round(3).tolist() for row in ROWS}
            print(each, name, shown, f"{time.perf_counter() - began:.0f} s", flush=True)
        word = "label" if each == 1 else "labels"
        parts.append(f"{each} {word} an item:\n\n{table(runs)}")
    took = f"All of it took {(time.perf_counter() - began) / 60:.0f} minutes."
    recorder.add(TITLE, "\n\n".join([f"{EXPLAINED} {took}", *parts]))


def labelled(name: str, each: int, seed: int) -> SimulatedCrowd:
    """A table of scikit-learn's, its items in part labelled."""
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")(as_frame=True)
    truth = found.target
    test = truth.groupby(truth).sample(frac=TEST, random_state=seed).index
    return simulate_annotators(truth, DIGITS_CROWD, labels_per_item=each, features=found.data, test=test, seed=seed)


def measured(row: str, crowd: SimulatedCrowd, seed: int) -> list[float]:
    """The scores of one fit: truth of the labelled items, and of the others, from their features."""
    method, engine, settings = ROWS[row]
    posterior = fit(method, crowd.data, inference=engine, seed=seed, settings=settings)
    p, known = posterior.probabilities(), crowd.truth.drop(crowd.test)
    unseen = [float("nan")] * 3 if row == BASE else three(p.loc[crowd.test], crowd.truth[crowd.test])
    return [*three(p.loc[known.index], known), *unseen]


def three(p: pd.DataFrame, truth: pd.Series[Any]) -> list[float]:
    found = evaluate(p, truth)
    return [100 * found.accuracy, found.log_score, found.ece]


def table(runs: Runs) -> str:
    lines = [
        [f"{name.replace('_', ' ')}, {row}", *map(mean_and_error, np.array(found).T, SCORES.values())]
        for (name, row), found in runs.items()
    ]
    return markdown(("", *SCORES), lines)
