"""Classifiers that learn from labels by a loss: limits, brute force and simulated crowds."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import crowdppl
from crowdppl import baselines
from crowdppl.baselines.classifiers import information
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplError, DataError, MethodError
from tests.networks.test_networks import CLOUDS, clouds

FUNCTIONS = [baselines.doctor_net, baselines.max_mig, baselines.soft_bootstrap]
SHORT = {"epochs": 20}
NEW, NEW_TRUTH = clouds(150, 9, seed=1)


def crowd(kinds: dict[str, int], seed: int = 0) -> tuple[Annotations, pd.Series]:
    """Clouds of which annotators of these kinds label every item."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 240)
    features = pd.DataFrame(CLOUDS[truth] + rng.normal(size=(240, 4)))
    found = crowdppl.simulate_annotators(truth, kinds, features=features, seed=seed)
    return found.data, found.truth


def right(found: Any) -> float:
    """Share of new items whose class is told from their features."""
    return float((found.classify(NEW.features).idxmax(axis=1) == NEW_TRUTH).mean())


@pytest.mark.parametrize("run", FUNCTIONS)
def test_it_reaches_new_items_and_repeats_itself(run: Any) -> None:
    data, truth = clouds()
    one, two = (run(data, training=SHORT, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.probabilities(), two.probabilities())
    assert right(one) > 0.8
    assert crowdppl.evaluate(one, truth).accuracy > 0.8
    np.testing.assert_allclose(one.probabilities().sum(1), 1)


def test_a_bootstrap_without_votes_leaves_the_network_as_it_was() -> None:
    data, _ = clouds()
    net = nn.Linear(4, 3)
    still = {"epochs": 20, "weight_decay": 0.0}
    found: Any = baselines.soft_bootstrap(data, beta=0.0, network=deepcopy(net), training=still)
    moved: Any = baselines.soft_bootstrap(data, beta=0.1, network=deepcopy(net), training=still)
    steps = [float((x.network.body.weight - net.weight).detach().abs().max()) for x in (found, moved)]
    assert steps[0] < 0.2 * steps[1]  # AdamW also follows what rounding leaves of a gradient of 0


def test_one_doctor_is_a_network_on_the_votes() -> None:
    data, _ = crowd({"hammer": 1})
    net = nn.Linear(4, 3)
    doctor = baselines.doctor_net(data, network=net, training=SHORT)
    votes = baselines.soft_bootstrap(data, beta=1.0, network=net, training=SHORT)
    np.testing.assert_allclose(doctor.probabilities(), votes.probabilities(), atol=1e-6)


def test_weights_of_doctors_tell_spammers() -> None:
    data, truth = crowd({"hammer": 4, "spammer": 8})
    even, found = (baselines.doctor_net(data, weighted=w, training=SHORT) for w in (False, True))
    weight = found.annotators()["weight"]
    hammer = weight.index.str.startswith("hammer")
    assert weight[hammer].mean() > 1.5 * weight[~hammer].mean()
    assert weight.sum() == pytest.approx(1)
    assert even.annotators()["weight"].to_numpy() == pytest.approx(1 / 12)
    scores = [crowdppl.evaluate(x, truth) for x in (even, found)]
    assert scores[1].log_score < scores[0].log_score - 0.04


def test_the_information_is_that_of_brute_force_and_at_most_the_true_one() -> None:
    f, g = torch.rand(2, 12, 3).softmax(-1)
    p = torch.tensor([0.2, 0.3, 0.5])
    m = [[sum(float(f[i, k] * g[j, k] / p[k]) for k in range(3)) for j in range(12)] for i in range(12)]
    own = 1 + np.mean([math.log(m[i][i]) for i in range(12)])
    others = np.mean([m[i][j] for i in range(12) for j in range(12) if i != j])
    assert float(information(f, g, p)) == pytest.approx(own - others, abs=1e-5)
    assert float(information(p.expand(9, 3), p.expand(9, 3), p)) == pytest.approx(0, abs=1e-5)
    sure = torch.eye(3).repeat(2000, 1)
    assert float(information(sure, sure, torch.full((3,), 1 / 3))) == pytest.approx(math.log(3), abs=1e-3)


def test_max_mig_turns_adversaries_round() -> None:
    data, truth = crowd({"hammer": 5, "adversary": 3})
    found = baselines.max_mig(data, training=SHORT)
    weight = found.annotators()["weight"]
    bad = weight.index.str.startswith("adversary")
    assert weight[bad].max() < weight[~bad].min()
    assert crowdppl.evaluate(found, truth).accuracy > 0.9


@pytest.mark.parametrize("run", FUNCTIONS)
def test_what_cannot_be_is_refused(run: Any) -> None:
    data, _ = clouds(60, 60)
    cases: list[tuple[Any, dict[str, Any], type[CrowdpplError], str]] = [
        (crowdppl.anaesthetists(), {}, DataError, "have no features; give features="),
        (data, {"training": {"mixup": 1.0}}, MethodError, "mixup=1.0 is none of what"),
        (data, {"training": {"warm_up": 0}}, MethodError, "warm_up=0 is none of what"),
        (data, {"network": nn.Linear(4, 5)}, MethodError, "it must return"),
    ]
    if run is not baselines.doctor_net:
        cases.append((data, {"network": LogisticRegression()}, MethodError, "no weight that learns"))
    for given, settings, error, message in cases:
        with pytest.raises(error, match=message):
            run(given, **settings)
    with pytest.raises(MethodError, match="beta=2"):
        baselines.soft_bootstrap(data, beta=2)
