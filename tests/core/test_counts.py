"""Numbers that callers give: numpy's are taken as Python's, and what is none is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.core.validation import (
    is_number,
    is_whole,
    number_within,
    seed_number,
    share_between,
    switch,
    whole_number,
)
from crowdppl.errors import CrowdpplError, DataError, MethodError

WHOLE = [int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
REAL = [float, np.float16, np.float32, np.float64, np.longdouble]


def test_numbers_of_every_kind_come_back_as_pythons() -> None:
    for kind in WHOLE:
        assert is_whole(kind(3)) and is_number(kind(3))
        found = (whole_number("n", kind(3), 1), seed_number(kind(3)), number_within("x", kind(3), "any", bool))
        assert found == (3, 3, 3.0) and [type(x) for x in found] == [int, int, float]
    for real in REAL:
        assert is_number(real(0.5)) and not is_whole(real(2))
        assert type(share_between("x", real(0.5))) is float
    assert share_between("x", Fraction(1, 4)) == 0.25
    assert switch("x", np.True_) is True and switch("x", False) is False


@pytest.mark.parametrize("value", [True, np.True_, "1", None, [1], float("nan"), np.float32("inf"), 1j, 2**2000])
def test_what_is_no_finite_number_is_none(value: Any) -> None:
    assert not is_number(value)
    with pytest.raises(MethodError, match=r"^x=.* must be a number above 0; say 1$"):
        number_within("x", value, "a number above 0", lambda x: x > 0, "say 1")


def test_the_argument_the_value_and_the_remedy_are_said() -> None:
    with pytest.raises(MethodError, match=r"^n='3' must be a whole number, 1 or more; ask for one$"):
        whole_number("n", "3", 1, "ask for one")
    with pytest.raises(DataError, match=r"^n=0 must be at least 1$"):
        whole_number("n", 0, 1, error=DataError)
    with pytest.raises(MethodError, match=r"^seed=-1 must be a whole number from 0 and below 2\*\*63$"):
        seed_number(-1)
    with pytest.raises(MethodError, match=r"^level=1 must be a number between 0 and 1; usually 0.95$"):
        share_between("level", 1, "usually 0.95")
    with pytest.raises(MethodError, match=r"^x=1 must be True or False$"):
        switch("x", 1)


def test_what_would_fill_a_page_is_named_by_its_kind() -> None:
    with pytest.raises(MethodError, match="^n=a DataFrame must be a whole number, 1 or more$"):
        whole_number("n", pd.DataFrame({"a": [1, 2]}), 1)
    with pytest.raises(MethodError, match="^seed=an int must be a whole number"):
        seed_number(10**5000)
    with pytest.raises(MethodError, match="^n=an int must be at least 1$"):
        whole_number("n", -(10**5000), 1)


def few(seed: Any) -> pd.DataFrame:
    return crowdppl.random_design(30, 4, 2, classes=2, seed=seed).frame()


def episodes_of(shots: Any) -> crowdppl.few_shot.EpisodeSampler:
    truth = np.arange(40) % 4
    return crowdppl.few_shot.EpisodeSampler(truth, np.eye(4)[truth], shots=shots, queries=shots, ways=2)


def crowd_of(kind: Any, **more: Any) -> crowdppl.SimulatedCrowd:
    features = np.random.default_rng(0).normal(size=(60, 2))
    return crowdppl.simulate_annotators(np.arange(60) % 2, [kind, "hammer"], features=features, seed=0, **more)


SHARES: dict[str, Callable[[Any], Any]] = {
    "density": lambda x: crowd_of("hammer", density=x),
    "density of a kind": lambda x: crowd_of("hammer", density={"hammer": x}),
    "p": lambda x: crowd_of(crowdppl.simulation.annotator_kind("hammer", p=x)),
    "trained_on": lambda x: crowd_of(
        crowdppl.simulation.annotator_kind("machine", trained_on=x, classifier="naive_bayes")
    ),
    "shares": lambda x: crowdppl.simulation.draw_kinds({"hammer": x, "spammer": x}, 3),
    "alpha": lambda x: crowdppl.find_groups(crowd_of("hammer").data, alpha=x),
    "level": lambda x: crowdppl.agreement_table(crowd_of("hammer").data, bootstrap=9, level=x),
    "setting": lambda x: crowdppl.method("one_coin", right=x),
}


@pytest.mark.parametrize("place", SHARES)
def test_a_share_may_be_any_kind_of_float(place: str) -> None:
    for kind in REAL:
        SHARES[place](kind(0.5))
    for wrong in (True, "0.5", None, float("nan"), -0.5):
        if wrong is None and place == "density":
            continue  # everybody is asked about everything
        with pytest.raises(CrowdpplError):
            SHARES[place](wrong)


SIZES: dict[str, Callable[[Any], Any]] = {
    "labels_per_item": lambda x: crowd_of("hammer", labels_per_item=x),
    "copiers": lambda x: crowd_of(crowdppl.simulation.annotator_kind("copying_group", copiers=x)),
    "kinds": lambda x: crowdppl.simulate_annotators([0, 1] * 20, {"hammer": x, "spammer": 1}),
    "n_annotators": lambda x: crowdppl.simulation.draw_kinds({"hammer": 1.0}, x),
    "test": lambda x: crowdppl.digits({"hammer": 2}, labels_per_item=1, test=x),
    "shots": lambda x: crowdppl.few_shot.EpisodeSampler(
        np.arange(40) % 4, np.eye(4)[np.arange(40) % 4], shots=x, queries=x, ways=2
    ),
    "n_items": lambda x: crowdppl.random_design(x, 3, 2, classes=2),
    "classes": lambda x: crowdppl.random_design(3, 3, 2, classes=x),
    "widths": lambda x: crowdppl.networks.experts_for(None, crowd_of("hammer").data, 2, [x], [x], {}),
}


@pytest.mark.parametrize("place", SIZES)
def test_a_size_may_be_any_kind_of_whole_number(place: str) -> None:
    for kind in WHOLE:
        SIZES[place](kind(2))
    for wrong in (2.0, -1, "2", [[2]]):
        with pytest.raises(CrowdpplError):
            SIZES[place](wrong)


def test_a_seed_draws_the_same_whatever_kind_of_number_it_is() -> None:
    assert few(7).equals(few(np.uint8(7))) and few(7).equals(few(np.int64(7)))
    assert crowd_of("hammer").data.frame().equals(crowd_of("hammer", density=np.float32(1)).data.frame())


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "a", None, True])
def test_a_seed_that_is_none_is_refused_at_every_door(seed: Any) -> None:
    data, episodes = crowd_of("hammer").data, episodes_of(2)
    posterior = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    doors: list[Callable[[], Any]] = [
        lambda: crowdppl.random_design(5, 3, 2, classes=2, seed=seed),
        lambda: crowdppl.simulate(crowdppl.method("one_coin"), data, seed=seed),
        lambda: crowdppl.simulate_annotators([0, 1], ["hammer"], seed=seed),
        lambda: crowdppl.simulation.draw_kinds({"hammer": 1.0}, 2, seed=seed),
        lambda: crowdppl.digits(seed=seed),
        lambda: crowdppl.agreement_table(data, seed=seed),
        lambda: crowdppl.evaluate(posterior, {0: 0}, seed=seed),
        lambda: crowdppl.predictive_check(posterior, seed=seed),
        lambda: crowdppl.fit("one_coin", data, seed=seed),
        lambda: crowdppl.heldout_score("one_coin", data, seed=seed),
        lambda: crowdppl.compare(["one_coin"], data, seed=seed),
        lambda: crowdppl.testing.rank_check("one_coin", data, seed=seed),
        lambda: episodes.draw(2, seed),
        lambda: episodes.draw(2, (0, seed)),
    ]
    for door in doors:
        with pytest.raises(MethodError, match=r"^seed=.* must be a whole number"):
            door()
