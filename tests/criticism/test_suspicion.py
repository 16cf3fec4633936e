"""Annotators to look at: information by hand, copiers found and honest ones not, groups ranked first."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

import crowdppl
from crowdppl import simulate_annotators
from crowdppl.criticism import collusion, spammers
from crowdppl.criticism.collusion import excess_agreement
from crowdppl.criticism.spammers import covariance_spammers
from crowdppl.criticism.suspicious import suspicious_annotators
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior
from crowdppl.results.annotators import information
from crowdppl.simulation import annotator_kind
from tests.crowd import annotations, crowd


def simulated(
    seed: int,
    *,
    kind: str = "honest",
    some: int = 0,
    share: float = 0.9,
    n_items: int = 1000,
    n_annotators: int = 20,
    n_classes: int = 3,
    each: int = 6,
    hard: float = 0.0,
) -> Annotations:
    """Accuracies from .5 to .9. The first ``some`` annotators give, with probability ``share``, a label that is
    "random" and common to them, or "wrong" and common to them, that of the first ("leader"), or one at random each
    ("spam"). Items are hard for all with probability ``hard``: then everyone guesses."""
    rng = np.random.default_rng(seed)
    shape = (n_items, n_annotators)
    truth = rng.integers(n_classes, size=n_items)
    right = rng.random(shape) < np.where(
        rng.random((n_items, 1)) < hard, 1 / n_classes, rng.uniform(0.5, 0.9, shape[1])
    )
    label = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, n_classes, shape)) % n_classes)
    other = {
        "honest": label[:, :some],
        "random": rng.integers(n_classes, size=(n_items, 1)),
        "wrong": (truth[:, None] + rng.integers(1, n_classes, (n_items, 1))) % n_classes,
        "leader": label[:, :1].copy(),
        "spam": rng.integers(n_classes, size=(n_items, some)),
    }[kind]
    label[:, :some] = np.where(rng.random((n_items, some)) < share, other, label[:, :some])
    seen = np.argsort(rng.random(shape), 1)[:, :each].ravel()
    item = np.repeat(np.arange(n_items), each)
    return Annotations.from_arrays(
        item, seen, label[item, seen], annotators=range(n_annotators), classes=list(range(n_classes))
    )


def fitted(data: Annotations) -> Posterior:
    return fit("dawid_skene", data, inference="em", seed=0)


def auroc(score: np.ndarray, positive: np.ndarray) -> float:
    """Share of (positive, negative) pairs in order; ties count half."""
    apart = score[positive][:, None] - score[~positive][None]
    return float((apart > 0).mean() + (apart == 0).mean() / 2)


def test_information_by_hand() -> None:
    half = np.full(2, 0.5)
    tables = np.array(
        [[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0.5, 0.5]] * 2, [[0.2, 0.8]] * 2, [[0.8, 0.2], [0.2, 0.8]]]
    )
    entropy = -(0.8 * np.log2(0.8) + 0.2 * np.log2(0.2))
    np.testing.assert_allclose(information(tables, half), [1, 1, 0, 0, 1 - entropy], atol=1e-12)
    erasure = np.array([[[0.7, 0, 0.3], [0, 0.7, 0.3]]])  # says nothing in three of ten cases
    skewed = np.array([0.9, 0.1])
    expected = 0.7 * -(0.9 * np.log2(0.9) + 0.1 * np.log2(0.1))
    np.testing.assert_allclose(information(erasure, skewed), [expected])


def test_excess_against_a_loop() -> None:
    data = crowd(n_items=50, n_annotators=4, n_classes=3, labels_each=3, seed=2).with_gold({0: 1, 5: 2})
    posterior = fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    found = excess_agreement(posterior)
    table = 0.99 * posterior.result.table + 0.01 / 3
    rows = data.frame()
    columns = (found.one, found.other, found.agreed, found.expected, found.surplus)
    for one, other, agreed, expected, surplus in zip(*columns, strict=True):
        equal, chance, moments = 0, 0.0, np.zeros(3)
        for item, labels in rows.groupby("item"):
            by = dict(zip(labels["annotator"], labels["label"], strict=True))
            if not {one, other} <= set(by):
                continue
            p = posterior.result.prevalence.copy()
            for a, label in by.items():
                if a not in (one, other):
                    p *= table[a, :, label]
            if item in (0, 5):
                p *= np.arange(3) == {0: 1, 5: 2}[item]
            equal += by[one] == by[other]
            p /= p.sum()
            both, either = p @ (table[one] * table[other]), p @ (table[one] + table[other]) / 2
            chance += both.sum()
            weight = np.log(1 + 0.6 / 0.4 * either / both)
            seen = weight[by[one]] if by[one] == by[other] else 0
            moments += [seen, both @ weight, both @ weight**2 - (both @ weight) ** 2]
        assert (agreed, expected) == (equal, pytest.approx(chance))
        assert surplus == pytest.approx((moments[0] - moments[1]) / np.sqrt(moments[2]))
    assert len(found.one) == 6
    assert (found.met == 3).all()


def test_the_bulk_of_pairs_is_the_measure() -> None:
    z = 2 + 3 * norm.ppf(np.linspace(0.01, 0.99, 99))
    assert collusion.empirical_null(z) == (pytest.approx(2), pytest.approx(3, rel=0.01))
    assert collusion.empirical_null(-abs(z) / 100) == (0, 1)  # never laxer than the model itself
    assert collusion.empirical_null(z[:10]) == (0, 1)


def test_copiers_are_found_with_their_partner() -> None:
    table = suspicious_annotators(fitted(simulated(0, kind="leader", some=2, n_items=600, each=10)))
    assert table.index[table["copying"]].tolist() == [0, 1]
    assert table["partner"].loc[[0, 1]].tolist() == [1, 0]
    assert (table["agreement"] - table["expected"]).loc[0] > 0.1
    assert table["group"].isna().all()  # two are no group
    assert not table["spammer"].any()


@pytest.mark.slow
def test_copiers_are_found_where_they_share_items_enough() -> None:
    """Of 20 annotators with five labels an item, two share some 10 items of 200, and 53 of 1,000."""
    found = {}
    for n_items in (200, 1000):
        crowds = [simulated(n, kind="leader", some=2, share=0.8, n_items=n_items, each=5) for n in range(12)]
        posteriors = [fit("bayesian_dawid_skene", data, inference="vb") for data in crowds]
        found[n_items] = np.mean([suspicious_annotators(p)["copying"].loc[[0, 1]].all() for p in posteriors])
    assert found[200] <= 0.3 and found[1000] >= 0.6


@pytest.mark.slow
def test_shared_errors_find_pairs_that_a_count_of_agreements_does_not() -> None:
    """Two of 20 annotators who share 27 items of 500, at level .01."""
    weighed, counted = [], []
    for seed in range(20):
        rng = np.random.default_rng([seed, 500, 20])
        truth = rng.integers(3, size=500).tolist()
        alone = [annotator_kind("hammer", p=float(p)) for p in rng.uniform(0.6, 0.9, 20)]
        pair = annotator_kind("copying_group", copiers=1, p=0.8, leader=alone[0], own=alone[1])
        made = simulate_annotators(truth, [pair, *alone[2:]], labels_per_item=5, classes=[0, 1, 2], seed=seed)
        found = excess_agreement(fit("bayesian_dawid_skene", made.data, inference="vb", seed=0))
        (both,) = np.flatnonzero((found.one == 0) & (found.other == 1))
        weighed.append(collusion.p_values(found)[both] <= 0.01)
        p = (found.expected / found.shared)[both]
        counted.append(binom.sf(found.agreed[both] - 1, found.shared[both], p) * len(found.one) <= 0.01)
    assert np.mean(weighed) >= 0.4
    assert np.mean(weighed) > np.mean(counted)
    assert (np.array(counted) & ~np.array(weighed)).sum() <= 1


@pytest.mark.slow
def test_honest_crowds_are_flagged_in_a_share_of_the_level_at_most() -> None:
    crowds = [simulated(seed, n_items=n, each=5) for n in (300, 600) for seed in range(100, 130)]
    least = [collusion.p_values(excess_agreement(fitted(data))).min() for data in crowds]
    for level in (0.01, 0.05):
        assert np.sum(np.array(least) <= level) <= binom.ppf(0.999, len(crowds), level)


@pytest.mark.parametrize("kind", ["random", "wrong", "leader"])
def test_colluders_are_ranked_first(kind: str) -> None:
    table = suspicious_annotators(fitted(simulated(0, kind=kind, some=8, n_items=3000, n_annotators=40, each=10)))
    bad = table.index.to_numpy() < 8
    assert auroc(table["collusion"].to_numpy(), bad) >= 0.9
    assert table["group"][~bad].isna().all()
    assert table["group"][bad].nunique() == 1


def test_of_honest_annotators_none_colludes() -> None:
    honest = suspicious_annotators(fitted(simulated(0, n_items=1500, n_annotators=30, each=10)))
    assert (honest["collusion"] == 0).all()
    assert honest["group"].isna().all()


def test_spammers_are_found_by_both_ways() -> None:
    data = simulated(1, kind="spam", some=4, share=1.0, each=10)
    spammer = np.arange(20) < 4
    assert (suspicious_annotators(fitted(data))["spammer"].to_numpy() == spammer).all()
    second = covariance_spammers(data)
    assert set(second["strength"].to_numpy().argsort()[:4]) == {0, 1, 2, 3}
    assert second["spammer"].to_numpy()[:4].all()  # with the weakest of the others, for accuracies go down to .5
    assert second["labels"].sum() == data.n_labels


def test_covariance_strength_is_the_length_of_a_row() -> None:
    data = simulated(5, n_items=6000, n_annotators=12, n_classes=2, each=8)
    strength = covariance_spammers(data)["strength"]
    # two even classes: accuracy above chance, times root of 2 for two classes, by the truth's sd of 1 / 2
    confusion = fitted(data).result.table
    expected = np.abs(confusion[:, 0, 0] + confusion[:, 1, 1] - 1) * np.sqrt(2) / 2
    np.testing.assert_allclose(strength, expected, atol=0.05)


def test_tables_hold_what_is_missing() -> None:
    labels = [(i, a, (i + (a * i) // 7) % 2) for i in range(30) for a in range(3)] + [(30, 3, 0), (30, 4, 1)]
    data = annotations(labels, 2)
    table = suspicious_annotators(fit("bayesian_dawid_skene", data, inference="vb", seed=0))
    assert table["partner"].isna().tolist() == [False] * 3 + [True] * 2
    assert not table["copying"].loc[[3, 4]].any()
    assert table["labels"].tolist() == [30, 30, 30, 1, 1]
    assert table["met"].tolist() == [2, 2, 2, 1, 1] and table["tested"].tolist() == [2, 2, 2, 0, 0]
    pd.testing.assert_index_equal(table.index, data.annotators)


def test_refusals() -> None:
    posterior = fit("majority_vote", crowd(n_items=20), inference="em")
    with pytest.raises(MethodError, match="level=1"):
        suspicious_annotators(posterior, level=1)
    with pytest.raises(MethodError, match="bits=-1"):
        suspicious_annotators(posterior, bits=-1)
    alone = annotations([(0, 0, 0), (1, 1, 1)], 2)
    with pytest.raises(DataError, match="two labels"):
        suspicious_annotators(fit("majority_vote", alone, inference="em"))
    with pytest.raises(DataError, match="0 annotators"):
        covariance_spammers(alone)


def test_many_annotators_are_told_apart_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spammers, "SPARSE_SOLVER", 50)
    design = crowdppl.random_design(500, 60, 5, classes=3, seed=0)
    data = crowdppl.simulate(crowdppl.method("one_coin", right=4, wrong=2), design, seed=0).data
    few = covariance_spammers(data)["strength"]
    alike = Annotations.from_frame(data.frame().assign(label=0), classes=range(3))
    assert (covariance_spammers(alike)["strength"] == 0).all()  # nothing covaries
    monkeypatch.setattr(spammers, "SPARSE_SOLVER", 10_000)
    np.testing.assert_allclose(few, covariance_spammers(data)["strength"], atol=1e-8)


def test_no_strength_exceeds_what_an_annotator_varies() -> None:
    data = simulated(4, n_items=60, n_annotators=30, each=3)  # pairs share hardly any item
    strength = covariance_spammers(data)["strength"]
    rates = data.frame().groupby("annotator")["label"].value_counts(normalize=True).unstack(fill_value=0)
    own = np.sqrt(1 - (rates**2).sum(axis=1))
    assert (strength <= own + 1e-9).all()
    assert (strength > 0.9 * own).any()  # the bound is met


@pytest.mark.parametrize("kind", ["real", "count", "angle", "whole turns"])
def test_of_numbers_random_labels_and_copies_are_found_and_honest_ones_are_not(kind: str) -> None:
    """Annotators 0 and 1 answer at random, and 3 repeats 2."""
    rng = np.random.default_rng(0)
    shape = (300, 12)
    truth, sd = rng.normal(0, 1, (300, 1)), rng.uniform(0.3, 0.8, 12)
    label = truth + rng.normal(0, 0.5, 12) + sd * rng.normal(size=shape)
    label[:, :2] = 1.2 * rng.normal(size=(300, 2))
    label[:, 3] = label[:, 2]
    to_kind = {"real": label, "count": np.floor(np.exp(0.5 * label + 4)), "angle": (60 * label) % 360}
    to_kind["whole turns"] = (60 * label + 90 * (np.arange(300)[:, None] % 4)) % 360
    to_kind["whole turns"][:, :2] = rng.uniform(0, 360, (300, 2))
    seen = np.argsort(rng.random(shape), 1)[:, :6].ravel()
    item = np.repeat(np.arange(300), 6)
    data = Annotations.from_arrays(
        item, seen, to_kind[kind][item, seen], kind="angle" if kind == "whole turns" else kind
    )
    method = {"real": "gaussian_annotators", "count": "poisson_annotators"}.get(kind, "von_mises_annotators")
    found = suspicious_annotators(fit(method, data, inference="vb", seed=0, max_iterations=30))
    assert [*found.index[found["spammer"]]] == [0, 1]
    copied = [*found.index[found["copying"]]]  # errors of counts vary with the item, which hides copies
    assert found["partner"][2] == 3 and (copied == [2, 3] or (kind == "count" and not copied))
    assert found["group"].isna().all() and (found["labels"] == np.bincount(seen)).all()
    assert (found["information"][2:] > 0.1).all()


def test_of_few_numbers_nobody_is_suspected() -> None:
    found = suspicious_annotators(fit("poisson_annotators", crowdppl.datasets.example("count"), seed=0))
    assert not found["spammer"].any() and not found["copying"].any() and found["partner"].isna().all()


@pytest.mark.parametrize(("kind", "method"), [("ranking", "plackett_luce"), ("ordinal", "rater_facets")])
def test_ranks_and_places_on_a_scale_are_refused_by_name(kind: str, method: str) -> None:
    posterior = fit(method, crowdppl.datasets.example(kind), inference="em", seed=0)
    with pytest.raises(DataError, match=f"takes no .* by {method}; posterior.annotators"):
        suspicious_annotators(posterior)


def test_one_annotator_of_another_scale_hides_nobody() -> None:
    """The last answers at random from 0 to 1000 where truths lie between 0 and 5: a mean of others would be his."""
    rng = np.random.default_rng(0)
    label = rng.uniform(0, 5, (60, 1)) + 0.3 * rng.normal(size=(60, 6))
    label[:, 5] = rng.uniform(0, 1000, 60)
    item, annotator = np.indices(label.shape).reshape(2, -1)
    data = Annotations.from_arrays(item, annotator, label.ravel(), kind="real")
    found = suspicious_annotators(fit("gaussian_annotators", data, seed=0))
    assert [*found.index[found["spammer"]]] == [5]
    assert (found["information"][:5] > 1).all()
