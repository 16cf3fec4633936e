"""Groups of objects, in a report on pairs that are the same or not: what belongs together, and what holds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from crowdppl.data.ids import native
from crowdppl.data.kinds.parts import SIDES
from crowdppl.report.blocks import Column, Figure, Table, Text
from crowdppl.report.classes import FEW, LONG, TIERS, votes
from crowdppl.report.facts import LIKELY, SETTLED, Facts
from crowdppl.report.pictures import TONES, Bars, Box, Boxes
from crowdppl.report.words import Say, say
from crowdppl.results.grouping import clusters

MOST_GROUPS, MOST_MEMBERS = 8, 16
"""Groups of the picture, and members that are named in one."""
SIZES = (2, 3, 4, 5, 10, 20, 50, 100)
"""Smallest sizes of the rows in which groups are counted."""


@dataclass(frozen=True, eq=False)
class OfGroups:
    """Groups of objects, the largest first, of one size that which is held least; those of one object alone apart.

    A group is as sure as its weakest link: of the pairs that hold it together, by the surest of all ways to do so
    (a maximum spanning tree), the one of least probability.

    Attributes:
        group: the number of each object's group, -1 of one that stands alone, (O,).
        left, right: objects of each pair, (N,).
        same: probability that they are the same, (N,).
        size: of each group, (G,).
        link: the pair that is its weakest link; -1 where no pairs that somebody was asked about hold it, (G,).
        held: the probability of that pair, 0 where there is none, (G,).
    """

    facts: Facts
    group: np.ndarray
    left: np.ndarray
    right: np.ndarray
    same: np.ndarray
    size: np.ndarray
    link: np.ndarray
    held: np.ndarray

    @classmethod
    def of(cls, facts: Facts) -> OfGroups:
        """The groups of a fit."""
        known = facts.data.item_covariates
        assert known is not None
        left, right = (known[side].cat.codes.to_numpy(np.int64) for side in SIDES)
        same = facts.posterior.result.probabilities[:, 1]
        _, code = np.unique(clusters(facts.posterior)["cluster"].to_numpy(), return_inverse=True)
        size = np.bincount(code)
        link = weakest_links(code, left, right, same)
        held = np.where(link >= 0, same[link], 0.0)
        order = np.lexsort((held, -size))
        order = order[size[order] > 1]
        number = np.full(len(size), -1)
        number[order] = np.arange(len(order))
        return cls(facts, number[code], left, right, same, size[order], link[order], held[order])

    @cached_property
    def ids(self) -> list[Any]:
        """Names of the objects."""
        known = self.facts.data.item_covariates
        assert known is not None
        return [native(x) for x in known[SIDES[0]].cat.categories]

    @cached_property
    def members(self) -> list[np.ndarray]:
        """The objects of each group, those that are tied to it least first."""
        order = np.lexsort((self.tie, self.group))
        order = order[self.group[order] >= 0]
        return np.split(order, np.cumsum(self.size)[:-1]) if len(self.size) else []

    @cached_property
    def together(self) -> np.ndarray:
        """Whether the objects of a pair are in one group, bool (N,)."""
        return np.asarray((self.group[self.left] == self.group[self.right]) & (self.group[self.left] >= 0))

    @cached_property
    def tie(self) -> np.ndarray:
        """Of each object the probability of its surest pair with another of its group, (O,)."""
        out = np.zeros(len(self.group))
        for side in (self.left, self.right):
            np.maximum.at(out, side[self.together], self.same[self.together])
        return out

    def pair(self, group: int) -> tuple[Any, Any]:
        """The objects of a group's weakest link."""
        pair = self.link[group]
        return self.ids[self.left[pair]], self.ids[self.right[pair]]

    @cached_property
    def alone(self) -> int:
        """How many objects stand alone."""
        return int((self.group < 0).sum())


def weakest_links(code: np.ndarray, left: np.ndarray, right: np.ndarray, same: np.ndarray) -> np.ndarray:
    """The pair of each group by which its objects hang together least, (G,); -1 where pairs do not connect them."""
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import minimum_spanning_tree

    n = len(code)
    inside = np.flatnonzero((code[left] == code[right]) & (left != right))
    one, other = np.minimum(left, right)[inside], np.maximum(left, right)[inside]
    tree = minimum_spanning_tree(coo_array((2 - same[inside], (one, other)), (n, n)).tocsr()).tocoo()
    keys = one * n + other
    order = np.argsort(keys, kind="stable")
    rows, columns = tree.coords
    pair = inside[order[np.searchsorted(keys, rows.astype(np.int64) * n + columns, sorter=order)]]
    pair = pair[np.argsort(same[pair], kind="stable")]
    of, first = np.unique(code[left[pair]], return_index=True)
    out = np.full(int(code.max(initial=-1)) + 1, -1)
    out[of] = pair[first]
    connected = np.bincount(code[left[pair]], minlength=len(out)) == np.bincount(code) - 1
    return np.where(connected, out, -1)


