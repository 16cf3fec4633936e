"""Classes of an item as a set, and objects, items or annotators in clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.core import validation
from crowdppl.data.covariates import group_book
from crowdppl.data.kinds.parts import SIDES
from crowdppl.data.kinds.sets import NO_YES, OF_SETS, SETS
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.problem import model_sites
from crowdppl.inference.result import Fit
from crowdppl.primitives.linkage import linkage, log_evidence
from crowdppl.primitives.model import card_of

CRITERIA = ("accuracy", "jaccard", "f1")
ROUNDING = 1e-12
ITEMS = 4096
"""Whose sets are looked at together."""


def sets(posterior: Fit, best: Literal["accuracy", "jaccard", "f1"] = "accuracy") -> pd.DataFrame:
    """For each item the set of its classes, where labels are sets (``kind="set"``).

    Expectations take the classes of an item for independent given its probabilities. An item's set is then its k
    most probable classes (Lewis 1995, Evaluating and optimizing autonomous text classification systems, SIGIR).
    Two empty sets are alike: their Jaccard index and F1 are 1.

    Args:
        best: what the set is to be best in, by expectation: "accuracy", the share of classes about which it is
            right, so that it has those of a probability above one half; "jaccard", the classes in both set and
            truth over those in either; "f1", twice the former over the sum of their sizes.

    Returns:
        DataFrame by item:

        - ``set``: tuple of classes, most probable first
        - ``size``: how many
        - ``accuracy``, ``jaccard``, ``f1``: what is expected of the set by each criterion

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
    items, rows = list[Any](), list[tuple[Any, ...]]()
    for item, names, scores in nested_sets(posterior):
        score = scores[criterion]
        size = int(np.argmax(score > score.max() - ROUNDING))  # the smallest of those that tie
        items.append(item)
        rows.append((names[:size], size, *(float(scores[name][size]) for name in CRITERIA)))
    return pd.DataFrame(rows, pd.Index(items, name="item"), ["set", "size", *CRITERIA])


def nested_sets(posterior: Fit) -> Iterator[tuple[Any, tuple[Any, ...], dict[str, np.ndarray]]]:
    """Each item, its classes, most probable first, and the expected scores of the first 0, 1, ... of them."""
    data = posterior.data
    if data.alphabet.kind != SETS or data.item_covariates is None:
        raise DataError(f"labels of kind {data.kind!r} are no sets; read them with kind='set', or use labels()")
    yes = posterior.result.probabilities[:, data.classes.get_loc(NO_YES[1])]
    item, name = (data.item_covariates[part].cat for part in OF_SETS)
    codes, names = item.codes.to_numpy(), np.array([*name.categories], object)[name.codes]
    items = [*item.categories]
    order = np.lexsort((-yes, codes))  # of an item together, most probable first
    size = np.bincount(codes, minlength=len(item.categories))
    start = np.cumsum(size) - size
    there, first = np.unique(codes, return_index=True)
    there = there[np.argsort(first, kind="stable")]
    for some in np.split(there, range(ITEMS, len(there), ITEMS)):
        found: dict[int, dict[str, np.ndarray]] = {}
        for n in np.unique(size[some]):
            alike = some[size[some] == n]
            scores = _expected(yes[order[start[alike, None] + np.arange(n)]])
            found |= {int(k): {x: each[row] for x, each in scores.items()} for row, k in enumerate(alike)}
        for k in some.tolist():
            rows = order[start[k] : start[k] + size[k]]
            yield items[k], tuple(names[rows]), found[k]


def _expected(p: np.ndarray) -> dict[str, np.ndarray]:
    """Expected scores of the sets of the first 0, 1, ... C classes, (N, C + 1), of falling probabilities (N, C)."""
    n, out = p.shape[1], {name: np.ones((len(p), p.shape[1] + 1)) for name in CRITERIA}
    inside, outside = _how_many(p), _how_many(p[:, ::-1])[::-1]
    for k in range(n + 1):
        joint = inside[k][:, :, None] * outside[k][:, None, :]  # of those in the set, of those outside
        hits, missed = np.meshgrid(np.arange(k + 1.0), np.arange(n - k + 1.0), indexing="ij")
        either, both = k + missed, k + hits + missed
        out["accuracy"][:, k] = (p[:, :k].sum(1) + (1 - p[:, k:]).sum(1)) / n
        out["jaccard"][:, k] = (joint * np.where(either > 0, hits / np.maximum(either, 1), 1)).sum((1, 2))
        out["f1"][:, k] = (joint * np.where(both > 0, 2 * hits / np.maximum(both, 1), 1)).sum((1, 2))
    return out


