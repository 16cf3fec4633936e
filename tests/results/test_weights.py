"""Weights of networks on disk: the first ones too, from which a fit without some annotators begins."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import crowdppl
from crowdppl.results.archive import network_states
from tests.networks.test_networks import clouds

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*was not registered in the param store"),
]


def body() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5).requires_grad_(False), nn.Tanh(), nn.Linear(5, 3))


@pytest.mark.parametrize(("name", "engine"), [("raykar", "em"), ("ccem", "svi")])
def test_a_loaded_fit_begins_again_with_the_first_weights_of_a_network_of_ones_own(
    name: str, engine: str, tmp_path: Path
) -> None:
    data = clouds(90, 60)[0]
    settings: dict[str, Any] = {"training": {"epochs": 4, "learning_rate": 1e-2}}
    found = crowdppl.fit(crowdppl.method(name, network=body(), **settings), data, inference=engine, seed=0)
    found.save(tmp_path)
    loaded = crowdppl.load(tmp_path, model=crowdppl.method(name, network=body(), **settings))
    who = [data.annotators[0]]
    np.testing.assert_array_equal(loaded.without(who).probabilities(), found.without(who).probabilities())
    kept: Any = network_states(found.model)
    assert sorted(kept["network"]["first"]) == ["2.bias", "2.weight"]  # what never moved is not kept twice
    assert kept["network"]["own"]
