"""Whole numbers that callers give: how many, and seeds."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from crowdppl.errors import MethodError


def whole_number(name: str, value: Any, least: int, hint: str = "") -> int:
    """A whole number that is large enough; numpy's as Python's.

    Args:
        name: of the argument, for the message.
        value: what was given.
        least: the least that makes sense.
        hint: what to give instead, for the message.

    Raises:
        MethodError: when it is no whole number, or too small.
    """
    remedy = f"; {hint}" if hint else ""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise MethodError(f"{name}={value!r} must be a whole number, {least} or more{remedy}")
    if value < least:
        raise MethodError(f"{name}={value} must be at least {least}{remedy}")
    return int(value)
