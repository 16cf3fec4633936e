"""Settings of a story, checked by what their annotations say: ``Literal``, or a number in one of these ranges."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from crowdppl.doors.counts import is_number, is_whole
from crowdppl.errors import MethodError


@dataclass(frozen=True)
class Range:
    """Finite numbers that a setting may have.

    Attributes:
        says: the range in words.
        holds: whether a number lies in it.
        whole: whether it has to be a whole number.
    """

    says: str
    holds: Callable[[Any], bool]
    whole: bool = False

    def takes(self, value: object) -> bool:
        """Whether a value is a finite number in the range; True and False are no numbers."""
        return (is_whole if self.whole else is_number)(value) and self.holds(value)


Positive = Annotated[float, Range("a number above 0", lambda x: x > 0)]
NotNegative = Annotated[float, Range("a number, at least 0", lambda x: x >= 0)]
Share = Annotated[float, Range("a number above 0 and below 1", lambda x: 0 < x < 1)]
Count = Annotated[int, Range("a whole number, at least 1 and below 2**63", lambda x: 1 <= x < 2**63, whole=True)]
Whole = Annotated[int, Range("a whole number, at least 0 and below 2**63", lambda x: 0 <= x < 2**63, whole=True)]


def check_settings(story: object, where: str = "") -> None:
    """Refuses settings that their annotations rule out.

    Looked at are constructor arguments that are annotated as a mapping, ``bool``, ``float`` (no text, and numbers
    have to be finite), ``Literal`` or one of the ranges above, alone or among other kinds; the rest is left to the
    story.

    Args:
        story: an object that keeps its settings under their own names.
        where: what a message begins with.

    Raises:
        MethodError: naming the setting, its value and what it may be.
    """
    cls: Any = type(story)
    for name, kinds in _declared(cls).items():
        value = getattr(story, name, None)
        if hasattr(story, name) and not any(_is(value, kind) for kind in kinds):
            raise MethodError(f"{where}{name}={value!r} {_wanted(kinds)}")


def named_settings(settings: Any) -> dict[str, Any]:
    """Settings by name, as they were handed over.

    Raises:
        MethodError: when they are no mapping from names.
    """
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise MethodError(
            f'settings={settings!r} is no mapping from names to values; write it as in {{"prevalence": "uniform"}}'
        )
    return dict(settings)


@lru_cache(maxsize=256)
def _declared(cls: type[Any]) -> dict[str, tuple[Any, ...]]:
    """The kinds that each setting may be of, where one of them can be checked."""
    found = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        spelled = type(
            "Spelled", (), {"__annotations__": {name: parameter.annotation}, "__module__": cls.__module__}
        )
        try:
            kind = get_type_hints(spelled, include_extras=True)[name]
        except Exception:  # a story of a user's own may spell what only type checkers can read
            continue
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        plain = get_origin(kind) is Mapping or bool in kinds or float in kinds
        if plain or any(get_origin(k) is Literal or _range(k) for k in kinds):
            found[name] = kinds
    return found


def _range(kind: Any) -> Range | None:
    return next((x for x in getattr(kind, "__metadata__", ()) if isinstance(x, Range)), None)


def _is(value: object, kind: Any) -> bool:
    limits = _range(kind)
    if limits is not None:
        return limits.takes(value)
    if kind is NoneType:
        return value is None
    if get_origin(kind) is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(kind))
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is float:  # a tensor of a user's own story may stand for a number
        return (
            value is not None
            and not isinstance(value, str | bool)
            and (not isinstance(value, Real) or is_number(value))
        )
    cls = get_origin(kind) or kind
    return not isinstance(cls, type) or isinstance(value, cls)


def _wanted(kinds: tuple[Any, ...]) -> str:
    names = [repr(one) for kind in kinds if get_origin(kind) is Literal for one in get_args(kind)]
    if len(kinds) == 1 and len(names) == 2:
        return f"is neither {names[0]} nor {names[1]}"
    if len(kinds) == 1 and names:
        return f"is none of {', '.join(names[:-1])} and {names[-1]}"
    return f"must be {' or '.join(_said(kind) for kind in kinds)}"


def _said(kind: Any) -> str:
    limits = _range(kind)
    if limits is not None:
        return limits.says
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if kind is NoneType:
        return "None"
    if kind in (bool, float):
        return "True or False" if kind is bool else "a finite number"
    return "a mapping" if get_origin(kind) is Mapping else f"a {getattr(kind, '__name__', kind)}"
