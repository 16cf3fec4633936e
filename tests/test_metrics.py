"""Scores against known truths, each computed by hand."""

from __future__ import annotations

import warnings
from math import log
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.metrics import accuracy, brier_score, calibration_error, evaluate, log_score

NINE = ["bluebirds", "rte", "dogs", "web", "face", "possent", "product", "music", "sentiment_polarity"]


def table(rows: dict[object, list[float]], classes: tuple[object, ...] = ("no", "yes")) -> pd.DataFrame:
    return pd.DataFrame.from_dict(rows, orient="index", columns=pd.Index(classes))


def test_four_items_by_hand() -> None:
    p = table({"a": [0.9, 0.1], "b": [0.2, 0.8], "c": [0.5, 0.5], "d": [0.7, 0.3]})
    found = evaluate(p, {"a": "no", "b": "yes", "c": "no", "d": "yes"})
    assert (found.n, found.unscored) == (4, 0)
    assert found.accuracy == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert found.log_score == pytest.approx(-(log(0.9) + log(0.8) + log(0.5) + log(0.3)) / 4)
    assert found.brier == pytest.approx(2 * (0.1**2 + 0.2**2 + 0.5**2 + 0.7**2) / 4)
    # Every item has a bin of its own (15 bins: 13th, 12th, 7th, 10th), so each gap counts as it is.
    assert found.ece == pytest.approx((0.1 + 0.2 + 0.0 + 0.7) / 4)


def test_items_of_one_bin_make_up_for_each_other() -> None:
    p = np.array([[0.79, 0.21], [0.79, 0.21], [0.79, 0.21], [0.79, 0.21]])
    truth = np.array([0, 0, 0, 1])
    assert calibration_error(p, truth) == pytest.approx(0.79 - 0.75)


def test_a_bin_holds_its_upper_end() -> None:
    # .2 is the upper end of the third of 15 bins whatever the rounding of .2 * 15; .201 lies in the fourth.
    p = np.array([[0.2] * 5, [0.201, 0.19975, 0.19975, 0.19975, 0.19975]])
    wrong_and_right = np.array([1, 0])
    assert calibration_error(p, wrong_and_right) == pytest.approx((abs(0.2 - 0.2) + (1 - 0.201)) / 2)


def test_ties_are_split_in_expectation() -> None:
    p = np.array([[0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3], [0.4, 0.4, 0.2]])
    assert accuracy(p, np.array([1, 2, 2])) == pytest.approx((1 / 2 + 1 / 3 + 0) / 3)
    # Rounding does not break a tie.
    assert accuracy(np.array([[0.5 + 1e-9, 0.5 - 1e-9]]), np.array([1])) == 0.5


def test_perfect_worthless_and_certainly_wrong() -> None:
    truth = np.array([0, 1, 2])
    assert brier_score(np.eye(3), truth) == log_score(np.eye(3), truth) == calibration_error(np.eye(3), truth) == 0
    even = np.full((3, 3), 1 / 3)
    assert log_score(even, truth) == pytest.approx(log(3))
    assert brier_score(even, truth) == pytest.approx(2 / 3)
    assert calibration_error(even, truth) == pytest.approx(0)
    wrong = np.eye(3)[[1, 2, 0]]
    assert log_score(wrong, truth) == pytest.approx(-log(1e-10))
    assert brier_score(wrong, truth) == pytest.approx(2)
    assert calibration_error(wrong, truth) == pytest.approx(1)


def test_gold_may_be_in_any_order_partial_or_spelled_as_text() -> None:
    p = table({1: [0.9, 0.1], 2: [0.2, 0.8], 3: [0.6, 0.4]}, (0, 1))
    assert evaluate(p, pd.Series({3: 0, 2: 1})).n == 2
    assert evaluate(p, pd.Series({"3": "0", "2": "1"})).accuracy == 1
    assert evaluate(p, pd.Series({3: 0, 2: None})).n == 1


def test_what_is_not_scored_is_counted_and_warned_of() -> None:
    p = table({"a": [0.9, 0.1]})
    with pytest.warns(CrowdpplWarning, match="2 of 3 items"):
        found = evaluate(p, {"a": "no", "b": "no", "c": "yes"})
    assert (found.n, found.unscored) == (1, 2)


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ({"z": "no"}, "no item of gold.*'z'.*'a'"),
        ({}, "no item of gold"),
        ({"a": "maybe"}, "'maybe'.*'a'.*classes"),
        (pd.Series(["no", "yes"], index=["a", "a"]), "'a' .*more than once"),
    ],
)
def test_refused(gold: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate(table({"a": [0.9, 0.1]}), gold)


def test_an_evaluation_reads_like_a_mapping() -> None:
    found = evaluate(table({"a": [0.9, 0.1]}), {"a": "no"})
    assert dict(found)["accuracy"] == found["accuracy"] == 1
    assert list(pd.Series(dict(found)).index) == ["n", "unscored", "accuracy", "log_score", "brier", "ece"]
    assert "accuracy" in str(found)
    with pytest.raises(KeyError):
        found["f1"]


def test_vote_shares_on_real_data(real_data: Path) -> None:
    """The means over nine sets that were measured independently; ECE there counts bins in another way."""
    rows = []
    for name in NINE:
        answers = pd.read_csv(real_data / name / "answers.csv").drop_duplicates()
        votes = pd.crosstab(answers["item"], answers["label"])
        gold = pd.read_csv(real_data / name / "truth.csv").set_index("item")["label"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdpplWarning)
            found = evaluate(votes.div(votes.sum(axis=1), axis=0), gold)
        rows.append([found.accuracy, found.log_score, found.brier, found.ece])
    mean = np.mean(rows, axis=0)
    np.testing.assert_allclose(mean[:3], [0.807, 1.161, 0.310], atol=6e-4)
    assert mean[3] == pytest.approx(0.123, abs=0.006)
