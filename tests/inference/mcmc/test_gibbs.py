"""Gibbs against posteriors that are known exactly, chain by chain."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from pyro import poutine
from scipy.special import gammaln, logsumexp

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ConvergenceWarning, MethodError
from crowdppl.inference.density import Density
from crowdppl.inference.families import FAMILIES
from crowdppl.inference.mcmc import gibbs
from crowdppl.inference.mcmc.gibbs import sample
from crowdppl.primitives.model import plates_of
from tests.crowd import annotations, crowd, double, problem_of, split
from tests.evidence import SETTINGS, STATES, Exact, beta, community, exact

# 4 items, 3 annotators, 2 classes; annotator 0 labels item 1 twice.
LABELS = [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 0, 0), (1, 2, 1), (2, 1, 1), (2, 2, 1), (3, 1, 0), (3, 2, 1)]
CHAINS = 24


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


def run(
    name: str, data: Annotations, settings: dict[str, Any] | None = None, chains: int = CHAINS, **options: Any
) -> dict[str, np.ndarray]:
    """Draws (C, D, *site) of Dirichlet sites as probabilities, of others as they are."""
    problem = problem_of(crowdppl.method(name, **(settings or {})), data, chains=chains, **options)
    draws, *_ = sample(problem)
    out = {}
    for site, x in draws.items():
        shape = problem.sites[site].shape(problem.n_items)
        x = x.exp() if problem.sites[site].kind == "conjugate" else x
        out[site] = x.reshape(*x.shape[:2], *shape).numpy()
    return out


def truth_given(name: str, draws: dict[str, np.ndarray], labels: list[tuple[int, int, int]]) -> np.ndarray:
    """p(truth | labels, draw) by plain loops over labels: (C, D, N, K)."""
    if name == "mace":
        same = np.eye(draws["guess"].shape[-1])
        table = draws["competence"][..., :1, None] * same + (
            draws["competence"][..., 1:, None] * draws["guess"][..., None, :]
        )
    elif name == "community":
        table = np.einsum("cdam,cdmtl->cdatl", draws["community"], draws["shared"])
    else:
        table = draws["confusion"]
    n_items = 1 + max(i for i, _, _ in labels)
    p = np.repeat(draws["prevalence"][:, :, None], n_items, 2)
    for i, a, label in labels:
        p[:, :, i] *= table[:, :, a, :, label]
    return np.asarray(p / p.sum(-1, keepdims=True))


def agree(draws: np.ndarray, wanted: np.ndarray, power: float = 0.02, grid: float = 0.0) -> None:
    """Every chain alone, and all together, have the wanted mean.

    A chain's standard error comes from the means of 10 batches of its draws, or from the spread of chains'
    means where that is larger. With 23 degrees of freedom over chains, an error of the common mean beyond 5
    standard errors has chance 5e-5 for each of the some 60 numbers compared; beyond 7 of a single chain's,
    1e-6 or so. ``power`` bounds the standard error of the common mean: a bias of five times that cannot hide.
    """
    chains, length = draws.shape[0], draws.shape[1] // 10 * 10
    means = draws.mean(1)
    batches = draws[:, :length].reshape(chains, 10, -1, *draws.shape[2:]).mean(2)
    spread = means.std(0, ddof=1)
    single = np.maximum(batches.std(1, ddof=1) / math.sqrt(10), spread)
    common = spread / math.sqrt(chains)
    assert common.max() < power
    assert (np.abs(means.mean(0) - wanted) <= 5 * common + grid + 1e-12).all()
    assert (np.abs(means - wanted) <= 7 * single + grid + 1e-12).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_each_chain_has_the_exact_posterior(name: str) -> None:
    wanted: Exact = exact(STATES[name](LABELS, 2), 2)
    draws = run(name, annotations(LABELS, 2), SETTINGS[name], draws=300, warmup=30)
    for site in wanted.mean:
        agree(draws[site], wanted.mean[site])
        agree(draws[site] ** 2, wanted.square[site])
    agree(truth_given(name, draws, LABELS), wanted.truth)
    if name == "community":
        together = (draws["community"][:, :, 0] * draws["community"][:, :, 1]).sum(-1)
        agree(together, _together(0, 1))


def _together(a: int, b: int) -> np.ndarray:
    logs, same = [], []
    for members, (_, rows, _) in zip(_members(), community(LABELS, 2), strict=True):
        logs.append(sum(float((beta(c + n) - beta(c)).sum()) for c, n in rows.values()))
        same.append(members[a] == members[b])
    weight = np.exp(np.array(logs) - logsumexp(logs))
    return np.asarray(weight @ np.array(same))


def _members() -> Iterator[tuple[int, ...]]:
    for _ in product(range(2), repeat=4):
        yield from product(range(2), repeat=3)


WEIGHTED: dict[str, dict[str, Any]] = {
    "class_coin": {},
    "coin_net": {"spread": 0.7},
    "dependent_clusters": {"groups": [0, 1, 0]},
    "ebcc": {"subtypes": 2},
    "majority_vote": {},
    "mixed_membership": {},
    "multinomial": {},
    "one_coin": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WEIGHTED)
def test_sites_have_the_posterior_of_weighted_draws_from_the_prior(name: str) -> None:
    """The density that weighs them is that of plain loops (tests/models/test_marginals.py)."""
    problem = problem_of(crowdppl.method(name, **WEIGHTED[name]), annotations(LABELS, 2))
    model, plates = problem.model, plates_of(problem.model)
    torch.manual_seed(0)
    program = poutine.enum(model.model, first_available_dim=-1 - plates)
    nodes = poutine.trace(program).get_trace(problem.blocks[0]).nodes
    priors = {site: nodes[site]["fn"] for site in problem.sites}
    density = Density(model.model, plates, 4000, dict.fromkeys(priors, FAMILIES["dirichlet"]))
    logs, values = [], {site: [] for site in priors}
    for _ in range(10):
        wide = {}
        for site, prior in priors.items():
            x = prior.sample((4000,))
            values[site].append(x.numpy())
            wide[site] = x.log().reshape(4000, *(1,) * (plates - len(prior.batch_shape)), *x.shape[1:])
        logs.append(density(problem.blocks[0], wide).objective.numpy())
    weight = np.exp(np.concatenate(logs) - logsumexp(np.concatenate(logs)))
    draws = run(name, annotations(LABELS, 2), WEIGHTED[name], 96, draws=60, warmup=30)
    for site in priors:
        x = np.concatenate(values[site])
        for power in (1, 2):
            wanted = np.tensordot(weight, x**power, 1)
            spread = np.sqrt(np.tensordot(weight**2, (x**power - wanted) ** 2, 1))
            means = (draws[site] ** power).mean(1)
            error = np.hypot(means.std(0, ddof=1) / 96**0.5, spread)
            assert error.max() < 0.02, (site, error.max())
            assert (np.abs(means.mean(0) - wanted) <= 5.5 * error).all(), site


# So that classes seldom trade places, and chains mix.
LEAN = {
    "right": 6.0,
    "wrong": 2.0,
    "typical": 6.0,
    "spread": 1.0,
    "prevalence": "learned",
    "prevalence_strength": 1.0,
}


def hierarchy(labels: list[tuple[int, int, int]], points: int = 120) -> dict[str, np.ndarray]:
    """Posterior means of hierarchical_dawid_skene, K = 2: all truths, and a grid over each row's two parameters.

    Given the truths, the rows of the crowd are independent: (share of class 0, concentration), with the
    annotators' rows integrated out (Dirichlet-multinomial).
    """
    n_items, n_annotators = 4, 3
    share = (np.arange(points) + 0.5) / points
    step = np.linspace(-4.5, 4.5, points)
    strength = np.exp(math.log(LEAN["typical"]) + step)  # spread 1 on the log scale
    c, s = np.meshgrid(share, strength, indexing="ij")
    log_step = -0.5 * step[None, :] ** 2
    right, wrong = LEAN["right"], LEAN["wrong"]
    prior = [(a - 1) * np.log(c) + (b - 1) * np.log(1 - c) + log_step for a, b in ((right, wrong), (wrong, right))]
    prior = [p - logsumexp(p) for p in prior]
    logs, crowd_mean, log_strength, truths = [], [], [], []
    for truth in product(range(2), repeat=n_items):
        counts = np.zeros((n_annotators, 2, 2))
        for i, a, label in labels:
            counts[a, truth[i], label] += 1
        total = float(gammaln(1 + np.bincount(truth, minlength=2)).sum() - gammaln(2 + n_items))
        crowd_row, strength_row = [], []
        for k in range(2):
            joint = prior[k].copy()
            for a in range(n_annotators):
                n0, n1 = counts[a, k]
                joint += gammaln(s * c + n0) - gammaln(s * c) + gammaln(s * (1 - c) + n1) - gammaln(s * (1 - c))
                joint += gammaln(s) - gammaln(s + n0 + n1)
            total += float(logsumexp(joint))
            w = np.exp(joint - logsumexp(joint))
            crowd_row.append([(w * c).sum(), (w * (1 - c)).sum()])
            strength_row.append((w * np.log(s)).sum())
        logs.append(total)
        crowd_mean.append(crowd_row)
        log_strength.append(strength_row)
        truths.append(np.eye(2)[list(truth)])
    weight = np.exp(np.array(logs) - logsumexp(logs))

    def average(x: list[Any]) -> np.ndarray:
        return np.einsum("s,s...->...", weight, np.array(x))

    return {"crowd": average(crowd_mean), "log strength": average(log_strength), "truth": average(truths)}


@pytest.mark.slow
def test_prior_parameters_have_the_posterior_of_a_grid() -> None:
    wanted = hierarchy(LABELS)
    finer = hierarchy(LABELS, 200)
    for part in wanted:  # the grid itself is fine enough
        np.testing.assert_allclose(wanted[part], finer[part], atol=2e-3)
    draws = run("hierarchical_dawid_skene", annotations(LABELS, 2), LEAN, 48, draws=120, warmup=140)
    agree(draws["crowd"], finer["crowd"], grid=1e-3)
    agree(truth_given("hierarchical_dawid_skene", draws, LABELS), finer["truth"], grid=1e-3)
    agree(np.log(draws["concentration"]), finer["log strength"], power=0.04, grid=2e-3)


def test_gold_leaves_only_what_it_allows() -> None:
    gold = {0: 1, 2: 0}
    data = annotations(LABELS, 2, gold=gold)
    known = (s for s in STATES["bayesian_dawid_skene"](LABELS, 2) if s[0][0] == 1 and s[0][2] == 0)
    wanted = exact(known, 2)
    draws = run("bayesian_dawid_skene", data, SETTINGS["bayesian_dawid_skene"], draws=150, warmup=30)
    agree(draws["confusion"], wanted.mean["confusion"])
    agree(draws["prevalence"], wanted.mean["prevalence"])


def test_blocks_visited_in_another_order_draw_the_same() -> None:
    data = split(crowd(30, 4, 3, 3), 3)
    states = []
    for turn in (1, -1):
        problem = problem_of(crowdppl.method("bayesian_dawid_skene"), data, chains=3, warmup=0)
        state = gibbs.start(problem)
        turned = replace(problem, blocks=problem.blocks[::turn])
        for _ in range(4):
            state, _ = gibbs.step(turned, state)
        states.append(gibbs.values(problem, state))
    assert all(torch.equal(states[0][n], states[1][n]) for n in states[0])


def test_several_blocks_have_the_same_posterior() -> None:
    wanted = exact(STATES["bayesian_dawid_skene"](LABELS, 2), 2)
    draws = run(
        "bayesian_dawid_skene",
        split(annotations(LABELS, 2), 3),
        SETTINGS["bayesian_dawid_skene"],
        draws=150,
        warmup=30,
    )
    agree(draws["confusion"], wanted.mean["confusion"])
    agree(truth_given("bayesian_dawid_skene", draws, LABELS), wanted.truth)


def test_a_site_without_an_exact_update_is_refused_by_name() -> None:
    problem = problem_of(crowdppl.method("glad"), crowd(20, 4, 3, 3))
    with pytest.raises(MethodError, match="ability, difficulty"):
        gibbs.start(problem)


@pytest.mark.parametrize(("kind", "name"), [("real", "gaussian_annotators"), ("nominal", "bayesian_dawid_skene")])
def test_chains_that_disagree_name_longer_ones_and_no_classes(kind: str, name: str) -> None:
    """Classes that are swapped between chains are a doubt of their own."""
    rng, items, annotators = np.random.default_rng(1), np.repeat(np.arange(50), 4), np.tile(np.arange(4), 50)
    labels = rng.normal(size=50)[items] + rng.normal(size=200) if kind == "real" else rng.integers(0, 2, 200)
    data = Annotations.from_arrays(items, annotators, labels, kind=kind)
    with pytest.warns(ConvergenceWarning, match=r"run longer \(draws=24, warmup=12\)") as said:
        crowdppl.fit(name, data, inference="gibbs", seed=0, chains=4, draws=8, warmup=0)
    assert "classes" not in str(said[0].message)


def test_chains_are_compared_in_the_unit_of_their_site() -> None:
    """Precisions of labels in the billions are far below one, and their chains move as those of others do."""
    labels = np.random.default_rng(0).normal(size=(15, 4))
    told = []
    for unit in (1.0, 1e9):
        data = Annotations.from_matrix(unit * labels, kind="real")
        fitted = crowdppl.fit("label_mean", data, inference="gibbs", seed=0, chains=4, draws=40, warmup=20)
        told.append(fitted.diagnostics()["rhat"])
    assert set(told[0]) == set(told[1]) != set() and all(np.isfinite(list(found.values())).all() for found in told)
