"""Groups of annotators who err together, found from their labels alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from scipy.special import logsumexp
from scipy.stats import chi2

from crowdppl.agreement.coefficients import agreement_pairs
from crowdppl.core.validation import share_between, whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.errors import MethodError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_ANNOTATORS = 4000  # tables of annotator pairs are held whole, 128 MB each at this many
PAIRS = 1_000_000  # pairs of labels compared at a time
STEPS = 500  # of EM
CUTS = 64  # of a tree, at most
KAPPA = 0.9  # of copies, at least: of a rare class, most labels are equal by chance
ROUGH = 0.01  # nats to which the evidence of a cut is known


@dataclass(frozen=True)
class CodedLabels:
    """Labels as codes (S,); answers below ``n_classes`` are classes."""

    item: Ints
    annotator: Ints
    answer: Ints
    n_items: int
    n_annotators: int
    n_classes: int
    n_answers: int

    def take(self, rows: NDArray[Any]) -> CodedLabels:
        """Some of the labels, by position or mask."""
        return replace(self, item=self.item[rows], annotator=self.annotator[rows], answer=self.answer[rows])


@dataclass(frozen=True)
class Fitted:
    """Posterior of the truth (N, K), confusion (A, K, L), and the log-likelihood in nats."""

    truth: Floats
    confusion: Floats
    log_likelihood: float


def find_groups(
    data: Annotations, *, n_groups: int | None = None, alpha: float = 0.01, max_labels: int = 500_000
) -> Ints:
    """Finds annotators who make the same mistakes on the same items, without any known truth.

    1. Dawid-Skene is fitted by maximum likelihood. What it leaves, residuals onehot(label) - confusion[annotator,
       truth], is uncorrelated between annotators who are independent given the truth. All pairs' correlations,
       squared, add up to a chi-square (Satterthwaite's moments); with a p-value above ``alpha`` all stay alone.
    2. A tree of average linkage on the correlations is cut at up to 64 heights. At each, the model with groups is
       fitted, and costs K (K - 1) / 2 log(N) for each opinion table; the highest evidence wins (the BIC).
    3. A large group can pass its opinion off as the truth and look independent. So a second tree grows on residuals
       from annotators' own label frequencies, and its cuts compete alike. With two groups nothing tells whose
       opinion is the truth: members of one of them then count as alone.

    The same label of an item again by the same annotator counts once.

    Source: groups from cross-covariances, then Dawid-Skene with groups: Traganitis & Giannakis, in the ICASSP 2025
    tutorial of Ibrahim, Traganitis, Fu & Giannakis; BIC: Schwarz (1978), Annals of Statistics 6, 461. The test,
    the posterior residuals, the cut and the second tree are this package's.

    Args:
        data: the labels; gold and history are not looked at.
        n_groups: how many groups there are, those of one annotator included: the trees are then cut there, without
            a test. None finds their number.
        alpha: false alarms of the test, in (0, 1).
        max_labels: of more labels than this, those of every n-th item are used.

    Returns:
        (A,) int64, the group of each annotator in codebook order, numbered as they first appear.

    Raises:
        MethodError: more than 4000 annotators, or a setting out of range.
        DataError: for what is no annotations, or labels that are no classes.

    Examples:
        >>> crowdppl.find_groups(crowdppl.simulate_annotators([0, 1, 2] * 80, {"hammer": 3, "colluders": 1}).data)
        array([0, 0, 0, 1, 2, 3])
    """
    labels = coded(require_annotations(data))
    return find_in_codes(labels, n_groups=n_groups, alpha=alpha, max_labels=max_labels)


def alike(data: Annotations, agreement: float, items: int) -> Ints:
    """Groups (A,) of annotators whose labels are equal on most of many items (``primitives.copies``)."""
    agreement, items = share_between("agreement", agreement), whole_number("items", items, 1)
    pairs = agreement_pairs(data, weights="identity").reset_index()
    near = pairs[(pairs["items"] >= items) & (pairs["agreement"] > agreement) & (pairs["kappa"] > KAPPA)]
    one, other = (data.annotators.get_indexer(pd.Index(near[name])) for name in ("annotator", "other"))
    shape = (data.n_annotators, data.n_annotators)
    return np.asarray(connected_components(csr_matrix((np.ones(len(one)), (one, other)), shape), directed=False)[1])


def coded(data: Annotations) -> CodedLabels:
    """The labels of annotations as codes."""
    item, annotator, answer = (x.astype(np.int64) for x in data.label_codes())
    return CodedLabels(item, annotator, answer, data.n_items, data.n_annotators, len(data.classes), data.n_answers)


def find_in_codes(
    labels: CodedLabels, *, n_groups: int | None = None, alpha: float = 0.01, max_labels: int = 500_000
) -> Ints:
    """Finds groups as `find_groups` does, from plain codes in any order."""
    n = labels.n_annotators
    if n > MAX_ANNOTATORS:
        raise MethodError(f"groups are found among at most {MAX_ANNOTATORS} annotators, here are {n}: give groups=")
    alpha, max_labels = share_between("alpha", alpha), whole_number("max_labels", max_labels, 1)
    if n_groups is not None and whole_number("n_groups", n_groups, 1) > n:
        raise MethodError(f"n_groups={n_groups} is more than the {n} annotators; take at most as many")
    alone, step = np.arange(n), max(1, -(-len(labels.item) // max_labels))
    kept, item = np.unique(labels.item, return_inverse=True)
    labels = replace(labels, item=item // step, n_items=-(-len(kept) // step)).take(item % step == 0)
    labels = labels.take(np.lexsort((labels.answer, labels.annotator, labels.item)))
    columns = (labels.item, labels.annotator, labels.answer)  # one's own copies are no agreement
    labels = labels.take(np.any([np.diff(x, prepend=-1) != 0 for x in columns], 0))
    base = fit_groups(labels, alone)
    if n < 2 or (n_groups is None and independence(labels, base) > alpha):
        return alone
    counts = np.bincount(labels.annotator * labels.n_answers + labels.answer, minlength=n * labels.n_answers)
    chance = Fitted(np.ones((labels.n_items, 1)), _normalise(counts.reshape(n, 1, -1)), 0.0)
    cuts = np.unique(np.geomspace(1, n, CUTS).round()).astype(int) if n_groups is None else [n_groups]
    best, groups = base.log_likelihood if n_groups is None else -np.inf, alone
    for fit in (base, chance):
        for found in _groups_of_tree(_products(labels, fit), cuts):
            likelihood = fit_groups(labels, found, tolerance=ROUGH).log_likelihood
            score = likelihood - np.sum(np.bincount(found) > 1) * _penalty(labels)
            if score > best:
                best, groups = score, found
    return groups


def fit_groups(labels: CodedLabels, groups: Ints, tolerance: float = 1e-4) -> Fitted:
    """Maximum-likelihood Dawid-Skene in which groups (A,) of two and more have an opinion of their own."""
    use, item, parts = _bags(labels, groups)
    k, last = labels.n_classes, -np.inf
    add = csr_matrix((np.ones(len(item)), (item, np.arange(len(item)))), (labels.n_items, len(item)))
    votes = use @ np.tile(np.eye(labels.n_answers, k), (labels.n_annotators, 1))
    truth = _normalise(add @ votes + 1e-6)
    opinion = truth[item]
    for part in parts:
        opinion[part] = _normalise(votes[part] + opinion[part])
    links = [_normalise(truth[item[part]].T @ opinion[part]) for part in parts]
    for _ in range(STEPS):
        table = _normalise((use.T @ opinion).reshape(-1, labels.n_answers, k).swapaxes(1, 2))
        message = use @ np.log(table).swapaxes(1, 2).reshape(-1, k)
        top = message.max(1, keepdims=True)
        seen = np.exp(message - top)
        for part, link in zip(parts, links, strict=True):
            message[part] = np.log(seen[part] @ link.T) + top[part]
        joint = np.log(_normalise(truth.sum(0))) + add @ message
        evidence = logsumexp(joint, axis=1, keepdims=True)
        truth = np.exp(joint - evidence)
        now = float(evidence.sum())
        if now - last < tolerance:
            break
        last, opinion = now, truth[item]
        for j, part in enumerate(parts):
            ratio = opinion[part] / (seen[part] @ links[j].T)
            opinion[part] = seen[part] * (ratio @ links[j])
            links[j] = _normalise(links[j] * (ratio.T @ seen[part]))
    return Fitted(truth, table, now)


def _bags(labels: CodedLabels, groups: Ints) -> tuple[csr_matrix, Ints, list[slice]]:
    """A group's labels of an item, as counts (B, A * L); items (B,); where each group of two and more lies."""
    group = np.where(np.bincount(groups) > 1, np.arange(groups.max() + 1) + 1, 0)[groups]  # 0: all who are alone
    rows, bag = np.unique(group[labels.annotator] * labels.n_items + labels.item, return_inverse=True)
    ends = [np.searchsorted(rows, (g + np.arange(2)) * labels.n_items) for g in np.unique(group[group > 0])]
    cells = labels.annotator * labels.n_answers + labels.answer
    use = csr_matrix((np.ones(len(cells)), (bag, cells)), (len(rows), labels.n_annotators * labels.n_answers))
    return use, rows % labels.n_items, [slice(first, last) for first, last in ends]


def _normalise(counts: NDArray[Any]) -> Floats:
    """Shares along the last axis, none of them zero."""
    counts = np.maximum(counts, 1e-10)
    return np.asarray(counts / counts.sum(-1, keepdims=True))


def _penalty(labels: CodedLabels) -> float:
    """What a group's opinion table costs in nats."""
    return 0.5 * labels.n_classes * (labels.n_classes - 1) * float(np.log(labels.n_items))


def _products(labels: CodedLabels, fit: Fitted) -> Floats:
    """Posterior mean products of two annotators' residuals, summed over items: (A, A)."""
    total = np.zeros((labels.n_annotators, labels.n_annotators))
    for k in range(fit.truth.shape[1]):
        weight = np.sqrt(fit.truth[labels.item, k])
        for answer in range(labels.n_answers):
            left = weight * ((labels.answer == answer) - fit.confusion[labels.annotator, k, answer])
            residual = csr_matrix((left, (labels.item, labels.annotator)), (labels.n_items, len(total)))
            total += (residual.T @ residual).toarray()
    return total


def _lengths(products: Floats) -> Floats:
    """Square roots of the diagonal, (A,)."""
    return np.asarray(np.sqrt(np.maximum(np.diag(products), 1e-12)))


def _pairs(labels: CodedLabels) -> Iterator[tuple[Ints, Ints]]:
    """Positions of all pairs of labels of one item by two annotators, a chunk at a time."""
    starts = np.searchsorted(labels.item, np.arange(labels.n_items + 1))
    sizes = np.diff(starts)
    for size in np.unique(sizes[sizes > 1]):
        first, second = np.triu_indices(size, 1)
        bags = starts[:-1][sizes == size, None]
        step = max(1, PAIRS // len(first))
        for chunk in range(0, len(bags), step):
            p, q = ((bags[chunk : chunk + step] + x).ravel() for x in (first, second))
            apart = labels.annotator[p] != labels.annotator[q]
            yield p[apart], q[apart]


def independence(labels: CodedLabels, fit: Fitted) -> float:
    """Tests that annotators are independent given the truth: the p-value of their residual correlations.

    Under independence the products of an item have mean zero, so that a pair's squared sum has the mean of its sum
    of squares v and a variance near 2 v**2, and different pairs are uncorrelated. Labels are sorted by item.
    """
    n, table, length = labels.n_annotators, fit.confusion, _lengths(_products(labels, fit))
    sums = np.zeros((3, n * n))
    for p, q in _pairs(labels):
        a, b, here = labels.annotator[p], labels.annotator[q], np.arange(len(p))
        of_a, of_b, x, y = table[a], table[b], labels.answer[p], labels.answer[q]
        product = (x == y)[:, None] - of_a[here, :, y] - of_b[here, :, x] + (of_a * of_b).sum(-1)
        value = (fit.truth[labels.item[p]] * product).sum(1) / (length[a] * length[b])
        for row, weight in zip(sums, (value, value**2, np.ones(len(p))), strict=True):
            row += np.bincount(np.minimum(a, b) * n + np.maximum(a, b), weight, n * n)
    score, square, _ = sums[:, sums[2] > 1]  # a pair that met once has no variance to be judged by
    scale = square.sum() / max((square**2).sum(), 1e-300)
    return float(chi2.sf((score**2).sum() * scale, square.sum() * scale)) if scale > 0 else 1.0


def _groups_of_tree(products: Floats, cuts: Iterable[int]) -> Iterator[Ints]:
    """Cuts the tree of average linkage at these numbers of groups: the groups (A,) of each."""
    length = _lengths(products)
    distance = np.maximum(1 - products / np.outer(length, length), 0)  # rounding may exceed a correlation of one
    tree = linkage(squareform(distance, checks=False), "average")
    return (_as_they_appear(cut_tree(tree, n)[:, 0]) for n in cuts)


def _as_they_appear(groups: Ints) -> Ints:
    """Groups (A,) numbered from 0 as they first appear."""
    _, first, code = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[code])
