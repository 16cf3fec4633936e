"""Intraclass correlations against pingouin 0.7.0 on its own example, and what they cannot compare."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, SparseDataWarning

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
