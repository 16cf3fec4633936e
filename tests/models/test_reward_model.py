"""Reward models: skills from features against Bradley-Terry, logistic regression and simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError

COLUMNS = ["left", "right", "annotator", "winner"]
SURE = {"right": 1e12, "wrong": 1.0}
TRAINING = {"full_batch": True, "weight_decay": 0.0, "epochs": 60}


def linear(size: int, **settings: Any) -> dict[str, Any]:
    """Settings of a linear reward without a penalty, from zero weights."""
    network = torch.nn.Linear(size, 1)
    torch.nn.init.zeros_(network.weight)
    return {"network": network, "training": TRAINING, **settings}


def fitted(data: Annotations, settings: dict[str, Any], engine: str = "em") -> crowdppl.Posterior:
    return crowdppl.fit("reward_model", data, inference=engine, seed=0, settings=settings, tolerance=1e-13)


def drawn(
    seed: int,
    n: int,
    objects: int = 30,
    spread: float = 1.0,
    bias: float = 0.0,
    ties: float = 0.0,
    wrong: float = 0.0,
) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    looks = pd.DataFrame(rng.normal(size=(objects, 3)), index=[f"o{n}" for n in range(objects)])
    skill = looks.to_numpy() @ np.array([1.5, 0.5, -1.0]) * spread
    rows = []
    for i in range(n):
        a, b = rng.permutation(objects)[:2]
        won = rng.random() < 1 / (1 + np.exp(skill[b] - skill[a] - bias))
        won = ~won if i % 3 == 2 and rng.random() < wrong else won
        rows.append((f"o{a}", f"o{b}", f"w{i % 3}", "tie" if rng.random() < ties else "left" if won else "right"))
    return pd.DataFrame(rows, columns=COLUMNS), looks, skill


def read(rows: pd.DataFrame, features: Any, **options: Any) -> Annotations:
    return Annotations.from_frame(rows, kind="pair", features=features, **options)


def scores(posterior: crowdppl.Posterior) -> pd.Series[Any]:
    return posterior.ranking()["score"].sort_index()


@pytest.mark.slow
@pytest.mark.parametrize("ties", [0.0, 0.3])
def test_a_linear_network_on_which_object_it_is_finds_bradley_terrys_maximum(ties: float) -> None:
    """With ties, this holds only if either side is counted once for each of two looks."""
    rows, _, _ = drawn(0, 120, objects=5, spread=0.4, ties=ties)
    known = {"gold": {tuple(rows.loc[0, ["left", "right"]]): "left"}}
    one_hot = pd.DataFrame(np.eye(5), index=[f"o{n}" for n in range(5)])
    found = fitted(read(rows, one_hot, **known), linear(5, **SURE))
    likeliest: dict[str, Any] = {"settings": {"spread": 30.0}, "tolerance": 1e-11, "max_iterations": 600}
    skills = crowdppl.fit("bradley_terry", read(rows, None, **known), inference="em", seed=0, **likeliest)
    np.testing.assert_allclose(scores(found), scores(skills), atol=1e-2)
    np.testing.assert_allclose(found.probabilities(), skills.probabilities(), atol=1e-2)


def test_with_annotators_who_never_err_it_is_a_logistic_regression_on_differences() -> None:
    rows, looks, _ = drawn(1, 200, bias=0.7)
    x = looks.loc[rows["left"]].to_numpy() - looks.loc[rows["right"]].to_numpy()
    x = np.column_stack([x, np.ones(len(x))])
    side = np.where(rows["winner"] == "left", 1, -1)
    best = minimize(lambda w: np.logaddexp(0, -side * (x @ w)).sum(), np.zeros(4), tol=1e-10).x
    found = fitted(read(rows, looks), linear(3, **SURE, position_bias=True))
    want = pd.Series(looks.to_numpy() @ best[:3], looks.index)
    np.testing.assert_allclose(scores(found), (want - want.mean()).sort_index(), atol=1e-2)
    assert found.model.network.advantage.item() == pytest.approx(best[3], abs=1e-2)


def test_the_objective_of_em_never_falls_and_unreliable_annotators_are_found() -> None:
    rows, looks, skill = drawn(2, 400, ties=0.1, wrong=0.9)
    objectives: list[float] = []
    found = crowdppl.fit(
        "reward_model",
        read(rows, looks),
        inference="em",
        seed=0,
        settings=linear(3),
        callback=lambda _, value: objectives.append(value),
    )
    assert len(objectives) > 3 and min(np.diff(objectives)) > -1e-6
    accuracy = found.annotators()["accuracy"]
    assert accuracy["w2"] < 0.4 < 0.8 < accuracy[["w0", "w1"]].min()
    assert np.corrcoef(scores(found), pd.Series(skill, looks.index).sort_index())[0, 1] > 0.97


def test_objects_of_few_comparisons_are_known_by_their_features_and_new_ones_too() -> None:
    """Of 60 objects with 4 comparisons each, in the mean; without features all that is known are these."""
    rows, looks, skill = drawn(3, 120, objects=60)
    new, others, truth = drawn(4, 300, objects=60)
    fresh = read(new, looks)
    p_new = 1 / (1 + np.exp(skill @ (_onehot(new["right"], looks) - _onehot(new["left"], looks)).T))
    score = {}
    for method, settings in (("crowd_bt", {}), ("reward_model", linear(3))):
        found = crowdppl.fit(method, read(rows, looks), inference="vb", seed=0, settings=settings)
        left = found.predict(fresh).loc[pd.MultiIndex.from_frame(new[["left", "right"]]), "left"].to_numpy()
        score[method] = float(np.mean(p_new * np.log(left) + (1 - p_new) * np.log(1 - left)))
    assert score["reward_model"] > score["crowd_bt"] + 0.05
    names = {name: f"new {name}" for name in others.index}
    unseen = new.assign(left=new["left"].map(names), right=new["right"].map(names))
    told = found.predict(read(unseen, others.rename(names)))["left"]
    reward = found.ranking(features=others.rename(names))["score"]
    left, right = (reward[told.index.get_level_values(side)].to_numpy() for side in ("left", "right"))
    difference = left - right
    np.testing.assert_allclose(told, 1 / (1 + np.exp(-difference)), atol=1e-5)
    assert np.corrcoef(reward[[*names.values()]], truth)[0, 1] > 0.9
    assert (found.ranking()["score"] - found.ranking(features=looks)["score"]).std() < 1e-5
    later = found.update(read(rows[:5], looks)).ranking()["score"]
    assert set(later.index) == {*rows["left"][:5], *rows["right"][:5]} and later.notna().all()


def _onehot(names: pd.Series[Any], looks: pd.DataFrame) -> np.ndarray:
    return np.eye(len(looks))[looks.index.get_indexer(names)]


@pytest.mark.slow
def test_features_are_of_objects_or_of_both_sides() -> None:
    rows, looks, _ = drawn(5, 60, objects=8)
    first = read(rows, looks)
    assert isinstance(first.features, pd.DataFrame) and first.features.shape == (first.n_items, 6)
    array = first.features.to_numpy().reshape(-1, 2, 3)
    found = [
        fitted(data, linear(3))
        for data in (first, read(rows, array, items=first.items), read(rows, first.features))
    ]
    for other in found[1:]:
        np.testing.assert_allclose(scores(other), scores(found[0]), atol=5e-3)
    with pytest.raises(DataError, match="o7"):
        read(rows, looks.drop("o7"))
    with pytest.raises(DataError, match="several rows for 'o1'"):
        read(rows, pd.concat([looks, looks.loc[["o1"]]]))
    with pytest.raises(DataError, match="left x"):
        crowdppl.fit("reward_model", read(rows, first.features.iloc[:, :4]), inference="em")
    with pytest.raises(DataError, match=r"N, 2"):
        crowdppl.fit("reward_model", read(rows, array[:, :1], items=first.items), inference="em")
    with pytest.raises(MethodError, match="one number"):
        crowdppl.fit("reward_model", first, inference="em", settings={"network": torch.nn.Linear(3, 2)})
    with pytest.raises(MethodError, match="points"):
        found[0].order_probabilities()
    for posterior, by in ((found[0], looks.to_numpy()), (found[1], looks.to_numpy())):
        told = posterior.ranking(features=by)["score"].sort_index()
        np.testing.assert_allclose(told, scores(posterior)[looks.index], atol=1e-5)
    for wrong in (looks.iloc[:, :2], looks.to_numpy()[0], np.float64(1), looks.where(looks > 0)):
        with pytest.raises(DataError):
            found[0].ranking(features=wrong)
    with pytest.raises(MethodError, match="ranking"):
        found[0].classify(looks)
    with pytest.raises(MethodError, match="'reward_model'"):
        crowdppl.fit("crowd_bt", first, inference="em").ranking(features=looks)
    with pytest.raises(DataError, match="features="):
        found[0].predict(rows.assign(annotator="new", left="new"))


def test_without_features_it_is_crowd_bt_and_with_some_it_is_saved(tmp_path: Path) -> None:
    rows, looks, _ = drawn(6, 60, objects=6)
    bare = read(rows, None)
    one, two = (crowdppl.fit(name, bare, inference="em", seed=0).ranking() for name in ("crowd_bt", "reward_model"))
    pd.testing.assert_frame_equal(one, two)
    found = crowdppl.fit(
        "reward_model", read(rows, looks), inference="vb", seed=0, settings={"training": {"epochs": 5}}
    )
    found.save(tmp_path)
    pd.testing.assert_frame_equal(crowdppl.load(tmp_path).ranking(), found.ranking())
    assert [*found.comparisons()["label"]] == [*found.data.frame()["label"]]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["em", "vb", "svi"])
def test_the_default_network_orders_objects(engine: str) -> None:
    rows, looks, skill = drawn(7, 300, wrong=0.9)
    found = crowdppl.fit("reward_model", read(rows, looks), inference=engine, seed=0)
    assert np.corrcoef(scores(found), pd.Series(skill, looks.index).sort_index())[0, 1] > 0.9
    assert found.annotators()["accuracy"].idxmin() == "w2"
