"""Truth and classifier where some annotators are adversaries, and where all of them are weak classifiers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.simulation.annotators import annotator_kind
from tests.benchmarks import neural, results
from tests.benchmarks.featured import Featured, read_featured
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown

SHARES = (0.0, 0.2, 0.4, 0.6)
KINDS = {"adversary": "any other class", "malicious": "classes swapped"}
NAMES = ("network on votes", "raykar", "bayes_dgc, plain", "doctor_net, weighted", "max_mig")
LABELS_ALONE = (neural.Row("majority_vote", "majority_vote", "em"), neural.Row("dawid_skene", "dawid_skene", "em"))
LEARNED_FROM = (4, 4, 5, 7, 9, 13, 20, 30, 50, 90)
"""Items that each machine learns from: accuracies are then from some 20 to 85 per cent."""
PER_ITEM = 3
SEEDS, EPOCHS = 3, 30


def rows() -> list[neural.Row]:
    """Methods of labels alone, and those with a classifier."""
    found = [row for row in neural.ROWS if row.title in NAMES]
    return [
        *LABELS_ALONE,
        *(replace(row, settings={**row.settings, "training": {"epochs": EPOCHS}}) for row in found),
    ]


def test_share_of_adversaries(recorder: Recorder, real_data: Path) -> None:
    found = read_featured(real_data, "music")
    cases = [(SHARES[0], "adversary"), *((share, kind) for kind in KINDS for share in SHARES[1:])]
    crowds = {case: [with_adversaries(found, *case, seed) for seed in range(SEEDS)] for case in cases}
    header = ("method", "none", *(f"{share:.0%}, {KINDS[kind]}" for share, kind in cases[1:]))
    lines = []
    for row in rows():
        cells = [cell(crowds[case], row) for case in cases]
        lines.append((row.title, *cells))
        print(*lines[-1], flush=True)
    text = (
        "Accuracy in % on test items by the classifier / on the labelled items, means of "
        f"{SEEDS} seeds, {EPOCHS} epochs. Of Music's {found.data.n_annotators} annotators a share, drawn by the "
        "seed, is replaced: they label the same items, and are right with probability .1 (kinds `adversary` and "
        "`malicious`: another class each time, or classes swapped by a permutation of the annotator's own). The "
        "truth is used to simulate them, and to score."
    )
    recorder.add(results.ADVERSARIES, f"{text}\n\n{markdown(header, lines)}")


def test_machine_annotators(recorder: Recorder) -> None:
    crowds = [machines(seed) for seed in range(SEEDS)]
    accuracy = 100 * np.stack([accuracies for _, accuracies in crowds])
    lines = []
    for row in rows():
        lines.append((row.title, *cell([found for found, _ in crowds], row).split(" / ")))
        print(*lines[-1], flush=True)
    text = (
        f"Ten logistic regressions that learned from {LEARNED_FROM[0]} to {LEARNED_FROM[-1]} of the digits of "
        f"scikit-learn label the others, {PER_ITEM} of them an item, 30% of items left out to test on. Their "
        f"accuracies are {', '.join(f'{x:.0f}' for x in np.sort(accuracy.mean(0)))} (means of {SEEDS} "
        f"seeds; all from {accuracy.min():.0f} to {accuracy.max():.0f}), and they err on the same items. Accuracy "
        f"in %; a seed draws crowd and fit; {EPOCHS} epochs."
    )
    recorder.add(results.MACHINES, f"{text}\n\n{markdown(('method', 'test', 'truth'), lines)}")


def with_adversaries(found: Featured, share: float, kind: str, seed: int) -> Featured:
    """The same crowd with some annotators replaced, who label what they labelled."""
    data, rng = found.data, np.random.default_rng(seed)
    frame, people, k = data.frame(), pd.Index(data.annotators), data.n_classes
    for annotator in people[rng.permutation(len(people))[: round(share * len(people))]]:
        at = frame.index[frame["annotator"] == annotator]
        table = annotator_kind(kind).confusion(k, rng)[found.truth[frame.loc[at, "item"]]]
        frame.loc[at, "label"] = [rng.choice(k, p=row) for row in table]
    return replace(found, data=Annotations.from_frame(frame, features=data.features, classes=range(k)))


def machines(seed: int) -> tuple[Featured, np.ndarray]:
    """Digits labelled by classifiers that have seen few of them, and the accuracies of these."""
    x, y = load_digits(return_X_y=True)
    test = np.sort(np.random.default_rng(seed).permutation(len(y))[: round(0.3 * len(y))])
    n = len(y) - len(test)
    kinds = [annotator_kind("machine", classifier="logistic", trained_on=m / n) for m in LEARNED_FROM]
    crowd = crowdppl.simulate_annotators(y, kinds, labels_per_item=PER_ITEM, features=x, test=test, seed=seed)
    train = crowd.truth.index.difference(crowd.test)
    found = Featured(crowd.data, crowd.truth, train, crowd.test)
    return found, crowd.annotators["accuracy"].to_numpy()


def cell(crowds: list[Featured], row: neural.Row) -> str:
    """Mean accuracy on test items, and on the labelled ones."""
    scores = []
    for seed, found in enumerate(crowds):
        fit = neural.fitted(found, row, seed)
        truth = evaluate(fit.probabilities().loc[found.train], found.truth[found.train]).accuracy
        alone = row in LABELS_ALONE
        shares = None if alone else fit.classify(found.data.features).loc[found.test]
        scores.append((np.nan if shares is None else evaluate(shares, found.truth[found.test]).accuracy, truth))
    test, truth = 100 * np.mean(scores, 0)
    return f"- / {truth:.1f}" if np.isnan(test) else f"{test:.1f} / {truth:.1f}"
