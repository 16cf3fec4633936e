"""Pictures: on which axes, with which numbers and names. What they look like was looked at."""

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
from tests.handmade import posterior, texts


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
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("label", "truth", "annotator a2")
    assert [text.get_text() for text in ax.get_yticklabels()] == ["class 0", "class 1"]
    assert texts(ax) == [f"{share:.2f}".removeprefix("0") for share in held.result.table[2].ravel()]
    assert len(ax.lines) == 0


def test_confusion_matrices_of_some_or_all() -> None:
    held = posterior(5)
    assert [ax.get_title() for ax in held.plot_confusion(["a3", "a1"])] == ["annotator a3", "annotator a1"]
    grid = held.plot_confusion()
    assert len(grid) == 5
    # Places are named at the edges of the grid of 2 x 3 alone.
    assert [ax.get_ylabel() for ax in grid] == ["truth", "", "", "truth", ""]
    assert [ax.get_xlabel() for ax in grid] == ["", "", "label", "label", "label"]
    own = Figure().subplots(1, 6)
    assert list(held.plot_confusion(ax=own)) == list(own[:5])
    assert len(posterior(30).plot_confusion()) == 25


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
        posterior().plot_confusion(ax=Figure().subplots())
    with pytest.raises(MethodError, match="em found a point"):
        posterior(drawn=False).plot_confusion(level=0.95)
    with pytest.raises(MethodError, match="level=2"):
        posterior().plot_confusion(level=2)


def test_annotators_are_ordered_by_information_with_their_intervals() -> None:
    held = posterior(n_classes=3)
    result = held.result
    pairs = zip(result.table_draws, result.prevalence_draws, strict=True)
    told = pd.DataFrame([information(table, share) for table, share in pairs], columns=held.data.annotators)
    order = told.mean().sort_values().index
    ax = held.plot_annotators(level=0.8)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(order)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), told.mean()[order])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, told.quantile([0.1, 0.9]).T.loc[order])
    assert ax.get_xlabel() == "information of a label (bits), line: 80% interval"
    assert ax.lines[1].get_xdata()[0] == pytest.approx(entropy(result.prevalence[None])[0])


def test_items_from_the_surest_to_the_least_sure() -> None:
    held = posterior(n_classes=3)
    every = pd.Series(entropy(held.result.probabilities), held.data.items).sort_values()
    ax = held.plot_items()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), every)
    assert ax.get_ylim() == pytest.approx((0, 1.04 * every.iloc[-1]))  # no empty frame
    assert texts(ax)[0].splitlines() == ["least sure:", *(str(item) for item in every.index[:-6:-1])]
    other = held.plot_items(show="probability")
    np.testing.assert_allclose(other.lines[0].get_ydata(), np.sort(held.result.probabilities.max(1))[::-1])
    with pytest.raises(MethodError, match="'size'"):
        held.plot_items(show="size")


@pytest.mark.parametrize("kind", ["real", "pair", "ranking"])
def test_estimates_of_numbers_and_scores_of_objects_are_drawn_with_their_intervals(kind: str) -> None:
    method = {"real": "gaussian_annotators", "pair": "bradley_terry", "ranking": "plackett_luce"}[kind]
    held = crowdppl.fit(method, crowdppl.datasets.example(kind), inference="vb", seed=0)
    table = held.truth(0.8) if kind == "real" else held.ranking(0.8)
    value = "estimate" if kind == "real" else "score"
    table = table.sort_values(value, kind="stable")
    ax = held.plot_estimates(level=0.8)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), table[value])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["low", "high"]])
    assert [text.get_text() for text in ax.get_yticklabels()] == [str(name) for name in table.index]


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
