"""Starts: moments give back confusion matrices where they determine them, and starts really differ."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import crowdppl
from crowdppl.inference.starts import soft_truth, spectral_truth, votes
from crowdppl.moments.joints import Opinions
from crowdppl.moments.multispa import confusion_from_joints
from tests.crowd import annotations, crowd, double, problem_of, split


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


def separable(k: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Confusions (M, K, K) and a prevalence. For each class two annotators give its label to no other class."""
    rng = np.random.default_rng(seed)
    tables = rng.dirichlet(np.ones(k), (m, k)) * 0.35 + 0.65 * np.eye(k)
    for a in range(2 * k):
        sure = a % k
        tables[a, np.arange(k) != sure, sure] = 0
    return tables / tables.sum(-1, keepdims=True), rng.dirichlet(5 * np.ones(k))


@pytest.mark.parametrize(("k", "m", "seed"), [(2, 4, 0), (3, 9, 2), (7, 14, 4)])
def test_exact_moments_give_the_confusions_back(k: int, m: int, seed: int) -> None:
    tables, share = separable(k, m, seed)
    joints = 1000 * np.einsum("t,atl,bts->albs", share, tables, tables)
    np.testing.assert_allclose(confusion_from_joints(joints), tables, atol=1e-6)


def test_an_annotator_who_shares_nothing_is_unknown() -> None:
    tables, share = separable(3, 7, 5)
    joints = 1000 * np.einsum("t,atl,bts->albs", share, tables, tables)
    joints[6, :, :6] = joints[:6, :, 6] = 0
    found = confusion_from_joints(joints)
    assert np.isnan(found[6]).all()
    np.testing.assert_allclose(found[:6], tables[:6], atol=1e-6)


def test_joints_are_counts_of_shared_items() -> None:
    data = annotations([(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1), (1, 2, 2), (2, 2, 0), (2, 0, 2)], 3)
    opinions = Opinions.of(data.blocks)
    assert opinions.most_active(2).tolist() == [0, 1]
    wanted = np.zeros((3, 3, 3, 3))
    for given in ({0: 0, 1: 1}, {0: 0, 1: 1, 2: 2}, {2: 0, 0: 2}):
        for a, x in given.items():
            for b, y in given.items():
                wanted[a, x, b, y] += 1
    assert np.array_equal(opinions.joints, wanted)
    assert np.array_equal(opinions.of_annotators(np.array([0, 2])).joints, wanted[::2][:, :, ::2])
    assert np.array_equal(Opinions.of(split(data, 3).blocks).joints, wanted)


def test_moments_know_what_votes_do_not() -> None:
    """Six of nine annotators swap classes 1 and 2 half of the time; two who never do decide by moments."""
    rng = np.random.default_rng(6)
    truth = rng.integers(3, size=3000)
    tables, _ = separable(3, 9, 7)
    tables[3:] = [[0.9, 0.05, 0.05], [0.1, 0.45, 0.45], [0.1, 0.45, 0.45]]
    tables[:3] = 0.94 * np.eye(3) + 0.02
    labels = [(i, a, int(rng.choice(3, p=tables[a, truth[i]]))) for i in range(3000) for a in range(9)]
    data = annotations(labels, 3)
    code = truth[data.order]
    by_moments = spectral_truth(data.blocks).argmax(-1).numpy()
    by_votes = soft_truth(votes(data.blocks)).argmax(-1).numpy()
    assert (by_moments == code).mean() > (by_votes == code).mean() + 0.05


def test_starts_differ_in_kind_and_in_value() -> None:
    data = crowd(80, 6, 3, 5, seed=8)
    problem = problem_of(crowdppl.method("dawid_skene"), data)
    names = [problem.start_name(n) for n in range(4)]
    assert names == ["votes", "spectral", "perturbed votes 2", "perturbed votes 3"]
    shares = [problem.start_shares(n) for n in range(4)]
    for i, x in enumerate(shares):
        assert x is not None and torch.allclose(x.sum(-1), torch.ones(80), atol=1e-4)
        for y in shares[:i]:
            assert y is not None and float((x - y).abs().mean()) > 0.02


def test_perturbed_votes_move_sparse_items_far_and_clear_ones_little() -> None:
    counts = torch.tensor([[0.0, 1.0, 0.0], [0.0, 30.0, 0.0]]).repeat(200, 1)
    shares = soft_truth(counts, torch.Generator().manual_seed(0))
    moved = (shares - soft_truth(counts)).abs().sum(-1)
    assert float(moved[0::2].mean()) > 10 * float(moved[1::2].mean())