def about(facts: Facts) -> Say:
    """What a pair is."""
    return say("head.pairs", objects=len(facts.once(OfGroups.of).group))


def minute(facts: Facts) -> Iterator[Any]:
    """How many groups there are, and how many are sure."""
    of = facts.once(OfGroups.of)
    values = {"n": len(of.size), "objects": int(of.size.sum()), "alone": of.alone}
    said = [say("minute.groups", **values)]
    if len(of.size):
        said.append(say("minute.groups_sure", n=int((of.held >= SETTLED).sum())))
    yield Text(said)
    classes = facts.of_classes
    if n := int(classes.compared.sum()):
        right = int((of.together == (classes.known == 1))[classes.compared].sum())
        yield Text(say("minute.groups_checked", n=n, right=right))


def results(facts: Facts) -> Iterator[Any]:
    """The largest groups as boxes, and how many there are of each size."""
    of = facts.once(OfGroups.of)
    if not len(of.size):
        return
    boxes = []
    for g, members in enumerate(of.members[:MOST_GROUPS]):
        named = [(of.ids[k], TONES[_tier(of.tie[k])]) for k in members[:MOST_MEMBERS]]
        boxes.append(Box(int(of.size[g]), named, float(of.held[g]), TONES[_tier(of.held[g])], _weakest(of, g)))
    shown, total = len(boxes), len(of.size)
    title = say("results.groups" if shown == total else "results.some_groups", n=shown, total=total)
    yield Figure(Boxes(boxes), title, say("results.groups_note"), _key())
    low = np.array(SIZES)
    row = np.searchsorted(low, of.size, "right") - 1
    counts = np.zeros((len(low), 3), int)
    np.add.at(counts, (row, np.array([_tier(x) for x in of.held])), 1)
    names = [
        say("results.of_size", n=a) if b == a + 1 else say("results.of_sizes", low=a, high=b - 1)
        for a, b in pairwise(SIZES)
    ] + [say("results.of_size_or_more", low=SIZES[-1])]
    there = np.flatnonzero(counts.sum(1))
    bars = Bars([names[k] for k in there], [(int(a), int(b), int(c)) for a, b, c in counts[there]])
    yield Figure(bars, say("results.group_sizes"), key=_key())
    yield Text(say("results.alone", n=of.alone))
    same = facts.of_classes.code == 1
    inside, across = int((of.together & ~same).sum()), int((same & ~of.together).sum())
    if inside + across:
        yield Text(say("results.against_groups", n=inside + across, inside=inside, across=across))


def _key() -> list[tuple[str, Say]]:
    return [(tone, say(f"tiers.{name}")) for tone, (name, _) in zip(TONES, TIERS, strict=True)]


def _tier(p: float) -> int:
    """0 settled, 1 likely, 2 open."""
    return 0 if p >= SETTLED else 1 if p >= LIKELY else 2


def _weakest(of: OfGroups, group: int) -> Say:
    """A group's weakest link in words."""
    if of.link[group] < 0:
        return say("results.not_linked")
    one, other = of.pair(group)
    given = of.facts.of_classes.votes[of.link[group]]
    return say("results.weakest", one=one, other=other, same=int(given[1]), given=int(given.sum()))


def first(facts: Facts) -> Iterator[Any]:
    """Groups that hang by a link that is not sure."""
    of = facts.once(OfGroups.of)
    thin = np.flatnonzero((of.held < SETTLED) & (of.link >= 0))
    thin = thin[np.argsort(of.held[thin], kind="stable")]
    if not len(thin):
        return
    columns = [Column(say("columns.group"), "ids"), Column(say("columns.size")), *_columns_of_link()]
    columns.insert(4, Column(say("columns.answers"), "votes"))
    rows = []
    for g in thin[:FEW]:
        row = _row(of, int(g))
        rows.append([*row[:4], votes(facts.of_classes, int(of.link[g])), *row[4:]])
    yield Text(say("first.groups", n=len(thin)))
    yield Table(columns, rows)


def _columns_of_link() -> list[Column]:
    return [
        Column(say("columns.link_one"), "id"),
        Column(say("columns.link_other"), "id"),
        Column(say("columns.sure"), "pct"),
    ]


def _row(of: OfGroups, group: int) -> list[Any]:
    """Members, size, weakest link and its probability."""
    one, other = of.pair(group) if of.link[group] >= 0 else ("–", "–")
    return [[of.ids[k] for k in of.members[group]], int(of.size[group]), one, other, float(of.held[group])]


def listing(facts: Facts) -> Iterator[Table]:
    """All groups, the largest first."""
    of = facts.once(OfGroups.of)
    columns = [Column(say("columns.group"), "ids"), Column(say("columns.size")), *_columns_of_link()]
    rows = [_row(of, g) for g in range(min(LONG, len(of.size)))]
    if rows:
        yield Table(columns, rows, len(of.size), "clusters.csv", say("listing.groups"), long=True)
