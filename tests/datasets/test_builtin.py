"""Built-in data: those of the paper, where maximum likelihood finds its numbers, and digits as they are."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import crowdppl
from crowdppl.datasets import anaesthetists, digits
from crowdppl.errors import DataError, MethodError


def test_the_table_as_published() -> None:
    with warnings.catch_warnings(action="error"):
        data = anaesthetists()
    assert (data.n_items, data.n_annotators, data.n_classes, data.n_labels) == (45, 5, 4, 315)
    assert (data.items.tolist(), data.annotators.tolist()) == (list(range(1, 46)), list("12345"))
    assert data.classes.tolist() == [1, 2, 3, 4]
    frame = data.frame()
    assert frame[(frame["item"] == 36) & (frame.annotator == "1")].label.tolist() == [3, 3, 4]
    assert frame[(frame["item"] == 36)].label.tolist() == [3, 3, 4, 4, 3, 4, 3]
    assert data.summary()["repeats"] == 90


def test_digits_are_the_images_with_labels_on_a_part() -> None:
    with warnings.catch_warnings(action="error"):
        crowd = digits()
    data, images = crowd.data, load_digits()
    assert (data.n_items, data.n_annotators, data.n_classes, data.n_labels) == (1797, 10, 10, 3 * 1297)
    assert (data.items.tolist(), data.classes.tolist()) == (list(range(1797)), list(range(10)))
    assert data.gold is None
    assert np.array_equal(data.features.to_numpy(), images.data)
    assert np.array_equal(crowd.truth.to_numpy(), images.target)
    given = data.frame().groupby("item").size().reindex(data.items, fill_value=0)
    assert len(crowd.test) == 500
    assert (given[crowd.test] == 0).all()
    assert (given.drop(crowd.test) == 3).all()
    assert crowd.truth[crowd.test].value_counts().min() > 25  # every class can be tested


def test_the_seed_of_digits_decides() -> None:
    one, again, other = digits(seed=1), digits({"hammer": 3}, seed=1), digits(seed=2)
    assert one.test.equals(again.test)
    assert not one.test.equals(other.test)
    pd.testing.assert_frame_equal(one.data.frame(), digits(seed=1).data.frame())


def test_digits_that_cannot_be() -> None:
    for test in (-1, 1797, 0.5):
        with pytest.raises(DataError, match=f"test={test}"):
            digits(test=test)
    with pytest.raises(DataError, match="labels_per_item=3"):
        digits(["hammer"])
    with pytest.raises(MethodError, match="'robot'"):
        digits(["robot"])


def test_bluebirds_are_those_of_the_source() -> None:
    found = crowdppl.datasets.bluebirds()
    data, truth = found.data, found.truth
    sizes = found.source.sizes
    assert (data.n_items, data.n_annotators, data.n_labels, len(truth)) == tuple(sizes.values())
    assert data.classes.tolist() == ["Blue Grosbeak", "Indigo Bunting"] and data.gold is None
    voted = pd.Series(data.classes[np.asarray(data.votes()).argmax(1)], data.items)
    assert (voted[truth.index] == truth).mean() == pytest.approx(1 - 0.2407, abs=5e-5)  # Zhang et al. (2016)
