"""Groups of annotators who err together, found from their labels alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_matrix
from scipy.spatial.distance import squareform
from scipy.stats import chi2

from crowdppl.errors import MethodError
from crowdppl.grouped import Coded, Fitted, fit_groups, gain_of_group

if TYPE_CHECKING:
    from crowdppl.annotations import Annotations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_ANNOTATORS = 4000
"""Tables of annotator pairs are held whole: 128 MB each at this many annotators."""

PAIRS = 1_000_000
"""Pairs of labels compared at a time."""


def find_groups(data: Annotations, *, alpha: float = 0.01, max_labels: int = 500_000) -> Ints:
    """Finds annotators who make the same mistakes on the same items, without any known truth.

    1. Dawid-Skene is fitted by maximum likelihood. What it leaves of a label, the residual
       ``onehot(label) - confusion[annotator, truth]``, is uncorrelated between annotators who are independent
       given the truth; its posterior mean product is the score of the pair's agreement. The squared correlations
       of all pairs are added up and compared with their sum under independence (a chi-square of Satterthwaite's
       mean and variance). Above ``alpha`` every annotator stays alone.
    2. Annotators are joined by average linkage on the residual correlation, the cosine of their residuals. One
       height cuts the tree, which gives the number of groups: the height where the log-likelihood that groups
       gain over independent members, given Dawid-Skene's posterior of the truth, less K (K - 1) / 2 log(N) for a
       group's opinion table (the BIC), adds up highest.
    3. A large group can pass its opinion off as the truth, and then its members look independent. So a second
       tree is grown on residuals from each annotator's own label frequencies, and cut in the same way. Of these
       two and of no groups, the one with the highest BIC of a full fit is returned.

    Source: group-aware Dawid-Skene with groups from cross-covariances (Traganitis & Giannakis, in the ICASSP 2025
    tutorial of Ibrahim, Traganitis, Fu & Giannakis); BIC: Schwarz (1978), Annals of Statistics 6. The test, the
    posterior residuals, the cut and the second tree are this package's.

    Args:
        data: the labels; gold is not looked at.
        alpha: false alarms of the test, in (0, 1).
        max_labels: of more labels than this, those of every n-th item are used.

    Returns:
        (A,) int64, the group of each annotator in the order of the codebook, counted from 0 in order of first
        appearance. An annotator alone is a group of one.

    Raises:
        MethodError: more than 4000 annotators, or settings out of range.
    """
    item, cell = [], []
    for block in data.blocks:
        item.append((block.item + block.offset).cpu().numpy())
        cell.append((block.annotator * block.n_answers + block.answer).cpu().numpy())
    items = np.asarray(data.order, dtype=np.int64)[np.concatenate(item)]
    annotator, answer = np.divmod(np.concatenate(cell), data.n_answers)
    sizes = (data.n_items, data.n_annotators, data.n_classes, data.n_answers)
    return find_codes(items, annotator, answer, *sizes, alpha=alpha, max_labels=max_labels)


def find_codes(
    item: Ints,
    annotator: Ints,
    answer: Ints,
    n_items: int,
    n_annotators: int,
    n_classes: int,
    n_answers: int,
    *,
    alpha: float = 0.01,
    max_labels: int = 500_000,
) -> Ints:
    """Finds groups as `find_groups` does, from plain codes (S,) of items, annotators and answers."""
    _check(n_annotators, alpha, max_labels)
    step = -(-len(item) // max_labels)
    used = item % max(step, 1) == 0
    labels = Coded.sort(item[used], annotator[used], answer[used], n_items, n_annotators, n_classes, n_answers)
    alone = np.arange(n_annotators)
    if n_annotators < 2 or len(labels.item) == 0:
        return alone
    base = fit_groups(labels, alone)
    if independence(labels, base) > alpha:
        return alone
    frequencies = labels.incidence(alone).T @ np.ones((labels.n_items, 1))
    chance = Fitted.of_counts(np.ones((labels.n_items, 1)), frequencies.reshape(n_annotators, -1, 1), 0.0)
    best, groups = base.log_likelihood, alone
    for residual in (base, chance):
        found = _cut(labels, base, _correlation(labels, residual))
        score = fit_groups(labels, found).log_likelihood - np.sum(np.bincount(found) > 1) * _penalty(labels)
        if score > best:
            best, groups = score, found
    return groups


def _check(n_annotators: int, alpha: float, max_labels: int) -> None:
    """Refuses what cannot be computed."""
    if n_annotators > MAX_ANNOTATORS:
        raise MethodError(
            f"finding groups compares all pairs of annotators and stops at {MAX_ANNOTATORS}, here are "
            f"{n_annotators}: give groups=, or leave out annotators with few labels"
        )
    if not 0 < alpha < 1:
        raise MethodError(f"alpha={alpha} is no probability: take a number between 0 and 1, such as 0.01")
    if max_labels < 1:
        raise MethodError(f"max_labels={max_labels} leaves no labels: take at least 1")


def _penalty(labels: Coded) -> float:
    """What a group's opinion table costs in nats."""
    return 0.5 * labels.n_classes * (labels.n_classes - 1) * float(np.log(labels.n_items))


