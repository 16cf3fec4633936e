"""Exact posteriors of tiny data: every state of the discrete variables in turn, Dirichlets integrated out.

Nothing here is shared with the library but the names of the sites and of the settings.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

Label = tuple[int, int, int]
Rows = dict[str, tuple[np.ndarray, np.ndarray]]  # by site: prior concentrations (..., K) and counts of one state
State = tuple[tuple[int, ...], Rows, float]  # the truths, the rows, a further log-weight


@dataclass(frozen=True)
class Exact:
    """The posterior: truth (N, K), first and second moments of each Dirichlet site, and the log evidence."""

    log_evidence: float
    truth: np.ndarray
    mean: dict[str, np.ndarray]
    square: dict[str, np.ndarray]


def beta(c: np.ndarray) -> np.ndarray:
    """Log of the Dirichlet's normaliser, row by row."""
    return np.asarray(gammaln(c).sum(-1) - gammaln(c.sum(-1)))


def exact(states: Iterable[State], n_classes: int) -> Exact:
    """Adds up all states of the discrete variables."""
    logs, truths, means, squares = [], [], [], []
    for truth, rows, extra in states:
        logs.append(extra + sum(float((beta(c + n) - beta(c)).sum()) for c, n in rows.values()))
        truths.append(np.eye(n_classes)[list(truth)])
        after = {name: c + n for name, (c, n) in rows.items()}
        total = {name: c.sum(-1, keepdims=True) for name, c in after.items()}
        means.append({name: c / total[name] for name, c in after.items()})
        squares.append({name: c * (c + 1) / (total[name] * (total[name] + 1)) for name, c in after.items()})
    evidence = float(logsumexp(logs))
    weight = np.exp(np.array(logs) - evidence)

    def average(values: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        return {n: np.einsum("s,s...->...", weight, np.stack([v[n] for v in values])) for n in values[0]}

    return Exact(evidence, np.einsum("s,sik->ik", weight, np.stack(truths)), average(means), average(squares))


def leaning(k: int, mass: float = 1.8, diagonal: float = 0.61) -> np.ndarray:
    """Concentrations (K, K) of confusion rows."""
    return mass * np.where(np.eye(k) > 0, diagonal, (1 - diagonal) / (k - 1))


def _sizes(labels: list[Label]) -> tuple[int, int]:
    return 1 + max(i for i, _, _ in labels), 1 + max(a for _, a, _ in labels)


def _prevalence(truth: tuple[int, ...], k: int) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(k), np.bincount(truth, minlength=k).astype(float)


def bayesian_dawid_skene(labels: list[Label], k: int) -> Iterator[State]:
    n_items, n_annotators = _sizes(labels)
    prior = np.broadcast_to(leaning(k), (n_annotators, k, k))
    for truth in product(range(k), repeat=n_items):
        counts = np.zeros((n_annotators, k, k))
        for i, a, label in labels:
            counts[a, truth[i], label] += 1
        yield truth, {"prevalence": _prevalence(truth, k), "confusion": (prior, counts)}, 0.0


def mace(labels: list[Label], k: int) -> Iterator[State]:
    n_items, n_annotators = _sizes(labels)
    for truth in product(range(k), repeat=n_items):
        choices = [(0, 1) if label == truth[i] else (1,) for i, _, label in labels]
        for guessed in product(*choices):
            coins, guess = np.zeros((n_annotators, 2)), np.zeros((n_annotators, k))
            for (_, a, label), g in zip(labels, guessed, strict=True):
                coins[a, g] += 1
                guess[a, label] += g
            rows = {
                "prevalence": _prevalence(truth, k),
                "competence": (np.ones_like(coins), coins),
                "guess": (np.ones_like(guess), guess),
            }
            yield truth, rows, 0.0


def community(labels: list[Label], k: int, m: int = 2) -> Iterator[State]:
    n_items, n_annotators = _sizes(labels)
    prior = np.broadcast_to(leaning(k), (m, k, k))
    for truth in product(range(k), repeat=n_items):
        for member in product(range(m), repeat=n_annotators):
            counts = np.zeros((m, k, k))
            for i, a, label in labels:
                counts[member[a], truth[i], label] += 1
            rows = {
                "prevalence": _prevalence(truth, k),
                "weights": (np.full(m, 1.0 / m), np.bincount(member, minlength=m).astype(float)),
                "shared": (prior, counts),
            }
            yield truth, rows, 0.0


STATES = {"bayesian_dawid_skene": bayesian_dawid_skene, "mace": mace, "community": community}
SETTINGS: dict[str, dict[str, Any]] = {
    "bayesian_dawid_skene": {
        "prevalence": "learned",
        "prevalence_strength": 1.0,
        "prior_strength": 1.8,
        "prior_accuracy": 0.61,
    },
    "mace": {"prevalence": "learned", "knows": 1.0, "guesses": 1.0, "guess": 1.0},
    "community": {
        "prevalence": "learned",
        "communities": 2,
        "sparsity": 1.0,
        "prior_strength": 1.8,
        "prior_accuracy": 0.61,
    },
}
"""The settings under which the methods tell the models above."""
