"""Labels drawn from the model of Dawid and Skene, as plain integer arrays."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Drawn:
    """Integer arrays (S,) of items, annotators and labels, and the truth (N,)."""

    item: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    truth: np.ndarray


def draw(n_items: int, per_item: int, n_annotators: int, n_classes: int, seed: int) -> Drawn:
    """Draws labels: every item by ``per_item`` different annotators, classes equally common.

    Rows of the confusions are Dirichlet(1/2 everywhere, 4 more on the diagonal), so that accuracies spread around
    (4.5) / (4 + K / 2): .69 for K = 5.

    Args:
        n_items, per_item, n_annotators, n_classes: sizes.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_items)
    annotator = _different(rng, n_items, per_item, n_annotators).ravel()
    item = np.repeat(np.arange(n_items), per_item)
    weights = 0.5 + 4 * np.eye(n_classes)
    rows = np.stack([rng.dirichlet(row, size=n_annotators) for row in weights], 1)
    steps = rows.cumsum(-1)[annotator, truth[item], :-1]
    label = (steps < rng.random(len(item))[:, None]).sum(1)
    return Drawn(item, annotator, label, truth)


def _different(rng: np.random.Generator, n_rows: int, n: int, below: int) -> np.ndarray:
    """(n_rows, n) whole numbers below a bound, no two the same in a row; rows that repeat one are redrawn."""
    out = rng.integers(below, size=(n_rows, n))
    while True:
        sorted_rows = np.sort(out, 1)
        again = np.flatnonzero((sorted_rows[:, 1:] == sorted_rows[:, :-1]).any(1))
        if not len(again):
            return out
        out[again] = rng.integers(below, size=(len(again), n))
