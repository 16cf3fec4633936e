"""Simulation-based calibration: parameters from the prior, labels from them, and their rank among posterior draws.

If an engine samples the exact posterior, the rank of a drawn parameter among L independent posterior draws is
uniform on 0..L (Talts et al. 2018, "Validating Bayesian inference algorithms with simulation-based calibration").
Ranks of 300 simulations are sorted into equal bins and held against uniformity by a chi-square test at level
1e-4. Some 20 quantities are tested: if all is well, other seeds than these would fail once in about 500 runs of
this file. The quantities do not change when classes or communities trade names, and the priors lean enough to
keep chains from trading them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from pyro import poutine
from scipy import stats
from torch import Tensor

import crowdppl
from crowdppl.data.blocks import Block, build_blocks
from crowdppl.inference.density import Density
from crowdppl.inference.mcmc import gibbs, nuts
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from tests.crowd import double

SIMULATIONS = 300
LEVEL = 1e-4
Values = dict[str, np.ndarray]

SETTINGS: dict[str, dict[str, Any]] = {
    "bayesian_dawid_skene": {"prevalence_strength": 2.0, "prior_strength": 10.0, "prior_accuracy": 0.7},
    "one_coin": {"right": 7.0, "wrong": 3.0},
    "mace": {"knows": 6.0, "guesses": 3.0, "guess": 2.0},
    "community": {"communities": 2, "prior_strength": 12.0, "prior_accuracy": 0.7, "sparsity": 4.0},
    "hierarchical_dawid_skene": {
        "prevalence_strength": 2.0,
        "right": 12.0,
        "wrong": 4.0,
        "typical": 8.0,
        "spread": 0.5,
    },
}


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


def entropy(p: np.ndarray) -> np.ndarray:
    return np.asarray(-(p * np.log(np.clip(p, 1e-300, None))).sum(-1))


def accuracy(v: Values, table: np.ndarray) -> np.ndarray:
    """Probability that an annotator is right, mean over annotators: (n,) from (n, A, K, K)."""
    return np.asarray(np.einsum("nk,nakk->n", v["prevalence"], table) / table.shape[1])


# What is ranked besides the log-likelihood, from values (n, *site).
QUANTITIES: dict[str, dict[str, Callable[[Values], np.ndarray]]] = {
    "bayesian_dawid_skene": {
        "mean accuracy": lambda v: accuracy(v, v["confusion"]),
        "best on the diagonal": lambda v: np.einsum("nakk->na", v["confusion"]).max(1),
        "prevalence entropy": lambda v: entropy(v["prevalence"]),
    },
    "one_coin": {
        "mean ability": lambda v: v["ability"][..., 0].mean(1),
        "spread of abilities": lambda v: v["ability"][..., 0].std(1),
        "prevalence entropy": lambda v: entropy(v["prevalence"]),
    },
    "mace": {
        "mean competence": lambda v: v["competence"][..., 0].mean(1),
        "guessing entropy": lambda v: entropy(v["guess"]).mean(1),
        "prevalence entropy": lambda v: entropy(v["prevalence"]),
    },
    "community": {
        "mean accuracy": lambda v: accuracy(v, np.einsum("nam,nmtl->natl", v["community"], v["shared"])),
        "weights entropy": lambda v: entropy(v["weights"]),
        "prevalence entropy": lambda v: entropy(v["prevalence"]),
    },
    "hierarchical_dawid_skene": {
        "mean accuracy": lambda v: accuracy(v, v["confusion"]),
        "concentration": lambda v: v["concentration"].prod(-1),
        "crowd diagonal": lambda v: np.einsum("nkk->n", v["crowd"]),
        "prevalence entropy": lambda v: entropy(v["prevalence"]),
    },
}


def design(n_items: int, n_annotators: int, n_classes: int, labels_each: int) -> Block:
    """Who labels what, the labels still to be drawn."""
    item = np.repeat(np.arange(n_items), labels_each)
    annotator = (np.arange(len(item)) + item) % n_annotators
    sizes = {"n_items": n_items, "n_annotators": n_annotators, "n_classes": n_classes, "n_answers": n_classes}
    return build_blocks(item, annotator, None, **sizes)[1][0]


def simulated(story: Any, block: Block, seed: int) -> tuple[dict[str, Tensor], Block]:
    """Parameters drawn from the prior, and labels drawn from them."""
    torch.manual_seed(seed)
    nodes = poutine.trace(story.model).get_trace(block).nodes
    sites = {n: x for n, x in nodes.items() if x["type"] == "sample"}
    cells = sites.pop("label")["value"]
    values = {n: x["value"] for n, x in sites.items() if x["value"].is_floating_point()}
    return values, block.answered(cells)


def quantities(name: str, problem: Problem, wide: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Every quantity at n values of the parameters, which ride as chains; Dirichlets as log theta."""
    conjugate = frozenset(n for n, s in problem.sites.items() if s.kind == "conjugate")
    n = len(next(iter(wide.values())))
    likelihood = Density(problem.program, 1, n, conjugate)(problem.blocks[0], wide).objective
    plain = {
        s: (x.exp() if s in conjugate else x).reshape(n, *problem.sites[s].shape(problem.n_items)).numpy()
        for s, x in wide.items()
    }
    return {"log likelihood": likelihood.numpy(), **{q: f(plain) for q, f in QUANTITIES[name].items()}}


