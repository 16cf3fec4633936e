"""The picture of calibration: which numbers it shows. What it looks like was looked at."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.stats import binomtest

from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.metrics import evaluate
from crowdppl.plots.evaluation import plot_reliability, wilson


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def some(n: int = 300, k: int = 3) -> tuple[pd.DataFrame, pd.Series]:
    stream = np.random.default_rng(0)
    p = stream.dirichlet(np.ones(k), n)
    truth = (p.cumsum(1) < stream.random((n, 1))).sum(1)
    return pd.DataFrame(p), pd.Series(truth)


def points(axes: Axes) -> np.ndarray:
    (line,) = (line for line in axes.lines if line.get_marker() == "o")
    return np.array(line.get_xydata())


def test_points_bars_and_intervals_are_those_of_the_bins() -> None:
    p, gold = some()
    found = evaluate(p, gold)
    used = found.bins.dropna()
    ax = plot_reliability(p, gold)
    np.testing.assert_allclose(points(ax), used[["confidence", "accuracy"]])
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], used["n"] / 300)
    np.testing.assert_allclose([bar.get_x() for bar in ax.patches], used["low"])
    ends = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, np.transpose(wilson(used["accuracy"].to_numpy(), used["n"].to_numpy())))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("probability of the label", "share of labels that are right")
    assert ax.get_title() == f"300 items, calibration error {found.ece:.3f}"
    assert len(points(plot_reliability(p, gold, bins=4))) == 3, "no label of three classes is below 1/3"


def test_it_draws_on_the_axes_that_it_is_given_or_on_its_own() -> None:
    ax = Figure().subplots()
    assert plot_reliability(*some(), ax=ax) is ax
    assert plt.get_fignums() == []
    assert isinstance(plot_reliability(*some()), Axes)
    assert len(plt.get_fignums()) == 1


def test_everything_is_grey() -> None:
    ax = plot_reliability(*some())
    colors = [line.get_color() for line in ax.lines] + [bar.get_facecolor() for bar in ax.patches]
    for color in [*colors, *ax.collections[0].get_color()]:
        red, green, blue = to_rgb(color)
        assert red == green == blue


def test_what_is_refused() -> None:
    p, gold = some()
    with pytest.raises(MethodError, match="bins=0"):
        plot_reliability(p, gold, bins=0)
    with pytest.raises(DataError, match="no item of gold"):
        plot_reliability(p, {"elsewhere": 0})


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (3, 10), (97, 100), (5, 5)])
def test_intervals_of_shares_are_those_of_scipy(hits: int, n: int) -> None:
    expected = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    low, high = wilson(np.array([hits / n]), np.array([n]))
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-4)
