"""Classes of an item as a set, and objects, items or annotators in clusters."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from crowdppl.core import validation
from crowdppl.data.covariates import group_book
from crowdppl.data.parts import SIDES
from crowdppl.data.sets import NO_YES, OF_SETS, SET
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.problem import model_sites
from crowdppl.inference.result import Fit
from crowdppl.primitives.model import card_of

Criterion = Literal["accuracy", "jaccard", "f1"]
CRITERIA = ("accuracy", "jaccard", "f1")
ROUNDING = 1e-12
GROUPS = "groups of "
"""How the names of plates of groups of items begin."""


def sets(posterior: Fit, best: Criterion = "accuracy") -> pd.DataFrame:
    """For each item the set of its classes, where labels are sets (``kind="set"``).

    Expectations take the classes of an item for independent given its probabilities. An item's set is then its k
    most probable classes (Lewis 1995, Evaluating and optimizing autonomous text classification systems, SIGIR).
    Two empty sets are alike: their Jaccard index and F1 are 1.

    Args:
        best: what the set is to be best in, by expectation: "accuracy", the share of classes about which it is
            right, so that it has those of a probability above one half; "jaccard", the classes in both set and
            truth over those in either; "f1", twice the former over the sum of their sizes.

    Returns:
        DataFrame by item: set, a tuple of classes, most probable first; size; accuracy, jaccard and f1 that are
        expected of it.

    Raises:
        DataError: when labels are no sets.
        MethodError: for another criterion.

    Examples:
        >>> data = crowdppl.datasets.example("set")
        >>> posterior = crowdppl.fit("set_clusters", data, inference="vb", seed=0)
        >>> posterior.sets().loc[["one", "two"], ["set", "size"]]
                       set  size
        item
        one   (red, round)     2
        two   (red, round)     2
    """
    criterion = validation.one_of("best", best, CRITERIA)
    data = posterior.data
    if data.kind != SET or data.item_covariates is None:
        raise DataError(f"labels of kind {data.kind!r} are no sets; read them with kind='set', or use labels()")
    yes = posterior.result.probabilities[:, data.classes.get_loc(NO_YES[1])]
    table = data.item_covariates.assign(yes=yes)
    rows = {}
    for item, own in table.groupby(OF_SETS[0], sort=False, observed=True):
        p = own["yes"].to_numpy()
        order = np.argsort(-p, kind="stable")
        scores = _expected(p[order])
        size = int(
            np.argmax(scores[criterion] > scores[criterion].max() - ROUNDING)
        )  # the smallest of those that tie
        members = tuple(own[OF_SETS[1]].iloc[order[:size]])
        rows[item] = {"set": members, "size": size, **{name: float(x[size]) for name, x in scores.items()}}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("item")


def _expected(p: np.ndarray) -> dict[str, np.ndarray]:
    """Expected scores of the sets of the first 0, 1, ... C classes, (C + 1,), of falling probabilities (C,)."""
    n, out = len(p), {name: np.ones(len(p) + 1) for name in CRITERIA}
    for k in range(n + 1):
        joint = np.multiply.outer(_how_many(p[:k]), _how_many(p[k:]))  # of those in the set, of those outside
        hits, missed = np.meshgrid(np.arange(k + 1.0), np.arange(n - k + 1.0), indexing="ij")
        either, both = k + missed, k + hits + missed
        out["accuracy"][k] = (p[:k].sum() + (1 - p[k:]).sum()) / n
        out["jaccard"][k] = (joint * np.where(either > 0, hits / np.maximum(either, 1), 1)).sum()
        out["f1"][k] = (joint * np.where(both > 0, 2 * hits / np.maximum(both, 1), 1)).sum()
    return out


def _how_many(p: np.ndarray) -> np.ndarray:
    """Distribution of the number of independent events that happen, (n + 1,), from their probabilities."""
    out = np.ones(1)
    for each in p:
        out = np.append(out * (1 - each), 0) + np.append(0, out * each)
    return out


def clusters(posterior: Fit) -> pd.DataFrame:
    """The cluster of each object, item or annotator, for methods that find clusters.

    Returns:
        DataFrame by object, item or annotator: cluster, a number from 0, the most probable one; probability, or the
            share of the cluster where something may belong to several.

    Raises:
        MethodError: for a method that finds no clusters.

    Examples:
        >>> data = crowdppl.datasets.example("similarity")
        >>> posterior = crowdppl.fit("crowd_clustering", data, inference="vb", seed=0)
        >>> posterior.clusters().columns.tolist()
        ['cluster', 'probability']
    """
    card = card_of(posterior.model)
    name = card.clusters if card is not None else ""
    if name not in posterior.result.sites:
        raise MethodError(
            f"{posterior.method} finds no clusters; crowd_clustering, set_clusters, community, preference_groups do"
        )
    shares, plate = posterior.result.sites[name].mean, model_sites(posterior.model, posterior.data)[name].plates[-1]
    ids = posterior.data.annotators if plate == "annotators" else _groups(posterior, plate.removeprefix(GROUPS))
    columns = {"cluster": shares.argmax(-1), "probability": shares.max(-1)}
    return pd.DataFrame(columns, index=ids)


def _groups(posterior: Fit, column: str) -> pd.Index:
    """The ids of the groups that a column of the item covariates names; those on either side are objects."""
    covariates = posterior.data.item_covariates
    assert covariates is not None
    book = group_book(covariates[column])
    assert book is not None
    return book.ids.rename("object" if column in SIDES else column)
