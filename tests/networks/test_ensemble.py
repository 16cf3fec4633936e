"""Networks that are trained apart on the same truth and speak with one voice."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.inference.neural.regularisers import mix, regularisation
from crowdppl.networks.classifier import Ensemble, Network
from crowdppl.networks.training import MEMBERS, Training, default_training, training_of
from tests.networks.test_networks import clouds


@pytest.fixture(scope="module")
def both() -> tuple[Annotations, pd.Series]:
    return clouds()


def fitted(data: Annotations, seed: int = 0, **training: Any) -> crowdppl.Posterior:
    settings = {"recipe": "plain", "training": {"epochs": 8, "learning_rate": 0.02, **training}}
    return crowdppl.fit("bayes_dgc", data, inference="vb", seed=seed, settings=settings)


def body_of(posterior: crowdppl.Posterior) -> Ensemble:
    network: Any = posterior.model
    assert isinstance(network.network.body, Ensemble)
    return network.network.body


def alone(ensemble: Ensemble, member: int) -> nn.Module:
    parts = list(ensemble.layers)
    out = []
    for layer in (parts[0], parts[3]):
        linear = nn.Linear(layer.weight.shape[1], layer.weight.shape[2])
        linear.load_state_dict({"weight": layer.weight[member].t(), "bias": layer.bias[member, 0]})
        out.append(linear)
    return nn.Sequential(out[0], nn.ReLU(), out[1])


def test_members_are_perceptrons_and_their_probabilities_are_averaged() -> None:
    torch.manual_seed(0)
    ensemble, x = Ensemble(3, 4, 2, 5, 0.5).eval(), torch.randn(7, 4)
    own = torch.randn(3, 7, 4)
    singles = [alone(ensemble, m) for m in range(3)]
    expected = torch.stack([single(x).softmax(-1) for single in singles]).mean(0)
    torch.testing.assert_close(ensemble(x).exp(), expected)
    torch.testing.assert_close(ensemble.apart(own), torch.stack([f(y) for f, y in zip(singles, own, strict=True)]))


def test_each_member_learns_as_it_would_alone() -> None:
    """The step's loss has, for a member, the gradient of that member's own loss on its own items."""
    torch.manual_seed(1)
    ensemble, x, t = Ensemble(2, 4, 3, 5, 0.0).double(), torch.randn(2, 6, 4).double(), torch.rand(2, 6, 3).double()
    training, even = Training(balance=0.7, volume=0.2), torch.full((3,), 1 / 3, dtype=torch.float64)

    def loss(logits: Tensor, t: Tensor) -> Tensor:
        log_p = logits.log_softmax(-1)
        return (regularisation(log_p.exp(), training, even) - (t * log_p).sum(-1).mean(-1)).sum()

    loss(ensemble.apart(x), t).backward()
    for member in range(2):
        single = alone(ensemble, member).double()
        loss(single(x[member]), t[member]).backward()
        theirs = next(iter(single.parameters())).grad
        assert theirs is not None and theirs.abs().max() > 1e-3
        torch.testing.assert_close(ensemble.layers[0].weight.grad[member].t(), theirs)


def test_an_item_is_blended_with_another_of_its_own_batch() -> None:
    torch.manual_seed(2)
    x = torch.tensor([1.0, 2.0, 3.0, 100.0, 200.0, 300.0]).unsqueeze(1)
    t = torch.eye(6)
    blend, shares = mix(x, t, members=2, mixup=1.0)
    torch.testing.assert_close(shares @ x, blend)  # features and probabilities in the same shares
    torch.testing.assert_close(shares.sum(1), torch.ones(6))
    assert (shares[:3, 3:] == 0).all() and (shares[3:, :3] == 0).all()
    own = shares.diagonal()
    assert (own >= 0.5).all() and len({round(float(s), 6) for s in own[own < 1]}) == 2  # one share a member


def test_an_ensemble_is_fitted_saved_and_the_same_again(
    both: tuple[Annotations, pd.Series], tmp_path: Path
) -> None:
    data, truth = both
    posterior, twin = (fitted(data, networks=3, hidden=16) for _ in range(2))
    weights = body_of(posterior).layers[0].weight
    assert weights.shape == (3, 4, 16)
    assert not torch.allclose(weights[0], weights[1])  # each began elsewhere
    assert posterior.probabilities().equals(twin.probabilities())
    posterior.save(tmp_path / "saved")
    loaded = crowdppl.load(tmp_path / "saved")
    pd.testing.assert_frame_equal(loaded.classify(data.features), posterior.classify(data.features))
    new = posterior.classify(data.features)
    assert (new.to_numpy().argmax(1) == truth.loc[new.index]).mean() > 0.8


@pytest.mark.parametrize(("engine", "training"), [("vb", {"precision": "mixed"}), ("svi", {})])
def test_in_mixed_precision_and_by_svi_it_learns_too(
    both: tuple[Annotations, pd.Series], engine: str, training: dict[str, Any]
) -> None:
    data, truth = both
    more = {"epochs": 12, "learning_rate": 0.02, "networks": 3, "hidden": 16, **training}
    settings = {"recipe": "plain", "training": more}
    found = crowdppl.fit("bayes_dgc", data, inference=engine, settings=settings)
    assert body_of(found).members == 3
    new = found.classify(data.features)
    assert (new.to_numpy().argmax(1) == truth.loc[new.index]).mean() > 0.8


@pytest.mark.slow
def test_its_probabilities_depend_less_on_the_seed(both: tuple[Annotations, pd.Series]) -> None:
    def spread(networks: int) -> float:
        found = [
            fitted(both[0], seed, networks=networks, hidden=16).classify(both[0].features) for seed in range(4)
        ]
        return float(np.std([p.to_numpy() for p in found], axis=0).mean())

    assert spread(5) < 0.7 * spread(1)


def test_in_full_batch_the_objective_of_an_ensemble_never_falls(both: tuple[Annotations, pd.Series]) -> None:
    found = fitted(both[0], networks=2, hidden=8, full_batch=True, epochs=6, weight_decay=0.01)
    objectives = np.array(found.diagnostics()["objectives"])
    assert len(objectives) > 2 and (np.diff(objectives) >= -1e-9 * np.abs(objectives[:-1])).all()


def test_the_house_takes_several_unless_items_are_many(both: tuple[Annotations, pd.Series]) -> None:
    data, _ = both
    assert default_training(data)["networks"] == MEMBERS
    assert default_training(data, networks=2)["networks"] == 2
    assert default_training(data, full_batch=True)["networks"] == 1
    n = 64 * 130
    many = {"items": range(n), "features": np.ones((n, 1))}
    large = Annotations.from_arrays(np.arange(n), np.arange(n) % 2, np.arange(n) // 2 % 2, **many)
    assert default_training(large)["networks"] == 1
    with pytest.raises(MethodError, match="networks=0"):
        training_of({"networks": 0})
    own: Any = crowdppl.networks.prepared(nn.Linear(4, 3), data, {"networks": 4})
    assert isinstance(own, Network) and own.members == 1  # a network of one's own is taken as it is
