"""Networks of all kinds learn from batches of all sizes, stand still where nothing is to learn, or are refused."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.posterior import Posterior
from tests.networks.test_networks import clouds

BOTH = [("raykar", "em"), ("conal", "svi")]


def fitted(name: str, engine: str, data: Annotations, network: nn.Module | None, **more: Any) -> Posterior:
    settings = {"network": network, "training": {"epochs": 4, "batch_size": 16}, **more}
    settings |= {"recipe": "plain"} if name == "bayes_dgc" else {}
    return crowdppl.fit(name, data, inference=engine, seed=0, settings=settings)


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize(("name", "engine"), BOTH)
def test_batch_norm_learns_whatever_the_number_of_items(name: str, engine: str) -> None:
    found = fitted(name, engine, clouds(33, 33)[0], normed())
    assert np.isfinite(found.probabilities().to_numpy()).all()


class Cut(nn.Module):
    """Logits that do not hang on its weights, or not as torch sees it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer, self.how = nn.Linear(4, 3), how

    def forward(self, x: Tensor) -> Any:
        found = self.layer(x)
        known: dict[str, Any] = {"detached": found.detach(), "whole": found.long(), "pair": (found, x)}
        return known[self.how]


@pytest.mark.parametrize(("name", "engine"), BOTH)
def test_a_network_that_no_gradient_reaches_is_refused_and_so_is_one_that_returns_no_tensor(
    name: str, engine: str
) -> None:
    data = clouds(40, 40)[0]
    for how in ("detached", "whole"):
        with pytest.raises(MethodError, match="no gradient"):
            fitted(name, engine, data, Cut(how))
    with pytest.raises(MethodError, match="tuple"):
        fitted(name, engine, data, Cut("pair"))
    if engine != "svi":
        with pytest.raises(MethodError, match="no gradient"):
            fitted(name, engine, data, Cut("detached"), training={"epochs": 2, "full_batch": True})
    frozen = fitted(name, engine, data, Cut("detached").requires_grad_(False))
    assert np.isfinite(frozen.probabilities().to_numpy()).all()


class Fixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :3]


def test_under_svi_too_a_network_without_weights_to_learn_has_its_say_and_stands_still() -> None:
    name = "bayes_dgc"
    data, truth = clouds(120, 60, 4)
    frozen = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)).requires_grad_(False).eval()
    for network in (Fixed(), frozen):
        found: Any = fitted(name, "svi", data, network)
        body = found.model.network.body
        assert all(torch.equal(x, body.state_dict()[key]) for key, x in network.state_dict().items())
        mute = data.items[data.votes().sum(1) == 0]
        classified = found.classify(data.features).loc[mute]
        np.testing.assert_allclose(found.probabilities().loc[mute], classified, atol=1e-6)
    found = fitted(name, "svi", data, Fixed())
    assert (found.classify(data.features).idxmax(axis=1) == truth).mean() > 0.8


def test_a_partly_frozen_network_learns_the_rest_without_warnings_of_pyro() -> None:
    data = clouds(60, 50)[0]
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    network[0].requires_grad_(False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found: Any = fitted("ccem", "svi", data, network)
    assert not [w for w in caught if "param store" in str(w.message)]
    body = found.model.network.body
    assert torch.equal(body[0].weight, network[0].weight) and not torch.equal(body[2].weight, network[2].weight)


def test_a_network_that_the_model_never_asks_is_refused_with_a_way_out_that_is_open() -> None:
    data = clouds(60, 50)[0]
    with pytest.raises(MethodError, match="never calls it"):
        fitted("raykar", "svi", data, None, bootstrapped=True)


def declining(shares: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labels, of which a share of the items has none but "?"; and features."""
    data = clouds(60, 40)[0]
    frame = data.frame().astype({"label": object})
    silent = frame["item"].isin(data.items[: int(60 * shares)])
    frame.loc[silent, "label"] = "?"
    return frame, data.features


@pytest.mark.parametrize(("name", "engine"), [("bayes_dgc", "vb"), ("majority_vote", "em")])
def test_items_that_everybody_declined_teach_a_network_as_little_as_items_that_nobody_saw(
    name: str, engine: str
) -> None:
    frame, features = declining(0.3)
    known: Any = {"classes": range(3), "features": features, "annotators": range(12)}
    network = "default" if name == "majority_vote" else None
    found, without = (
        fitted(name, engine, Annotations.from_frame(rows, abstentions=["?"], **known), network)
        for rows in (frame, frame[frame["label"] != "?"])
    )
    np.testing.assert_allclose(found.classify(features), without.classify(features), atol=1e-6)
    np.testing.assert_allclose(found.probabilities(), without.probabilities(), atol=1e-6)
