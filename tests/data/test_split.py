"""Labels left out and labels kept."""

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.data.split import item_folds, keep, label_folds
from crowdppl.errors import DataError
from crowdppl.simulation.crowd import random_design
from tests.crowd import annotations, crowd


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("labels_each", [2, 3, 6])
def test_each_label_is_left_out_once_and_every_item_keeps_one(seed: int, labels_each: int) -> None:
    data = crowd(labels_each=labels_each)
    fold = label_folds(data, 5, seed)
    assert len(fold) == data.n_labels and set(fold) == set(range(5))
    item = data.frame()["item"].to_numpy()
    for number in range(5):
        assert set(item[fold != number]) == set(item)
    assert np.ptp(np.bincount(fold)) <= 1


def test_labels_of_one_annotator_on_one_item_go_together_and_a_lone_annotator_stays() -> None:
    data = annotations([(0, 0, 0), (0, 0, 1), (0, 0, 1), (0, 1, 1), (1, 2, 0), (1, 2, 1), (2, 0, 0)], 2)
    for seed in range(10):
        fold = label_folds(data, 2, seed)
        assert len(set(fold[:3])) == 1 and fold[3] == 1 - fold[0]
        assert fold[4:].tolist() == [-1, -1, -1]


def test_nothing_to_leave_out_is_said() -> None:
    data = annotations([(0, 0, 0), (1, 1, 1)], 2)
    with pytest.raises(DataError, match="whole_items=True"):
        label_folds(data, 5, 0)


def test_items_are_left_out_whole() -> None:
    data = crowd()
    fold = item_folds(data, 4, 1)
    per_item = pd.Series(fold).groupby(data.frame()["item"].to_numpy()).nunique()
    assert (per_item == 1).all() and set(fold) == set(range(4))


def test_kept_and_left_out_labels_add_up_and_all_else_stays() -> None:
    frame = crowd().frame()
    frame["minute"] = np.arange(len(frame)) * 7
    data = Annotations.from_frame(frame, gold={0: 1, 5: 2}, classes=[0, 1, 2])
    kept = np.random.default_rng(0).random(data.n_labels) < 0.6
    one, other = keep(data, kept), keep(data, ~kept)
    both = pd.concat([one.frame(), other.frame()]).sort_values(["item", "annotator", "label", "minute"])
    wanted = data.frame().sort_values(["item", "annotator", "label", "minute"])
    pd.testing.assert_frame_equal(both.reset_index(drop=True), wanted.reset_index(drop=True))
    assert one.n_items == data.n_items and one.annotators.equals(data.annotators)
    pd.testing.assert_series_equal(one.gold, data.gold)
    np.testing.assert_allclose(one.votes() + other.votes(), data.votes())
    np.testing.assert_array_equal(one.order, data.order)


def test_a_design_stays_one_and_gets_no_labels() -> None:
    design = random_design(12, 4, 3, classes=3, seed=1)
    kept = keep(design, np.arange(design.n_labels) % 3 != 0)
    assert not any(block.has_labels for block in (*design.blocks, *kept.blocks))
    pd.testing.assert_frame_equal(
        kept.frame(), design.frame()[np.arange(design.n_labels) % 3 != 0].reset_index(drop=True)
    )


def test_folds_of_items_deal_out_what_folds_of_the_same_seed_have_left() -> None:
    """A fit within a fold may fold its items again, with the seed that it was given."""
    data = crowd(30, 5, 3, 2)
    inside = keep(data, item_folds(data, 3, 0) != 1)
    fold = pd.Series(item_folds(inside, 3, 0)).groupby(inside.frame()["item"].to_numpy()).agg(["min", "max"])
    assert (fold["min"] == fold["max"]).all()
    np.testing.assert_array_equal(fold["min"].value_counts().sort_index(), np.array([7, 7, 6]))
