"""Pictures of labels, raters, orders and spans: what is drawn, counted, and refused."""

from functools import cache
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import crowdppl
from crowdppl.errors import DataError, MethodError
from tests.handmade import posterior, texts

matplotlib.use("Agg")
METHODS = {
    "nominal": "one_coin",
    "real": "gaussian_annotators",
    "angle": "von_mises_annotators",
    "ordinal": "rater_facets",
    "pair": "bradley_terry",
    "ranking": "plackett_luce",
    "sequence": "hmm_crowd",
}


@cache
def fitted(kind: str) -> Any:
    """A short fit of the kind's example."""
    return crowdppl.fit(METHODS[kind], crowdppl.datasets.example(kind), inference="vb", seed=0)


def test_the_matrix_of_labels_has_the_truth_first_and_the_most_accurate_next() -> None:
    held = posterior(4, n_classes=3)
    ax = held.plot_labels()
    drawn = np.ma.getdata(ax.images[0].get_array())
    label = held.labels()["label"].map({f"class {k}": k for k in range(3)})
    order = np.lexsort((-held.result.probabilities.max(1), label))
    np.testing.assert_array_equal(drawn[:, 0], label.to_numpy()[order])
    assert np.isnan(drawn[:, 1]).all(), "a gap"
    best = held.annotators()["accuracy"].sort_values(ascending=False, kind="stable").index
    assert [text.get_text() for text in ax.get_xticklabels()] == ["truth", *best]
    wide = held.data.frame().pivot(index="item", columns="annotator", values="label")
    by_hand = wide.loc[held.data.items[order], best].map(lambda name: int(name[-1]))
    np.testing.assert_array_equal(drawn[:, 2:], by_hand)
    own = Figure().subplots()
    assert held.plot_labels(ax=own) is own


def test_the_matrix_of_numbers_has_their_estimates() -> None:
    held = fitted("real")
    drawn = np.ma.getdata(held.plot_labels().images[0].get_array())
    np.testing.assert_allclose(drawn[:, 0], np.sort(held.truth()["estimate"]))
    grades = fitted("ordinal").plot_labels().images[0].get_array()
    assert np.ma.getmaskarray(grades)[:, 0].all(), "places are no grades"


def test_votes_before_and_labels_after() -> None:
    held = posterior(5, n_classes=3)
    votes, label = held.data.votes(), held.result.probabilities.argmax(1)
    tie = (votes == votes.max(1, keepdims=True)).sum(1) > 1
    by_hand = np.zeros((4, 3), int)
    np.add.at(by_hand, (np.where(tie, 3, votes.argmax(1)), label), 1)
    ax = held.plot_votes()
    assert texts(ax) == [str(n) for n in by_hand.ravel()]
    changed = ~tie & (votes.argmax(1) != label)
    assert ax.get_title() == f"20 items: most annotators overruled in {changed.sum()}, ties decided in {tie.sum()}"
    gold = {item: f"class {k}" for item, k in zip(held.data.items, label, strict=True)}
    title = held.plot_votes(gold).get_title()
    assert title.endswith(
        f"of {changed.sum()} overruled with known truth, {changed.sum()} right; most annotators 0"
    )


def test_means_before_and_estimates_after() -> None:
    held = fitted("real")
    points = held.plot_votes().lines[1].get_xydata()
    mean = held.data.frame().groupby("item")["label"].mean()
    np.testing.assert_allclose(points, np.stack([mean[held.data.items], held.truth()["estimate"]], 1))
    for kind in ("ranking", "ordinal"):
        with pytest.raises(MethodError, match="plot_estimates"):
            fitted(kind).plot_votes()


@pytest.mark.parametrize("kind", ["nominal", "angle", "sequence"])
def test_certainty_after_all_labels_is_that_of_all_labels(kind: str) -> None:
    held = fitted(kind)
    ax = held.plot_certainty()
    if kind == "angle":
        table = held.predict(held.data)
        width = (table["high"] - table["low"]) % 360
        assert ax.lines[0].get_ydata()[-1] == pytest.approx((width / 2).mean())
        return
    sure = held.predict(held.data).max(axis=1)
    assert texts(ax)[-1] == f"{(sure >= 0.95).mean():.0%}"
    assert [area.get_label() for area in ax.collections] == ["settled", "likely", "open"]
    with pytest.raises(MethodError, match="seed"):
        held.plot_certainty(seed=-1)


