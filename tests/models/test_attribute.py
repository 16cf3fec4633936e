"""Confusions that depend on an attribute of items: limits, and groups on which some annotators err more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from tests.crowd import crowd

FLAT: dict[str, Any] = {"prior_strength": None, "prevalence_strength": 1.0}


def about(data: Annotations, values: Sequence[str]) -> Annotations:
    table = pd.DataFrame({"group": np.resize(values, data.n_items)}, index=data.items)
    return Annotations.from_frame(data.frame(), item_covariates=table, classes=list(data.classes))


def gap(one: crowdppl.Posterior, other: crowdppl.Posterior) -> float:
    tables = np.abs(one.confusion() - other.confusion()).max().item()
    return max(tables, np.abs(one.probabilities() - other.probabilities()).to_numpy().max())


def test_a_constant_attribute_is_dawid_skene() -> None:
    data = about(crowd(60, 6, 3, 4), ["all"])
    one = crowdppl.fit("attribute_dawid_skene", data, inference="em", settings=FLAT, seed=0)
    assert gap(one, crowdppl.fit("dawid_skene", data, inference="em", seed=0)) < 1e-8
    by_vb = [
        crowdppl.fit(method, data, inference="vb", seed=0)
        for method in ("attribute_dawid_skene", "bayesian_dawid_skene")
    ]
    assert gap(*by_vb) < 1e-8
    two = crowdppl.fit("attribute_dawid_skene", about(data, ["a", "b"]), inference="vb", settings=FLAT, seed=0)
    assert gap(one, two) > 1e-3


@pytest.mark.slow
def test_rows_that_are_pooled_without_end_are_those_of_one_group() -> None:
    data = about(crowd(60, 6, 3, 4), ["a", "b"])
    same: dict[str, Any] = {"prevalence": "uniform"}
    pooled = {**same, "typical": 1e7, "spread": 1e-3}
    how: dict[str, Any] = {"inference": "gibbs", "seed": 0, "draws": 300, "warmup": 100}
    one = crowdppl.fit("attribute_dawid_skene", data, settings=pooled, **how)
    other = crowdppl.fit("bayesian_dawid_skene", data, settings=same, **how)
    assert gap(one, other) < 0.06
    assert np.ptp(one.site("confusion").to_numpy(), 1).max() < 0.01


def test_who_errs_more_on_a_group_is_found() -> None:
    rng, n, a = np.random.default_rng(0), 1000, 12
    group, truth, right = rng.integers(2, size=n), rng.integers(2, size=n), rng.uniform(0.75, 0.92, a)
    worse = np.arange(a) % 2 == 0  # they take negatives of group "b" for positives
    item = np.repeat(np.arange(n), 4)
    who = np.concatenate([rng.choice(a, 4, replace=False) for _ in range(n)])
    p = right[who] - 0.35 * (worse[who] & (group[item] == 1) & (truth[item] == 0))
    label = np.where(rng.random(len(item)) < p, truth[item], 1 - truth[item])
    table = pd.DataFrame({"about": np.array(["a", "b"])[group]})
    data = Annotations.from_arrays(item, who, label, item_covariates=table)
    named: dict[str, Any] = {"attribute": "about"}
    posterior = crowdppl.fit("attribute_dawid_skene", data, inference="vb", settings=named, seed=0)
    wrong = posterior.site("confusion").to_numpy()[:, :, 0, 1].reshape(6, 2, 2).mean(0)  # [worse or not, group]
    true = 1 - np.array([[right[worse].mean()], [right[~worse].mean()]])
    true = true + np.array([[0, 0.35], [0, 0]])
    assert np.abs(wrong - true).max() < 0.07
    asked = posterior.suggest_labels(200, per_annotator=50)
    assert (group[asked["item"]] == 1)[worse[asked["annotator"]]].mean() < 0.3
    assert (group[asked["item"]] == 1)[~worse[asked["annotator"]]].mean() > 0.4
    plain = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    some = data.items[group[data.items] == 1]
    shares = [x.probabilities().loc[some, 1].mean() - truth[some].mean() for x in (posterior, plain)]
    assert abs(shares[0]) < shares[1] - 0.02


@pytest.mark.parametrize("value", ["a", "new"])
def test_items_of_known_and_of_new_values_are_predicted(value: str) -> None:
    data = about(crowd(60, 6, 3, 4), ["a", "b"])
    posterior = crowdppl.fit("attribute_dawid_skene", data, inference="vb", seed=0, max_iterations=15)
    who = data.annotators[0]
    rows = pd.DataFrame({"item": ["later"], "annotator": [who], "label": [data.classes[0]]})
    table = pd.DataFrame({"group": [value]}, index=["later"])
    later = Annotations.from_frame(rows, like=data, item_covariates=table)
    for found in (posterior.predict(later), posterior.update(later, seed=0).probabilities()):
        assert found.loc["later"].sum() == pytest.approx(1) and found.loc["later"].idxmax() == data.classes[0]
