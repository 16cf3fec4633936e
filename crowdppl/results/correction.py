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
from crowdppl.results.votes_map import VotesMap, centred_logs

MIN_GOLD = 10
"""The least number of known truths to which a map is fitted."""
SCALE_SD = 0.5
"""Prior standard deviation of a log scale, and of the shifts with it."""
RATES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Correlations of an item's labels among which held-out labels choose."""
SOFT, ALONE = 3.0, 0.2
"""T of p^(1/T) of a method alone, from which maps start beside the average, and the prior weight of all these."""
LEAST = 1e-300
"""Probabilities are clipped here before the discount: evidence beyond 690 nats counts as 690."""


def fit_scale(probabilities: np.ndarray, truth: np.ndarray) -> tuple[float, np.ndarray]:
    """Scale and shift of softmax(scale * log p + shift): the mode, given known truths, codes (n,).

    Guo et al. 2017, "On calibration of modern neural networks", with Gaussian priors of standard deviation 1/2 on
    the log scale and the shifts.
    """
    from scipy.optimize import minimize  # slow to import

    x, k = centred_logs(probabilities), probabilities.shape[1]
    hit = np.eye(k)[truth]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        scale, shift = np.exp(theta[0]), theta[1:]
        p = softmax(scale * x + shift)
        error = p - hit
        value = -np.log(np.clip((p * hit).sum(1), 1e-300, None)).sum() + (theta**2).sum() / (2 * SCALE_SD**2)
        slope = np.concatenate([[scale * (error * x).sum()], error.sum(0)]) + theta / SCALE_SD**2
        return float(value), slope

    best = minimize(loss, np.zeros(k + 1), jac=True, method="L-BFGS-B").x
    return float(np.exp(best[0])), best[1:]


def softmax(x: np.ndarray) -> np.ndarray:
    """Shares along the last dimension, proportional to exp(x)."""
    from scipy.special import softmax as shares  # slow to import

    return np.asarray(shares(x, axis=-1))


def corrected(
    correction: Correction, found: Mapping[str, np.ndarray], data: Annotations, before: np.ndarray | None = None
) -> np.ndarray:
    """Discounted, averaged, softened and mapped probabilities, (N, K), of those of each method; a known truth is
    certain. Earlier fits had ``before`` labels, (N,), of these items.
    """
    out = _average(correction, found, data, before)
    if correction.truth_map is not None:
        out = VotesMap.of(_with_each(out, correction, found), data).mapped(correction.truth_map)
    if data.gold_codes is not None:
        known = np.flatnonzero(data.gold_codes >= 0)
        out[known] = np.eye(data.n_classes)[data.gold_codes[known]]
    return np.asarray(out)


def forecasts_of(correction: Correction, found: Mapping[str, np.ndarray], data: Annotations) -> list[np.ndarray]:
    """From which maps start, (N, K) each: the average of discounted methods, softened, and each to p^(1/3)."""
    return _with_each(_average(correction, found, data), correction, found)


def _with_each(average: np.ndarray, correction: Correction, found: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    return [average, *(softened(found[name], SOFT) for name in correction.weights)]


def _average(
    correction: Correction, found: Mapping[str, np.ndarray], data: Annotations, before: np.ndarray | None = None
) -> np.ndarray:
    """Discounted, averaged and softened probabilities, (N, K)."""
    labels, out = data.votes().sum(1), np.zeros((data.n_items, data.n_classes))
    labels = labels if before is None else labels + before
    for name, weight in correction.weights.items():
        out += weight * design_effect(found[name], labels, correction.rates[name])
    out = out / out.sum(1, keepdims=True)
    if correction.temperature is not None and correction.shares is not None:
        out = softened_to(correction.shares, out, correction.temperature)
    return np.asarray(out)


def map_of(correction: Correction, found: Mapping[str, np.ndarray], data: Annotations, seed: int) -> CalibrationMap:
    """The map of the known truths of annotations, from probabilities of methods that were not given them.

    Methods that have no weight in the average are forecasts, too.
    """
    assert data.gold_codes is not None
    known = np.flatnonzero(data.gold_codes >= 0)
    prior = [1 - ALONE, *([ALONE / len(correction.weights)] * len(correction.weights))]
    votes = VotesMap.of(forecasts_of(correction, found, data), data)
    return votes.learned(known, np.eye(data.n_classes)[data.gold_codes[known]], prior, seed)


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


def members_after(posterior: Fit, data: Annotations, change: Callable[[Fit, Annotations], Fit]) -> dict[str, Fit]:
    """The members, each after a change that fits it again; KeyboardInterrupt where Ctrl-C stops one of several.

    Where probabilities are mapped to known truths, these stay hidden from the members.
    """
    before = {name: blind(fit) if mapped(posterior) else fit for name, fit in members(posterior).items()}
    shown = data.with_gold(None) if mapped(posterior) else data
    if len(before) == 1:
        found = {name: change(fit, shown) for name, fit in before.items()}
    else:
        found = {name: uninterrupted(fit_member(name, partial(change, fit, shown))) for name, fit in before.items()}
    return {name: replace(fit, data=data) for name, fit in found.items()}


def mapped(posterior: Fit) -> bool:
    """Whether probabilities are mapped to known truths, which the fits themselves were not given."""
    return posterior.correction is not None and posterior.correction.truth_map is not None


def blind(posterior: Fit) -> Fit:
    """A fit whose annotations tell no truths."""
    return replace(posterior, data=posterior.data.with_gold(None))


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
