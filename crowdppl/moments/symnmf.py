"""Symmetric non-negative factorisation of all pairs of annotators, with the blocks that nobody saw imputed."""

from __future__ import annotations

import numpy as np

from crowdppl.core.validation import share_between
from crowdppl.data.annotations import Annotations
from crowdppl.moments.joints import SHARED, Floats, Opinions
from crowdppl.moments.multispa import first_guess
from crowdppl.moments.result import Moments, moments_of, opinions_of

STEPS = 500


def symnmf(data: Annotations, *, most: int | None = None, tolerance: float = 1e-6) -> Moments:
    """Confusions and prevalence from one symmetric non-negative factor of all pairs, unseen pairs imputed.

    The joints of all pairs are one matrix ``H H'`` of rank K; blocks of annotators with themselves, and of pairs
    that share fewer than five items, are imputed. Exact on exact moments where classes have experts. With five
    grades that have none, it may wander far: see the benchmarks.

    Args:
        most: counts the annotators with most labels alone, so many; others get the mean confusion. None counts all.
        tolerance: the largest change of a factor at which it stops, after 500 steps at the latest.

    Raises:
        MethodError: where annotators and classes are too many for a table of their pairs.
        DataError: where labels are no classes, or no annotators share five items.

    Source: Ibrahim & Fu (2021), Crowdsourcing via annotator co-occurrence imputation and provable symmetric
    nonnegative matrix factorization, ICML, Algorithms 1 and 2. Pairs weigh as many items as they share here; theirs
    weigh alike, and large residuals less.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 200, {"hammer": 4, "spammer": 1}, seed=0)
        >>> crowdppl.moments.symnmf(crowd.data).prevalence.round(1)
        array([0.5, 0.5])
    """
    opinions, chosen = opinions_of(data, most)
    found = symmetric_factors(opinions, *first_guess(opinions), share_between("tolerance", tolerance))
    return moments_of("symnmf", data, opinions, chosen, *found)


def symmetric_factors(
    opinions: Opinions, confusion: Floats, prevalence: Floats, settled: float
) -> tuple[Floats, Floats]:
    """Confusions (A, K, K) and prevalence (K,) from a symmetric factorisation, from a start.

    1. Joints as probabilities are ``U_a U_b'`` with U of rank K: least squares, in which a pair weighs as many
       items as it shares. What nobody shares, an annotator's own block among it, is imputed so.
    2. ``H = U Q`` is not negative for one rotation Q: H and Q are found in turn, Q by Procrustes.
    3. The rows of a in H are ``C_a' D^(1/2)``.
    """
    k = opinions.n_classes
    weight = np.where(opinions.shared >= SHARED, opinions.shared, 0)
    while (few := weight.any(1) & ((weight > 0).sum(1) < k)).any():  # too few equations for K^2 numbers
        weight[few], weight[:, few] = 0, 0
    root = np.sqrt(np.maximum(prevalence, 1e-12))
    u = (confusion.swapaxes(1, 2) * root).copy()  # (A, labels, K)
    counts = opinions.joints
    seen = np.flatnonzero(weight.any(1))
    others = {i: np.flatnonzero(weight[i]) for i in seen}
    for _ in range(STEPS):
        before = u.copy()
        for i in seen:
            at = others[i]
            gram = np.einsum("b,blf,blg->fg", weight[i, at], u[at], u[at])
            right = np.einsum("lbs,bsf->lf", counts[i][:, at], u[at])
            u[i] = np.linalg.lstsq(gram, right.T, rcond=None)[0].T
        if np.abs(u - before).max() < settled:
            break
    flat = u[seen].reshape(-1, k)
    h = (confusion[seen].swapaxes(1, 2) * root).reshape(-1, k)
    for _ in range(STEPS):
        left, _, right = np.linalg.svd(flat.T @ h)
        before, h = h, np.maximum(flat @ (left @ right), 0)
        if np.abs(h - before).max() < settled:
            break
    factors = h.reshape(len(seen), k, k)
    sums = factors.sum(1)  # of each annotator and class, the root of its prevalence
    known = opinions.counts[seen]
    share = (known @ sums / known.sum()) ** 2
    out = np.full_like(confusion, np.nan)
    out[seen] = np.where(sums[..., None] > 0, factors.swapaxes(1, 2) / np.maximum(sums, 1e-300)[..., None], 1 / k)
    return out, share / share.sum()
