"""Estimates without a model that benchmarks show."""

import numpy as np
import pandas as pd
import pytest

from tests.benchmarks import peers

CHI2 = {4: 0.4844, 2: 0.0506}
"""The 2.5 % points of a table of chi squared, by degrees of freedom."""


def table(labels: np.ndarray) -> pd.DataFrame:
    """Rows of labels[item, annotator], without those that are NaN."""
    item, annotator = np.nonzero(~np.isnan(labels))
    return pd.DataFrame({"item": item, "annotator": annotator, "label": labels[item, annotator]})


def test_ghosh_follows_good_annotators_and_turns_those_who_reverse_the_scale() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=200)
    near = np.clip(truth + rng.choice([-1, 0, 1], p=[0.1, 0.8, 0.1], size=(5, 200)), 0, 3)
    rows = table(np.vstack([near, 3 - truth, rng.integers(4, size=(3, 200))]).T)
    assert (peers.ghosh(rows, 4).sort_index() == truth).mean() > 0.95


def test_ghosh_is_the_first_eigenvector_of_agreement() -> None:
    rng = np.random.default_rng(1)
    labels = np.where(rng.random((30, 6)) < 0.6, rng.integers(3, size=30)[:, None] + np.zeros(6), np.nan)
    labels[::4, 0], labels[:, 5] = 2, 0
    above = []
    for grade in range(2):
        signs = np.nan_to_num(np.where(np.isnan(labels), 0, np.where(labels > grade, 1, -1)))
        first = np.linalg.eigh(signs @ signs.T)[1][:, -1]
        above.append(first * np.sign(first @ signs.sum(1)) > 0)
    wanted = np.where(above[0], np.where(above[1], 2, 1), 0)
    assert (peers.ghosh(table(labels), 3).sort_index() == wanted).all()


@pytest.mark.parametrize("name", ["crh", "catd"])
def test_truths_are_the_means_under_the_weights_that_they_give(name: str) -> None:
    rng = np.random.default_rng(2)
    labels = rng.normal(size=(4, 1)) + rng.normal(size=(4, 3)) * [0.5, 1.0, 2.0]
    labels[2:, 2] = np.nan
    truth = getattr(peers, name)(table(labels)).sort_index().to_numpy()
    squares, there = (labels - truth[:, None]) ** 2, ~np.isnan(labels)
    if name == "crh":
        loss = np.nanmean(squares / np.nanstd(labels, axis=1, keepdims=True), axis=0)
        weight = np.log(loss.sum() / loss)
    else:
        weight = np.array([CHI2[n] for n in there.sum(0)]) / np.nansum(squares, axis=0)
    again = np.nansum(weight * labels, axis=1) / (weight * there).sum(1)
    assert truth == pytest.approx(again, abs=2e-3 if name == "catd" else 1e-6)
    assert np.abs(truth - np.nanmean(labels, axis=1)).max() > 0.01
