"""Truth and classifier from labels and features: every method with a network, on test items and labelled ones."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import CrowdpplError
from crowdppl.metrics import evaluate
from tests.benchmarks.featured import Featured, read_featured
from tests.benchmarks.recorder import Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_acquisition import data_folder

pytestmark = pytest.mark.bench

TITLE, FOLDS_TITLE = "Truth from features and labels", "Features and labels of sentiment_polarity"
SETS = {"labelme": "LabelMe", "music": "Music"}
SEEDS = 5
FOLDS = 5
LONGER = {"training": {"epochs": 60}}
"""What every method without a recipe of its own is given; nothing is chosen for a set."""


@dataclass(frozen=True)
class Row:
    """A method with its settings."""

    title: str
    method: str
    engine: str
    settings: dict[str, Any] = field(default_factory=dict)
    told: bool = False


ROWS = [
    Row("bayes_dgc, house default", "bayes_dgc", "vb"),
    Row("bayes_dgc, plain", "bayes_dgc", "vb", {"recipe": "plain", **LONGER}),
    Row("raykar", "raykar", "em", LONGER),
    Row("global_noise", "global_noise", "em", LONGER),
    Row("network on votes", "majority_vote", "em", {"network": "default", **LONGER}),
    Row("ccem", "ccem", "svi", LONGER),
    Row("crowd_layer MW", "crowd_layer", "svi", LONGER),
    Row("crowd_layer VW", "crowd_layer", "svi", {"form": "VW", **LONGER}),
    Row("crowd_layer VB", "crowd_layer", "svi", {"form": "VB", **LONGER}),
    Row("crowd_layer VW+B", "crowd_layer", "svi", {"form": "VW+B", **LONGER}),
    Row("trace_reg .01", "trace_reg", "svi", LONGER),
    Row("geo_crowdnet F .01", "geo_crowdnet", "svi", LONGER),
    Row("geo_crowdnet W .01", "geo_crowdnet", "svi", {"volume": "W", **LONGER}),
    Row("coin_net, penalised", "coin_net", "svi", {"form": "penalised", **LONGER}),
    Row("coin_net, generative", "coin_net", "svi", {"form": "generative", **LONGER}),
    Row("madl", "madl", "svi", LONGER),
    Row("instance_trace", "instance_trace", "svi", LONGER),
    Row("conal", "conal", "svi", LONGER),
    Row("mmlc", "mmlc", "svi", LONGER),
    Row("network on the truth (reference)", "majority_vote", "em", {"network": "default", **LONGER}, told=True),
]
HEADER = ("method", "test", "truth", "spread", "log score, test", "ECE, test", "held-out labels", "time a fit")
AIMS = {
    "labelme": "aims of the house default: test 87.5, truth 86.0, log score .40, ECE .05",
    "music": "aims of the house default: test 75.0, truth 86.0, log score .83, ECE .09",
}


def test_truth_from_features_and_labels(recorder: Recorder, request: pytest.FixtureRequest) -> None:
    folder = data_folder(request, recorder, TITLE)
    if folder is None:
        return
    parts = [
        f"Accuracy in % on test items by the classifier (test) and on the labelled items by labels and classifier "
        f"(truth), means of {SEEDS} seeds at the last epoch; spread: between the best and the worst seed's test "
        "accuracy, in points. Held-out labels: mean log-probability of a label left out, two folds, one seed. "
        "Settings are the methods' defaults with 60 epochs; the house default was found with the gold of these two "
        "sets in sight, so its figures are flattered. ccem to mmlc learn by svi, from labels one by one."
    ]
    for name, title in SETS.items():
        found = read_featured(folder, name)
        lines, best = [], ("", -np.inf)
        for row in ROWS:
            scores, took = measured(found, row)
            held = np.nan if row.told else heldout(found, row)
            if held > best[1]:
                best = (row.title, held)
            lines.append((row.title, *cells(scores), "" if np.isnan(held) else f"{held:.3f}", f"{took:.1f} s"))
            print(name, *lines[-1])
        parts.append(f"**{title}**, {AIMS[name]}\n\n{markdown(HEADER, lines)}")
        parts.append(f"Held-out labels choose {best[0]}.")
    recorder.add(TITLE, "\n\n".join(parts))


def test_sentiment_polarity_by_folds(recorder: Recorder, request: pytest.FixtureRequest) -> None:
    folder = data_folder(request, recorder, FOLDS_TITLE)
    if folder is None:
        return
    rows = [row for row in ROWS if row.method in ("bayes_dgc", "raykar", "majority_vote", "ccem")]
    lines = []
    for row in rows:
        each = np.array([fold_accuracy(folder, row, fold) for fold in range(FOLDS)])
        lines.append((row.title, f"{100 * each.mean():.1f}", f"{100 * each.std(ddof=1) / np.sqrt(FOLDS):.1f}"))
        print(*lines[-1])
    words = f"Accuracy in % of the classifier on each of {FOLDS} parts of the labelled items, trained on the rest."
    recorder.add(FOLDS_TITLE, f"{words}\n\n{markdown(('method', 'accuracy', 'standard error'), lines)}")


def fitted(found: Featured, row: Row, seed: int) -> Any:
    data = found.data.with_gold(found.truth[found.train]) if row.told else found.data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return crowdppl.fit(row.method, data, inference=row.engine, seed=seed, settings=row.settings)


def measured(found: Featured, row: Row) -> tuple[np.ndarray, float]:
    """(seeds, 4): test accuracy, truth accuracy, log score and ECE on test items; and seconds a fit."""
    scores, began = [], time.perf_counter()
    for seed in range(SEEDS):
        posterior = fitted(found, row, seed)
        shares = posterior.classify(found.data.features).loc[found.test]
        test = evaluate(shares, found.truth[found.test])
        truth = evaluate(posterior.probabilities().loc[found.train], found.truth[found.train])
        scores.append([test.accuracy, truth.accuracy, test.log_score, test.ece])
    return np.array(scores), (time.perf_counter() - began) / SEEDS


def heldout(found: Featured, row: Row) -> float:
    """Mean log-probability of a label left out; of a method that cannot say it, nan."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            score = crowdppl.heldout_score(
                row.method, found.data, folds=2, inference=row.engine, seed=0, settings=row.settings
            )
        except CrowdpplError as error:
            print(row.title, error)
            return float("nan")
    return float(score.per_label)


def cells(scores: np.ndarray) -> tuple[str, ...]:
    test, truth, log_score, ece = scores.mean(0)
    spread = 100 * np.ptp(scores[:, 0])
    return f"{100 * test:.1f}", f"{100 * truth:.1f}", f"{spread:.1f}", f"{log_score:.3f}", f"{ece:.3f}"


def fold_accuracy(folder: Path, row: Row, fold: int) -> float:
    whole = read_featured(folder, "sentiment_polarity")
    shuffled = np.random.default_rng(0).permutation(len(whole.train))
    test = whole.train[np.sort(shuffled[fold::FOLDS])]
    found = read_featured(folder, "sentiment_polarity", test)
    shares = fitted(found, row, fold).classify(found.data.features).loc[test]
    return evaluate(pd.DataFrame(shares), found.truth[test]).accuracy
