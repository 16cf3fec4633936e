"""One reason not to believe a fit, and how it names whom it is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from crowdppl.tables.codebook import plain

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

Look = TypeVar("Look", bound=Callable[..., Any])
NAMED = 5
"""Annotators or classes that a doubt names."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to believe a fit as it is.

    Attributes:
        kind: "thin", "diagonal", "spammers", "unnamed", "order", "prevalence", "permuted", "abstained", "copying",
            "colluding", "diffuse", "modes", "misfit", "votes".
        text: what was found, in figures, and what can be done.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


def looked_once(look: Look) -> Look:
    """Looks for doubts that are not thorough once a posterior, which never changes: some of them take a fit."""

    @wraps(look)
    def doubts(posterior: Posterior, thorough: bool = False) -> tuple[Doubt, ...]:
        if thorough is not False:
            return tuple(look(posterior, thorough))
        if not posterior._doubted:
            posterior._doubted.append(look(posterior))
        return posterior._doubted[0]

    return cast(Look, doubts)


def named(posterior: Posterior, codes: Sequence[int] | np.ndarray) -> str:
    """The first annotators of some, by their ids."""
    return listed([repr(plain(posterior.data.annotators[code])) for code in codes])


def listed(parts: Sequence[str]) -> str:
    """The first of some, and how many more there are."""
    more = len(parts) - NAMED
    return ", ".join(parts[:NAMED]) + (f" and {more} more" if more > 0 else "")
