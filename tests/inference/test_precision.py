"""Networks in bfloat16: near to what float32 gives, nothing else touched, and only where it is asked for."""

from typing import Any, ClassVar

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.networks.training import training_of
from crowdppl.posterior import Posterior
from tests.networks.test_networks import clouds

NEAR = 0.03
"""Largest difference of a probability on these data; two or three digits of each logit, grown by ten epochs."""


@pytest.fixture(scope="module")
def data() -> Annotations:
    return clouds(180, 120)[0]


def fitted(
    name: str, engine: str, data: Annotations, precision: str, seed: int = 0, dropout: float = 0.5, **options: Any
) -> Posterior:
    training = {"epochs": 10, "learning_rate": 5e-3, "precision": precision, "dropout": dropout}
    settings: dict[str, Any] = {"training": training} | ({"recipe": "plain"} if name == "bayes_dgc" else {})
    return crowdppl.fit(name, data, inference=engine, seed=seed, settings=settings, **options)


@pytest.mark.parametrize(("name", "engine"), [("bayes_dgc", "vb"), ("ccem", "svi")])
def test_mixed_precision_is_near_to_full(name: str, engine: str, data: Annotations) -> None:
    full, mixed, other = (
        fitted(name, engine, data, how, seed) for how, seed in (("full", 0), ("mixed", 0), ("full", 1))
    )
    want = full.probabilities().to_numpy()
    gap, by_seed = (np.abs(p.probabilities().to_numpy() - want) for p in (mixed, other))
    assert 0 < gap.max() < NEAR
    assert gap.mean() < by_seed.mean() / 3
    assert 0 < np.abs(mixed.classify(data.features) - full.classify(data.features)).to_numpy().max() < NEAR
    one, two = (p.diagnostics()["objective"] for p in (full, mixed))
    assert two == pytest.approx(one, rel=2e-3)


class Spy(nn.Module):
    """Notes what the layers before it compute in; copies of it note to the same place."""

    seen: ClassVar[set[torch.dtype]] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add(x.dtype)
        return x


def test_layers_compute_in_bfloat16_and_all_else_does_not(data: Annotations) -> None:
    name, engine = "raykar", "em"
    for how, inner in (("full", torch.float32), ("mixed", torch.bfloat16)):
        Spy.seen.clear()
        body = nn.Sequential(nn.Linear(4, 8), Spy(), nn.Linear(8, 3))
        model = crowdppl.method(name, network=body, training={"epochs": 2, "precision": how})
        found = crowdppl.fit(model, data, inference=engine, seed=0)
        assert Spy.seen == {inner}
        network: Any = found.model.network
        assert {x.dtype for x in network.parameters()} == {torch.float32}
        assert network(torch.zeros(2, 4)).dtype == torch.float32


class Bare:
    """A model whose network crowdppl did not make ready."""

    def __init__(self) -> None:
        self.network = nn.Linear(4, 3)
        self.training = {"epochs": 1, "precision": "mixed"}

    def model(self, data: Any) -> None:
        with crowdppl.primitives.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(crowdppl.primitives.diagonal_prior(3)).to_event(1))
        log_p = crowdppl.networks.class_logits(data, self.network)
        with crowdppl.primitives.plates.items(data):
            crowdppl.primitives.annotate(data, confusion.log(), crowdppl.primitives.truth(data, log_p))


def test_what_cannot_be_is_refused(data: Annotations) -> None:
    with pytest.raises(MethodError, match="precision='half' is neither 'full' nor 'mixed'"):
        training_of({"precision": "half"})
    with pytest.raises(MethodError, match="full_batch=True"):
        training_of({"precision": "mixed", "full_batch": True})
    with pytest.raises(MethodError, match="precision='mixed'"):
        crowdppl.fit(Bare(), data, inference="vb")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize(("name", "engine"), [("bayes_dgc", "vb"), ("ccem", "svi")])
def test_so_it_is_on_cuda(name: str, engine: str, data: Annotations) -> None:
    """Nothing is dropped out, for a GPU draws something else in each precision."""
    full, mixed = (fitted(name, engine, data, how, dropout=0.0, device="cuda") for how in ("full", "mixed"))
    gap = np.abs(mixed.probabilities().to_numpy() - full.probabilities().to_numpy())
    assert 0 < gap.max() < NEAR
    assert 0 < np.abs(mixed.classify(data.features) - full.classify(data.features)).to_numpy().max() < NEAR
