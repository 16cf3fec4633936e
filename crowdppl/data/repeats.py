"""Labels of an item that an annotator repeats: left out, or weighed by a correlation that is learned from them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from crowdppl.data.blocks import Block
from crowdppl.data.coded import Coded, count_repeats
from crowdppl.data.ids import Codebook, Place, native
from crowdppl.data.kinds.space import RealLine
from crowdppl.data.times import column_of_times, one_of_each
from crowdppl.errors import CrowdpplWarning, DataError, RepeatsWarning

LEARNED, ROUNDS, SETTLED = 100_000, 100, 1e-4
"""Labels from which the correlation is learned, at most; rounds, at most, and the largest change after the last."""
MOST_CLASSES = 100
"""Classes up to which confusions are learned on the way."""


class Repeats(NamedTuple):
    """What is made of labels that repeat an annotator's label of an item.

    Attributes:
        kept: rows that stay, None for all.
        correlation: of an annotator's labels of an item, given its truth; 0 where each counts.
        warnings: one that counts them, if there are any.
    """

    kept: np.ndarray | None = None
    correlation: float = 0.0
    warnings: Sequence[CrowdpplWarning] = ()


def treated_repeats(
    coded: Coded,
    blocks: Sequence[Block],
    place: Place,
    repeats: str,
    covariates: pd.DataFrame | None,
    numbers: np.ndarray | None,
    known: np.ndarray | None,
    columns: pd.DataFrame | None = None,
    time: Hashable | None = None,
) -> Repeats:
    """Treats labels of an item that an annotator repeats as ``repeats`` says; ``known`` are truths, (N,).

    The first or last is so by the column ``time``.
    """
    if time is not None:
        column_of_times(columns, time)
    extra = count_repeats(blocks)
    if not extra:
        return Repeats()
    if repeats == "error":
        _refuse_repeat(coded.item, coded.annotator, (coded.items, coded.annotators), place)
    keys = pd.DataFrame({"item": coded.item, "annotator": coded.annotator})
    if repeats in ("keep", "share"):
        if covariates is not None:
            own = covariates.set_axis(range(covariates.shape[1]), axis=1).reset_index(drop=True)
            keys = pd.concat([keys, own], axis=1)
            extra = int(keys.duplicated().sum())
        learns = repeats == "share" and extra and coded.answer is not None
        correlation = learned_correlation(coded, keys, numbers, known) if learns else 0.0
        parts = coded.alphabet.kind.parts
        ranks = parts is not None and parts.ranks
        usual = repeats == "keep" and ranks and parts is not None and parts.shared  # judges see pairs again
        silent = coded.answer is None or not extra or usual
        told = [] if silent else [_warning(extra, len(keys), "ranks" if ranks else repeats, correlation)]
        return Repeats(None, correlation, told)
    told = [] if coded.answer is None else [_warning(extra, len(keys), repeats, 0.0)]
    pair, turn = coded.item.astype(np.int64) * len(coded.annotators) + coded.annotator, np.arange(len(coded.item))
    if repeats != "one":
        return Repeats(one_of_each(pair, repeats, columns, time, place), 0.0, told)
    rank = turn if coded.answer is None and numbers is None else _unusual(coded, pair, numbers)
    order = np.lexsort((turn, rank, pair))
    return Repeats(np.sort(order[np.diff(pair[order], prepend=-1) > 0]), 0.0, told)


def _unusual(coded: Coded, pair: np.ndarray, numbers: np.ndarray | None) -> np.ndarray:
    """How little each label is like all that its annotator gave to its item, (S,)."""
    group = np.unique(pair, return_inverse=True)[1]
    if numbers is None:
        assert coded.answer is not None
        same = np.unique(group * len(coded.alphabet.book) + coded.answer, return_inverse=True)[1]
        return -np.bincount(same)[same]
    space = coded.alphabet.kind.space
    assert isinstance(space, RealLine)
    points, n_labels = space.coordinates(numbers), np.bincount(group)
    means = np.stack([np.bincount(group, x) / n_labels for x in points.T], 1)
    return np.asarray(((points - means[group]) ** 2).sum(1))


def learned_correlation(
    coded: Coded, keys: pd.DataFrame, numbers: np.ndarray | None, known: np.ndarray | None
) -> float:
    """The correlation of an annotator's labels of one item, given its truth, as repeats show it.

    By moments: two labels agree more often than the annotator's confusions let two independent ones agree, or
    differ by less than twice the variance of the annotator's errors, averaged over what all labels say of truths.
    Truths and annotators are found by expectation maximisation, in which repeats share a vote by the correlation
    so far. A prior of one pair of labels that are the same and one that are not holds it in the middle where
    repeats are few.
    """
    points: np.ndarray | None = None
    if numbers is None:
        named = coded.answer < coded.alphabet.n_classes if coded.answer is not None else None
        if coded.alphabet.n_classes > MOST_CLASSES:
            raise DataError(
                f"repeats='share' learns from confusions of {MOST_CLASSES} classes at most, and there are "
                f"{coded.alphabet.n_classes}; use repeats='one'"
            )
    else:
        space = coded.alphabet.kind.space
        assert isinstance(space, RealLine)
        points, named = space.coordinates(numbers), np.ones(len(numbers), bool)
        points = (points - points.mean(0)) / max(1e-300, points.std(0).max())
    assert named is not None and coded.answer is not None
    group = keys.groupby(list(keys), sort=False).ngroup().to_numpy()
    times = np.bincount(group, named)[group]
    if not (named & (times > 1)).any():
        return 0.0
    asked = pd.Series(times > 1).groupby(coded.item).transform("max").to_numpy()  # items with repeats come first
    turn = np.random.default_rng(0).permutation(len(coded.items))[coded.item]
    chosen = np.lexsort((turn, ~asked, ~named))[: min(LEARNED, int(named.sum()))]
    items, item = np.unique(coded.item[chosen], return_inverse=True)
    _, annotator = np.unique(coded.annotator[chosen], return_inverse=True)
    _, group = np.unique(group[chosen], return_inverse=True)
    truth = None if known is None else known[items]
    labels = _Labels(item, annotator, group)
    if points is None:
        return _of_classes(labels, coded.answer[chosen], coded.alphabet.n_classes, truth)
    return _of_points(labels, points[chosen])


@dataclass(frozen=True)
class _Labels:
    """Codes (S,) of the item and annotator of labels, and of the labels that repeat one another."""

    item: np.ndarray
    annotator: np.ndarray
    group: np.ndarray

    def weights(self, correlation: float) -> np.ndarray:
        """By how much each label counts, as of ``Block.weights``."""
        times = np.bincount(self.group)[self.group]
        return np.asarray(1 / (1 + (times - 1) * correlation))

    def repeated(self) -> tuple[np.ndarray, np.ndarray]:
        """Groups of several labels, and how many pairs of labels each has."""
        times = np.bincount(self.group)
        several = np.flatnonzero(times > 1)
        return several, times[several] * (times[several] - 1) / 2

    def of_groups(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Item and annotator of groups."""
        first = np.unique(self.group, return_index=True)[1][groups]
        return self.item[first], self.annotator[first]


