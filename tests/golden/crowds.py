"""Three small data sets, whose numbers come from numpy and lists alone."""

import warnings
from functools import cache

import numpy as np
import pandas as pd

import crowdppl
from crowdppl import Annotations

CLASSES = ["a", "b", "c", "unused"]


def truth(n: int, seed: int) -> pd.Series:
    """The classes of some items, which nobody but a score is told."""
    rng = np.random.default_rng(seed)
    return pd.Series(np.array(CLASSES[:3])[rng.integers(0, 3, n)], index=[f"item {i:02}" for i in range(n)])


def answers(known: pd.Series, annotators: int, share: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    item, annotator = np.nonzero(rng.random((len(known), annotators)) < share)
    right = rng.random(len(item)) < np.linspace(0.35, 0.95, annotators)[annotator]
    guess = np.array(CLASSES[:3])[rng.integers(0, 3, len(item))]
    label = np.where(right, known.to_numpy()[item], guess)
    names = [f"annotator {a}" for a in annotator]
    return pd.DataFrame({"item": known.index[item], "annotator": names, "label": label})


@cache
def anaesthetists() -> Annotations:
    """Dawid and Skene's own data: repeats, four classes."""
    return crowdppl.anaesthetists()


@cache
def crowd() -> Annotations:
    known = truth(30, 1)
    rows = answers(known, 8, 0.55, 2)
    rows.loc[::13, "label"] = "?"
    again = rows.iloc[::17].assign(label="b")
    options = {"classes": CLASSES, "abstentions": ["?"], "items": [*known.index, "unseen"]}
    with warnings.catch_warnings():  # made once, so that only the first fit would be told of repeats
        warnings.simplefilter("ignore")
        return Annotations.from_frame(pd.concat([rows, again]), gold=known.iloc[:4], **options)


@cache
def features() -> Annotations:
    """Three numbers an item, that tell something of its class; two items without labels."""
    known = truth(24, 3)
    code = known.map(CLASSES.index).to_numpy()
    noise = np.random.default_rng(4).normal(size=(24, 3))
    seen = pd.DataFrame(np.eye(3)[code] * 2 + noise, index=known.index, columns=list("xyz"))
    return Annotations.from_frame(answers(known.iloc[:22], 5, 0.6, 5), features=seen, items=known.index)


CROWDS = {"anaesthetists": anaesthetists, "crowd": crowd, "features": features}
