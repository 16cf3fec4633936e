"""Plots of scores: reliability, risk against coverage, comparisons; their numbers against brute force."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import binomtest, norm

import crowdppl
from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.compare import Comparison
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.evaluation.metrics import Sample
from crowdppl.plots.evaluation import plot_reliability, plot_risk_coverage, risk_curve, wilson
from tests.handmade import coloured, posterior, texts


def drawn(n: int = 300, k: int = 3) -> tuple[pd.DataFrame, pd.Series]:
    stream = np.random.default_rng(0)
    p = stream.dirichlet(np.ones(k), n)
    return pd.DataFrame(p), pd.Series((p.cumsum(1) < stream.random((n, 1))).sum(1))


def tied(n: int = 300) -> tuple[pd.DataFrame, pd.Series]:
    """Probabilities of two classes in 21sts, so that items tie and classes do not, and truths drawn from them."""
    stream = np.random.default_rng(0)
    first = stream.binomial(21, stream.beta(0.5, 0.5, n)) / 21
    return pd.DataFrame({0: first, 1: 1 - first}), pd.Series((stream.random(n) > first).astype(int))


@pytest.mark.parametrize("plot", [plot_reliability, plot_risk_coverage])
def test_they_draw_on_given_axes_and_refuse_unknown_items(plot: type) -> None:
    held, ax = posterior(n_classes=3), Figure().subplots()
    assert plot(held, dict.fromkeys(range(20), "class 1"), ax=ax) is ax
    assert plt.get_fignums() == [] and ax.get_title().startswith("20 ") and coloured(ax) == []
    with pytest.raises(DataError, match="no item of gold"):
        plot(held, {"elsewhere": "class 0"})


def test_points_are_bins_of_as_many_items_and_the_strip_counts_them() -> None:
    p, gold = drawn()
    ax = plot_reliability(p, gold, bins=3)
    sure, right = p.max(axis=1).to_numpy(), (p.idxmax(axis=1) == gold).to_numpy()
    home = np.searchsorted(np.quantile(sure, [1 / 3, 2 / 3]).round(2), sure)
    (points,) = (line for line in ax.lines if line.get_marker() == "o")
    by_hand = [(sure[home == k].mean(), right[home == k].mean()) for k in range(3)]
    np.testing.assert_allclose(points.get_xydata(), by_hand)
    ends = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, np.transpose(wilson(np.array(by_hand)[:, 1], np.bincount(home))))
    (strip,) = ax.child_axes
    assert sum(bar.get_height() for bar in strip.patches) == 300 and strip.get_xlim() == ax.get_xlim()
    assert ax.get_xlim() == ax.get_ylim() and ax.get_aspect() == 1
    assert f"{sure.mean():.0%} sure on average; {right.mean():.0%} are right" in ax.get_title()
    with pytest.raises(MethodError, match="bins=0"):
        plot_reliability(p, gold, bins=0)


def test_numbers_have_coverage_of_intervals_and_errors_in_their_place() -> None:
    held = crowdppl.fit("gaussian_annotators", crowdppl.datasets.example("real"), inference="vb", seed=0)
    gold = held.truth()["estimate"] + 0.3
    table = held.truth(0.5)
    held_by_half = ((table["low"] <= gold) & (gold <= table["high"])).mean()
    (points,) = (line for line in plot_reliability(held, gold).lines if line.get_marker() == "o")
    assert points.get_xydata()[4] == pytest.approx([0.5, held_by_half])
    lines = {line.get_label(): line.get_ydata() for line in plot_risk_coverage(held, gold).lines}
    np.testing.assert_allclose(lines["found"], 0.3)
    expected = np.sqrt(2 / np.pi) * held.truth()["sd"].mean()  # the mean of the absolute value of a Gaussian
    assert lines["expected by the intervals"][-1] == pytest.approx(expected)
    assert len(plot_risk_coverage(held).lines) == 1


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (97, 100)])
def test_intervals_of_shares_are_those_of_scipy(hits: int, n: int) -> None:
    expected = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    low, high = wilson(np.array([hits / n]), np.array([n]))
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_the_risk_curve_by_hand() -> None:
    # Surest: one right. Then two equally sure, one of them wrong: half an error each. Then one wrong.
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.6, 0.4]])
    np.testing.assert_allclose(risk_curve(Sample.of(p, np.array([0, 0, 0, 1]))), [0, 0.25, 1 / 3, 0.5])


def test_the_curve_is_that_whose_area_is_scored_from_a_twentieth_on() -> None:
    p, gold = tied()
    found, sample = evaluate(p, gold), Sample.of(p.to_numpy(), gold.to_numpy())
    assert len(found.risk_coverage) == 11, "there are ties"
    curve = risk_curve(sample)
    assert curve.mean() == pytest.approx(found.aurc)
    ax = plot_risk_coverage(p, gold)
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in ax.lines}
    np.testing.assert_allclose(lines["found"], curve[14:])
    errors = round(300 * (1 - found.accuracy))
    assert lines["random order"][0] == pytest.approx(errors / 300)
    last = np.repeat([0, 1], [300 - errors, errors])
    np.testing.assert_allclose(lines["perfect order"], (np.cumsum(last) / np.arange(1, 301))[14:], atol=1e-12)
    edge = ax.collections[0].get_paths()[0].vertices
    for end in wilson(curve[14:], np.arange(15, 301)):
        assert np.isin(np.round(end, 9), np.round(edge[:, 1], 9)).all()
    (alone,) = plot_risk_coverage(p).lines
    wrong = np.sort(1 - p.max(axis=1))
    np.testing.assert_allclose(alone.get_ydata(), (np.cumsum(wrong) / np.arange(1, 301))[14:])


def test_marks_lie_where_the_probability_falls_below_round_numbers() -> None:
    p, gold = tied()
    table, ax = evaluate(p, gold).risk_coverage, plot_risk_coverage(p, gold)
    marks = np.array([line.get_xydata()[0] for line in ax.lines if line.get_marker() == "D"])
    assert len(marks) > 2 and (np.diff(marks[:, 0]) >= 0.07).all()
    for text, mark in zip(texts(ax), marks, strict=True):
        np.testing.assert_allclose(mark, table[table.index >= float(text.removeprefix("≥ "))].iloc[-1])


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
    ax = compared().plot(level=0.8)
    (points,) = (line for line in ax.lines if line.get_marker() == "o")
    np.testing.assert_allclose(points.get_xydata(), [(-0.2, 0), (-0.01, 1), (0, 2)])
    middle, reach = np.array([-0.2, -0.01]), norm.ppf(0.9) * np.array([0.05, 0.004])
    segments = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(segments[..., 0], np.stack([middle - reach, middle + reach], 1))
    np.testing.assert_array_equal(segments[..., 1], [[0, 0], [1, 1]])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["third (em)", "second (em)", "first (vb)"]
    assert texts(ax) == ["0.00", "0.30", "0.70", "weight"] and coloured(ax) == []
    assert "-0.4100 ± 0.0100" in ax.get_title() and "80%" in ax.get_xlabel()
