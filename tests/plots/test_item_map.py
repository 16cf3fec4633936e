"""The item map: disagreement by hand, which items are drawn where, and what is left out."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes

from crowdppl.errors import DataError
from crowdppl.plots.items import AREA, CELLS, MAX_PROBABILITY, disagreement, plot_item_map
from crowdppl.posterior import Posterior
from tests.class_result import changed
from tests.crowd import annotations
from tests.handmade import posterior


def held(votes: list[tuple[int, ...]], probabilities: list[list[float]]) -> Posterior:
    """Items with these labels, by annotators 0, 1, ..., and these probabilities."""
    labels = [(i, a, label) for i, row in enumerate(votes) for a, label in enumerate(row)]
    p = np.array(probabilities)
    found = posterior(n_classes=p.shape[1])
    data = annotations(labels, p.shape[1])
    return replace(found, data=data, result=changed(found.result, probabilities=p))


def marks(axes: Axes) -> list[list[tuple[float, float, float]]]:
    """Disagreement, probability and number of items of each mark, by kind."""
    kinds = []
    for part in axes.collections[:2]:
        sizes = (part.get_sizes() / AREA) ** 2
        kinds.append([(x, 1 - y, n) for (x, y), n in zip(np.asarray(part.get_offsets()), sizes, strict=True)])
    return kinds


def test_disagreement_is_the_share_of_pairs_that_differ() -> None:
    votes = np.array([[4, 0, 0], [3, 1, 0], [2, 2, 0], [1, 1, 1], [2, 0, 0]])
    np.testing.assert_allclose(disagreement(votes), [0, 3 / 6, 4 / 6, 1, 0])


def test_items_lie_at_their_disagreement_and_probability() -> None:
    votes = [(0, 0, 0), (0, 0, 0), (0, 0, 1), (1, 1, 0), (1,)]
    p = [[0.95, 0.05], [0.95, 0.05], [0.7, 0.3], [0.8, 0.2], [0.5, 0.5]]
    ax = plot_item_map(held(votes, p))
    agreed, overruled = marks(ax)
    doubt = np.log10([0.05, 0.3])
    assert [n for *_, n in agreed] == pytest.approx([2, 1]), "two items share a mark"
    np.testing.assert_allclose([x for x, *_ in agreed], [0, 2 / 3], atol=1 / CELLS)
    unit = -np.log10(1 - MAX_PROBABILITY) / CELLS  # places are rounded to a lattice
    np.testing.assert_allclose(np.log10(1 - np.array([y for _, y, _ in agreed])), doubt, atol=unit / 2 + 1e-9)
    ((x, y, n),) = overruled
    assert n == pytest.approx(1) and x == pytest.approx(2 / 3, abs=1 / CELLS)
    assert np.log10(1 - y) == pytest.approx(np.log10(0.2), abs=unit / 2 + 1e-9)
    assert ax.get_title() == "4 items, 1 with fewer than two labels not shown"
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["most annotators' label (3)", "another label (1)"]


def test_nobody_disagrees_where_no_item_has_two_labels() -> None:
    with pytest.raises(DataError, match="none of 2 items has two labels"):
        plot_item_map(held([(0,), (1,)], [[0.9, 0.1], [0.2, 0.8]]))
