"""Places for the nodes of a network, such that linked ones lie close and all keep their distance."""

from __future__ import annotations

import numpy as np

STEPS = 300
START = 0.15
"""How far a node may move in the first step; the last step moves nothing."""
SMALL, MORE = 0.2, 0.1
"""Radius of a network of no nodes, and what each adds: a few do not fill the circle."""
PULL = 1.0
"""Towards the middle, so that parts without a link between them do not drift apart for ever."""


def spring_layout(n: int, one: np.ndarray, other: np.ndarray, seed: int = 0) -> np.ndarray:
    """Lays out a network by springs along its links and repulsion between all nodes.

    Fruchterman & Reingold (1991), "Graph drawing by force-directed placement", with a pull towards the middle.
    Holds matrices (n, n).

    Args:
        n: nodes.
        one, other: ends of the links, (P,) codes each.
        seed: of the start.

    Returns:
        (n, 2) places within the unit circle around 0.
    """
    if n < 2:
        return np.zeros((n, 2))
    place = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    near = np.sqrt(1 / n)
    linked = np.zeros((n, n), bool)
    linked[one, other] = linked[other, one] = True
    for step in range(STEPS):
        apart = place[:, None] - place[None]
        distance = np.maximum(np.sqrt((apart**2).sum(-1)), 1e-3 * near)
        force = near**2 / distance - np.where(linked, distance**2 / near, 0)
        np.fill_diagonal(force, 0)
        push = (apart * (force / distance)[..., None]).sum(1) - PULL * place
        length = np.maximum(np.sqrt((push**2).sum(1, keepdims=True)), 1e-12)
        place = place + push / length * np.minimum(length, START * (1 - (step + 1) / STEPS))
    place = place - (place.max(0) + place.min(0)) / 2
    out: np.ndarray = place * min(1.0, SMALL + MORE * n) / np.sqrt((place**2).sum(1).max())
    return out
