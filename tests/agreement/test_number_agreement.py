"""Agreement of numbers: intraclass correlations against pingouin 0.7.0, alpha against krippendorff, and limits."""

from typing import Any

import krippendorff
import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations, agreement_classes, agreement_table
from crowdppl.errors import CrowdpplWarning, DataError, MethodError, SparseDataWarning

WINES = [
    [1, 2, 0, 1],
    [1, 3, 3, 2],
    [3, 8, 1, 4],
    [6, 4, 3, 3],
    [6, 5, 5, 6],
    [7, 5, 6, 2],
    [8, 7, 7, 9],
    [9, 9, 9, 8],
]
PINGOUIN = {
    "ICC1": (0.727520915896081, 11.680025856496444, 2.1813509548618443e-06, 0.433772833271, 0.926696029257),
    "ICC2": (0.7276887871853546, 11.7866927592955, 5.0257154640603615e-06, 0.434489657891, 0.926708606316),
    "ICC3": (0.7294865007940708, 11.7866927592955, 5.0257154640603615e-06, 0.426146030129, 0.927895261473),
    "ICC1k": (0.9143837511760474, 11.680025856496444, 2.1813509548618443e-06, 0.753955323101, 0.980607867055),
    "ICC2k": (0.9144500359453631, 11.7866927592955, 5.0257154640603615e-06, 0.754496219149, 0.98061138777),
    "ICC3k": (0.9151585588577121, 11.7866927592955, 5.0257154640603615e-06, 0.748137124159, 0.980943254108),
}


def wines(**options: Any) -> Annotations:
    return Annotations.from_matrix(np.array(WINES, object), **options)


def test_all_six_are_pingouins() -> None:
    table = crowdppl.intraclass_correlations(wines(kind="real"))
    wanted = pd.DataFrame.from_dict(PINGOUIN, orient="index", columns=["value", "F", "p", "low", "high"])
    assert table.index.tolist() == [*PINGOUIN]
    np.testing.assert_allclose(table[wanted.columns], wanted, rtol=1e-8)
    assert table["df1"].tolist() == [7] * 6 and table["df2"].tolist() == [24, 21, 21] * 2
    graded = wines(kind="ordinal", classes=range(10))
    pd.testing.assert_frame_equal(crowdppl.intraclass_correlations(graded), table)


def test_a_bias_counts_in_agreement_and_not_in_consistency() -> None:
    biased = np.array(WINES, float) + np.array([0, 10, 20, 30])
    value = crowdppl.intraclass_correlations(Annotations.from_matrix(biased, kind="real"))["value"]
    assert value["ICC3"] == pytest.approx(PINGOUIN["ICC3"][0]) and value["ICC2"] < 0.1 and value["ICC1"] < 0
    exact = Annotations.from_matrix(np.repeat([[1.0], [2.0], [4.0]], 3, axis=1), kind="real")
    assert crowdppl.intraclass_correlations(exact)["value"].tolist() == [1.0] * 6


def test_items_that_some_annotator_did_not_label_are_left_out() -> None:
    more = np.vstack([np.array(WINES, float), [5, np.nan, 5, 5]])
    with pytest.warns(SparseDataWarning, match="1 of 9"):
        table = crowdppl.intraclass_correlations(Annotations.from_matrix(more, kind="real"))
    assert table["value"]["ICC2"] == pytest.approx(PINGOUIN["ICC2"][0]) and table["items"].tolist() == [8] * 6
    with pytest.raises(DataError, match="0 of 2"):
        crowdppl.intraclass_correlations(Annotations.from_matrix([[1.0, None], [None, 2.0]], kind="real"))
    with pytest.raises(DataError, match="kind='real'"):
        crowdppl.intraclass_correlations(Annotations.from_matrix([["a", "b"], ["b", "a"]]))


def measured(seed: int, keep: float = 0.6) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(1000, 3, (40, 1)) + rng.normal(size=(40, 5))
    return np.where(rng.random(x.shape) < keep, x, np.nan)


@pytest.mark.parametrize("seed", range(3))
def test_another_package_agrees(seed: int) -> None:
    table = measured(seed)
    row = agreement_table(Annotations.from_matrix(table, kind="real"), bootstrap=0).loc["krippendorff_interval"]
    assert row["value"] == pytest.approx(krippendorff.alpha(table.T, level_of_measurement="interval"), abs=1e-10)
    labels = np.isfinite(table).sum(1)
    assert row["items"] == (labels > 1).sum() and row["items_left_out"] == (labels == 1).sum()
    assert row["pairs"] == (labels * (labels - 1) // 2).sum() and np.isnan(row["low"])


def test_classes_that_are_numbers_have_the_same_alpha_and_interval_repeats_and_all() -> None:
    rng = np.random.default_rng(0)
    item, annotator = rng.integers(30, size=200), rng.integers(6, size=200)  # of 180 cells, some twice or more
    label = np.array([1.0, 2.0, 5.0, 50.0])[np.minimum(3, item // 9 + rng.integers(2, size=200))]
    numbers = Annotations.from_arrays(item, annotator, label, kind="real", repeats="keep")
    classes = Annotations.from_arrays(item, annotator, label, kind="ordinal", repeats="keep")
    found, wanted = (agreement_table(x, bootstrap=60, seed=4).drop(columns="weights") for x in (numbers, classes))
    pd.testing.assert_frame_equal(found, wanted.loc[["krippendorff_interval"]], rtol=1e-10)


def test_numbers_that_are_all_equal_have_no_alpha() -> None:
    with pytest.warns(CrowdpplWarning, match="not defined"):
        found = agreement_table(Annotations.from_matrix([[0.1, 0.1], [0.1, 0.1]], kind="real"), bootstrap=9)
    assert found[["value", "low", "high"]].isna().all(axis=None)
    far = Annotations.from_matrix(measured(0) * 1e200, kind="real")
    near = agreement_table(Annotations.from_matrix(measured(0), kind="real"), bootstrap=0)
    assert agreement_table(far, bootstrap=0)["value"].item() == pytest.approx(near["value"].item())


@pytest.mark.parametrize("far", [-1e9, 1e9])
def test_a_far_number_on_an_item_that_is_not_compared_plays_no_part(far: float) -> None:
    table = measured(0, keep=1.0)
    more = np.vstack([table, [far, *[np.nan] * 4]])
    found = agreement_table(Annotations.from_matrix(more, kind="real"), bootstrap=0)["value"].item()
    assert found == pytest.approx(krippendorff.alpha(table.T, level_of_measurement="interval"), abs=1e-10)


def test_what_numbers_and_rankings_lack_is_refused() -> None:
    data = Annotations.from_matrix(measured(0), kind="real")
    with pytest.raises(DataError, match="agreement_table"):
        agreement_classes(data)
    with pytest.raises(MethodError, match="numbers"):
        agreement_table(data, weights="linear")
    with pytest.raises(DataError, match="2 items"):
        agreement_table(Annotations.from_dicts({"ann": {"x": 1.5}, "bob": {"y": 2.5}}, kind="real"))
    with pytest.raises(DataError, match="design"):
        agreement_table(Annotations.design([1, 1], ["a", "b"], kind="real"))
    ranked = Annotations.from_arrays(["p"] * 2, [1, 2], [["a", "b"], ["b", "a"]], kind="ranking")
    with pytest.raises(DataError, match="agreement_table"):
        agreement_classes(ranked)
