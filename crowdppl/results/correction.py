"""Corrected probabilities: weights of several fits and maps of truth, by held-out labels and gold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ConvergenceWarning, CrowdpplWarning
from crowdppl.inference.result import CalibrationMap, Correction, Fit

LEAST_GOLD = 1e-6
"""Probabilities are clipped here before their logarithms are mapped."""
SPREAD = 0.5
"""Prior standard deviation of a map's log scale and of its shifts."""
TEMPERATURES = np.exp(np.linspace(np.log(0.05), np.log(3.0), 25))
WIDE = 0.7
"""Prior standard deviation of a temperature's logarithm."""
MASS, DIAGONAL = 4.0, 0.9
"""Prior pseudo-counts of a channel's row, and the share of them that is on the diagonal, chance aside."""
ROUNDS = 50


def apply_map(truth_map: CalibrationMap, probabilities: np.ndarray) -> np.ndarray:
    """Mapped probabilities (N, K)."""
    x, out = _logits(probabilities), np.zeros(probabilities.shape)
    for temperature, weight, channel in zip(
        truth_map.temperatures, truth_map.weights, truth_map.channels, strict=True
    ):
        out += weight * (softmax(x / temperature) @ channel)
    return np.asarray(0.5 * softmax(truth_map.scale * x + truth_map.shift) + 0.5 * out)


def fit_map(probabilities: np.ndarray, truth: np.ndarray) -> CalibrationMap:
    """The map that known truths advise.

    Half of it is a scale and a shift for each class (Guo et al. 2017, "On calibration of modern neural networks"),
    drawn towards no change by Gaussian priors of standard deviation 1/2 on the log of the scale and on the shifts.
    The other half is averaged over temperatures: probabilities at a temperature go through a channel, a matrix that
    says how often labels point to one class and the truth is another (with a prior of 4 pseudo-counts a row that
    leans on the diagonal); a temperature weighs as much as it predicts each known truth with a channel that was
    not told it. Averages rather than the best temperature, because one odd truth would decide it. Ten known truths
    move either little. Class names and order have no say.

    Args:
        probabilities: (n, K) of items whose truth the fit did not see.
        truth: codes (n,).
    """
    k = probabilities.shape[1]
    scale, shift = fit_scale(probabilities, truth)
    prior = MASS * (DIAGONAL * np.eye(k) + (1 - DIAGONAL) / k)
    x = _logits(probabilities)
    found = [_channel(softmax(x / temperature), truth, prior) for temperature in TEMPERATURES]
    scores = np.array([score for _, score in found]) - np.log(TEMPERATURES) ** 2 / (2 * WIDE**2)
    return CalibrationMap(scale, shift, TEMPERATURES, softmax(scores), np.stack([channel for channel, _ in found]))


def fit_scale(probabilities: np.ndarray, truth: np.ndarray) -> tuple[float, np.ndarray]:
    """Scale and shift of the map softmax(scale * log p + shift): the mode under the priors above."""
    from scipy.optimize import minimize  # slow to import

    x, k = _logits(probabilities), probabilities.shape[1]
    hit = np.eye(k)[truth]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        scale, shift = np.exp(theta[0]), theta[1:]
        p = softmax(scale * x + shift)
        error = p - hit
        value = -np.log(np.clip((p * hit).sum(1), 1e-300, None)).sum() + (theta**2).sum() / (2 * SPREAD**2)
        slope = np.concatenate([[scale * (error * x).sum()], error.sum(0)]) + theta / SPREAD**2
        return float(value), slope

    best = minimize(loss, np.zeros(k + 1), jac=True, method="L-BFGS-B").x
    return float(np.exp(best[0])), best[1:]


def _channel(p: np.ndarray, truth: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, float]:
    """A channel (K, K) by EM, and the log-probability of the truths, each without its own part in it."""
    hit = np.eye(p.shape[1])[truth]
    counts = prior
    for _ in range(ROUNDS):
        channel = counts / counts.sum(1, keepdims=True)
        share = p * channel[:, truth].T
        share = share / share.sum(1, keepdims=True)  # (n, K): what labels pointed to, given the truth
        counts = prior + share.T @ hit
    left = counts[:, truth].T - share
    return counts / counts.sum(1, keepdims=True), float(np.log((p * left / (counts.sum(1) - share)).sum(1)).sum())


def softmax(x: np.ndarray) -> np.ndarray:
    """Shares along the last dimension, proportional to exp(x)."""
    from scipy.special import softmax as shares  # slow to import

    return np.asarray(shares(x, axis=-1))


def _logits(probabilities: np.ndarray) -> np.ndarray:
    x = np.log(np.clip(probabilities, LEAST_GOLD, None))
    return np.asarray(x - x.mean(1, keepdims=True))


RATES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Correlations of an item's labels among which held-out labels choose."""
LEAST = 1e-300
"""A probability below is taken for this: evidence of more than 690 nats counts as 690."""
SEEN = 1e-6
"""A probability that is worth a note where it should be smaller."""
SPARSE = 2.0
"""Annotators an item below which labels left out have nothing to say."""


