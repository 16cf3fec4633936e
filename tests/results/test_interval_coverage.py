"""Coverage of intervals: parameters from the prior, labels from them, and how often intervals hold the parameters.

Averaged over data sets drawn from the prior, a 90 % interval of the exact posterior holds the parameter that made
the data in 90 % of them. One observation is one data set: the share of its five annotators whose accuracy lies in
its interval, or of its three classes whose prevalence does. These shares have standard deviations of about .14 and
.22, so that their means over 100 data sets have standard errors of .014 and .022; intervals a fifth too narrow hold
.09 less. The ends are quantiles of the 200 draws that a result keeps, which in itself costs .009 of the coverage.
"""

from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl.core.intervals import Estimate
from crowdppl.data.annotations import Annotations
from crowdppl.inference.confusions import MOST_DRAWS, affordable, thinned
from crowdppl.inference.mcmc import gibbs
from crowdppl.inference.options import Options
from crowdppl.inference.problem import build_problem, model_runs
from crowdppl.inference.result import Fit, OnDemand, TableDraws
from crowdppl.results import intervals
from crowdppl.simulation.crowd import random_design, simulate
from tests.class_result import class_result

DATA_SETS, LEVEL, MARGIN = 100, 0.9, 0.045
STORY = crowdppl.method("bayesian_dawid_skene", prevalence_strength=2.0, prior_strength=10.0, prior_accuracy=0.7)
DESIGN = random_design(20, 5, 3, 3)
CHAINS: dict[str, Any] = {"chains": 100, "warmup": 20, "draws": 2}
"""Sweeps cost about the same whatever the number of chains; as many draws as a result keeps."""


def estimated(data: Annotations, seed: int) -> tuple[Estimate, Estimate]:
    """Accuracies (A,) and prevalences (K,) with intervals, by the functions behind the user's tables."""
    with model_runs(STORY, data):
        problem = build_problem(STORY, data, Options(seed=seed, **CHAINS))
        found = gibbs.sample(problem)[0]
        kept = max(MOST_DRAWS, affordable(problem))
        draws = thinned({name: x.flatten(0, 1) for name, x in found.items()}, kept)
    table, share = draws["confusion"].exp().numpy(), draws["prevalence"].exp().flatten(1, -2).numpy()
    table, share = table.reshape(len(table), *table.shape[-3:]), share.reshape(len(share), -1)
    result = class_result(
        {}, np.empty(0), table.mean(0), share.mean(0), draws=OnDemand.of(TableDraws(table, share))
    )
    fit = Fit(STORY, "bayesian_dawid_skene", "gibbs", data, result)
    return intervals.accuracy(fit, LEVEL), intervals.prevalence(fit, LEVEL)


def covered(found: Estimate, true: np.ndarray, factor: float) -> float:
    """Share of intervals that hold the truth, each first shrunk around its middle."""
    middle, half = (found.low + found.high) / 2, factor * (found.high - found.low) / 2
    return float((np.abs(true - middle) <= half).mean())


@pytest.mark.slow
def test_intervals_under_gibbs_hold_what_they_should() -> None:
    """The same criterion rejects the same intervals when they are a fifth too narrow."""
    shares: dict[tuple[str, float], list[float]] = {}
    for seed in range(DATA_SETS):
        drawn = simulate(STORY, DESIGN, seed)
        table, share = drawn.parameters["confusion"], drawn.parameters["prevalence"]
        true = {"accuracy": np.einsum("akk,k->a", table, share), "prevalence": share}
        for name, found in zip(true, estimated(drawn.data, seed), strict=True):
            for factor in (1.0, 0.8):
                shares.setdefault((name, factor), []).append(covered(found, true[name], factor))
    for (name, factor), each in shares.items():
        assert (abs(np.mean(each) - LEVEL) <= MARGIN) == (factor == 1.0), (name, factor, np.mean(each))


def test_the_intervals_are_those_that_users_get() -> None:
    data = simulate(STORY, DESIGN, 3).data
    posterior = crowdppl.fit(STORY, data, inference="gibbs", seed=3, **CHAINS)
    accuracy, share = estimated(data, 3)
    annotators, classes = posterior.annotators(LEVEL), posterior.prevalence(LEVEL)
    for end in ("low", "high"):  # tables of draws are kept in float32
        assert annotators[f"accuracy_{end}"].to_numpy() == pytest.approx(getattr(accuracy, end), abs=1e-6)
        assert classes[end].to_numpy() == pytest.approx(getattr(share, end), abs=1e-12)
