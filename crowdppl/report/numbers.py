"""A report on numbers: how finely each item is known, who rates high or low, who moves together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.criticism.design import Design
from crowdppl.criticism.joint_errors import among_all, shared_errors
from crowdppl.data.ids import as_numbers, native
from crowdppl.data.kinds.space import RealLine, number_space
from crowdppl.errors import CrowdpplError
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.report.blocks import Column, Figure, Steps, Table, Text, Tile, Tiles, Tone
from crowdppl.report.facts import Facts
from crowdppl.report.pictures import Dots, Heat, nice_ticks
from crowdppl.report.words import Say, say
from crowdppl.results.truths import fair_averages, shared_variance

FEW, LONG, MOST_RATERS = 8, 1000, 12
PAIRS = 4000
"""Random pairs of items whose order is looked at."""
TOGETHER = 0.3
"""Correlation of errors from which on two people are said to move together."""


@dataclass(frozen=True, eq=False)
class OfNumbers:
    """Estimates of items, and labels as numbers.

    Attributes:
        table: ``estimate``, ``low`` and ``high`` by item.
        space: of the estimates.
        half: half the width of each 95 % range, (N,).
        known: the truth that is compared with, NaN where unknown, (N,).
        held: whether it lies in the range; NaN where unknown, (N,).
    """

    facts: Facts
    table: pd.DataFrame
    space: RealLine
    half: np.ndarray

    @classmethod
    def of(cls, facts: Facts) -> OfNumbers:
        data, table = facts.data, facts.truth
        if data.n_classes:  # places on a scale are told as grades
            table = fair_averages(facts.posterior)
        space = number_space(data.space)
        sd = facts.truth["sd"].to_numpy(np.float64) if not data.n_classes else np.nan
        ends = table[["low", "high"]].to_numpy(np.float64)
        half = np.where(ends[:, 1] >= ends[:, 0], (ends[:, 1] - ends[:, 0]) / 2, 1.96 * sd)
        return cls(facts, table, space, half)

    @cached_property
    def estimate(self) -> np.ndarray:
        """(N,)."""
        return self.table["estimate"].to_numpy(np.float64)

    @cached_property
    def free(self) -> np.ndarray:
        """Items whose truth the fit was not given, bool (N,)."""
        return ~self.facts.data.is_known

    @cached_property
    def labels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Item, annotator and number of each label."""
        data = self.facts.data
        item, annotator, answer = data.label_codes()
        if data.n_classes:
            names = as_numbers(data.answers.to_series())
            numbers = names if np.isfinite(names).all() else np.arange(len(names), dtype=np.float64)
            kept = answer < data.n_classes
            return item[kept], annotator[kept], numbers[answer[kept]]
        return item, annotator, data.frame()["label"].to_numpy(np.float64)

    @cached_property
    def error(self) -> np.ndarray:
        """How far each label lies beyond the estimate of its item."""
        item, _, x = self.labels
        return np.asarray(self.space.error(x, self.estimate[item]))

    @cached_property
    def unit(self) -> float:
        """A round number near a sixteenth of the range of labels."""
        x = self.labels[2]
        low, high = np.quantile(x, [0.02, 0.98])
        return float(nice_ticks(0, max(float(high - low), 1e-9) / 4, 4)[1])

    @cached_property
    def people(self) -> pd.DataFrame:
        """By annotator: labels, mean error, its range, and how exact the rest is."""
        _, who, _ = self.labels
        found = pd.DataFrame({"who": who, "error": self.error}).groupby("who")["error"].agg(["size", "mean", "std"])
        found.index = self.facts.data.annotators[found.index]
        reach = 1.96 * found["std"] / np.sqrt(found["size"])
        return found.assign(low=found["mean"] - reach, high=found["mean"] + reach)

    @cached_property
    def spread(self) -> np.ndarray:
        """Standard deviation of the labels of each item around its estimate; NaN of a single label, (N,)."""
        item = self.labels[0]
        n = np.bincount(item, minlength=len(self.estimate))
        total = np.bincount(item, self.error**2, len(self.estimate))
        return np.where(n > 1, np.sqrt(total / np.maximum(n - 1, 1)), np.nan)


