"""Options that the engine which runs does not have are warned of, once, and no others."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import UnusedOptionWarning
from crowdppl.inference.engines import ENGINES
from crowdppl.inference.options import ENGINES_WITH, FitOptions

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
    ("engine", "options", "message"),
    [
        ("vb", {"draws": 7}, "draws=7 changes nothing: it is an option of gibbs and nuts, and inference is by vb"),
        (
            "vb",
            {"learning_rate": 0.1},
            "an option of svi, and inference is by vb; leave it out, or take another engine",
        ),
        ("em", {"guide": "point"}, "guide='point' changes nothing"),
        ("gibbs", {"restarts": 2, **SHORT}, "restarts=2 changes nothing: it is an option of em and vb and svi"),
    ],
)
def test_an_option_that_the_engine_does_not_have(
    data: Annotations, engine: str, options: dict[str, Any], message: str
) -> None:
    (found,) = said(crowdppl.fit, "one_coin", data, inference=engine, **options)
    assert message in found


@pytest.mark.parametrize(("engine", "options"), [("em", {"batch_size": 9}), ("gibbs", {"checkpoint": "a.ckpt"})])
def test_what_an_engine_refuses_is_not_warned_of_first(
    data: Annotations, engine: str, options: dict[str, Any]
) -> None:
    with warnings.catch_warnings(), pytest.raises(crowdppl.errors.MethodError):
        warnings.simplefilter("error", UnusedOptionWarning)
        crowdppl.fit("one_coin", data, inference=engine, **options)


def test_what_auto_chooses_decides(data: Annotations) -> None:
    assert said(crowdppl.fit, "one_coin", data, tolerance=None, seed=1, **SHORT) == []
    (found,) = said(crowdppl.fit, "one_coin", data, restarts=2, **SHORT)
    assert "inference is by gibbs" in found
    (found,) = said(crowdppl.fit, "auto", data, draws=20)
    assert "draws=20 changes nothing" in found and "inference is by vb" in found


def test_methods_that_are_compared_share_their_options(data: Annotations) -> None:
    two: Any = {"a": "one_coin", "b": "one_coin"}
    (found,) = said(crowdppl.compare, two, data, folds=2, inference=BOTH, guide="point", restarts=1, **SHORT)
    assert "guide='point'" in found and "inference is by em and gibbs" in found
    (found,) = said(crowdppl.heldout_score, "one_coin", data, folds=2, inference="em", draws=20)
    assert "draws=20" in found


def test_every_engine_and_option_that_is_named_is_there() -> None:
    assert set(ENGINES_WITH) <= set(FitOptions.__annotations__)
    assert {engine for engines in ENGINES_WITH.values() for engine in engines} == set(ENGINES)
