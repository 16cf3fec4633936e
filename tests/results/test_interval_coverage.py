"""Coverage of intervals: parameters from the prior, labels from them, and how often intervals hold the parameters.

Averaged over data sets drawn from the prior, a 90 % interval of the exact posterior holds the parameter that made
the data in 90 % of them. 500 data sets are drawn from a story and fitted under the very same priors. One
observation is one data set: the share of its five annotators whose accuracy lies in its interval, or of its three
classes whose prevalence does. These shares have standard deviations of about .14 and .22, so that their means over
500 data sets have standard errors of .006 and .010. The ends are quantiles of the 200 draws that a result keeps,
which in itself costs .009 of the coverage.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

import crowdppl
from crowdppl.core.intervals import Estimate, from_draws
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning
from crowdppl.inference.draws import draws_of
from crowdppl.inference.mcmc import gibbs
from crowdppl.inference.options import Options
from crowdppl.inference.problem import build_problem, without_validation
from crowdppl.inference.result import FitResult, SiteResult
from crowdppl.inference.tables import MOST_DRAWS, Draws, affordable, thinned
from crowdppl.inference.vb.fit import run_starts
from crowdppl.inference.vb.linear_response import weights
from crowdppl.results import intervals
from crowdppl.simulation.from_model import random_design, simulate

DATA_SETS = 500
LEVEL = 0.9
MARGIN = 0.03
PRIOR: dict[str, Any] = {"prevalence_strength": 2.0, "prior_strength": 10.0, "prior_accuracy": 0.7}
DESIGN = random_design(20, 5, 3, 3)
CHAINS: dict[str, Any] = {"chains": 50, "warmup": 30, "draws": 4}
"""Sweeps cost about the same whatever the number of chains; as many draws as a result keeps."""
DIMS = {"confusion": ("annotator", "truth", "label"), "prevalence": ("class",)}

Found = tuple[Estimate, Estimate]
"""Intervals of annotators' accuracies (A,) and of prevalences (K,)."""
Coverage = dict[str, np.ndarray]
"""By quantity and kind of interval, for each data set the share of intervals that hold what they should, (D,)."""


def story() -> Any:
    return crowdppl.method("bayesian_dawid_skene", **PRIOR)


def estimates(draws: Draws, sites: dict[str, SiteResult]) -> Found:
    """What a result says of draws (n, [1,] *shape), log theta, by the functions behind the user's tables."""
    table, share = draws["confusion"].exp().numpy(), draws["prevalence"].exp().flatten(1, -2).numpy()
    table, share = table.reshape(len(table), *table.shape[-3:]), share.reshape(len(share), -1)
    nothing = np.empty(0)
    result = FitResult(sites, nothing, None, table.mean(0), table, share.mean(0), share)
    return intervals.accuracy(result, LEVEL), intervals.prevalence(result, LEVEL)


def by_gibbs(data: Annotations, seed: int) -> Found:
    with without_validation("cpu"):
        problem = build_problem(story(), data, Options(seed=seed, **CHAINS))
        found = gibbs.sample(problem, problem.options)[0]
        kept = max(MOST_DRAWS, affordable(problem))
        return estimates(thinned({n: x.flatten(0, 1) for n, x in found.items()}, kept), {})


def by_vb(data: Annotations, seed: int) -> Found:
    with without_validation("cpu"):
        problem = build_problem(story(), data, Options(seed=seed, tolerance=1e-6))
        ascent = run_starts(problem, problem.options, "vb")[0].ascent
        wide = weights(problem, ascent, problem.options.generator(13), settled=True)
        sites = {
            name: SiteResult(
                name, DIMS[name], "dirichlet", {"concentration": c.numpy(), "weight": wide[name].numpy()}
            )
            for name, c in ascent.state.parameters.items()
        }
        stream = problem.options.generator(8)
        return estimates(draws_of(problem, sites, data.order, affordable(problem), stream), sites)


def covered(found: Estimate, true: np.ndarray, factor: float = 1.0) -> float:
    """Share of intervals that hold the truth, each first shrunk around its middle."""
    middle, half = (found.low + found.high) / 2, factor * (found.high - found.low) / 2
    return float((np.abs(true - middle) <= half).mean())