def test_raters_lie_at_their_two_traits() -> None:
    held = fitted("real")
    table, ax = held.annotators(), held.plot_raters()
    by_hand = np.stack([table["bias"], table["precision"] ** -0.5], 1)
    np.testing.assert_allclose(ax.lines[0].get_xydata(), by_hand)
    assert set(texts(ax)) == set(held.data.annotators)
    two = posterior(6)
    table = two.annotators()
    np.testing.assert_allclose(two.plot_raters().lines[0].get_xydata(), table[["specificity", "sensitivity"]])
    with pytest.raises(MethodError, match=r"plot_annotators.*plot_confusion"):
        posterior(3, n_classes=3).plot_raters()
    with pytest.raises(MethodError, match="plot_annotators"):
        fitted("ranking").plot_raters()


def test_the_ruler_has_items_raters_and_steps_between_grades() -> None:
    held = fitted("ordinal")
    ax = held.plot_raters()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["items", "raters", "grades"]
    raters, steps = (line.get_ydata() for line in ax.lines[:2])
    np.testing.assert_allclose(raters, held.annotators()["severity"])
    drawn = held.result.sites["step"].mean[0]
    np.testing.assert_allclose(steps, drawn - drawn.mean())
    assert set(texts(ax)) == {*held.data.annotators, "1 | 2", "2 | 3", "3 | 4"}


def test_who_is_better_than_whom_with_boxes_of_tiers() -> None:
    held = fitted("ranking")
    before, ax = held.order_probabilities(), held.plot_order_probabilities()
    np.testing.assert_array_equal(np.ma.getdata(ax.images[0].get_array()), before)
    tiers = int(ax.get_title().split(" in ")[1].split()[0])
    assert len(ax.patches) == tiers > 1
    assert len(texts(ax)) == len(before) * (len(before) - 1)
    with pytest.raises(MethodError, match="ranks no objects"):
        fitted("nominal").plot_order_probabilities()
    groups = crowdppl.fit("preference_groups", crowdppl.datasets.example("pair"), inference="vb", seed=0)
    with pytest.raises(MethodError, match="plot_estimates"):
        groups.plot_order_probabilities()


def test_spans_are_shaded_in_their_text_and_underlined_by_annotator() -> None:
    held = fitted("sequence")
    words = {name: [f"w{n}" for n in range(4)] for name in ("first", "second", "third")}
    ax = held.plot_spans(["third", "first"], text=words)
    assert texts(ax) == ["third", *words["third"], "first", *words["first"]]
    found = held.spans(0.0).query("sequence != 'second'")
    assert len(ax.patches) == (found["last"] - found["first"] + 1).sum()
    shades = sorted({round(patch.get_alpha(), 6) for patch in ax.patches})
    np.testing.assert_allclose(shades, np.sort(0.1 + 0.5 * found["probability"]), atol=1e-6)
    marked = held.data.frame().query("label != 'O' and ~item.str.startswith('second')")
    assert len(ax.lines) == len(marked) + 1  # and that of the legend
    with pytest.raises(DataError, match="'fourth'"):
        held.plot_spans(["fourth"])
    with pytest.raises(DataError, match="4"):
        held.plot_spans(["first"], text={"first": ["w"]})
    with pytest.raises(DataError, match="sequences= holds"):
        held.plot_spans("first")
    with pytest.raises(MethodError, match="spans want"):
        fitted("nominal").plot_spans()


def test_of_long_texts_lines_without_marks_are_left_out() -> None:
    said = {"ann": {3: "B-X"}, "bob": {3: "B-X", 190: "B-X"}}
    rows = [("s", n, who, tags.get(n, "O")) for who, tags in said.items() for n in range(200)]
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    data = crowdppl.Annotations.from_frame(table, kind="sequence")
    held = crowdppl.fit("majority_vote", data, inference="em", seed=0)
    ax = held.plot_spans()
    assert texts(ax)[0] == "s" and set(texts(ax)[1:]) == {"·"} and 80 < len(texts(ax)) < 110
