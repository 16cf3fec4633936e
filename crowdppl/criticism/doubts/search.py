"""The search for doubts: what is known of a fit, and the functions that look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.core.validation import listed
from crowdppl.criticism.sparse_data import SparseData, sparse_data
from crowdppl.data.annotations import Annotations
from crowdppl.data.coded import cell_counts
from crowdppl.data.ids import native
from crowdppl.data.kinds.classes import Classes
from crowdppl.data.kinds.parts import compares
from crowdppl.inference.result import ClassProbabilities, Fit
from crowdppl.primitives.model import discount_of

AUTO = "crowdppl.fit('auto', data)"
"""The remedy for labels of an item that have more in common than its truth."""
ONE_CLASS_LEVEL, POOLED_LEVEL = 0.001, 0.01
"""Chance of an annotator's labels to be of one class, and of others to name it as elsewhere; of all together."""


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

    @property
    def called(self) -> str:
        """What the classes are called."""
        kind = self.posterior.data.alphabet.kind
        return kind.called if isinstance(kind, Classes) else "classes"

    @property
    def compares(self) -> bool:
        """Whether labels say which objects are better."""
        return compares(self.posterior.data)

    @property
    def methods(self) -> tuple[str, str, str]:
        """Methods for these labels: of few parameters, of one an annotator, and whose prior leans on the truth."""
        own = self.posterior.data.alphabet.kind.methods
        if self.compares:
            return own[0], own[0], own[-1]
        return "majority_vote", "one_coin", "bayesian_dawid_skene"

    def annotators(self, codes: Sequence[int] | np.ndarray) -> tuple[Any, ...]:
        """Ids of annotators by codes."""
        return tuple(native(self.posterior.data.annotators[code]) for code in codes)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Labels of each item that name a class, int32 (N,)."""
        data = self.posterior.data
        found = np.empty(data.n_items, np.int32)
        for block in data.blocks:
            at = data.order[block.offset : block.offset + block.n_items]
            found[at] = block.vote_counts().sum(1).cpu().numpy()
        return found

    def classes(self, codes: Sequence[int] | np.ndarray) -> tuple[Any, ...]:
        """Names of classes by codes."""
        return tuple(native(self.posterior.data.classes[code]) for code in codes)

    def refit(self, model: str = "posterior.model", **arguments: str) -> str:
        """The call that fits the model once more, with further arguments, all as code."""
        correction = self.posterior.correction
        if correction is not None and discount_of(self.posterior.model):  # of a panel of models
            people: Any = getattr(self.posterior.model, "people", ())
            models = self.annotators([n for n, person in enumerate(people) if not person])
            model, how = "'auto'", {"models": str(list(models)) if any(people) else "True"}
        elif correction is not None and len(correction.weights) > 1:
            model, how = "'auto'", {}
        else:
            how = {"inference": repr(self.posterior.inference)}
            how |= {} if correction is None else {"calibrate": "True"}
        given = [f"{name}={code}" for name, code in (how | arguments).items()]
        return f"crowdppl.fit({', '.join([model, 'data', *given])})"

    def reread(self, **options: str) -> str:
        """The call that reads the rows once more, with other options as code."""
        data = self.posterior.data
        own = {"kind": repr(data.kind)}
        if data.space.ordered:
            own["classes"] = str(list(self.classes(range(data.n_classes))))
        if len(data.answers) > data.n_classes:
            own["abstentions"] = str(data.answers[data.n_classes :].tolist())
        given = [f"{name}={code}" for name, code in (own | options).items()]
        return f"crowdppl.Annotations.from_frame({', '.join(['rows', *given])})"

    def with_setting(self, name: str, value: float) -> str:
        """The call that fits with another value of a setting."""
        return self.refit(f"dataclasses.replace(posterior.model, {name}={value:g})")


def quoted(ids: Sequence[Any]) -> str:
    """The first of some ids, as they are written in Python."""
    return listed([repr(name) for name in ids])


def names_one_class(data: Annotations) -> np.ndarray:
    """Annotators who only ever name one class, which others name more often there than elsewhere, bool (A,)."""
    from scipy.special import bdtrc, ndtr  # slow to import; scipy.stats takes ten times as long

    counts = cell_counts(data.blocks)[:, : data.n_classes]
    given, share = counts.sum(1), (counts.sum(0) / max(1, counts.sum()))[counts.argmax(1)]
    rare: np.ndarray = (counts.max(1) == given) & (share**given < ONE_CLASS_LEVEL)
    if not rare.any():
        return rare
    item, annotator, answer = data.label_codes()
    item, annotator, answer = (x[answer < data.n_classes] for x in (item, annotator, answer))
    votes = data.votes()
    alike, others = (
        np.bincount(annotator, x - 1, data.n_annotators) for x in (votes[item, answer], votes.sum(1)[item])
    )
    often = bdtrc(alike - 1, others.astype(int), share) < ONE_CLASS_LEVEL
    # Each alone has few labels: all of them together, whose pairs are counted from both ends.
    beyond, variance = (alike - others * share)[rare], (others * share * (1 - share))[rare]
    if ndtr(-beyond.sum() / np.sqrt(max(1e-9, 2 * variance.sum()))) < POOLED_LEVEL:
        often |= alike > others * share
    return np.asarray(rare & often)


Find = Callable[[Search], Iterator[Doubt]]


class Finder(NamedTuple):
    """A function that looks for doubts of a kind, and what it needs.

    Attributes:
        truth: the type of truths that it is for.
        thorough: whether it fits again.
        engines: by which a fit has to be; none where any will do.
        needs: what a fit has to hold, as a path of attributes and keys.
    """

    kind: str
    find: Find
    truth: type
    thorough: bool
    engines: tuple[str, ...]
    needs: tuple[str, ...]

    def applies(self, search: Search) -> bool:
        """Whether a fit is such that there may be something to find."""
        fit: Any = search.posterior
        if (self.engines and fit.inference not in self.engines) or self.thorough > search.thorough:
            return False
        for name in self.needs:
            fit = fit.get(name) if isinstance(fit, Mapping) else getattr(fit, name, None)
        return fit is not None and isinstance(search.posterior.result.truth, self.truth)


FINDERS: list[Finder] = []
FIRST = ("thin", "diagonal", "collapse", "spammers", "one class", "unanimous", "unnamed", "order", "prevalence")
ORDER = (
    *FIRST,
    "position",
    "permuted",
    "abstained",
    "repeats",
    "copying",
    "together",
    "drift",
    "flat",
    "own",
    "pareto",
    "misfit",
    "votes",
    "large sets",
    "bias",
)
"""Kinds in the order in which they are told; others come last."""


def doubt(
    kind: str,
    *,
    truth: type = ClassProbabilities,
    thorough: bool = False,
    engines: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
) -> Callable[[Find], Find]:
    """Registers a generator of doubts of a kind; where it does not apply (``Finder``) it is not asked."""

    def register(find: Find) -> Find:
        FINDERS.append(Finder(kind, find, truth, thorough, engines, needs))
        FINDERS.sort(key=lambda finder: ORDER.index(finder.kind) if finder.kind in ORDER else len(ORDER))
        return find

    return register
