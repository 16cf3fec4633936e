"""Small data sets of labels that are no plain classes, and short fits of the methods made for them."""

import warnings
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd

import crowdppl
from crowdppl import Annotations, Posterior
from tests.golden.crowds import answers
from tests.golden.fits import OPTIONS, answered, outcome
from tests.golden.numbers import Numbers, numbers

SEQUENCE = ["O", "B-x", "I-x"]


def codes(n: int, classes: list[str], seed: int) -> pd.Series:
    drawn = np.random.default_rng(seed).integers(0, len(classes), n)
    return pd.Series(np.array(classes)[drawn], index=[f"item {i:02}" for i in range(n)])


def grades() -> pd.DataFrame:
    rows = answers(codes(18, list("abc"), 11), 5, 0.7, 12)
    return rows.assign(label=rows["label"].map({"a": 1, "b": 2, "c": 3}))


def ratings() -> pd.DataFrame:
    rng = np.random.default_rng(13)
    item, annotator = np.nonzero(rng.random((18, 5)) < 0.7)
    value = rng.normal(size=18)[item] + np.linspace(-1, 1, 5)[annotator] + 0.4 * rng.normal(size=len(item))
    names = {"item": [f"item {i:02}" for i in item], "annotator": [f"annotator {a}" for a in annotator]}
    return pd.DataFrame(names | {"label": value.round(2)})


def comparisons() -> pd.DataFrame:
    rng = np.random.default_rng(14)
    left, right = np.array([rng.choice(6, 2, replace=False) for _ in range(60)]).T
    better = left - right + rng.normal(0, 1.5, 60)
    label = np.select([better > 0.5, better < -0.5], ["left", "right"], "tie")
    annotator = [f"annotator {a}" for a in rng.integers(0, 4, 60)]
    objects = {"left": [f"object {i}" for i in left], "right": [f"object {i}" for i in right]}
    return pd.DataFrame(objects | {"annotator": annotator, "label": label}).drop_duplicates(
        ["left", "right", "annotator"]
    )


def orders() -> pd.DataFrame:
    rng, rows = np.random.default_rng(16), []
    for n in range(10):
        some = np.sort(rng.choice(5, 4, replace=False))
        seen = some[np.argsort(some + rng.normal(0, 1.2, 4))]
        text = " > ".join(f"object {i}" for i in seen[:3]) + f" = object {seen[3]}"
        rows.append((f"problem {n // 4}", f"annotator {n % 4}", text))
    return pd.DataFrame(rows, columns=["problem", "annotator", "ranking"])


def likenesses() -> pd.DataFrame:
    rng = np.random.default_rng(15)
    left, right = np.array([(i, j) for i in range(9) for j in range(i)]).T
    same = (left % 3 == right % 3) ^ (rng.random(len(left)) < 0.1)
    objects = {"left": [f"object {i}" for i in left], "right": [f"object {i}" for i in right]}
    annotator = [f"annotator {a}" for a in rng.integers(0, 3, len(left))]
    return pd.DataFrame(objects | {"annotator": annotator, "label": np.where(same, "same", "different")})


def tags() -> pd.DataFrame:
    names = [f"item {i:02}" for i in range(24)]
    known = pd.Series(list("abcaabaabccaaababcbcaaab"), index=names)
    rows = answers(known, 4, 0.8, 17)
    place = rows["item"].str[-2:].astype(int)
    tokens = {"sequence": [f"sentence {i // 4}" for i in place], "position": place % 4}
    label = rows["label"].map(dict(zip("abc", SEQUENCE, strict=True)))
    return rows.assign(**tokens, label=label).drop(columns="item")


def sets() -> pd.DataFrame:
    rng = np.random.default_rng(18)
    item, annotator = np.nonzero(rng.random((14, 4)) < 0.8)
    held = np.array([[1, 1, 0], [0, 0, 1]])[np.arange(14) % 2][item] ^ (rng.random((len(item), 3)) < 0.15)
    label = [[name for name, one in zip("xyz", row, strict=True) if one] for row in held]
    names = {"item": [f"item {i:02}" for i in item], "annotator": [f"annotator {a}" for a in annotator]}
    return pd.DataFrame(names | {"label": label})


KINDS: dict[str, Callable[[], pd.DataFrame]] = {
    "ordinal": grades,
    "real": ratings,
    "pair": comparisons,
    "ranking": orders,
    "similarity": likenesses,
    "sequence": tags,
    "set": sets,
}


@cache
def data(kind: str) -> Annotations:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Annotations.from_frame(KINDS[kind](), kind=kind)


def methods(kind: str) -> list[str]:
    plain = crowdppl.registry.names_for("nominal")
    return [name for name in crowdppl.registry.names_for(kind) if name not in plain]


def fit(kind: str, method: str, engine: str) -> Numbers:
    return outcome(lambda: crowdppl.fit(method, data(kind), inference=engine, seed=0, **OPTIONS[engine]), found)


def found(posterior: Posterior) -> Numbers:
    """The tables of a kind, or the error that refuses one."""
    asked = {
        "truth": partial(posterior.truth, 0.9),
        "annotators": posterior.annotators,
        "ranking": posterior.ranking,
        "spans": posterior.spans,
        "sets": posterior.sets,
        "clusters": posterior.clusters,
        "averages": posterior.fair_averages,
        "predict": lambda: posterior.predict(posterior.data.frame().iloc[:8]),
    }
    return numbers(diagnostics=posterior.diagnostics()) | {
        key: array for name, ask in asked.items() for key, array in answered(name, ask).items()
    }
