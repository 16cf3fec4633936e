"""Two classes: the leading eigenvector of annotators' covariance, and the imbalance by third moments."""

from __future__ import annotations

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.moments.joints import SHARED, Floats, Opinions
from crowdppl.moments.result import Moments, moments_of, none_known, only_shared, opinions_of

STEPS, SETTLED = 2_000, 1e-12


def covariance_eigenvector(data: Annotations, *, most: int | None = None) -> Moments:
    """Confusions of two classes, from the leading eigenvector of the covariance of annotators.

    Labels of two annotators covary by the product of how much better each is than chance; third moments tell how
    uneven the classes are. Exact on exact moments where three annotators are better or worse than chance.

    Args:
        most: counts the annotators with most labels alone, so many; others get the mean confusion. None counts all.

    Raises:
        MethodError: where there are not two classes, or annotators are too many for a table of their pairs.
        DataError: where no annotators share five items.

    Source: Parisi, Strino, Nadler & Kluger (2014), Ranking and combining multiple predictors without labeled data,
    PNAS 111, 1253, eq. 3; class imbalance: Jaffe, Nadler & Kluger (2015), Estimating the accuracies of multiple
    classifiers without labeled data, AISTATS, eqs. 10 and 16.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 200, {"hammer": 4, "spammer": 1}, seed=0)
        >>> crowdppl.moments.covariance_eigenvector(crowd.data).prevalence.round(1)
        array([0.5, 0.5])
    """
    opinions, chosen = opinions_of(data, most)
    if opinions.n_classes != 2:
        raise MethodError(
            f"covariance_eigenvector is for 2 classes, and there are {opinions.n_classes}; take "
            "crowdppl.moments.tensor(data)"
        )
    if opinions.shared.max() < SHARED:
        raise none_known(opinions.n_annotators)
    confusion, prevalence = covariance_factors(opinions)
    return moments_of(
        "covariance_eigenvector", data, opinions, chosen, only_shared(opinions, confusion), prevalence
    )


def covariance_factors(opinions: Opinions) -> tuple[Floats, Floats]:
    """Confusions (A, 2, 2) and prevalence (2,) from covariances of labels -1 and 1.

    Covariances of two annotators are ``v_a v_b`` with ``v = (1 - b^2)^(1/2) (sensitivity + specificity - 1)`` and b
    the share of the second class less that of the first. Third moments are ``-2 b (1 - b^2)^(-1/2) v_a v_b v_c``.
    v is fitted by least squares in which a pair weighs as many items as it shares; its sign is that in which labels
    are right more often than not.
    """
    o, signs = opinions, np.array([-1.0, 1.0])
    mean = o.rates @ signs
    moments = np.einsum("l,albs,s->ab", signs, o.joints, signs, optimize=True)
    by_other = np.einsum("l,alb->ab", signs, o.joints.sum(3))  # sums of a's labels on items shared with b
    shared = o.shared
    weighted = moments - by_other * mean - mean[:, None] * by_other.T + shared * np.outer(mean, mean)
    np.fill_diagonal(weighted, 0)
    v = np.linalg.eigh(weighted)[1][:, -1]
    v *= np.sqrt(np.abs(v @ weighted @ v) / max(v**2 @ shared @ v**2, 1e-300))
    for _ in range(STEPS):
        before = v
        v = (v + weighted @ v / np.maximum(shared @ v**2, 1e-300)) / 2
        if np.abs(v - before).max() < SETTLED:
            break
    v = v if o.counts @ v >= 0 else -v
    centred = (o.vote @ signs - mean[o.annotator]) * v[o.annotator]
    skew = o.triples(centred) / max(o.triples(v[o.annotator] ** 2), 1e-300)
    b = float(-skew / np.sqrt(4 + skew**2))
    second = np.clip((1 + mean + v * np.sqrt((1 - b) / (1 + b))) / 2, 0, 1)
    first = np.clip((1 - mean + v * np.sqrt((1 + b) / (1 - b))) / 2, 0, 1)
    confusion = np.stack([np.stack([first, 1 - first], 1), np.stack([1 - second, second], 1)], 1)
    return confusion, np.array([(1 - b) / 2, (1 + b) / 2])
