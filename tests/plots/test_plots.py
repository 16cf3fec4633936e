"""Pictures: on which axes, with which numbers and names. What they look like was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.plots.posterior import plot_annotators, short, short_names
from crowdppl.posterior import Posterior
from crowdppl.results.choices import entropy
from crowdppl.results.tables import information
from tests.handmade import coloured, posterior, texts

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def renamed(held: Posterior, names: list[str]) -> Posterior:
    """The same with annotators of other names."""
    frame = held.data.frame()
    annotator = frame["annotator"].astype(str).map(dict(zip(held.data.annotators, names, strict=True)))
    options = {"annotators": names, "classes": list(held.data.classes)}
    return replace(held, data=Annotations.from_arrays(frame["item"], annotator, frame["label"], **options))


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


def test_a_large_matrix_has_no_shares_written_in_but_names_that_fit() -> None:
    ax = posterior(1, 20).plot_confusion("a0")
    assert texts(ax) == []
    assert ax.get_xlabel() == "label (shade: white 0, black probability 1)"
    assert [text.get_text() for text in ax.get_yticklabels()] == [f"class {k}" for k in range(0, 20, 2)]
    np.testing.assert_array_equal(ax.get_xticks(), range(0, 20, 2))


@pytest.mark.parametrize("n_classes", [2, 12])
def test_intervals_lie_on_a_scale_from_0_to_1_in_each_cell(n_classes: int) -> None:
    held = posterior(n_classes=n_classes)
    ax = held.plot_confusion("a1", level=0.8)
    table = held.confusion_intervals(0.8).loc["a1"]
    scales, found, means = ax.lines[::3], ax.lines[1::3], ax.lines[2::3]
    column = np.tile(np.arange(n_classes), n_classes)
    np.testing.assert_allclose([line.get_xdata() for line in scales], np.stack([column - 0.4, column + 0.4], 1))
    ends = (np.array([line.get_xdata() for line in found]) - column[:, None] + 0.4) / 0.8
    np.testing.assert_allclose(ends, table[["low", "high"]], atol=1e-6)
    middle = (np.array([line.get_xdata()[0] for line in means]) - column + 0.4) / 0.8
    np.testing.assert_allclose(middle, table["mean"], atol=1e-6)
    rows = [round(float(line.get_ydata()[0])) for line in found]
    np.testing.assert_array_equal(rows, np.repeat(np.arange(n_classes), n_classes))
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


def test_accuracies_stand_in_their_own_order() -> None:
    held = posterior(n_annotators=6)
    ax = held.plot_annotators(level=0.8, show="accuracy")
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == list(held.annotators()["accuracy"].sort_values().index)
    assert names != [text.get_text() for text in held.plot_annotators().get_yticklabels()]
    assert ax.get_ylabel() == "annotator,\nmost accurate on top"
    table = held.annotators(level=0.8).loc[names]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), table["accuracy"])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, table[["accuracy_low", "accuracy_high"]])
    assert (texts(ax), ax.lines[1].get_xdata()[0]) == (["chance"], 0.5)
    with pytest.raises(MethodError, match="'size'"):
        held.plot_annotators(show="size")
    with pytest.raises(MethodError, match="level=0"):
        posterior(drawn=False).plot_annotators(level=0)


def apart(ax: Axes) -> bool:
    """Whether no text of a picture lies on another."""
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent().padded(-1) for text in (*ax.texts, *ax.get_yticklabels())]
    return not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])


def test_a_point_has_no_intervals() -> None:
    held = posterior(drawn=False)
    ax = held.plot_annotators()
    assert len(ax.collections) == 0
    assert ax.get_xlabel() == "information of a label (bits)"
    told = information(held.result.table, held.result.prevalence)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), np.sort(told))
    assert held.plot_annotators(show="accuracy").get_xlabel() == "accuracy"


def test_of_a_crowd_the_best_and_the_worst_are_named_and_led_to_their_rows() -> None:
    held = posterior(177)
    order = held.annotators()["accuracy"].sort_values().index
    ax = held.plot_annotators(show="accuracy")
    assert [text.get_text() for text in ax.get_yticklabels()] == [*order[:8], *order[:-9:-1]]
    assert ax.get_ylabel() == "177 annotators,\nmost accurate on top" and apart(ax)
    (leads,) = (part for part in ax.collections if len(part.get_segments()) == 16)
    ends = np.array(leads.get_segments())
    assert ends[:, 1, 1].tolist() == [*range(8), *range(176, 168, -1)], "at the edge, their rows"
    np.testing.assert_allclose(ends[:, 0, 1], ax.get_yticks(), err_msg="at the other end, their names")


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("height", [0.3, 1.5, 2.6, 12.0])
def test_names_of_annotators_do_not_overlap_on_axes_of_any_height(height: float, layout: str | None) -> None:
    ax = posterior(30).plot_annotators(ax=Figure(figsize=(3, height), layout=layout).subplots())
    named = len(ax.get_yticklabels())
    assert apart(ax) and named % 2 == 0 and ("30 annotators" in ax.get_ylabel()) == (named < 30)
    assert {0.3: named == 0, 1.5: 2 <= named < 16, 2.6: 8 <= named <= 16, 12.0: named == 30}[height]


def test_long_names_keep_both_ends() -> None:
    long = [f"https://crowd.example.org/worker/{n}" for n in range(3)]
    assert (short(long[2]), len(short(long[2]))) == ("https://crow…rg/worker/2", 24)
    assert short("x" * 24) == "x" * 24 and short(7) == "7"
    held = renamed(posterior(), long)
    shown = {text.get_text() for text in plot_annotators(held).get_yticklabels()}
    assert shown == {short(name) for name in long}
    assert held.plot_confusion(long[0]).get_title() == "annotator\nhttps://crow…rg/worker/0"


def test_long_names_that_differ_in_the_middle_are_told_apart() -> None:
    long = [f"worker-of-the-first-crowd-{n:03d}@mail.example.org" for n in (7, 17, 8)]
    apart = ["…irst-crowd-007@mail.ex…", "…irst-crowd-017@mail.ex…", "…irst-crowd-008@mail.ex…"]
    assert short_names([*long, "x" * 30, 7, long[0]]) == [*apart, short("x" * 30), "7", apart[0]]
    held = renamed(posterior(), long)
    assert {text.get_text() for text in plot_annotators(held).get_yticklabels()} == set(apart)
    assert [held.plot_confusion(name).get_title() for name in long] == [f"annotator\n{name}" for name in apart]
    assert len(set(short_names(long, 16))) == 3
    twice = [f"{'p' * 30}{a}{'q' * 30}{b}{'r' * 30}" for a, b in ("0a", "0b", "1b")]  # of which no part tells three
    assert len(set(short_names(twice))) == 3
    assert short_names(["x" * 30, "x" * 31]) == ["…" + "x" * 12, "…" + "x" * 13]


def test_items_from_the_surest_to_the_least_sure() -> None:
    held = posterior(n_classes=3)
    every = pd.Series(entropy(held.result.probabilities), held.data.items).sort_values()
    ax = held.plot_items()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), every)
    assert texts(ax) == [str(item) for item in every.index[-5:]]
    assert apart(ax)
    other = held.plot_items(show="probability")
    np.testing.assert_allclose(other.lines[0].get_ydata(), np.sort(held.result.probabilities.max(1))[::-1])
    with pytest.raises(MethodError, match="'size'"):
        held.plot_items(show="size")


def test_names_of_items_that_are_as_unsure_are_written_one_above_the_other() -> None:
    held = posterior()
    book = replace(held.data.item_book, ids=pd.Index([f"photograph {n}" for n in range(20)]))
    even = np.full_like(held.result.probabilities, 0.5)
    tied = replace(held, data=replace(held.data, item_book=book), result=replace(held.result, probabilities=even))
    for show in ("entropy", "probability"):
        assert len(texts(tied.plot_items(show=show))) == 5 and apart(tied.plot_items(show=show))


def test_everything_is_grey() -> None:
    held = posterior()
    for ax in (held.plot_annotators(), held.plot_items(), held.plot_confusion("a0", level=0.9)):
        assert coloured(ax) == []
    assert coloured(plt.figure().subplots().plot([0, 1], color="C0")[0].axes), "the check can fail"


def test_a_picture_of_some_annotators_says_so() -> None:
    rows = [(item, annotator, (item + (annotator > 26)) % 2) for item in range(6) for annotator in range(30)]
    posterior = crowdppl.fit("one_coin", crowdppl.Annotations.from_arrays(*zip(*rows, strict=True)), inference="vb")
    figure = posterior.plot_confusion()[0].figure
    assert figure.get_suptitle() == "the 25 of 30 annotators with most labels"
    assert not posterior.plot_confusion([1, 2])[0].figure.get_suptitle()