def minute(facts: Facts) -> Iterator[Any]:
    """How many estimates are known how finely, and whether their order is."""
    of = facts.once(OfNumbers.of)
    half, unit = of.half[of.free], of.unit
    tier = np.where(half <= unit, 0, np.where(half <= 2 * unit, 1, 2))
    tiers: Sequence[tuple[str, Tone]] = (("fine", "good"), ("fair", "middle"), ("rough", "bad"))
    tiles = []
    for number, (name, tone) in enumerate(tiers):
        n = int((tier == number).sum())
        values = {"n": n, "unit": unit, "double": 2 * unit}
        tiles.append(
            Tile(
                tone,
                n,
                n / max(1, len(tier)),
                say(f"tiles.{name}.title", **values),
                say(f"tiles.{name}.text", **values),
            )
        )
    yield Tiles(tiles)
    if len(half) and np.isfinite(half).any():
        yield Text(say("minute.width", half=float(np.nanmedian(half))))
    if (sure := _ordered(of)) is not None:
        yield Text(say("minute.order_known" if (tier == 2).mean() > 0.5 < sure else "minute.order", share=sure))
    if facts.gold is not None:
        yield Text(_against_gold(facts))
    if n := int((~of.free).sum()):
        yield Text(say("minute.given", n=n))


def _ordered(of: OfNumbers) -> float | None:
    """The share of random pairs of items whose order is 95 % sure; None where numbers have no order."""
    if not of.space.ordered or len(of.estimate) < 3:
        return None
    one, other = np.random.default_rng(0).integers(0, len(of.estimate), (2, PAIRS))
    kept = one != other
    apart = np.abs(of.estimate[one] - of.estimate[other])[kept]
    return float((apart > 1.645 / 1.96 * np.hypot(of.half[one], of.half[other])[kept]).mean())


def _evaluated(facts: Facts) -> Any:
    return evaluate(facts.posterior, facts.gold, bootstrap=1)


