"""Groups of annotators beside a network: the truth's prior is the network, opinions are as before."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import crowdppl
from crowdppl import Annotations
from crowdppl.evaluation.evaluate import evaluate

pytestmark = pytest.mark.filterwarnings("ignore")
FLAT = {"prior_strength": None, "link_strength": None}


class Constant(nn.Module):
    """Says nothing of any item."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(x), 3) + 0 * self.level


def crowd(*, features: bool) -> Annotations:
    """40 items of 3 classes, two who copy a third, and three others."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=40)
    labels = np.where(rng.random((6, 40)) < 0.65, truth, rng.integers(3, size=(6, 40)))
    labels[1:3] = np.where(rng.random((2, 40)) < 0.9, labels[0], labels[1:3])
    item, who = np.tile(np.arange(40), 6), np.repeat(np.arange(6), 40)
    more: dict[str, Any] = {"features": pd.DataFrame(rng.normal(size=(40, 2)))} if features else {}
    return Annotations.from_arrays(item, who, labels.ravel(), classes=range(3), **more)


def fitted(inference: str, data: Annotations, **settings: Any) -> np.ndarray:
    more = FLAT if inference == "em" else {}
    settings = {"groups": {0: "a", 1: "a", 2: "a"}, **more, **settings}
    found = crowdppl.fit("dependent_clusters", data, inference=inference, seed=0, settings=settings)
    return found.probabilities().to_numpy()


@pytest.mark.parametrize("inference", ["em", "vb"])
def test_a_network_without_features_changes_nothing(inference: str) -> None:
    data = crowd(features=False)
    np.testing.assert_array_equal(fitted(inference, data, network="default"), fitted(inference, data))


@pytest.mark.parametrize("inference", ["em", "vb"])
def test_a_constant_network_is_a_uniform_prevalence(inference: str) -> None:
    training = {"epochs": 60}
    found = fitted(inference, crowd(features=True), network=Constant(), training=training)
    expected = fitted(inference, crowd(features=False), prevalence="uniform")
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_features_and_groups_beat_either_where_annotators_copy() -> None:
    x, y = load_digits(n_class=4, return_X_y=True)
    x, y = x[:300], y[:300]
    kind = crowdppl.simulation.annotator_kind
    weak = kind("hammer", p=0.5)
    kinds = [kind("hammer", p=0.6)] * 3 + [kind("copying_group", copiers=4, p=0.9, leader=weak, own=weak)]
    made = crowdppl.simulate_annotators(y, kinds, density=0.5, features=x, seed=0)
    copiers = dict.fromkeys((a for a in made.data.annotators if a.startswith("copying")), "copy")
    grouped, net = {"groups": copiers}, {"network": "default", "training": {"epochs": 30}}

    def accuracy(method: str, settings: dict[str, Any], inference: str = "vb") -> float:
        found = crowdppl.fit(method, made.data, inference=inference, seed=0, settings=settings)
        return float(evaluate(found.probabilities(), made.truth).accuracy)

    both = accuracy("dependent_clusters", grouped | net)
    assert both > accuracy("dependent_clusters", grouped) + 0.03
    assert both > accuracy("raykar", {"training": {"epochs": 30}}, "em") + 0.03
