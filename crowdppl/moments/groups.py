"""Third moments of three groups of annotators, whitened, by the robust tensor power method."""

from __future__ import annotations

import numpy as np

from crowdppl.core.validation import seed_number
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError
from crowdppl.moments.joints import SHARED, Floats, Ints, Opinions
from crowdppl.moments.projections import on_simplex, shares
from crowdppl.moments.result import Moments, moments_of, opinions_of

STARTS, POWERS = 100, 100
"""Starts of the power method for each class, and steps of each."""


def spectral(data: Annotations, *, seed: int = 0) -> Moments:
    """Confusions and prevalence from third moments of three groups of annotators, by the tensor power method.

    The first stage of the two-stage method; the second is ``crowdppl.fit("dawid_skene", data, start=...)`` by em.
    Exact on exact moments where each group's mean votes tell all classes apart; no class experts are needed.
    No pairs of annotators are counted, so that their number does not matter.

    Args:
        seed: of the groups, which are random and of one size, and of the starts of the power method.

    Raises:
        DataError: where labels are no classes, no item has labels of all three groups, or nobody gave five labels.

    Source: Zhang, Chen, Zhou & Jordan (2014), Spectral methods meet EM: a provably optimal algorithm for
    crowdsourcing, NeurIPS 27, Algorithm 1; power method: Anandkumar et al. (2014), JMLR 15, Algorithm 1.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 200, {"hammer": 5, "spammer": 1}, seed=0)
        >>> crowdppl.moments.spectral(crowd.data).prevalence.round(1)
        array([0.5, 0.5])
    """
    opinions, chosen = opinions_of(data, None)
    seed = seed_number(seed)
    group = np.random.default_rng(seed).permutation(opinions.n_annotators) % 3
    confusion, prevalence = group_factors(opinions, group, seed)
    confusion[opinions.counts < SHARED] = np.nan
    return moments_of("spectral", data, opinions, chosen, confusion, prevalence)


def group_factors(opinions: Opinions, group: Ints, seed: int) -> tuple[Floats, Floats]:
    """Confusions (A, K, K) and prevalence (K,), classes in no order, from groups (A,) of annotators: 0, 1, 2.

    The mean label of a group's members on an item takes the place of one annotator's label. Two groups are moved
    into the place of the third, third moments are whitened and decomposed, and a member's confusion follows from
    joints with the other two groups.
    """
    o, k = opinions, opinions.n_classes
    votes, seen = np.empty((3, len(o.weight), k)), np.empty((3, len(o.weight)), bool)
    for g in range(3):
        member = (group[o.annotator] == g).astype(float)
        number = np.bincount(o.item, member, len(o.weight))
        votes[g] = o.by_item(o.vote * member[:, None]) / np.maximum(number, 1)[:, None]
        seen[g] = number > 0
    weight = seen.all(0) * o.weight
    if not weight.any():
        raise DataError(
            "no item has labels of all three groups of annotators, whose third moments spectral reads; take "
            "coupled_kl, which reads pairs"
        )
    pair = {(a, b): _joint(votes, seen, o.weight, a, b) for a in range(3) for b in range(3) if a != b}
    third = np.einsum("i,il,is,ir->lsr", weight / weight.sum(), *votes, optimize=True)
    means = np.empty((3, k, k))
    means[2], d = _decomposed(pair, third, np.random.default_rng(seed))
    for g in (0, 1):
        means[g] = shares(np.linalg.lstsq(means[2].T * d, pair[2, g], rcond=None)[0])
    right, left = np.zeros((o.n_annotators, k, k)), np.zeros((o.n_annotators, k, k))
    for g in range(3):
        used = (group[o.annotator] != g) & seen[g][o.item]
        w = used * o.weight[o.item]
        joint = o.by_annotator(w[:, None, None] * votes[g][o.item][:, :, None] * o.vote[:, None, :])
        link = means[g].T * d  # (labels of the group, truths)
        right += link.T @ joint
        left += o.by_annotator(w)[:, None, None] * (link.T @ link)
    return on_simplex(np.linalg.pinv(left, hermitian=True) @ right), d


def _joint(votes: Floats, seen: np.ndarray, weight: Floats, a: int, b: int) -> Floats:
    """The mean product of two groups' votes, (K, K), on items that both label."""
    both = seen[a] * seen[b] * weight
    return np.asarray((votes[a] * both[:, None]).T @ votes[b] / max(both.sum(), 1e-300))


def _decomposed(
    pair: dict[tuple[int, int], Floats], third: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Mean votes of the third group by truth (K, K), and the prevalence, by Theorem 1 of the source."""
    k = len(third)
    first, second = (pair[2, b] @ np.linalg.pinv(pair[a, b]) for a, b in ((0, 1), (1, 0)))
    square = first @ pair[0, 1] @ second.T
    cube = np.einsum("lsr,pl,qs->pqr", third, first, second)
    values, vectors = np.linalg.eigh((square + square.T) / 2)
    root = np.sqrt(np.maximum(values, 1e-12 * max(values.max(), 1e-300)))
    white = vectors / root
    rest = np.einsum("lsr,la,sb,rc->abc", cube, white, white, white)
    rest = sum(rest.transpose(p) for p in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))) / 6
    means, size = np.empty((k, k)), np.empty(k)
    for t in range(k):
        x = rng.normal(size=(STARTS, k))
        for _ in range(POWERS):
            x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
            x = np.einsum("abc,ib,ic->ia", rest, x, x)
        length = np.linalg.norm(x, axis=1)
        best = int(length.argmax())
        v, size[t] = x[best] / max(length[best], 1e-300), max(length[best], 1e-12)
        rest = rest - size[t] * np.einsum("a,b,c->abc", v, v, v)
        means[t] = size[t] * (vectors * root) @ v
    return shares(means), shares(size**-2)
