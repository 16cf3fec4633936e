"""The built-in data are those of the paper: maximum likelihood finds its numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from crowdppl.datasets import anaesthetists


def test_the_table_as_published() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = anaesthetists()
    assert (data.n_items, data.n_annotators, data.n_classes, data.n_labels) == (45, 5, 4, 315)
    assert (data.items.tolist(), data.annotators.tolist()) == (list(range(1, 46)), list("12345"))
    assert data.classes.tolist() == [1, 2, 3, 4]
    frame = data.frame()
    assert frame[(frame["item"] == 36) & (frame.annotator == "1")].label.tolist() == [3, 3, 4]
    assert frame[(frame["item"] == 36)].label.tolist() == [3, 3, 4, 4, 3, 4, 3]
    assert data.summary()["repeats"] == 90


def test_maximum_likelihood_is_that_of_the_paper() -> None:
    data = anaesthetists()
    frame = data.frame()
    counts = np.zeros((45, 5, 4))
    np.add.at(counts, (frame["item"] - 1, frame.annotator.astype(int) - 1, frame.label - 1), 1)
    truth = data.votes() / data.votes().sum(1, keepdims=True)
    for _ in range(200):
        prevalence = truth.mean(0)
        confusion = np.einsum("ik,ial->akl", truth, counts)
        confusion /= confusion.sum(2, keepdims=True)
        joint = np.log(prevalence) + np.einsum("ial,akl->ik", counts, np.log(np.maximum(confusion, 1e-300)))
        total = np.logaddexp.reduce(joint, 1)
        truth = np.exp(joint - total[:, None])
    assert prevalence == pytest.approx([0.40, 0.42, 0.11, 0.07], abs=0.005)
    assert total.sum() == pytest.approx(-190.731, abs=0.0005)
