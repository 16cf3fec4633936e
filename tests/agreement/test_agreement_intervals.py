"""Intervals of agreement: resamples of items, and how often the intervals hold the truth."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from crowdppl.agreement import votes
from crowdppl.agreement.coefficients import (
    agreement_pairs,
    agreement_table,
    cohen_kappa,
    item_coefficients,
    nearness,
)
from crowdppl.agreement.votes import DeduplicatedVotes, bootstrap_counts
from crowdppl.data.annotations import Annotations
from crowdppl.datasets import anaesthetists
from tests.ratings import BEYOND_CHANCE, NO, graded, random_labels, values


def test_resamples_are_the_items_drawn_again() -> None:
    """Each sample against the coefficients of data in which items are copied as often as they were drawn."""
    sparse = random_labels(7, n_items=60)
    data = graded(sparse)
    held = DeduplicatedVotes.of(data)
    (count,) = bootstrap_counts(60, 5, seed=3)
    assert count.shape == (60, 5)
    assert (count.sum(0) == 60).all()
    near = nearness(4, "quadratic")
    found = item_coefficients(held, data, "quadratic", 5, 3) | {"cohen_kappa": cohen_kappa(held, near, 5, 3)}
    for number in range(5):
        copies = values(graded(np.repeat(sparse, count[:, number].astype(int), axis=0)))
        assert set(found) == set(copies.index)
        for name, each in found.items():
            assert each.resampled[number] == pytest.approx(copies[name], abs=1e-12), name


def test_intervals_are_quantiles_and_the_seed_decides() -> None:
    data = anaesthetists()
    table = agreement_table(data, bootstrap=200, level=0.8, seed=4)
    drawn = cohen_kappa(DeduplicatedVotes.of(data), nearness(4, "identity"), 200, 4)
    ends = table.loc["cohen_kappa", ["low", "high"]].astype(float)
    np.testing.assert_allclose(ends, np.nanquantile(drawn.resampled, [0.1, 0.9]))
    pd.testing.assert_frame_equal(table, agreement_table(data, bootstrap=200, level=0.8, seed=4))
    assert (table["low"] != agreement_table(data, bootstrap=200, level=0.8, seed=5)["low"]).all()
    assert agreement_table(data, bootstrap=0)[["low", "high"]].isna().all(axis=None)


def test_agreement_on_all_of_few_items_is_no_certainty() -> None:
    always = Annotations.from_matrix(np.repeat([[0.0], [1.0]], 15, axis=0).repeat(2, axis=1))
    never = Annotations.from_matrix(np.tile([0.0, 1.0], (30, 1)))
    for data, hits in ((always, 30), (never, 0)):
        ends = agreement_table(data, bootstrap=20, level=0.9).loc["percent_agreement", ["value", "low", "high"]]
        exact = binomtest(hits, 30).proportion_ci(0.9)
        assert ends.tolist() == pytest.approx([hits / 30, exact.low, exact.high])


def test_pieces_make_the_same_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    data = graded(random_labels(8, n_items=80, n_annotators=12, keep=0.4))
    table, pairs = agreement_table(data, bootstrap=50), agreement_pairs(data)
    monkeypatch.setattr(votes, "MAX_PAIRS", 40)
    monkeypatch.setattr(votes, "MAX_SAMPLES", 7)
    assert len(list(votes.annotator_pairs(DeduplicatedVotes.of(data), np.eye(4)))) > 5
    pd.testing.assert_frame_equal(table, agreement_table(data, bootstrap=50), rtol=1e-10)
    pd.testing.assert_frame_equal(pairs, agreement_pairs(data), rtol=1e-10)


SHARES, ACCURACY = np.array([0.5, 0.3, 0.2]), 0.8


def simulated(seed: int, n_items: int = 150) -> Annotations:
    """Five equal annotators, each item labelled by two to four of them."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, n_items, p=SHARES)[:, None]
    wrong = (truth + rng.integers(1, 3, size=(n_items, 5))) % 3
    labels = np.where(rng.random((n_items, 5)) < ACCURACY, truth, wrong).astype(float)
    missing = rng.random((n_items, 5)).argsort(1) >= rng.integers(2, 5, size=(n_items, 1))
    return Annotations.from_matrix(np.where(missing, NO, labels))


def population() -> dict[str, float]:
    """What the coefficients tend to: annotators err evenly and have the same shares of classes."""
    agreed = ACCURACY**2 + (1 - ACCURACY) ** 2 / 2
    share = SHARES * ACCURACY + (1 - SHARES) * (1 - ACCURACY) / 2
    kappa = (agreed - share @ share) / (1 - share @ share)
    chance = share @ (1 - share) / 2
    found = dict.fromkeys(BEYOND_CHANCE, kappa)
    return found | {"percent_agreement": agreed, "gwet_ac1": (agreed - chance) / (1 - chance)}


def coverage(level: float, n: int) -> pd.Series:
    truth = pd.Series(population())
    held = []
    for seed in range(n):
        table = agreement_table(simulated(seed), bootstrap=300, level=level, seed=seed)
        held.append((table["low"] <= truth[table.index]) & (truth[table.index] <= table["high"]))
    return pd.DataFrame(held).mean()


@pytest.mark.slow
def test_intervals_cover() -> None:
    """Cohen's may fall short by more: resampling pairs that share twenty to fifty items biases it."""
    n = 400
    found = coverage(0.95, n)
    error = 3 * np.sqrt(0.95 * 0.05 / n)
    assert len(found) == 5
    assert (found.drop("cohen_kappa") > 0.95 - error - 0.01).all(), found
    assert ((found > 0.88) & (found < 0.95 + error)).all(), found
    assert (coverage(0.6, 60) < 0.8).all(), "the check above can fail"
