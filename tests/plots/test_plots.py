"""Pictures: on which axes, with which numbers and names. What they look like was looked at."""

from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import crowdppl
from crowdppl.errors import DataError, MethodError
from crowdppl.results.annotators import information
from crowdppl.results.choices import entropy
from crowdppl.results.rankings import tiers
from tests.handmade import posterior, texts


@cache
def fitted(kind: str) -> Any:
    """A short fit of the kind's example."""
    methods = {"real": "gaussian_annotators", "pair": "bradley_terry", "ranking": "plackett_luce"}
    method = methods.get(kind, "von_mises_annotators")
    return crowdppl.fit(method, crowdppl.datasets.example(kind), inference="vb", seed=0)


def test_every_plot_draws_on_the_axes_that_it_is_given() -> None:
    held = posterior()
    ax = Figure().subplots()
    assert held.plot_confusion("a1", ax=ax) is ax
    for plot in (held.plot_annotators, held.plot_items, held.plot_trace):
        ax = Figure().subplots()
        assert plot(ax=ax) is ax
        assert ax.get_xlabel()
        assert ax.get_ylabel()
    assert plt.get_fignums() == []
    assert isinstance(held.plot_items(), Axes)
    assert len(plt.get_fignums()) == 1


def test_one_confusion_matrix() -> None:
    held = posterior()
    ax = held.plot_confusion("a2")
    np.testing.assert_array_equal(ax.images[0].get_array(), held.result.table[2])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("label", "truth")
    assert ax.get_title().startswith("a2\n") and ax.get_title().endswith("% right")
    assert [text.get_text() for text in ax.get_yticklabels()] == ["class 0", "class 1"]
    assert texts(ax) == [f"{share:.2f}".removeprefix("0") for share in held.result.table[2].ravel()]
    assert len(ax.lines) == 0


def test_confusion_matrices_of_some() -> None:
    held = posterior(5)
    assert [ax.get_title()[:2] for ax in held.plot_confusion(["a3", "a1"])] == ["a3", "a1"]
    grid = held.plot_confusion([f"a{n}" for n in range(5)])
    # Places are named at the edges of the grid of 2 x 3 alone.
    assert [ax.get_ylabel() for ax in grid] == ["truth", "", "", "truth", ""]
    assert [ax.get_xlabel() for ax in grid] == ["", "", "label", "label", "label"]
    own = Figure().subplots(1, 6)
    assert list(held.plot_confusion(["a3", "a1"], ax=own)) == list(own[:2])


def test_the_crowd_comes_before_the_most_and_the_least_reliable() -> None:
    held = posterior(30)
    crowd, *others = held.plot_confusion()
    order = held.annotators()["accuracy"].sort_values(ascending=False, kind="stable").index
    assert [ax.get_title().split("\n")[0] for ax in others] == [*order[:4], *order[-4:]]
    p, votes = held.result.probabilities, held.data.votes()
    times = p.T @ votes
    np.testing.assert_allclose(crowd.images[0].get_array(), times / times.sum(1, keepdims=True))
    assert [text.split("\n")[1] for text in texts(crowd)] == [f"{n:,.0f}" for n in times.ravel()]
    assert crowd.get_title() == "crowd\n30 annotators, 600 labels"
    ax = Figure().subplots()
    assert held.plot_confusion(ax=ax) is ax and ax.get_title().startswith("crowd")


@pytest.mark.parametrize("n_classes", [2])
def test_intervals_lie_on_a_scale_from_0_to_1_in_each_cell(n_classes: int) -> None:
    held = posterior(n_classes=n_classes)
    ax = held.plot_confusion("a1", level=0.8)
    table = held.confusion_intervals(0.8).loc["a1"]
    scales, found = (np.array(part.get_segments()) for part in ax.collections[:2])
    column = np.tile(np.arange(n_classes), n_classes)
    np.testing.assert_allclose(scales[..., 0], np.stack([column - 0.4, column + 0.4], 1))
    ends = (found[..., 0] - column[:, None] + 0.4) / 0.8
    np.testing.assert_allclose(ends, table[["low", "high"]], atol=1e-6)
    means = np.asarray(ax.collections[2].get_offsets())
    np.testing.assert_allclose((means[:, 0] - column + 0.4) / 0.8, table["mean"], atol=1e-6)
    np.testing.assert_array_equal(found[:, 0, 1].round(), np.repeat(np.arange(n_classes), n_classes))
    assert ax.get_xlabel().endswith("(thick line: 80% interval)")


def test_what_a_confusion_is_not_drawn_for() -> None:
    with pytest.raises(DataError, match="'nobody'.*'a0'"):
        posterior().plot_confusion("nobody")
    with pytest.raises(DataError, match="3 annotators need as many axes, 1"):
        posterior().plot_confusion(["a0", "a1", "a2"], ax=Figure().subplots())
    with pytest.raises(MethodError, match="em found a point"):
        posterior(drawn=False).plot_confusion(level=0.95)
    with pytest.raises(MethodError, match="level=2"):
        posterior().plot_confusion(level=2)


