"""The truth of the train items where a tenth, a quarter, a half or all of the annotations are kept."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.data.split import keep
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior
from tests.benchmarks import results
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown, mean_and_error
from tests.benchmarks.test_filling import read_with_features

SETS = ("labelme", "music", "sentiment_polarity")
TITLES = dict(zip(SETS, results.FEW_ANNOTATIONS, strict=True))
SHARES = (0.1, 0.25, 0.5, 1.0)
"""Of the annotations, drawn at random, that are kept; items may be left without any."""
REPETITIONS = 10
DEFAULT, PLAIN, BASE = "bayes_dgc, default", "bayes_dgc, plain", "bayesian_dawid_skene"
ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    DEFAULT: ("bayes_dgc", "vb", {"recipe": "default"}),
    PLAIN: ("bayes_dgc", "vb", {"recipe": "plain"}),
    "raykar": ("raykar", "em", {}),
    BASE: (BASE, "vb", {}),
    "dawid_skene": ("dawid_skene", "em", {}),
    "majority_vote": ("majority_vote", "em", {}),
}
"""Method, engine and settings of each row."""
SCORES = {"accuracy": "accuracy", "f1": "macro F1", "labelled": "accuracy where labels are left"}

# By row, then by share, then by score: one value a repetition.
Runs = dict[str, dict[float, dict[str, list[float]]]]


@pytest.mark.parametrize("name", SETS)
def test_truth_from_few_annotations(name: str, recorder: Recorder, real_data: Path) -> None:
    began = time.perf_counter()
    data, gold = train_items(real_data, name)
    runs: Runs = {row: {share: {score: [] for score in SCORES} for share in SHARES} for row in ROWS}
    left: dict[float, list[float]] = {share: [] for share in SHARES}
    for share in SHARES:
        for seed in range(REPETITIONS):
            some = kept(data, share, seed)
            labelled = pd.Index(some.frame()["item"].unique())
            left[share].append(len(labelled) / data.n_items)
            for row in ROWS:
                for score, value in scored(fitted(row, some, seed), gold, labelled).items():
                    runs[row][share][score].append(value)
        shown = {row: round(float(np.mean(by_share[share]["accuracy"])), 1) for row, by_share in runs.items()}
        print(name, share, shown, f"{time.perf_counter() - began:.0f} s", flush=True)
    size = f"{data.n_items} items, {data.n_labels} labels; {remaining(left)}."
    took = f"All of it took {(time.perf_counter() - began) / 60:.0f} minutes."
    recorder.add(TITLES[name], "\n\n".join([EXPLAINED, f"{size} {took}", tables(runs)]))


EXPLAINED = (
    "The protocol of Li, Huang & Chen (2021), who show theirs in figures only: a share of the annotations, drawn "
    "at random, is kept, and the truth of all train items is inferred from these and the features, those of items "
    f"whose labels are all gone too. Mean of {REPETITIONS} draws ± its standard error (with all annotations: of as "
    "many seeds), in per cent; in brackets the gain over bayesian_dawid_skene and its standard error, paired by "
    "draw. An item without labels is called by the prevalence where a method sees no features, and ties are split. "
    "The last table has only the items that still have a label, where such methods are not at that "
    "disadvantage. Default settings, "
    + ", ".join(f"{row} by {engine}" for row, (_, engine, _) in ROWS.items())
    + "; seed of the draw and of the fit from 0 on. The default recipe was found on labelme and music with their "
    "known truths in sight, so that its figures on these two are somewhat flattered."
)


def train_items(folder: Path, name: str) -> tuple[Annotations, pd.Series]:
    """The items of the train part, all of which have labels, with features, and their truth."""
    data, gold = read_with_features(folder, name)
    items = pd.read_csv(folder / name / "items.csv").set_index("item")["split"]
    assert (items[data.items] == "train").all(), f"{name} has labels of items that are not in its train part"
    return data, gold[gold.index.isin(data.items)]


def kept(data: Annotations, share: float, seed: int) -> Annotations:
    order = np.random.default_rng(seed).permutation(data.n_labels)
    return keep(data, order < round(share * data.n_labels))


def fitted(row: str, data: Annotations, seed: int) -> Posterior:
    method, engine, settings = ROWS[row]
    return fit(method, data, inference=engine, seed=seed, settings=settings)


def scored(posterior: Posterior, gold: pd.Series, labelled: pd.Index[Any]) -> dict[str, float]:
    every, some = evaluate(posterior, gold), evaluate(posterior, gold[gold.index.isin(labelled)])
    values = {"accuracy": every.accuracy, "f1": every.macro_f1, "labelled": some.accuracy}
    return {score: 100 * value for score, value in values.items()}


def remaining(left: dict[float, list[float]]) -> str:
    """The share of items that still have a label, by share of the annotations."""
    return "items with a label " + ", ".join(
        f"{100 * np.mean(x):.0f} % at {share:.0%}" for share, x in left.items()
    )


def tables(runs: Runs) -> str:
    """A table for each score: rows x shares."""
    parts = []
    for score, shown in SCORES.items():
        rows = [[row, *(cell(runs, row, share, score) for share in SHARES)] for row in runs]
        parts.append(markdown((shown, *(f"{share:.0%}" for share in SHARES)), rows))
    return "\n\n".join(parts)


def cell(runs: Runs, row: str, share: float, score: str) -> str:
    own = f"{mean_and_error(np.array(runs[row][share][score]))}"
    return own if row == BASE else f"{own} ({mean_and_error(gain(runs, row, share, score), signed=True)})"


def gain(runs: Runs, row: str, share: float, score: str) -> np.ndarray:
    """Over the base, by repetition."""
    return np.subtract(runs[row][share][score], runs[BASE][share][score])
