"""Mixup, balance and volume where networks learn by gradients: by hand, and what they make of a fit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.inference.neural.regularisers import RegularisedLoss, regularisation
from crowdppl.inference.options import Options
from crowdppl.inference.problem import build_problem
from crowdppl.networks.training import Training, training_of
from tests.networks.test_networks import clouds

HOUSE = {
    "epochs": 15,
    "learning_rate": 5e-3,
    "mixup": 1.0,
    "balance": 1.0,
    "volume": 0.003,
    "networks": 3,
    "dropout": 0.2,
}


@pytest.fixture(scope="module")
def both() -> tuple[Annotations, pd.Series]:
    return clouds()


def regularised(data: Annotations, network: Any = None, **training: Any) -> tuple[RegularisedLoss, Block, Any]:
    """A model's regularisers, and a block of its items with their features."""
    model: Any = crowdppl.method("ccem", network=network, training=training).setup(data)
    problem = build_problem(model, data, Options())
    block = replace(problem.whole(), features=torch.from_numpy(np.array(data.features, np.float32)))
    return RegularisedLoss(problem, training_of(training)), block, model.network


def test_a_blend_is_asked_for_the_labels_of_both() -> None:
    """A loss that is linear in features and labels, by hand: each item's labels meet both blends it is part of."""
    data, _ = clouds(12, 12)
    objective, block, _ = regularised(data, mixup=0.7)
    x, seen = block.features, []
    label = torch.arange(12.0)

    def loss(batch: Block) -> Tensor:
        seen.append(batch.features)
        assert batch.bags is block.bags, "labels stay with their items"
        return (label * batch.features.sum(1)).sum()

    torch.manual_seed(3)
    total, _ = objective(loss, block)
    torch.manual_seed(3)
    share = torch.distributions.Beta(0.7, 0.7).sample()
    share, other = max(share, 1 - share), torch.randperm(12)
    assert isinstance(x, Tensor) and sorted(other.tolist()) == list(range(12))
    expected = 0.0
    for i in range(12):
        blend = share * x[i] + (1 - share) * x[other[i]]
        torch.testing.assert_close(seen[0][i], blend)
        torch.testing.assert_close(seen[1][other[i]], blend)
        expected += float(blend.sum() * (share * label[i] + (1 - share) * label[other[i]]))
    assert float(total) == pytest.approx(expected, rel=1e-5)


def test_balance_and_volume_are_of_what_the_classifier_makes_of_the_batch() -> None:
    data, _ = clouds(40, 40)
    training = {"balance": 2.0, "volume": 0.1, "shares": "uniform"}
    objective, block, network = regularised(data, **training)
    asked: list[Tensor] = []

    def loss(batch: Block) -> Tensor:
        asked.append(network(batch.features))
        return asked[-1].sum()

    total, terms = objective(loss, block)
    assert len(asked) == 1 and float(total.detach()) == float(asked[0].detach().sum())
    p = asked[0].softmax(-1)
    mean = p.mean(0)
    by_hand = 2 * (mean * (mean * 3).log()).sum() - 0.1 * torch.logdet(p.T @ p + 1e-6 * torch.eye(3))
    torch.testing.assert_close(terms, by_hand)
    torch.testing.assert_close(terms, regularisation(p, Training(**training), torch.full((3,), 1 / 3)))
    assert not network._forward_hooks, "the fit's network is handed back as it was"


def test_without_settings_the_loss_is_left_alone_and_of_a_standing_network_nothing_is_wanted() -> None:
    data, _ = clouds(40, 40)
    plain, block, network = regularised(data)
    assert [x.item() for x in plain(lambda b: network(b.features).sum() * 0 + 7, block)] == [7, 0]
    still, block, network = regularised(data, nn.Linear(4, 3).requires_grad_(False), balance=1.0, volume=0.1)
    assert [x.item() for x in still(lambda b: network(b.features).sum() * 0 + 7, block)] == [7, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), [("ccem", {}), ("geo_crowdnet", {"volume": "W"})])
def test_the_house_recipe_trains_methods_by_gradients(
    both: tuple[Annotations, pd.Series], name: str, settings: dict[str, Any]
) -> None:
    data, truth = both
    how: dict[str, Any] = {"inference": "svi", "seed": 2, "settings": {**settings, "training": HOUSE}}
    found = crowdppl.fit(name, data, **how)
    shares = found.classify(data.features)
    assert evaluate(shares, truth).accuracy > 0.85
    for left_out in ("volume",) if name == "geo_crowdnet" else ("mixup", "balance", "volume"):
        how["settings"]["training"] = {**HOUSE, left_out: 0.0}
        assert not shares.equals(crowdppl.fit(name, data, **how).classify(data.features))


@pytest.mark.slow
def test_balance_draws_predictions_to_the_shares_of_the_classes(both: tuple[Annotations, pd.Series]) -> None:
    data, _ = both
    frame = data.frame()
    frame.loc[frame.index % 2 == 0, "label"] = 0  # half of the labels are for the first class
    crowd = Annotations.from_frame(frame, classes=range(3), features=data.features)
    off = {}
    for balance in (0.0, 5.0):
        training = {"epochs": 20, "balance": balance, "shares": "uniform"}
        found = crowdppl.fit("ccem", crowd, inference="svi", settings={"training": training})
        off[balance] = np.abs(found.classify(data.features).mean() - 1 / 3).max()
    assert off[5.0] < 0.5 * off[0.0]


def test_a_network_that_the_loss_never_asks_is_named() -> None:
    data, _ = clouds(40, 40)
    objective, block, _ = regularised(data, balance=1.0)
    with pytest.raises(MethodError, match="does not call it"):
        objective(lambda _: torch.tensor(7.0), block)
