"""Mixed membership: honest about items that lie between classes, where Dawid-Skene is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import crowdppl
from crowdppl.comparison import compare
from crowdppl.metrics import evaluate


@pytest.mark.parametrize("k", [2, 3, 5, 6, 10])
def test_atoms_are_shares_each_once(k: int) -> None:
    found = crowdppl.class_atoms(k).exp()
    assert found.shape[1] == k and bool((found >= 0).all())
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(found[:k], torch.eye(k), atol=1e-30)
    assert len(torch.unique((1e4 * found).round(), dim=0)) == len(found)


def test_on_its_own_data_it_is_calibrated_and_dawid_skene_is_too_sure() -> None:
    story = crowdppl.method("mixed_membership", mass=20.0, diagonal=0.85)
    design = crowdppl.random_design(800, 12, 6, classes=3, seed=1)
    made = crowdppl.simulate(story, design, seed=2)
    own, plain = (
        crowdppl.fit(name, made.data, inference="vb", tolerance=1e-6)
        for name in ("mixed_membership", "bayesian_dawid_skene")
    )
    scores, others = evaluate(own, made.truth), evaluate(plain, made.truth)
    assert scores.log_score < others.log_score - 0.1
    assert scores.ece < 0.06 < others.ece
    table = compare(
        ["mixed_membership", "bayesian_dawid_skene"], made.data, inference="vb", folds=3, tolerance=1e-6
    )
    assert table.best == "mixed_membership"
    assert table.table["difference"].iloc[1] < -2 * table.table["difference_se"].iloc[1]
