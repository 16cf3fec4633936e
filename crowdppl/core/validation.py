"""Argument validation: counts, seeds, switches, choices and settings, each refused by name."""

from __future__ import annotations

import inspect
import math
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from crowdppl.errors import CrowdpplError, DataError, MethodError

LONGEST = 80
"""Letters of a value in a message."""
SEEDS = 2**63
"""Seeds lie below: torch takes no larger ones."""
MOST = 100_000_000
"""The largest count: of passes or draws, at no less than a millisecond each, more would take longer than a day."""
SEED = f"a whole number from 0 and below 2**{SEEDS.bit_length() - 1}"
Given = TypeVar("Given")
OF_NUMPY = re.compile(
    r"\b(?:np\.[a-z]\w*|array|tensor)\(([^()]*?)(?:, (?:dtype|device|grad_fn|requires_grad)=[^()]*)?\)"
)
"""A number, text or array as numpy and torch write it."""


def shown(value: object) -> str:
    """A wrong value as messages show it; of a long one, such as a table, its type."""
    try:
        text = OF_NUMPY.sub(r"\1", repr(value)).replace("np.True_", "True").replace("np.False_", "False")
    except ValueError:  # a whole number of thousands of digits
        text = ""
    return text if 0 < len(text) <= LONGEST and "\n" not in text else kind_of(value)


def printable(text: str) -> str:
    """Text for a terminal: control characters, which move the cursor or reverse the line, as their escapes."""
    return "".join(x if x.isprintable() or x == "\n" else x.encode("unicode_escape").decode() for x in text)


def listed(parts: Sequence[str], most: int = 5) -> str:
    """The first of some texts, and how many more there are."""
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {more} more" if more > 0 else "")


def kind_of(value: Any) -> str:
    """The type of a value for messages: "a list", "an Annotations"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number of any type; True and False are no numbers."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number of any type; True and False are no numbers."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _refusal(name: str, value: Any, wanted: str, hint: str, error: type[CrowdpplError]) -> CrowdpplError:
    return error(f"{name}={shown(value)} must be {wanted}" + (f"; {hint}" if hint else ""))


def whole_number(
    name: str, value: Any, least: int, hint: str = "", error: type[CrowdpplError] = MethodError
) -> int:
    """A whole number from ``least`` to ``MOST``, as Python's; else ``error`` with the argument's name and hint."""
    if not is_whole(value):
        raise _refusal(name, value, f"a whole number, {least} or more", hint, error)
    if value < least:
        raise _refusal(name, value, f"at least {least}", hint, error)
    if value > MOST:
        raise _refusal(name, value, f"at most {MOST:,}", hint, error)
    return int(value)


def seed_number(value: Any) -> int:
    """A seed, as Python's: from 0, and not too large for torch."""
    if not is_whole(value) or not 0 <= value < SEEDS:
        raise _refusal("seed", value, SEED, "", MethodError)
    return int(value)


def number_within(
    name: str,
    value: Any,
    wanted: str,
    holds: Callable[[float], bool],
    hint: str = "",
    error: type[CrowdpplError] = MethodError,
) -> float:
    """A finite number that ``holds``, as Python's; ``wanted`` is the range in words: "a number above 0"."""
    if not is_number(value) or not holds(value):
        raise _refusal(name, value, wanted, hint, error)
    return float(value)


def share_between(name: str, value: Any, hint: str = "") -> float:
    """A number above 0 and below 1, as Python's."""
    return number_within(name, value, "a number between 0 and 1", lambda x: 0 < x < 1, hint)


def is_switch(value: Any) -> bool:
    """Whether a value is True or False, of Python or NumPy."""
    numpy = sys.modules.get("numpy")  # slow to import, and there where a value is of NumPy
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


def switch(name: str, value: Any, hint: str = "", error: type[CrowdpplError] = MethodError) -> bool:
    """True or False, as Python's; not 1 and 0."""
    if not is_switch(value):
        raise _refusal(name, value, "True or False", hint, error)
    return bool(value)


def refuse_unknown(owner: str, what: str, given: Iterable[str], known: Collection[str], more: str = "") -> None:
    """Refuses a name that is not known by a MethodError, with those that are spelled like it, or else all."""
    for name in given:
        if name not in known:
            hint = near_names(str(name), known) or f"; choose from {', '.join(known)}"
            raise MethodError(f"{owner} has no {what} {shown(name)}{hint}{more.format(name=name)}")


