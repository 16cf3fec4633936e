"""A story on trial: small data sets of every kind that a method must cope with, and quick fits of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.annotations import Annotations
from crowdppl.errors import CrowdpplWarning
from crowdppl.story import Story, card_of

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

ENGINES = ("em", "vb", "gibbs", "nuts", "svi")
QUICK: dict[str, dict[str, Any]] = {
    "em": {"max_iterations": 20},
    "vb": {"max_iterations": 20},
    "gibbs": {"chains": 2, "draws": 5, "warmup": 2},
    "nuts": {"chains": 1, "draws": 3, "warmup": 1},
    "svi": {"max_iterations": 10},
}
"""Fits that are over in an instant: a contract asks whether they are right so far, not whether they settled."""

GOLD = {"item 03": "c", "mute 1": "a"}
Names = Mapping[str, Mapping[Any, Any]]
Renamed = Callable[[Story, Names], Story]


@dataclass(frozen=True)
class Trial:
    """A story and the data sets it is tried on.

    Attributes:
        story: the method with its settings.
        renamed: for a story whose settings name items, annotators or classes: (story, names) -> the story for
            renamed data, where ``names["annotator"]`` maps old ids to new ones, and so for item and class.
    """

    story: Story
    renamed: Renamed | None = None
    _fits: dict[Any, Any] = field(default_factory=dict, repr=False)
    _cells: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> str:
        """The kind of label that the story is for."""
        card = card_of(self.story)
        return "nominal" if card is None else card.kind

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Labels of 12 items by 5 annotators, who are right about three times in four; c is the rarest class."""
        rng = np.random.default_rng(7)
        found = []
        for i in range(12):
            truth = "aabbc"[i % 5]
            for a in rng.permutation(5)[: 2 + i % 4]:
                label = truth if rng.random() < 0.75 else rng.choice(list("abc"))
                found.append((f"item {i:02}", f"annotator {a}", str(label)))
        return pd.DataFrame(found, columns=["item", "annotator", "label"])

    @cached_property
    def data(self) -> Annotations:
        """The plain case."""
        return self.read(self.rows)

    @cached_property
    def odd(self) -> Annotations:
        """Everything at once: a class nobody gave, abstentions, a repeat, items without labels, and gold."""
        more = [("item 00", "annotator 1", "?"), ("item 01", "annotator 2", "?"), ("item 00", "annotator 1", "b")]
        rows = pd.concat([self.rows, pd.DataFrame(more, columns=list(self.rows.columns))])
        return self.read(rows, classes=list("abcd"), abstentions=["?"], items=["mute 1", "mute 2"], gold=GOLD)

    def read(self, rows: pd.DataFrame, **options: Any) -> Annotations:
        """Annotations of a table, without warnings about how small it is."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdpplWarning)
            options = {"classes": list("abc"), "kind": self.kind, **options}
            return Annotations.from_frame(rows, **options)

    def cell(self, engine: str) -> str:
        """What the zoo's table says of an engine and this story."""
        if engine not in self._cells:
            from crowdppl.inference.cells import cell  # costs an import of everything

            self._cells[engine] = cell(self.story, self.data, engine)
        return self._cells[engine]

    def accepted(self, *engines: str) -> list[str]:
        """Those of the engines that treat the story."""
        return [engine for engine in engines or ENGINES if not self.cell(engine).startswith("refused")]

    @property
    def climbers(self) -> list[str]:
        """Engines whose result is no matter of chance: those of em and vb that treat the story, else svi."""
        return self.accepted("em", "vb") or self.accepted("svi")

    def fit(
        self, engine: str, data: Annotations | None = None, story: Story | None = None, **how: Any
    ) -> Posterior:
        """A quick fit, remembered for the plain data."""
        key = (engine, tuple(sorted(how.items()))) if data is None and story is None else None
        if key is None or key not in self._fits:
            found = fit_quickly(story or self.story, self.data if data is None else data, engine, **how)
            if key is None:
                return found
            self._fits[key] = found
        result: Posterior = self._fits[key]
        return result


def fit_quickly(story: Story, data: Annotations, engine: str, **how: Any) -> Posterior:
    """A fit of a few iterations, without the warning that it did not settle."""
    from crowdppl.inference import fit

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return fit(story, data, inference=engine, **{**QUICK[engine], **how})


def require(held: bool, message: str) -> None:
    """Fails a check.

    Raises:
        AssertionError: with the message, unless what was required held.
    """
    if not held:
        raise AssertionError(message)
