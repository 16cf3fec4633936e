"""What a report computes of a fit once, and several of its sections read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from crowdppl.core.doubt import Doubt
from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import native
from crowdppl.data.split import whole_units
from crowdppl.evaluation.evaluate import matched
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.primitives.model import discount_of
from crowdppl.report.blocks import Column, Table
from crowdppl.report.words import say
from crowdppl.results import annotators as annotator_tables
from crowdppl.results import truths

T = TypeVar("T")
SETTLED, LIKELY = 0.95, 0.7
"""Probabilities from which on a label is settled, or likely."""
CHECKS = 50
"""Items that a person is asked to check."""
ENOUGH = 50
"""Answers from which on a person is judged; fewer where nobody gave so many."""


@dataclass(frozen=True, eq=False)
class Facts:
    """A fit, and what is known beside it.

    Attributes:
        posterior: the fit.
        doubts: of the fit.
        gold: known truths by item, for comparison alone; None without.
        source: name of the file of labels; "" of a fit in Python.
        command: how to make the report again.
        text: what each item says, by item; None without.
        people: labels of the same items by people; None without.
    """

    posterior: Fit
    doubts: Sequence[Doubt] = ()
    gold: Any = None
    source: str = ""
    command: str = ""
    text: Any = None
    people: Annotations | None = None
    _made: dict[Any, Any] = field(default_factory=dict, init=False)

    @property
    def data(self) -> Annotations:
        """The annotations of the fit."""
        return self.posterior.data

    @property
    def are_models(self) -> bool:
        """Whether all annotators were said to be models, which err together."""
        people = getattr(self.posterior.model, "people", ())
        return discount_of(self.posterior.model) > 0 and not any(people)

    @property
    def are_numbers(self) -> bool:
        """Whether truths are numbers."""
        return isinstance(self.posterior.result.truth, NumberTruth)

    @cached_property
    def ids(self) -> list[Any]:
        """Ids of the items, as a page shows them: parts of a pair beside one another."""
        index = self.data.item_index
        if index.nlevels > 1:
            return [" | ".join(map(str, parts)) for parts in index]
        return [native(x) for x in index]

    def named(self, name: Any) -> Any:
        """A class in the words of its kind, where it has some."""
        word = self.data.alphabet.kind.means.get(name)
        return native(name) if word is None else say(f"means.{word}")

    @cached_property
    def _texts(self) -> dict[Any, str]:
        """What is known of the texts, by id, or the parts of one, as they are spelled."""
        spelled = ((tuple(map(str, x)) if isinstance(x, tuple) else str(x)) for x in self.text.index)
        return dict(zip(spelled, map(str, self.text), strict=True))

    def text_of(self, n: int) -> str:
        """The text of an item, or of the object of which it is a part; a dash where there is none."""
        name = self.data.item_index[n]
        if not isinstance(name, tuple):
            return self._texts.get(str(name), "–")
        parts = tuple(map(str, name))
        return self._texts.get(parts, self._texts.get(parts[0], "–"))

    def told(self, table: Table, items: Iterable[int]) -> Table:
        """A table of items with their texts, where these are known."""
        if self.text is None:
            return table
        rows = [[row[0], self.text_of(int(n)), *row[1:]] for n, row in zip(items, table.rows, strict=True)]
        columns = [table.columns[0], Column(say("columns.text"), "text"), *table.columns[1:]]
        return replace(table, columns=columns, rows=rows)

    @cached_property
    def annotators(self) -> pd.DataFrame:
        """The table of ``annotators()``."""
        return annotator_tables.annotators(self.posterior)

    @cached_property
    def enough(self) -> float:
        """Answers from which on a person is judged."""
        return min(ENOUGH, float(self.annotators["labels"].max()) / 4)

    @cached_property
    def truth(self) -> pd.DataFrame:
        """The table of ``truth()``."""
        return truths.truth(self.posterior)

    def once(self, make: Callable[[Facts], T]) -> T:
        """What a function makes of the facts, which it is asked for once."""
        if make not in self._made:
            self._made[make] = make(self)
        found: T = self._made[make]
        return found

    @cached_property
    def of_classes(self) -> OfClasses:
        """What there is where truths are classes."""
        return OfClasses.of(self)

    def random_items(self, n: int = CHECKS) -> np.ndarray:
        """Codes of random items without a known truth, for a person to check: ``n``, or whole texts and sets."""
        unit = whole_units(self.data)
        free = ~self.data.is_known
        drawn = np.random.default_rng(0).permutation(np.unique(unit[free]))
        sizes = np.cumsum(np.bincount(unit[free], minlength=int(unit.max(initial=0)) + 1)[drawn])
        drawn = drawn[: int(np.searchsorted(sizes, n)) + 1]
        place = np.full(int(unit.max(initial=0)) + 1, len(drawn))
        place[drawn] = np.arange(len(drawn))
        found = np.flatnonzero(free & (place[unit] < len(drawn)))
        return found[np.argsort(place[unit[found]], kind="stable")]


@dataclass(frozen=True, eq=False)
class OfClasses:
    """Labels of items that are classes.

    Attributes:
        table: that of ``labels()``.
        code: of each item's label, (N,).
        p: probability of each class, (N, K).
        sure: probability of the label, (N,).
        tier: 0 settled, 1 likely, 2 open, (N,).
        votes: answers of each class, (N, K).
        known: code of the truth that is compared with, -1 where unknown, (N,).
        given: whether the fit was given the truth, (N,).
    """

    facts: Facts
    table: pd.DataFrame
    code: np.ndarray
    p: np.ndarray
    sure: np.ndarray
    tier: np.ndarray
    votes: np.ndarray
    known: np.ndarray
    given: np.ndarray

    @classmethod
    def of(cls, facts: Facts) -> OfClasses:
        data, table = facts.data, truths.labels(facts.posterior)
        sure = table["probability"].to_numpy(np.float64)
        known = np.full(len(sure), -1)
        if facts.gold is not None:
            _, code, row, _ = matched(facts.posterior, facts.gold)
            known[row] = code
        return cls(
            facts,
            table,
            np.asarray(data.classes.get_indexer(pd.Index(table["label"]))),
            facts.posterior.result.probabilities,
            sure,
            np.where(sure >= SETTLED, 0, np.where(sure >= LIKELY, 1, 2)),
            np.asarray(data.votes()),
            np.where(data.is_known, -1, known),
            data.is_known,
        )

    @cached_property
    def wrong(self) -> np.ndarray:
        """Expected errors of each label, (N,)."""
        return np.asarray(np.maximum(1 - self.sure, 0))

    @property
    def classes(self) -> list[Any]:
        """Names of the classes, in the words of their kind."""
        return [self.facts.named(x) for x in self.facts.data.classes]

    @cached_property
    def compared(self) -> np.ndarray:
        """Whether a truth is known that the fit was not given, (N,)."""
        return np.asarray(self.known >= 0)

    @cached_property
    def right(self) -> np.ndarray:
        """Whether the label is the known truth, (N,); of no meaning elsewhere."""
        return np.asarray(self.known == self.code)

    @cached_property
    def tied(self) -> np.ndarray:
        """Whether a count of answers decides nothing, (N,): two classes have most, or there is no answer."""
        most = self.votes.max(1, keepdims=True)
        return np.asarray((self.votes == most).sum(1) > 1)

    @cached_property
    def overruled(self) -> np.ndarray:
        """Codes of items whose label is not that which most people gave, the surest first."""
        rows = np.arange(len(self.code))
        found = ~self.tied & (self.votes[rows, self.code] < self.votes.max(1)) & ~self.given
        at = np.flatnonzero(found)
        return at[np.argsort(-self.sure[at], kind="stable")]

    @cached_property
    def by_doubt(self) -> np.ndarray:
        """Codes of items, the least sure first."""
        return np.argsort(self.sure, kind="stable")

    @cached_property
    def answers(self) -> np.ndarray:
        """Answers by the class that is true, as probabilities tell, and the class given, (K, K)."""
        item, _, answer = self.facts.data.label_codes()
        n = self.p.shape[1]
        kept = answer < n
        item, answer = item[kept], answer[kept]
        return np.stack([np.bincount(answer, self.p[item, k], n) for k in range(n)])

    def curve(self, points: int = 61) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Shares kept, the surest first, expected shares wrong among them, and those found (NaN where unknown)."""
        order = np.argsort(-self.sure, kind="stable")
        order = order[~self.given[order]] if (~self.given).any() else order
        n = len(order)
        at = np.unique(np.linspace(0, n - 1, min(points, n)).astype(int))
        said = np.cumsum(self.wrong[order])[at] / (at + 1)
        seen = np.cumsum(self.compared[order])[at]
        missed = np.cumsum((self.compared & ~self.right)[order])[at]
        found = np.where(seen >= 20, missed / np.maximum(seen, 1), np.nan)
        return (at + 1) / n, said, found

    def together(self) -> int:
        """How many of the surest labels, without those given, are said to be ``SETTLED`` right together."""
        wrong = np.sort(self.wrong[~self.given])
        return int((np.cumsum(wrong) <= (1 - SETTLED) * np.arange(1, len(wrong) + 1)).sum())

    def share_right(self) -> tuple[float, float, float] | None:
        """The share of all labels that is right, by those checked, with a 95 % range; None below ten.

        What the probabilities say of all, corrected by what they miss on the items checked (prediction-powered
        inference, Angelopoulos et al. 2023), which are taken for a random sample of the items.
        """
        free, seen = ~self.given, self.compared
        n, total = int(seen.sum()), int(free.sum())
        if n < 10:
            return None
        missed = self.right[seen] - self.sure[seen]
        mean = float(self.sure[free].mean() + missed.mean())
        # Of all items, those seen are known.
        error = sqrt(max(1 - n / total, 0) * (float(missed.var(ddof=1)) + 0.25 / n) / n)
        return mean, max(0.0, mean - 1.96 * error), min(1.0, mean + 1.96 * error)
