"""The weight of the volume that labels of items left out ask for: the rule by hand, and what a fit makes of it."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError, NumericalError, ResultError
from crowdppl.evaluation import heldout as volumes
from crowdppl.evaluation.heldout import ClassifierScore, select_volume
from crowdppl.inference.neural import learner
from crowdppl.inference.options import Options
from crowdppl.networks.training import VOLUMES, training_of
from tests.networks.test_networks import clouds

SMALL, LARGE, LARGEST = VOLUMES
SHORT = {"epochs": 4, "networks": 2, "hidden": 8, "volume": "auto"}


def scored(log_p: list[float]) -> ClassifierScore:
    n = len(log_p)
    table = {"unit": range(n), "labels": 1, "fold": 0, "log_p": log_p}
    items = pd.DataFrame(table, index=[f"i{k}" for k in range(n)])
    return ClassifierScore("bayes_dgc", "vb", items, pd.DataFrame(index=items.index), 0.0)


@pytest.fixture(scope="module")
def many() -> Annotations:
    return clouds(420, 330, 3)[0]


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> dict[float, Any]:
    """What scoring gives by volume, in the place of fits; under "seen", the models and data that were scored."""
    told: dict[Any, Any] = {SMALL: scored([-1.0] * 4), "seen": []}

    def score(model: Any, data: Annotations, **how: Any) -> ClassifierScore:
        told["seen"].append((model, data, how))
        out = told[model.training["volume"]]
        if isinstance(out, BaseException):
            raise out
        found: ClassifierScore = out
        return found

    monkeypatch.setattr(volumes, "classifier_score", score)
    return told


def recipe(**training: Any) -> Any:
    return crowdppl.method("bayes_dgc", training=training)


def look(model: Any, data: Annotations, seed: int = 0) -> tuple[float, dict[str, float]]:
    """What is chosen for a fit by vb."""
    return select_volume(model, model.setup(data), data, "vb", Options(seed=seed))


@pytest.mark.parametrize(
    ("gains", "wins"),
    [
        ([0.1, 0.1, 0.1, 0.2], True),
        ([0.3, -0.1, 0.3, -0.1], False),  # .1 ahead, standard error .115
        ([0.3, -0.1, 0.3, 0.0], True),  # .125 ahead, standard error .103
        ([-0.2, -0.2, -0.2, -0.1], False),
        ([0.0, 0.0, 0.0, 0.0], False),
    ],
)
def test_the_larger_one_is_taken_where_it_is_ahead_by_more_than_a_standard_error(
    many: Annotations, trials: dict[Any, Any], gains: list[float], wins: bool
) -> None:
    trials[LARGE] = scored([gain - 1.0 for gain in gains])
    trials[LARGEST] = scored([-1.0 - abs(gain) for gain in gains])
    volume, found = look(recipe(), many, seed=3)
    assert volume == (LARGE if wins else SMALL)
    seen = {"0.003": pytest.approx(-1), "0.02": pytest.approx(np.mean(gains) - 1)}
    assert {name: found[name] for name in seen} == seen and ("0.05" in found) == wins
    for *_, how in trials["seen"]:
        assert (how["folds"], how["inference"], how["seed"]) == (3, "vb", 3) and "callback" not in how


def test_the_largest_is_compared_with_the_one_before(many: Annotations, trials: dict[Any, Any]) -> None:
    trials[LARGE], trials[LARGEST] = scored([-0.5] * 4), scored([-0.4, -0.4, -0.4, -0.5])
    assert look(recipe(), many) == (LARGEST, {"0.003": -1.0, "0.02": -0.5, "0.05": pytest.approx(-0.425)})
    trials[LARGEST] = scored([-0.6] * 4)  # ahead of the first, and behind the second
    assert look(recipe(), many)[0] == LARGE
    trials[LARGEST] = NumericalError("the loss is nan")
    assert look(recipe(), many) == (LARGE, {"0.003": -1.0, "0.02": -0.5})


def test_trials_train_as_long_as_fits_and_without_patience(many: Annotations, trials: dict[Any, Any]) -> None:
    trials[LARGE] = scored([-2.0] * 4)
    for asked in ({}, {"epochs": 25}, {"epochs": 40, "stop_after": 18, "networks": 2}):
        trials["seen"].clear()
        look(recipe(**asked, patience=4), many)
        for (model, data, _), volume in zip(trials["seen"], (SMALL, LARGE), strict=True):
            assert data is many and model.training == {**asked, "volume": volume, "patience": 0}


def test_few_items_are_not_tried_and_of_many_some(
    many: Annotations, trials: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    few, _ = clouds(300, 290)
    assert look(recipe(), few) == (SMALL, {}) and not trials["seen"]
    monkeypatch.setattr(volumes, "MAX_ITEMS", 310)
    trials[LARGE] = scored([-2.0] * 4)
    look(recipe(), many, seed=1)
    first, second = (data for _, data, _ in trials["seen"])
    assert first is second and first.n_items == many.n_items
    left = first.frame().groupby("item").size()
    assert len(left) == 310
    pd.testing.assert_series_equal(left, many.frame().groupby("item").size()[left.index])


def test_a_volume_at_which_networks_break_is_not_taken(many: Annotations, trials: dict[Any, Any]) -> None:
    trials[LARGE] = NumericalError("the loss is nan")
    assert look(recipe(), many) == (SMALL, {"0.003": pytest.approx(-1)})
    trials[SMALL] = NumericalError("the loss is nan")
    with pytest.raises(NumericalError):
        look(recipe(), many)


@pytest.mark.slow
def test_a_fit_trains_with_what_was_found_and_says_so(many: Annotations, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error", crowdppl.errors.UnusedOptionWarning
        )  # trials take the options that serve them
        found: Any = crowdppl.fit("bayes_dgc", many, seed=2, settings={"training": SHORT})
    volume, scores = found.model.training["volume"], found.diagnostics()["volumes"]
    assert len(scores) > 1
    for number, score in scores.items():
        again = crowdppl.classifier_score(recipe(**{**SHORT, "volume": float(number)}), many, folds=3, seed=2)
        assert score == again.per_item
    told = {"training": {**SHORT, "volume": volume}}
    same = crowdppl.fit("bayes_dgc", many, seed=2, settings=told)
    pd.testing.assert_frame_equal(found.probabilities(), same.probabilities(), check_exact=True)
    assert "volumes" not in same.diagnostics()
    found.save(tmp_path / "found")
    assert crowdppl.load(tmp_path / "found").diagnostics()["volumes"] == scores


@pytest.mark.slow
def test_it_is_asked_for_by_name(many: Annotations) -> None:
    assert crowdppl.default_training(many)["volume"] == "auto"
    own = crowdppl.default_training(many)["epochs"]
    for how, found in (({"full_batch": True}, SMALL), ({"epochs": own}, "auto"), ({"epochs": own - 1}, SMALL)):
        assert crowdppl.default_training(many, **how)["volume"] == found
    plain: Any = crowdppl.fit("raykar", many, inference="em", settings={"training": SHORT})
    assert plain.model.training["volume"] in VOLUMES and len(plain.diagnostics()["volumes"]) > 1
    with pytest.raises(MethodError, match="epochs='5' must be a whole number"):
        crowdppl.fit("bayes_dgc", many, settings={"training": {"epochs": "5"}})
    with pytest.raises(MethodError, match="volume='most' must be a number, at least 0 or 'auto'"):
        training_of({"volume": "most"})
    by_gradients: Any = crowdppl.fit("ccem", many, inference="svi", settings={"training": SHORT})
    assert by_gradients.model.training["volume"] in VOLUMES and len(by_gradients.diagnostics()["volumes"]) > 1


@pytest.mark.slow
def test_trials_of_a_killed_fit_are_not_made_again(
    many: Annotations, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor the first training of ``patience``; the result is, to the bit, that of a fit that nobody killed."""
    how: dict[str, Any] = {"inference": "vb", "settings": {"training": {**SHORT, "patience": 3}}}
    whole = crowdppl.fit("bayes_dgc", many, **how)
    real, first, calls = volumes.classifier_score, learner._best_epoch, list[str]()

    def scored_once(model: Any, *given: Any, **more: Any) -> ClassifierScore:
        calls.append(str(model.training["volume"]))
        if len(calls) == 2:
            raise RuntimeError("killed")
        return real(model, *given, **more)

    def stopped_once(*given: Any) -> int:
        calls.append("patience")
        return first(*given)

    def kill(t: int, _: float) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(volumes, "classifier_score", scored_once)
    monkeypatch.setattr(learner, "_best_epoch", stopped_once)
    how |= {"checkpoint": str(tmp_path / "kept"), "checkpoint_every": 1}
    for more in ({}, {"callback": kill}):
        with pytest.raises(RuntimeError, match="killed"):
            crowdppl.fit("bayes_dgc", many, **how, **more)
    tried = list(whole.diagnostics()["volumes"])
    assert len(tried) > 1, "a trial that is made again must be one that was not finished"
    assert calls == [*tried[:2], *tried[1:], "patience"]
    again = crowdppl.fit("bayes_dgc", many, **how)
    assert calls == [*tried[:2], *tried[1:], "patience"]
    pd.testing.assert_frame_equal(again.probabilities(), whole.probabilities(), check_exact=True)
    assert again.diagnostics()["volumes"] == whole.diagnostics()["volumes"]
    assert again.diagnostics()["iterations"] == whole.diagnostics()["iterations"]
    with pytest.raises(ResultError, match=r"kept\.trials is the checkpoint of another fit"):
        crowdppl.fit("bayes_dgc", many, seed=1, **how)
