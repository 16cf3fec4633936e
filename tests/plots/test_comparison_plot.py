"""The picture of a comparison: places, intervals and names of a table made by hand."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

from crowdppl.errors import MethodError
from crowdppl.evaluation.compare import Comparison, compare
from crowdppl.plots.evaluation import plot_comparison
from tests.crowd import crowd
from tests.handmade import coloured, texts


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def compared() -> Comparison:
    columns = {
        "inference": ["vb", "em", "em"],
        "log_p": [-0.41, -0.42, -0.61],
        "se": [0.01, 0.02, 0.03],
        "difference": [0.0, -0.01, -0.2],
        "difference_se": [0.0, 0.004, 0.05],
        "weight": [0.7, 0.3, 0.0],
    }
    return Comparison({}, pd.DataFrame(columns, index=pd.Index(["first", "second", "third"], name="method")))


def test_differences_with_intervals_the_best_on_top() -> None:
    ax = plot_comparison(compared(), level=0.8)
    (points,) = (line for line in ax.lines if line.get_marker() == "o")
    np.testing.assert_allclose(points.get_xydata(), [(-0.2, 0), (-0.01, 1), (0, 2)])
    z = norm.ppf(0.9)
    segments = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(
        segments[..., 0], [(-0.2 - 0.05 * z, -0.2 + 0.05 * z), (-0.01 - 0.004 * z, -0.01 + 0.004 * z)]
    )
    np.testing.assert_array_equal(segments[..., 1], [[0, 0], [1, 1]])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["third (em)", "second (em)", "first (vb)"]
    assert texts(ax) == ["0.00", "0.30", "0.70", "weight"]
    assert ax.get_title() == "first: -0.4100 ± 0.0100 nats a label"
    assert "(nats, line: 80% interval)" in ax.get_xlabel() and "less that of the best" in ax.get_xlabel()
    assert coloured(ax) == []


def test_it_draws_what_compare_returns_on_the_axes_that_it_is_given() -> None:
    found = compare(["one_coin", "majority_vote"], crowd(n_items=30), inference="vb", folds=2)
    ax = Figure().subplots()
    assert plot_comparison(found, ax=ax) is ax
    assert plt.get_fignums() == []
    assert ax.get_yticklabels()[-1].get_text() == f"{found.best} (vb)"


def test_a_method_alone_is_a_point_at_0() -> None:
    table = compared().table
    ax = plot_comparison(Comparison({}, table.iloc[:1]))
    assert ax.collections[0].get_segments() == []
    with pytest.raises(MethodError, match="level=1"):
        plot_comparison(compared(), level=1)
