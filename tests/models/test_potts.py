"""Truths of linked items: enumeration of all of them, trees, limits, and a simulated strength found again."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import gammaln, logsumexp

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError
from crowdppl.inference.density import Density
from crowdppl.inference.problem import model_runs
from crowdppl.primitives import learned_strength
from crowdppl.primitives.potts import PottsCategorical
from models.potts_dawid_skene import PottsDawidSkene
from tests.crowd import crowd

LOOPS = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 3), (4, 5), (5, 6), (6, 4), (3, 4)]
TREE = [(0, 1), (1, 2), (1, 3), (3, 4), (5, 6)]


def linked(edges: Any, n: int = 7, a: int = 3, k: int = 2, seed: int = 0, right: float = 0.7) -> Annotations:
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    label = np.where(rng.random((n, a)) < right, truth[:, None], rng.integers(k, size=(n, a)))
    item, who = np.divmod(np.arange(n * a), a)
    kept = rng.random(n * a) < 0.9
    return Annotations.from_arrays(
        item[kept], who[kept], label.ravel()[kept], items=[*range(n)], classes=[*range(k)], edges=edges
    )


def grid(height: int, width: int) -> np.ndarray:
    at = np.arange(height * width).reshape(height, width)
    sides = ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:]))
    return np.concatenate([np.stack([one.ravel(), other.ravel()], 1) for one, other in sides])


def paths(data: Annotations, strength: float, field: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All truths (K ** N, N), and the log-prior of each."""
    each = np.array([*product(range(data.n_classes), repeat=data.n_items)])
    equal = (each[:, data.edges[:, 0]] == each[:, data.edges[:, 1]]).sum(1) if data.edges is not None else 0
    log_p = field[each].sum(1) + strength * equal
    return each, log_p - logsumexp(log_p)


def of_each_path(each: np.ndarray, log_p: np.ndarray, k: int) -> np.ndarray:
    """Marginals (N, K)."""
    p = np.exp(log_p - logsumexp(log_p))
    return np.stack([((each == c) * p[:, None]).sum(0) for c in range(k)], 1)


