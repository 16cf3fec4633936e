"""Third-order moments of all annotators: one factorisation of all triples, by least squares."""

from __future__ import annotations

import numpy as np

from crowdppl.core.validation import share_between
from crowdppl.data.annotations import Annotations
from crowdppl.moments.joints import Floats, Opinions
from crowdppl.moments.multispa import first_guess
from crowdppl.moments.projections import on_simplex
from crowdppl.moments.result import Moments, moments_of, only_shared, opinions_of

STEPS, INNER = 5_000, 10
"""Steps over all annotators at most, and steps of the method of multipliers in each."""


def tensor(data: Annotations, *, most: int | None = None, tolerance: float = 1e-6) -> Moments:
    """Confusions and prevalence nearest to the joints of all triples of annotators, by least squares.

    Third moments determine confusions where classes differ for three annotators (Kruskal), and need no class
    experts. Triples weigh as many items as they share; no table of annotators cubed is made, only the pairs of
    MultiSPA, from which it starts. A step takes time labels x K^2.

    Args:
        most: counts the annotators with most labels alone, so many; others get the mean confusion. None counts all.
        tolerance: the largest change of a probability at which it stops, after 5,000 steps at the latest.

    Raises:
        MethodError: where annotators and classes are too many for a table of their pairs.
        DataError: where labels are no classes, or no annotators share five items.

    Source: Traganitis, Pages-Zamora & Giannakis (2018), Blind multiclass ensemble classification, IEEE Transactions
    on Signal Processing 66, 4737, eq. 13 (third moments); the steps of all annotators at once are this package's.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 200, {"hammer": 4, "spammer": 1}, seed=0)
        >>> crowdppl.moments.tensor(crowd.data).prevalence.round(1)
        array([0.5, 0.5])
    """
    opinions, chosen = opinions_of(data, most)
    found = tensor_factors(opinions, *first_guess(opinions), share_between("tolerance", tolerance))
    return moments_of("tensor", data, opinions, chosen, only_shared(opinions, found[0]), found[1])


def tensor_factors(
    opinions: Opinions, confusion: Floats, prevalence: Floats, settled: float
) -> tuple[Floats, Floats]:
    """Confusions (A, K, K) and prevalence (K,) nearest to all joints of three annotators, from a start.

    The joint of three annotators is the sum over classes t of ``d_t C_a[t] x C_b[t] x C_c[t]``. Squares of what
    differs are summed over triples, each weighed by the items that the three share, which is the same as a sum over
    the triples of each item: it is formed by item, in time labels x K^2, and no table of annotators cubed is made.
    All annotators move a third of the way to where each would go alone, under its constraints by the alternating
    direction method of multipliers: a triple has three annotators, so that the sum of squares falls (Jensen).
    """
    o, k = opinions.merged(), opinions.n_classes
    c, d = confusion.copy(), prevalence.copy()
    dual, dual_share = np.zeros_like(c), np.zeros((1, k))
    upper = np.triu_indices(k)
    square = np.zeros((k, k), int)
    square[upper] = np.arange(len(upper[0]))
    square = np.maximum(square, square.T)  # the place of each product among those that differ
    weight = o.weight[o.item, None]
    for _ in range(STEPS):
        # What an opinion brings to sums over triples: C_a[:, label], and products of two rows of C_a.
        products = np.einsum("atl,asl->ats", c, c)[:, upper[0], upper[1]]
        x = np.hstack([np.einsum("rl,rtl->rt", o.vote, c[o.annotator]), products[o.annotator]])
        first, second = o.by_item(x), o.by_item(x**2)
        rest = first[o.item] - x
        others = weight * (rest**2 - (second[o.item] - x**2)) / 2
        right = d[:, None] * o.by_annotator(others[:, :k, None] * o.vote[:, None, :])
        gram = np.outer(d, d) * o.by_annotator(others[:, k:])[:, square]
        alone, dual = _constrained(gram, right, c, dual)
        moved = c + (alone - c) / 3
        triples = o.weight @ (first**3 - 3 * first * second + 2 * o.by_item(x**3)) / 6
        share, dual_share = _constrained(
            triples[k:][square][None],
            triples[None, :k, None],
            d[None, :, None],
            dual_share[..., None],
            transposed=True,
        )
        share, dual_share = share[0, :, 0], dual_share[..., 0]
        change = max(np.abs(moved - c).max(), np.abs(share - d).max())
        c, d = moved, share
        if change < settled:
            break
    return c, d


def _constrained(
    gram: Floats, right: Floats, x: Floats, dual: Floats, transposed: bool = False
) -> tuple[Floats, Floats]:
    """Rows (or columns) on the simplex nearest to solutions of ``gram x = right``, and their duals; batched."""
    size = np.trace(gram, axis1=-2, axis2=-1)[..., None, None] / gram.shape[-1]
    known = size > 0
    inverse = np.linalg.inv(gram + np.where(known, size, 1) * np.eye(gram.shape[-1]))
    out = x
    for _ in range(INNER):
        free = inverse @ (right + size * (out + dual))
        moved = free - dual
        out = on_simplex(moved.swapaxes(-1, -2)).swapaxes(-1, -2) if transposed else on_simplex(moved)
        dual = dual + out - free
    return np.where(known, out, x), np.where(known, dual, 0)