def _how_many(p: np.ndarray) -> list[np.ndarray]:
    """Distributions of the number among the first 0, 1, ... n independent events, from probabilities (N, n)."""
    out = [np.ones((len(p), 1))]
    for each in p.T[:, :, None]:
        none = np.zeros((len(p), 1))
        out.append(np.hstack([out[-1] * (1 - each), none]) + np.hstack([none, out[-1] * each]))
    return out


def clusters(posterior: Fit) -> pd.DataFrame:
    """The cluster of each object, item or annotator.

    Of pairs that are the same or different, any method finds clusters of objects: where it has none of its own,
    those whose pairs' log-odds add up to most are joined, while these are above 0 (greedy linkage). So they
    are for a method that draws, where votes are more probable by them than by the means of its draws, in which
    clusters may have exchanged their numbers.

    Returns:
        DataFrame by object, item or annotator:

        - ``cluster``: number of the most probable one, from 0
        - ``probability``: of that cluster; its share, where something may belong to several; by linkage, the mean
          probability of an object's pairs to be the same or different as clusters say

    Raises:
        MethodError: for a method that finds no clusters, and labels that are no pairs.

    Examples:
        >>> data = crowdppl.datasets.example("similarity")
        >>> posterior = crowdppl.fit("crowd_clustering", data, inference="vb", seed=0)
        >>> posterior.clusters().columns.tolist()
        ['cluster', 'probability']
    """
    card = card_of(posterior.model)
    name = card.clusters if card is not None else ""
    parts = posterior.data.alphabet.kind.parts
    pairs, found = parts is not None and parts.unordered, name in posterior.result.sites
    if not found and not pairs:
        raise MethodError(
            f"{posterior.method} finds no clusters; crowd_clustering, set_clusters, community, preference_groups do"
        )
    own = _of_shares(posterior, name) if found else None
    if own is None or (pairs and posterior.result.sites[name].family == "draws"):
        return _of_pairs(posterior, own)
    return own


def _of_shares(posterior: Fit, name: str) -> pd.DataFrame:
    """The cluster in which each object, item or annotator has most."""
    shares, plate = posterior.result.sites[name].mean, model_sites(posterior.model, posterior.data)[name].plates[-1]
    ids = (
        posterior.data.annotators if plate == "annotators" else _groups(posterior, plate.removeprefix("groups of "))
    )
    return pd.DataFrame({"cluster": shares.argmax(-1), "probability": shares.max(-1)}, index=ids)


def _of_pairs(posterior: Fit, own: pd.DataFrame | None) -> pd.DataFrame:
    """Clusters of objects by linkage of their pairs, unless a method's own make the votes more probable."""
    covariates, p = posterior.data.item_covariates, posterior.result.probabilities
    assert covariates is not None
    left, right = (covariates[side].cat.codes.to_numpy() for side in SIDES)
    ids, block = _groups(posterior, SIDES[0]), posterior.data.as_block()
    log_p = np.log(np.clip(p, 1e-300, None))
    code = linkage(left, right, log_p[:, 1] - log_p[:, 0], len(ids))
    if own is not None and log_evidence(block, own["cluster"].to_numpy()) >= log_evidence(block, code):
        return own
    said = p[np.arange(len(p)), (code[left] == code[right]).astype(int)]
    both = np.append(left, right)
    mean = np.bincount(both, np.tile(said, 2), len(ids)) / np.bincount(both, minlength=len(ids))
    return pd.DataFrame({"cluster": code, "probability": mean}, index=ids)


def _groups(posterior: Fit, column: str) -> pd.Index:
    """The ids of the groups that a column of the item covariates names; those on either side are objects."""
    covariates = posterior.data.item_covariates
    assert covariates is not None
    book = group_book(covariates[column])
    assert book is not None
    return book.ids.rename("object" if column in SIDES else column)
