"""Trace regularisation where most labels are right and where they are not: what a fit finds and warns of."""

import warnings
from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl.errors import DoubtWarning
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.posterior import Posterior
from crowdppl.simulation.crowd import SimulatedCrowd
from tests.benchmarks.test_trace import confusion_error, is_dominant

TRAINING = {"epochs": 20, "learning_rate": 0.01, "batch_size": 50}
METHODS: list[tuple[str, str, dict[str, Any]]] = [
    ("trace_reg", "svi", {"weight": 0.01}),
    ("raykar", "em", {}),
]
K = 4


def flippers(p: float) -> SimulatedCrowd:
    """Three annotators label 300 points of four clouds that lie apart.

    At p = 0.2 two classes have the same most frequent answer under seed 0. Where each has one of its own, or the
    network takes the errors for its own, a fit can be as wrong and not warn: benchmarks count how often.
    """
    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, 300)
    features = 4 * np.eye(K)[truth] + rng.normal(size=(len(truth), K))
    kinds = {crowdppl.simulation.annotator_kind("pairwise_flipper", p=p): 3}
    return crowdppl.simulate_annotators(truth, kinds, features=features, seed=0)


def fitted(crowd: SimulatedCrowd, name: str, engine: str, settings: dict[str, Any]) -> tuple[Posterior, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = crowdppl.fit(
            name, crowd.data, inference=engine, seed=0, settings={**settings, "training": TRAINING}
        )
    return posterior, " ".join(str(w.message) for w in caught if issubclass(w.category, DoubtWarning))


@pytest.mark.parametrize(("name", "engine", "settings"), METHODS)
def test_without_a_dominant_diagonal_a_fit_fails_and_says_why(
    name: str, engine: str, settings: dict[str, Any]
) -> None:
    crowd = flippers(0.2)
    assert not is_dominant(crowd.confusion)
    posterior, told = fitted(crowd, name, engine, settings)
    assert evaluate(posterior, crowd.truth).accuracy < 1 / K
    assert "the most frequent answer to" in told and "gold=" in told
    assert "diagonal" in [doubt.kind for doubt in posterior.doubts()]


@pytest.mark.parametrize(("name", "engine", "settings"), METHODS)
def test_with_a_dominant_diagonal_a_fit_finds_truth_and_annotators_and_is_silent(
    name: str, engine: str, settings: dict[str, Any]
) -> None:
    crowd = flippers(0.8)
    assert is_dominant(crowd.confusion)
    posterior, told = fitted(crowd, name, engine, settings)
    assert evaluate(posterior, crowd.truth).accuracy > 0.95
    assert confusion_error(np.asarray(posterior.confusion()), crowd.confusion) < 0.05
    assert "the most frequent answer to" not in told


def test_error_and_dominance_by_hand() -> None:
    true = np.array([[[1.0, 0.0], [0.4, 0.6]], [[0.0, 1.0], [0.0, 1.0]]])
    found = true.copy()
    found[0, 0] = [0.7, 0.3]
    assert confusion_error(found, true) == pytest.approx((0.18 / 1.52 + 0) / 2)
    assert confusion_error(true, true) == 0
    assert not is_dominant(true)  # the mean row of class 0 is even
    assert is_dominant(true[:1]) and not is_dominant(true[:1, :, ::-1])
