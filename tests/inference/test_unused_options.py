"""Options that the engine which runs does not have are warned of, once, and no others."""

import warnings
from typing import Any

import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import UnusedOptionWarning

BOTH = {"a": "em", "b": "gibbs"}
SHORT: dict[str, Any] = {"draws": 20, "warmup": 10}


@pytest.fixture(scope="module")
def data() -> Annotations:
    return crowdppl.anaesthetists()


def said(call: Any, *args: Any, **how: Any) -> list[str]:
    """What is warned of options, at the place of this call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **how)
    found = [one for one in caught if one.category is UnusedOptionWarning]
    assert {one.filename for one in found} <= {__file__}
    return [str(one.message) for one in found]


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("vb", {"draws": 7}),
        ("vb", {"learning_rate": 0.1}),
        ("em", {"guide": "point"}),
        ("gibbs", {"restarts": 2, **SHORT}),
    ],
)
def test_an_option_that_the_engine_does_not_have(data: Annotations, engine: str, options: dict[str, Any]) -> None:
    (found,) = said(crowdppl.fit, "one_coin", data, inference=engine, **options)
    assert next(iter(options)) in found and "changes nothing" in found


@pytest.mark.parametrize(("engine", "options"), [("em", {"batch_size": 9}), ("nuts", {"checkpoint": "a.ckpt"})])
def test_what_an_engine_refuses_is_not_warned_of_first(
    data: Annotations, engine: str, options: dict[str, Any]
) -> None:
    with (
        warnings.catch_warnings(action="error", category=UnusedOptionWarning),
        pytest.raises(crowdppl.errors.MethodError),
    ):
        crowdppl.fit("one_coin", data, inference=engine, **options)


def test_what_auto_chooses_decides(data: Annotations) -> None:
    assert said(crowdppl.fit, "one_coin", data, tolerance=None, seed=1, **SHORT) == []
    (found,) = said(crowdppl.fit, "one_coin", data, restarts=2, **SHORT)
    assert "inference is by gibbs" in found
