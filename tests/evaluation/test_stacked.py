"""Fits averaged by the weights of a comparison, by hand and beside the fits themselves."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.compare import Comparison, compare
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior
from crowdppl.results.correction import Correction
from tests.class_result import changed
from tests.crowd import annotations, crowd

DATA = annotations([(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)], 2)
FIRST, SECOND, THIRD = ([[0.8, 0.2], [0.5, 0.5]], [[0.4, 0.6], [0.1, 0.9]], [[0.0, 1.0], [1.0, 0.0]])


def member(p: Sequence[Sequence[float]]) -> Posterior:
    fitted = fit("majority_vote", DATA, inference="em")
    return replace(fitted, result=changed(fitted.result, probabilities=np.array(p)))


def weighed(**weights: float) -> Comparison:
    return Comparison({}, pd.DataFrame({"weight": weights}).rename_axis("method"))


def test_the_average_by_hand() -> None:
    found = weighed(a=0.75, b=0.25).probabilities({"b": member(SECOND), "a": member(FIRST)})
    assert found.index.equals(DATA.items) and found.columns.equals(DATA.classes)
    np.testing.assert_allclose(found, [[0.7, 0.3], [0.4, 0.6]], atol=1e-12)


def test_light_members_are_left_out_and_need_not_be_given() -> None:
    comparison, fits = weighed(a=0.594, b=0.396, c=0.0099), {"a": member(FIRST), "b": member(SECOND)}
    expected = 0.6 * np.array(FIRST) + 0.4 * np.array(SECOND)
    for given in (fits, fits | {"c": member(THIRD)}):
        np.testing.assert_allclose(comparison.probabilities(given), expected, atol=1e-12)
    heavier = weighed(a=0.594, b=0.396, c=0.0101).probabilities(fits | {"c": member(THIRD)})
    assert heavier.loc[0, 1] > expected[0, 1]


def test_the_methods_own_probabilities_are_averaged_and_gold_changes_nothing() -> None:
    own = member(FIRST)
    raw = own.result.probabilities
    shown = changed(own.result, probabilities=np.full_like(raw, 0.5))
    corrected = replace(own, result=shown, correction=Correction(raw, {"a": 1.0}, {"a": 0.2}, {}))
    told = replace(member(SECOND), data=DATA.with_gold({0: 1}))
    found = weighed(a=0.5, b=0.5).probabilities({"a": corrected, "b": told})
    np.testing.assert_allclose(found, [[0.6, 0.4], [0.3, 0.7]], atol=1e-12)


def test_weights_are_those_of_the_table() -> None:
    data = crowd(n_items=80)
    names = ["majority_vote", "one_coin", "dawid_skene"]
    compared = compare(names, data, inference="em", folds=2, seed=0)
    fits = {name: fit(name, data, inference="em", seed=0) for name in names}
    weight = compared.table["weight"].where(lambda w: w >= 0.01, 0)
    expected = sum(weight[name] / weight.sum() * fits[name].probabilities() for name in names)
    found = compared.probabilities(fits)
    assert isinstance(expected, pd.DataFrame)
    pd.testing.assert_frame_equal(found, expected)
    assert weight.max() < 1  # so that there is something to average
    assert not np.allclose(found, fits[compared.best].probabilities())


def test_what_is_refused() -> None:
    a, b = member(FIRST), member(SECOND)
    comparison = weighed(a=0.5, b=0.5)
    with pytest.raises(MethodError, match="'b'"):
        comparison.probabilities({"a": a})
    with pytest.raises(MethodError, match="'c'"):
        comparison.probabilities({"a": a, "b": b, "c": b})
    other = annotations([(0, 0, 0), (2, 1, 1)], 2)
    with pytest.raises(DataError, match="'a' and 'b'"):
        comparison.probabilities({"a": a, "b": fit("majority_vote", other, inference="em")})