def near_names(wrong: str, known: Iterable[str]) -> str:
    """The end of a message that a name is unknown: those that are spelled like it, if any."""
    near = get_close_matches(wrong, list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def one_of(name: str, value: Any, names: Sequence[str], error: type[CrowdpplError] = MethodError) -> str:
    """The value, when it is one of some names."""
    if isinstance(value, str) and value in names:
        return value
    raise error(f"{name}={shown(value)} {_none_of(names)}")


def _none_of(names: Sequence[Any]) -> str:
    *first, last = map(repr, names)
    return f"is neither {first[0]} nor {last}" if len(first) == 1 else f"is none of {', '.join(first)} and {last}"


@dataclass(frozen=True)
class Range:
    """Finite numbers that a setting may have: in words, whether one lies in it, and whether it is to be whole."""

    says: str
    holds: Callable[[Any], bool]
    whole: bool = False

    def takes(self, value: object) -> bool:
        """Whether a value is a finite number in the range; True and False are no numbers."""
        return (is_whole if self.whole else is_number)(value) and self.holds(value)


Positive = Annotated[float, Range("a number above 0", lambda x: x > 0)]
NotNegative = Annotated[float, Range("a number, at least 0", lambda x: x >= 0)]
Share = Annotated[float, Range("a number above 0 and below 1", lambda x: 0 < x < 1)]
Count = Annotated[int, Range(f"a whole number from 1 to {MOST:,}", lambda x: 1 <= x <= MOST, whole=True)]
Whole = Annotated[int, Range(f"a whole number from 0 to {MOST:,}", lambda x: 0 <= x <= MOST, whole=True)]


def check_settings(model: object, where: str = "") -> None:
    """Refuses settings that their annotations rule out.

    Checked are constructor arguments annotated as a mapping, ``bool``, ``float`` (finite, no text), ``Literal`` or
    one of the ranges above, alone or in a union; the rest is left to the model.

    Args:
        model: an object that keeps its settings under their own names.
        where: what a message begins with.
    """
    cls: Any = type(model)
    for name, kinds in _declared(cls).items():
        value = getattr(model, name, None)
        if not hasattr(model, name) or any(_is(value, kind) for kind in kinds):
            continue
        if len(kinds) == 1 and get_origin(kinds[0]) is Literal and len(get_args(kinds[0])) > 1:
            raise MethodError(f"{where}{name}={shown(value)} {_none_of(get_args(kinds[0]))}")
        raise MethodError(f"{where}{name}={shown(value)} must be {' or '.join(map(_words, kinds))}")


@lru_cache(maxsize=256)
def _declared(cls: type[Any]) -> dict[str, tuple[Any, ...]]:
    """The types that each setting may have, where one of them can be checked."""
    found = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        annotated = type("One", (), {"__annotations__": {name: parameter.annotation}, "__module__": cls.__module__})
        try:
            kind = get_type_hints(annotated, include_extras=True)[name]
        except Exception:  # a user's model may write what only type checkers can read
            continue
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        checked = get_origin(kind) is Mapping or bool in kinds or float in kinds
        if checked or _counts(kinds) or any(get_origin(k) is Literal or _range(k) for k in kinds):
            found[name] = kinds
    return found


def counts_of(model: object) -> dict[str, int]:
    """The settings that are declared as a ``Count`` and have one, by name; of several, the largest."""
    cls: Any = type(model)
    given = {name: getattr(model, name) for name, kinds in _declared(cls).items() if _counts(kinds)}
    found = {name: max(x, default=0) if isinstance(x, Sequence) else x for name, x in given.items()}
    return {name: x for name, x in found.items() if x is not None}


def _counts(kinds: Sequence[Any]) -> bool:
    """Whether a setting is a ``Count``, or several."""
    return any(Count in (kind, *get_args(kind)) for kind in kinds)


def _range(kind: Any) -> Range | None:
    return next((x for x in getattr(kind, "__metadata__", ()) if isinstance(x, Range)), None)


def _is(value: object, kind: Any) -> bool:
    """Whether a value is of an annotated type, as far as that can be checked."""
    limits = _range(kind)
    if limits is not None:
        return limits.takes(value)
    if kind is NoneType:
        return value is None
    if get_origin(kind) is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(kind))
    if kind is bool:
        return is_switch(value)
    if kind is float:  # in a user's model, a tensor may stand for a number
        return is_number(value) or not isinstance(value, Real | str | NoneType)
    cls = get_origin(kind) or kind
    return not isinstance(cls, type) or isinstance(value, cls)


def _words(kind: Any) -> str:
    limits = _range(kind)
    if limits is not None:
        return limits.says
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    named = {NoneType: "None", bool: "True or False", float: "a finite number", Mapping: "a mapping"}
    return named.get(get_origin(kind) or kind, f"a {getattr(kind, '__name__', kind)}")


def named_settings(settings: Any) -> dict[str, Any]:
    """A copy of settings, a mapping from names."""
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise MethodError(
            f"settings={shown(settings)} is no mapping from names to values; write it as in "
            '{"prevalence": "uniform"}'
        )
    return dict(settings)


def warn(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Warns, by a text of some category or a warning, at the innermost line outside this library."""
    frame, level = sys._getframe(1), 2
    inside = ("crowdppl", "contextlib")  # of decorators of this library
    while str(frame.f_globals.get("__name__")).partition(".")[0] in inside and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def require_data(data: Given) -> Given:
    """The data, when they are annotations or a block of them."""
    if isinstance(data, type) or not hasattr(data, "as_block"):
        raise no_annotations(data)
    return data


def no_annotations(data: Any, name: str = "data") -> DataError:
    """The error for something that is no annotations."""
    return DataError(
        f"{name} is {kind_of(data)}; make annotations of it first: crowdppl.read_annotations(path), or "
        "crowdppl.Annotations.from_frame(frame)"
    )


def require_path(path: Any, error: type[CrowdpplError] = DataError) -> Path:
    """A path, of a path or its text."""
    if not isinstance(path, str | PathLike):
        raise error(f"path is {kind_of(path)}; give where the file or folder is, as text or a Path")
    return Path(path)
