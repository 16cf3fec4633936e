"""Features as tables, arrays and tensors come: by name, in every numeric dtype, refused with the true reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.covariates import feature_table
from crowdppl.data.ids import Codebook
from crowdppl.errors import DataError
from crowdppl.posterior import Posterior
from tests.networks.test_networks import clouds

QUICK = {"recipe": "plain", "training": {"epochs": 2}}
ITEMS = Codebook("item", pd.Index(["u", "v", "w"]))
X = pd.DataFrame({"a": [0.5, 1.5, 2.5], "b": [2.0, 1.0, 0.0]}, index=ITEMS.ids)


@pytest.fixture(scope="module")
def data() -> Annotations:
    found, _ = clouds(90, 60)
    return with_features(found, found.features.set_axis(list("abcd"), axis=1))


@pytest.fixture(scope="module")
def posterior(data: Annotations) -> Posterior:
    return crowdppl.fit("bayes_dgc", data, inference="vb", seed=0, settings=QUICK)


def with_features(data: Annotations, features: Any) -> Annotations:
    return Annotations.from_frame(data.frame(), like=data, items=data.items, features=features)


def table_of(data: Annotations) -> pd.DataFrame:
    assert isinstance(data.features, pd.DataFrame)
    return data.features


def test_columns_are_found_by_name_before_and_after_saving(
    data: Annotations, posterior: Posterior, tmp_path: Path
) -> None:
    table = table_of(data)
    other = with_features(data, table[list("dbca")])
    posterior.save(tmp_path)
    for found in (posterior, crowdppl.load(tmp_path)):
        pd.testing.assert_frame_equal(found.classify(table[list("dcba")]), found.classify(table))
        pd.testing.assert_frame_equal(found.predict(other), found.predict(data))
        with pytest.raises(DataError, match="lack 'a' and have 'z'"):
            found.classify(table.rename(columns={"a": "z"}))
    pd.testing.assert_frame_equal(posterior.update(other).probabilities(), posterior.update(data).probabilities())


@pytest.mark.parametrize(
    "table",
    [
        X.assign(flag=[True, False, True]),
        X.convert_dtypes(),
        X.assign(n=[1, 2, 3]).astype({"n": "Int64"}),
        X.astype("double[pyarrow]"),
        X.astype(np.float16),
        X.astype(">f8"),
        X.astype(pd.SparseDtype(float, 0.0)),
        X[["a", "a"]],
    ],
)
def test_tables_of_every_numeric_dtype_are_read(table: pd.DataFrame) -> None:
    found = feature_table(table, None, ITEMS)
    assert all(isinstance(kind, np.dtype) and kind.itemsize <= 8 for kind in found.dtypes)
    np.testing.assert_array_equal(found.to_numpy(float), table.to_numpy(float))


@pytest.mark.parametrize(
    ("features", "named"),
    [
        (X.astype("Float64").where(X > 0), "item 'w' is nan, not finite"),
        (X.assign(c=[1j, 0, 0]), "'c' .*complex128"),
        (np.array([[1.0], [None], [2.0]], object), r"None at \[1, 0\]"),
        (torch.eye(3).to_sparse(), "sparse"),
        ([[1.0, 2.0], [3.0], [4.0]], "features"),
        (np.ma.masked_array(np.eye(3), np.eye(3)), "masked"),
        (np.array([[0.0], [1.0], [-1e39]]), r"item 'w' is -1e\+39"),
        (pd.DataFrame({"a": [0.0, 1e39, 0.0]}, index=ITEMS.ids), r"item 'v' is 1e\+39"),
    ],
)
def test_what_is_no_finite_number_is_refused_for_what_it_is(features: Any, named: str) -> None:
    with pytest.raises(DataError, match=named):
        feature_table(features, ITEMS.ids, ITEMS)


def test_new_labels_come_with_features_of_the_shape_of_the_fit(data: Annotations, posterior: Posterior) -> None:
    """One number an item would be stretched over all four, and the answer be about other items."""
    x = table_of(data).to_numpy()
    for wrong in (x[:, :1], x[:, :3], np.concatenate([x, x], 1), x.reshape(-1, 2, 2)):
        new = with_features(data, wrong)
        for ask in (posterior.predict, posterior.update):
            with pytest.raises(DataError, match=r"shape .*\(4,\)"):
                ask(new)
    pd.testing.assert_frame_equal(posterior.predict(with_features(data, x)), posterior.predict(data))
