"""Simulation-based calibration: parameters from the prior, labels from them, and their rank among posterior draws.

If an engine samples the exact posterior, ranks are uniform (Talts et al. 2018, "Validating Bayesian inference
algorithms with simulation-based calibration"); ``rank_check`` tests this, and tests/testing/test_sbc_public.py does
it for gibbs and ``bayesian_dawid_skene``. Of n uniform ranks the mean has a standard deviation of ``.29 / sqrt(n)``
and the spread one of ``.45 / sqrt(n)`` (the fourth moment of a uniform is 1.8); draws with 0.6 of their standard
deviation have a spread of 1.26, those with 0.3 of it one of 1.51, so that 100 and 40 simulations find them out at
five standard deviations. The quantities do not change when classes trade names, and the priors are informative
enough to keep chains from trading them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl.testing.sbc import RankCheck, rank_check

pytestmark = pytest.mark.slow

Values = Mapping[str, np.ndarray]


def far(check: RankCheck) -> np.ndarray:
    """How many standard deviations the mean and the spread of each quantity's ranks lie off, the larger one."""
    table, root = check.table, len(check.ranks) ** 0.5
    mean, spread = (table["mean"] - 0.5) * root / 12**-0.5, (table["spread"] - 1) * root / 0.2**0.5
    return np.maximum(mean.abs(), spread.abs()).to_numpy()


def judge(check: RankCheck, factor: float) -> None:
    """Ranks are uniform, and those of draws with so much of their standard deviation are not.

    Some 6 quantities at level 1e-4: other seeds than these would fail once in about 500 runs.
    """
    assert check.table["p_value"].min() > 1e-4 and far(check).max() < 3.9, check
    centre = {n: x.mean(1, keepdims=True) for n, x in check.draws.items()}
    narrow = replace(check, draws={n: centre[n] + factor * (x - centre[n]) for n, x in check.draws.items()})
    assert np.sort(far(narrow))[2] > 3.9, narrow


def test_gibbs_is_calibrated() -> None:
    model = crowdppl.method("mace", prevalence="learned", knows=6.0, guesses=3.0, guess=2.0)
    design = crowdppl.random_design(9, 4, 3, classes=3, seed=0)
    own: dict[str, Callable[[Values], np.ndarray]] = {
        "mean competence": lambda v: v["competence"][..., 0].mean(1),
        "guessing entropy": lambda v: -(v["guess"] * np.log(v["guess"].clip(1e-300))).sum(-1).mean(1),
    }
    one_each: dict[str, Any] = {"chains": 99, "draws": 1, "warmup": 20}
    judge(rank_check(model, design, inference="gibbs", simulations=100, quantities=own, **one_each), 0.6)


def test_gibbs_of_numbers_is_calibrated() -> None:
    who = np.concatenate([np.random.default_rng(i).permutation(4)[:3] for i in range(8)])
    design = crowdppl.Annotations.design(np.repeat(np.arange(8), 3), who, kind="real")
    own: dict[str, Callable[[Values], np.ndarray]] = {
        "bias": lambda v: v["error"][:, 0, 0],
        "log precision": lambda v: np.log(v["error"][:, 0, 1]),
        "log precision of items": lambda v: np.log(v["level"][:, 1]),
    }
    model = crowdppl.method("gaussian_annotators", units=((5.0, 2.0),))
    one_each: dict[str, Any] = {"chains": 99, "draws": 1, "warmup": 20}
    judge(rank_check(model, design, inference="gibbs", simulations=70, quantities=own, **one_each), 0.5)


def test_nuts_is_calibrated() -> None:
    """Nine draws a simulation, which NUTS makes nearly independent; their own mean is further off."""
    prior: dict[str, Any] = {"prevalence_strength": 2.0, "prior_strength": 10.0, "prior_accuracy": 0.7}
    model = crowdppl.method("bayesian_dawid_skene", prevalence="learned", **prior)
    design = crowdppl.random_design(9, 4, 3, classes=2, seed=0)
    best: Any = {"best on the diagonal": lambda v: np.einsum("nakk->na", v["confusion"]).max(1)}
    short: dict[str, Any] = {"chains": 1, "draws": 9, "warmup": 8, "ranks": 9}
    judge(rank_check(model, design, inference="nuts", simulations=40, quantities=best, **short), 0.3)
