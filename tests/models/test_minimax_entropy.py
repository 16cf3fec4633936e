"""Minimax entropy: its penalty leaves potentials to annotators with few labels a class."""

from typing import Any

import numpy as np
import pytest

import crowdppl
from tests.crowd import annotations, crowd


def test_the_penalty_is_the_published_one_unless_labels_are_few() -> None:
    """Two classes, 80 labels an annotator: .25; three classes, 15 labels, 5/3 a cell: a precision as large."""
    for n_items, n_classes, wanted in ((100, 2, 0.25), (25, 3, 15 / 9 / 9)):
        model: Any = crowdppl.method("minimax_entropy")
        ready = model.setup(crowd(n_items, 5, n_classes, labels_each=4 if n_classes == 2 else 3))
        assert ready.penalty == pytest.approx(wanted)
    assert crowdppl.method("minimax_entropy", penalty=3.0).setup(crowd()).penalty == 3.0


def test_many_classes_and_few_labels_do_not_fall_together() -> None:
    """Eight classes, 20 labels of each of 15 annotators, 3 an item, of whom two in three are right."""
    rng = np.random.default_rng(0)
    truth, labels = rng.integers(8, size=100), []
    for i, k in enumerate(truth):
        for a in rng.choice(15, 3, replace=False):
            labels.append((i, int(a), int(k if rng.random() < 0.65 else rng.integers(8))))
    how: dict[str, Any] = {"inference": "em", "max_iterations": 30}
    p, heavy = (
        crowdppl.fit("minimax_entropy", annotations(labels, 8), settings=settings, **how).result.probabilities
        for settings in (None, {"penalty": 0.25})
    )
    assert np.equal(p.argmax(1), truth).mean() > 0.6
    assert np.ptp(heavy, 0).max() < 0.5 < np.ptp(p, 0).min()
