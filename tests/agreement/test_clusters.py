"""Groups are found where annotators err together, and nowhere else."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

import crowdppl
from crowdppl.agreement.clusters import CodedLabels, Fitted, find_in_codes, fit_groups, independence
from crowdppl.data.annotations import Annotations
from crowdppl.datasets import anaesthetists
from crowdppl.errors import MethodError
from crowdppl.primitives.mixtures import group_codes


def rows(share: float, n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """Random tables (n, K, K) with about this share on the diagonal."""
    mean = share * np.eye(k) + (1 - share) / (k - 1) * (1 - np.eye(k))
    draws = rng.gamma(20 * mean, size=(n, k, k))
    return draws / draws.sum(-1, keepdims=True)


def draw(table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.random((*table.shape[:-1], 1)) > table.cumsum(-1)[..., :-1]).sum(-1)


def crowd(
    groups: np.ndarray, seed: int, n: int = 600, k: int = 3, link: float = 0.7, own: float = 0.85, each: int = 0
):
    """Labels of annotators who share their group's opinion; someone alone sees the truth. Returns labels, truth."""
    rng = np.random.default_rng(seed)
    truth, size = rng.integers(k, size=n), np.bincount(groups)
    opinion = draw(rows(link, len(size), k, rng)[:, truth], rng)
    opinion[size == 1] = truth
    label = draw(rows(own, len(groups), k, rng)[np.arange(len(groups))[:, None], opinion[groups]], rng)
    given = rng.random((n, len(groups))).argsort(1).argsort(1) < (each or len(groups))
    item, annotator = np.nonzero(given)
    return CodedLabels(item, annotator, label[annotator, item], n, len(groups), k, k), truth


def accuracy(fit: Fitted, truth: np.ndarray) -> float:
    return float(np.mean(fit.truth.argmax(1) == truth))


GROUPED = np.repeat(np.arange(4), 5)
UNEQUAL = np.repeat(np.arange(5), (8, 4, 3, 1, 1))
ALONE = np.arange(20)


@pytest.mark.slow
@pytest.mark.parametrize("each", [0, 6])
def test_groups_are_recovered_and_help_on_average(each: int) -> None:
    gains = []
    for seed in range(3):
        labels, truth = crowd(GROUPED, seed, n=1000, each=each)
        found = find_in_codes(labels)
        assert adjusted_rand_score(GROUPED, found) >= 0.9
        gains.append(accuracy(fit_groups(labels, found), truth) - accuracy(fit_groups(labels, ALONE), truth))
    assert np.mean(gains) > 0


@pytest.mark.slow
def test_a_group_that_passes_for_the_truth_is_found() -> None:
    index, gains = [], []
    for seed in range(3):
        labels, truth = crowd(UNEQUAL, seed, n=1500)
        found = find_in_codes(labels)
        index.append(adjusted_rand_score(UNEQUAL, found))
        gains.append(
            accuracy(fit_groups(labels, found), truth) - accuracy(fit_groups(labels, np.arange(17)), truth)
        )
    assert np.mean(index) >= 0.9
    assert np.mean(gains) > 0.05


@pytest.mark.parametrize(("n", "k", "own", "each"), [(108, 2, 0.75, 0), (300, 3, 0.8, 0), (300, 3, 0.7, 5)])
def test_independent_annotators_stay_alone(n: int, k: int, own: float, each: int) -> None:
    alone = [
        len(np.unique(find_in_codes(crowd(ALONE, seed, n, k, own=own, each=each)[0]))) == 20 for seed in range(10)
    ]
    assert all(alone)


def test_copies_of_ones_own_labels_are_no_agreement_with_others() -> None:
    for seed in range(5):
        labels, _ = crowd(ALONE, seed, 108, 2, own=0.75)
        again = np.random.default_rng(seed).random(len(labels.item)) < 0.4
        copied = labels.take(np.concatenate([np.arange(len(labels.item)), np.flatnonzero(again)]))
        assert np.array_equal(find_in_codes(copied), find_in_codes(labels))


def test_the_test_of_independence_can_fail() -> None:
    p = [independence(labels, fit_groups(labels, ALONE)) for labels in (crowd(g, 1)[0] for g in (ALONE, GROUPED))]
    assert p[0] > 0.01 > 1e-6 > p[1]
    labels, _ = crowd(GROUPED, 1)
    rng = np.random.default_rng(0)
    shuffled = labels.answer.copy()
    for annotator in range(20):  # the same answers of each annotator, on other items: nothing left to find
        own = labels.annotator == annotator
        shuffled[own] = rng.permutation(shuffled[own])
    broken = CodedLabels(labels.item, labels.annotator, shuffled, *(600, 20, 3, 3))
    assert adjusted_rand_score(GROUPED, find_in_codes(broken)) < 0.1


def test_the_fit_is_a_maximum_of_the_brute_force_likelihood() -> None:
    labels, _ = crowd(np.array([0, 0, 0, 1, 2, 2]), 3, n=40, k=2)
    groups = np.array([0, 0, 0, 1, 2, 2])
    before, after = (fit_groups(labels, groups, tolerance=t) for t in (1.0, 1e-9))
    assert after.log_likelihood > before.log_likelihood
    alone = fit_groups(labels, np.arange(6), tolerance=1e-12)
    table = np.log(alone.confusion)
    joint = np.tile(np.log(alone.truth.mean(0)), (40, 1))
    np.add.at(joint, labels.item, table[labels.annotator, :, labels.answer])
    assert logsumexp(joint, axis=1).sum() == pytest.approx(alone.log_likelihood, abs=1e-4)


