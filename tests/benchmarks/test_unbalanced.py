"""Classes of which some are ten times as common as others, with and without the term that balances predictions."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.datasets import DIGITS_CROWD
from crowdppl.evaluation.evaluate import Evaluation, evaluate
from crowdppl.fitting import fit
from crowdppl.simulation.crowd import simulate_annotators
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown, mean_and_error
from tests.benchmarks.test_accuracy import read

TITLE = "Unbalanced classes and the balance term"
SEEDS = 5
RATIO = 10.0
"""How many times as common the commonest digit is as the rarest; the others fall evenly in between, in logs."""
EACH = 3
"""Labels of a digit."""
TEST = 0.3
"""Share of the items that nobody labels."""
GOOD = 5
"""Annotators of the second crowd, who are right in 95 % of cases."""
FEATURES, APART = 10, 2.0
"""Simulated features of product: their number, and how far apart the means of the two classes are."""
CROWDS: dict[str, Mapping[Any, int]] = {"a mixed crowd": DIGITS_CROWD, "good annotators": {"expert": GOOD}}

OFF = "balance=0"
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    'shares="auto", the default': ("bayes_dgc", {}),
    'shares="uniform"': ("bayes_dgc", {"training": {"shares": "uniform"}}),
    'shares="votes"': ("bayes_dgc", {"training": {"shares": "votes"}}),
    OFF: ("bayes_dgc", {"training": {"balance": 0.0}}),
    "bayesian_dawid_skene": ("bayesian_dawid_skene", {}),
}
"""Method and settings of each row."""
SCORES = {
    "accuracy": "truth, accuracy",
    "balanced": "truth, balanced accuracy",
    "log_score": "truth, log score",
    "test": "test, accuracy",
    "test_balanced": "test, balanced accuracy",
    "test_log": "test, log score",
}

# By row: for each seed, the scores by name.
Runs = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Case:
    """Annotations, the truth of all items, and ids of those without labels."""

    data: Annotations
    truth: pd.Series[Any]
    test: pd.Index[Any]


def test_unbalanced_classes(recorder: Recorder, real_data: Path) -> None:
    parts: list[str] = []
    words: list[str] = []
    began = time.perf_counter()
    crowds: dict[str, list[Case]] = {
        f"Digits, {name}": [thinned_digits(kinds, seed) for seed in range(SEEDS)] for name, kinds in CROWDS.items()
    }
    crowds["product, simulated features"] = [product(real_data, seed) for seed in range(SEEDS)]
    for name, cases in crowds.items():
        runs: Runs = {row: [] for row in ROWS}
        for seed, case in enumerate(cases):
            for row, some in runs.items():
                some.append(measured(row, case, seed))
                values = {score: round(value, 3) for score, value in some[-1].items()}
                print(name, seed, row, values, f"{time.perf_counter() - began:.0f} s", flush=True)
        parts.append(f"{name}: {counts(cases)}.\n\n{table(runs)}")
        words += [f"- {name}: {against_off(runs, row)}" for row in list(ROWS)[:3]]
    in_all = f"All of it took {(time.perf_counter() - began) / 60:.0f} minutes."
    recorder.add(TITLE, "\n\n".join([f"{EXPLAINED} {in_all}", *parts, JUDGED, "\n".join(words)]))


EXPLAINED = (
    f"scikit-learn's digits, thinned so that the commonest is {RATIO:g} times as common as the rarest (which digit "
    f"has which share is drawn by the seed), {EACH} labels an image; a mixed crowd is the one of "
    f"`crowdppl.digits`, good annotators are {GOOD} experts, right in 95 % of cases. product: its real labels, "
    f"and {FEATURES} features from normal distributions of unit variance whose means lie {APART:g} apart. "
    f"{TEST:.0%} of the items have no labels and are the test part. bayes_dgc by vb with the default recipe, whose "
    "term `balance` draws the mean prediction to equal shares (`uniform`), to those of the votes (`votes`), or to "
    "equal ones where votes are nearly even and else nowhere (`auto`); bayesian_dawid_skene by vb sees no "
    f"features. Accuracies in per cent, log scores in nats; mean of {SEEDS} seeds (of data and fit) ± its standard "
    "error."
)
JUDGED = (
    f"Beside `{OFF}`, mean difference ± its standard error, paired by seed; a loss that leaves 0 out of its 95 % "
    "interval (Student's t), of at least .1 points or .001 nats, is called harm, and so is any of a "
    "point or .05 nats, because few seeds leave wide intervals:"
)


def thinned_digits(kinds: Mapping[Any, int], seed: int) -> Case:
    """Digits of unequal frequency, labelled by simulated annotators."""
    from sklearn.datasets import load_digits

    images, stream = load_digits(as_frame=True), np.random.default_rng(seed)
    truth = images.target.iloc[stream.permutation(len(images.target))]
    most = int(truth.value_counts().min())
    size = dict(zip(stream.permutation(10), np.rint(most * RATIO ** -np.linspace(0, 1, 10)), strict=True))
    place = truth.groupby(truth).cumcount()
    some = truth[place < truth.map(size)]
    test = some.groupby(some).sample(frac=TEST, random_state=seed).index
    crowd = simulate_annotators(
        some, kinds, labels_per_item=EACH, features=images.data.loc[some.index], test=test, seed=seed
    )
    return Case(crowd.data, crowd.truth, crowd.test)


def product(folder: Path, seed: int) -> Case:
    """The labels of product, features that are drawn, and items whose labels are left out."""
    every, gold = read(folder, "product")
    stream = np.random.default_rng(seed)
    test = pd.Index(stream.choice(gold.index, round(TEST * len(gold)), replace=False))
    drawn = stream.normal(size=(len(gold), FEATURES)) + gold.to_numpy()[:, None] * APART / np.sqrt(FEATURES)
    rows = every.frame()
    data = Annotations.from_frame(
        rows[~rows["item"].isin(test)], classes=every.classes, features=pd.DataFrame(drawn, index=gold.index)
    )
    return Case(data, gold, test)


def measured(row: str, case: Case, seed: int) -> dict[str, float]:
    """The scores of one fit; accuracies in per cent."""
    data, truth, test = case.data, case.truth, case.test
    method, settings = ROWS[row]
    posterior = fit(method, data, inference="vb", seed=seed, settings=settings)
    p = posterior.probabilities()
    own = evaluate(p.loc[truth.index.difference(test)], truth.drop(test))
    out = named(own, ("accuracy", "balanced", "log_score"))
    unseen = named(evaluate(p.loc[test], truth[test]), ("test", "test_balanced", "test_log"))
    return out | (unseen if method == "bayes_dgc" else dict.fromkeys(unseen, math.nan))


def named(scores: Evaluation, names: tuple[str, str, str]) -> dict[str, float]:
    """Accuracy, balanced accuracy and log score under other names."""
    values = (100 * scores.accuracy, 100 * scores.balanced_accuracy, scores.log_score)
    return dict(zip(names, values, strict=True))


def counts(cases: list[Case]) -> str:
    """Sizes of the first data set, and shares of its rarest and commonest class in truth and in votes."""
    data, truth, test = cases[0].data, cases[0].truth, cases[0].test
    share = truth.drop(test).value_counts(normalize=True)
    votes = data.frame()["label"].value_counts(normalize=True).reindex(share.index)
    return (
        f"{len(truth) - len(test)} items with {data.n_labels} labels, {len(test)} test items; the commonest class "
        f"has {share.iloc[0]:.1%} of the items and {votes.iloc[0]:.1%} of the labels, the rarest "
        f"{share.iloc[-1]:.1%} and {votes.iloc[-1]:.1%} (seed 0)"
    )


def table(runs: Runs) -> str:
    rows = [
        [row, *(mean_and_error(np.array([run[score] for run in some]), digits(score)) for score in SCORES)]
        for row, some in runs.items()
    ]
    return markdown(("", *SCORES.values()), rows)


def against_off(runs: Runs, row: str) -> str:
    """How a row differs from the one without the term, and whether that is harm."""
    from scipy.stats import t

    told, harm = [], []
    for score, name in SCORES.items():
        apart = np.array([own[score] - off[score] for own, off in zip(runs[row], runs[OFF], strict=True)])
        worse = float(apart.mean()) if "log" in score else -float(apart.mean())
        told.append(f"{name} {mean_and_error(apart, digits(score), signed=True)}")
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        clear = worse >= 10.0 ** -digits(score) and worse >= t.ppf(0.975, len(apart) - 1) * error
        if clear or worse >= (0.05 if "log" in score else 1.0):
            harm.append(name)
    return f"{row}: {'; '.join(told)}. Harm: {', '.join(harm) or 'none'}."


def digits(score: str) -> int:
    return 3 if "log" in score else 1
