"""Methods for two classes, as signs of labels; more by thresholds of grades or one class against the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from crowdppl.baselines.aggregation import Aggregation, class_votes, labelled, placed
from crowdppl.core.validation import one_of, whole_number
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError

Split = Literal["thresholds", "rest"]
SPLITS = ("thresholds", "rest")
Solve = Callable[[Any], tuple[np.ndarray, np.ndarray]]
"""Of signs, sparse (N, A), the side of each item, (N,), above 0 for 1, and what annotators count, (A,)."""
TOLERANCE = 1e-10
"""Below which an entry of an eigenvector is none."""


def ghosh(data: Annotations, *, centred: bool = False, split: Split | None = None) -> Aggregation:
    """Signs of the first left singular vector of labels as +1 and -1, items x annotators.

    Ghosh, Kale & McAfee (2011), "Who moderates the moderators?", https://doi.org/10.1145/1993574.1993599. The
    vector is turned so that most of the squared weight is that of annotators who count positively. Annotators who
    share few items with others fall out of the vector, and so do all items that they alone labelled.

    Args:
        data: classes.
        centred: each annotator's column less its mean over all items, which forgives a bias to one class: what
            Zhang, Chen, Zhou & Jordan (2016), "Spectral methods meet EM", report as KOS.
        split: of more classes than two. "thresholds": the first threshold between neighbouring grades that the item
            lies below is its grade (the default of grades); "rest": each class against all others, and the highest
            side wins (the default of other classes).

    Raises:
        MethodError: for labels that are no classes.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 50, {"hammer": 5, "adversary": 1}, seed=0)
        >>> found = crowdppl.baselines.ghosh(crowd.data)
        >>> round(crowdppl.evaluate(found, crowd.truth).accuracy, 2)
        0.93
        >>> bool(found.annotators()["weight"].loc["adversary-1"] < 0)
        True
    """

    def solve(signs: Any) -> tuple[np.ndarray, np.ndarray]:
        mean = np.asarray(signs.mean(0)).ravel() if centred else np.zeros(signs.shape[1])
        weight = _first(lambda v: signs.T @ (x := signs @ v - mean @ v) - mean * x.sum(), signs.shape[1])
        weight = weight if (weight[weight > 0] ** 2).sum() >= (weight[weight < 0] ** 2).sum() else -weight
        return signs @ weight - mean @ weight, weight

    return by_signs("ghosh", data, solve, split)


def eigenratio(data: Annotations, *, split: Split | None = None) -> Aggregation:
    """Votes weighted by the first eigenvector of agreement over that of who share items.

    Agreement of two annotators less disagreement, as a share of their common items, is the product of what they
    count (2 p - 1 of an annotator who is right with probability p), where they share items. Dalvi, Dasgupta, Kumar
    & Rastogi (2013), "Aggregating crowdsourced binary ratings", https://doi.org/10.1145/2488388.2488414.

    Args:
        data: classes.
        split: as of ``ghosh``.

    Raises:
        MethodError: for labels that are no classes.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 50, {"hammer": 5, "adversary": 1}, seed=0)
        >>> round(crowdppl.evaluate(crowdppl.baselines.eigenratio(crowd.data), crowd.truth).accuracy, 2)
        0.93
    """

    def solve(signs: Any) -> tuple[np.ndarray, np.ndarray]:
        shared = (abs(signs).T @ abs(signs)).tocsr()
        agreement = signs.T @ signs
        agreement = agreement.multiply(shared.power(-1)).tocsr()
        first, seen = (_first(x.__matmul__, x.shape[0]) for x in (agreement, shared.sign()))
        weight = np.divide(first, np.abs(seen), out=np.zeros(len(first)), where=np.abs(seen) > TOLERANCE)
        weight = weight if first.sum() >= 0 else -weight
        return signs @ weight, weight

    return by_signs("eigenratio", data, solve, split)


def kos(data: Annotations, *, iterations: int = 10, split: Split | None = None) -> Aggregation:
    """Messages between items and annotators that leave out what came from the receiver.

    An item tells each of its annotators the weighted vote of the others, and an annotator tells each item how far
    they agree on the other items. Karger, Oh & Shah (2011), "Iterative learning for reliable crowdsourcing
    systems", who start from random messages of mean 1; here all are 1, so that the first round is majority vote.

    Args:
        data: classes.
        iterations: rounds.
        split: as of ``ghosh``.

    Raises:
        MethodError: for labels that are no classes, or iterations that are no whole number above 0.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 50, {"hammer": 5, "adversary": 1}, seed=0)
        >>> round(crowdppl.evaluate(crowdppl.baselines.kos(crowd.data), crowd.truth).accuracy, 2)
        0.93
    """
    iterations = whole_number("iterations", iterations, 1, "10 are usual")

    def solve(signs: Any) -> tuple[np.ndarray, np.ndarray]:
        edges = signs.tocoo()
        item, annotator, sign = edges.row, edges.col, edges.data
        told = np.ones(len(sign))
        for _ in range(iterations):
            vote = sign * told
            vote = np.bincount(item, vote, signs.shape[0])[item] - vote
            agreed = sign * vote
            told = np.bincount(annotator, agreed, signs.shape[1])[annotator] - agreed
            told /= np.abs(told).max() or 1.0
        weight = np.bincount(annotator, agreed, signs.shape[1])
        return np.bincount(item, sign * told, signs.shape[0]), weight

    return by_signs("kos", data, solve, split)


def by_signs(
    name: str,
    data: Annotations,
    solve: Solve,
    split: str | None,
    probabilistic: bool = False,
    ran: Sequence[tuple[int, bool]] = (),
) -> Aggregation:
    """Solves for two classes, or for each threshold or class and puts these together.

    Of ``probabilistic`` methods a side is the probability that the item lies above the threshold, or is of
    the class. ``ran`` is filled while solving, with iterations and whether they ended by themselves.
    """
    from scipy.sparse import csr_array  # slow to import

    votes = class_votes(data, name)
    if split is not None:
        one_of("split", split, SPLITS, MethodError)
    k = data.n_classes
    split = split or ("thresholds" if k == 2 or data.space.ordered else "rest")
    sides, weights = [], []
    for code in range(k - 1 if split == "thresholds" else k):
        above = votes.answer > code if split == "thresholds" else votes.answer == code
        if above.all() or not above.any():  # nobody says otherwise
            sides.append(np.full(votes.n_items, float(above.all()) if probabilistic else 2.0 * above.all() - 1))
            continue
        value = np.where(above, 1.0, -1.0) * votes.share
        signs = csr_array((value, (votes.item, votes.annotator)), shape=(votes.n_items, votes.n_annotators))
        side, weight = solve(signs)
        sides.append(side)
        weights.append(weight)
    scores = _grades(np.stack(sides, 1), probabilistic) if split == "thresholds" else np.stack(sides, 1)
    weight = np.where(labelled(votes), np.mean(weights or [np.ones(votes.n_annotators)], 0), np.nan)
    out = placed(scores, votes, data)
    told = probabilistic and split == "thresholds"
    if told:
        out[np.setdiff1d(np.arange(data.n_items), votes.items)] = 1 / k
    iterations, converged = max((n for n, _ in ran), default=1), all(done for _, done in ran)
    return Aggregation(name, data, out, weight, iterations, converged, told)


def _grades(sides: np.ndarray, probabilistic: bool) -> np.ndarray:
    """Shares of grades (N, K): of the first threshold that the item lies below; on a threshold it is half below."""
    above = sides if probabilistic else (np.sign(sides) + 1) / 2
    first = np.cumprod(np.column_stack([np.ones(len(above)), above]), 1)
    return np.asarray(first * np.column_stack([1 - above, np.ones(len(above))]))


def _first(apply: Callable[[np.ndarray], np.ndarray], size: int) -> np.ndarray:
    """The eigenvector of the largest eigenvalue of a symmetric matrix, as a function, (size,)."""
    from scipy.sparse.linalg import LinearOperator, eigsh  # slow to import

    if size < 3:
        return np.asarray(np.linalg.eigh(np.column_stack([apply(row) for row in np.eye(size)]))[1][:, -1])
    operator: Any = LinearOperator((size, size), matvec=lambda v: apply(v.ravel()), dtype=np.float64)
    return np.asarray(eigsh(operator, 1, which="LA", v0=np.ones(size))[1][:, 0])
