"""Estimates without a model of labels, beside which methods for grades and numbers are measured."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds
from scipy.stats import chi2

ALPHA = 0.05
"""CATD: one less the level of the interval of a source's variance."""
TINY = 1e-12
"""Least sum of squared errors of a source, which else would have infinite weight."""


def ghosh(rows: pd.DataFrame, classes: int) -> pd.Series:
    """Grades from 0 by item, by the first left singular vector of labels above and below each threshold.

    Ghosh, Kale & McAfee (2011), "Who moderates the moderators?", doi:10.1145/1993574.1993599, for two classes; a
    grade is the first threshold that the item lies below. The vector is turned to agree with the sums of labels.

    Args:
        rows: item, annotator and label, a grade from 0.
        classes: number of grades.
    """
    (item, items), (annotator, names) = pd.factorize(rows["item"]), pd.factorize(rows["annotator"])
    above = np.zeros((len(items), classes - 1), bool)
    for grade in range(classes - 1):
        signs = np.where(rows["label"] > grade, 1.0, -1.0)
        table = csr_array((signs, (item, annotator)), shape=(len(items), len(names)))
        first = svds(table, k=1, v0=np.ones(min(table.shape)), return_singular_vectors="u")[0][:, 0]
        above[:, grade] = first * np.sign(first @ table.sum(1)) > 0
    return pd.Series(np.where(above.all(1), classes - 1, above.argmin(1)), index=items)


def median(rows: pd.DataFrame) -> pd.Series:
    return rows.groupby("item")["label"].median()


def crh(rows: pd.DataFrame) -> pd.Series:
    """Numbers by item: means weighted by the log of all sources' losses over a source's own.

    Li et al. (2014), "Resolving conflicts in heterogeneous data by truth discovery", doi:10.1145/2588555.2610509.
    Losses are squared errors over the standard deviation of an item's labels, on average over a source's labels.
    """
    spread = rows.groupby("item")["label"].transform("std", ddof=0).replace(0, 1).fillna(1)

    def weights(error: pd.Series) -> pd.Series:
        loss = (error**2 / spread).groupby(rows["annotator"]).mean().clip(lower=TINY)
        return np.log(loss.sum() / loss)

    return _weighted(rows, weights)


def catd(rows: pd.DataFrame) -> pd.Series:
    """Numbers by item: means weighted by the inverse of an upper bound of a source's variance.

    Li et al. (2014), "A confidence-aware approach for truth discovery on long-tail data",
    doi:10.14778/2735496.2735505.
    """

    def weights(error: pd.Series) -> pd.Series:
        squares = (error**2).groupby(rows["annotator"])
        return chi2.ppf(ALPHA / 2, squares.count()) / squares.sum().clip(lower=TINY)

    return _weighted(rows, weights)


def _weighted(
    rows: pd.DataFrame, weights: Callable[[pd.Series], pd.Series], tolerance: float = 1e-9, most: int = 1000
) -> pd.Series:
    """Weighted means by item, and weights of annotators by their errors, in turn from the plain means."""
    truth = rows.groupby("item")["label"].mean()
    for _ in range(most):
        weight = rows["annotator"].map(weights(rows["label"] - rows["item"].map(truth)))
        sums = (weight * rows["label"]).groupby(rows["item"]).sum()
        before, truth = truth, sums / weight.groupby(rows["item"]).sum()
        if (truth - before).abs().max() <= tolerance * rows["label"].std():
            break
    return truth