def seen(facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """Of checked estimates the probability that each lies outside of its range, and whether it does."""
    held = facts.once(_evaluated).scored["held"].dropna().to_numpy().astype(bool)
    return np.full(len(held), 0.05), ~held


def _against_gold(facts: Facts) -> Say:
    """How far estimates lie from known truths, and how many of these lie in the ranges."""
    found: Any = facts.once(_evaluated)
    held = found.scored["held"].dropna()
    error = float(found.scored["estimate"].sub(found.scored["truth"]).abs().mean())
    return say(
        "minute.held", n=len(found.scored), held=float(held.mean()) if len(held) else float("nan"), error=error
    )


def results(facts: Facts) -> Iterator[Any]:
    """The highest and the lowest estimates with their ranges."""
    of = facts.once(OfNumbers.of)
    order = np.argsort(-of.estimate, kind="stable")
    few = len(order) <= 2 * FEW
    shown = order if few else np.concatenate([order[:FEW], order[-FEW:]])
    rows = []
    given = np.bincount(of.labels[0], minlength=len(order))
    for n in shown:
        value, half = float(of.estimate[n]), float(of.half[n])
        low, high = (float(of.table[end].iloc[n]) for end in ("low", "high"))
        if not low <= high:  # around the end of a circle
            low, high = value - half, value + half
        rows.append((facts.ids[n], say("people.answers", n=int(given[n])), value, low, high, "a"))
    gap = None if few else (FEW, say("people.others_items", n=len(order) - 2 * FEW))
    yield Figure(Dots(rows, "num", say("results.axis"), None, gap), say("results.dots"))


def first(facts: Facts) -> Iterator[Any]:
    """The items on which people differ most."""
    of = facts.once(OfNumbers.of)
    order = np.argsort(-np.nan_to_num(of.spread, nan=-1), kind="stable")
    order = order[np.isfinite(of.spread[order])][:FEW]
    if not len(order):
        return
    item, _, x = of.labels
    columns = [Column(say("columns.item"), "id"), Column(say("columns.answers"), "list")]
    columns += [Column(say("columns.estimate"), "num"), Column(say("columns.within"), "num")]
    rows = [
        [
            facts.ids[n],
            [round(float(v), 3) for v in np.sort(x[item == n])],
            float(of.estimate[n]),
            float(of.half[n]),
        ]
        for n in order
    ]
    yield Text(say("first.differ"))
    yield facts.told(Table(columns, rows), order)


def people(facts: Facts) -> Iterator[Any]:
    """Who rates above or below the estimates, and how exactly."""
    of = facts.once(OfNumbers.of)
    table = of.people[of.people["size"] >= max(2.0, facts.enough)].sort_values("mean", kind="stable")
    if table.empty:
        return
    low, high = table.iloc[0], table.iloc[-1]
    yield Text(
        say(
            "people.bias",
            low=native(table.index[0]),
            below=abs(float(low["mean"])),
            high=native(table.index[-1]),
            above=abs(float(high["mean"])),
        )
    )
    few = len(table) <= 2 * FEW
    shown = table if few else table.iloc[[*range(FEW), *range(len(table) - FEW, len(table))]]
    rows = []
    for name, row in shown.iterrows():
        tone = "a" if row["low"] <= 0 <= row["high"] else "c"
        rows.append(
            (
                native(name),
                say("people.exact", exact=float(row["std"])),
                float(row["mean"]),
                float(row["low"]),
                float(row["high"]),
                tone,
            )
        )
    gap = None if few else (FEW, say("people.others", n=len(table) - 2 * FEW))
    yield Figure(
        Dots(rows, "num", say("people.axis_bias"), (0.0, say("people.as_others")), gap),
        say("people.bias_picture"),
        say("people.note"),
    )
    rest = of.people[of.people["size"] < max(2.0, facts.enough)]
    if len(rest):
        share = float(rest["size"].sum() / of.people["size"].sum())
        yield Text(say("people.rest", n=len(rest), share=share), note=True)


def mixed(facts: Facts) -> Iterator[Any]:
    """Whose errors go together."""
    if facts.data.n_classes:
        return
    try:
        key, correlation, p = shared_errors(Design.of(facts.data, numbers=True))
    except CrowdpplError:  # no item has labels of several people
        return
    if not len(key):
        return
    names, n = facts.data.annotators, facts.data.n_annotators
    one, other = np.divmod(key, n)
    correlation = np.where(np.abs(correlation) <= 1, correlation, np.nan)  # too few items tell of it
    met = np.unique(np.concatenate([one, other]))
    if len(met) <= MOST_RATERS:
        place = {int(code): k for k, code in enumerate(met)}
        matrix = np.full((len(met), len(met)), np.nan)
        for a, b, r in zip(one, other, correlation, strict=True):
            matrix[place[int(a)], place[int(b)]] = matrix[place[int(b)], place[int(a)]] = r
        who = [native(x) for x in names[met]]
        shades = np.clip(matrix, 0, 1).tolist()
        yield Figure(
            Heat(who, who, shades, (matrix.round(2) + 0.0).tolist(), "num", say("mixed.raters"), tone="c"),
            say("mixed.together"),
        )
    linked = np.flatnonzero((correlation > TOGETHER) & (among_all(p) <= 0.05))
    linked = linked[np.argsort(-correlation[linked], kind="stable")][:3]
    for n_pair in linked:
        yield Text(say("mixed.pair", one=native(names[one[n_pair]]), other=native(names[other[n_pair]])))
    if not len(linked):
        yield Text(say("mixed.no_pair"))


def steps(facts: Facts, files: Sequence[str]) -> Iterator[Any]:
    """What to do next."""
    of = facts.once(OfNumbers.of)
    found: list[Say] = []
    if facts.gold is None:
        found.append(say("steps.check_numbers", n=len(facts.random_items())))
    each = float(np.bincount(of.labels[0], minlength=len(of.estimate)).mean())
    shared = shared_variance(facts.posterior) if not facts.data.n_classes else 0.0
    if shared < 0.25:
        more = ceil(each * (1 - shared) / (0.25 - shared) - each)
        found.append(say("steps.halve", n=max(1, more), each=round(each, 1)))
    else:
        found.append(say("steps.no_halving", width=sqrt(shared)))
    if "ask_next.csv" in files:
        found.append(say("steps.ask_numbers"))
    found.append(say("steps.use_numbers"))
    yield Steps(found)


def listing(facts: Facts) -> Iterator[Table]:
    """All estimates, the widest first."""
    of = facts.once(OfNumbers.of)
    order = np.argsort(-of.half, kind="stable")[:LONG]
    given = np.bincount(of.labels[0], minlength=len(of.estimate))
    titles = ["item", "estimate", "low", "high", "within", "given"]
    columns = [Column(say(f"columns.{x}"), spec) for x, spec in zip(titles, ["id", *["num"] * 4, ""], strict=True)]
    low, high = (of.table[end].to_numpy(np.float64) for end in ("low", "high"))
    rows = [
        [facts.ids[n], float(of.estimate[n]), float(low[n]), float(high[n]), float(of.half[n]), int(given[n])]
        for n in order
    ]
    table = Table(columns, rows, len(of.estimate), "labels.csv", say("listing.estimates"), long=True)
    yield facts.told(table, order)
