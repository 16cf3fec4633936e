"""A report on a ranking: which neighbours are sure, tiers, who picks the better one, circles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.ids import native
from crowdppl.data.kinds.comparisons import grades_of
from crowdppl.data.kinds.parts import SIDES
from crowdppl.data.kinds.rankings import OF_RANKS
from crowdppl.errors import MethodError
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.report.blocks import Column, Figure, Steps, Table, Text, Tile, Tiles, Tone
from crowdppl.report.facts import LIKELY, SETTLED, Facts
from crowdppl.report.pictures import Dots, Heat
from crowdppl.report.words import Say, say
from crowdppl.results.rankings import order_probabilities, ranking

FEW, LONG, MOST_SHOWN, HALF = 8, 1000, 30, 8
CLEAR = 0.9
"""Probability of an order from which on a case is clear."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """A ranking of objects.

    Attributes:
        table: that of ``ranking()``.
        before: probability that the object of the row is before that of the column, (O, O); NaN by points.
    """

    facts: Facts
    table: pd.DataFrame
    before: np.ndarray

    @classmethod
    def of(cls, facts: Facts) -> Ranked | None:
        """The ranking of a fit; None where it ranks no objects, or several groups differ."""
        try:
            table = ranking(facts.posterior)
        except MethodError:
            return None
        if table.index.nlevels > 1 or len(table) < 2:
            return None
        try:
            before = order_probabilities(facts.posterior)
            order = before.index.get_indexer(table.index)
            values = before.to_numpy()[np.ix_(order, order)]
        except MethodError:  # points tell no probabilities
            values = np.full((len(table), len(table)), np.nan)
        return cls(facts, table, values)

    @property
    def ids(self) -> list[Any]:
        """Objects, the best first."""
        return [native(x) for x in self.table.index]

    @cached_property
    def next(self) -> np.ndarray:
        """Probability that each object is before the next one, (O - 1,)."""
        return np.diagonal(self.before, 1)

    @cached_property
    def tiers(self) -> list[tuple[int, int]]:
        """First and last place of each tier: an object joins it unless the first is surely before it."""
        starts = [0]
        for n in range(1, len(self.table)):
            if self.before[starts[-1], n] >= SETTLED:
                starts.append(n)
        return [(a, b - 1) for a, b in zip(starts, [*starts[1:], len(self.table)], strict=True)]

    @cached_property
    def judged(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of pairs that somebody ordered: who, and the places of the better and the worse by that person."""
        data = self.facts.data
        covariates = data.item_covariates
        assert covariates is not None
        item, who, answer = data.label_codes()
        if data.n_classes:
            grade = grades_of(data.n_classes)
            kept = answer < data.n_classes
            item, who, grade = item[kept], who[kept], grade[answer[kept]]
            one, other = (self.table.index.get_indexer(pd.Index(covariates[side])[item]) for side in SIDES)
            clear = grade != 0
            ahead = grade > 0
            return who[clear], np.where(ahead, one, other)[clear], np.where(ahead, other, one)[clear]
        frame = pd.DataFrame({"who": who, "rank": data.frame()["label"].to_numpy(np.float64)})
        frame["problem"] = pd.factorize(covariates[OF_RANKS[0]])[0][item]
        frame["place"] = self.table.index.get_indexer(pd.Index(covariates[OF_RANKS[1]])[item])
        pairs = frame.merge(frame, on=["who", "problem"])
        pairs = pairs[pairs["rank_x"] < pairs["rank_y"]]
        return pairs["who"].to_numpy(), pairs["place_x"].to_numpy(), pairs["place_y"].to_numpy()

    @cached_property
    def ranks_checked(self) -> tuple[int, int]:
        """How many orders of two objects the known ranks of a problem tell, and how many the ranking has, too."""
        data, gold = self.facts.data, self.facts.gold
        found: Any = evaluate(self.facts.posterior, gold, bootstrap=1)
        known, place = found.scored["truth"], self.table.index
        rows = data.item_index.get_indexer(known.index)
        of = data.item_covariates
        assert of is not None
        problem, thing = (of[name].to_numpy()[rows] for name in OF_RANKS)
        frame = pd.DataFrame(
            {"problem": problem, "rank": known.to_numpy(), "place": place.get_indexer(pd.Index(thing))}
        )
        frame = frame[frame["place"] >= 0]
        pairs = frame.merge(frame, on="problem")
        pairs = pairs[pairs["rank_x"] < pairs["rank_y"]]
        return len(pairs), int((pairs["place_x"] < pairs["place_y"]).sum())

    @cached_property
    def wins(self) -> np.ndarray:
        """How often each object was put before each other, (O, O)."""
        _, better, worse = self.judged
        n = len(self.table)
        return np.bincount(better * n + worse, minlength=n * n).reshape(n, n)

    @cached_property
    def people(self) -> pd.DataFrame:
        """By person: clear cases, and the share in which the better one was picked."""
        who, better, worse = self.judged
        p = self.before[better, worse]
        clear = (p >= CLEAR) | (p <= 1 - CLEAR)
        n = np.bincount(who[clear], minlength=self.facts.data.n_annotators)
        right = np.bincount(who[clear], p[clear] >= CLEAR, self.facts.data.n_annotators)
        share = np.where(n > 0, right / np.maximum(n, 1), np.nan)
        reach = 1.96 * np.sqrt(np.maximum(share * (1 - share), 0.25 / (n + 4)) / np.maximum(n, 1))
        columns = {
            "cases": n,
            "right": share,
            "low": np.maximum(share - reach, 0),
            "high": np.minimum(share + reach, 1),
        }
        return pd.DataFrame(columns, index=self.facts.data.annotators)

    @cached_property
    def circles(self) -> list[tuple[int, int, int]]:
        """Objects of which most people put each before the next, around."""
        n = min(len(self.table), MOST_SHOWN)
        beats = (self.wins > self.wins.T)[:n, :n]
        found = [
            (a, int(b), int(c))
            for a in range(n)
            for b in np.flatnonzero(beats[a])
            for c in np.flatnonzero(beats[b] & beats[:, a])
            if a < b and a < c
        ]
        return sorted(
            found, key=lambda x: -min(self.wins[x[0], x[1]], self.wins[x[1], x[2]], self.wins[x[2], x[0]])
        )


