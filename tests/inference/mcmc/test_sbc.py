"""Simulation-based calibration: parameters from the prior, labels from them, and their rank among posterior draws.

If an engine samples the exact posterior, ranks are uniform (Talts et al. 2018, "Validating Bayesian inference
algorithms with simulation-based calibration"); ``rank_check`` tests this. Some 30 quantities are tested at level
1e-4: other seeds than these would fail once in about 300 runs of this file. The quantities do not change when
classes trade names, and the priors are informative enough to keep chains from trading them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl.testing.sbc import rank_check

pytestmark = pytest.mark.slow

LEVEL = 1e-4
Values = Mapping[str, np.ndarray]

SETTINGS: dict[str, dict[str, Any]] = {
    "bayesian_dawid_skene": {"prevalence_strength": 2.0, "prior_strength": 10.0, "prior_accuracy": 0.7},
    "mace": {"knows": 6.0, "guesses": 3.0, "guess": 2.0},
}


def entropy(p: np.ndarray) -> np.ndarray:
    return np.asarray(-(p * np.log(np.clip(p, 1e-300, None))).sum(-1))


def accuracy(v: Values, table: np.ndarray) -> np.ndarray:
    """Probability that an annotator is right, mean over annotators: (n,) from (n, A, K, K)."""
    return np.asarray(np.einsum("nk,nakk->n", v["prevalence"], table) / table.shape[1])


# What is ranked besides what rank_check ranks anyway, from values (n, *site).
QUANTITIES: dict[str, dict[str, Callable[[Values], np.ndarray]]] = {
    "bayesian_dawid_skene": {
        "accuracy": lambda v: accuracy(v, v["confusion"]),
        "best on the diagonal": lambda v: np.einsum("nakk->na", v["confusion"]).max(1),
    },
    "mace": {
        "mean competence": lambda v: v["competence"][..., 0].mean(1),
        "guessing entropy": lambda v: entropy(v["guess"]).mean(1),
    },
}


def judge(name: str, inference: str, design: crowdppl.Annotations, **options: Any) -> None:
    """All quantities are uniform; with 0.7 of the draws' standard deviation, all of ours but one are not."""
    own = {**QUANTITIES[name], "prevalence entropy": lambda v: entropy(v["prevalence"])}
    model = crowdppl.method(name, prevalence="learned", **SETTINGS[name])
    check = rank_check(model, design, inference=inference, simulations=300, quantities=own, **options)
    assert check.table["p_value"].min() > LEVEL, check
    centre = {n: x.mean(1, keepdims=True) for n, x in check.draws.items()}
    narrow = replace(check, draws={n: centre[n] + 0.7 * (x - centre[n]) for n, x in check.draws.items()})
    assert narrow.table["p_value"][[*own]].sort_values().iloc[-2] < LEVEL, narrow


def test_nuts_is_calibrated() -> None:
    """13 draws a simulation, which NUTS makes nearly independent."""
    design = crowdppl.random_design(6, 3, 2, classes=2, seed=0)
    judge("bayesian_dawid_skene", "nuts", design, chains=1, draws=13, warmup=10, ranks=13)


@pytest.mark.parametrize("name", ["mace", "bayesian_dawid_skene"])
def test_gibbs_is_calibrated(name: str) -> None:
    """11 chains, every 7th of 63 draws."""
    design = crowdppl.random_design(9, 4, 3, classes=3, seed=0)
    judge(name, "gibbs", design, chains=11, draws=63, warmup=20)
