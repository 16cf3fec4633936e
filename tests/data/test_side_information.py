"""Gold, features, covariates and history: by id, in codebook order, refused with a reason."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.covariates import covariate_table, feature_table, history_table
from crowdppl.data.gold import known_truths
from crowdppl.data.ids import Codebook
from crowdppl.data.kinds.classes import NOMINAL
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.errors import DataError

ITEMS = Codebook("item", pd.Index(["10", "7", "x"]))
PEOPLE = Codebook("annotator", pd.Index([1, 2]))
CLASSES = LabelSet(Codebook("answer", pd.Index(["no", "yes", "?"])), 2, NOMINAL)
GRADES = LabelSet(Codebook("answer", pd.Index([0, 1])), 2, NOMINAL)


@pytest.mark.parametrize(
    ("gold", "alphabet"),
    [
        ({"x": "yes", "10": "no"}, CLASSES),
        (pd.Series(["yes", "no"], index=["x", "10"]), CLASSES),
        (pd.Series(["yes", "no", None], index=["x", "10", "unknown so far"]), CLASSES),
        ({"x": "yes", 10: "no"}, CLASSES),
        ({"x": 1, "10": 0}, GRADES),
        (pd.Series([1.0, 0.0, np.nan], index=["x", "10", "7"]), GRADES),
        ({"x": "1", "10": "0"}, GRADES),
    ],
)
def test_gold_by_id(gold: Any, alphabet: LabelSet) -> None:
    codes = known_truths(gold, ITEMS, alphabet)
    assert (codes.tolist(), codes.dtype) == ([0, -1, 1], np.int16)


@pytest.mark.parametrize(
    ("gold", "named"),
    [
        ({"y": "yes"}, "'y', .*'10'"),
        ({"x": "maybe"}, "'maybe' of item 'x', .*'no'; .*classes="),
        ({"x": "?"}, r"'\?'"),
        ({"x": 1}, "class 1"),
        (pd.Series(["yes", "no"], index=["x", "x"]), "'x' more than once"),
        ({"10": "yes", 10: "no"}, "'10' more than once"),
        (["yes", "no", "no"], "gold is a list"),
    ],
)
def test_gold_that_is_refused(gold: Any, named: str) -> None:
    with pytest.raises(DataError, match=named):
        known_truths(gold, ITEMS, CLASSES)


def test_features_in_codebook_order() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.1, 0.2, 0.3]}, index=["x", "10", "7"])
    table = feature_table(frame, None, ITEMS)
    assert table.index.equals(ITEMS.ids)
    assert (table["a"].tolist(), table["a"].dtype.kind) == ([2, 3, 1], "i")
    array = torch.arange(12.0).reshape(3, 2, 2)
    stacked = feature_table(array, ["x", 10, 7], ITEMS)
    assert stacked[:, 0, 0].tolist() == [4.0, 8.0, 0.0]


@pytest.mark.parametrize(
    ("features", "items", "message"),
    [
        (np.zeros((3, 2)), None, "items="),
        (np.zeros((3, 2)), ["x"], r"shape \(3, 2\) for 1 items"),
        (np.zeros(3), ["x", "10", "7"], r"shape \(3,\)"),
        (np.zeros((2, 2)), ["x", "10"], r"features has no row for the item '7' \(1 in all\)"),
        (np.zeros((4, 2)), ["x", "10", "7", "x"], "the item 'x' more than once"),
        (np.zeros((4, 2)), ["x", "10", "7", "y"], r"features names the item 'y'"),
        (np.array([[0.0], [np.nan], [0.0]]), ["10", "7", "x"], r"item '7' is nan, not finite"),
        (pd.DataFrame({"a": ["t"] * 3}, index=["x", "10", "7"]), None, r"feature 'a' is no number"),
    ],
)
def test_features_that_are_refused(features: Any, items: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        feature_table(features, items, ITEMS)


def test_covariates_are_carried_with_gaps() -> None:
    table = covariate_table(pd.DataFrame({"age": [30]}, index=[2]), PEOPLE)
    assert table.index.tolist() == [1, 2]
    assert table["age"].isna().tolist() == [True, False]
    with pytest.raises(DataError, match="annotator_covariates names the annotator 3"):
        covariate_table(pd.DataFrame({"age": [30]}, index=[3]), PEOPLE)
    with pytest.raises(DataError, match="the annotator 2 more than once"):
        covariate_table(pd.DataFrame({"age": [30, 31]}, index=[2, 2]), PEOPLE)
    with pytest.raises(DataError, match="annotator_covariates is a dict"):
        covariate_table({"age": 3}, PEOPLE)


def test_history_by_id_or_as_one_array() -> None:
    counts = np.array([[3.0, 1.0], [0.0, 2.0]])
    table = history_table({2: counts}, PEOPLE, 2)
    assert table.tolist() == [np.zeros((2, 2)).tolist(), counts.tolist()]
    again = history_table(torch.tensor(table), PEOPLE, 2)
    assert (again == table).all()
    assert history_table({}, PEOPLE, 2) is not None


@pytest.mark.parametrize(
    ("history", "named"),
    [
        ({3: np.eye(2)}, "annotator 3.*annotators="),
        ({1: np.eye(3)}, r"annotator 1 .*\(3, 3\)"),
        (np.eye(2), r"\(2, 2\); .*\(2, 2, 2\)"),
        ({1: -np.eye(2)}, r"-1.0 at \(0, 0\)"),
        ({1: np.full((2, 2), np.inf)}, "inf"),
        ({1: np.ma.masked_array(np.eye(2), np.eye(2))}, "nan"),
        ({1: "many"}, "annotator 1"),
        ({"1": np.eye(2), 1: np.eye(2)}, "annotator 1 more than once"),
    ],
)
def test_history_that_is_refused(history: Any, named: str) -> None:
    with pytest.raises(DataError, match=named):
        history_table(history, PEOPLE, 2)


SHARES = pd.DataFrame({1: [0.9, 0.2], 2: [0.1, 0.8]}, index=[1, 2])


def annotated(gold: Any) -> Any:
    return Annotations.from_arrays([1, 1, 2, 2], list("abab"), [1, 2, 2, 1], gold=gold)


def test_truths_that_are_in_no_table() -> None:
    shares = SHARES.set_axis(["4.0", "5.0"], axis=1).set_axis(["a", "b"])
    with pytest.raises(DataError, match="the truth '4' of item 'a'"):
        crowdppl.evaluate(shares, {"a": "4"})
    with pytest.raises(DataError, match=r"\(gold has 'B', the posterior 'a'\)"):
        crowdppl.evaluate(shares, {"B": "4.0"})


def test_another_table_than_the_probabilities() -> None:
    posterior = crowdppl.fit("one_coin", annotated({}), inference="em")
    for table in (posterior.labels(), posterior.entropy()):
        with pytest.raises(DataError, match=r"the truth 1 of item 1 is none .* give the posterior"):
            crowdppl.evaluate(table, {1: 1, 2: 2})
    with pytest.raises(DataError, match="the truth 3 of item 2 is none of the classes") as raised:
        crowdppl.evaluate(SHARES, {1: 1, 2: 3})
    assert "columns" not in str(raised.value)
