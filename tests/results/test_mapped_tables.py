"""Accuracies where probabilities are mapped to known truths: by hand, and of a panel that errs alike."""

import numpy as np
import pytest

import crowdppl
from crowdppl.posterior import Posterior
from crowdppl.results import mapped_tables
from crowdppl.results.mapped_tables import SHRINKAGE
from tests.crowd import annotations, crowd


def panel(n: int, seed: int) -> tuple[crowdppl.Annotations, np.ndarray, np.ndarray]:
    """Five annotators who see one wrong reading of a quarter of the items, with truths and their shares right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    seen = np.where(rng.random(n) < 0.25, 1 - truth, truth)
    label = np.where(rng.random((n, 5)) < [0.95, 0.9, 0.85, 0.9, 0.8], seen[:, None], 1 - seen[:, None])
    data = annotations([(i, j, int(label[i, j])) for i in range(n) for j in range(5)], 2)
    return data, truth, (label == truth[:, None]).mean(0)


@pytest.fixture(scope="module")
def known() -> Posterior:
    """A fit to items of which all truths are known."""
    gold = {i: i % 3 for i in range(60)}
    return crowdppl.fit("one_coin", crowd(n_items=60), inference="em", calibrate=True, gold=gold)


def test_where_all_truths_are_known_tables_are_counts_and_a_few_of_the_crowd(known: Posterior) -> None:
    item, annotator, answer = known.data.label_codes()
    counts = np.zeros((6, 3, 3))
    np.add.at(counts, (annotator, item % 3, answer), 1)
    every = counts.sum(0) + 1 / 3
    every = every / every.sum(1, keepdims=True)
    want = (counts + SHRINKAGE / 3 * every) / (counts.sum(2, keepdims=True) + SHRINKAGE / 3)
    np.testing.assert_allclose(known.confusion(), want, atol=0.05)
    drawn = known.confusion(draws=True).std("draw").to_numpy()
    sd = np.sqrt(want * (1 - want) / (counts.sum(2, keepdims=True) + SHRINKAGE / 3 + 1))
    np.testing.assert_allclose(drawn, sd, atol=0.03)
    accuracy = known.annotators()["accuracy"]
    np.testing.assert_allclose(
        accuracy, (known.prevalence()["mean"].to_numpy() * want.diagonal(0, 1, 2)).sum(1), atol=0.04
    )


def test_large_tables_are_kept_as_coins(known: Posterior, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_tables, "LARGE_TABLE", 10)
    item, annotator, answer = known.data.label_codes()
    right, n = (np.bincount(annotator, x, 6) for x in ((answer == item % 3).astype(float), None))
    want = (right + SHRINKAGE * right.sum() / n.sum()) / (n + SHRINKAGE)
    found = known.annotators()
    np.testing.assert_allclose(found["accuracy"], want, atol=0.03)
    assert (found["accuracy_low"] < found["accuracy"]).all() and (found["accuracy_high"] < 1).all()


def test_accuracies_move_with_known_truths_and_so_do_their_intervals() -> None:
    """Without any the panel looks nearly as good as it agrees; with 60 most intervals hold what is so."""
    held = []
    for seed in range(3):
        data, truth, right = panel(500, seed=seed)
        gold = dict(enumerate(truth[:60].tolist()))
        blind = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0)
        found = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0, calibrate=True, gold=gold)
        before, after = blind.annotators(), found.annotators()
        assert (before["accuracy_low"] > right).all()
        held += [*((after["accuracy_low"] < right) & (right < after["accuracy_high"]))]
        assert np.abs(after["accuracy"] - right).mean() < np.abs(before["accuracy"] - right).mean() / 2
        p, (item, annotator, answer) = found.probabilities().to_numpy(), data.label_codes()
        expected = np.bincount(annotator, p[item, answer]) / 500
        np.testing.assert_allclose(after["accuracy"], expected, atol=0.03)
        surer = [
            x[60:].max(1).mean() - (x[60:].argmax(1) == truth[60:]).mean() for x in (blind.result.probabilities, p)
        ]
        assert surer[1] < surer[0] / 1.5
    assert np.mean(held) >= 0.7
