"""Whole sets of classes, in a report on decisions about each class: which are frequent, what occurs together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from crowdppl.data.ids import native
from crowdppl.data.kinds.sets import NO_YES, OF_SETS
from crowdppl.report.blocks import Column, Figure, Table, Text
from crowdppl.report.classes import FEW, LONG, MOST_CLASSES, TIERS
from crowdppl.report.facts import LIKELY, SETTLED, Facts
from crowdppl.report.pictures import TONES, Bars, Heat
from crowdppl.report.words import Say, say

MOST_SETS = 10
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class OfSets:
    """Whole sets: of each item the classes that are more probable than not. Classes count as independent given the
    answers, as in ``posterior.sets()``.

    Attributes:
        item, name: codes of the item and of the class of each decision, (N,).
        yes: probability that the class is in the set, (N,).
        sure: probability of each item's whole set, (I,).
        kind: the number of each item's set among all different ones, the most frequent first, (I,).
        example: an item with each different set, (S,).
    """

    facts: Facts
    item: np.ndarray
    name: np.ndarray
    yes: np.ndarray
    sure: np.ndarray
    kind: np.ndarray
    example: np.ndarray

    @classmethod
    def of(cls, facts: Facts) -> OfSets:
        """The sets of a fit."""
        known = facts.data.item_covariates
        assert known is not None
        item, name = (known[part].cat.codes.to_numpy(np.int64) for part in OF_SETS)
        yes = facts.posterior.result.probabilities[:, facts.data.classes.get_loc(NO_YES[1])]
        n = len(known[OF_SETS[0]].cat.categories)
        sure = np.exp(np.bincount(item, np.log(np.maximum(yes, 1 - yes)), n))
        # Sets are the same where sums of random numbers of their classes are.
        keys = np.random.default_rng(0).integers(0, 2**63, int(name.max(initial=0)) + 1, dtype=np.uint64)
        total = np.zeros(n, np.uint64)
        inside = yes > 0.5
        np.add.at(total, item[inside], keys[name[inside]])
        _, example, kind, count = np.unique(total, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(-count, kind="stable")
        place = np.empty(len(order), int)
        place[order] = np.arange(len(order))
        return cls(facts, item, name, yes, sure, place[kind], example[order])

    def _names(self, part: str) -> list[Any]:
        known = self.facts.data.item_covariates
        assert known is not None
        return [native(x) for x in known[part].cat.categories]

    @cached_property
    def items(self) -> list[Any]:
        """Names of the items."""
        return self._names(OF_SETS[0])

    @cached_property
    def classes(self) -> list[Any]:
        """Names of the classes."""
        return self._names(OF_SETS[1])

    @cached_property
    def rows(self) -> list[np.ndarray]:
        """The decisions of each item."""
        return np.split(np.argsort(self.item, kind="stable"), np.cumsum(np.bincount(self.item))[:-1])

    def members(self, item: int) -> list[int]:
        """Codes of the classes in an item's set."""
        rows = self.rows[item]
        return [int(k) for k in np.sort(self.name[rows[self.yes[rows] > 0.5]])]

    def said(self, item: int) -> Say:
        """An item's set in words."""
        members = self.members(item)
        return say("columns.set", names=[self.classes[k] for k in members]) if members else say("columns.no_class")

    def of_class(self, code: int, values: np.ndarray, missing: float) -> np.ndarray:
        """The value of each item's decision about a class, (I,)."""
        out = np.full(len(self.sure), missing)
        here = self.name == code
        out[self.item[here]] = values[here]
        return out

    def expected(self, item: int) -> float:
        """How many items are expected to have the set of a given one."""
        p = np.clip(self.yes, TINY, 1 - TINY)
        total = np.bincount(self.item, np.log1p(-p), len(self.sure))
        for code in self.members(item):
            total = total + self.of_class(code, np.log(p) - np.log1p(-p), -np.inf)
        return float(np.exp(total).sum())

    @cached_property
    def right(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each item whether all its decisions were checked, and whether the set is right, bool (I,)."""
        of, n = self.facts.of_classes, len(self.sure)
        total = np.bincount(self.item, minlength=n)
        return (
            np.bincount(self.item, of.compared, n) == total,
            np.bincount(self.item, of.compared & of.right, n) == total,
        )


def about(facts: Facts) -> Say:
    """What a decision is."""
    of = facts.once(OfSets.of)
    return say("head.decisions", items=len(of.items), n=len(of.classes), classes=of.classes)


def minute(facts: Facts) -> Iterator[Any]:
    """How many whole sets are sure, and how many will be right."""
    of = facts.once(OfSets.of)
    right = round(100 * float(of.sure.mean()))
    said = [say("minute.sets", n=int((of.sure >= SETTLED).sum()), total=len(of.sure), right=right)]
    checked, found = of.right
    if n := int(checked.sum()):
        said.append(say("minute.sets_checked", n=n, right=int((checked & found).sum())))
    yield Text(said)


def results(facts: Facts) -> Iterator[Any]:
    """The most frequent whole sets in three shades, and which classes occur together."""
    of = facts.once(OfSets.of)
    tier = np.where(of.sure >= SETTLED, 0, np.where(of.sure >= LIKELY, 1, 2))
    counts = np.zeros((len(of.example), 3), int)
    np.add.at(counts, (of.kind, tier), 1)
    n = min(MOST_SETS, len(of.example))
    bars = Bars(
        [of.said(x) for x in of.example[:n]],
        [(int(a), int(b), int(c)) for a, b, c in counts[:n]],
        "columns.whole",
        [of.expected(x) for x in of.example[:n]],
    )
    key = [(tone, say(f"tiers.{name}")) for tone, (name, _) in zip(TONES, TIERS, strict=True)]
    title = say("results.sets" if n == len(of.example) else "results.some_sets", n=n, total=len(of.example))
    yield Figure(bars, title, say("results.sets_note"), [*key, ("line", say("results.expected"))])
    yield from _together(of)


def _together(of: OfSets) -> Iterator[Figure]:
    """Of the items of a class, the share that has each other one."""
    total = np.bincount(of.name, of.yes, len(of.classes))
    k = np.sort(np.argsort(-total, kind="stable")[:MOST_CLASSES])
    k = k[total[k] >= 0.5]
    if len(k) < 2:
        return
    p = np.stack([of.of_class(code, of.yes, 0.0) for code in k])
    both = p @ p.T
    share = both / total[k][:, None]
    share[np.diag_indices(len(k))] = np.nan
    names, counts = [of.classes[x] for x in k], np.rint(both).astype(int).tolist()
    picture = Heat(names, names, share.tolist(), share.tolist(), "pct", say("results.also_has"), counts)
    yield Figure(picture, say("results.co_occur"), say("results.co_occur_note"))


def first(facts: Facts) -> Iterator[Any]:
    """Items whose whole set is least sure."""
    of = facts.once(OfSets.of)
    yield Text(say("first.sets"))
    yield Table(_columns(), [_row(of, int(n)) for n in np.argsort(of.sure, kind="stable")[:FEW]])


def _columns() -> list[Column]:
    return [Column(say("columns.item"), "id"), Column(say("columns.whole")), Column(say("columns.sure"), "pct")]


def _row(of: OfSets, item: int) -> list[Any]:
    return [of.items[item], of.said(item), float(of.sure[item])]


def listing(facts: Facts) -> Iterator[Table]:
    """All whole sets, the least sure first."""
    of = facts.once(OfSets.of)
    order = np.argsort(of.sure, kind="stable")[:LONG]
    rows = [_row(of, int(n)) for n in order]
    yield Table(_columns(), rows, len(of.sure), "sets.csv", say("listing.sets"), long=True)