def _share(beyond: np.ndarray, missing: np.ndarray) -> float:
    """What part of all that could be alike is so beyond chance, over pairs of labels, from 0 to 1."""
    return float(np.clip((beyond.sum() + 1) / (missing.sum() + 2), 0, 1))


def _of_classes(labels: _Labels, answer: np.ndarray, k: int, known: np.ndarray | None) -> float:
    """The correlation of labels that are classes, by Dawid and Skene's model."""
    item, annotator, n, a = labels.item, labels.annotator, labels.item.max() + 1, labels.annotator.max() + 1
    groups, pairs = labels.repeated()
    of_item, of_annotator = labels.of_groups(groups)
    counts = np.bincount(labels.group * k + answer, minlength=(labels.group.max() + 1) * k).reshape(-1, k)[groups]
    same = (counts * (counts - 1) / 2).sum(1)
    correlation, weight = 1.0, labels.weights(1.0)
    truth = np.bincount(item * k + answer, weight, n * k).reshape(n, k) + 1 / k
    for _ in range(ROUNDS):
        truth = truth / truth.sum(1, keepdims=True)
        if known is not None:
            truth[known >= 0] = np.eye(k)[known[known >= 0]]
        share, log_p, expected = truth.sum(0) + 1, np.empty((n, k)), np.zeros(len(groups))
        own = weight[np.unique(labels.group, return_index=True)[1]][groups, None] * counts
        for z in range(k):
            table = np.bincount(annotator * k + answer, weight * truth[item, z], a * k).reshape(a, k)
            pooled = table.sum(0) + 1 / k
            pooled = pooled / pooled.sum()
            rest = table[of_annotator] - own * truth[of_item, z, None] + k * pooled  # of other items
            rest /= rest.sum(1, keepdims=True)
            expected += truth[of_item, z] * (rest**2).sum(1)
            table = table + k * pooled
            log_table = np.log(table / table.sum(1, keepdims=True))
            log_p[:, z] = np.log(share[z]) + np.bincount(item, weight * log_table[annotator, answer], n)
        before = correlation, truth
        correlation = _share(same - pairs * expected, pairs * (1 - expected))
        weight, truth = labels.weights(correlation), np.exp(log_p - log_p.max(1, keepdims=True))
        moved = np.abs(truth / truth.sum(1, keepdims=True) - before[1]).max()
        if max(moved, abs(correlation - before[0])) < SETTLED:
            break
    return correlation


