"""Warnings point to the caller's own line."""

import inspect
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import crowdppl
from crowdppl.core.validation import warn
from crowdppl.errors import (
    ConvergenceWarning,
    CrowdpplWarning,
    DoubtWarning,
    GoldLeakWarning,
    SparseDataWarning,
    UnusedOptionWarning,
)
from tests.crowd import crowd


def line() -> int:
    frame = inspect.currentframe()
    return frame.f_back.f_lineno


def test_a_warning_is_at_the_line_that_asked() -> None:
    with pytest.warns(CrowdpplWarning, match="so it is") as told:
        warn("so it is", CrowdpplWarning)
        warn(CrowdpplWarning("so it is, too"))
        after = line()
    assert [(w.filename, w.lineno) for w in told] == [(__file__, after - 2), (__file__, after - 1)]


def fit(**how: Any) -> Callable[[], object]:
    return lambda: crowdppl.fit(data=crowd(40, 5, 3, 3), **({"inference": "vb"} | how))


ASKED: dict[str, tuple[Callable[[], object], type[Warning]]] = {
    "a fit": (fit(method="one_coin", max_iterations=1), ConvergenceWarning),
    "a corrected fit": (fit(method="one_coin", max_iterations=1, calibrate=True), ConvergenceWarning),
    "an option": (fit(method="one_coin", draws=10), UnusedOptionWarning),
    "no features": (fit(method="raykar", inference="em"), CrowdpplWarning),
    "a doubt": (lambda: crowdppl.fit("dawid_skene", crowd(20, 5, 3, 2), inference="em"), DoubtWarning),
    "annotations": (lambda: crowdppl.Annotations.from_frame(FEW), SparseDataWarning),
    "truths told": (lambda: crowdppl.evaluate(told(), pd.Series({0: 0, 1: 1, 2: 1})), GoldLeakWarning),
}
FEW = pd.DataFrame({"item": [1, 2, 3], "annotator": ["a", "b", "c"], "label": ["x", "y", "x"]})


def told() -> crowdppl.Posterior:
    return crowdppl.fit("one_coin", crowd(40, 5, 3, 3), inference="vb", gold={0: 0})


@pytest.mark.parametrize("what", ASKED)
def test_so_is_what_is_found_deep_inside(what: str) -> None:
    ask, category = ASKED[what]
    with pytest.warns(category) as said:
        ask()
    assert {one.filename for one in said if issubclass(one.category, CrowdpplWarning)} == {__file__}
