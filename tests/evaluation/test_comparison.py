"""Methods side by side: differences, their errors, and stacking weights."""

from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl.data.split import keep, label_folds
from crowdppl.errors import MethodError, NoProbabilitiesError
from crowdppl.evaluation.compare import compare
from crowdppl.evaluation.heldout import heldout_score, stacking_weights
from crowdppl.inference import engines as engine_module
from crowdppl.results.leave_one_out import standard_error
from tests.crowd import crowd

METHODS = ["majority_vote", "one_coin", "bayesian_dawid_skene"]


def test_the_table_says_what_the_scores_say() -> None:
    data = crowd()
    found = compare(
        METHODS, data, inference={"majority_vote": "em", "bayesian_dawid_skene": "vb", "one_coin": "em"}, folds=3
    )
    table = found.table
    assert set(table.index) == set(METHODS) and found.best == table.index[0]
    assert table["log_p"].is_monotonic_decreasing and table["difference"].iloc[0] == 0
    assert table.loc["bayesian_dawid_skene", "inference"] == "vb"
    assert table["weight"].sum() == pytest.approx(1)
    alone = heldout_score("one_coin", data, inference="em", folds=3)
    assert table.loc["one_coin", "log_p"] == alone.per_label
    top, one = found.scores[found.best].labels, found.scores["one_coin"].labels
    gap = (one["log_p"] - top["log_p"]).to_numpy()
    assert table.loc["one_coin", "difference"] == pytest.approx(gap.mean())
    assert table.loc["one_coin", "difference_se"] == pytest.approx(
        standard_error(gap, one["item"].astype("category").cat.codes.to_numpy())
    )


@pytest.mark.slow
def test_methods_left_to_auto_share_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    data = crowd(n_items=20)
    short: dict[str, Any] = {"draws": 20, "warmup": 10, "chains": 2}
    monkeypatch.setattr(engine_module, "AUTO_SECONDS", 0.3)  # three fits of 30 sweeps by the formula, six not
    names = ["one_coin", "bayesian_dawid_skene"]
    assert set(compare(names, data, folds=2, **short).table["inference"]) == {"vb"}
    some = compare(names, data, folds=2, inference={"bayesian_dawid_skene": "vb"}, **short).table["inference"]
    assert some.to_dict() == {"one_coin": "gibbs", "bayesian_dawid_skene": "vb"}


@pytest.mark.parametrize("apart", [0.001, 1.0, 30.0])
def test_no_weight_can_be_moved_to_advantage(apart: float) -> None:
    """At the maximum of a concave function on the simplex, no slope is above the mean of slopes, which is 1."""
    rng = np.random.default_rng(1)
    logs = rng.normal(-1, 1, (4000, 1)) + apart * rng.normal(size=(4000, 4))
    p = np.exp(logs - logs.max(1, keepdims=True))
    slopes = (p / (p @ stacking_weights(logs))[:, None]).mean(0)
    assert slopes.max() < 1 + 1e-6


def test_equal_and_impossible_predictions_can_be_weighed() -> None:
    np.testing.assert_allclose(stacking_weights(np.full((10, 4), -2.0)), 0.25)
    np.testing.assert_allclose(stacking_weights(np.array([[-1e5, 0.0], [0.0, -1e5]])), 0.5)
    np.testing.assert_allclose(stacking_weights(np.array([[-1e5, -2.0], [-3.0, -1.0]])), [0, 1], atol=1e-9)
    np.testing.assert_array_equal(stacking_weights(np.array([[-1.0], [-2.0]])), [1.0])


@pytest.mark.parametrize(
    ("models", "more", "name"),
    [
        ("one_coin", {}, "one_coin"),
        ([], {}, "no method"),
        (["one_coin", "one_coin"], {}, "one_coin"),
        (["one_coin"], {"inference": {"glad": "em"}}, "glad"),
        (["one_coin"], {"settings": {"glad": {}}}, "glad"),
        (["one_coin", "auto"], {}, "auto"),
        (["one_coin", "onecoin"], {}, "onecoin"),
        (["one_coin", "multinomial"], {"settings": {"multinomial": {"masss": 1}}}, "masss"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_fitted(
    models: Any, more: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "crowdppl.evaluation.compare.score_one_of", lambda *_, **__: pytest.fail("a method was scored")
    )
    with pytest.raises(MethodError, match=name):
        compare(models, crowd(), **more)


def test_whole_items_left_out_are_compared_item_by_item() -> None:
    data = crowd(n_items=60)
    found = compare(["majority_vote", "one_coin"], data, inference="em", folds=3, whole_items=True)
    other = compare(["one_coin", "majority_vote"], data, inference="em", folds=3, whole_items=True)
    table = found.table
    assert not table.isna().any(axis=None) and found.best == other.best == table["per_item"].idxmax()
    best = found.scores[found.best].items["log_p"]
    for name, score in found.scores.items():
        assert table.loc[name, "log_p"] == table.loc[name, "per_item"] == score.per_item
        assert table.loc[name, "se"] == score.per_item_se
        gap = score.items["log_p"] - best
        assert table.loc[name, "difference"] == pytest.approx(gap.mean())
        assert table.loc[name, "difference_se"] == pytest.approx(gap.std(ddof=1) / np.sqrt(60))
    logs = np.stack([score.items["log_p"] for score in found.scores.values()], 1)
    np.testing.assert_allclose(table["weight"][list(found.scores)], stacking_weights(logs))


def test_baselines_are_scored_by_the_agreement_of_labels_left_out() -> None:
    crowd = crowdppl.simulate_annotators([0, 1, 2] * 20, {"hammer": 3, "spammer": 2}, seed=1)
    names, short = ["catd", "one_coin", "crh"], {"folds": 3, "inference": "em", "seed": 0}
    found = crowdppl.compare(names, crowd.data, **short)
    fold, (item, _, answer) = label_folds(crowd.data, 3, 0), crowd.data.label_codes()
    right = []
    for number in range(3):
        shares = crowdppl.baselines.catd(keep(crowd.data, fold != number)).shares
        right.extend(shares[item, answer][fold == number])
    table = found.table
    assert found.best == table.index[0] == "one_coin"
    assert table.loc["catd", "agreement"] == pytest.approx(np.mean(right))
    assert 0.4 < table.loc["one_coin", "agreement"] < 0.9
    assert table.loc[["catd", "crh"]].drop(columns=["inference", "agreement", "seconds"]).isna().all(axis=None)
    assert found.plot() is not None
    assert crowdppl.compare(["crh"], crowd.data, **short).table["agreement"].notna().all()
    with pytest.raises(NoProbabilitiesError, match="catd has no probabilities"):
        crowdppl.compare_to_default(found.scores, default="one_coin")
    with pytest.raises(NoProbabilitiesError, match="leave whole_items out"):
        crowdppl.compare(names, crowd.data, whole_items=True, **short)
    with pytest.raises(NoProbabilitiesError, match="crh has no probabilities of numbers"):
        crowdppl.compare(["crh"], crowdppl.datasets.example("real"), **short)
    with pytest.raises(MethodError, match="catd"):
        crowdppl.compare(names, crowd.data, settings={"catd": {"level": 0.9}}, **short)
