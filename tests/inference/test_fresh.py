"""What is said of annotators is averaged over the items that there may be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

import crowdppl
from crowdppl.inference.confusions import table_draws, tables_at
from crowdppl.inference.options import options_from
from crowdppl.inference.problem import build_problem
from crowdppl.primitives import annotate, plates
from tests.crowd import crowd

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


def test_the_accuracy_of_glad_counts_hard_items_and_easy_ones() -> None:
    """Integrated over the prior of difficulties by Gauss and Hermite; at difficulty 0 an ability of 3 has .953."""
    problem = build_problem(crowdppl.method("glad", difficulty_spread=1.5), crowd(20, 5, 3, 3), options_from({}))
    ability = torch.tensor([-1.0, 0.0, 0.5, 3.0, 6.0], dtype=torch.float64)
    found, share = tables_at(problem, {"ability": ability, "difficulty": torch.zeros(20).double()}, None)
    odds = ability.numpy()[:, None] * np.exp(-1.5 * NODES)
    right = np.exp(-np.logaddexp(0, -odds)) @ WEIGHTS / WEIGHTS.sum()
    assert found.diagonal(dim1=-2, dim2=-1).numpy() == pytest.approx(np.tile(right[:, None], 3), abs=0.004)
    assert found.sum(-1).numpy() == pytest.approx(np.ones((5, 3)))
    assert share.numpy() == pytest.approx(np.full(3, 1 / 3))


def test_each_draw_has_its_own_spread_of_items() -> None:
    problem = build_problem(crowdppl.method("item_difficulty"), crowd(20, 5, 3, 3), options_from({}))
    logits = torch.randn(2, 5, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hardness = torch.tensor([[0.1], [1.0]], dtype=torch.float64)  # (draws, 1): outside of plates
    one, crowd_wide = torch.ones(2, 1, dtype=torch.float64), torch.zeros(2, 1, 3, 3, dtype=torch.float64)
    values = {"prevalence": -torch.ones(2, 1, 3).double() * np.log(3), "crowd": crowd_wide, "spread": one}
    values |= {"logits": 2 * logits, "hardness": hardness, "difficulty": torch.zeros(2, 20).double()}
    tables = table_draws(problem, values).tables
    for d in range(2):
        odds = 2 * logits[d].numpy()[..., None] * np.exp(-hardness[d].item() * NODES)
        right = np.exp(odds - np.logaddexp.reduce(odds, -2, keepdims=True)) @ WEIGHTS / WEIGHTS.sum()
        assert tables[d] == pytest.approx(right, abs=0.006)


def test_accuracies_of_glads_own_crowd_come_back() -> None:
    """At difficulty 0 the mean accuracy is said to be .93, and .68 of the intervals hold what annotators did."""
    model = crowdppl.method("glad", mean=3.0)
    drawn = crowdppl.simulate(model, crowdppl.random_design(1000, 25, 5, classes=2, seed=3), seed=3)
    rows = drawn.data.frame()
    right = rows["label"].eq(drawn.truth.loc[rows["item"]].to_numpy()).groupby(rows["annotator"]).mean()
    table = crowdppl.fit(model, drawn.data, inference="vb", seed=0).annotators()
    assert table["accuracy"].mean() == pytest.approx(right.mean(), abs=0.01)
    assert (table["accuracy"] - right).pow(2).mean() ** 0.5 < 0.02
    assert right.between(table["accuracy_low"], table["accuracy_high"]).mean() > 0.85


@dataclass(frozen=True)
class OwnShares:
    """Each item has shares of classes of its own."""

    def model(self, data: Any) -> None:
        with plates.annotators(data):
            rows = dist.Dirichlet(1 + 3 * torch.eye(data.n_classes)).to_event(1)
            confusion = pyro.sample("confusion", rows)
        with plates.items(data):
            share = pyro.sample("share", dist.Dirichlet(torch.tensor([8.0, 2.0])))
            annotate(data, confusion.log(), crowdppl.primitives.truth(data, share.log()))


def test_shares_of_an_item_are_not_taken_for_their_logarithms() -> None:
    posterior = crowdppl.fit(OwnShares(), crowd(40, 5, 2, 3), inference="vb", seed=0)
    assert posterior.prevalence()["mean"].to_numpy() == pytest.approx([0.8, 0.2], abs=1e-6)