def ranked(facts: Facts) -> Ranked:
    """The ranking of a fit that has one."""
    found = facts.once(Ranked.of)
    assert found is not None
    return found


def minute(facts: Facts) -> Iterator[Any]:
    """How many neighbours are in an order that is sure, and tiers."""
    of = ranked(facts)
    p = np.maximum(of.next, 1 - of.next)
    total = len(of.next)
    if np.isfinite(p).all():
        sure = np.where(of.next >= SETTLED, 0, np.where(of.next >= LIKELY, 1, 2))
        tones: Sequence[tuple[str, Tone]] = (("sure", "good"), ("perhaps", "middle"), ("undecided", "bad"))
        tiles = []
        for number, (name, tone) in enumerate(tones):
            n = int((sure == number).sum())
            tiles.append(
                Tile(tone, n, None, say(f"tiles.{name}.title"), say(f"tiles.{name}.text", n=n, total=total))
            )
        yield Tiles(tiles)
        key = "tiers" if len(of.tiers) < len(of.table) else "each_sure"
        yield Text(say(f"minute.{key}", n=len(of.tiers), objects=len(of.table)))
    best = of.table.iloc[0]
    if np.isfinite(best["rank_low"]):
        low, high = int(best["rank_low"]), int(best["rank_high"])
        yield Text(say("minute.first" if high > low else "minute.first_sure", best=of.ids[0], low=low, high=high))
    else:
        yield Text(say("minute.first_alone", best=of.ids[0]))
    if facts.gold is not None and facts.are_numbers:
        told, right = of.ranks_checked
        yield Text(say("minute.ranks_checked", n=told, right=right))
    elif facts.gold is not None:
        seen = facts.of_classes.compared
        yield Text(say("minute.orders_checked", n=int(seen.sum()), right=int(facts.of_classes.right[seen].sum())))


def results(facts: Facts) -> Iterator[Any]:
    """The ranking with ranges of ranks, and how surely each is before the others."""
    of = ranked(facts)
    n = min(len(of.table), MOST_SHOWN)
    rows = []
    for place in range(n):
        row = of.table.iloc[place]
        p = of.next[place] if place < len(of.next) else np.nan
        note: Say | str = say("results.above_next", p=float(p)) if np.isfinite(p) else ""
        low, high = float(row["rank_low"]), float(row["rank_high"])
        rows.append((of.ids[place], note, float(place + 1), low, high, "a"))
    shades = [(a, min(b, n - 1)) for a, b in of.tiers if a < n]
    if n < len(of.table):
        yield Text(say("results.some_objects", n=n, total=len(of.table)), note=True)
    about = say("results.tiers") if 1 < len(of.tiers) < len(of.table) else None
    yield Figure(Dots(rows, "", say("results.rank_axis"), shades=shades), say("results.ranks"), about)
    if n <= 12 and np.isfinite(of.next).all():
        p = of.before[:n, :n]
        names = of.ids[:n]
        yield Figure(
            Heat(names, names, p.tolist(), p.tolist(), "pct", say("results.before_top")), say("results.before")
        )