def coverage(fit: Callable[[Annotations, int], Found], seeds: Iterable[int]) -> Coverage:
    """Data sets by seed: parameters and labels from the prior, a fit, and what its intervals hold of the former."""
    shares: dict[str, list[float]] = {}
    for seed in seeds:
        drawn = simulate(story(), DESIGN, seed)
        table, share = drawn.parameters["confusion"], drawn.parameters["prevalence"]
        accuracy = np.einsum("akk,k->a", table, share)
        for name, found, true in zip(
            ("accuracy", "prevalence"), fit(drawn.data, seed), (accuracy, share), strict=True
        ):
            shares.setdefault(name, []).append(covered(found, true))
            shares.setdefault(f"{name}, narrowed", []).append(covered(found, true, 0.8))
    return {name: np.array(x) for name, x in shares.items()}


def accepted(shares: np.ndarray) -> bool:
    """The criterion: the level, and 3 % to either side."""
    return bool(abs(shares.mean() - LEVEL) <= MARGIN)


def told(found: Coverage) -> str:
    return ", ".join(f"{name} {x.mean():.3f} +- {x.std() / len(x) ** 0.5:.3f}" for name, x in found.items())


@pytest.mark.slow
def test_intervals_under_gibbs_hold_what_they_should() -> None:
    """The same criterion rejects the same intervals when they are a fifth too narrow. vb's are printed only."""
    found = coverage(by_gibbs, range(DATA_SETS))
    print(f"gibbs: {told(found)}")
    print(f"vb: {told(coverage(by_vb, range(DATA_SETS)))}")
    verdicts = {name: accepted(x) for name, x in found.items()}
    assert verdicts == {name: "narrowed" not in name for name in found}, told(found)


@pytest.mark.parametrize("engine", ["gibbs", "vb"])
def test_the_intervals_are_those_that_users_get(engine: str) -> None:
    data = simulate(story(), DESIGN, 3).data
    options = CHAINS if engine == "gibbs" else {"tolerance": 1e-6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)  # 4 draws a chain are too few to tell whether chains agree
        posterior = crowdppl.fit(story(), data, inference=engine, seed=3, **options)
    accuracy, share = (by_gibbs if engine == "gibbs" else by_vb)(data, 3)
    annotators, classes = posterior.annotators(LEVEL), posterior.prevalence(LEVEL)
    for end in ("low", "high"):  # tables of draws are kept in float32
        assert annotators[f"accuracy_{end}"].to_numpy() == pytest.approx(getattr(accuracy, end), abs=1e-6)
        assert classes[end].to_numpy() == pytest.approx(getattr(share, end), abs=1e-12)


def test_a_seed_decides_everything() -> None:
    torch.manual_seed(7)
    first = coverage(by_gibbs, range(3)), coverage(by_vb, range(3))
    torch.manual_seed(8)
    again = coverage(by_gibbs, range(3)), coverage(by_vb, range(3))
    for one, other in zip(first, again, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    seeds = by_gibbs(simulate(story(), DESIGN, 0).data, 0), by_gibbs(simulate(story(), DESIGN, 0).data, 1)
    assert not np.array_equal(seeds[0][0].low, seeds[1][0].low)


@pytest.mark.parametrize("factor", [1.0, 0.8, 1.3])
def test_the_criterion_accepts_what_is_exact_and_nothing_else(factor: float) -> None:
    """Five accuracies with a Beta(7, 3) prior and 20 labels of known truth each: 500 data sets, 20 times over."""
    rng = np.random.default_rng(2)
    verdicts = []
    for _ in range(20):
        true = rng.beta(7, 3, (DATA_SETS, 5))
        hits = rng.binomial(20, true)
        draws = rng.beta(7 + hits, 23 - hits, (MOST_DRAWS, DATA_SETS, 5))
        found = from_draws(draws, LEVEL)
        shares = np.array([covered(found.at(d), true[d], factor) for d in range(DATA_SETS)])
        verdicts.append(accepted(shares))
    assert verdicts == [factor == 1.0] * 20
