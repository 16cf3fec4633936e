"""Annotators who copy one another, with features: dependent groups and a network, alone and together."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import crowdppl
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.simulation.annotators import annotator_kind
from tests.benchmarks import neural, results
from tests.benchmarks.featured import Featured
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown

ITEMS, SEEDS = 1000, 5
TRAINING = {"epochs": 40}
NET = {"network": "default", "training": TRAINING}
HEADER = ("method", "test", "truth", "spread", "log score, test", "ECE, test")


def test_copying_annotators(recorder: Recorder) -> None:
    crowds = [crowd(seed) for seed in range(SEEDS)]
    lines = []
    for title, row in rows().items():
        scores = np.array([scored(found, row(groups), seed) for seed, (found, groups) in enumerate(crowds)])
        lines.append((title, *(x if x != "nan" else "-" for x in neural.cells(scores))))
        print(*lines[-1], flush=True)
    text = (
        f"{ITEMS} digits of scikit-learn, 30% of them to test on; each annotator labels half of the rest. Four are "
        "right in 60% and err evenly; four others copy a fifth, who is right in 50%, nine times of ten. Accuracy "
        "in % on test items by the classifier, and on the labelled items by labels and classifier; means of "
        f"{SEEDS} seeds, of crowd and fit; {TRAINING['epochs']} epochs."
    )
    recorder.add(results.COPIERS, f"{text}\n\n{markdown(HEADER, lines)}")


def rows() -> dict[str, Callable[[dict[str, str]], neural.Row]]:
    """Methods by title, given who copies."""

    def dependent(**settings: Any) -> neural.Row:
        return neural.Row("", "dependent_clusters", "vb", settings)

    return {
        "network on votes": lambda _: neural.Row("", "majority_vote", "em", NET),
        "raykar": lambda _: neural.Row("", "raykar", "em", {"training": TRAINING}),
        "bayes_dgc, plain": lambda _: neural.Row("", "bayes_dgc", "vb", {"recipe": "plain", "training": TRAINING}),
        "dependent_clusters, groups known": lambda groups: dependent(groups=groups),
        "dependent_clusters, groups known, network": lambda groups: dependent(groups=groups, **NET),
        "dependent_clusters, groups found": lambda _: dependent(),
        "dependent_clusters, groups found, network": lambda _: dependent(**NET),
    }


def crowd(seed: int) -> tuple[Featured, dict[str, str]]:
    """A crowd, and the group of those who copy."""
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(y))[:ITEMS]
    test = np.sort(rng.permutation(ITEMS)[: round(0.3 * ITEMS)])
    weak = annotator_kind("hammer", p=0.5)
    kinds = [
        *[annotator_kind("hammer", p=0.6)] * 4,
        annotator_kind("copying_group", copiers=4, p=0.9, leader=weak, own=weak),
    ]
    made = crowdppl.simulate_annotators(y[some], kinds, density=0.5, features=x[some], test=test, seed=seed)
    train = made.data.items[made.data.items.isin(made.data.frame()["item"])]
    copy = made.annotators.index[made.annotators["group"].notna()]
    return Featured(made.data, made.truth, train, made.test), dict.fromkeys(copy, "copy")


def scored(found: Featured, row: neural.Row, seed: int) -> list[float]:
    """Test accuracy, truth accuracy, log score and ECE on test items; nan where there is no classifier."""
    fit = neural.fitted(found, row, seed)
    known = found.truth[found.train]
    truth = float((fit.probabilities().loc[found.train].idxmax(axis=1) == known).mean())
    if row.method == "dependent_clusters" and "network" not in row.settings:
        return [np.nan, truth, np.nan, np.nan]
    test = evaluate(fit.classify(found.data.features).loc[found.test], found.truth[found.test])
    return [test.accuracy, truth, test.log_score, test.ece]