def exact_posterior(data: Annotations, strength: float, field: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Marginals (N, K) with confusions integrated out."""
    each, log_p = paths(data, strength, field)
    item, who, label = data.label_codes()
    k, a = data.n_classes, data.n_annotators
    for n, path in enumerate(each):
        counts = np.zeros((a, k, k))
        np.add.at(counts, (who, path[item], label), 1)
        after, before = prior + counts, prior + 0 * counts
        rows = gammaln(after).sum(-1) - gammaln(after.sum(-1)) - gammaln(before).sum(-1) + gammaln(before.sum(-1))
        log_p[n] += rows.sum()
    return of_each_path(each, log_p, k)


def test_gibbs_draws_the_posterior_of_all_truths() -> None:
    data, strength, field = linked(LOOPS), 0.8, np.log([0.5, 0.5])
    settings: dict[str, Any] = {"strength": strength, "prior_accuracy": 0.75}
    exact = exact_posterior(data, strength, field, np.array([[3.0, 1.0], [1.0, 3.0]]))
    alone = exact_posterior(data, 0.0, field, np.array([[3.0, 1.0], [1.0, 3.0]]))
    how: dict[str, Any] = {"inference": "gibbs", "seed": 1, "draws": 1000, "warmup": 50}
    posterior = crowdppl.fit("potts_dawid_skene", data, settings=settings, **how)
    found = posterior.probabilities().to_numpy()
    assert np.abs(found - exact).max() < 0.01
    assert np.abs(alone - exact).max() > 0.05, "edges must matter for the check to see them"


@pytest.mark.parametrize(("edges", "exact"), [(TREE, True), (LOOPS, False)])
def test_sums_are_exact_on_a_tree(edges: list[tuple[int, int]], exact: bool) -> None:
    data, strength, field = linked(edges, k=3, seed=2), 0.9, np.full(3, -np.log(3))
    model = PottsDawidSkene(strength=strength)
    table = np.random.default_rng(3).dirichlet(np.ones(3), (3, 3))
    item, who, label = data.label_codes()
    each, log_p = paths(data, strength, field)
    joint = log_p + np.log(table)[who, each[:, item], label].sum(1)
    with model_runs(model, data):
        values = {"confusion": torch.tensor(table)}
        result = Density(model.model)(data.as_block(), values, gradient=["confusion"], marginals=["truth"])
    order = np.argsort(data.order)
    gap = np.abs(result.marginals["truth"].numpy()[:, order].T - of_each_path(each, joint, 3)).max()
    off = abs(result.objective.item() - logsumexp(joint))
    counts = np.zeros((3, 3, 3))
    p = np.exp(joint - logsumexp(joint))
    for path, weight in zip(each, p, strict=True):
        np.add.at(counts, (who, path[item], label), weight)
    slope = np.abs(result.gradient["confusion"].numpy() * table - counts).max()
    if exact:
        assert max(gap, off, slope) < 1e-7
    else:
        assert 1e-4 < gap < 0.05
        assert off < 0.2


def test_known_truths_reach_their_neighbours() -> None:
    data = linked(TREE, seed=4).with_gold({0: 1, 4: 0})
    field = np.log([0.5, 0.5])
    settings: dict[str, Any] = {"strength": 2.0}
    posterior = crowdppl.fit("potts_dawid_skene", data, inference="vb", settings=settings, seed=0)
    p = posterior.probabilities().to_numpy()
    assert p[0, 1] == p[4, 0] == 1
    each, log_p = paths(data, 2.0, field)
    log_p[(each[:, 0] != 1) | (each[:, 4] != 0)] = -np.inf
    assert np.isfinite(of_each_path(each, log_p, 2)).all()


@pytest.mark.parametrize("engine", ["em", "vb"])
@pytest.mark.parametrize("edges", [[], grid(6, 10)])
def test_without_strength_or_edges_it_is_bayesian_dawid_skene(engine: str, edges: Any) -> None:
    plain = crowd(60, 6, 3, 4)
    data = Annotations.from_frame(plain.frame(), classes=list(plain.classes), edges=plain.items.to_numpy()[edges])
    same: dict[str, Any] = {"prevalence": "uniform", "prior_strength": 6.0}
    one = crowdppl.fit("bayesian_dawid_skene", data, inference=engine, settings=same, seed=0)
    strength = 0.0 if len(edges) else 1.5
    mine: dict[str, Any] = {"prior_strength": 6.0, "strength": strength}
    other = crowdppl.fit("potts_dawid_skene", data, inference=engine, settings=mine, seed=0)
    objectives = [x.result.diagnostics["objective"] for x in (one, other)]
    assert abs(objectives[0] - objectives[1]) < 1e-8
    if engine == "em":  # vb refines the tables of a model without links
        assert np.abs(one.probabilities() - other.probabilities()).to_numpy().max() < 1e-8
        assert np.abs(one.confusion() - other.confusion()).max().item() < 1e-8


@pytest.mark.parametrize("engine", ["em", "vb"])
def test_the_objective_never_falls(engine: str) -> None:
    data = linked(grid(12, 12), 144, 5, 3, seed=5)
    for strength in (0.5, 1.5, 4.0):
        settings: dict[str, Any] = {"strength": strength, "prior_strength": 6.0}
        how: dict[str, Any] = {"inference": engine, "seed": 0, "tolerance": 1e-12, "max_iterations": 200}
        posterior = crowdppl.fit("potts_dawid_skene", data, settings=settings, **how)
        rise = np.diff(posterior.result.diagnostics["objectives"])
        assert rise.min() > -1e-7


@pytest.mark.parametrize("strength", [0.4, 0.7])
def test_pseudo_likelihood_finds_a_simulated_strength(strength: float) -> None:
    rng, side, k, a = np.random.default_rng(6), 60, 3, 5
    edges = grid(side, side)
    design = linked(edges, side * side, 2, k)
    graph = design.as_block().edges.graph
    own = torch.full((side * side, k), -np.log(k))
    torch.manual_seed(7)
    place = PottsCategorical(own, own, strength, graph).sample().numpy()
    truth = place[np.argsort(design.order)]
    label = np.where(rng.random((a, len(truth))) < 0.75, truth, rng.integers(k, size=(a, len(truth))))
    item, who = np.tile(np.arange(len(truth)), a), np.repeat(np.arange(a), len(truth))
    data = Annotations.from_arrays(item, who, label.ravel(), edges=edges)
    assert abs(learned_strength(data) - strength) < 0.07
    shuffled = Annotations.from_arrays(item, who, label.ravel(), edges=rng.permutation(side * side)[edges])
    assert learned_strength(shuffled) < 0.07


def test_draws_move_a_strength_little() -> None:
    n, who = 300, np.repeat(np.arange(3), 300)
    path = np.stack([np.arange(n - 1), np.arange(1, n)], 1)
    found = np.empty((8, 3))
    for seed, learned in enumerate(found):
        rng = np.random.default_rng(seed)
        truth = np.append(0, rng.random(n - 1) < 1 / (1 + np.exp(3.0))).cumsum() % 2
        label = np.where(rng.random((3, n)) < 0.75, truth, 1 - truth).ravel()
        for at in range(3):  # items in other places are drawn by other numbers
            name = rng.permutation(n)
            learned[at] = learned_strength(Annotations.from_arrays(np.tile(name, 3), who, label, edges=name[path]))
    assert np.ptp(found, axis=1).mean() < 0.6
    assert abs(found.mean() - 3.0) < 0.6


def test_a_fit_wants_edges_and_new_items_too() -> None:
    data = crowd(30, 5, 2, 3)
    with pytest.raises(DataError, match="reads edges, and the data have none; give edges="):
        crowdppl.fit("potts_dawid_skene", data)
    pairs = [*zip(data.items[:-1], data.items[1:], strict=True)]
    linked = Annotations.from_frame(data.frame(), edges=pairs)
    posterior = crowdppl.fit("potts_dawid_skene", linked, inference="vb", seed=0, max_iterations=3)
    new = data.frame().assign(item=data.frame()["item"].astype(str) + " new")
    with pytest.raises(DataError, match="reads edges"):
        posterior.predict(new)
