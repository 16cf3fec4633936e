"""What methods that read labels alone gain, or lose, by the labels that a mixture of experts fills in."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.data.split import keep, label_folds
from crowdppl.fitting import fit
from crowdppl.inference.predict.held_out import left_out
from crowdppl.posterior import Posterior
from crowdppl.results.updating import fill
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown, mean_and_error
from tests.benchmarks.test_pruning import hit

TITLE = "Filling in the labels that were not given"
SETS = ("labelme", "music")
ENGINES = {"majority_vote": "em", "dawid_skene": "em", "one_coin": "em", "mace": "vb", "bayesian_dawid_skene": "vb"}
SHARES = (1.0, 0.7, 0.4, 0.2)
"""Of the labels, drawn at random, that are kept; an item keeps one at least."""
EPOCHS = (30, 60)
"""Of which a set's own are those under which labels left out are likelier."""
RANDOM, THEIRS = 10, 0.3
"""Annotators who answer at random, and their labels as a share of all others."""
LEAST = 10
"""Labels from which on an annotator is filled in."""


@dataclass(frozen=True)
class Case:
    """Labels to be filled, and the truth that scores the result."""

    name: str
    data: Annotations
    gold: pd.Series


def test_gain_of_filling(recorder: Recorder, real_data: Path) -> None:
    rows, gains = [], dict[str, list[float]]()
    for name in SETS:
        data, gold = read_with_features(real_data, name)
        epochs = chosen_epochs(data)
        cases = [Case(f"{share:.0%} of the labels", thinned(data, share), gold) for share in SHARES]
        cases.append(Case(f"all, and {RANDOM} at random", with_random(data), gold))
        for case in cases:
            row, found = measured(case, epochs)
            rows.append([f"{name}, {case.name}", *row])
            for method, gain in found.items():
                gains.setdefault(method, []).append(gain)
            print(rows[-1], flush=True)
    means = [f"{np.mean(x):+.2f}, lost in {sum(y < 0 for y in x)} of {len(x)}" for x in gains.values()]
    rows.append(["mean gain", "", "", *means])
    header = ("labels", "filled", "mmlc itself", *ENGINES)
    recorder.add(TITLE, f"{EXPLAINED}\n\n{markdown(header, rows)}")


EXPLAINED = (
    "Accuracy in per cent on the labelled items before and after `crowdppl.fill(posterior)`, and in brackets the "
    "gain and its standard error over items. `mmlc` is fitted to features and to the labels of the row, by its "
    f"defaults, and fills in every annotator with {LEAST} labels or more; epochs ("
    + " or ".join(map(str, EPOCHS))
    + ") are those under which a fifth of all labels, left out, is likelier. Known truths score the result and "
    f"choose nothing. In the last row of a set, {RANDOM} annotators who answer at random give {THEIRS:.0%} more "
    "labels. filled: labels after by labels before; mmlc itself: the oracle worker. "
    + ", ".join(f"{method} by {engine}" for method, engine in ENGINES.items())
    + ", seed 0, one draw of the labels that are kept."
)


def read_with_features(folder: Path, name: str) -> tuple[Annotations, pd.Series]:
    """The labelled items of a set with their features, and the truth by item."""
    rows = pd.read_csv(folder / name / "answers.csv").drop_duplicates()
    items = pd.read_csv(folder / name / "items.csv")["item"]
    gold = pd.read_csv(folder / name / "truth.csv").set_index("item")["label"]
    features = pd.DataFrame(np.load(folder / name / "features.npz")["X"], index=items)
    features = features[features.index.isin(rows["item"])]
    classes = range(int(max(rows["label"].max(), gold.max())) + 1)
    return Annotations.from_frame(rows, classes=classes, features=features), gold


def thinned(data: Annotations, share: float, seed: int = 0) -> Annotations:
    """Some of the labels, and one of each item at least."""
    item = data.items.get_indexer(data.frame()["item"])
    chance = np.random.default_rng(seed).random(len(item))
    first = pd.Series(chance).groupby(item).transform("min").to_numpy()
    return keep(data, (chance <= first) | (chance < share))


def with_random(data: Annotations, seed: int = 0) -> Annotations:
    """The same labels, and those of annotators who know nothing."""
    stream, rows = np.random.default_rng(seed), data.frame()
    each = round(THEIRS * len(rows) / RANDOM)
    drawn = [
        pd.DataFrame(
            {
                "item": stream.choice(data.items, each, replace=False),
                "annotator": 1000 + n,
                "label": stream.choice(data.classes, each),
            }
        )
        for n in range(RANDOM)
    ]
    return Annotations.from_frame(pd.concat([rows, *drawn]), classes=data.classes, features=data.features)


def mixture(data: Annotations, epochs: int) -> Posterior:
    return fit("mmlc", data, inference="svi", seed=0, settings={"training": {"epochs": epochs}})


def chosen_epochs(data: Annotations) -> int:
    """The number of epochs after which a fifth of the labels, left out, is most probable."""
    out = label_folds(data, 5, seed=0) == 0
    kept = keep(data, ~out)
    scores: dict[int, Any] = {n: left_out(mixture(kept, n), data, out)[0].mean() for n in EPOCHS}
    return max(scores, key=lambda n: float(scores[n]))


def measured(case: Case, epochs: int) -> tuple[list[str], dict[str, float]]:
    """A row, and the gain of each method in points."""
    posterior = mixture(case.data, epochs)
    full = fill(posterior, least=LEAST)
    row = [f"{full.n_labels / case.data.n_labels:.1f}x", f"{100 * hit(posterior, case.gold).mean():.2f}"]
    gains = {}
    for method, engine in ENGINES.items():
        before, after = (hit(fit(method, x, inference=engine, seed=0), case.gold) for x in (case.data, full))
        change = 100 * (after - before)
        gains[method] = float(change.mean())
        row.append(
            f"{100 * before.mean():.2f} to {100 * after.mean():.2f} ({mean_and_error(change, 2, signed=True)})"
        )
    return row, gains
