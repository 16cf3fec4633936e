"""Published and random labels, and the coefficients of agreement by loops over pairs."""

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.agreement.coefficients import agreement_table
from crowdppl.data.annotations import Annotations

NO = np.nan
# Four raters and twelve units of Krippendorff (2011), with missing labels.
UNITS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NO, NO, NO],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NO, 3],
        [NO, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NO],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NO],
    ]
).T
# Two abstractors of Gwet (2014).
ABSTRACTORS = np.array([[13, 0, 0], [0, 20, 7], [0, 4, 56]])
BEYOND_CHANCE = ["cohen_kappa", "fleiss_kappa", "krippendorff_nominal", "gwet_ac1"]


def values(data: Annotations, **options: Any) -> pd.Series:
    return agreement_table(data, bootstrap=0, **options)["value"]


def graded(matrix: np.ndarray, **options: Any) -> Annotations:
    return Annotations.from_matrix(matrix, kind="ordinal", **options)


def two(table: np.ndarray) -> np.ndarray:
    """Items by two annotators whose labels fall into a table (K, K)."""
    first, second = np.nonzero(table)
    return np.repeat(np.stack([first, second], 1), table[first, second], axis=0)


def random_labels(seed: int, n_items: int = 30, n_annotators: int = 6, k: int = 4, keep: float = 0.7) -> np.ndarray:
    """Labels that lean on a truth, some missing: float (N, A)."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n_items)[:, None]
    labels = np.where(
        rng.random((n_items, n_annotators)) < 0.5, truth, rng.integers(k, size=(n_items, n_annotators))
    )
    return np.where(rng.random(labels.shape) < keep, labels, NO)


def rows_of(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    item, annotator = np.nonzero(np.isfinite(matrix))
    return item, annotator, matrix[item, annotator].astype(int)


def distance(k: int, weights: str) -> np.ndarray:
    steps = np.abs(np.subtract.outer(np.arange(k), np.arange(k))) / (k - 1)
    return {"identity": (steps > 0).astype(float), "linear": steps, "quadratic": steps**2}[weights]


def literal(item: Any, annotator: Any, answer: Any, k: int, weights: str) -> dict[str, float]:
    """The coefficients by loops over pairs of ballots: {annotator: shares of classes} for every item."""
    items: dict[Any, dict[Any, np.ndarray]] = {}
    for i, a, y in zip(item, annotator, answer, strict=True):
        items.setdefault(i, {}).setdefault(a, np.zeros(k))[y] += 1
    shares = [{a: f / f.sum() for a, f in ballot.items()} for ballot in items.values()]
    several = [ballot for ballot in shares if len(ballot) > 1]

    def agreement(w: np.ndarray) -> float:
        return float(np.mean([np.mean([f @ w @ g for f, g in permutations(b.values(), 2)]) for b in several]))

    pi = np.mean([np.mean(list(ballot.values()), axis=0) for ballot in shares], axis=0)
    w = 1 - distance(k, weights)
    found = {"percent_agreement": agreement(np.eye(k))}
    found["fleiss_kappa"] = (agreement(np.eye(k)) - pi @ pi) / (1 - pi @ pi)
    for name, near in (("gwet_ac1", np.eye(k)), ("gwet_ac2", w)):
        chance = near.sum() / (k * (k - 1)) * np.sum(pi * (1 - pi))
        found[name] = (agreement(near) - chance) / (1 - chance)
    o = sum(sum(np.outer(f, g) for f, g in permutations(b.values(), 2)) / (len(b) - 1) for b in several)
    n = o.sum(0)
    expected = (np.outer(n, n) - np.diag(n)) / (n.sum() - 1)
    between = [[n[min(c, d) : max(c, d) + 1].sum() - (n[c] + n[d]) / 2 for d in range(k)] for c in range(k)]
    for name, delta in (
        ("krippendorff_nominal", 1 - np.eye(k)),
        ("krippendorff_ordinal", np.array(between) ** 2),
        ("krippendorff_interval", distance(k, "quadratic")),
    ):
        found[name] = 1 - (o * delta).sum() / (expected * delta).sum()
    kappas, shared = [], []
    for a, b in combinations(sorted({a for ballot in shares for a in ballot}), 2):
        both = [(ballot[a], ballot[b]) for ballot in shares if a in ballot and b in ballot]
        if len(both) > 1:
            table = sum(np.outer(f, g) for f, g in both) / len(both)
            chance = np.sum(np.outer(table.sum(1), table.sum(0)) * w)
            if chance < 1 - 1e-9:
                kappas.append((np.sum(table * w) - chance) / (1 - chance))
                shared.append(len(both))
    found["cohen_kappa"] = float(np.average(kappas, weights=shared)) if kappas else NO
    return found
