"""Rivals of a default: Holm's rule by hand, false calls in simulation, and scores that cannot be compared."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

import crowdppl
from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.compare import compare_to_default


def score(log_p: np.ndarray, sequence: int = 1) -> crowdppl.ClassifierScore:
    """Of as many items, three labels each, of which so many are one sequence."""
    items = pd.DataFrame({"unit": np.arange(len(log_p)) // sequence, "labels": 3, "log_p": log_p})
    return crowdppl.ClassifierScore("raykar", "em", items, pd.DataFrame(), 1.0)


def test_holm_by_hand() -> None:
    base = np.zeros(4)
    scores = {
        "default": score(base),
        "far": score(np.array([1.0, 1.2, 0.8, 1.0])),
        "near": score(np.array([1.0, -0.5, 0.8, 0.1])),
        "same": score(base),
        "worse": score(np.array([-1.0, -1.2, -0.8, -1.0])),
    }
    found = compare_to_default(scores, "default")
    assert list(found.index) == ["far", "near", "same", "worse"]
    single = {}
    for name in ("far", "near"):
        gap = scores[name].items["log_p"].to_numpy()
        single[name] = t.sf(gap.mean() / (gap.std(ddof=1) / 2), 3)
        assert found.loc[name, "se"] == pytest.approx(gap.std(ddof=1) / 2)
    assert found.loc["far", "p"] == pytest.approx(4 * single["far"])
    assert found.loc["near", "p"] == pytest.approx(3 * single["near"])
    assert found.loc[["same", "worse"], "p"].tolist() == [1, 1]
    assert found["beyond_chance"].tolist() == [True, False, False, False]


@pytest.mark.slow
def test_a_rival_is_seldom_called_better_where_none_is_and_the_best_often_seems_so() -> None:
    rng, called, naive, repeats = np.random.default_rng(0), 0, 0, 50
    for _ in range(repeats):
        common = rng.normal(size=150)
        scores = {str(m): score(common + rng.normal(size=150)) for m in range(20)}
        found = compare_to_default(scores, "0")
        called += bool(found["beyond_chance"].any())
        naive += bool((found["ahead"] > 1.645 * found["se"]).any())
    assert called / repeats < 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert naive / repeats > 0.3


@pytest.mark.slow
def test_items_of_a_sequence_are_one_observation() -> None:
    """Alike in a sequence, they would call a rival better far too often if each counted for itself."""
    rng, called, repeats = np.random.default_rng(0), {1: 0, 8: 0}, 100
    for _ in range(repeats):
        logs = [(rng.normal(size=(40, 1)) + rng.normal(size=(40, 8))).ravel() for _ in range(2)]
        for size in called:
            found = compare_to_default({name: score(x, size) for name, x in zip("ab", logs, strict=True)}, "a")
            called[size] += bool(found["beyond_chance"].any())
    assert called[8] / repeats < 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert called[1] / repeats > 0.2


def test_what_was_found_impossible() -> None:
    fine, broken = score(np.array([-1.0, -2.0, -1.5])), score(np.array([-0.1, -np.inf, -0.1]))
    found = compare_to_default(
        {"default": fine, "broken": broken, "worse": score(np.array([-2.0, -2.5, -1.6]))}, "default"
    )
    assert found.index[-1] == "broken" and found.loc["broken", ["ahead", "p"]].tolist() == [-np.inf, 1]
    with pytest.raises(DataError, match="'broken'"):
        compare_to_default({"default": fine, "broken": broken}, "broken")


def test_labels_of_an_item_are_one_observation() -> None:
    """Whoever writes every label three times over knows no more."""
    data = crowdppl.anaesthetists()
    found = crowdppl.compare(["one_coin", "class_coin"], data, folds=3, inference="em", seed=0)
    table = compare_to_default(found.scores, "one_coin")
    assert table.loc["class_coin", "ahead"] == pytest.approx(
        found.scores["class_coin"].per_label - found.scores["one_coin"].per_label
    )
    thrice = {}
    for name, one in found.scores.items():
        labels = pd.concat([one.labels] * 3, ignore_index=True)
        thrice[name] = crowdppl.HeldoutScore(one.method, "em", labels, one.items, 0, 1.0)
    pd.testing.assert_frame_equal(compare_to_default(thrice, "one_coin"), table)
    whole = crowdppl.compare(["one_coin", "class_coin"], data, folds=3, inference="em", seed=0, whole_items=True)
    ahead = whole.table.loc["class_coin", "log_p"] - whole.table.loc["one_coin", "log_p"]
    assert compare_to_default(whole.scores, "one_coin").loc["class_coin", "ahead"] == pytest.approx(ahead)


def test_what_cannot_be_compared_is_refused() -> None:
    one, fewer = score(np.zeros(5)), score(np.zeros(4))
    data = crowdppl.anaesthetists()
    short = crowdppl.heldout_score("one_coin", data, folds=2, inference="em", seed=0)
    turned = replace(short, labels=short.labels.assign(label=short.labels["label"][::-1].to_numpy()))
    cases: list[tuple[Any, str, type[Exception], str]] = [
        ([one], "a", DataError, "mapping"),
        ({"a": one, "b": one}, "c", MethodError, "'c'"),
        ({"a": one}, "a", MethodError, "'a'"),
        ({"a": one, "b": fewer}, "a", DataError, "'b' and 'a'"),
        ({"a": one, "b": 1.0}, "a", DataError, "'b'"),
        ({"a": one, "b": short}, "a", DataError, "classifier_score"),
        ({"a": short, "b": turned}, "a", DataError, "'b' and 'a'"),
    ]
    for scores, default, error, name in cases:
        with pytest.raises(error, match=name):
            compare_to_default(scores, default)
    with pytest.raises(MethodError, match="level"):
        compare_to_default({"a": one, "b": one}, "a", level=1)
