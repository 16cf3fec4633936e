"""A report on a panel of models: how many opinions they are worth, who thinks alike, what people say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.criticism.collusion import excess_agreement
from crowdppl.data.ids import native
from crowdppl.errors import CrowdpplError
from crowdppl.evaluation import panel as panels
from crowdppl.primitives.model import discount_of
from crowdppl.report import allowance, classes
from crowdppl.report.blocks import Figure, Steps, Text
from crowdppl.report.facts import Facts
from crowdppl.report.pictures import Dots, Heat
from crowdppl.report.words import Say, say
from crowdppl.results.correction import MIN_GOLD

MOST_JUDGES = 12
POINTS = 0.03
"""Agreement beyond that of independent judges from which on two are said to think alike."""
CHANCE = 2.33
"""Standard deviations that it must be beyond chance, by which one pair of a hundred is alike that is not."""


def wilson(right: int, n: int) -> tuple[float, float]:
    """A 95 % range of a share (Wilson 1927)."""
    z, p = 1.96, right / n
    middle, reach = (
        (p + z**2 / 2 / n) / (1 + z**2 / n),
        z * sqrt(p * (1 - p) / n + z**2 / 4 / n**2) / (1 + z**2 / n),
    )
    return max(0.0, middle - reach), min(1.0, middle + reach)


def minute(facts: Facts) -> Iterator[Any]:
    """How many opinions there are, on how many items all agree, and what people say of these."""
    of = facts.of_classes
    yield next(iter(classes.minute(facts)))
    yield from allowance.told(facts)
    if (worth := _worth(facts)) is not None:
        n = facts.data.n_annotators
        yield Text(
            say(
                "minute.opinions",
                judges=n,
                worth=round(worth[0], 1),
                low=round(worth[1], 1),
                high=round(worth[2], 1),
            )
        )
    asked = of.votes.sum(1) >= 2
    alike = asked & (of.votes.max(1) == of.votes.sum(1))
    yield Text(say("minute.all_agree", share=float(alike.sum() / max(1, asked.sum())), n=int(alike.sum())))
    seen = of.compared
    if (both := alike & seen).sum() >= 5:
        right = int(of.right[both].sum())
        low, high = wilson(right, int(both.sum()))
        yield Text(say("minute.people_agree", n=int(both.sum()), right=right, low=low, high=high))
    if seen.any():
        right, n = int(of.right[seen].sum()), int(seen.sum())
        low, high = wilson(right, n)
        yield Text(say("minute.report_right", n=n, right=right, low=low, high=high))
    else:
        yield Text(say("minute.no_people"))


def _worth(facts: Facts) -> tuple[float, float, float] | None:
    """How many independent judges the panel is worth, with a 90 % range; None where it cannot be told."""
    try:
        gold = facts.gold if facts.gold is not None and facts.of_classes.compared.sum() >= MIN_GOLD else None
        figures = panels.panel(facts.posterior, gold).figures()
    except CrowdpplError:
        return None
    mean, low, high = (
        float(figures[x].to_numpy()[figures.index.get_loc("effective")]) for x in ("mean", "low", "high")
    )
    return (mean, low, high) if np.isfinite([mean, low, high]).all() else None


def _alike(facts: Facts) -> tuple[np.ndarray, np.ndarray] | None:
    """Agreement of pairs beyond that of independent judges, also in standard deviations, (J, J); else NaN."""
    fit = (
        facts.posterior if discount_of(facts.posterior.model) == 0 else allowance.without_discount(facts.posterior)
    )
    try:
        excess = excess_agreement(facts.posterior if fit is None else fit, alone=True)
    except CrowdpplError:
        return None
    n = facts.data.n_annotators
    matrix, distance = np.full((n, n), np.nan), np.full((n, n), np.nan)
    more = excess.agreed - excess.expected
    for a, b in ((excess.one, excess.other), (excess.other, excess.one)):
        matrix[a, b], distance[a, b] = more / excess.shared, more / np.sqrt(np.maximum(excess.variance, 1e-12))
    return matrix, distance


def results(facts: Facts) -> Iterator[Any]:
    """Judge against judge: how much more they agree than independent ones would, those alike beside one another."""
    from scipy.cluster.hierarchy import leaves_list, linkage  # slow to import

    found = _alike(facts)
    names = [native(x) for x in facts.data.annotators]
    if found is None:
        return
    matrix, distance = found
    if len(names) > 2:
        apart = np.nanmax(np.nan_to_num(matrix, nan=0.0)) - np.nan_to_num(matrix, nan=0.0)
        order = leaves_list(linkage(apart[np.triu_indices(len(names), 1)], "average"))
    else:
        order = np.arange(len(names))
    if len(names) <= MOST_JUDGES:
        some = matrix[np.ix_(order, order)]
        who = [names[k] for k in order]
        shades = np.clip(some / max(0.1, float(np.nanmax(some, initial=0.1))), 0, 1).tolist()
        shown = np.round(100 * some).tolist()
        yield Figure(Heat(who, who, shades, shown, "points", say("results.points"), tone="c"), say("results.alike"))
    one, other = np.triu_indices(len(names), 1)
    most = np.argsort(-np.nan_to_num(matrix[one, other], nan=-1), kind="stable")[:5]
    pairs = [
        (one[k], other[k])
        for k in most
        if matrix[one[k], other[k]] >= POINTS and distance[one[k], other[k]] > CHANCE
    ]
    for a, b in pairs[:3]:
        yield Text(say("results.pair", one=names[a], other=names[b], points=round(100 * float(matrix[a, b]))))
    yield Text(say("results.next_judge" if pairs else "results.no_twins"))


def first(facts: Facts) -> Iterator[Any]:
    """The least sure items, and those that are not as most models say."""
    return classes.first(facts)


def people(facts: Facts) -> Iterator[Any]:
    """How often each agrees with people on the items that these settled; without, with the panel."""
    of, data = facts.of_classes, facts.data
    item, who, answer = data.label_codes()
    seen = of.compared.any()
    kept = answer < data.n_classes
    kept = kept & of.compared[item] if seen else kept
    truth = of.known if seen else of.code
    right = np.bincount(who[kept], truth[item[kept]] == answer[kept], data.n_annotators).astype(int)
    times = np.bincount(who[kept], minlength=data.n_annotators)
    table = pd.DataFrame({"right": right, "n": times}, index=data.annotators)
    table = table[table["n"] > 0]
    table = table.iloc[np.argsort(-(table["right"] / table["n"]).to_numpy(), kind="stable")]
    rows: list[tuple[Any, Say | str, float, float, float, str]] = []
    for name, row in table.head(2 * MOST_JUDGES).iterrows():
        low, high = wilson(int(row["right"]), int(row["n"])) if seen else (np.nan, np.nan)
        rows.append(
            (native(name), say("people.answers", n=int(row["n"])), float(row["right"] / row["n"]), low, high, "a")
        )
    if not seen:
        yield Text(say("people.judges_note"))
        yield Figure(Dots(rows, "pct", say("people.axis_panel")), say("people.picture"))
        return
    there = of.compared & ~of.tied
    if n := int(there.sum()):
        most = int((of.votes.argmax(1) == of.known)[there].sum())
        rows.append((say("people.majority"), say("people.answers", n=n), most / n, *wilson(most, n), "c"))
    yield Figure(Dots(rows, "pct", say("people.axis_people")), say("people.picture_people"))
    width = 1.96 * sqrt(2 * 0.25 / max(1, int(of.compared.sum())))
    yield Text(say("people.differences", points=round(100 * width), n=int(of.compared.sum())))


def mixed(facts: Facts) -> Iterator[Any]:
    """Answers by what people said, where they did."""
    of, data = facts.of_classes, facts.data
    if not of.compared.any() or data.n_classes > MOST_JUDGES:
        return
    item, _, answer = data.label_codes()
    kept = (answer < data.n_classes) & of.compared[item]
    n = data.n_classes
    counts = np.bincount(of.known[item[kept]] * n + answer[kept], minlength=n * n).reshape(n, n)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    shades = np.where(counts.sum(1, keepdims=True) > 0, share, np.nan).tolist()
    rows = [say("mixed.people_say", name=name) for name in of.classes]
    heat = Heat(rows, of.classes, shades, share.tolist(), "pct", say("mixed.models_say"), counts.tolist())
    yield Figure(heat, say("mixed.picture_people"))


def steps(facts: Facts, files: Sequence[str]) -> Iterator[Any]:
    """What to do next."""
    of = facts.of_classes
    found: list[Say] = []
    if (n := int(of.compared.sum())) == 0:
        found.append(say("steps.settle", n=len(facts.random_items())))
    elif n < 200:
        found.append(say("steps.settle_more", n=n))
    differ = int(((of.votes > 0).sum(1) > 1).sum())
    if differ:
        found.append(say("steps.differ", n=differ))
    found.append(say("steps.estimate"))
    found.append(say("steps.keep_twins"))
    yield Steps(found)


def listing(facts: Facts) -> Iterator[Any]:
    """All labels, the least sure first."""
    return classes.listing(facts)
