"""The search for doubts: what is known of a fit, and the functions that look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.core.validation import listed
from crowdppl.criticism.spammers import names_one_class
from crowdppl.criticism.sparse_data import SparseData, sparse_data
from crowdppl.data.coded import cell_counts
from crowdppl.data.ids import native
from crowdppl.inference.result import ClassProbabilities, Fit

AUTO = "crowdppl.fit('auto', data)"
"""The remedy for labels of an item that have more in common than its truth."""


@dataclass(frozen=True)
class Search:
    """A search for doubts of a fit, and what several of them need, which is computed once.

    Attributes:
        posterior: the fit.
        thorough: whether to take the time for further fits.
    """

    posterior: Fit
    thorough: bool = False

    @cached_property
    def named(self) -> np.ndarray:
        """Labels of each annotator by class, without abstentions, (A, K)."""
        return cell_counts(self.posterior.data.blocks)[:, : self.posterior.data.n_classes]

    @cached_property
    def given(self) -> np.ndarray:
        """Labels of each annotator that name a class, and all before an update, abstentions included, (A,)."""
        memory = self.posterior.memory
        return np.asarray(self.named.sum(1) + (0 if memory is None else memory.labels))

    @cached_property
    def one_class(self) -> np.ndarray:
        """Annotators who only ever name one class, bool (A,)."""
        return names_one_class(self.posterior.data)

    @cached_property
    def sparse(self) -> SparseData | None:
        """Annotators with too few labels; None where they are few, or the fit is sure of them all the same."""
        return sparse_data(self.posterior, self.given)

    def annotators(self, codes: Sequence[int] | np.ndarray) -> tuple[Any, ...]:
        """Ids of annotators by codes."""
        return tuple(native(self.posterior.data.annotators[code]) for code in codes)

    def classes(self, codes: Sequence[int] | np.ndarray) -> tuple[Any, ...]:
        """Names of classes by codes."""
        return tuple(native(self.posterior.data.classes[code]) for code in codes)

    def refit(self, model: str = "posterior.model", **arguments: str) -> str:
        """The call that fits the model once more, with further arguments, all as code."""
        correction = self.posterior.correction
        if correction is not None and len(correction.weights) > 1:
            model, how = "'auto'", {}
        else:
            how = {"inference": repr(self.posterior.inference)}
            how |= {} if correction is None else {"calibrate": "True"}
        given = [f"{name}={code}" for name, code in (how | arguments).items()]
        return f"crowdppl.fit({', '.join([model, 'data', *given])})"

    def with_setting(self, name: str, value: float) -> str:
        """The call that fits with another value of a setting."""
        return self.refit(f"dataclasses.replace(posterior.model, {name}={value:g})")


def quoted(ids: Sequence[Any]) -> str:
    """The first of some ids, as they are written in Python."""
    return listed([repr(name) for name in ids])


Find = Callable[[Search], Iterator[Doubt]]


class Finder(NamedTuple):
    """A function that looks for doubts of a kind: ``truth`` is the type of truths that it is for, and ``thorough``
    whether it fits again."""

    kind: str
    find: Find
    truth: type
    thorough: bool


FINDERS: list[Finder] = []
FIRST = ("thin", "diagonal", "collapse", "spammers", "one class", "unanimous", "unnamed", "order", "prevalence")
ORDER = (*FIRST, "permuted", "abstained", "copying", "together", "own", "pareto", "misfit", "votes", "bias")
"""Kinds in the order in which they are told; others come last."""


def doubt(kind: str, *, truth: type = ClassProbabilities, thorough: bool = False) -> Callable[[Find], Find]:
    """Registers a generator of doubts of a kind, for fits with such truths; ``thorough`` where it fits again."""

    def register(find: Find) -> Find:
        FINDERS.append(Finder(kind, find, truth, thorough))
        FINDERS.sort(key=lambda finder: ORDER.index(finder.kind) if finder.kind in ORDER else len(ORDER))
        return find

    return register
