"""What is refused where a network learns comes with a reason that holds, and with advice that works."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl.errors import CrowdpplWarning, MethodError
from tests.crowd import crowd
from tests.networks.test_networks import clouds

TRAINING = {"epochs": 2}


@pytest.mark.parametrize(
    ("name", "engine", "settings"),
    [
        ("raykar", "em", {}),
        ("raykar", "em", {"bootstrapped": True}),
        ("ccem", "svi", {}),
        ("global_noise", "em", {}),
    ],
)
def test_what_a_network_learned_of_a_label_is_not_taken_out(
    name: str, engine: str, settings: dict[str, Any]
) -> None:
    data, _ = clouds(60, 40)
    fitted = crowdppl.fit(name, data, inference=engine, settings={**settings, "training": TRAINING})
    with pytest.raises(MethodError, match="heldout_score"):
        fitted.leave_one_out()
    with pytest.raises(MethodError, match="heldout_score"):
        fitted.leave_one_out(method="psis")
    assert np.isfinite(crowdppl.heldout_score(fitted, folds=2).labels["log_p"]).all()


def blind(call: Callable[..., Any], *args: Any, **options: Any) -> list[str]:
    """What is warned of networks that have nothing to look at, and that it names the line of the caller."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", ".*there are no features", CrowdpplWarning)
        call(*args, **options)
    assert all(warning.filename == __file__ for warning in said)
    return [str(warning.message) for warning in said]


def test_a_network_without_features_is_warned_of_once() -> None:
    given = {"inference": "em", "max_iterations": 2}
    text = "there are no features, so that no network learns; give features="
    named = [("raykar", "raykar"), (crowdppl.method("raykar"), "raykar")]
    for method, name in named:
        assert blind(crowdppl.fit, method, crowd(), **given) == [f"{name}: {text}"]
    assert blind(crowdppl.fit, "raykar", crowd(), calibrate=True, **given) == [f"raykar: {text}"]
    methods = ["one_coin", "raykar", "global_noise"]
    found = blind(crowdppl.compare, methods, crowd(), folds=2, **given)
    assert found == [f"raykar, global_noise: {text}"]
    assert blind(crowdppl.fit, "one_coin", crowd(), **given) == []
    seen = clouds(60, 40)[0]
    assert blind(crowdppl.fit, "raykar", seen, inference="em", settings={"training": TRAINING}) == []
