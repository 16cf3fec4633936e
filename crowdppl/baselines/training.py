"""Labels as weighted examples to train a classifier on."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from crowdppl.baselines.aggregation import class_votes
from crowdppl.core.validation import one_of, switch
from crowdppl.data.annotations import Annotations
from crowdppl.results import choices


def soft_votes(
    data: Annotations, *, certainty: Literal["frequency", "beta"] = "frequency", pairing: bool = False
) -> pd.DataFrame:
    """Weighted training examples of items from their votes: majority voting with certainty, and pairing.

    Sheng, Zhang, Gu & Wu (2019), "Majority voting and pairing with multiple noisy labeling", for two classes:
    MV-Freq, MV-Beta, Paired-Freq and Paired-Beta. A class that has l of an item's n votes is as certain as l / n
    or, by "beta", as Beta(l + 1, n - l + 1) lies above a half.

    Args:
        data: classes; an annotator has one vote an item.
        certainty: "frequency" or "beta".
        pairing: an example for each class that an item was given, instead of one for the class of most votes.

    Returns:
        DataFrame, a row an example: ``item``, ``label`` and ``weight``, above 0. Of a tie, the label is that of
        ``Posterior.labels``. Pass weights as ``sample_weight`` of scikit-learn's classifiers.

    Raises:
        MethodError: for labels that are no classes.

    Examples:
        >>> crowdppl.baselines.soft_votes(crowdppl.anaesthetists(), pairing=True).iloc[1:4].round(2)
           item  label  weight
        1     2      3    0.60
        2     2      4    0.40
        3     3      1    0.33
    """
    from scipy.stats import beta  # slow to import

    one_of("certainty", certainty, ("frequency", "beta"))
    ballots, k = class_votes(data, "soft_votes"), data.n_classes
    votes = np.bincount(ballots.item * k + ballots.answer, ballots.share, ballots.n_items * k).reshape(-1, k)
    total = votes.sum(1, keepdims=True)
    sure = votes / total if certainty == "frequency" else beta.sf(0.5, votes + 1, total - votes + 1)
    if switch("pairing", pairing):
        row, code = np.nonzero(votes)
    else:
        row = np.arange(len(votes))
        top = votes >= votes.max(1, keepdims=True) * (1 - choices.TIE)
        code, _ = choices.settle(top, votes, data.items[ballots.items], data.classes)
    item = data.item_columns(ballots.items[row])
    return pd.DataFrame({**item, "label": data.classes[code], "weight": sure[row, code]})
