"""Features that a dataset keeps: read when they are looked at, to the bits of an array, and never as a whole."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.features import StoredFeatures
from crowdppl.data.split import keep
from crowdppl.errors import DataError
from crowdppl.networks import classifier
from crowdppl.networks.classifier import Standardise
from crowdppl.networks.experts import Experts
from tests.networks.test_networks import clouds

TRAINING = {"epochs": 2, "batch_size": 16, "learning_rate": 5e-3}


class Disk(Dataset[Any]):
    def __init__(self, values: Any, torn: int = -1, instead: Any = None) -> None:
        self.values, self.torn, self.instead = np.asarray(values), torn, instead
        self.reads: list[int] = []
        self.kinds: set[torch.dtype] = set()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        self.reads.append(index)
        self.kinds.add(torch.get_default_dtype())
        if index == self.torn and self.instead is None:
            raise OSError("truncated file")
        return self.instead if index == self.torn else (self.values[index], 0)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(np.zeros((90, 4)))


def again(data: Annotations, features: Any, ids: Any = None) -> Annotations:
    frame = data.frame()
    return Annotations.from_frame(frame, like=data, items=data.items if ids is None else ids, features=features)


@pytest.fixture(scope="module")
def data() -> Annotations:
    return clouds(90, 60)[0]


@pytest.fixture(scope="module")
def shuffled(data: Annotations) -> tuple[Annotations, Annotations, Disk]:
    """Tables as an array and as a dataset, whose rows are not in the order of codes."""
    rows = np.random.default_rng(3).permutation(90)
    ids, values = data.items[rows], data.features.to_numpy()[rows]
    disk = Disk(values)
    return again(data, values, ids), again(data, disk, ids), disk


@pytest.mark.parametrize(("name", "engine"), [("raykar", "em"), ("bayes_dgc", "vb"), ("ccem", "svi")])
def test_a_dataset_gives_the_bits_of_an_array(
    name: str, engine: str, shuffled: tuple[Annotations, Annotations, Disk]
) -> None:
    """Classifiers, views and experts, minibatches and whole passes; items without labels among them."""
    array, stored, disk = shuffled
    disk.kinds.clear()
    one, two = (
        crowdppl.fit(name, d, inference=engine, seed=2, settings={"training": TRAINING}) for d in (array, stored)
    )
    pd.testing.assert_frame_equal(one.probabilities(), two.probabilities(), check_exact=True)
    pd.testing.assert_frame_equal(
        one.classify(pd.DataFrame(array.features, array.items)), two.classify(stored.features), check_exact=True
    )
    assert disk.kinds == {torch.float32}  # fits make tensors in float64


def picture() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


def test_images_of_a_dataset_and_the_most_that_is_held(data: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(1).normal(size=(90, 1, 8, 8))
    disk, looked = Disk(images), []
    monkeypatch.setattr(classifier, "NUMBERS", 10 * 64)
    whole = StoredFeatures.read

    def watched(self: StoredFeatures) -> Tensor:
        looked.append(len(self))
        return whole(self)

    monkeypatch.setattr(StoredFeatures, "read", watched)
    array, stored = again(data, images), again(data, disk)
    assert disk.reads == [0] and isinstance(stored.features, StoredFeatures)
    found = []
    for each in (array, stored):
        model = crowdppl.method("raykar", network=picture(), training=TRAINING)
        found.append(crowdppl.fit(model, each, inference="em", seed=0))
    np.testing.assert_array_equal(found[0].probabilities(), found[1].probabilities())
    assert max(looked) == 16  # a minibatch; passes over everything take 10 at a time
    assert len(disk.reads) > 4 * 90
    np.testing.assert_array_equal(found[0].classify(images[:20]), found[1].classify(Disk(images[:20])))
    np.testing.assert_array_equal(np.asarray(stored.features), np.asarray(array.features, np.float32))


def test_methods_that_look_at_nothing_read_nothing(shuffled: tuple[Annotations, Annotations, Disk]) -> None:
    _, stored, disk = shuffled
    disk.reads.clear()
    crowdppl.fit("one_coin", stored, inference="em")
    assert stored.with_gold({stored.items[0]: 1}).features is stored.features
    assert keep(stored, np.arange(stored.n_labels) % 2 == 0).features is stored.features
    assert not disk.reads


@pytest.mark.parametrize("shift", [0.0, -2.0])
def test_tables_are_standardised_in_parts(shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a root and without one; a column that is the same for all items, and means far from 0."""
    x = np.random.default_rng(4).gamma(2.0, 3.0, (103, 5)) + shift
    x[:, 1], x[:, 2] = 7.3, x[:, 2] + 1e3
    whole = Standardise(torch.from_numpy(x.astype(np.float32)))
    monkeypatch.setattr(classifier, "ROWS", 10)
    parts = Standardise(StoredFeatures.of(Disk(x), pd.RangeIndex(103)))
    assert bool(whole.root) == (shift == 0.0)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], value, rtol=1e-6, atol=0)
    assert float(parts.scale[1]) == 0
    kept = Experts(nn.Identity(), StoredFeatures.of(Disk(x), pd.RangeIndex(103)), nn.Linear(5, 3)).typical
    torch.testing.assert_close(kept, torch.from_numpy(x.astype(np.float32)))


