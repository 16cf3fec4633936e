"""Numbers that callers give: how many, seeds, shares and switches; numpy's as Python's."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from crowdppl.doors.naming import shown
from crowdppl.errors import CrowdpplError, MethodError

SEEDS = 2**63
"""Seeds lie below: torch's streams take no larger ones."""
SEED = f"a whole number from 0 and below 2**{SEEDS.bit_length() - 1}"


def is_whole(value: object) -> TypeGuard[int]:
    """Whether something is a whole number, of any kind; True and False are no numbers."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether something is a finite number, of any kind; True and False are no numbers."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def whole_number(
    name: str, value: Any, least: int, hint: str = "", error: type[CrowdpplError] = MethodError
) -> int:
    """A whole number that is large enough, as Python's.

    Args:
        name: of the argument, for the message.
        value: what was given.
        least: the least that makes sense.
        hint: what to give instead, for the message.
        error: what is raised.

    Raises:
        MethodError: (or ``error``) when it is no whole number, or too small.
    """
    remedy = f"; {hint}" if hint else ""
    if not is_whole(value):
        raise error(f"{name}={shown(value)} must be a whole number, {least} or more{remedy}")
    if value < least:
        raise error(f"{name}={shown(value)} must be at least {least}{remedy}")
    return int(value)


def seed_number(value: Any) -> int:
    """A seed, as Python's.

    Raises:
        MethodError: when it is no whole number, below 0, or too large for torch.
    """
    if not is_whole(value) or not 0 <= value < SEEDS:
        raise MethodError(f"seed={shown(value)} must be {SEED}")
    return int(value)


def number_within(
    name: str,
    value: Any,
    wanted: str,
    holds: Callable[[float], bool],
    hint: str = "",
    error: type[CrowdpplError] = MethodError,
) -> float:
    """A finite number in a range, as Python's.

    Args:
        name: of the argument, for the message.
        value: what was given.
        wanted: the range in words, for the message: "a number above 0".
        holds: whether a number lies in it.
        hint: what to give instead, for the message.
        error: what is raised.

    Raises:
        MethodError: (or ``error``) when it is no finite number, or out of range.
    """
    if not is_number(value) or not holds(value):
        raise error(f"{name}={shown(value)} must be {wanted}" + (f"; {hint}" if hint else ""))
    return float(value)


def share_between(name: str, value: Any, hint: str = "") -> float:
    """A number above 0 and below 1, as Python's.

    Raises:
        MethodError: when it is none.
    """
    return number_within(name, value, "a number between 0 and 1", lambda x: 0 < x < 1, hint)


def switch(name: str, value: Any, hint: str = "") -> bool:
    """True or False, as Python's; what merely counts as one of them is refused.

    Raises:
        MethodError: for anything else.
    """
    if not isinstance(value, bool | np.bool_):
        raise MethodError(f"{name}={shown(value)} must be True or False" + (f"; {hint}" if hint else ""))
    return bool(value)
