"""Real annotations with features: items that are trained on, and others whose truth scores the classifier."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations


@dataclass(frozen=True)
class Featured:
    """A data set with features.

    Attributes:
        data: labels of the train items; the test items have features and no labels.
        truth: of all items.
        train, test: ids.
    """

    data: Annotations
    truth: pd.Series
    train: pd.Index
    test: pd.Index


def read_featured(folder: Path, name: str, test: pd.Index | None = None) -> Featured:
    """Reads a data set.

    Args:
        folder: of all sets.
        name: of the set.
        test: train items whose labels are put aside, to be tested on; by default the set's own test part.
    """
    rows = pd.read_csv(folder / name / "answers.csv").drop_duplicates()
    items = pd.read_csv(folder / name / "items.csv").set_index("item")
    truth = pd.read_csv(folder / name / "truth.csv").set_index("item")["label"]
    labelled = items.index[(items["split"] == "train") & items.index.isin(rows["item"])]
    tested = items.index[items["split"] == "test"] if test is None else test
    train = labelled.difference(tested, sort=False)
    x = pd.DataFrame(np.load(folder / name / "features.npz")["X"], index=items.index)
    kept = items.index[items.index.isin(train) | items.index.isin(tested)]
    classes = range(int(truth.max()) + 1)
    data = Annotations.from_frame(rows[rows["item"].isin(train)], features=x.loc[kept], classes=classes)
    return Featured(data, truth, pd.Index(train), pd.Index(tested))