def _of_points(labels: _Labels, points: np.ndarray) -> float:
    """The correlation of labels that are numbers, as points (S, D), by Gaussian errors around a bias."""
    item, annotator, n, a = labels.item, labels.annotator, labels.item.max() + 1, labels.annotator.max() + 1
    groups, pairs = labels.repeated()
    of_annotator = labels.of_groups(groups)[1]
    times = np.bincount(labels.group)

    def sums(code: np.ndarray, x: np.ndarray, size: int) -> np.ndarray:
        return np.stack([np.bincount(code, column, size) for column in x.T], 1)

    apart = (times * sums(labels.group, points**2, len(times)).T).T - sums(labels.group, points, len(times)) ** 2
    differ = apart.sum(1)[groups] / points.shape[1] / 2  # half squares of differences, over all pairs
    correlation, bias, precision = 1.0, np.zeros((a, points.shape[1])), np.ones(a)
    for _ in range(ROUNDS):
        weight = labels.weights(correlation)
        each = weight * precision[annotator]
        told = np.bincount(item, each, n) + 1  # one more, of the prior
        truth = sums(item, each[:, None] * (points - bias[annotator]), n) / told[:, None]
        off, given = points - truth[item], np.bincount(annotator, weight, a)
        bias = sums(annotator, weight[:, None] * off, a) / (given[:, None] + 1)
        square = ((off - bias[annotator]) ** 2).mean(1) + 1 / told[item]
        usual = np.average(square, weights=weight)
        precision = (given + 1) / (np.bincount(annotator, weight * square, a) + max(usual, 1e-300))
        before, correlation = correlation, _share(pairs - differ * precision[of_annotator], pairs)
        if abs(correlation - before) < SETTLED:
            break
    return correlation


def _refuse_repeat(item: np.ndarray, annotator: np.ndarray, books: tuple[Codebook, Codebook], place: Place) -> None:
    """Raises on the first pair of item and annotator, codes (S,), that is repeated, with both rows."""
    _, first, inverse = np.unique(item.astype(np.int64) * len(books[1]) + annotator, True, True)
    row = int(np.argmax(first[inverse] != np.arange(len(item))))
    names = [native(book.ids[code[row]]) for book, code in zip(books, (item, annotator), strict=True)]
    raise DataError(
        f"annotator {names[1]!r} labels item {names[0]!r} at {place(int(first[inverse[row]]))} and again at "
        f"{place(row)}; correct one, or use repeats='keep', 'share', 'one', 'first' or 'last'"
    )


def _warning(extra: int, n_labels: int, repeats: str, correlation: float) -> RepeatsWarning:
    """What to say of ``extra`` labels beyond the first of each pair of item and annotator."""
    done = {
        "ranks": "each ranking counts as if another annotator gave it; say repeats='first' or repeats='last' where "
        "one is to count",
        "keep": "each counts as if another annotator gave it, and probabilities get too sure where one repeats an "
        "error: take repeats='share', by which repeats count for less the more they are alike, or repeats='first' "
        "where rows were copied; if different items share an id, as sentences of several documents do, give each "
        "its own",
        "share": f"given its truth, they have a correlation of {correlation:.2f}, as they show themselves, so that "
        f"two count as {2 / (1 + correlation):.2f} and five as {5 / (1 + 4 * correlation):.2f}",
        "one": "only the usual one of each counts",
    }.get(repeats, f"only the {repeats} of each counts")
    said = "keep" if repeats == "ranks" else repeats
    return RepeatsWarning(
        f"{extra} of {n_labels} labels repeat an annotator's label of the same item; {done} (repeats={said!r})"
    )
