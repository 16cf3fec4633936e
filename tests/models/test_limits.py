"""Where one method becomes another: the same density at matched values, the same fit where that has a meaning."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from pyro import poutine
from torch import Tensor

import crowdppl
from crowdppl.inference.density import Density
from crowdppl.primitives.model import plates_of
from tests.brute import ABSTAINING, PLAIN, TELLING, Tiny
from tests.crowd import crowd, double

A, N, K = 5, 4, 3
UNIFORM, LEARNED = {"prevalence": "uniform"}, {"prevalence": "learned"}
FLAT = {"prevalence": "learned", "prevalence_strength": 1.0}
BAYES = "bayesian_dawid_skene"
Case = tuple[str, dict[str, Any], dict[str, Tensor], str, dict[str, Any], dict[str, Tensor]]


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double():
        yield


def shares(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).softmax(-1)


def full(value: float, *shape: int) -> Tensor:
    return torch.full(shape, value, dtype=torch.float64)


COINS = shares(A, 2)
ROWS = shares(A, K, K)
SHARED = shares(K, K)
GUESSED = torch.stack([COINS[:, 0] + COINS[:, 1] / K, COINS[:, 1] * (K - 1) / K], -1)
BLUR = 0.3
EASY = {"difficulty": full(BLUR, N)}
CLIQUES = torch.eye(K, dtype=torch.float64).clamp(min=1e-30).expand(2, 1, K, K)
ONE_GROUP = {"weights": full(1, 1), "shared": SHARED[None], "community": full(1, A, 1)}
NO_CROWD = {"crowd": full(0, K, K), "spread": full(1), "hardness": full(1), "logits": ROWS.log() * math.exp(BLUR)}
BY_COIN, BY_ROWS, BY_CROWD = {"ability": COINS}, {"confusion": ROWS}, {"confusion": SHARED}
ALL_ALIKE = {"confusion": SHARED.expand(A, K, K)}
POOLED = {"crowd": SHARED, "concentration": full(1e9, K), **ALL_ALIKE}
CORNERS = {"blends": (), "diluted": False}
ODDS = {"ability": (COINS[:, 0] / COINS[:, 1]).log() * math.exp(BLUR)}
CASES: list[Case] = [
    ("hierarchical_dawid_skene", UNIFORM, POOLED, "multinomial", UNIFORM, BY_CROWD),
    ("multinomial", UNIFORM, BY_CROWD, "dawid_skene", UNIFORM, ALL_ALIKE),
    ("class_coin", UNIFORM, {"ability": COINS.unsqueeze(1).expand(A, K, 2)}, "one_coin", UNIFORM, BY_COIN),
    ("majority_vote", UNIFORM, {"ability": COINS[0]}, "one_coin", UNIFORM, {"ability": COINS[:1].expand(A, 2)}),
    ("glad", UNIFORM, {**ODDS, **EASY}, "one_coin", UNIFORM, BY_COIN),
    ("mace", UNIFORM, {"competence": COINS, "guess": full(1 / K, A, K)}, "one_coin", UNIFORM, {"ability": GUESSED}),
    ("dependent_clusters", {"groups": [0, 1, 2, 3, 4], **LEARNED}, {}, "dawid_skene", LEARNED, {}),
    ("dependent_clusters", {"groups": [0, 1, 0, 2, 1], **LEARNED}, {"link": CLIQUES}, "dawid_skene", LEARNED, {}),
    ("community", {"communities": 1}, ONE_GROUP, "multinomial", {}, BY_CROWD),
    ("ebcc", {"subtypes": 1}, {"subtypes": full(1, K, 1), "confusion": ROWS.unsqueeze(2)}, BAYES, LEARNED, BY_ROWS),
    ("mixed_membership", CORNERS, {"kinds": shares(K), **BY_ROWS}, BAYES, LEARNED, BY_ROWS),
    ("minimax_entropy", {"items": False}, {"habit": ROWS.log()}, "dawid_skene", UNIFORM, BY_ROWS),
    ("minimax_entropy", {}, {"habit": ROWS.log(), "trap": full(0, N, K, K)}, "dawid_skene", UNIFORM, BY_ROWS),
    ("item_difficulty", UNIFORM, {**NO_CROWD, **EASY}, "dawid_skene", UNIFORM, BY_ROWS),
]


@pytest.mark.parametrize("tiny", [PLAIN, ABSTAINING, TELLING], ids=["classes", "abstentions", "telling"])
@pytest.mark.parametrize("case", CASES, ids=[f"{c[0]} {c[1]} is {c[3]}" for c in CASES])
def test_one_density_is_the_other(case: Case, tiny: Tiny) -> None:
    name, settings, values, other, others, expected = case
    declined = {} if tiny is PLAIN else {"abstention": shares(A, K if tiny.informative else 1, 3)}
    if name == "majority_vote" and tiny.informative:
        pytest.skip("here an abstention says nothing about the truth")
    base = {"prevalence": shares(K), "confusion": ROWS, **declined}
    found, wanted = (
        evidence(crowdppl.method(n, **s), {**base, **v}, tiny)
        for n, s, v in ((name, settings, values), (other, others, expected))
    )
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


def evidence(model: Any, values: dict[str, Tensor], tiny: Tiny) -> tuple[Tensor, Tensor]:
    """Log evidence and truth posterior of each item."""
    found = Density(model.model, plates_of(model))(tiny.built[1], values, marginals=("truth",))
    return found.per_item, found.marginals["truth"]


def probabilities(inference: str, name: str, settings: dict[str, Any]) -> np.ndarray:
    options: dict[str, Any] = {"guide": "point"} if inference == "vb" else {}
    tolerance = 1e-16 if inference == "vb" else 1e-11  # of vb, some look ahead, and their paths differ
    data = crowd(80, 6, K, 5, seed=3)
    posterior = crowdppl.fit(name, data, inference=inference, settings=settings, tolerance=tolerance, **options)
    return posterior.probabilities().to_numpy()


Fit = tuple[str, str, dict[str, Any]]
ALONE = {"groups": list(range(6)), **FLAT}
EVEN: dict[str, Any] = {"prior_strength": 4.0, "prior_accuracy": 0.6}
HALF: dict[str, Any] = {"prior_strength": 4.0, "prior_accuracy": 0.5, **LEARNED}
TWO_ONE: dict[str, Any] = {"right": 2.0, "wrong": 1.0, **LEARNED}
THIRD: dict[str, Any] = {"prior_strength": 3.0, "prior_accuracy": 1 / 3}
AS_EASY: dict[str, Any] = {"difficulty_spread": 1e-4, "mean": 0.0, "spread": 100.0, **UNIFORM}
FITS: list[tuple[Fit, Fit, float]] = [
    (("vb", "ebcc", {"subtypes": 1, **LEARNED}), ("vb", BAYES, FLAT), 1e-6),
    (("vb", "mixed_membership", CORNERS), ("vb", BAYES, FLAT), 1e-6),
    (("vb", "dependent_clusters", {**ALONE, **EVEN}), ("vb", BAYES, {**EVEN, **FLAT}), 1e-6),
    (("em", "dependent_clusters", {**ALONE, **THIRD}), ("em", "dawid_skene", LEARNED), 1e-6),
    (("em", "glad", AS_EASY), ("em", "one_coin", UNIFORM), 1e-3),
    (("em", "minimax_entropy", {"items": False, "penalty": 1e-7}), ("em", "dawid_skene", UNIFORM), 1e-2),
]


@pytest.mark.parametrize(("one", "other", "tolerance"), FITS, ids=[f"{f[0][1]} by {f[0][0]}" for f in FITS])
def test_one_fit_is_the_other(one: Fit, other: Fit, tolerance: float) -> None:
    found, wanted = probabilities(*one), probabilities(*other)
    np.testing.assert_allclose(found, wanted, atol=tolerance)
    assert wanted.max(1).min() < 0.9  # the agreement is not one of certainties


def test_prior_rows_without_spread_are_the_crowds() -> None:
    model = crowdppl.method("hierarchical_dawid_skene", typical=1e8, spread=1e-3)
    torch.manual_seed(0)
    nodes = poutine.trace(poutine.enum(model.model, first_available_dim=-2)).get_trace(PLAIN.built[1]).nodes
    rows = nodes["confusion"]["value"]
    torch.testing.assert_close(rows, nodes["crowd"]["value"].expand_as(rows), atol=1e-3, rtol=0)


def test_a_prevalence_of_another_kind_is_refused() -> None:
    with pytest.raises(crowdppl.errors.MethodError, match="prevalence='flat' is neither 'learned' nor 'uniform'"):
        crowdppl.primitives.prevalence(PLAIN.built[1], "flat")