def calibration(
    engine: Any, name: str, block: Block, thin: int, **options: Any
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each quantity its true values (300,), and posterior draws (300, L)."""
    story = crowdppl.method(name, prevalence="learned", **SETTINGS[name])
    truths: dict[str, list[float]] = {}
    draws: dict[str, list[np.ndarray]] = {}
    for seed in range(SIMULATIONS):
        values, data = simulated(story, block, seed)
        problem = Problem(story, [data], Options(seed=seed, **options), lambda data=data: data)
        found = engine.sample(problem, problem.options)[0]
        wide = {}
        for site, x in found.items():
            kept = x[:, thin - 1 :: thin].flatten(0, 1)
            true = values[site].log().clamp(min=-80) if problem.sites[site].kind == "conjugate" else values[site]
            wide[site] = torch.cat([true.reshape(1, *kept.shape[1:]).to(kept), kept])
        for quantity, x in quantities(name, problem, wide).items():
            truths.setdefault(quantity, []).append(float(x[0]))
            draws.setdefault(quantity, []).append(x[1:])
    return {q: (np.array(truths[q]), np.stack(draws[q])) for q in truths}


def uniformity(true: np.ndarray, draws: np.ndarray, bins: int) -> float:
    """p-value of the chi-square test that ranks are uniform."""
    n_ranks = draws.shape[1] + 1
    assert n_ranks % bins == 0
    rank = (draws < true[:, None]).sum(1)
    return float(stats.chisquare(np.bincount(rank * bins // n_ranks, minlength=bins)).pvalue)


def narrowed(draws: np.ndarray, factor: float = 0.7) -> np.ndarray:
    """Draws of a posterior whose standard deviation is too small."""
    centre = draws.mean(1, keepdims=True)
    return np.asarray(centre + factor * (draws - centre))


def judge(found: dict[str, tuple[np.ndarray, np.ndarray]], bins: int) -> None:
    exact = {q: uniformity(true, draws, bins) for q, (true, draws) in found.items()}
    narrow = {q: uniformity(true, narrowed(draws), bins) for q, (true, draws) in found.items()}
    print({q: f"{p:.3f}, narrowed {narrow[q]:.1e}" for q, p in exact.items()})
    assert min(exact.values()) > LEVEL, exact
    # The check is checked on these very draws: all quantities but one at most must notice.
    assert sorted(narrow.values())[-2] < LEVEL, narrow


@pytest.mark.slow
def test_nuts_is_calibrated_for_hierarchical_dawid_skene() -> None:
    """13 draws a simulation, which NUTS makes nearly independent: 7 bins of 2 ranks."""
    found = calibration(nuts, "hierarchical_dawid_skene", design(6, 3, 2, 2), 1, chains=1, draws=13, warmup=10)
    judge(found, 7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bayesian_dawid_skene", "one_coin", "mace", "community"])
def test_gibbs_is_calibrated(name: str) -> None:
    """11 chains, every 7th of 63 draws: 99 draws a simulation, 20 bins of 5 ranks."""
    found = calibration(gibbs, name, design(9, 4, 3, 3), 7, chains=11, draws=63, warmup=20)
    judge(found, 20)


@pytest.mark.parametrize("kind", ["exact", "narrowed", "shifted prior"])
def test_the_check_rejects_what_is_wrong_and_nothing_else(kind: str) -> None:
    """An accuracy with a Dirichlet(7, 3) prior and 20 labels of known truth: its posterior is a Beta.

    20 repeats of 300 simulations. A posterior with 0.7 of its standard deviation, or under the prior
    Dirichlet(5, 5) (which moves it by about 0.8 standard deviations), has to be rejected in at least 19.
    """
    rng = np.random.default_rng(1)
    right, wrong = (5.0, 5.0) if kind == "shifted prior" else (7.0, 3.0)
    rejected = 0
    for _ in range(20):
        true = rng.beta(7.0, 3.0, SIMULATIONS)
        hits = rng.binomial(20, true)[:, None]
        draws = rng.beta(right + hits, wrong + 20 - hits, (SIMULATIONS, 99))
        draws = narrowed(draws) if kind == "narrowed" else draws
        rejected += uniformity(true, draws, 20) < LEVEL
    assert rejected == 0 if kind == "exact" else rejected >= 19
