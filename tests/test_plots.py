"""Pictures: on which axes, with which numbers and names. What they look like was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from crowdppl.annotations import Annotations
from crowdppl.card import Card
from crowdppl.choices import entropy
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.results import FitResult, SiteResult
from crowdppl.posterior import Posterior

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")


class Handmade:
    card: ClassVar[Card] = Card("Handmade", "nobody")

    def model(self, data: Any) -> None: ...


def posterior(n_annotators: int = 3, n_classes: int = 2, drawn: bool = True, **diagnostics: Any) -> Posterior:
    """A made-up result; annotators "a0", "a1", ... label 20 items."""
    stream = np.random.default_rng(0)
    names = [f"a{n}" for n in range(n_annotators)]
    items, annotators = np.repeat(np.arange(20), n_annotators), np.tile(names, 20)
    classes = [f"class {k}" for k in range(n_classes)]
    labels = stream.choice(classes, len(items))
    data = Annotations.from_arrays(items, annotators, labels, classes=classes)
    tables = stream.dirichlet(np.ones(n_classes), (100, n_annotators, n_classes))
    shares = stream.dirichlet(np.ones(n_classes), 100)
    chains = stream.normal(size=(4, 25, n_annotators))
    chains[1, :, 2 % n_annotators] += 5  # the entry on which the chains agree least
    sites = {
        "ability": SiteResult("ability", ("annotator",), "draws", {"draws": chains}),
        "prevalence": SiteResult("prevalence", ("class",), "draws", {"draws": shares.reshape(4, 25, -1)}),
    }
    found = FitResult(
        sites=sites if drawn else {},
        probabilities=stream.dirichlet(np.ones(n_classes), 20),
        probability_sd=None,
        table=tables.mean(0),
        table_draws=tables if drawn else None,
        prevalence=shares.mean(0),
        prevalence_draws=shares if drawn else None,
        diagnostics=diagnostics,
    )
    return Posterior(Handmade(), "handmade", "gibbs" if drawn else "em", data, found)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


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
    assert texts(posterior(1, 20).plot_confusion("a0")) == []


def test_an_unknown_annotator_or_too_few_axes_are_refused() -> None:
    with pytest.raises(DataError, match="'nobody'.*'a0'"):
        posterior().plot_confusion("nobody")
    with pytest.raises(DataError, match="3 annotators need as many axes, 1"):
        posterior().plot_confusion(ax=Figure().subplots())


def test_annotators_are_ordered_with_their_intervals() -> None:
    held = posterior()
    table = held.annotators(level=0.8).sort_values("accuracy")
    ax = held.plot_annotators(level=0.8)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(table.index)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), table["accuracy"])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["accuracy_low", "accuracy_high"]])
    assert "80%" in ax.get_xlabel()


def test_a_point_has_no_intervals_and_a_crowd_no_names() -> None:
    ax = posterior(drawn=False).plot_annotators()
    assert len(ax.collections) == 0
    assert ax.get_xlabel() == "accuracy"
    many = posterior(70).plot_annotators()
    assert many.get_yticklabels() == []
    assert "70 annotators" in many.get_ylabel()


def test_items_from_the_surest_to_the_least_sure() -> None:
    held = posterior(n_classes=3)
    every = pd.Series(entropy(held.result.probabilities), held.data.items).sort_values()
    ax = held.plot_items()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), every)
    assert texts(ax) == [str(item) for item in every.index[-5:]]
    other = held.plot_items(show="probability")
    np.testing.assert_allclose(other.lines[0].get_ydata(), np.sort(held.result.probabilities.max(1))[::-1])
    with pytest.raises(MethodError, match="'size'"):
        held.plot_items(show="size")


def test_a_trace_shows_the_entry_on_which_chains_agree_least() -> None:
    held = posterior()
    ax = held.plot_trace("ability")
    assert ax.get_ylabel() == "ability\n(annotator a2)"
    draws = held.result.sites["ability"].arrays["draws"][..., 2]
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines[:4]], draws)
    np.testing.assert_allclose([line.get_ydata()[-1] for line in ax.lines[4:]], draws.mean(1))
    assert held.plot_trace().get_ylabel().startswith("prevalence")


def test_without_draws_the_trace_is_the_objective() -> None:
    ax = posterior(drawn=False, objectives=[-9.0, -5.0, -4.5]).plot_trace()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [-9, -5, -4.5])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration", "objective")
    with pytest.raises(MethodError, match="kept neither"):
        posterior(drawn=False).plot_trace()
    with pytest.raises(MethodError, match="no draws of 'nothing'; sites with draws: ability, prevalence"):
        posterior().plot_trace("nothing")


def test_everything_is_grey() -> None:
    held = posterior()
    for ax in (held.plot_annotators(), held.plot_items(), held.plot_trace()):
        for color in (line.get_color() for line in ax.lines):
            red, green, blue = to_rgb(color)
            assert red == green == blue
