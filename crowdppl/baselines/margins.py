"""Max-margin majority voting: weights of annotators under which the true class beats others by a margin."""

from __future__ import annotations

import numpy as np

from crowdppl.baselines.aggregation import Aggregation, class_votes, labelled, placed
from crowdppl.core.validation import number_within, seed_number, whole_number
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError

LEAST = 1e-6
"""Least distance from the hinge, whose inverse would else be infinite."""


def max_margin_votes(
    data: Annotations,
    *,
    margin: float = 3.0,
    cost: float = 0.25,
    variance: float = 1.0,
    prior: float = 1.0,
    sweeps: int = 50,
    burn_in: int = 10,
    seed: int = 0,
) -> Aggregation:
    """Gibbs-CrowdSVM: confusions as of Dawid and Skene, and votes whose weighted margins a hinge loss pulls apart.

    The weighted votes of an item's class are to exceed those of its nearest rival by the margin; what they lack
    costs so much. Weights are Gaussian around 0, and drawn given the rivals by the last ones. The hinge is a
    pseudo-likelihood (Polson & Scott 2011), so that shares of draws are scores and no probabilities. Tian & Zhu
    (2015), "Max-margin majority voting for learning from crowds", and their settings. A sweep inverts a matrix
    annotators x annotators.

    Args:
        data: classes.
        margin: l, in weighted votes.
        cost: c, of the hinge loss.
        variance: v, of the prior of weights.
        prior: pseudo-count of each cell of the confusions and of the classes.
        sweeps, burn_in: draws, and those of the beginning that do not count.
        seed: of the draws.

    Raises:
        MethodError: for labels that are no classes, or settings out of range.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 5, "spammer": 3}, seed=0)
        >>> found = crowdppl.baselines.max_margin_votes(crowd.data)
        >>> round(crowdppl.evaluate(found, crowd.truth).accuracy, 1)
        0.9
    """
    for name, value in (("margin", margin), ("cost", cost), ("variance", variance), ("prior", prior)):
        number_within(name, value, "a number above 0", lambda x: x > 0)
    sweeps, burn_in = whole_number("sweeps", sweeps, 1, "50 are usual"), whole_number("burn_in", burn_in, 0)
    if burn_in >= sweeps:
        raise MethodError(f"burn_in={burn_in} leaves none of {sweeps} sweeps; give fewer, 10 of 50 are usual")
    votes, k = class_votes(data, "max_margin_votes"), data.n_classes
    from scipy.sparse import csr_array  # slow to import

    rng, n, a = np.random.default_rng(seed_number(seed)), votes.n_items, votes.n_annotators
    cell = votes.annotator * k + votes.answer
    given = csr_array((votes.share, (votes.item, cell)), shape=(n, a * k))
    own = [given[:, np.arange(a) * k + code] for code in range(k)]  # who gave the class, (N, A)
    counts = np.column_stack([x.sum(1) for x in own])
    top = counts >= counts.max(1, keepdims=True)
    label = (top * rng.random((n, k))).argmax(1)
    weight, draws, total, row = np.ones(a), np.zeros((n, k)), np.zeros(a), np.arange(n)
    for sweep in range(sweeps):
        sums = np.column_stack([x @ weight for x in own])
        hinge = margin - sums + _rivals(sums)  # of each class as the truth, (N, K)
        rival = np.where(np.arange(k) == label[:, None], -np.inf, sums).argmax(1)
        size = np.maximum(cost * np.abs(hinge[row, label]), LEAST)
        inverse = rng.wald(1 / size, 1.0)  # of the scale that makes the hinge Gaussian
        apart = sum(x.multiply(((label == c) * 1.0 - (rival == c))[:, None]) for c, x in enumerate(own)).tocsr()
        precision = np.eye(a) / variance + cost**2 * (apart.T @ apart.multiply(inverse[:, None])).toarray()
        shift = cost * (apart.T @ (1 + cost * margin * inverse))
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, shift)
        weight = mean + np.linalg.solve(root.T, rng.standard_normal(a))
        onto = csr_array((np.ones(n), (label, row)), shape=(k, n))
        table = np.asarray((onto @ given).toarray()).reshape(k, a, k) + prior
        gamma = rng.standard_gamma(table)
        log = np.log(gamma / gamma.sum(-1, keepdims=True)).transpose(1, 2, 0).reshape(a * k, k)
        shares = rng.standard_gamma(np.bincount(label, minlength=k) + prior)
        sums = np.column_stack([x @ weight for x in own])
        hinge = margin - sums + _rivals(sums)
        logits = given @ log + np.log(shares / shares.sum()) - 2 * cost * np.maximum(hinge, 0)
        label = (logits + rng.gumbel(size=(n, k))).argmax(1)
        if sweep >= burn_in:
            draws[row, label] += 1
            total += weight
    kept = sweeps - burn_in
    mean = np.where(labelled(votes), total / kept, np.nan)
    return Aggregation("max_margin_votes", data, placed(draws / kept, votes, data), mean, sweeps)


def _rivals(sums: np.ndarray) -> np.ndarray:
    """The highest of the other classes of each class, (N, K)."""
    best = sums.argmax(1)
    row = np.arange(len(sums))
    out = np.repeat(sums.max(1, keepdims=True), sums.shape[1], 1)
    rest = sums.copy()
    rest[row, best] = -np.inf
    out[row, best] = rest.max(1)
    return out