def first(facts: Facts) -> Iterator[Any]:
    """Neighbours whose order is least sure."""
    of = ranked(facts)
    if not np.isfinite(of.next).all():
        return
    order = np.argsort(np.abs(of.next - 0.5), kind="stable")[:FEW]
    columns = [
        Column(say("columns.one"), "id"),
        Column(say("columns.other"), "id"),
        Column(say("columns.one_better"), "pct"),
    ]
    columns += [Column(say("columns.one_wins")), Column(say("columns.other_wins"))]
    rows = [
        [of.ids[k], of.ids[k + 1], float(of.next[k]), int(of.wins[k, k + 1]), int(of.wins[k + 1, k])] for k in order
    ]
    yield Text(say("first.neighbours"))
    yield Table(columns, rows)


def people(facts: Facts) -> Iterator[Any]:
    """In which share of clear cases each person picks the better one."""
    of = ranked(facts)
    table = of.people[of.people["cases"] > 0]
    if table.empty:
        yield Text(say("people.no_clear_cases"))
        return
    enough = min(20.0, float(table["cases"].max()) / 4)
    judged = table[table["cases"] >= enough].sort_values("right", ascending=False, kind="stable")
    few = len(judged) <= 2 * HALF
    shown = judged if few else judged.iloc[[*range(HALF), *range(len(judged) - HALF, len(judged))]]
    rows = []
    for name, row in shown.iterrows():
        tone = "c" if row["low"] <= 0.5 else "a"
        note = say("people.cases", n=int(row["cases"]))
        rows.append((native(name), note, float(row["right"]), float(row["low"]), float(row["high"]), tone))
    gap = None if few else (HALF, say("people.others", n=len(judged) - 2 * HALF))
    yield Text(say("people.clear", p=CLEAR))
    picture = Dots(rows, "pct", say("people.axis_clear"), (0.5, say("people.coin")), gap)
    yield Figure(picture, say("people.picture_clear"), say("people.note"))
    if rest := len(of.people) - len(judged):
        yield Text(say("people.rest_cases", n=rest), note=True)


def mixed(facts: Facts) -> Iterator[Any]:
    """Circles: each is put before the next by most people."""
    of = ranked(facts)
    if not of.circles:
        yield Text(say("mixed.no_circles"))
        return
    yield Text(say("mixed.circles", n=len(of.circles)))
    columns = [Column(say("columns.circle"), "list"), Column(say("columns.times"), "list")]
    rows = [
        [[of.ids[k] for k in x], [int(of.wins[a, b]) for a, b in zip(x, (*x[1:], x[0]), strict=True)]]
        for x in of.circles[:FEW]
    ]
    yield Table(columns, rows)


def steps(facts: Facts, files: Sequence[str]) -> Iterator[Any]:
    """What to do next."""
    of = ranked(facts)
    found: list[Say] = []
    first_tier = of.tiers[0][1] + 1
    if np.isfinite(of.next).all() and first_tier > 1:
        all_in_one = first_tier == len(of.table)
        found.append(say("steps.no_order_at_all") if all_in_one else say("steps.no_order", n=first_tier))
    if "ask_next.csv" in files:
        found.append(say("steps.ask_pairs"))
    if of.circles:
        found.append(say("steps.circles"))
    found.append(say("steps.use_ranks"))
    yield Steps(found)


def listing(facts: Facts) -> Iterator[Table]:
    """The whole ranking."""
    of = ranked(facts)
    names = [x for x in ("rank", "rank_low", "rank_high", "score", "wins", "losses", "ties") if x in of.table]
    columns = [Column(say("columns.name"), "id")]
    columns += [Column(say(f"columns.{x}"), "num" if x == "score" else "") for x in names]
    rows = [
        [of.ids[n], *(float(row[x]) if x == "score" else row[x] for x in names)]
        for n, (_, row) in enumerate(of.table[names].head(LONG).iterrows())
    ]
    yield Table(columns, rows, len(of.table), "ranking.csv", say("listing.ranks"), long=True)