@pytest.mark.parametrize(
    ("instead", "message"),
    [
        (None, r"row 7 of the dataset of features \(item 'i007'\) cannot be read: OSError\('truncated file'\)"),
        (np.zeros(3), r"row 7 .* \(item 'i007'\) has shape \(3,\)"),
        (np.array([0.0, 1, np.nan, 3]), r"a feature of row 7 .* \(item 'i007'\) is not finite"),
        (np.array([0.0, 1, 1e300, 3]), "is not finite"),  # it is no float32
        ({"x": 1}, r"row 7 .* a dict"),
        (torch.zeros(4, dtype=torch.complex64), "a Tensor"),
    ],
)
def test_a_row_that_is_no_row_is_named_when_it_is_read(data: Annotations, instead: Any, message: str) -> None:
    torn = again(data, Disk(np.asarray(data.features), torn=7, instead=instead))
    with pytest.raises(DataError, match=message):
        crowdppl.fit("raykar", torn, inference="em", settings={"training": {"epochs": 1}})


def test_what_is_seen_at_the_door(data: Annotations) -> None:
    with pytest.raises(DataError, match=r"row 0 .* is a single number"):
        again(data, Disk(np.zeros(90)))
    with pytest.raises(DataError, match="89 rows for 90 items"):
        again(data, Disk(np.zeros((89, 4))))
    found = crowdppl.fit("raykar", data, inference="em", settings={"training": {"epochs": 1}})
    with pytest.raises(DataError, match=r"has rows \(3,\); the fit's were \(4,\)"):
        found.classify(Disk(np.zeros((5, 3))))
    assert found.classify(Disk(np.zeros((0, 4)))).shape == (0, 3)
    with pytest.raises(DataError, match="features are a Stream"):
        again(data, Stream())


def test_refits_predictions_and_held_out_labels_read_the_same_rows(
    shuffled: tuple[Annotations, Annotations, Disk],
) -> None:
    array, stored, _ = shuffled
    settings = {"recipe": "plain", "training": {"epochs": 1, "batch_size": 16}}
    one, two = (crowdppl.fit("bayes_dgc", d, inference="vb", seed=0, settings=settings) for d in (array, stored))
    who = [array.annotators[0]]
    assert isinstance(two.without(who).data.features, StoredFeatures)
    np.testing.assert_array_equal(one.without(who).probabilities(), two.without(who).probabilities())
    scores = [
        crowdppl.heldout_score("bayes_dgc", d, folds=2, inference="vb", settings=settings) for d in (array, stored)
    ]
    assert scores[0].per_label == scores[1].per_label
    few = array.frame().iloc[:9]
    np.testing.assert_array_equal(one.predict(few), two.predict(few))  # features of known items come along
    copy = pickle.loads(pickle.dumps(stored.features))
    assert torch.equal(copy.read(), torch.from_numpy(np.asarray(array.features, np.float32)))