def _products(labels: Coded, fit: Fitted) -> Floats:
    """Posterior mean products of two annotators' residuals, summed over their items: (A, A)."""
    total = np.zeros((labels.n_annotators, labels.n_annotators))
    shape = (labels.n_items, labels.n_annotators)
    for k in range(fit.truth.shape[1]):
        weight = np.sqrt(fit.truth[labels.item, k])
        for answer in range(labels.n_answers):
            left = (labels.answer == answer) - fit.confusion[labels.annotator, k, answer]
            residual = csr_matrix((weight * left, (labels.item, labels.annotator)), shape)
            total += (residual.T @ residual).toarray()
    return total


def _correlation(labels: Coded, fit: Fitted) -> Floats:
    """Cosines of the annotators' residuals, absent labels counting as zero: (A, A), the diagonal 1."""
    products = _products(labels, fit)
    length = np.sqrt(np.maximum(np.diag(products), 1e-12))
    cosine: Floats = products / np.outer(length, length)
    np.fill_diagonal(cosine, 1.0)
    return cosine


def _pairs(labels: Coded) -> Iterator[tuple[Ints, Ints]]:
    """Positions of all pairs of labels on one item by different annotators, a chunk at a time."""
    starts = np.searchsorted(labels.item, np.arange(labels.n_items + 1))
    sizes = np.diff(starts)
    for size in np.unique(sizes[sizes > 1]):
        first, second = np.triu_indices(size, 1)
        bags = starts[:-1][sizes == size]
        step = max(1, PAIRS // len(first))
        for chunk in range(0, len(bags), step):
            start = bags[chunk : chunk + step, None]
            p, q = (start + first).ravel(), (start + second).ravel()
            apart = labels.annotator[p] != labels.annotator[q]
            yield p[apart], q[apart]


def independence(labels: Coded, fit: Fitted) -> float:
    """Tests that annotators are independent given the truth: the p-value of their residual correlations.

    Each item's products have mean zero under independence, so a pair's squared sum has the mean of its sum of
    squares, v, and a variance near 2 v**2; different pairs are uncorrelated.
    """
    n, table = labels.n_annotators, fit.confusion
    length = np.sqrt(np.maximum(np.diag(_products(labels, fit)), 1e-12))
    score, square, shared = np.zeros(n * n), np.zeros(n * n), np.zeros(n * n)
    for p, q in _pairs(labels):
        a, b, x, y = labels.annotator[p], labels.annotator[q], labels.answer[p], labels.answer[q]
        rows = table[a], table[b]
        here = np.arange(len(p))
        product = (x == y)[:, None] - rows[0][here, :, y] - rows[1][here, :, x] + (rows[0] * rows[1]).sum(-1)
        value = (fit.truth[labels.item[p]] * product).sum(1) / (length[a] * length[b])
        pair = np.minimum(a, b) * n + np.maximum(a, b)
        score += np.bincount(pair, value, n * n)
        square += np.bincount(pair, value**2, n * n)
        shared += np.bincount(pair, minlength=n * n)
    several = shared > 1  # a pair that met once has its square for its own variance and says nothing
    mean, variance = square[several].sum(), 2 * (square[several] ** 2).sum()
    if variance == 0:
        return 1.0
    scale = 2 * mean / variance
    return float(chi2.sf((score[several] ** 2).sum() * scale, mean * scale))


def _cut(labels: Coded, base: Fitted, correlation: Floats) -> Ints:
    """Cuts the tree of average linkage where the groups' gains add up highest; the groups (A,)."""
    n = labels.n_annotators
    tree = linkage(squareform(1 - correlation, checks=False), "average")
    members = {a: np.array([a]) for a in range(n)}
    gains = dict.fromkeys(range(n), 0.0)
    groups = np.arange(n)
    best, total, kept = 0.0, 0.0, groups.copy()
    for step, (left, right) in enumerate(tree[:, :2].astype(int)):
        joined = np.concatenate([members.pop(left), members.pop(right)])
        members[n + step] = joined
        gains[n + step] = gain_of_group(labels, np.sort(joined), base) - _penalty(labels)
        total += gains[n + step] - gains[left] - gains[right]
        groups[joined] = joined.min()
        if total > best:
            best, kept = total, groups.copy()
    _, first, code = np.unique(kept, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[code]
