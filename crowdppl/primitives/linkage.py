"""Linkage: clusters of objects, of any number and size, from pairs of them that are the same or not."""

from __future__ import annotations

import heapq

import numpy as np

from crowdppl.core.collective import all_gathered, reduced
from crowdppl.data.blocks import Block
from crowdppl.primitives import plates
from crowdppl.primitives.likelihood import item_groups

SIDES = ("left", "right")
PRIOR, SHARE = 4.0, 0.75
"""Pseudo-counts of a confusion row, and the share of them on the correct answer, as of ``confusion_prior``."""
STEPS, CLOSE = 100, 1e-4
"""Of Dawid-Skene before pairs are joined: steps at most, and by how much a probability may still move."""


def pairs_of(data: Block) -> tuple[np.ndarray, np.ndarray, int]:
    """The codes of both objects of each pair, (N,) each, and the number of objects."""
    left, right = item_groups(data, *SIDES).cpu().numpy().T
    return left, right, plates.groups(data, *SIDES).size


def votes_of_pairs(data: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """The codes of both objects of each pair, how many labels it has and how many say "same", and the objects.

    Of processes that share a fit, they are the pairs of all.

    Returns:
        Four arrays (N,), and the number of objects.
    """
    left, right, n = pairs_of(data)
    pair, same = (x[data.named].cpu().numpy() for x in (data.item, data.answer))
    own = left, right, np.bincount(pair, minlength=data.n_items), np.bincount(pair, same, data.n_items)
    one, other, number, yes = map(np.concatenate, zip(*all_gathered(own), strict=True))
    return one, other, number, yes, n


def linkage(left: np.ndarray, right: np.ndarray, weight: np.ndarray, n_objects: int) -> np.ndarray:
    """Clusters of objects by weights of pairs: the two whose sum is largest are joined, while it is above 0.

    Greedy additive edge contraction (Keuper et al. 2015, Efficient decomposition of image and mesh graphs by lifted
    multicuts, ICCV) for correlation clustering (Bansal, Blum & Chawla 2004, Machine Learning 56).

    Args:
        left, right: codes of the objects of each pair, (N,).
        weight: log-odds that they are the same, (N,).
        n_objects: O.

    Returns:
        int64 (O,), numbers of clusters from 0, in the order of their first objects.

    Examples:
        >>> import numpy as np
        >>> left, right = np.array([0, 1, 0]), np.array([1, 2, 2])
        >>> crowdppl.primitives.linkage(left, right, np.array([2.0, 1.0, -1.5]), 4)
        array([0, 0, 1, 2])
    """
    near: list[dict[int, float]] = [{} for _ in range(n_objects)]
    for one, other, x in zip(left.tolist(), right.tolist(), weight.tolist(), strict=True):
        near[one][other] = near[other][one] = near[one].get(other, 0.0) + x
    heap = [(-x, one, other) for one, row in enumerate(near) for other, x in row.items() if one < other and x > 0]
    heapq.heapify(heap)
    into = np.arange(n_objects)
    while heap:
        least, one, other = heapq.heappop(heap)
        if near[one].get(other) != -least:  # one of them was joined with a third
            continue
        one, other = (one, other) if len(near[one]) >= len(near[other]) else (other, one)
        into[other] = one
        moved, near[other] = near[other], {}
        del near[one][other]
        for third, x in moved.items():
            if third == one:
                continue
            del near[third][other]
            near[one][third] = near[third][one] = total = near[one].get(third, 0.0) + x
            if total > 0:
                heapq.heappush(heap, (-total, min(one, third), max(one, third)))
    while (into != into[into]).any():
        into = into[into]
    _, first, code = np.unique(into, return_index=True, return_inverse=True)
    order = _first_objects(code, len(first)).argsort()
    return np.asarray(order.argsort()[code])


def _first_objects(code: np.ndarray, n: int) -> np.ndarray:
    """The first object of each of n clusters."""
    first = np.full(n, len(code))
    np.minimum.at(first, code, np.arange(len(code)))
    return first


def log_evidence(data: Block, cluster: np.ndarray) -> float:
    """Log-probability of votes on pairs and of clusters, a number.

    All annotators are right alike, with a flat prior on how often, and the sizes of clusters come from the most
    suitable of Ewens' distributions (1972, The sampling theory of selectively neutral alleles, Theoretical
    Population Biology 3).

    Args:
        data: labels of pairs.
        cluster: the cluster of each object, (O,).
    """
    from scipy.special import betaln, gammaln  # slow to import

    left, right, n = pairs_of(data)
    pair, same = (x[data.named].cpu().numpy() for x in (data.item, data.answer))
    hits = reduced(int((same == (cluster[left] == cluster[right])[pair]).sum()))
    sizes = np.unique(cluster, return_counts=True)[1]
    theta = np.geomspace(0.01, 100 * n, 100)
    of_sizes = gammaln(sizes).sum() + len(sizes) * np.log(theta) + gammaln(theta) - gammaln(theta + n)
    return float(betaln(1 + hits, 1 + reduced(len(pair)) - hits) + of_sizes.max())


def sizes_without(left: np.ndarray, right: np.ndarray, weight: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """The sizes of the clusters of both objects if a pair had not been asked, (N, 2); 0 where others link them.

    Others link two objects of one cluster unless the pair is a bridge of the cluster's pairs of positive weight,
    and two clusters where their other pairs add up to a positive weight.
    """
    one, other, n = cluster[left], cluster[right], len(cluster)
    size = np.bincount(cluster)
    out = np.stack([size[one], size[other]], 1)
    _, code = np.unique(np.minimum(one, other) * n + np.maximum(one, other), return_inverse=True)
    out[np.bincount(code, weight)[code] - weight > 0] = 0
    inside = one == other
    out[inside] = 0
    joins = np.flatnonzero(inside & (weight > 0))
    below = _below_bridges(left[joins], right[joins], n)
    at = joins[below > 0]
    out[at] = np.stack([below[below > 0], size[one[at]] - below[below > 0]], 1)
    return out


def _below_bridges(left: np.ndarray, right: np.ndarray, n: int) -> np.ndarray:
    """For each edge of a graph of n nodes, how many are on a side of it if it is a bridge (Tarjan 1974); else 0."""
    out, edges = np.zeros(len(left), np.int64), [list[tuple[int, int]]() for _ in range(n)]
    for edge, (one, other) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        edges[one].append((other, edge))
        edges[other].append((one, edge))
    found, low, size = [-1] * n, [0] * n, [1] * n
    count = 0
    for root in range(n):
        if found[root] >= 0 or not edges[root]:
            continue
        found[root], low[root], count = count, count, count + 1
        stack = [(root, -1, iter(edges[root]))]
        while stack:
            node, via, rest = stack[-1]
            step = next(rest, None)
            if step is None:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[node])
                    size[above] += size[node]
                    out[via] = size[node] if low[node] == found[node] else 0
            elif step[1] != via and found[step[0]] >= 0:
                low[node] = min(low[node], found[step[0]])
            elif step[1] != via:
                then, edge = step
                found[then], low[then], count = count, count, count + 1
                stack.append((then, edge, iter(edges[then])))
    return out


def log_odds_same(data: Block) -> np.ndarray:
    """Log-odds that the objects of each pair are the same, (N,), by Dawid-Skene; 0 where there are no labels.

    Labels are weighed by expected confusions without the pair's own counts (collapsed variational Bayes of order
    zero), from vote shares. Known truths stand.
    """
    item, annotator, answer = (x[data.named].cpu().numpy() for x in (data.item, data.annotator, data.answer))
    n, number = data.n_items, np.bincount(item, minlength=data.n_items)
    known = np.full(n, -1) if data.gold is None else data.gold.cpu().numpy()
    cell = annotator * 2 + answer
    p = np.bincount(item, answer, n) / np.maximum(number, 1)
    prior = PRIOR * np.array([[SHARE, 1 - SHARE], [1 - SHARE, SHARE]])
    out = np.zeros(n)
    for _ in range(STEPS):
        p = np.where(known >= 0, known, p)
        share = np.stack([1 - p, p], 1)
        each = np.zeros((2, len(item)))
        for k in range(2):
            own = share[item, k]
            count = np.bincount(cell, own, 2 * data.n_annotators).reshape(-1, 2) + prior[k]
            each[k] = np.log((count[annotator, answer] - own) / (count.sum(1)[annotator] - own))
        total = share[number > 0].sum(0) + 1 - share
        out = np.bincount(item, each[1] - each[0], n) + np.log(total[:, 1] / total[:, 0])
        before, p = p, 1 / (1 + np.exp(-out))
        if np.abs(p - before)[known < 0].max(initial=0.0) < CLOSE:
            break
    out[number == 0] = 0.0
    sure = 1 + np.abs(out).sum()
    return np.where(known < 0, out, np.where(known > 0, sure, -sure))
