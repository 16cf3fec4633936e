"""The search for doubts: what is known of a fit, and the functions that look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.core.validation import listed
from crowdppl.criticism.spammers import names_one_class
from crowdppl.criticism.sparse_data import SparseData, sparse_data
from crowdppl.data.coded import cell_counts, count_repeats
from crowdppl.data.ids import native
from crowdppl.inference.result import ClassProbabilities, Fit
from crowdppl.results.correction import labels_an_item

AUTO = "crowdppl.fit('auto', data)"
"""The remedy for labels of an item that have more in common than its truth."""
COINS = (("right", "wrong"), ("knows", "guesses"))
"""Settings that are pseudo-counts of labels on the diagonal, and of those beside it."""
UNUSED = {"crowd_prior_strength": (None, 0), "prior": ("default",), "form": ("generative",)}
"""Settings under which prior_strength and prior_accuracy have no effect, unless they have these values."""
QUICK_PAIRS = {"em": 20_000}
MAX_PAIRS, MAX_SIZE = 200_000, 100_000_000
"""Pairs of labels of one item up to which they are compared beside a fit, by em fewer; and times K squared."""


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
        if self.posterior.correction is not None:
            first = ["'auto'", "data"]
        else:
            first = [model, "data", f"inference={self.posterior.inference!r}"]
        return f"crowdppl.fit({', '.join([*first, *(f'{name}={code}' for name, code in arguments.items())])})"

    def lean(self) -> tuple[str, str]:
        """How to give the diagonal more prior weight: the end of a sentence, and the call."""
        model: Any = self.posterior.model
        known = {field.name: getattr(model, field.name) for field in fields(model)} if is_dataclass(model) else {}
        for one, other in COINS:
            if all(isinstance(known.get(name), int | float) for name in (one, other)):
                now = f"{known[one]:g}, where {other}= is {known[other]:g}"
                text = f"let the prior lean more on the diagonal, by the setting {one}= (now {now})"
                return text, self.with_setting(one, 2 * known[one])
        mass, share = known.get("prior_strength"), known.get("prior_accuracy", "")
        share = (1 + 1 / self.posterior.data.n_classes) / 2 if share is None else share
        used = all(known.get(name, usual[0]) in usual for name, usual in UNUSED.items())
        if used and isinstance(mass, int | float) and isinstance(share, int | float):
            now = f"prior_accuracy= (now {share:.2g}) and prior_strength= (now {mass:g} labels a row)"
            text = f"let the prior lean more on the diagonal, by the settings {now}"
            return text, self.with_setting("prior_strength", 2 * mass)
        text = "take a method whose prior leans on the diagonal, such as bayesian_dawid_skene"
        return text, "crowdppl.fit('bayesian_dawid_skene', data)"

    def with_setting(self, name: str, value: float) -> str:
        """The call that fits with another value of a setting."""
        return self.refit(f"dataclasses.replace(posterior.model, {name}={value:g})")

    def testable(self, posterior: Fit) -> bool:
        """Whether items have labels of several annotators, few repeats, and not too many to be compared at once."""
        data = posterior.data
        sizes = labels_an_item(data).astype(np.int64)
        pairs = int((sizes * (sizes - 1)).sum()) // 2
        most = min(QUICK_PAIRS.get(posterior.inference, MAX_PAIRS), MAX_SIZE // data.n_classes**2)
        if not pairs or (pairs > most and not self.thorough):
            return False
        return count_repeats(data.blocks) <= 0.05 * data.n_labels


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
ORDER: tuple[str, ...] = (
    "thin",
    "diagonal",
    "collapse",
    "spammers",
    "one class",
    "unanimous",
    "unnamed",
    "order",
    "prevalence",
)
ORDER += ("permuted", "abstained", "copying", "together", "own", "misfit", "votes", "bias")
"""Kinds in the order in which they are told; others come last."""


def doubt(kind: str, *, truth: type = ClassProbabilities, thorough: bool = False) -> Callable[[Find], Find]:
    """Registers a generator of doubts of a kind, for fits with such truths; ``thorough`` where it fits again."""

    def register(find: Find) -> Find:
        FINDERS.append(Finder(kind, find, truth, thorough))
        FINDERS.sort(key=lambda finder: ORDER.index(finder.kind) if finder.kind in ORDER else len(ORDER))
        return find

    return register
