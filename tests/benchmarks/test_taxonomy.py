"""Many classes in a tree: one coin for each of its levels, beside methods without one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.evaluate import evaluate
from tests.benchmarks import neural, results
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown

K, GROUPS, ITEMS, ANNOTATORS, PER_ITEM = 1000, 50, 5000, 50, 3
PRIOR = {"right": 4.0, "wrong": 2.0}
TWO_LEVELS = (
    dict.fromkeys((0, 1, 3, 8), "animal")
    | dict.fromkeys((2, 4, 5, 6, 11, 12, 13, 14), "vehicle")
    | dict.fromkeys((7, 9), "fruit")
)
"""Of imagenet15n: dog, cats, penguin; cars, ships, aircraft, trains; two fruit; a ball hangs from the root."""
THREE_LEVELS = TWO_LEVELS | {
    **dict.fromkeys((0, 1, 3), "mammal"),
    **dict.fromkeys((5, 13), "ship"),
    **dict.fromkeys((4, 11), "aircraft"),
    **dict.fromkeys((12, 14), "rail"),
    **dict.fromkeys((2, 6), "road"),
    **dict.fromkeys(("ship", "aircraft", "rail", "road"), "vehicle"),
    "mammal": "animal",
}


@dataclass(frozen=True)
class Case:
    """Labels, the truth, and the group of each class, by class."""

    data: Annotations
    truth: pd.Series
    group: Mapping[int, Any]


def test_classes_in_a_tree(recorder: Recorder, real_data: Path) -> None:
    parts = [
        section("imagenet15n", small(real_data), small_rows(), 5),
        section("1,000 classes", many(), many_rows(), 2),
    ]
    about = (
        "Accuracy in %, also of the group (imagenet15n: animals, vehicles, fruit, ball); log score of the truth; "
        "held-out labels: mean log-probability of a label left out. Of 1,000 classes in 50 groups of 20, 50 "
        "annotators give each of 5,000 items 3 labels, in the truth's group with probability .5 to .95, and there "
        "right with .3 to .8, else evenly. By vb coins have a prior of 4 right and 2 wrong labels. The other tree "
        "has the same groups with classes shuffled. One seed."
    )
    recorder.add(results.TAXONOMY, "\n\n".join([about, *parts]))


def section(title: str, case: Case, rows: list[neural.Row], folds: int) -> str:
    lines = []
    for row in rows:
        fit = crowdppl.fit(row.method, case.data, inference=row.engine, seed=0, settings=row.settings)
        score = evaluate(fit.probabilities(), case.truth)
        guess = fit.labels()["label"].map(case.group)
        near = float((guess == case.truth.map(case.group)).mean())
        held = crowdppl.heldout_score(
            row.method, case.data, folds=folds, inference=row.engine, seed=0, settings=row.settings
        )
        cells = (
            f"{100 * score.accuracy:.1f}",
            f"{100 * near:.1f}",
            f"{score.log_score:.2f}",
            f"{held.per_label:.3f}",
        )
        lines.append((row.title, *cells))
        print(*lines[-1], flush=True)
    header = ("method", "accuracy", "of the group", "log score", "held-out labels")
    return f"{title}:\n\n{markdown(header, lines)}"


def small_rows() -> list[neural.Row]:
    trees = {"two levels": TWO_LEVELS, "three levels": THREE_LEVELS}
    return [
        neural.Row("majority_vote", "majority_vote", "em"),
        neural.Row("one_coin, em", "one_coin", "em"),
        neural.Row("one_coin, vb", "one_coin", "vb", PRIOR),
        *(
            neural.Row(f"one_coin, vb, {name}", "one_coin", "vb", {"taxonomy": t, **PRIOR})
            for name, t in trees.items()
        ),
        neural.Row("dawid_skene, em", "dawid_skene", "em"),
        neural.Row("bayesian_dawid_skene, vb", "bayesian_dawid_skene", "vb"),
        neural.Row("hierarchical_dawid_skene, vb", "hierarchical_dawid_skene", "vb"),
        neural.Row("multinomial, em", "multinomial", "em"),
    ]


def many_rows() -> list[neural.Row]:
    tree = {k: f"group {group(k)}" for k in range(K)}
    shuffled = dict(zip(np.random.default_rng(1).permutation(K).tolist(), tree.values(), strict=True))
    return [
        neural.Row("majority_vote", "majority_vote", "em"),
        neural.Row("one_coin, em", "one_coin", "em"),
        neural.Row("one_coin, vb", "one_coin", "vb", PRIOR),
        neural.Row("one_coin, em, the tree", "one_coin", "em", {"taxonomy": tree}),
        neural.Row("one_coin, vb, the tree", "one_coin", "vb", {"taxonomy": tree, **PRIOR}),
        neural.Row("one_coin, em, another tree", "one_coin", "em", {"taxonomy": shuffled}),
        neural.Row("class_coin, em", "class_coin", "em"),
    ]


def group(k: int) -> int:
    """The group of a class of many."""
    return k // (K // GROUPS)


def small(folder: Path) -> Case:
    rows = pd.read_csv(folder / "imagenet15n" / "answers.csv").drop_duplicates()
    truth = pd.read_csv(folder / "imagenet15n" / "truth.csv").set_index("item")["label"]
    data = Annotations.from_frame(rows, classes=range(15))
    return Case(data, truth, {k: TWO_LEVELS.get(k, "ball") for k in range(15)})


def many() -> Case:
    """Errors that stay in the truth's group, or leave it."""
    rng, size = np.random.default_rng(0), K // GROUPS
    truth = rng.integers(K, size=ITEMS)
    stays, right = rng.uniform(0.5, 0.95, ANNOTATORS), rng.uniform(0.3, 0.8, ANNOTATORS)
    item = np.repeat(np.arange(ITEMS), PER_ITEM)
    who = np.concatenate([rng.choice(ANNOTATORS, PER_ITEM, replace=False) for _ in range(ITEMS)])
    at, n = truth[item], len(item)
    near = rng.random(n) < stays[who]
    hit = near & (rng.random(n) < right[who])
    sibling = at // size * size + (at % size + rng.integers(1, size, n)) % size
    far = (at // size + rng.integers(1, GROUPS, n)) % GROUPS * size + rng.integers(size, size=n)
    data = Annotations.from_arrays(item, who, np.where(hit, at, np.where(near, sibling, far)), classes=range(K))
    return Case(data, pd.Series(truth), {k: group(k) for k in range(K)})
