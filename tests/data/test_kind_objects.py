"""A kind of label is an object: what it names is there, and its small data are labels of it."""

import numpy as np
import pytest

import crowdppl
from crowdppl import registry
from crowdppl.cli.arguments import default_methods
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.classes import Classes
from crowdppl.data.kinds.numbers import Numbers
from crowdppl.data.kinds.space import REAL_LINE, NonNegative
from crowdppl.errors import DataError, MethodError

NUMERIC = [kind for kind in KINDS.values() if isinstance(kind, Numbers)]


@pytest.mark.parametrize("name", KINDS)
def test_methods_that_a_kind_names_take_it(name: str) -> None:
    kind = KINDS[name]
    named = {*kind.methods}
    named |= {*kind.members} if isinstance(kind, Classes) else set()
    named |= {method for method, _ in kind.candidates.values()} if isinstance(kind, Numbers) else set()
    assert named and named <= {*registry.names_for(name)}
    assert default_methods(name) == kind.methods


@pytest.mark.parametrize("name", KINDS)
def test_the_example_of_a_kind_is_of_this_kind(name: str) -> None:
    data = crowdppl.datasets.example(name)
    assert data.kind == name and data.alphabet.kind == KINDS[name] and data.space == KINDS[name].space
    assert (data.n_classes == 0) == KINDS[name].numeric


@pytest.mark.parametrize("kind", NUMERIC, ids=lambda kind: kind.name)
def test_labels_near_numbers_are_labels(kind: Numbers) -> None:
    given = np.random.default_rng(0).uniform(1, 30, 200)
    assert kind.holds(kind.nearest(given)).all()


def test_a_kind_without_methods_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "depth", Numbers("depth", "depths", "depths of lakes"))
    with pytest.raises(MethodError, match="no method is the default for labels of kind 'depth'; say --model"):
        default_methods("depth")
    with pytest.raises(DataError, match="kind='deepth' is none of"):
        default_methods("deepth")


def test_moments_of_a_line_give_mean_and_deviation_back() -> None:
    x = np.random.default_rng(1).normal(3, 2, (4, 500))
    mean, sd = REAL_LINE.estimate(*(moment.mean(-1) for moment in REAL_LINE.moments(x)))
    np.testing.assert_allclose(mean, x.mean(-1))
    np.testing.assert_allclose(sd, x.std(-1))
    np.testing.assert_allclose(REAL_LINE.spread(x), x.std(-1))


def test_an_interval_of_rates_lies_above_zero() -> None:
    found = NonNegative().interval(np.array([0.5]), np.array([0.5]), 0.95)
    np.testing.assert_allclose([found.low[0], found.high[0]], -0.5 * np.log([0.975, 0.025]))  # an exponential
    assert REAL_LINE.interval(np.array([0.5]), np.array([0.5]), 0.95).low[0] < 0