def corrected(
    correction: Correction, found: Mapping[str, np.ndarray], data: Annotations, before: np.ndarray | None = None
) -> np.ndarray:
    """Discounted, averaged and mapped probabilities, (N, K); a known truth is certain.

    Args:
        correction: what is done to them.
        found: (N, K) by each of the methods, by name.
        data: the items, whose labels are counted.
        before: labels that these items had in earlier fits, (N,).
    """
    labels, out = labels_an_item(data), np.zeros((data.n_items, data.n_classes))
    labels = labels if before is None else labels + before
    for name, weight in correction.weights.items():
        out += weight * design_effect(found[name], labels, correction.rates[name])
    out = out / out.sum(1, keepdims=True)
    out = out if correction.truth_map is None else apply_map(correction.truth_map, out)
    if data.gold_codes is not None:
        known = np.flatnonzero(data.gold_codes >= 0)
        out[known] = np.eye(data.n_classes)[data.gold_codes[known]]
    return np.asarray(out)


def design_effect(probabilities: np.ndarray, labels: np.ndarray, rate: float) -> np.ndarray:
    """Probabilities as if n labels of an item were worth n / (1 + rate * (n - 1)) independent ones.

    The design effect of cluster samples (Kish 1965, Survey sampling): labels of an item that are correlated by
    ``rate`` given its truth say less than as many independent ones. The evidence is divided by it, the prevalence's
    part too, so that the most probable class stays. A fit's probabilities end at 1e-300: evidence beyond that is
    lost, so that an item with hundreds of labels comes out less sure than it should be (``cut``), and classes below
    it come out alike.

    Args:
        probabilities: (N, K).
        labels: number of labels of each item, (N,); an item without any stays as it is.
        rate: between 0, which changes nothing, and 1, by which any number of labels counts as one.
    """
    effect = 1 + rate * np.maximum(labels - 1, 0)
    return softmax(np.log(np.clip(probabilities, LEAST, None)) / effect[:, None])


def truncated_evidence(probabilities: np.ndarray, labels: np.ndarray, rate: float) -> np.ndarray:
    """Which items lost evidence that shows: a class below 1e-300 that the discount lifts above 1e-6; bool (N,)."""
    lost = probabilities.min(1) < LEAST
    return np.asarray(lost & (design_effect(probabilities, labels, rate).min(1) > SEEN))


def labels_an_item(data: Annotations) -> np.ndarray:
    """Number of labels of each item that name a class, in codebook order, (N,); who abstains agrees with nobody."""
    return np.asarray(data.votes().sum(1))


def annotators_an_item(data: Annotations) -> float:
    """Annotators who gave an item a class, repeats counted once: the mean over items that have any."""
    item, annotator, answer = data.label_codes()
    named = answer < data.n_classes
    pairs = np.unique(item[named].astype(np.int64) * data.n_annotators + annotator[named])
    return len(pairs) / max(1, len(np.unique(pairs // data.n_annotators)))


def too_sparse(data: Annotations) -> bool:
    """Whether items have too few annotators for labels left out to say how far labels depend on each other."""
    return annotators_an_item(data) < SPARSE


def sparse_note(data: Annotations, method: str) -> str:
    """What to say where a method stands as it is, because annotators are too few."""
    return (
        f"{annotators_an_item(data):.2f} annotators an item, repeats and abstentions aside, are too few for labels "
        f"left out to say how far labels of an item depend on each other, so that {method} stands as it is"
    )


def members(posterior: Fit) -> dict[str, Fit]:
    """The fits whose probabilities a corrected posterior averages, each as its method has it.

    Returns:
        By name, in the order of ``correction.weights``; where nothing was corrected, the posterior itself alone.

    Examples:
        >>> posterior = crowdppl.fit("auto", crowdppl.anaesthetists(), seed=0)
        >>> {name: round(weight, 2) for name, weight in posterior.correction.weights.items()}
        {'hierarchical_mixed_membership': 0.27, 'hierarchical_dawid_skene': 0.73}
        >>> posterior.members()["hierarchical_mixed_membership"]
        <Posterior of hierarchical_mixed_membership by vb: 45 items, 5 annotators, 4 classes>
    """
    correction, own = posterior.correction, posterior.uncorrected()
    if correction is None:
        return {posterior.method: own}
    return {name: correction.others.get(name, own) for name in correction.weights}


def members_after(posterior: Fit, change: Callable[[Fit], Fit]) -> dict[str, Fit]:
    """The members, each after a change that fits it anew.

    Raises:
        KeyboardInterrupt: when Ctrl-C stops one of several fits: it is meant for all of them, and their average
            would not show that one is unfinished.
    """
    before = members(posterior)
    if len(before) == 1:
        return {name: change(fit) for name, fit in before.items()}
    after = {}
    for name, fit in before.items():
        after[name] = named(name, partial(change, fit))
        if after[name].result.diagnostics["interrupted"]:
            raise KeyboardInterrupt
    return after


def named(name: str, make: Callable[[], Fit]) -> Fit:
    """A fit of one of several methods; what is warned of bears its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        found = make()
    if not found.result.diagnostics["interrupted"]:
        for note in found.result.diagnostics["warnings"]:
            warn(f"{name}: {note}", ConvergenceWarning)
    return found


def averaged(fits: Mapping[str, Fit], correction: Correction | None) -> Fit:
    """The posterior of the method with the largest weight, with the probabilities of all, corrected.

    Args:
        fits: of the methods of the correction, by name, of the same items, none of them corrected.
        correction: what is done to their probabilities; None returns the one fit as it is.
    """
    if correction is None:
        (alone,) = fits.values()
        return alone
    main = fits[correction.main]
    before = None if main.memory is None else main.memory.votes
    raw = {name: fits[name].result.probabilities for name in correction.weights}
    found = corrected(correction, raw, main.data, before)
    others = {name: fits[name] for name in correction.weights if name != correction.main}
    kept = replace(correction, raw=main.result.probabilities, others=others)
    return replace(main, result=replace(main.result, probabilities=found), correction=kept)
