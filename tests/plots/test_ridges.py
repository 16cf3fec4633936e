"""Ridges: which posterior is drawn, where its mass lies, and what has none."""

from functools import cache
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

import crowdppl
from crowdppl.core.intervals import Estimate
from crowdppl.errors import MethodError
from crowdppl.plots.ridges import HEIGHT, draw_ridges
from tests.handmade import posterior, texts

matplotlib.use("Agg")


@cache
def fitted(kind: str) -> Any:
    """A short fit of the kind's example."""
    methods = {"real": "gaussian_annotators", "pair": "bradley_terry", "angle": "von_mises_annotators"}
    return crowdppl.fit(methods[kind], crowdppl.datasets.example(kind), inference="vb", seed=0)


def outline(ax: Any, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and heights of the ridge above a row."""
    ridges = [line.get_xydata() for line in ax.lines if len(line.get_xydata()) > 2]
    x, y = ridges[::-1][row].T
    return x, y - row


def quantiles(x: np.ndarray, y: np.ndarray, share: np.ndarray) -> np.ndarray:
    mass = np.cumsum(y) / y.sum()
    return np.interp(share, mass, x)


def test_a_ridge_is_the_density_of_its_quantiles() -> None:
    mean, sd = np.array([0.0, 3.0]), np.array([1.0, 0.5])

    def at(level: float) -> Estimate:
        ends = (norm.ppf((1 + sign * level) / 2, mean, sd) for sign in (-1, 1))
        return Estimate(mean, sd, *ends)

    ax, named = draw_ridges(posterior(), at, np.array([0, 1]), ["low", "high"], None, None)
    assert named and [tick.get_text() for tick in ax.get_yticklabels()] == ["low", "high"]
    for row in range(2):
        x, y = outline(ax, row)
        assert y.max() == pytest.approx(HEIGHT)
        assert x[y.argmax()] == pytest.approx(mean[row], abs=0.1 * sd[row])
        share = np.array([0.1, 0.25, 0.75, 0.9])
        np.testing.assert_allclose(quantiles(x, y, share), norm.ppf(share, mean[row], sd[row]), atol=0.12 * sd[row])


def test_annotators_as_ridges_stand_in_the_order_of_their_accuracy_with_chance() -> None:
    held = posterior(30)
    ax = held.plot_annotators(ridges=True)
    order = held.annotators()["accuracy"].sort_values(kind="stable").index
    names = [tick.get_text().split(" ")[0] for tick in ax.get_yticklabels()]
    assert names == [*order[:10], *order[-10:]] and {"10 more", "chance"} <= {*texts(ax)}
    assert ax.get_xlabel() == "accuracy: share of labels that are right, posterior"
    table = held.annotators()
    for row, name in enumerate(names):
        x, y = outline(ax, row)
        assert x.min() >= 0 and x.max() <= 1
        ends = quantiles(x, y, np.array([0.025, 0.975]))
        near = 0.5 * table.loc[name, "accuracy_sd"]
        np.testing.assert_allclose(
            ends, table.loc[name, ["accuracy_low", "accuracy_high"]].astype(float), atol=near
        )
    assert len(held.plot_annotators(ridges=True, n=2).get_yticklabels()) == 4
    own = Figure().subplots()
    assert held.plot_annotators(ridges=True, ax=own, show="information") is own


@pytest.mark.parametrize("kind", ["real", "pair", "angle"])
def test_estimates_as_ridges(kind: str) -> None:
    held = fitted(kind)
    ax = held.plot_estimates(ridges=True, n=2)
    value = held.ranking()["score"] if kind == "pair" else held.truth()["estimate"]
    order = value.sort_values(kind="stable").index
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [str(x) for x in (*order[:2], *order[-2:])]
    for row, name in enumerate([*order[:2], *order[-2:]]):
        x, y = outline(ax, row)
        wide = np.ptp(quantiles(x, y, np.array([0.1, 0.9])))
        assert abs(quantiles(x, y, np.array([0.5]))[0] - value[name]) < 0.2 * wide


def test_points_have_no_ridges() -> None:
    held = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em", seed=0)
    with pytest.raises(MethodError, match="em found points.*ridges="):
        held.plot_annotators(ridges=True)
    with pytest.raises(MethodError, match="n="):
        fitted("real").plot_estimates(n=0)
