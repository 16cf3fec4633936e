"""Baselines on real annotations, beside figures that others report."""

import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crowdppl import baselines
from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.evaluate import evaluate
from tests.benchmarks.featured import Featured, read_featured
from tests.benchmarks.results import BASELINES, MMSR, Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_accuracy import SETS, read

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "crh": ("crh", {}),
    "catd": ("catd", {}),
    "kos": ("kos", {}),
    "ghosh": ("ghosh", {}),
    "ghosh, centred": ("ghosh", {"centred": True}),
    "eigenratio": ("eigenratio", {}),
    "message_passing": ("message_passing", {}),
    "mmsr": ("mmsr", {}),
    "max_margin_votes": ("max_margin_votes", {}),
}
SPLIT = ("kos", "ghosh", "ghosh, centred", "eigenratio", "message_passing")
"""Methods for two classes, of which dogs and face also have a row by thresholds, as published."""
PUBLISHED = {
    "crh": ("PM, Zheng et al. 2017", {"possent": "95.04", "product": "89.81"}),
    "catd": ("Zheng et al. 2017", {"possent": "95.50", "product": "92.66"}),
    "kos": ("Zheng et al. 2017", {"possent": "93.80", "product": "89.55"}),
    "ghosh": ("Zhang et al. 2016", {"bluebirds": "72.22"}),
    "ghosh, centred": ("KOS, Zhang et al. 2016", {"bluebirds": "88.89"}),
    "eigenratio": ("Zhang et al. 2016", {"bluebirds": "72.22"}),
    "message_passing": ("VI-BP, Zheng et al. 2017", {"possent": "96.00", "product": "64.64"}),
    "max_margin_votes": ("Tian & Zhu 2015", {"bluebirds": "89.63", "web": "92.01"}),
}
"""As recalled, not read again."""
SOFT: dict[str, dict[str, Any]] = {
    "frequency": {},
    "beta": {"certainty": "beta"},
    "frequency, paired": {"pairing": True},
    "beta, paired": {"certainty": "beta", "pairing": True},
}

ABOUT = (
    "Per cent of items with a known truth, exact duplicate rows dropped, ties split in expectation. "
    "Methods for two classes take web by thresholds between grades, and other sets of more classes as one class "
    "against the rest. In italics: figures of others, as recalled. `-`: not measured, over 100,000 labels."
)
ABOUT_SPLITS = (
    "The same by thresholds between classes in their order, where these are no grades, as published for dogs:"
)
ABOUT_CROWD_KIT = (
    "`mmsr` beside crowd-kit, which starts at random and finds signs by another eigenvector: accuracies, and the "
    "share of items that both label alike."
)
ABOUT_SOFT = (
    "`soft_votes` as examples for a classifier: test accuracy of scikit-learn's logistic regression (C = .01, "
    "standardised features) trained with these weights, beside true labels."
)


def test_baselines(recorder: Recorder, real_data: Path) -> None:
    sets = {name: read(real_data, name) for name in SETS}
    parts = [f"{ABOUT}\n\n{accuracy_table(sets)}", f"{ABOUT_SPLITS}\n\n{split_table(sets)}"]
    recorder.add(BASELINES, "\n\n".join([*parts, f"{ABOUT_SOFT}\n\n{soft_table(real_data)}"]))


Sets = dict[str, tuple[Annotations, pd.Series]]


def accuracy(row: str, data: Annotations, gold: pd.Series, **more: Any) -> str:
    method, settings = ROWS[row]
    began = time.perf_counter()
    found = baselines.METHODS[method](data, **settings, **more)
    text = f"{100 * evaluate(found, gold, bootstrap=1).accuracy:.2f}"
    print(row, more, text, f"{time.perf_counter() - began:.1f} s", found.iterations, found.converged, flush=True)
    return text


def accuracy_table(sets: Sets) -> str:
    table = []
    for row in ROWS:
        cells = [accuracy(row, *sets[n]) if sets[n][0].n_labels < 100_000 else "-" for n in SETS]
        table.append([row, *cells])
        if row in PUBLISHED:
            source, known = PUBLISHED[row]
            table.append([f"*{source}*", *(known.get(name, "") for name in SETS)])
    return markdown(("method", *SETS.values()), table)


def split_table(sets: Sets) -> str:
    names = ("dogs", "face")
    rows = [[row, *(accuracy(row, *sets[name], split="thresholds") for name in names)] for row in SPLIT]
    return markdown(("method", *names), rows)


def test_mmsr_beside_crowd_kit(recorder: Recorder, real_data: Path) -> None:
    kit = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed: pip install '.[bench]'")
    rows = []
    for name in ("bluebirds", "dogs", "rte"):
        data, gold = read(real_data, name)
        frame = data.frame().astype({"label": int}).set_axis(["task", "worker", "label"], axis=1)
        theirs = kit.MMSR(n_iter=1000, tol=1e-6).fit_predict(frame).reindex(data.items)
        ours = baselines.mmsr(data).labels()["label"].astype(int)
        right = [f"{100 * (x[gold.index] == gold).mean():.2f}" for x in (ours, theirs)]
        rows.append([name, *right, f"{(ours == theirs).mean():.3f}"])
    recorder.add(MMSR, f"{ABOUT_CROWD_KIT}\n\n{markdown(('set', 'crowdppl', 'crowd-kit', 'alike'), rows)}")


def soft_table(folder: Path) -> str:
    found: dict[str, list[str]] = {}
    for name in ("labelme", "music"):
        given = read_featured(folder, name)
        examples = {f"soft_votes, {row}": baselines.soft_votes(given.data, **how) for row, how in SOFT.items()}
        known = given.truth[given.train]
        examples["true labels"] = pd.DataFrame({"item": known.index, "label": known.to_numpy(), "weight": 1.0})
        for row, frame in examples.items():
            found.setdefault(row, []).append(of_test_items(frame, given))
            print(name, row, found[row][-1], flush=True)
    return markdown(("examples", "labelme", "music"), ([row, *cells] for row, cells in found.items()))


def of_test_items(examples: pd.DataFrame, given: Featured) -> str:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features: Any = given.data.features
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000))
    train, test = (features.loc[items].to_numpy() for items in (examples["item"], given.test))
    classifier.fit(train, examples["label"].astype(int), logisticregression__sample_weight=examples["weight"])
    return f"{100 * (classifier.predict(test) == given.truth[given.test]).mean():.1f}"
