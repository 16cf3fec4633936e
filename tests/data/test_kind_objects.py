"""A kind of label is an object: what it names is there, and its small data are labels of it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import crowdppl
from crowdppl import registry
from crowdppl.cli.arguments import default_methods
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.classes import Classes
from crowdppl.data.kinds.numbers import Numbers
from crowdppl.data.kinds.space import REAL_LINE, Between, NonNegative
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
    assert kind.labels.contains(kind.labels.nearest(given)).all()


def test_a_kind_whose_labels_are_no_grades_has_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "share", Numbers("share", "shares", "shares of a whole", Between()))
    labels = crowdppl.datasets.example("share").frame()["label"]
    assert labels.between(0, 1, inclusive="neither").all() and labels.nunique() == 4
    with pytest.raises(DataError, match="the label 1.0 at row 1 .* is not a number above 0 and below 1"):
        crowdppl.Annotations.from_arrays(["x", "y"], ["ann", "ann"], [0.5, 1.0], kind="share")


def test_numbers_between_two_ends_have_intervals_and_a_grid_there() -> None:
    space = Between(-2.0, 6.0)
    law = stats.beta(3, 0.5, loc=-2, scale=8)  # dense at the high end
    found = space.interval(np.array([law.mean()]), np.array([law.std()]), 0.9)
    np.testing.assert_allclose([found.low[0], found.high[0]], law.ppf([0.05, 0.95]))
    points, width = space.grid(0.0, 1.0)
    assert space.contains(points).all() and law.pdf(points) @ width == pytest.approx(1, abs=1e-4)
    near = space.nearest(np.array([-1e6, -5, 0, 5, 1e6]))
    assert space.contains(near).all() and (np.diff(near) > 0).all() and near[2] == 2


@pytest.mark.parametrize("value", ["2020-01-01", "1 day", 1 + 2j])
@pytest.mark.parametrize("whole", [True, False])
def test_dates_durations_and_complex_numbers_are_no_numbers(value: Any, whole: bool) -> None:
    odd = pd.Timestamp(value) if value == "2020-01-01" else pd.Timedelta(value) if value == "1 day" else value
    values = pd.Series([odd, odd] if whole else [1.0, odd], ["x", "y"])  # one dtype, or objects
    with pytest.raises(DataError, match="is not a finite number"):
        crowdppl.Annotations.from_arrays(["x", "y"], ["ann", "ann"], values, kind="real")
    with pytest.raises(DataError, match="is not a finite number"):
        crowdppl.Annotations.from_arrays(["x", "y"], ["ann", "ann"], [1, 2], kind="real", gold=values)


@pytest.mark.parametrize(
    ("given", "label", "remedy"),
    [
        ({"kind": "angle"}, 540, "correct it"),
        ({"kind": "angle", "unit": "radians"}, 90.0, "if labels are in degrees, say unit='degrees'"),
        ({"kind": "angle", "unit": "radians"}, 540.0, "correct it"),
        ({"kind": "angle"}, "90 deg", "write each as a number alone, 90"),
        ({"kind": "count"}, -1, "correct it"),
        ({"kind": "count"}, "3.5", "correct it"),
        ({"kind": "count"}, "1,234 cells", "write each as a number alone, 1234"),
        ({"kind": "count"}, "-2 cells", "correct it"),
        ({"kind": "real"}, "many", "correct it"),
    ],
)
def test_a_refused_label_comes_with_what_would_help(given: dict[str, Any], label: Any, remedy: str) -> None:
    with pytest.raises(DataError, match=f"asks for; {remedy}"):
        crowdppl.Annotations.from_arrays(["x", "y"], ["ann", "ann"], [label, label], **given)


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
