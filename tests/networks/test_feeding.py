"""How features enter networks: scales, images for default networks, whole numbers, and what is refused."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning, DataError, LogitsWarning, MethodError
from crowdppl.networks.classifier import Standardise
from tests.data.test_stored_features import Disk, again
from tests.networks.test_networks import clouds

TRAINING = {"epochs": 3, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def data() -> Annotations:
    return clouds(90, 60)[0]


def fitted(data: Annotations, **settings: Any) -> crowdppl.Posterior:
    return crowdppl.fit("raykar", data, inference="em", seed=0, settings={"training": TRAINING, **settings})


class Words(nn.Module):
    """Means of the embeddings of words, by their ids."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.top = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.kinds: set[torch.dtype] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.kinds.add(x.dtype)
        out: Tensor = self.top(self.table(x).mean(1))
        return out


def asking() -> Words:
    network = Words()
    network.raw_features = True
    return network


class Shares(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.layer(x), -1)


def ending(*last: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Sequential(nn.Linear(8, 3), *last))


@pytest.mark.parametrize(
    ("network", "what"),
    [
        (ending(nn.Softmax(-1)), "ends in Softmax"),
        (ending(nn.Sigmoid()), "ends in Sigmoid"),
        (Shares(), "sum to one"),
    ],
)
def test_a_network_that_gives_probabilities_is_warned_of_once(
    data: Annotations, network: nn.Module, what: str
) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", LogitsWarning)
        fitted(data, network=network)
    (warning,) = said
    assert re.search(what, str(warning.message))


@pytest.mark.parametrize("network", [ending(), ending(nn.LogSoftmax(-1)), ending(nn.ReLU()), None])
def test_a_network_that_gives_logits_is_not(data: Annotations, network: nn.Module | None) -> None:
    with warnings.catch_warnings(action="ignore"):
        warnings.simplefilter("error", LogitsWarning)
        crowdppl.networks.prepared(network, data)


@pytest.mark.parametrize("scale", [1e-38, 1e30])
def test_what_features_say_does_not_hang_on_their_scale(data: Annotations, scale: float) -> None:
    x = np.asarray(data.features)
    one, two = fitted(again(data, x)).classify(x), fitted(again(data, x * scale)).classify(x * scale)
    np.testing.assert_allclose(one, two, atol=1e-3)
    assert one.std().max() > 0.05


def test_a_column_is_constant_only_when_it_is_the_same_to_the_last_bit() -> None:
    x = torch.tensor(
        [[7.3, 1e6, -1e-20], [7.3, 1e6, 0.0], [7.3, np.nextafter(np.float32(1e6), np.float32(2e6)), 0]]
    )
    found = Standardise(x)
    assert (found.scale > 0).tolist() == [False, True, True]
    assert bool(torch.isfinite(found(x)).all()) and bool((found(x)[:, 0] == 0).all())


def test_a_column_of_which_float32_holds_nothing_is_warned_of_by_name(data: Annotations) -> None:
    x = np.asarray(data.features)
    table = pd.DataFrame({"time": 1.7e9 + x[:, 0], "same": 1.7e9, "year": 2000 + x[:, 1]}, index=data.items)
    with pytest.warns(CrowdpplWarning, match="'time'") as said:
        fitted(again(data, table))
    assert not [w for w in said if "'same'" in str(w.message) or "'year'" in str(w.message)]


@pytest.mark.parametrize(
    ("name", "engine", "more"),
    [
        ("raykar", "em", {}),
        ("bayes_dgc", "vb", {"recipe": "plain", "networks": 2}),
        ("conal", "svi", {}),
    ],
)
def test_default_networks_look_at_flattened_images(
    data: Annotations, name: str, engine: str, more: dict[str, Any], tmp_path: Path
) -> None:
    images = np.random.default_rng(0).normal(size=(90, 1, 8, 8))
    networks = {"networks": more.pop("networks")} if "networks" in more else {}
    settings = {"training": {**TRAINING, **networks}, **more}
    found = [
        crowdppl.fit(name, again(data, x), inference=engine, seed=0, settings=settings)
        for x in (images, Disk(images))
    ]
    shares = found[0].classify(images)
    assert shares.shape == (90, 3)
    np.testing.assert_array_equal(found[1].classify(Disk(images)), shares)
    found[0].save(tmp_path)
    np.testing.assert_array_equal(crowdppl.load(tmp_path).classify(images), shares)


@pytest.mark.parametrize(("name", "engine"), [("raykar", "em"), ("ccem", "svi")])
@pytest.mark.parametrize("stored", [False, True])
def test_whole_numbers_reach_a_network_that_asks_for_features_as_they_are(
    data: Annotations, name: str, engine: str, stored: bool, tmp_path: Path
) -> None:
    words = np.random.default_rng(1).integers(0, 9, (90, 5))
    model = crowdppl.method(name, network=asking(), training=TRAINING)
    found = crowdppl.fit(model, again(data, Disk(words) if stored else words), inference=engine, seed=0)
    assert found.model.network.body.kinds == {torch.int64}
    found.save(tmp_path)
    loaded = crowdppl.load(tmp_path, model=crowdppl.method(name, network=asking()))
    np.testing.assert_array_equal(loaded.classify(words), found.classify(words))
    for wrong in (words + 0.5, words + 2**24):
        with pytest.raises(DataError, match="16777216"):
            found.classify(wrong)


def test_a_network_that_looks_words_up_has_to_say_what_it_is_fed(data: Annotations) -> None:
    words = again(data, np.random.default_rng(1).integers(0, 9, (90, 5)))
    with pytest.raises(MethodError, match="raw_features"):
        fitted(words, network=Words())
    standard = Words()
    standard.raw_features = False
    with pytest.raises(MethodError, match="raw_features"):
        fitted(words, network=standard)
    with pytest.raises(MethodError, match="mixup=1.0"):
        crowdppl.fit("bayes_dgc", words, inference="vb", settings={"network": asking()})


class Places(nn.Module):
    """Adds what a network may make on its way: where a feature stands, and while it learns noise."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.linspace(0, 1, 4)
        out: Tensor = self.layer(x + 0.1 * torch.randn(x.shape) if self.training else x)
        return out


@pytest.mark.parametrize(("name", "engine"), [("raykar", "em"), ("ccem", "svi")])
def test_tensors_that_a_network_makes_are_in_the_precision_of_its_weights(
    data: Annotations, name: str, engine: str
) -> None:
    settings = {"network": Places(), "training": TRAINING} | ({"recipe": "plain"} if name == "bayes_dgc" else {})
    found = crowdppl.fit(name, data, inference=engine, seed=0, settings=settings)
    unlabelled = data.items[data.votes().sum(1) == 0]
    classified = found.classify(data.features).loc[unlabelled]
    np.testing.assert_allclose(found.probabilities().loc[unlabelled], classified, atol=1e-6)
    assert found.predict(data).shape == found.without([0]).probabilities().shape


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_cannot_be_copied_is_refused(data: Annotations) -> None:
    script = nn.Sequential(torch.jit.trace(nn.Linear(4, 3), torch.zeros(1, 4)))
    for network, message in ((nn.LazyLinear(3), "LazyLinear"), (script, "TorchScript"), ("mlp", "mlp")):
        with pytest.raises(MethodError, match=message):
            fitted(data, network=network)