def test_row_order_and_items_without_labels_change_nothing_and_renaming_renames() -> None:
    labels, _ = crowd(GROUPED, 5, n=200)
    found = find_in_codes(labels)
    order = np.random.default_rng(0).permutation(len(labels.item))
    assert np.array_equal(found, find_in_codes(labels.take(order)))
    spread = CodedLabels(labels.item * 3 + 1, labels.annotator, labels.answer, 700, 20, 3, 3)
    assert np.array_equal(found, find_in_codes(spread))
    name = np.random.default_rng(1).permutation(20)
    renamed = CodedLabels(labels.item, name[labels.annotator], labels.answer, 200, 20, 3, 3)
    assert adjusted_rand_score(found, find_in_codes(renamed)[name]) == 1.0


def test_abstentions_are_answers_that_are_no_class() -> None:
    labels, _ = crowd(GROUPED, 2, n=1000)
    answer = np.where(np.random.default_rng(0).random(len(labels.item)) < 0.1, 3, labels.answer)
    found = find_in_codes(CodedLabels(labels.item, labels.annotator, answer, 1000, 20, 3, 4))
    assert adjusted_rand_score(GROUPED, found) >= 0.9


def test_more_labels_than_asked_for_are_thinned() -> None:
    labels, _ = crowd(GROUPED, 0, n=2000)
    assert adjusted_rand_score(GROUPED, find_in_codes(labels, max_labels=15_000)) >= 0.9


def test_as_many_groups_are_found_as_are_asked_for() -> None:
    labels, _ = crowd(GROUPED, 0)
    assert adjusted_rand_score(GROUPED, find_in_codes(labels, n_groups=4)) == 1
    for n_groups in (1, 2, 7, 20):
        assert len(np.unique(find_in_codes(labels, n_groups=n_groups))) == n_groups
    data = anaesthetists()
    found: Any = crowdppl.fit("dependent_clusters", data, inference="vb", settings={"n_groups": 3}).model
    assert len(set(found.groups)) == 3 and found.groups == crowdppl.find_groups(data, n_groups=3).tolist()
    for settings in ({"n_groups": 6}, {"n_groups": 2, "groups": [0, 0, 1, 1, 1]}):
        with pytest.raises(MethodError, match="n_groups="):
            crowdppl.fit("dependent_clusters", data, inference="vb", settings=settings)


def test_limits_are_refused_by_value() -> None:
    one = np.zeros(1, int)
    with pytest.raises(MethodError, match="5000"):
        find_in_codes(CodedLabels(one, one, one, 1, 5000, 2, 2))
    with pytest.raises(MethodError, match="alpha=2"):
        find_in_codes(CodedLabels(one, one, one, 1, 1, 2, 2), alpha=2)
    assert find_in_codes(CodedLabels(one, one, one, 1, 1, 2, 2)).tolist() == [0]


@pytest.mark.parametrize(
    ("groups", "named"),
    [
        ("x", "groups='x'"),
        ([["1"], ["3"]], "groups="),
        ([0, 0, 1], r"groups=\[0, 0, 1\]"),
        ({"1": ["a"]}, "groups="),
    ],
)
def test_groups_that_name_no_group_of_each_annotator(groups: Any, named: str) -> None:
    assert group_codes(torch.tensor([2, 2, 0, 2, 0]), anaesthetists()) == [0, 0, 1, 0, 1]
    with pytest.raises(MethodError, match=named):
        group_codes(groups, anaesthetists())
    with pytest.raises(MethodError, match="groups="):
        crowdppl.fit("dependent_clusters", anaesthetists(), inference="em", settings={"groups": groups})


def test_a_fit_with_groups_goes_on_with_fewer_annotators_and_takes_later_ones_by_name() -> None:
    data = anaesthetists()
    one = crowdppl.fit("dependent_clusters", data, inference="vb", settings={"groups": [0, 1, 1, 2, 2]})
    few = pd.DataFrame({"item": [99, 99], "annotator": ["1", "4"], "label": [1, 2]})
    assert list(one.update(few).probabilities().index) == list(one.predict(few).index) == [99]
    grown = Annotations.from_frame(few.replace("4", "6"), like=data, grow=True)
    with pytest.raises(MethodError, match="has 5 entries, and there are 6 annotators; .* a mapping"):
        crowdppl.fit(one.model, grown, inference="vb")
    named = {"2": 0, "3": 0, "6": 0}
    found: Any = crowdppl.fit("dependent_clusters", grown, inference="vb", settings={"groups": named}).model
    assert found.groups == [0, 1, 1, 2, 3, 1]


def test_annotators_who_copy_exactly_are_a_group() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 60)
    own = np.where(rng.random((60, 5)) < 0.7, truth[:, None], rng.integers(0, 3, (60, 5)))
    labels = own[:, [0, 0, 1, 1, 2, 3, 4]]
    groups = crowdppl.find_groups(crowdppl.Annotations.from_matrix(labels))
    assert groups[0] == groups[1] and groups[2] == groups[3] and len({*groups}) == 5
