"""Names in other scripts: another font where one has their letters, else boxes and one warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.figure import Figure

import crowdppl
from crowdppl.errors import CrowdpplWarning
from crowdppl.plots.posterior import legible
from crowdppl.posterior import Posterior
from tests.handmade import posterior

PRIVATE = "\U0010f123\U0010f124"
"""Letters of private use, which no font has."""


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with matplotlib.rc_context():
        yield
    plt.close("all")


def named(*names: str) -> Posterior:
    held = posterior(len(names))
    book = replace(held.data.annotator_book, ids=pd.Index(list(names)))
    return replace(held, data=replace(held.data, annotator_book=book))


def test_letters_that_a_font_lacks_are_taken_from_another() -> None:
    matplotlib.rcParams["font.family"] = "cmss10"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib's own of a glyph, too
        ax = named("Жан", "Eve", "Zoë").plot_annotators()
        ax.figure.canvas.draw()
        matrix = named("Жан", "Eve", "Zoë").plot_confusion("Жан")
        matrix.figure.canvas.draw()
    assert {text.get_text() for text in ax.get_yticklabels()} == {"Жан", "Eve", "Zoë"}
    families = ax.get_yticklabels()[0].get_fontfamily()
    assert families[0] == "cmss10" and len(families) > 1
    assert matrix.title.get_fontfamily()[0] == "cmss10" and len(matrix.title.get_fontfamily()) > 1


def test_letters_that_no_font_has_are_boxes_and_one_warning_names_the_ids() -> None:
    held = named(PRIVATE, "Eve", f"a {PRIVATE[1]}", f"b {PRIVATE}", PRIVATE[0])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ax = held.plot_annotators()
        ax.figure.canvas.draw()
    (warning,) = said
    assert warning.category is CrowdpplWarning and warning.filename == __file__
    assert str(warning.message).count("'") == 6 and " and 1 more" in str(warning.message)
    assert "install one" in str(warning.message) and 'rcParams["font.family"]' in str(warning.message)
    assert {text.get_text() for text in ax.get_yticklabels()} == {"□□", "Eve", "a □", "b □□", "□"}


@pytest.mark.parametrize("plot", ["plot_confusion", "plot_trace", "plot_ranks", "plot_items"])
def test_every_picture_with_ids_warns_once(plot: str) -> None:
    held = named(*[f"{n}{PRIVATE}" for n in range(3)])
    book = replace(held.data.item_book, ids=pd.Index([f"{n}{PRIVATE}" for n in range(20)]))
    held = replace(held, data=replace(held.data, item_book=book))
    given = () if plot in ("plot_confusion", "plot_items") else ("ability",)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        getattr(held, plot)(*given)
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
    assert [warning.category for warning in said] == [CrowdpplWarning]
    assert said[0].filename == __file__


def test_the_network_of_agreement_is_legible() -> None:
    names = [f"{PRIVATE}{n}" for n in range(5)]
    rows = [(f"i{i}", names[a], (i + (a == i % 5)) % 2) for i in range(40) for a in range(5)]
    data = crowdppl.Annotations.from_arrays(*zip(*rows, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = crowdppl.fit("one_coin", data, inference="em", seed=0)
    with pytest.warns(CrowdpplWarning, match="and 2 more"):
        ax = found.plot_agreement_network()
    assert {text.get_text() for text in ax.texts} >= {f"□□{n}" for n in range(5)}


def test_text_that_has_all_its_glyphs_is_left_as_it_is() -> None:
    ax = Figure().subplots()
    ax.set_title("line 1\n\tline 2 é")
    ax.plot([0, 1], label="Ω")
    ax.legend()
    legible(ax)
    assert ax.get_title() == "line 1\n\tline 2 é"
    assert ax.title.get_fontfamily() == ax.get_legend().get_texts()[0].get_fontfamily() == ["sans-serif"]
