"""Known truths, in whatever they are handed over: an item is named once, and by its id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.covariates import covariate_table, history_table
from crowdppl.data.ids import Codebook
from crowdppl.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")

SHARES = pd.DataFrame({1: [0.9, 0.2], 2: [0.1, 0.8]}, index=[1, 2])
PEOPLE = Codebook("annotator", pd.Index(["1", "2"]))


def annotated(gold: Any) -> Any:
    return Annotations.from_arrays([1, 1, 2, 2], list("abab"), [1, 2, 2, 1], gold=gold)


def evaluated(gold: Any) -> Any:
    return crowdppl.evaluate(SHARES, gold)


@pytest.mark.parametrize("use", [annotated, evaluated])
@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ({"1": "1", 1: 2}, r"gold names the item '1' \(also as 1\) more than once; keep one class"),
        (pd.Series([1, 2], index=[1, 1]), "gold names the item 1 more than once"),
        (pd.DataFrame({"gold": [1, 2]}, index=[1, 2]), "gold is a DataFrame; give a Series or a mapping"),
        ([1, 2], "gold is a list; give a Series"),
        ({1: [1]}, r"the class \[1\] cannot be an id \(unhashable type: 'list'\); use text or numbers"),
    ],
    ids=["two spellings", "twice", "table", "list", "list of a class"],
)
def test_gold_that_contradicts_itself_or_is_none(use: Callable[[Any], Any], gold: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        use(gold)


def test_probabilities_of_an_item_twice() -> None:
    with pytest.raises(DataError, match="the probabilities have the item 1 more than once; keep one"):
        crowdppl.evaluate(pd.concat([SHARES, SHARES]), {1: 1})


def test_truths_in_another_spelling_are_named_with_it() -> None:
    shares = SHARES.set_axis(["4.0", "5.0"], axis=1).set_axis(["a", "b"])
    with pytest.raises(DataError, match=r"the truth '4' of item 'a' is none of the classes .*; '4.0' is: spell it"):
        crowdppl.evaluate(shares, {"a": "4"})
    with pytest.raises(DataError, match=r"\(gold has 'B', the posterior 'b'\); spell items as"):
        crowdppl.evaluate(shares, {"B": "4.0"})


def test_another_table_than_the_probabilities() -> None:
    posterior = crowdppl.fit("one_coin", annotated({}), inference="em")
    for table in (posterior.labels(), posterior.entropy()):
        with pytest.raises(DataError, match=r"the truth 1 of item 1 is none .* are no classes, give the posterior"):
            crowdppl.evaluate(table, {1: 1, 2: 2})
    with pytest.raises(DataError, match="the truth 3 of item 2 is none of the classes") as raised:
        crowdppl.evaluate(SHARES, {1: 1, 2: 3})
    assert "columns" not in str(raised.value)


def test_masked_truths_are_not_scored() -> None:
    assert crowdppl.evaluate(SHARES, {1: np.ma.masked, 2: 2}).n == 1


def test_annotators_in_two_spellings() -> None:
    with pytest.raises(DataError, match=r"history names the annotator '1' \(also as 1\) more than once"):
        history_table({"1": np.eye(2), 1: np.zeros((2, 2))}, PEOPLE, 2)
    with pytest.raises(DataError, match=r"several rows for the annotator '1' \(also as 1\); keep one"):
        covariate_table(pd.DataFrame({"age": [30, 31]}, index=["1", 1]), PEOPLE)
    with pytest.raises(DataError, match="history of annotator '1' holds what is no number"):
        history_table({"1": "many"}, PEOPLE, 2)
