"""Truth and classifier from labels and features: every method with a network, on three sets."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from crowdppl.evaluation.evaluate import evaluate
from tests.benchmarks import neural
from tests.benchmarks.featured import read_featured
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown

FOLDS = 5


@pytest.mark.parametrize("name", ["LabelMe", "Music"])
def test_truth_from_features_and_labels(name: str, recorder: Recorder, real_data: Path) -> None:
    recorder.add(f"Truth from features and labels: {name}", neural.section(real_data, name.lower()))


def test_sentiment_polarity_by_folds(recorder: Recorder, real_data: Path) -> None:
    rows = [row for row in neural.ROWS if row.method in ("bayes_dgc", "raykar", "majority_vote", "ccem")]
    lines = []
    for row in rows:
        each = np.array([fold_accuracy(real_data, row, fold) for fold in range(FOLDS)])
        lines.append((row.title, f"{100 * each.mean():.1f}", f"{100 * each.std(ddof=1) / np.sqrt(FOLDS):.1f}"))
        print(*lines[-1])
    words = f"Accuracy in % of the classifier on each of {FOLDS} parts of the labelled items, trained on the rest."
    recorder.add(
        "Features and labels of sentiment_polarity",
        f"{words}\n\n{markdown(('method', 'accuracy', 'standard error'), lines)}",
    )


def fold_accuracy(folder: Path, row: neural.Row, fold: int) -> float:
    whole = read_featured(folder, "sentiment_polarity")
    shuffled = np.random.default_rng(0).permutation(len(whole.train))
    test = whole.train[np.sort(shuffled[fold::FOLDS])]
    found = read_featured(folder, "sentiment_polarity", test)
    shares = neural.fitted(found, row, fold).classify(found.data.features).loc[test]
    return evaluate(pd.DataFrame(shares), found.truth[test]).accuracy
