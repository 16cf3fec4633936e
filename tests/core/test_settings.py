"""Settings that a method does not have are refused by name, before anything is fitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl import registry
from crowdppl.core.validation import Count, Positive, _declared, _range, check_settings
from crowdppl.errors import MethodError
from crowdppl.networks.training import Training, training_of
from crowdppl.primitives.model import with_examples
from tests.crowd import crowd
from tests.networks.test_networks import clouds


def choices() -> Iterator[tuple[str, str]]:
    """Every setting of the zoo that is one of some names, or a number in a range, and no switch too."""
    for method in registry._zoo_names():
        for setting, kinds in _declared(registry._find(method)).items():
            switch = any(get_origin(kind) is Literal and True in get_args(kind) for kind in kinds)
            if any(get_origin(kind) is Literal or _range(kind) for kind in kinds) and not switch:
                yield method, setting


@pytest.mark.parametrize("value", ["hosue", True, -1.0])
def test_a_value_that_means_nothing_is_refused_by_name(value: Any) -> None:
    for method, setting in choices():
        with pytest.raises(MethodError, match=f"^{setting}={value!r} "):
            crowdppl.method(method, **{setting: value})


@pytest.mark.parametrize(
    ("method", "settings", "says"),
    [
        ("bayes_dgc", {"prior_accuracy": 1.5}, r"prior_accuracy=1\.5 .*above 0 and below 1 or None"),
        ("bayes_dgc", {"crowd_prior_strength": 3.0, "prior_strength": 9.0}, "prior_strength=9"),
        ("mmlc", {"n_experts": 0}, "n_experts=0 .*whole number"),
        ("mmlc", {"oracle": "max"}, "oracle='max' .*'mode', 'mean', 'median' and 'centre'"),
        ("raykar", {"training": None}, "training=None"),
        ("minimax_entropy", {"items": "False"}, "items='False'"),
        ("glad", {"mean": float("nan")}, "mean=nan"),
    ],
)
def test_the_message_says_what_there_is(method: str, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(MethodError, match=says):
        crowdppl.method(method, **settings)


@pytest.mark.parametrize(
    ("method", "settings", "says"),
    [
        ("ordinal", {"crowd": (1, 1, 1)}, r"crowd=\[1, 1, 1\] must be a share, at least 0, for each of 3, and add"),
        ("ordinal", {"crowd": (0.5, 0.5)}, r"crowd=\[0\.5, 0\.5\] must be a share"),
        ("ordinal", {"work": (1.0, 1.0), "bias": True}, r"work=\[1\.0, 1\.0\] must be a share, .* for each of 5"),
        ("mixed_membership", {"blends": (1.5,)}, r"each of blends=1\.5 must be a number between 0 and 1"),
        ("mixed_membership", {"blends": ("half",)}, "each of blends='half' must be a number between 0 and 1"),
    ],
)
def test_so_are_shares_that_are_none(method: str, settings: dict[str, Any], says: str) -> None:
    data = crowd(20, 5, 3, 3)
    with pytest.raises(MethodError, match=says):
        crowdppl.fit(method, data, settings=settings, inference="vb")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *[("epochs", "5"), ("epochs", 2.5), ("epochs", True), ("batch_size", 2.5), ("patience", -1)],
        *[("learning_rate", float("inf")), ("balance", "x"), ("dropout", 1.0), ("full_batch", "yes")],
    ],
)
def test_so_is_a_setting_of_training(setting: str, value: Any) -> None:
    with pytest.raises(MethodError, match=f"^training: {setting}={value!r} "):
        training_of({setting: value})


def test_training_is_a_mapping_and_its_defaults_pass() -> None:
    assert training_of({}) == Training()
    with pytest.raises(MethodError, match="training='fast' must be settings by name"):
        training_of("fast")


@dataclass(frozen=True)
class Own:
    kind: Literal["a", "b"] = "a"
    loud: bool = False
    weight: float = 1.0
    mass: Positive = 1.0
    size: Count | torch.Tensor = 2
    other: Unknown = None  # noqa: F821

    def model(self, data: Any) -> None: ...


def test_stories_of_ones_own_are_checked_as_far_as_they_say() -> None:
    check_settings(Own("b", np.bool_(True), torch.ones(()), 2, torch.ones(1), "anything"))
    loud, heavy = Own(loud="no"), Own(weight="1")
    for wrong in (Own("c"), loud, heavy, Own(mass=0), Own(size=0)):
        with pytest.raises(MethodError, match=r"^(kind|loud|weight|mass|size)="):
            crowdppl.fit(wrong, crowd(20), inference="em")


def whole() -> Iterator[tuple[str, dict[str, int]]]:
    """Methods whose settings may be fractions, with whole numbers for all of them."""
    for method in sorted(
        {*registry.names_for("nominal")} - {"meta_em"}
    ):  # which draws nothing before it has trained
        found: dict[str, int] = {}
        for setting, kinds in _declared(registry._find(method)).items():
            for limits in filter(None, map(_range, kinds)):
                if not limits.whole and limits.takes(1):
                    found[setting] = 1
        if "crowd_prior_strength" in found:  # not beside prior_strength
            yield method, {"crowd_prior_strength": found.pop("crowd_prior_strength")}
        if found:
            yield method, found


@pytest.mark.parametrize(("method", "settings"), list(whole()))
def test_a_whole_number_is_a_number_like_another(method: str, settings: dict[str, int]) -> None:
    design = with_examples(crowdppl.method(method), clouds(30, 24)[0])
    ints = crowdppl.simulate(crowdppl.method(method, **settings), design, seed=0)
    floats = crowdppl.simulate(
        crowdppl.method(method, **{name: float(value) for name, value in settings.items()}), design, seed=0
    )
    pd.testing.assert_frame_equal(ints.data.frame(), floats.data.frame())
    for name, value in ints.parameters.items():
        np.testing.assert_array_equal(value, floats.parameters[name])


def test_abstentions_are_no_work_of_an_ordinal_annotator() -> None:
    rows = [*[(i, "often", 1 + i % 2) for i in range(8)], *[(i, "seldom", "?") for i in range(8)], (0, "seldom", 1)]
    data = crowdppl.Annotations.from_arrays(
        *map(list, zip(*[(i, a, str(x)) for i, a, x in rows], strict=True)), abstentions=["?"], kind="ordinal"
    )
    model: Any = crowdppl.method("ordinal").setup(data)
    np.testing.assert_allclose(model.work, [8 / 9, 1 / 9])


def test_rows_of_ones_own_put_the_houses_pooled_ones_aside() -> None:
    data = clouds(30, 24)[0]
    crowd_prior_strength = {
        mass: crowdppl.method("bayes_dgc", prior_strength=mass).setup(data).crowd_prior_strength
        for mass in (4.0, 9.0)
    }
    assert crowd_prior_strength == {4.0: 14.0, 9.0: 0.0}
