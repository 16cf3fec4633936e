"""Doubts beside methods whose labels depend on what networks see: none of honest crowds, and those of copiers."""

import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.core.doubt import Doubt
from crowdppl.posterior import Posterior

pytestmark = pytest.mark.slow

COPIERS = crowdppl.simulation.annotator_kind("copying_group", copiers=5)


@functools.cache
def fitted(method: str, *crowd: Any, seed: int = 0) -> tuple[Posterior, pd.Series]:
    """A fit to 400 items of four classes with six labels, and how often each annotator is right in truth."""
    stream = np.random.default_rng(0)
    truth, means = pd.Series(stream.integers(4, size=400)), 1.5 * stream.normal(size=(4, 6))
    features = pd.DataFrame(means[truth] + stream.normal(size=(400, 6)))
    drawn = crowdppl.simulate_annotators(truth, list(crowd), labels_per_item=6, seed=seed, features=features)
    found = crowdppl.fit(method, drawn.data, seed=0, settings={"training": {"epochs": 40}})
    rows = drawn.data.frame()
    right = (rows["label"].to_numpy() == truth.loc[rows["item"]].to_numpy()).astype(float)
    return found, pd.Series(right).groupby(rows["annotator"].to_numpy()).mean()


def of_kind(found: Posterior, *kinds: str) -> list[Doubt]:
    return [doubt for doubt in found.doubts() if doubt.kind in kinds]


@pytest.mark.parametrize("method", ["mmlc", "conal", "crowd_layer"])
def test_annotators_who_judge_alone_are_not_doubted(method: str) -> None:
    """More than half of the labels are a spammer's, so that what a typical annotator says is mostly wrong."""
    found, right = fitted(method, *["hammer"] * 10, *["spammer"] * 15)
    assert not of_kind(found, "copying", "colluding", "diagonal")
    assert not any("hammer" in name for doubt in of_kind(found, "spammers") for name in doubt.who["annotators"])
    told = found.annotators()["accuracy"]
    hammers = told.index[told.index.str.startswith("hammer")]
    assert right[hammers].mean() > 0.7
    shrunk = 0.25 if method == "conal" else 0.15  # layers begin flat, and 40 epochs do not end that
    assert abs(told[hammers].mean() - right[hammers].mean()) < shrunk
    assert told[hammers].mean() > told.drop(hammers).mean() + 0.1


@pytest.mark.parametrize("method", ["mmlc", "crowd_layer"])
def test_copiers_are_still_found(method: str) -> None:
    found, _ = fitted(method, *["hammer"] * 15, COPIERS)
    doubts = of_kind(found, "copying", "colluding")
    assert doubts and all("copying_group" in name for doubt in doubts for name in doubt.who["annotators"])


def test_a_crowd_in_which_everyone_errs_by_a_plan_of_their_own_is_diffuse() -> None:
    """Gates are still alike after 40 epochs: annotators are seen to differ by their labels."""
    found, right = fitted("mmlc", *["malicious"] * 25, seed=3)
    assert right.mean() < 0.15
    (doubt,) = of_kind(found, "diffuse")
    assert doubt.figures["changed"] > 0.05


def test_a_crowd_with_a_fifth_of_spammers_is_not_diffuse() -> None:
    found, _ = fitted("mmlc", *["hammer"] * 20, *["spammer"] * 5, seed=3)
    assert not of_kind(found, "diffuse", "copying", "colluding", "diagonal")
