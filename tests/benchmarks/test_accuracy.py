"""Accuracy and probability scores of the zoo on real annotations, by default engines and settings."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from crowdppl import registry
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.evaluation.evaluate import Evaluation, evaluate
from crowdppl.evaluation.metrics import METRICS
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown

SETS = {
    "bluebirds": "bluebirds",
    "dogs": "dogs",
    "rte": "rte",
    "web": "web",
    "face": "face",
    "possent": "possent",
    "product": "product",
    "labelme": "labelme",
    "music": "music",
    "sentiment_polarity": "sentiment",
    "cifar10n": "cifar10n",
    "imagenet15n": "imagenet15n",
    "trec2010_binary": "trec2010",
}
NINE = ("bluebirds", "rte", "dogs", "web", "face", "possent", "product", "music", "sentiment_polarity")
"""Sets over which probability scores are averaged."""
ORDINAL = ("web",)
SHARES = "vote shares"
FORMS = {"coin_net, penalised": ("coin_net", {"form": "penalised"})}
"""Rows of forms that are other methods: this one learns by svi, and without features knows no outliers."""
HEAVY = {"item_difficulty": 200_000, "mixed_membership": 600_000, "hierarchical_mixed_membership": 400_000}
"""Labels x classes squared up to which costly methods are measured."""


@dataclass(frozen=True)
class Scored:
    scores: Evaluation
    engine: str
    seconds: float


def test_accuracy_on_real_annotations(recorder: Recorder, real_data: Path) -> None:
    table: dict[str, dict[str, Scored]] = {}
    for name in SETS:
        data, gold = read(real_data, name)
        for method, scored in scored_methods(name, data, gold):
            table.setdefault(method, {})[name] = scored
            print(f"{name} {method} {scored.engine} {100 * scored.scores.accuracy:.2f} {scored.seconds:.1f} s")
    recorder.add("Accuracy on real annotations", accuracy_table(table))
    recorder.add("Probabilities on real annotations", score_tables(table))


def read(folder: Path, name: str) -> tuple[Annotations, pd.Series]:
    """A set, exact duplicate rows dropped, and its gold by item."""
    rows = pd.read_csv(folder / name / "answers.csv").drop_duplicates()
    gold = pd.read_csv(folder / name / "truth.csv").set_index("item")["label"]
    gold = gold[gold.index.isin(rows["item"])]
    classes = range(int(max(rows["label"].max(), gold.max())) + 1)
    kind = "ordinal" if name in ORDINAL else "nominal"
    return Annotations.from_frame(rows, classes=classes, kind=kind), gold


def scored_methods(name: str, data: Annotations, gold: pd.Series) -> Iterator[tuple[str, Scored]]:
    """Vote shares, then every method that takes such data."""
    votes = data.votes()
    shares = pd.DataFrame(votes / votes.sum(1, keepdims=True), index=data.items, columns=data.classes)
    yield SHARES, Scored(evaluate(shares, gold), "", 0.0)
    for row in rows():
        began = time.perf_counter()
        posterior = first_accepted(name, row, data)
        if posterior is None:
            continue
        scores = evaluate(posterior, gold)
        yield row, Scored(scores, posterior.inference, time.perf_counter() - began)


def rows() -> list[str]:
    """Methods of the zoo, and forms that have a row of their own, in alphabetical order."""
    return sorted([*registry.names_for("nominal"), *FORMS])


def first_accepted(name: str, row: str, data: Annotations) -> Posterior | None:
    """The fit by em, or by vb where em refuses; None where both do, or where gradients would take minutes."""
    method, settings = FORMS.get(row, (row, {}))
    for engine in ("svi",) if row in FORMS else ("em", "vb"):
        if engine == "vb" and data.n_labels * data.n_classes**2 > HEAVY.get(method, np.inf):
            print(f"{name} {row} by {engine}: not measured, {data.n_labels} labels take minutes")
            return None
        try:
            return fit(method, data, inference=engine, seed=0, settings=settings)
        except MethodError as error:
            print(f"{name} {row} refused: {error}")
    return None


def accuracy_table(table: dict[str, dict[str, Scored]]) -> str:
    """Methods x sets, the best of each set in bold."""
    best = {name: max(row[name].scores.accuracy for row in table.values() if name in row) for name in SETS}
    rows = []
    for method, row in table.items():
        cells = [
            shown(row[name].scores.accuracy, row[name].scores.accuracy >= best[name]) if name in row else "-"
            for name in SETS
        ]
        engines = sorted({scored.engine for scored in row.values()} - {""})
        rows.append([f"{method} ({', '.join(engines)})" if engines else method, *cells])
    text = (
        "Per cent of items with a known truth, exact duplicate rows dropped, ties split in expectation; every "
        "method with its default settings, by em or, where em refuses, by vb, seed 0, from labels alone; the "
        "penalised form of coin_net by svi, which without features allows for no outliers. "
        "labelme and music: the items that annotators labelled. `-`: not measured, because item_difficulty and the "
        "mixed memberships take minutes on many labels.\n\n"
    )
    return text + markdown(("method (engines)", *SETS.values()), rows)


def shown(accuracy: float, best: bool) -> str:
    number = f"{100 * accuracy:.2f}"
    return f"**{number}**" if best else number


def score_tables(table: dict[str, dict[str, Scored]]) -> str:
    """Means over nine sets of all scores, then the log score set by set."""
    means = []
    for method, row in table.items():
        if all(name in row for name in NINE):
            per_set = [row[name].scores for name in NINE]
            means.append([method, *(f"{np.mean([s[key] for s in per_set]):.3f}" for key in SCORES)])
    logs = [
        [method, *(f"{row[name].scores.log_score:.3f}" if name in row else "-" for name in SETS)]
        for method, row in table.items()
    ]
    text = f"Mean over nine sets ({', '.join(NINE)}); log score in nats, ECE of 15 bins, lower is better:\n\n"
    mean_table, log_table = (
        markdown(("method", *SCORES.values()), means),
        markdown(("method", *SETS.values()), logs),
    )
    return f"{text}{mean_table}\n\nLog score by set:\n\n{log_table}"


SCORES = {"accuracy": "accuracy", "log_score": "log score", "brier": "Brier", "ece": "ECE"}
assert set(SCORES) <= set(METRICS)
