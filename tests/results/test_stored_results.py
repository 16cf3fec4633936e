"""Saved fits: those whose features are a dataset, killed and resumed too, and first weights of networks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, ResultError
from crowdppl.results.archive import network_states
from tests.data.test_stored_features import Disk, again
from tests.inference.test_checkpoints import Killed, kill
from tests.networks.test_networks import clouds

SETTINGS = {"training": {"epochs": 6, "batch_size": 16}}


@pytest.fixture(scope="module")
def data() -> Annotations:
    return clouds(90, 60)[0]


@pytest.mark.parametrize(("name", "engine"), [("raykar", "em"), ("ccem", "svi")])
def test_a_killed_fit_goes_on(
    name: str, engine: str, data: Annotations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.asarray(data.features)
    path, stored = str(tmp_path / "checkpoint"), again(data, Disk(values))
    how = {"inference": engine, "seed": 0, "settings": SETTINGS}
    with pytest.raises(Killed):
        crowdppl.fit(name, stored, checkpoint=path, checkpoint_every=2, callback=kill, **how)
    other = values.copy()
    other[80, 1] += 1e-3
    with pytest.raises(ResultError, match="another fit"):
        crowdppl.fit(name, again(data, Disk(other)), checkpoint=path, **how)
    found = crowdppl.fit(name, again(data, values), checkpoint=path, **how)  # the same features in memory
    np.testing.assert_array_equal(found.probabilities(), crowdppl.fit(name, stored, **how).probabilities())


@pytest.mark.parametrize(("name", "engine"), [("bayes_dgc", "vb"), ("mmlc", "svi")])
def test_what_is_saved_and_what_is_not(name: str, engine: str, data: Annotations, tmp_path: Path) -> None:
    values = np.asarray(data.features)
    rows = np.random.default_rng(0).permutation(90)
    stored = again(data, Disk(values[rows]), data.items[rows])
    found = crowdppl.fit(name, stored, inference=engine, seed=0, settings=SETTINGS)
    found.save(tmp_path)
    bare = crowdppl.load(tmp_path)
    np.testing.assert_array_equal(bare.probabilities(), found.probabilities())
    np.testing.assert_array_equal(bare.classify(values), found.classify(values))
    np.testing.assert_array_equal(bare.predict(again(data, values)), found.predict(stored))
    with pytest.raises(DataError, match="features="):
        bare.predict(data.frame())
    whole = crowdppl.load(tmp_path, features=Disk(values[rows]))
    np.testing.assert_array_equal(whole.predict(data.frame()), found.predict(data.frame()))
    np.testing.assert_array_equal(np.asarray(whole.data.features), values.astype(np.float32))
    with pytest.raises(ResultError, match="rows"):
        crowdppl.load(tmp_path, features=Disk(values[:, :3]))


def test_features_that_were_saved_are_not_handed_over(data: Annotations, tmp_path: Path) -> None:
    crowdppl.fit("one_coin", data, inference="em").save(tmp_path)
    with pytest.raises(ResultError, match="leave features= out"):
        crowdppl.load(tmp_path, features=Disk(np.asarray(data.features)))


def body() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5).requires_grad_(False), nn.Tanh(), nn.Linear(5, 3))


@pytest.mark.filterwarnings("ignore:.*was not registered in the param store")
@pytest.mark.parametrize(("name", "engine"), [("raykar", "em"), ("ccem", "svi")])
def test_a_loaded_fit_begins_again_with_the_first_weights_of_a_network_of_ones_own(
    name: str, engine: str, data: Annotations, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"training": {"epochs": 4, "learning_rate": 1e-2}}
    found = crowdppl.fit(crowdppl.method(name, network=body(), **settings), data, inference=engine, seed=0)
    found.save(tmp_path)
    loaded = crowdppl.load(tmp_path, model=crowdppl.method(name, network=body(), **settings))
    who = [data.annotators[0]]
    np.testing.assert_array_equal(loaded.without(who).probabilities(), found.without(who).probabilities())
    kept: Any = network_states(found.model)
    assert sorted(kept["network"]["first"]) == ["2.bias", "2.weight"]  # what never moved is not kept twice
    assert kept["network"]["own"]