def test_annotators_are_ordered_by_accuracy_beside_chance_with_their_labels() -> None:
    held = posterior(n_classes=3)
    table = held.annotators(0.8).sort_values("accuracy", kind="stable")
    ax = held.plot_annotators(level=0.8)
    assert [text.get_text() for text in ax.get_yticklabels()] == [f"{name} (20)" for name in table.index]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), table["accuracy"])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["accuracy_low", "accuracy_high"]])
    assert ax.lines[1].get_xdata()[0] == pytest.approx(1 / 3) and texts(ax) == ["chance"]


def test_annotators_may_be_ordered_by_information() -> None:
    held = posterior(n_classes=3)
    pairs = zip(held.result.table_draws, held.result.prevalence_draws, strict=True)
    told = pd.DataFrame([information(table, share) for table, share in pairs], columns=held.data.annotators)
    ax = held.plot_annotators(level=0.8, show="information")
    np.testing.assert_allclose(ax.lines[0].get_xdata(), told.mean().sort_values())
    most = entropy(held.result.prevalence[None])[0]
    assert ax.get_xlabel().startswith(f"information of a label (bits; one that is always right: {most:.2f})")


def test_of_many_annotators_all_names_are_written_or_none() -> None:
    held = posterior(120)
    ax = held.plot_annotators()
    assert len(ax.lines[0].get_xdata()) == 120 and [*ax.get_yticklabels()] == []
    assert ax.get_ylabel().startswith("120 annotators")
    few = held.plot_annotators(n=2)
    order = held.annotators()["accuracy"].sort_values(kind="stable").index
    shown = [text.get_text() for text in few.get_yticklabels()]
    assert shown == [f"{name} (20)" for name in [*order[:2], *order[-2:]]]
    assert "116 more" in texts(few)
    with pytest.raises(MethodError, match="n=0"):
        held.plot_annotators(n=0)


def test_items_from_the_surest_to_the_least_sure() -> None:
    held = posterior(n_classes=3)
    sure = held.result.probabilities.max(1)
    ax = held.plot_items()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.sort(sure)[::-1])
    settled, likely = (sure >= 0.95).sum(), (sure >= 0.7).sum()
    *shares, names = texts(ax)
    assert shares == [f"settled: {settled}", f"likely: {likely - settled}", f"open: {20 - likely}"]
    order = np.argsort(sure, kind="stable")[:5]
    assert names.splitlines() == ["least sure:", *(str(item) for item in held.data.items[order])]


@pytest.mark.parametrize("kind", ["real", "angle", "ranking"])
def test_items_whose_truths_are_numbers_are_drawn_by_the_widths_of_their_intervals(kind: str) -> None:
    held = fitted(kind)
    table = held.truth()
    width = (table["high"] - table["low"]).to_numpy()
    width = np.where(width < 0, width + 360, width) if kind == "angle" else width
    np.testing.assert_allclose(held.plot_items().lines[0].get_ydata(), np.sort(width / 2))
    if kind == "ranking":
        with pytest.raises(MethodError, match="plot_items"):
            held.plot_item_map()
        return
    ax = held.plot_item_map()
    np.testing.assert_allclose(np.sort(ax.lines[0].get_ydata()), np.sort(width / 2))
    if kind == "real":
        spread = held.data.frame().groupby("item")["label"].std()
        np.testing.assert_allclose(np.sort(ax.lines[0].get_xdata()), np.sort(spread))


@pytest.mark.parametrize("kind", ["real", "pair", "ranking"])
def test_estimates_of_numbers_and_scores_of_objects_are_drawn_with_their_intervals(kind: str) -> None:
    held = fitted(kind)
    table = held.truth(0.8) if kind == "real" else held.ranking(0.8)
    value = "estimate" if kind == "real" else "score"
    table = table.sort_values(value, kind="stable")
    ax = held.plot_estimates(level=0.8, unit="points")
    np.testing.assert_allclose(ax.lines[0].get_xdata(), table[value])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["low", "high"]])
    assert [text.get_text() for text in ax.get_yticklabels()] == [str(name) for name in table.index]
    assert ("truth in points" in ax.get_xlabel()) == (kind == "real")
    if kind != "real":
        before = held.order_probabilities()
        assert texts(ax) == [f"{p:.0%}{'' if n else ' above the next'}" for n, p in enumerate(np.diag(before, 1))]
        assert ax.get_title().endswith(f"of {len(table)} objects")
    with pytest.raises(MethodError, match="unit= holds"):
        held.plot_estimates(unit=3)


def test_a_tier_begins_where_the_best_of_the_last_one_is_surely_better() -> None:
    p = np.full((4, 4), np.nan)
    p[0, 1:], p[1, 2:], p[2, 3] = (0.6, 0.96, 0.99), (0.9, 0.97), 0.94
    assert tiers(pd.DataFrame(p)).tolist() == [1, 1, 2, 2]


def test_rankings_of_groups_share_a_picture_and_classes_have_none() -> None:
    data = crowdppl.datasets.example("pair")
    held = crowdppl.fit("preference_groups", data, inference="em", seed=0)
    ax = held.plot_estimates()
    assert len(ax.lines[0].get_xdata()) == 2 * 5 and not ax.collections
    assert {text.get_text() for text in ax.get_yticklabels()} >= {"0 apple", "1 apple"}
    with pytest.raises(MethodError, match="plot_items"):
        posterior().plot_estimates()
    with pytest.raises(MethodError, match="ranks no objects"):
        crowdppl.fit("one_coin", data, inference="em", seed=0).plot_estimates()
