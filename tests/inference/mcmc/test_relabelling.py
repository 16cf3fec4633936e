"""Permuted chains are found, whatever the sizes of classes, and relabelled in warm-up alone."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations as orders
from typing import Any

import numpy as np
import pytest
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.inference.assembly import result_of_draws
from crowdppl.inference.mcmc import gibbs
from crowdppl.inference.mcmc.chains import best_permutation, class_similarity, mixing, permutations, relabelled
from crowdppl.inference.mcmc.gibbs import GibbsState, sample
from crowdppl.inference.problem import Problem
from tests.crowd import annotations, double, problem_of

CHAINS = 4


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


def labelled(n_classes: int, seed: int = 0, **options: Any) -> tuple[Annotations, np.ndarray]:
    """150 items with 5 of 10 annotators each, accuracies from .6 to .9; and the truth."""
    rng = np.random.default_rng(seed)
    truth, skill = rng.integers(n_classes, size=150), rng.uniform(0.6, 0.9, 10)
    labels = []
    for i, k in enumerate(truth):
        for a in rng.choice(10, 5, replace=False):
            wrong = (k + 1 + rng.integers(n_classes - 1)) % n_classes
            labels.append((i, int(a), int(k if rng.random() < skill[a] else wrong)))
    return annotations(labels, n_classes, **options), truth


def swapped(monkeypatch: pytest.MonkeyPatch, chains: tuple[int, ...] = (0, 2)) -> None:
    """Lets some chains start from truths whose classes are rotated."""
    start = Problem.start_shares

    def rotated(self: Problem, number: int) -> torch.Tensor | None:
        shares = start(self, number)
        return shares.roll(1, -1) if number in chains and shares is not None else shares

    monkeypatch.setattr(Problem, "start_shares", rotated)


def even(data: Annotations) -> Problem:
    """Bayesian Dawid-Skene whose prior does not lean."""
    model = crowdppl.method("bayesian_dawid_skene", prior_accuracy=1 / data.n_classes)
    return problem_of(model, data, chains=CHAINS, draws=150, warmup=60)


def test_likeness_by_hand() -> None:
    counts = torch.tensor([[3.0, 1.0], [0.0, 2.0], [0.0, 0.0]])  # shares (3/4, 1/4), (0, 1), none
    marginal = torch.tensor([[[1.0, 0.0, 1.0]], [[0.0, 1.0, 0.0]]])  # (K, one chain, N)
    expected = np.array([[0.75, 0.25], [0.0, 1.0]]) / np.sqrt(np.outer([1, 1], [0.75, 1.25]))
    np.testing.assert_allclose(class_similarity(marginal, counts)[0], expected)
    both = torch.cat([marginal, marginal.flip(0)], 1)
    np.testing.assert_allclose(class_similarity(both, counts), [expected, expected[::-1]])


def test_the_best_of_all_permutations_is_taken() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        alike = rng.random((4, 4))
        best = max(orders(range(4)), key=lambda order: alike[range(4), order].sum())
        gain = alike[range(4), best].sum() - alike.trace()
        moved = sum(k != to for k, to in enumerate(best))
        assert tuple(best_permutation(alike)) == (best if gain > 0.1 * moved else (0, 1, 2, 3))
    assert best_permutation(np.array([[0.5, 0.59], [0.59, 0.5]])).tolist() == [0, 1]
    assert best_permutation(np.array([[0.5, 0.61], [0.61, 0.5]])).tolist() == [1, 0]


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_sizes_of_classes_do_not_matter(share: float) -> None:
    """Two classes of which one is large; votes are right in 7 of 10."""
    rng = np.random.default_rng(1)
    truth = (rng.random(1000) < share).astype(int)
    votes = np.where(rng.random(1000) < 0.7, truth, 1 - truth)
    counts, own = (torch.from_numpy(np.eye(2)[x]) for x in (votes, truth))
    marginal = torch.stack([own, own.flip(1)]).permute(2, 0, 1)
    assert [best_permutation(x).tolist() for x in class_similarity(marginal, counts)] == [[0, 1], [1, 0]]


def test_renaming_undoes_a_permutation() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(3, size=60)
    shares = torch.from_numpy(0.1 + 0.7 * np.eye(3)[truth]).t()
    order = [2, 0, 1]  # what is called 0 is class 2 of the votes
    marginal = torch.stack([shares, shares[order]], 1)
    moved, tilt = relabelled(marginal, torch.from_numpy(4 * np.eye(3)[truth]))
    assert moved.tolist() == [False, True]
    torch.testing.assert_close(tilt.exp(), torch.stack([shares, shares], 1))


@pytest.mark.slow
def test_chains_agree_after_relabelling(monkeypatch: pytest.MonkeyPatch) -> None:
    n_classes = 3
    data, truth = labelled(n_classes)
    swapped(monkeypatch)
    problem = even(data)
    draws, _, more = sample(problem)
    assert more["relabelled"] == [0, 2]
    assert permutations(problem, draws) == [list(range(n_classes))] * CHAINS
    assert max(mixing(draws, problem.sites)["rhat"].values()) < 1.05
    result = result_of_draws(problem, data.order, draws, {})
    assert (result.probabilities.argmax(1) == truth).mean() > 0.85
    again, *_ = sample(problem)
    assert all(torch.equal(draws[name], again[name]) for name in draws)

    monkeypatch.setattr(gibbs, "relabel", lambda problem, state: state)
    apart, _, more = sample(problem)
    assert more["relabelled"] == []
    rotated = [(k - 1) % n_classes for k in range(n_classes)]
    found = permutations(problem, apart)
    assert (found[0], found[2]) == (rotated, rotated)
    assert max(mixing(apart, problem.sites)["rhat"].values()) > 1.3


@pytest.mark.parametrize(
    ("method", "settings"),
    [("hierarchical_dawid_skene", {"right": 1.0, "wrong": 1.0}), ("community", {"prior_accuracy": 0.5})],
)
def test_other_stories_are_relabelled_with_all_they_know(
    method: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, truth = labelled(2)
    swapped(monkeypatch)
    problem = problem_of(crowdppl.method(method, **settings), data, chains=CHAINS, draws=60, warmup=60)
    draws, _, more = sample(problem)
    assert more["relabelled"] == [0, 2]
    assert permutations(problem, draws) == [[0, 1]] * CHAINS
    result = result_of_draws(problem, data.order, draws, {})
    assert (result.probabilities.argmax(1) == truth).mean() > 0.85


@pytest.mark.parametrize(("warmup", "expected"), [(60, [15, 30]), (3, [1]), (0, [])])
def test_only_warm_up_is_touched(warmup: int, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def noted(problem: Problem, state: GibbsState) -> GibbsState:
        looked.append(int(state.sweeps))
        return state

    monkeypatch.setattr(gibbs, "relabel", noted)
    problem = problem_of(crowdppl.method("one_coin"), labelled(2)[0], chains=2, draws=30, warmup=warmup)
    sample(problem)
    assert looked == expected


def test_what_names_the_classes_itself_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All annotators say the opposite of 100 known truths: the other items are what the votes are not."""
    data, truth = labelled(2)
    wrong = data.frame().assign(label=1 - data.frame()["label"])
    known = Annotations.from_frame(wrong, classes=[0, 1], gold=dict(enumerate(truth[:100].tolist())))
    problem = even(known)
    draws, _, more = sample(problem)
    assert more["relabelled"] == []
    result = result_of_draws(problem, known.order, draws, {})
    assert (result.probabilities.argmax(1) == truth)[100:].mean() > 0.85


def test_a_model_without_a_truth_of_classes_has_no_permutations() -> None:
    data, _ = labelled(2)
    problem = problem_of(crowdppl.method("multinomial"), data, chains=2, draws=4, warmup=2)
    draws, *_ = sample(problem)
    assert permutations(replace(problem, truth=None), draws) == []  # as of a model whose truth is not enumerated
