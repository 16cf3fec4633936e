"""Simulated data: shapes, ids and seeds; and drawn labels follow the drawn parameters and truths."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl import random_design, simulate
from crowdppl.data.annotations import Annotations
from crowdppl.data.coded import build_blocks
from crowdppl.networks import class_logits
from crowdppl.primitives import Block, annotate, plates, truth


def in_blocks(design: Annotations, labels: int) -> Annotations:
    """The same design in blocks of about so many labels."""
    rows = design.frame()
    item, annotator = rows["item"].to_numpy(), rows["annotator"].to_numpy()
    sizes: dict[str, Any] = {name: getattr(design, name) for name in ("n_items", "n_annotators")}
    sizes |= {"n_classes": design.n_classes, "n_answers": design.n_answers, "block_labels": labels}
    order, blocks = build_blocks(item, annotator, None, **sizes)
    return replace(design, order=order, blocks=blocks)


def test_a_random_design_gives_each_item_different_annotators() -> None:
    design = random_design(200, 7, 3, ["yes", "no"], seed=1)
    rows = design.frame()
    assert list(rows.columns) == ["item", "annotator"]
    assert (rows.groupby("item")["annotator"].nunique() == 3).all()
    assert (design.n_items, design.n_annotators, list(design.classes)) == (200, 7, ["yes", "no"])
    assert not design.as_block().has_labels
    pd.testing.assert_frame_equal(rows, random_design(200, 7, 3, np.int64(2), seed=1).frame())
    assert not rows.equals(random_design(200, 7, 3, 2, seed=2).frame())
    share = rows["annotator"].value_counts(normalize=True)
    assert share.between(1 / 7 - 0.06, 1 / 7 + 0.06).all()


@pytest.mark.parametrize("blocks", [10**6, 700])
def test_labels_follow_the_drawn_confusions_and_truths(blocks: int) -> None:
    design = in_blocks(random_design(3000, 4, 2, ["a", "b", "c"], seed=3), blocks)
    assert len(design.blocks) == (1 if blocks > 6000 else 9)
    drawn = simulate(crowdppl.method("bayesian_dawid_skene", prior_strength=6.0), design, seed=4)
    rows = drawn.data.frame()
    pd.testing.assert_frame_equal(rows[["item", "annotator"]], design.frame())
    truth = pd.Categorical(drawn.truth.loc[rows["item"]], categories=design.classes).codes
    label = pd.Categorical(rows["label"], categories=design.classes).codes
    counts = np.zeros((4, 3, 3))
    np.add.at(counts, (rows["annotator"].to_numpy(), truth, label), 1)
    given = counts.sum(-1, keepdims=True)
    confusion = drawn.parameters["confusion"]
    error = np.sqrt(confusion * (1 - confusion) / given.clip(1))
    assert confusion.shape == (4, 3, 3)
    assert (np.abs(counts / given.clip(1) - confusion) < 4.5 * error + 1e-3)[given[..., 0] > 20].all()
    share = drawn.truth.value_counts(normalize=True).reindex(design.classes, fill_value=0)
    assert np.abs(share.to_numpy() - drawn.parameters["prevalence"]).max() < 0.04
    assert drawn.truth.index.equals(design.items)


@pytest.mark.parametrize("blocks", [10**6, 300])
def test_what_belongs_to_items_stands_in_codebook_order(blocks: int) -> None:
    design = in_blocks(random_design(200, 9, 8, 2, seed=5), blocks)
    drawn = simulate(crowdppl.method("glad", mean=1.5, spread=0.1, difficulty_spread=2.0), design, seed=6)
    rows = drawn.data.frame()
    right = (rows["label"].to_numpy() == drawn.truth.loc[rows["item"]].to_numpy()).astype(float)
    share = pd.Series(right).groupby(rows["item"].to_numpy()).mean()
    assert drawn.parameters["difficulty"].shape == (200,)
    assert np.corrcoef(share, drawn.parameters["difficulty"])[0, 1] < -0.6


def test_the_seed_decides_and_nothing_leaks() -> None:
    design, model = random_design(30, 4, 2, 3), crowdppl.method("mace")
    torch.manual_seed(0)
    one = simulate(model, design, seed=1)
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1))
    assert torch.get_default_dtype() == torch.float32
    two, other = simulate(model, design, seed=1), simulate(model, design, seed=2)
    pd.testing.assert_frame_equal(one.data.frame(), two.data.frame())
    assert all(np.array_equal(one.parameters[n], two.parameters[n]) for n in one.parameters)
    assert not one.data.frame().equals(other.data.frame())


def test_labels_that_are_there_are_drawn_anew_and_gold_is_kept() -> None:
    data = Annotations.from_arrays([1, 1, 2, 2, 3], [1, 2, 1, 2, 1], list("xyxyx"), gold={1: "y", 3: "y"})
    drawn = [simulate(crowdppl.method("one_coin"), data, seed) for seed in range(20)]
    assert all(d.truth[1] == d.truth[3] == "y" for d in drawn)
    assert {d.truth[2] for d in drawn} == {"x", "y"}
    assert len({tuple(d.data.frame()["label"]) for d in drawn}) > 5
    assert drawn[0].data.gold is not None


def test_annotators_may_decline_where_abstentions_are_named() -> None:
    design = random_design(300, 3, 2, ["a", "b"], abstentions=["?"])
    drawn = simulate(crowdppl.method("one_coin"), design, seed=2)
    found = drawn.data.frame()["label"].value_counts()
    assert set(found.index) == {"a", "b", "?"}
    chance = drawn.parameters["abstention"][..., 1].mean()  # flat, so it is well above 0
    assert abs(found["?"] / 600 - chance) < 0.25


class Seen(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([-x[:, 0], x[:, 0]], 1)


class Looking:
    def __init__(self) -> None:
        self.network = Seen()

    def model(self, data: Block) -> None:
        table = torch.eye(2).clamp(min=1e-6).log().expand(data.n_annotators, 2, 2)
        with plates.items(data):
            annotate(data, table, truth(data, class_logits(data, self.network)))


@pytest.mark.parametrize("blocks", [10**6, 40])
def test_what_a_network_sees_is_drawn_from(blocks: int) -> None:
    sign = np.where(np.arange(60) % 3 == 0, 40.0, -40.0)
    features = pd.DataFrame({"x": sign}, index=range(60))
    plain = random_design(60, 4, 2, classes=2, seed=1, features=features)
    drawn = simulate(Looking(), in_blocks(plain, blocks), seed=2)
    assert (drawn.truth == (sign > 0)).all()
    rows = drawn.data.frame()
    assert (rows["label"] == drawn.truth.loc[rows["item"]].to_numpy()).mean() > 0.99
    blind = simulate(Looking(), random_design(60, 4, 2, classes=2, seed=1), seed=2)
    assert 10 < (blind.truth != (sign > 0)).sum() < 50
