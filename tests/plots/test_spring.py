"""Places of a network: linked nodes near, others apart, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from crowdppl.plots.annotators import spring_layout


def distances(place: np.ndarray) -> np.ndarray:
    out: np.ndarray = np.sqrt(((place[:, None] - place[None]) ** 2).sum(-1))
    return out


@pytest.mark.parametrize("seed", range(5))
def test_cliques_stay_together_and_apart_from_each_other(seed: int) -> None:
    one, other = np.array([(a, b) for c in (0, 6) for a in range(c, c + 6) for b in range(a + 1, c + 6)]).T
    apart = distances(spring_layout(12, one, other, seed))
    own = np.arange(12) // 6
    inside = own[:, None] == own[None]
    assert apart[inside].max() < apart[~inside].min()
    assert apart[~np.eye(12, dtype=bool)].min() > 0.1, "no two nodes in one place"


def test_neighbours_in_a_chain_are_nearer_than_all_others() -> None:
    apart = distances(spring_layout(6, np.arange(5), np.arange(1, 6)))
    steps = np.abs(np.arange(6)[:, None] - np.arange(6))
    assert apart[steps == 1].max() < 0.7 * apart[steps > 1].min()


def test_places_are_finite_within_the_circle_and_the_same_for_a_seed() -> None:
    stream = np.random.default_rng(0)
    one, other = stream.integers(50, size=(2, 80))
    place = spring_layout(50, one, other, seed=3)
    assert np.sqrt((place**2).sum(1)).max() == pytest.approx(1)
    np.testing.assert_array_equal(place, spring_layout(50, one, other, seed=3))
    assert not np.allclose(place, spring_layout(50, one, other, seed=4))


@pytest.mark.parametrize("n", [0, 1])
def test_less_than_a_pair_lies_in_the_middle(n: int) -> None:
    nothing = np.empty(0, int)
    np.testing.assert_array_equal(spring_layout(n, nothing, nothing), np.zeros((n, 2)))
