"""Numbers that callers give: numpy's are taken as Python's, and what is none is refused by name."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crowdppl.core.validation import (
    is_number,
    is_whole,
    number_within,
    seed_number,
    share_between,
    switch,
    whole_number,
)
from crowdppl.errors import MethodError

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


@pytest.mark.parametrize(
    ("check", "named"),
    [
        (lambda: whole_number("n", "3", 1, "ask for one"), r"^n='3' .* 1 or more; ask for one$"),
        (lambda: whole_number("n", pd.DataFrame({"a": [1]}), 1), "^n=a DataFrame "),
        (lambda: whole_number("n", -(10**5000), 1), "^n=an int "),
        (lambda: seed_number(-1), r"^seed=-1 .*2\*\*63$"),
        (lambda: share_between("level", 1, "usually 0.95"), r"^level=1 .*; usually 0.95$"),
        (lambda: switch("x", 1), "^x=1 .*True or False$"),
    ],
)
def test_the_argument_the_value_and_the_remedy_are_said(check: Callable[[], Any], named: str) -> None:
    with pytest.raises(MethodError, match=named):
        check()
