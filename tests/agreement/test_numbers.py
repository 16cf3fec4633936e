"""Krippendorff's alpha of numbers: another package, the same numbers as classes, repeats and limits."""

import krippendorff
import numpy as np
import pandas as pd
import pytest

from crowdppl import Annotations, agreement_classes, agreement_items, agreement_pairs, agreement_table
from crowdppl.errors import CrowdpplWarning, DataError, MethodError


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
    for table in (agreement_pairs, agreement_classes, agreement_items):
        with pytest.raises(DataError, match="agreement_table"):
            table(data)
    with pytest.raises(MethodError, match="numbers"):
        agreement_table(data, weights="linear")
    with pytest.raises(DataError, match="2 items"):
        agreement_table(Annotations.from_dicts({"ann": {"x": 1.5}, "bob": {"y": 2.5}}, kind="real"))
    with pytest.raises(DataError, match="design"):
        agreement_table(Annotations.design([1, 1], ["a", "b"], kind="real"))
    ranked = Annotations.from_arrays(["p"] * 2, [1, 2], [["a", "b"], ["b", "a"]], kind="ranking")
    for table in (agreement_table, agreement_pairs, agreement_classes, agreement_items):
        with pytest.raises(DataError, match="rank_agreement"):
            table(ranked)
