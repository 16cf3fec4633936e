"""Belief propagation between items and annotators who have one accuracy each."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdppl.baselines.aggregation import Aggregation
from crowdppl.baselines.signs import Split, by_signs
from crowdppl.core.validation import number_within, whole_number
from crowdppl.data.annotations import Annotations

NODES = 3
"""Of the quadrature over an accuracy, so many times the root of an annotator's labels: errors are below 1e-12."""
MAX_CELLS = 4_000_000
"""Labels times nodes that are held at once."""
TOLERANCE = 1e-6


def message_passing(
    data: Annotations,
    *,
    right: float = 2.0,
    wrong: float = 1.0,
    max_iterations: int = 100,
    split: Split | None = None,
) -> Aggregation:
    """Belief propagation for two classes: marginals of items where annotators have one accuracy each.

    The accuracy of an annotator, with a Beta prior, is integrated out; an item and an annotator exchange the odds
    of the item's class, less what came from the receiver. Liu, Peng & Ihler (2012), "Variational inference for
    crowdsourcing". The marginals are probabilities, of a loopy graph: exact where no two annotators share two
    items, else too sure. Of more classes, grades have those of thresholds; of one class against the rest, none.

    Args:
        data: classes.
        right, wrong: pseudo-counts of the Beta prior.
        max_iterations: rounds, at most, until no message moves by 1e-6.
        split: as of ``ghosh``.

    Raises:
        MethodError: for labels that are no classes, or a prior that is not positive.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 50, {"hammer": 5, "adversary": 1}, seed=0)
        >>> found = crowdppl.baselines.message_passing(crowd.data)
        >>> found.probabilities().shape
        (100, 2)
    """
    for name, value in (("right", right), ("wrong", wrong)):
        number_within(name, value, "a number above 0", lambda x: x > 0)
    most = whole_number("max_iterations", max_iterations, 1, "100 are usual")
    ran: list[tuple[int, bool]] = []

    def solve(signs: Any) -> tuple[np.ndarray, np.ndarray]:
        edges = signs.tocsc().tocoo()  # by annotator
        item, annotator, sign = edges.row, edges.col, np.sign(edges.data)
        told, weight, n, moved = np.zeros(len(sign)), np.zeros(signs.shape[1]), 0, True
        while moved and n < most:
            vote = np.bincount(item, sign * told, signs.shape[0])[item] - sign * told
            before, (told, weight), n = told, _replies(annotator, sign * vote, right, wrong, signs.shape[1]), n + 1
            moved = bool(np.abs(told - before).max() > TOLERANCE)
        ran.append((n, not moved))
        return 1 / (1 + np.exp(-np.bincount(item, sign * told, signs.shape[0]))), weight

    return by_signs("message_passing", data, solve, split, probabilistic=True, ran=ran)


def _replies(
    annotator: np.ndarray, odds: np.ndarray, right: float, wrong: float, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds that each label is right by all other labels of its annotator, (S,), and mean accuracies, (size,).

    ``odds`` are the log-odds that labels are right, (S,), sorted by annotator.
    """
    from scipy.special import expit, roots_jacobi  # slow to import

    count = np.bincount(annotator, minlength=size)
    nodes = min(int(count.max()) // 2 + 2, int(NODES * np.sqrt(count.max())) + 8)  # the first is exact
    node, weight = roots_jacobi(nodes, wrong - 1, right - 1)
    q, log_weight, x = (1 + node) / 2, np.log(weight), expit(odds)
    ends, rows_at_once = np.cumsum(count), max(1, MAX_CELLS // nodes)
    out, accuracy, begun = np.empty(len(odds)), np.full(size, right / (right + wrong)), 0
    while begun < size:
        first = ends[begun] - count[begun]
        last = max(begun + 1, int(np.searchsorted(ends, first + rows_at_once, "right")))
        rows, own = slice(first, ends[last - 1]), count[begun:last]
        who = np.flatnonzero(own)
        if len(who):
            log = np.log(np.outer(x[rows], q) + np.outer(1 - x[rows], 1 - q))
            total = np.add.reduceat(log, np.cumsum(own[who]) - own[who]) + log_weight
            out[rows] = _ratio(np.repeat(total, own[who], axis=0) - log, q)
            accuracy[begun + who] = expit(_ratio(total, q))
        begun = last
    return out, accuracy


def _ratio(log: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Log-odds of the mean of accuracies ``q`` under weights whose logarithms are given, (rows,)."""
    share = np.exp(log - log.max(1, keepdims=True))
    return np.asarray(np.log(share @ q) - np.log(share @ (1 - q)))
