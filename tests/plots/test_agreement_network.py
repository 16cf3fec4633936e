"""The network of agreement: its lines are the pairs that are flagged, its marks the groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from crowdppl.criticism import collusion
from crowdppl.criticism.collusion import excess_agreement
from crowdppl.criticism.spammers import suspicious_annotators
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.fitting import fit
from crowdppl.plots.annotators import node_places, plot_agreement_network
from crowdppl.posterior import Posterior
from tests.crowd import annotations
from tests.handmade import coloured, posterior, texts

pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def colluding(n_annotators: int = 12, some: int = 4) -> Posterior:
    """The first annotators share an opinion that has nothing to do with the truth; "ann 0", "ann 1", ..."""
    rng = np.random.default_rng(0)
    shape, k = (400, n_annotators), 3
    truth = rng.integers(k, size=shape[0])
    label = np.where(rng.random(shape) < 0.75, truth[:, None], rng.integers(k, size=shape))
    opinion = rng.integers(k, size=(shape[0], 1))
    label[:, :some] = np.where(rng.random((shape[0], some)) < 0.8, opinion, label[:, :some])
    names = [f"ann {n:02d}" for n in range(n_annotators)]
    item, annotator = np.indices(shape).reshape(2, -1)
    seen = rng.random(len(item)) < 0.6
    data = Annotations.from_arrays(item[seen], np.array(names)[annotator[seen]], label.ravel()[seen])
    return fit("dawid_skene", data, inference="em", seed=0)


def lines(axes: Axes) -> LineCollection:
    (found,) = (part for part in axes.collections if isinstance(part, LineCollection))
    return found


def nodes(axes: Axes) -> dict[str, np.ndarray]:
    """Places of annotators by group; "" are those in none."""
    places: dict[str, list[np.ndarray]] = {}
    for line in axes.lines:
        label = str(line.get_label())
        places.setdefault("" if label.startswith("_") else label, []).append(np.asarray(line.get_xydata()))
    return {label: np.concatenate(parts) for label, parts in places.items()}


def test_lines_are_the_pairs_that_are_flagged_and_marks_the_groups() -> None:
    found = colluding()
    ax = plot_agreement_network(found)
    excess = excess_agreement(found)
    linked = collusion.p_values(excess) <= 0.05
    expected = {(a, b) for a in range(4) for b in range(a + 1, 4)}
    assert set(zip(excess.one[linked].tolist(), excess.other[linked].tolist(), strict=True)) == expected
    table = suspicious_annotators(found)
    assert set(table.index[table["group"].notna()]) == {"ann 00", "ann 01", "ann 02", "ann 03"}
    marks = nodes(ax)
    members = marks["group 0 (4)"]
    assert len(members) == 4 and sum(len(place) for place in marks.values()) == 12
    # Each line joins two members, and all pairs are there.
    ends = np.array(lines(ax).get_segments())
    at = [[int(np.flatnonzero((members == end).all(1))[0]) for end in pair] for pair in ends]
    assert {(a, b) for a, b in at} == expected
    beyond = ((excess.agreed - excess.expected) / excess.shared)[linked]
    np.testing.assert_allclose(lines(ax).get_linewidths(), 0.8 + 3.2 * beyond / beyond.max())
    assert ax.get_title() == "12 annotators, 6 of 66 pairs linked"
    assert f"up to {beyond.max():+.0%}" in ax.get_xlabel() and "level 0.05" in ax.get_xlabel()
    assert texts(ax) == list(found.data.annotators)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["group 0 (4)"]
    assert coloured(ax) == []


def test_of_a_crowd_only_those_with_a_link_are_named() -> None:
    ax = plot_agreement_network(colluding(40))
    assert texts(ax) == [f"ann {n:02d}" for n in range(4)]
    assert ax.get_title().startswith("40 annotators")


def test_of_many_with_a_link_those_with_most_are_named_as_far_as_names_are_apart() -> None:
    found = colluding(110, 36)
    excess = excess_agreement(found)
    linked = collusion.p_values(excess) <= 0.05
    links = np.bincount(np.concatenate([excess.one[linked], excess.other[linked]]), minlength=110)
    assert (links > 0).sum() > 30
    most = found.data.annotators[np.argsort(-links, kind="stable")[:30]].tolist()
    for size, named in ((3.0, range(5, 26)), (6.8, [30])):
        ax = plot_agreement_network(found, ax=Figure(figsize=(size, size), layout="constrained").subplots())
        ax.figure.canvas.draw()
        boxes = [text.get_window_extent() for text in ax.texts]
        assert not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])
        assert texts(ax)[0] == most[0] and texts(ax) == [name for name in most if name in texts(ax)]
        assert len(texts(ax)) in named


def test_without_a_link_longer_names_are_written_too() -> None:
    for n, named in ((20, 20), (21, 0)):
        found = colluding(n, 0)
        book = replace(found.data.annotator_book, ids=pd.Index([f"annotator {x:02d}" for x in range(n)]))
        ax = plot_agreement_network(replace(found, data=replace(found.data, annotator_book=book)))
        assert texts(ax) == [f"annotator {x:02d}" for x in range(named)] + ["no pair agrees\nmore than expected"]


def test_without_a_link_there_are_nodes_and_a_word() -> None:
    ax = plot_agreement_network(colluding(6, 0))
    assert len(lines(ax).get_segments()) == 0
    assert texts(ax)[-1] == "no pair agrees\nmore than expected" and len(texts(ax)) == 7
    assert ax.get_legend() is None and "wider" not in ax.get_xlabel()
    few = fit("dawid_skene", annotations([(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)], 2), inference="em", seed=0)
    ax = plot_agreement_network(few)
    assert texts(ax)[-1] == "no pair shares\n10 items"
    assert np.ptp(ax.get_xlim()) > 1  # two nodes, one above the other, are drawn


def test_groups_that_are_given_are_counted_from_0_and_of_two_at_least() -> None:
    found = colluding()
    given = np.array([7, 7, 3, 3, 3, -1, -1, 5, 6, 8, 9, 10])
    ax = plot_agreement_network(found, groups=given)
    marks = nodes(ax)
    assert {name: len(places) for name, places in marks.items()} == {"": 7, "group 0 (3)": 3, "group 1 (2)": 2}
    assert ax.get_title() == plot_agreement_network(found).get_title(), "lines do not depend on groups"
    for wrong in (np.zeros(3, int), np.zeros(12), np.zeros((12, 1), int)):
        with pytest.raises(DataError, match="whole number for each of 12"):
            plot_agreement_network(found, groups=wrong)


def test_markers_and_greys_tell_many_groups_apart() -> None:
    ax = plot_agreement_network(colluding(40), groups=np.arange(40) // 2)
    styles = [(line.get_marker(), line.get_markerfacecolor()) for line in ax.lines if line.get_markersize() > 5]
    assert len(styles) == len(set(styles)) == 20
    legend = ax.get_legend()
    assert len(legend.get_texts()) == 8 and legend.get_title().get_text() == "the 8 largest of 20 groups"


def test_nodes_without_a_link_stand_around_those_with_one() -> None:
    group = np.full(300, -1)
    place, inside = node_places(group, np.array([4, 5]), np.array([5, 9]), 0)
    assert np.flatnonzero(inside).tolist() == [4, 5, 9]
    radius = np.sqrt((place**2).sum(1))
    assert radius[inside].max() <= 1 < radius[~inside].min()
    apart = np.sqrt(((place[:, None] - place[None]) ** 2).sum(-1)) + 9 * np.eye(300)
    assert apart[~inside].min() > 0.05
    assert (radius[~inside].round(6) == np.unique(radius[~inside].round(6))[0]).sum() == 99, "three rings of 99"
    crowd, _ = node_places(np.full(3000, -1), np.array([0]), np.array([1]), 0)
    assert np.sqrt((crowd**2).sum(1)).max() < 1.8, "many rings leave room for those within"


def test_it_draws_on_the_axes_that_it_is_given_and_refuses() -> None:
    ax = Figure().subplots()
    assert plot_agreement_network(colluding(), ax=ax) is ax
    assert plt.get_fignums() == []
    assert ax.get_aspect() == 1
    for level in (0, 1):
        with pytest.raises(MethodError, match=f"level={level}"):
            plot_agreement_network(posterior(), level=level)
    lonely = fit("majority_vote", annotations([(0, 0, 0), (1, 1, 1)], 2), seed=0)
    with pytest.raises(DataError, match="two labels"):
        plot_agreement_network(lonely)
