"""The network of agreement: its lines are the pairs that are flagged, its marks the groups."""

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from crowdppl.criticism import collusion
from crowdppl.criticism.collusion import excess_agreement
from crowdppl.criticism.suspicious import suspicious_annotators
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.fitting import fit
from crowdppl.plots.annotators import plot_agreement_network
from crowdppl.posterior import Posterior
from tests.crowd import annotations
from tests.handmade import coloured, posterior, texts


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
    assert f"{beyond.min():.0%} to {beyond.max():.0%}" in ax.get_xlabel() and "level 0.05" in ax.get_xlabel()
    more = sorted(f"+{n:,.0f}" for n in (excess.agreed - excess.expected)[linked])
    assert sorted(texts(ax)) == sorted([*more, *found.data.annotators])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["group 0 (4)"]
    assert coloured(ax) == []


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


def test_it_draws_on_the_axes_that_it_is_given_and_refuses() -> None:
    ax = Figure().subplots()
    assert plot_agreement_network(colluding(), ax=ax) is ax
    assert plt.get_fignums() == []
    assert ax.get_aspect() == 1
    for level in (0, 1):
        with pytest.raises(MethodError, match=f"level={level}"):
            plot_agreement_network(posterior(), level=level)
    lonely = fit("majority_vote", annotations([(0, 0, 0), (1, 1, 1)], 2), inference="em")
    with pytest.raises(DataError, match="two labels"):
        plot_agreement_network(lonely)
