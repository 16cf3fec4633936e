"""Errors that annotators share: on the same items, whoever makes them, and by pair, of numbers."""

from __future__ import annotations

import numpy as np

from crowdppl.criticism.design import MIN_SHARED, Design
from crowdppl.criticism.expected_agreement import NUMBERS_AT_ONCE, expected_by_model, independent, shares_more
from crowdppl.criticism.statistics import errors_of
from crowdppl.data.split import whole_units
from crowdppl.errors import DataError
from crowdppl.inference.result import Fit
from crowdppl.results.leave_one_out import standard_error


def pair_agreement(posterior: Fit) -> tuple[float, float, float, float]:
    """Share of pairs of labels of an item that are equal: observed, expected by mean tables and prevalence, by
    chance; and the standard error of observed less expected, by items, sequences or sets. DataError when there is
    no pair.
    """
    design, result = Design.of(posterior.data), posterior.result
    parts, step = [], max(1, NUMBERS_AT_ONCE // result.table[0].size)
    for one, other, _ in design.meetings():
        for a, b in zip(*(np.split(rows, range(step, len(rows), step)) for rows in (one, other)), strict=True):
            tables = result.table[design.annotator[a]], result.table[design.annotator[b]]
            expected = np.einsum("pkl,pkl,k->p", *tables, result.prevalence)
            parts.append((design.answer[a] == design.answer[b], expected, design.item[a]))
    equal, probable, item = (np.concatenate(x) for x in zip(*parts, strict=True))
    if not len(item):
        raise DataError("no item has labels of two annotators; have some items labelled twice")
    error = standard_error(equal - probable, whole_units(posterior.data)[posterior.data.order][item])
    share = np.bincount(design.answer) / len(design.answer)
    return float(equal.mean()), float(probable.mean()), float((share**2).sum()), error


JOINT_PAIRS = 500_000
"""Pairs of labels of one item from which joint errors are taken; with more, those of random items."""


def joint_errors(posterior: Fit, most: int = JOINT_PAIRS) -> tuple[float, float]:
    """Joint errors beyond those of independent annotators: the share of expected disagreements that are none.

    Whether two labels of an item agree is predicted from its other labels: by the fitted mean confusions, smooth
    ones by vb, or, where labels share more than the truth, by the model. About 0, or somewhat below, where labels
    are as the method says. Of more than ``most`` pairs of labels, those of random items are taken.

    Returns the share and its standard error, by items, sequences or sets. DataError when no item has two labels,
    MethodError where the model's plate is not that of items.
    """
    design = _some_items(Design.of(posterior.data, named=True), posterior.options.get("seed", 0), most)
    parts = [np.empty((2, 0))]
    if shares_more(posterior.model):
        probable = expected_by_model(posterior, design)
    else:
        probable = independent(posterior, design, even=0.0)
    agreed, total = 0, 0.0
    for one, other, _ in design.meetings():
        agree = probable(one, other)[0]
        total += float(agree.sum())
        same = design.answer[one] == design.answer[other]
        agreed += int(same.sum())
        parts.append(np.stack([same - agree.sum(0), design.item[one]]))
    excess, item = np.concatenate(parts, 1)
    if not len(item):
        raise DataError("no item has labels of two annotators; have some items labelled twice")
    differ = max(len(item) - total, 1e-9)
    unit = whole_units(posterior.data)[posterior.data.order]
    error = standard_error(excess, unit[item.astype(np.int64)]) * len(item)
    return (agreed - total) / differ, error / differ


def _some_items(design: Design, seed: int, most: int) -> Design:
    """The labels of items in random order, up to ``most`` pairs of labels of one item."""
    order = np.random.default_rng(seed).permutation(len(design.labels))
    pairs = np.cumsum((design.labels * (design.labels - 1) // 2)[order])
    kept = np.zeros(len(order), bool)
    kept[order[pairs - pairs[0] < most]] = True
    return design.on(kept)


def shared_errors(design: Design, known: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How errors of numbers correlate, by pair of annotators: keys (pairs,), correlations, p-values of more than 0.

    An annotator's errors are those beside a line, for gains and biases that two annotators share are no copies; of
    angles, those beside a bias.
    On an item, the product of two distances from the mean of the others, less the variance of this mean as the
    others' own scatter tells it, has the covariance of the two errors as its expectation, whatever the precisions
    are; its mean over items is taken for Student's t, one-sided, each pair alone. Pairs meet on ``MIN_SHARED``
    items with two others or more.
    With ``known`` truths (N,), NaN of other items, errors are those beside them, and pairs meet on these items.
    """
    from scipy.special import stdtr  # slow to import

    if known is None:
        error = errors_of(design, design.answer[None])[0]
    else:
        design = design.on(np.isfinite(known))
        error = design.space.error(design.answer, known[design.item])
    who, times = design.annotator, np.maximum(np.bincount(design.annotator), 1)
    level = (design.answer - error) * design.space.ordered
    error, level = (x - (np.bincount(who, x) / times)[who] for x in (error, level))
    squares = np.bincount(who, level**2)
    slope = np.divide(np.bincount(who, error * level), squares, out=np.zeros(len(squares)), where=squares > 0)
    error = error - slope[who] * level
    total, square = (np.bincount(design.item, x) for x in (error, error**2))
    parts = []
    for one, other, key in design.meetings():
        item = design.item[one]
        kept = design.labels[item] > (3 if known is None else 1)
        x, y, item, own = error[one[kept]], error[other[kept]], item[kept], np.zeros(int(kept.sum()))
        if known is None:
            n = design.labels[item] - 2
            mean = (total[item] - x - y) / n
            own = ((square[item] - x**2 - y**2) / n - mean**2) / (n - 1)
            x, y = x - mean, y - mean
        parts.append((key[kept], x * y - own, (x**2 + y**2) / 2 - own))
    key, product, variance = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    met, place, n = np.unique(key, return_inverse=True, return_counts=True)
    mean, of_square, spread = (np.bincount(place, x, len(met)) / n for x in (product, product**2, variance))
    enough = (n >= MIN_SHARED) & (spread > 0) & (of_square > mean**2)
    correlation, error_of_mean = (
        mean[enough] / spread[enough],
        np.sqrt((of_square - mean**2)[enough] / (n[enough] - 1)),
    )
    return met[enough], correlation, stdtr(n[enough] - 1, -mean[enough] / error_of_mean)


def among_all(p: np.ndarray) -> np.ndarray:
    """P-values, (pairs,), of each pair as one of all that were looked at (Bonferroni)."""
    found: np.ndarray = np.minimum(p * len(p), 1)
    return found
