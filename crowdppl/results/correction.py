"""Corrected probabilities: averages of several fits, discounts for correlated labels, and calibration maps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ConvergenceWarning, CrowdpplWarning
from crowdppl.inference.result import CalibrationMap, Correction, Fit, uninterrupted

MIN_GOLD = 10
"""The least number of known truths to which a map is fitted."""
MAP_SD = 0.5
"""Prior standard deviation of a map's log scale and of its shifts."""
TEMPERATURES = np.exp(np.linspace(np.log(0.05), np.log(3.0), 25))
PRIOR_STRENGTH, PRIOR_ACCURACY = 4.0, 0.9
"""Prior pseudo-counts of a channel's row, and the share of them that is on the diagonal, chance aside."""
RATES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Correlations of an item's labels among which held-out labels choose."""
LEAST = 1e-300
"""Probabilities are clipped here before the discount: evidence beyond 690 nats counts as 690."""


def apply_map(truth_map: CalibrationMap, probabilities: np.ndarray) -> np.ndarray:
    """Mapped probabilities (N, K)."""
    x, out = centred_logs(probabilities), np.zeros(probabilities.shape)
    for temperature, weight, channel in zip(
        truth_map.temperatures, truth_map.weights, truth_map.channels, strict=True
    ):
        out += weight * (softmax(x / temperature) @ channel)
    return np.asarray(0.5 * softmax(truth_map.scale * x + truth_map.shift) + 0.5 * out)


def fit_map(probabilities: np.ndarray, truth: np.ndarray) -> CalibrationMap:
    """Fits a calibration map to known truths, codes (n,), of items (n, K) that did not inform the fit.

    Half of it is a scale and a shift for each class (Guo et al. 2017, "On calibration of modern neural networks"),
    with Gaussian priors of standard deviation 1/2 on the log scale and the shifts. The other half is averaged over
    temperatures: probabilities at a temperature go through a channel p(truth | class that labels point to), with a
    prior of 4 pseudo-counts a row. A temperature's weight is its leave-one-out likelihood of the known truths.
    """
    k = probabilities.shape[1]
    scale, shift = fit_scale(probabilities, truth)
    prior = PRIOR_STRENGTH * (PRIOR_ACCURACY * np.eye(k) + (1 - PRIOR_ACCURACY) / k)
    x = centred_logs(probabilities)
    found = [_channel(softmax(x / temperature), truth, prior) for temperature in TEMPERATURES]
    prior_sd = 0.7  # of a temperature's logarithm
    scores = np.array([score for _, score in found]) - np.log(TEMPERATURES) ** 2 / (2 * prior_sd**2)
    return CalibrationMap(scale, shift, TEMPERATURES, softmax(scores), np.stack([channel for channel, _ in found]))


def fit_scale(probabilities: np.ndarray, truth: np.ndarray) -> tuple[float, np.ndarray]:
    """Scale and shift of softmax(scale * log p + shift): the mode under the priors of ``fit_map``."""
    from scipy.optimize import minimize  # slow to import

    x, k = centred_logs(probabilities), probabilities.shape[1]
    hit = np.eye(k)[truth]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        scale, shift = np.exp(theta[0]), theta[1:]
        p = softmax(scale * x + shift)
        error = p - hit
        value = -np.log(np.clip((p * hit).sum(1), 1e-300, None)).sum() + (theta**2).sum() / (2 * MAP_SD**2)
        slope = np.concatenate([[scale * (error * x).sum()], error.sum(0)]) + theta / MAP_SD**2
        return float(value), slope

    best = minimize(loss, np.zeros(k + 1), jac=True, method="L-BFGS-B").x
    return float(np.exp(best[0])), best[1:]


def _channel(p: np.ndarray, truth: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, float]:
    """A channel (K, K) by EM, and the log-probability of the truths, each left out of the channel."""
    hit = np.eye(p.shape[1])[truth]
    counts = prior
    for _ in range(50):
        channel = counts / counts.sum(1, keepdims=True)
        share = p * channel[:, truth].T
        share = share / share.sum(1, keepdims=True)  # (n, K): the class that labels pointed to, given the truth
        counts = prior + share.T @ hit
    left = counts[:, truth].T - share
    return counts / counts.sum(1, keepdims=True), float(np.log((p * left / (counts.sum(1) - share)).sum(1)).sum())


def softmax(x: np.ndarray) -> np.ndarray:
    """Shares along the last dimension, proportional to exp(x)."""
    from scipy.special import softmax as shares  # slow to import

    return np.asarray(shares(x, axis=-1))


