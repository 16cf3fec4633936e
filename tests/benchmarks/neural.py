"""Truth and classifier from labels and features: every method with a network, on test items and labelled ones."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import crowdppl
from crowdppl.errors import CrowdpplError
from crowdppl.evaluation.evaluate import evaluate
from tests.benchmarks.featured import Featured, read_featured
from tests.benchmarks.tables import markdown

SEEDS = 5
LONGER = {"training": {"epochs": 60}}
"""What every method without a recipe of its own is given; nothing is chosen for a set."""
SHORTER = {"training": {"epochs": 12}}
"""Of classifiers that are fitted anew in each epoch."""
FOREST = RandomForestClassifier(min_samples_leaf=10)


@dataclass(frozen=True)
class Row:
    """A method and its settings; without an engine, one of ``crowdppl.baselines``."""

    title: str
    method: str
    engine: str
    settings: dict[str, Any] = field(default_factory=dict)
    told: bool = False


ROWS = [
    Row("bayes_dgc, default recipe", "bayes_dgc", "vb"),
    Row("bayes_dgc, plain", "bayes_dgc", "vb", {"recipe": "plain", **LONGER}),
    Row("bayes_dgc, plain, 30 epochs", "bayes_dgc", "vb", {"recipe": "plain"}),
    Row(
        "bayes_dgc, plain, published prior", "bayes_dgc", "vb", {"recipe": "plain", "prior": "published", **LONGER}
    ),
    Row("raykar", "raykar", "em", LONGER),
    Row("raykar, bootstrapped", "raykar", "em", {"bootstrapped": True, **LONGER}),
    Row(
        "raykar, bootstrapped, warm_up=3",
        "raykar",
        "em",
        {"bootstrapped": True, "training": {"epochs": 60, "warm_up": 3}},
    ),
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
    Row("mmlc, mode", "mmlc", "svi", LONGER),
    Row("mmlc, mean", "mmlc", "svi", {"oracle": "mean", **LONGER}),
    Row("mmlc, median", "mmlc", "svi", {"oracle": "median", **LONGER}),
    Row("mmlc, centre", "mmlc", "svi", {"oracle": "centre", **LONGER}),
    Row("raykar, random forest", "raykar", "em", {"network": FOREST, **SHORTER}),
    Row("raykar, logistic regression", "raykar", "em", {"network": LogisticRegression(C=0.01), **SHORTER}),
    Row("doctor_net", "doctor_net", "", LONGER),
    Row("doctor_net, weighted", "doctor_net", "", {"weighted": True, **LONGER}),
    Row("max_mig", "max_mig", "", LONGER),
    Row("soft_bootstrap", "soft_bootstrap", "", LONGER),
    Row("network on the truth (reference)", "majority_vote", "em", {"network": "default", **LONGER}, told=True),
]
HEADER = ("method", "test", "truth", "spread", "log score, test", "ECE, test", "held-out labels", "time a fit")
AIMS = {
    "labelme": "aims of the default recipe are test 87.5, truth 86.0, log score .40, ECE .05",
    "music": "aims of the default recipe are test 75.0, truth 86.0, log score .83, ECE .09",
}


def section(folder: Path, name: str) -> str:
    found = read_featured(folder, name)
    lines, best = [], ("", -np.inf)
    for row in ROWS:
        scores, took = measured(found, row)
        held = np.nan if row.told or not row.engine else heldout(found, row)
        if held > best[1]:
            best = (row.title, held)
        lines.append((row.title, *cells(scores), "" if np.isnan(held) else f"{held:.3f}", f"{took:.1f} s"))
        print(name, *lines[-1], flush=True)
    chosen = f"Labels left out choose {best[0]}."
    return f"{ABOUT} The {AIMS[name]}.\n\n{markdown(HEADER, lines)}\n\n{chosen}"


ABOUT = (
    f"Accuracy in % on test items by the classifier (test) and on the labelled items by labels and classifier "
    f"(truth), means of {SEEDS} seeds at the last epoch; spread: between the best and the worst seed's test "
    "accuracy, in points. Held-out labels: mean log-probability of a label left out, two folds, one seed. "
    "Settings are the methods' defaults with 60 epochs, and one network; the default recipe averages five, has "
    "epochs of its own, selects one of three volumes by held-out items, and was found with the gold of "
    "LabelMe and Music in sight, so its figures are flattered. Its time a fit includes these trials. "
    "ccem to mmlc learn by svi, from labels one by one. Classifiers of scikit-learn are fitted anew in each of 12 "
    "epochs (leaves of ten rows; C = .01). doctor_net to soft_bootstrap are baselines: no label has a probability."
)


def fitted(found: Featured, row: Row, seed: int) -> Any:
    if not row.engine:
        return getattr(crowdppl.baselines, row.method)(found.data, seed=seed, **row.settings)
    data = found.data.with_gold(found.truth[found.train]) if row.told else found.data
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
