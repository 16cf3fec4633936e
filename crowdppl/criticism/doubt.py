"""One reason not to believe a fit, and how it names whom it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdppl.tables.codebook import plain

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

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


def named(posterior: Posterior, codes: Sequence[int] | np.ndarray) -> str:
    """The first annotators of some, by their ids."""
    return listed([repr(plain(posterior.data.annotators[code])) for code in codes])


def listed(parts: Sequence[str]) -> str:
    """The first of some, and how many more there are."""
    more = len(parts) - NAMED
    return ", ".join(parts[:NAMED]) + (f" and {more} more" if more > 0 else "")