def centred_logs(probabilities: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities (N, K), at least 1e-6, less their mean over classes."""
    x = np.log(np.clip(probabilities, 1e-6, None))
    return np.asarray(x - x.mean(1, keepdims=True))


def corrected(
    correction: Correction, found: Mapping[str, np.ndarray], data: Annotations, before: np.ndarray | None = None
) -> np.ndarray:
    """Discounted, averaged, mapped and softened probabilities, (N, K), of those of each method; a known truth is
    certain. Earlier fits had ``before`` labels, (N,), of these items.
    """
    labels, out = data.votes().sum(1), np.zeros((data.n_items, data.n_classes))
    labels = labels if before is None else labels + before
    for name, weight in correction.weights.items():
        out += weight * design_effect(found[name], labels, correction.rates[name])
    out = out / out.sum(1, keepdims=True)
    out = out if correction.truth_map is None else apply_map(correction.truth_map, out)
    if correction.temperature is not None and correction.shares is not None:
        out = softened_to(correction.shares, out, correction.temperature)
    if data.gold_codes is not None:
        known = np.flatnonzero(data.gold_codes >= 0)
        out[known] = np.eye(data.n_classes)[data.gold_codes[known]]
    return np.asarray(out)


def of_classes(correction: Correction, found: Mapping[str, np.ndarray]) -> Correction:
    """The correction with shares of all classes: where some came later, those of the new probabilities."""
    if correction.shares is None or len(correction.shares) == found[correction.main].shape[1]:
        return correction
    mixed = np.sum([weight * found[name] for name, weight in correction.weights.items()], 0)
    return replace(correction, shares=known_shares(mixed))


def design_effect(probabilities: np.ndarray, labels: np.ndarray, rate: float) -> np.ndarray:
    """Probabilities (N, K) as if n labels of an item, (N,), were worth n / (1 + rate * (n - 1)) independent ones.

    The design effect of cluster samples (Kish 1965, Survey sampling): labels of an item are correlated by
    ``rate``, 0 to 1, given its truth. All evidence is divided by it, also that of the prevalence, so that the most
    probable class stays. Probabilities are clipped at 1e-300 before (see ``truncated_evidence``).
    """
    effect = 1 + rate * np.maximum(labels - 1, 0)
    return softened(probabilities, effect[:, None])


def softened(probabilities: np.ndarray, temperature: float | np.ndarray) -> np.ndarray:
    """p^(1/T), normalised: evidence is divided by T, and the most probable class stays; (N, K)."""
    return softmax(np.log(np.clip(probabilities, LEAST, None)) / temperature)


def known_shares(probabilities: np.ndarray) -> np.ndarray:
    """Shares (K,) to which probabilities (N, K) are softened: their mean to the power 1 - H / log K, normalised.

    H is the entropy of the mean. Shares that are nearly even may be a bias of annotators, and are not relied on;
    that a class is rare is known.
    """
    mean = np.clip(probabilities.mean(0), LEAST, None)
    return softmax(np.log(mean) * (1 + (mean * np.log(mean)).sum() / np.log(len(mean))))


def softened_to(shares: np.ndarray, probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """p^(1/T) s^(1 - 1/T), normalised: evidence is divided by T, and without any, the shares (K,) are left; (N, K).

    Of an item whose most probable class would be another, p^(1/T).
    """
    even = softened(probabilities, temperature)
    found = softmax(
        np.log(np.clip(even, LEAST, None)) + (1 - 1 / temperature) * np.log(np.clip(shares, LEAST, None))
    )
    stays = found.argmax(1) == even.argmax(1)
    return np.where(stays[:, None], found, even)


def truncated_evidence(probabilities: np.ndarray, labels: np.ndarray, rate: float) -> np.ndarray:
    """Items of which a class is clipped at 1e-300 and above 1e-6 after the discount, bool (N,)."""
    lost = probabilities.min(1) < LEAST
    return np.asarray(lost & (design_effect(probabilities, labels, rate).min(1) > 1e-6))


def annotators_an_item(data: Annotations) -> float:
    """Annotators who gave an item a class, or a number: the mean over items that have any."""
    item, annotator, answer = data.label_codes()
    named = answer < max(1, data.n_classes)  # the only answer is a number where there are no classes
    pairs = np.unique(item[named].astype(np.int64) * data.n_annotators + annotator[named])
    return len(pairs) / max(1, len(np.unique(pairs // data.n_annotators)))


def too_sparse(data: Annotations) -> bool:
    """Whether items have too few annotators to estimate the correlation of their labels."""
    return annotators_an_item(data) < 2


def members(posterior: Fit) -> dict[str, Fit]:
    """The fits whose probabilities a corrected posterior averages, each uncorrected.

    Returns:
        By name, in the order of ``correction.weights``; without a correction, the posterior itself.

    Examples:
        >>> posterior = crowdppl.fit("auto", crowdppl.anaesthetists(), seed=0)
        >>> {name: round(weight, 2) for name, weight in posterior.correction.weights.items()}
        {'hierarchical_mixed_membership': 0.28, 'hierarchical_dawid_skene': 0.72}
        >>> posterior.members()["hierarchical_mixed_membership"]
        <Posterior of hierarchical_mixed_membership by vb: 45 items, 5 annotators, 4 classes>
    """
    correction, own = posterior.correction, posterior.uncorrected()
    if correction is None:
        return {posterior.method: own}
    return {name: correction.others.get(name, own) for name in correction.weights}


def members_after(posterior: Fit, change: Callable[[Fit], Fit]) -> dict[str, Fit]:
    """The members, each after a change that fits it again; KeyboardInterrupt where Ctrl-C stops one of several."""
    before = members(posterior)
    if len(before) == 1:
        return {name: change(fit) for name, fit in before.items()}
    return {name: uninterrupted(fit_member(name, partial(change, fit))) for name, fit in before.items()}


def fit_member(name: str, make: Callable[[], Fit]) -> Fit:
    """A fit of one of several methods, whose warnings start with its name."""
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        found = make()
    if not found.result.diagnostics["interrupted"]:
        for note in found.result.diagnostics["warnings"]:
            warn(f"{name}: {note}", ConvergenceWarning)
    return found


def averaged(fits: Mapping[str, Fit], correction: Correction | None) -> Fit:
    """The fit of the largest weight with the probabilities of all, corrected; the only one, as it is."""
    if correction is None:
        (alone,) = fits.values()
        return alone
    main = fits[correction.main]
    before = None if main.memory is None else main.memory.votes
    raw = {name: fits[name].result.probabilities for name in correction.weights}
    correction = of_classes(correction, raw)
    found = corrected(correction, raw, main.data, before)
    others = {name: fits[name] for name in correction.weights if name != correction.main}
    kept = replace(correction, raw=main.result.probabilities, others=others)
    return replace(main, result=main.result.with_probabilities(found), correction=kept)
