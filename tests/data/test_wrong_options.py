"""Options of annotations of odd types and with duplicates are refused by name, whatever their type."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds import KINDS
from crowdppl.data.options import AnnotationOptions
from crowdppl.errors import CrowdpplError

ROWS = ([0, 0, 1, 1, 2, 3], [0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 0, 1])
ODD: tuple[Any, ...] = (
    *(pd.NA, np.nan, 3.5, True, "x", b"x", "", "\ud800", 10**30, -1, np.ma.masked, Ellipsis, object(), type),
    *([{}], [[0], [1]], [None], [(0, 1)], ["x", "x"], [0, 0], [10**30, 1], [object()], [True, False], [np.inf]),
    *({}, {0: {}}, {0: [1]}, {(0, 1): 1}, {0: 0, "0": 1}, {0: Decimal("sNaN")}, {1, 2}, Decimal("sNaN")),
    *(np.array([["a", "b"]]), np.array([1j]), np.float16(1), np.array(["keep", "x"]), torch.tensor([0, 0])),
    *(pd.Series(["nominal"]), pd.DataFrame({"a": [1]}), pd.Index([1, 1]), pd.MultiIndex.from_tuples([(0, 1)])),
    *(pd.interval_range(0, 2), pd.Categorical(["a", "a"]), pd.Timestamp("2020-01-01"), slice(0, 2), range(3)),
)


@pytest.mark.parametrize("name", AnnotationOptions.__annotations__)
def test_an_odd_value_is_taken_or_refused_by_name(name: Any, recwarn: pytest.WarningsRecorder) -> None:
    refused = 0
    for value in ODD:
        try:
            Annotations.from_arrays(*ROWS, **{name: value})
        except CrowdpplError:
            refused += 1
    assert refused > len(ODD) // 4


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nominal"])
def test_options_of_every_kind_are_taken_or_refused_by_name(kind: str, recwarn: pytest.WarningsRecorder) -> None:
    rows, refused = crowdppl.datasets.example(kind).frame().head(8), 0
    columns: list[Any] = [rows[name].tolist() for name in ("item", "annotator", "label")]
    for name in ("items", "annotators", "abstentions", "informative_abstentions", "unit"):
        for value in ODD:
            options: dict[str, Any] = {"kind": kind, name: value}
            try:
                Annotations.from_arrays(*columns, **options)
            except CrowdpplError:
                refused += 1
    assert refused > 3 * len(ODD)
