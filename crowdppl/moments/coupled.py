"""Coupled factorisation of all pairs of annotators by Kullback-Leibler divergence."""

from __future__ import annotations

import numpy as np

from crowdppl.core.validation import share_between
from crowdppl.data.annotations import Annotations
from crowdppl.moments.joints import Floats, Opinions
from crowdppl.moments.multispa import first_guess
from crowdppl.moments.result import Moments, moments_of, only_shared, opinions_of

STEPS = 2_000
INNER = 0.1
"""How far the start is moved towards equal probabilities: what is zero would stay so."""


def coupled_kl(data: Annotations, *, most: int | None = None, tolerance: float = 1e-6) -> Moments:
    """Confusions and prevalence that bring the joints of all pairs of annotators nearest, by divergence.

    The sum over pairs of the Kullback-Leibler divergence of the joint from ``C_a' D C_b`` is minimised from
    MultiSPA: a likelihood in which the labels of an item count by pairs. Exact on exact moments where classes have
    experts, or rows of all confusions are scattered enough; beyond that, pairs leave confusions open.

    Args:
        most: counts the annotators with most labels alone, so many; others get the mean confusion. None counts all.
        tolerance: the largest change of a probability at which it stops, after 2,000 steps at the latest.

    Raises:
        MethodError: where annotators and classes are too many for a table of their pairs.
        DataError: where labels are no classes, or no annotators share five items.

    Source: Ibrahim, Fu, Kargas & Huang (2019), Crowdsourcing via pairwise co-occurrences, NeurIPS 32, eq. 9
    (MultiSPA-KL). The steps are those of expectation maximisation, theirs mirror descent by blocks.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 200, {"hammer": 4, "spammer": 1}, seed=0)
        >>> crowdppl.moments.coupled_kl(crowd.data).prevalence.round(1)
        array([0.5, 0.5])
    """
    opinions, chosen = opinions_of(data, most)
    found = coupled_factors(opinions, *first_guess(opinions), share_between("tolerance", tolerance))
    return moments_of("coupled_kl", data, opinions, chosen, only_shared(opinions, found[0]), found[1])


def coupled_factors(
    opinions: Opinions, confusion: Floats, prevalence: Floats, settled: float
) -> tuple[Floats, Floats]:
    """Confusions (A, K, K) and prevalence (K,) that bring all joints nearest to ``C_a' D C_b``, from a start.

    Each step is that of expectation maximisation for pairs of labels, which never raises the divergence: the truth
    of labels l and s by a and b has shares of ``d_t C_a[t, l] C_b[t, s]``. Two steps are extrapolated as far as
    Varadhan & Roland (2008) say, where this lowers the divergence more than one of them.
    """
    import scipy.sparse as sparse  # slow to import

    a, k = opinions.n_annotators, opinions.n_classes
    one, other = np.nonzero(np.triu(opinions.joints.reshape(a * k, a * k)))
    apart = one // k != other // k
    one, other = one[apart], other[apart]
    counted = opinions.joints.reshape(a * k, a * k)[one, other]
    shape = (a * k, a * k)

    def step(x: Floats) -> tuple[Floats, float]:
        factors, d = x[:-1], x[-1]
        model = np.einsum("nt,nt->n", factors[one] * d, factors[other])
        ratio = sparse.csr_matrix((counted / model, (one, other)), shape)
        used = factors * d * (ratio @ factors + ratio.T @ factors)
        given = used.reshape(a, k, k)
        weight = given.sum(1, keepdims=True)
        kept = factors.reshape(a, k, k).copy()
        moved = np.divide(given, weight, out=kept, where=weight > 0).reshape(a * k, k)
        return np.vstack([moved, used.sum(0) / used.sum()]), float(counted @ np.log(model))

    inner = (1 - INNER) * confusion + INNER / k
    x = np.vstack([inner.swapaxes(1, 2).reshape(a * k, k), prevalence])
    for _ in range(STEPS // 3):
        first, fit = step(x)
        second, _ = step(first)
        change, bend = first - x, second - 2 * first + x
        if np.abs(second - first).max() < settled:
            break
        length = max(1.0, float(np.sqrt((change**2).sum() / max((bend**2).sum(), 1e-300))))
        ahead = x + 2 * length * change + length**2 * bend
        x, reached = step(np.maximum(ahead, 1e-3 * second))
        if not reached >= fit:
            x = second
    return x[:-1].reshape(a, k, k).swapaxes(1, 2), x[-1]
