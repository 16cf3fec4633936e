"""Annotations, posteriors and choices that callers give: what is something else is refused by name.

The classes are looked up by name, so that every module can ask, and a bare table opens no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from crowdppl.doors.naming import kind_of, shown
from crowdppl.errors import CrowdpplError, DataError, MethodError

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.posterior import Posterior

Given = TypeVar("Given")


def require_annotations(data: Any, name: str = "data") -> Annotations:
    """The same, when it is annotations.

    Args:
        data: what was given.
        name: of the argument, for the message.

    Raises:
        DataError: for anything else, a DataFrame of labels say.
    """
    if isinstance(data, import_module("crowdppl.data.annotations").Annotations):
        found: Annotations = data
        return found
    raise no_annotations(data, name)


def require_data(data: Given) -> Given:
    """The same, when a story may be given it: annotations, or a block of them.

    Raises:
        DataError: for anything else.
    """
    if isinstance(data, type) or not hasattr(data, "as_block"):
        raise no_annotations(data)
    return data


def require_posterior(fitted: Any) -> Posterior:
    """The same, when it is a posterior.

    Raises:
        DataError: for anything else, annotations say.
    """
    if isinstance(fitted, import_module("crowdppl.posterior").Posterior):
        found: Posterior = fitted
        return found
    raise DataError(
        f"posterior is {kind_of(fitted)}; give what a fit returned: crowdppl.fit(method, data), or "
        "crowdppl.load(path)"
    )


def require_path(path: Any, error: type[CrowdpplError] = DataError) -> Path:
    """A path, of a path or its text.

    Raises:
        DataError: (or ``error``) for anything else, a DataFrame say.
    """
    if not isinstance(path, str | PathLike):
        raise error(f"path is {kind_of(path)}; give where the file or folder is, as text or a Path")
    return Path(path)


def require_text(name: str, value: Any) -> str | None:
    """The same, when it is text or None.

    Raises:
        DataError: for anything else; it names the argument.
    """
    if value is not None and not isinstance(value, str):
        raise DataError(f"{name} is {kind_of(value)}; give it as text, or leave it out")
    return value


def one_of(name: str, value: Any, names: Sequence[str]) -> str:
    """The same, when it is one of some names.

    Args:
        name: of the argument, for the message.
        value: what was given.
        names: what it may be, two or more.

    Raises:
        MethodError: for anything else.
    """
    if isinstance(value, str) and value in names:
        return value
    *first, last = map(repr, names)
    raise MethodError(
        f"{name}={shown(value)} is {'neither' if len(first) == 1 else 'none of'} {', '.join(first)} "
        f"{'nor' if len(first) == 1 else 'and'} {last}"
    )


def no_annotations(data: Any, name: str = "data") -> DataError:
    """What to raise of something that is no annotations."""
    return DataError(
        f"{name} is {kind_of(data)}; make annotations of it first: crowdppl.read_annotations(path), or "
        "crowdppl.Annotations.from_frame(frame)"
    )
