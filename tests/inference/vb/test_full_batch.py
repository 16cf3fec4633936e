"""Networks that learn from all items at once: an objective that never falls, and where it ends."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.networks.classifier import feature_tensor, log_shares
from crowdppl.posterior import Posterior
from tests.networks.test_networks import clouds

DECAY = 0.02


CASES = {
    "default": ("bayes_dgc", "vb", {}),
    "plain": ("bayes_dgc", "vb", {"recipe": "plain", "prevalence": "learned"}),
    "raykar": ("raykar", "em", {}),
    "global_noise": ("global_noise", "em", {}),
}


@pytest.fixture(scope="module")
def data() -> Annotations:
    return clouds(n=120, labelled=80)[0]


def fitted(data: Annotations, name: str, engine: str, settings: dict[str, Any], **training: Any) -> Posterior:
    training = {"full_batch": True, "epochs": 12, **training}
    return crowdppl.fit(name, data, inference=engine, seed=1, settings={**settings, "training": training})


def steps(posterior: Posterior) -> np.ndarray:
    """Gains of the objective, relative to it."""
    found = np.array(posterior.result.diagnostics["objectives"])
    return np.asarray(np.diff(found) / np.abs(found[1:]))


@pytest.mark.parametrize("case", CASES)
def test_the_objective_never_falls(data: Annotations, case: str) -> None:
    gains = steps(fitted(data, *CASES[case]))
    assert gains.min() > -1e-9 and gains.max() > 1e-4


def test_items_without_labels_do_not_drown_the_others() -> None:
    data, truth = clouds(n=1000, labelled=60)
    posterior = fitted(data, "raykar", "em", {}, weight_decay=0.05)
    assert evaluate(posterior.classify(data.features), truth).accuracy > 0.85


def test_a_frozen_network_has_its_say_and_stands_still(data: Annotations) -> None:
    network = nn.Linear(4, 3).requires_grad_(False)
    for full in (True, False):
        posterior = fitted(data, "raykar", "em", {"network": network}, full_batch=full)
        mine: Any = posterior.model.network
        torch.testing.assert_close(mine.body.weight, network.weight, rtol=0, atol=0)
        assert steps(posterior)[3:].min() > -1e-9  # in minibatches it has no say at first


def test_a_fit_that_has_settled_does_not_go_on(data: Annotations, tmp_path: Path) -> None:
    how: dict[str, Any] = {"inference": "em", "seed": 1, "checkpoint": tmp_path / "x.ckpt", "tolerance": 1e-3}
    how["settings"] = {"network": nn.Linear(4, 3), "training": {"full_batch": True, "epochs": 60}}
    first, again = (crowdppl.fit("raykar", data, **how, checkpoint_every=1) for _ in range(2))
    assert first.result.diagnostics["converged"] and first.result.diagnostics["iterations"] < 60
    assert again.result.diagnostics["objectives"] == first.result.diagnostics["objectives"]
    with pytest.warns(crowdppl.errors.CrowdpplWarning, match="epochs"):
        fitted(data, "raykar", "em", {}, epochs=2)


@pytest.fixture(scope="module")
def linear(data: Annotations) -> Posterior:
    how = {"epochs": 150, "weight_decay": DECAY}
    return fitted(data, "raykar", "em", {"network": nn.Linear(4, 3)}, **how)


def test_raykars_classifier_is_the_logistic_regression_on_the_truth(data: Annotations, linear: Posterior) -> None:
    network: Any = linear.model.network
    features = feature_tensor(data)
    x, p = network.first(features).double().numpy(), linear.probabilities().to_numpy()
    n_told = int((data.votes().sum(1) > 0).sum())
    off = p - linear.classify(data.features).to_numpy()
    weight, bias = (part.detach().double().numpy() for part in network.body.parameters())
    np.testing.assert_allclose(off.T @ x / n_told, DECAY * weight, atol=1e-3)
    np.testing.assert_allclose(off.sum(0) / n_told, DECAY * bias, atol=1e-3)
    assert np.abs(DECAY * weight).max() > 0.02


def test_the_objective_is_the_likelihood_less_the_decay(data: Annotations, linear: Posterior) -> None:
    network: Any = linear.model.network
    frame, confusion = data.frame(), linear.result.sites["confusion"].mean
    item, who = data.items.get_indexer(frame["item"]), data.annotators.get_indexer(frame["annotator"])
    label = data.classes.get_indexer(frame["label"])
    features = feature_tensor(data)
    log_p = log_shares(network, features).double().numpy()
    np.add.at(log_p, item, np.log(confusion[who, :, label].clip(1e-300)))
    likelihood = np.logaddexp.reduce(log_p, axis=1).sum()
    squares = sum(float(x.detach().double().square().sum()) for x in network.parameters())
    objective = linear.result.diagnostics["objectives"][-1]
    assert objective == pytest.approx(
        likelihood - int((data.votes().sum(1) > 0).sum()) * 0.5 * DECAY * squares, rel=1e-5
    )
    assert objective != pytest.approx(likelihood, rel=1e-3)


def test_what_cannot_be_is_refused(data: Annotations) -> None:
    with pytest.raises(MethodError, match=r"mixup=1\.0"):
        fitted(data, "bayes_dgc", "vb", {}, mixup=1.0)
    with pytest.raises(MethodError, match="bootstrapped"):
        fitted(data, "raykar", "em", {"bootstrapped": True})
    with pytest.raises(MethodError, match="full_batch=True"):
        fitted(data, "raykar", "svi", {})
