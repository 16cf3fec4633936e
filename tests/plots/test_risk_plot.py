"""The risk-coverage picture: its curve against brute force and against the area that is scored."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from crowdppl.errors import DataError
from crowdppl.evaluation.metrics import RankedErrors, evaluate
from crowdppl.plots.evaluation import plot_risk_coverage, risk_curve, wilson
from tests.handmade import coloured, posterior, texts


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def some(n: int = 300) -> tuple[pd.DataFrame, pd.Series]:
    """Probabilities of two classes in 21sts, so that items tie and classes do not, and truths drawn from them."""
    stream = np.random.default_rng(0)
    first = stream.binomial(21, stream.beta(0.5, 0.5, n)) / 21
    return pd.DataFrame({0: first, 1: 1 - first}), pd.Series((stream.random(n) > first).astype(int))


def test_the_curve_by_hand() -> None:
    # Surest: one right. Then two equally sure, one of them wrong: half an error each. Then one wrong.
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.6, 0.4]])
    ranked = RankedErrors.of(p, np.array([0, 0, 0, 1]))
    np.testing.assert_allclose(risk_curve(ranked), [0, 0.25, 1 / 3, 0.5])


def test_the_mean_of_the_curve_is_the_area_that_is_scored() -> None:
    p, gold = some()
    found = evaluate(p, gold)
    assert len(found.risk_coverage) == 11, "there are ties"
    ax = plot_risk_coverage(p, gold)
    curve = next(line for line in ax.lines if line.get_label() == "surest first")
    assert np.mean(curve.get_ydata()) == pytest.approx(found.aurc)
    np.testing.assert_allclose(curve.get_xdata(), np.arange(1, 301) / 300)
    at = np.round(found.risk_coverage["coverage"] * 300).astype(int) - 1
    np.testing.assert_allclose(curve.get_ydata()[at], found.risk_coverage["risk"])
    assert ax.get_title() == f"300 items, area under the curve {found.aurc:.4f}"


def test_reference_lines_and_the_band() -> None:
    p, gold = some()
    errors = round(300 * (1 - evaluate(p, gold).accuracy))
    ax = plot_risk_coverage(p, gold)
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in ax.lines}
    assert lines["random order"][0] == pytest.approx(errors / 300)
    last = np.repeat([0, 1], [300 - errors, errors])
    np.testing.assert_allclose(lines["errors last"], np.cumsum(last) / np.arange(1, 301), atol=1e-12)
    assert (lines["errors last"] <= lines["surest first"] + 1e-12).all()
    low, high = wilson(lines["surest first"], np.arange(1, 301))
    edge = ax.collections[0].get_paths()[0].vertices
    for end in (low, high):
        assert np.isin(np.round(end, 9), np.round(edge[:, 1], 9)).all()
    assert ax.get_xlabel().startswith("coverage: share of items") and ax.get_ylabel().startswith("risk: share of")


def test_marks_lie_where_the_probability_falls_below_round_numbers() -> None:
    p, gold = some()
    table = evaluate(p, gold).risk_coverage
    ax = plot_risk_coverage(p, gold)
    marks = np.array([line.get_xydata()[0] for line in ax.lines if line.get_marker() == "D"])
    assert len(marks) > 2 and len(texts(ax)) == len(marks)
    for text, mark in zip(texts(ax), marks, strict=True):
        least = float(text.removeprefix("≥ "))
        np.testing.assert_allclose(mark, table[table.index >= least].iloc[-1])
    assert (np.diff(marks[:, 0]) >= 0.07).all()


def test_it_takes_a_posterior_and_draws_on_the_axes_that_it_is_given() -> None:
    held, ax = posterior(n_classes=3), Figure().subplots()
    gold = dict.fromkeys(range(20), "class 1")
    assert plot_risk_coverage(held, gold, ax=ax) is ax
    assert plt.get_fignums() == []
    assert ax.get_title().startswith("20 items")
    assert coloured(ax) == []
    with pytest.raises(DataError, match="no item of gold"):
        plot_risk_coverage(held, {"elsewhere": "class 0"})


def test_without_an_error_the_curve_is_flat() -> None:
    ax = plot_risk_coverage(pd.DataFrame([[0.9, 0.1], [0.7, 0.3]]), {0: 0, 1: 0})
    curve = next(line for line in ax.lines if line.get_label() == "surest first")
    np.testing.assert_array_equal(curve.get_ydata(), [0, 0])
    assert ax.get_ylim()[1] > 0
