"""A report on classes: what each item is, how sure, who is right how often, what is mixed up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from crowdppl.data.ids import native
from crowdppl.report import allowance
from crowdppl.report.blocks import Column, Figure, Steps, Table, Text, Tile, Tiles, Tone
from crowdppl.report.facts import Facts, OfClasses
from crowdppl.report.pictures import Bars, Curve, Dots, Heat
from crowdppl.report.words import Say, say

TIERS: Sequence[tuple[str, Tone]] = (("settled", "good"), ("likely", "middle"), ("open", "bad"))
MOST_CLASSES = 12
"""Classes of a picture."""
FEW, HALF = 8, 8
"""Rows of a short table, and people at each end of a long list."""
LONG = 1000
"""Rows of a long table."""
AGAIN = 20
"""Simulated answers to each open item."""


def minute(facts: Facts) -> Iterator[Any]:
    """Tiles, and what to expect of all labels."""
    of = facts.of_classes
    free = ~of.given
    tiles = []
    for number, (name, tone) in enumerate(TIERS):
        here = free & (of.tier == number)
        n, wrong = int(here.sum()), float(of.wrong[here].sum())
        text = say(f"tiles.{name}.text", n=n, wrong=wrong)
        if (seen := int((here & of.compared).sum())) > 0:
            missed = int((here & of.compared & ~of.right).sum())
            text = say(f"tiles.{name}.seen", n=n, wrong=wrong, seen=seen, found=missed)
        tiles.append(Tile(tone, n, n / max(1, int(free.sum())), say(f"tiles.{name}.title"), text))
    yield Tiles(tiles)
    share = float(of.sure[free].mean()) if free.any() else 1.0
    yield Text(say("minute.all", right=round(100 * share)))
    if (found := of.share_right()) is not None:
        yield Text(say("minute.checked", n=int(of.compared.sum()), share=found[0], low=found[1], high=found[2]))
    yield from allowance.told(facts)
    counted = []
    if n := int((tied := of.tied & free).sum()):
        counted.append(say("minute.ties", n=n))
        if (seen := tied & of.compared).sum() >= 5:
            counted.append(say("minute.ties_found", n=int(seen.sum()), share=float(of.right[seen].mean())))
    if n := len(of.overruled):
        counted.append(say("minute.overruled", n=n))
    if counted:
        yield Text(counted)
    if int(of.given.sum()):
        yield Text(say("minute.given", n=int(of.given.sum())))


def seen(facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """Of checked labels the probability that each is wrong, and whether it is."""
    of = facts.of_classes
    return of.wrong[of.compared], ~of.right[of.compared]


def results(facts: Facts) -> Iterator[Any]:
    """Bars of each class in three shades, and how many labels can be kept."""
    of = facts.of_classes
    counts = np.stack([np.bincount(of.code[of.tier == tier], minlength=len(of.classes)) for tier in range(3)], 1)
    total = counts.sum(1)
    order = np.arange(len(total))
    if len(total) > MOST_CLASSES:
        order = np.argsort(-total, kind="stable")[:MOST_CLASSES]
        yield Text(say("results.some_classes", n=MOST_CLASSES, total=len(total)), note=True)
    there = order[total[order] > 0]
    if len(there) > 1:
        part = counts[there] / total[there][:, None]
        best, worst = there[part[:, 0].argmax()], there[part[:, 2].argmax()]
        if best != worst and part[:, 2].any():
            yield Text(say("results.easiest", best=of.classes[best], worst=of.classes[worst]))
    rows = [(int(a), int(b), int(c)) for a, b, c in counts[order]]
    key = [(tone, say(f"tiers.{name}")) for tone, (name, _) in zip("abc", TIERS, strict=True)]
    yield Figure(Bars([of.classes[k] for k in order], rows), say("results.bars"), key=key)
    if len(of.code) < 5:
        return
    kept, wrong, found = of.curve()
    ends = [
        np.searchsorted(kept, (~of.given & (of.tier <= tier)).sum() / max(1, (~of.given).sum())) for tier in (0, 1)
    ]
    marks = sorted({min(int(x), len(kept) - 1) for x in ends if x > 0} | {len(kept) - 1})
    marks = [m for n, m in enumerate(marks) if n + 1 == len(marks) or kept[marks[n + 1]] - kept[m] > 0.08]
    seen = tuple(found) if np.isfinite(found).any() else ()
    note = say("results.curve_found") if seen else None
    yield Figure(Curve(tuple(kept), tuple(wrong), seen, marks), say("results.curve"), note)
    together = of.together()
    if 0 < together < int((~of.given).sum()):
        yield Text(say("results.together", n=together))


def first(facts: Facts) -> Iterator[Any]:
    """The least sure items, and those on which most people are overruled."""
    of = facts.of_classes
    shown = [int(n) for n in of.by_doubt if not of.given[n]][:FEW]
    columns = [
        *(
            Column(say("columns.item"), "id"),
            Column(say("columns.answers"), "votes"),
            Column(say("columns.label"), "id"),
        ),
        *(Column(say("columns.sure"), "pct"), Column(say("columns.also"))),
    ]
    rows = [[facts.ids[n], votes(of, n), of.classes[of.code[n]], of.sure[n], also(of, n)] for n in shown]
    yield Text(say("first.least"))
    yield facts.told(Table(columns, rows), shown)
    if len(of.overruled):
        yield Text(say("first.overruled", n=len(of.overruled), shown=min(len(of.overruled), 5)))
        if (seen := of.compared[of.overruled]).sum() >= 5:
            at = of.overruled[seen]
            most = of.votes[at].argmax(1) == of.known[at]
            yield Text(say("first.overruled_found", n=len(at), right=int(of.right[at].sum()), most=int(most.sum())))
        rows = [
            [facts.ids[n], votes(of, n), of.classes[of.votes[n].argmax()], of.classes[of.code[n]], of.sure[n]]
            for n in of.overruled[:5]
        ]
        table = Table([*columns[:2], Column(say("columns.most_said"), "id"), *columns[2:4]], rows)
        yield facts.told(table, of.overruled[:5])


def votes(of: OfClasses, n: int) -> tuple[list[int], int, list[Any]]:
    """Answers of an item by class, the place of its label, and names; of many classes, those given."""
    k = np.arange(of.votes.shape[1])
    if len(k) > MOST_CLASSES:
        k = np.union1d(np.flatnonzero(of.votes[n])[: MOST_CLASSES - 1], [of.code[n]])
    return of.votes[n, k].astype(int).tolist(), int(np.flatnonzero(k == of.code[n])[0]), [of.classes[x] for x in k]


def also(of: OfClasses, n: int) -> Say | str:
    """The next probable classes of an item."""
    order = [k for k in np.argsort(-of.p[n], kind="stable")[:3] if k != of.code[n] and of.p[n, k] >= 0.01][:2]
    if not order:
        return "–"
    if len(order) == 1:
        return say("columns.one_other", name=of.classes[order[0]], p=float(of.p[n, order[0]]))
    names = {"name": of.classes[order[0]], "p": float(of.p[n, order[0]])}
    return say("columns.two_others", **names, other=of.classes[order[1]], q=float(of.p[n, order[1]]))


def people(facts: Facts) -> Iterator[Any]:
    """How often each is right, with a range, beside what one answer to all would be right."""
    table = facts.annotators
    by = "accuracy" if table.get("accuracy") is not None and table["accuracy"].notna().any() else "agreement"
    if by not in table:
        return
    judged = table[table["labels"] >= facts.enough].sort_values(by, ascending=False, kind="stable")
    rest = table[table["labels"] < facts.enough]
    few = len(judged) <= 2 * HALF
    shown = judged if few else judged.iloc[[*range(HALF), *range(len(judged) - HALF, len(judged))]]
    values: dict[str, Any] = {"n": len(judged), "enough": round(facts.enough), "half": HALF}
    yield Text(say("people.all" if few else "people.some", **values))
    if len(rest):
        share = float(rest["labels"].sum() / max(1, table["labels"].sum()))
        yield Text(say("people.rest", n=len(rest), share=share, enough=round(facts.enough)), note=True)
    line = None
    if by == "accuracy":
        top = float(facts.of_classes.p.mean(0).max())
        line = (top, say("people.same_answer"))
    rows = []
    for name, row in shown.iterrows():
        low, high = (float(row.get(f"{by}_{end}", np.nan)) for end in ("low", "high"))
        tone = "c" if line is not None and not (low if np.isfinite(low) else row[by]) > line[0] else "a"
        rows.append((native(name), say("people.answers", n=int(row["labels"])), float(row[by]), low, high, tone))
    gap = None if few else (HALF, say("people.others", n=len(judged) - 2 * HALF))
    yield Figure(Dots(rows, "pct", say(f"people.axis_{by}"), line, gap), say("people.picture"), say("people.note"))


def mixed(facts: Facts) -> Iterator[Any]:
    """Answers of all by the class that is true."""
    of = facts.of_classes
    counts, k = of.answers, np.arange(len(of.classes))
    if len(k) > MOST_CLASSES:
        k = np.sort(np.argsort(-counts.sum(1), kind="stable")[:MOST_CLASSES])
        yield Text(say("results.some_classes", n=MOST_CLASSES, total=len(of.classes)), note=True)
    some = counts[np.ix_(k, k)]
    share = some / np.maximum(counts[k].sum(1, keepdims=True), 1e-9)
    names = [of.classes[x] for x in k]
    rows = [say("mixed.truly", name=name) for name in names]
    shades = np.where(counts[k].sum(1, keepdims=True) > 0, share, np.nan).tolist()
    whole = np.rint(some).astype(int).tolist()
    yield Figure(Heat(rows, names, shades, share.tolist(), "pct", say("mixed.top"), whole), say("mixed.picture"))
    off = np.where(np.eye(len(k), dtype=bool), 0, some)
    truth, said = np.unravel_index(off.argmax(), off.shape)
    if off.max() >= 1:
        yield Text(say("mixed.most", truth=names[truth], said=names[said], n=round(float(off.max()))))
    if facts.data.space.ordered and len(names) > 2:
        apart = np.abs(np.subtract.outer(k, k))
        total = max(float(some.sum()), 1e-9)
        near, far = float(some[apart == 1].sum()), float(some[apart > 1].sum())
        yield Text(say("mixed.near", near=near / total, far=far / total))
        ends = some[0, -1] + some[-1, 0]
        if ends / total > 0.01:
            yield Text(say("mixed.ends", n=round(float(ends)), share=float(ends / total)))


def steps(facts: Facts, files: Sequence[str]) -> Iterator[Any]:
    """What to do next, with files."""
    of = facts.of_classes
    free = ~of.given
    found: list[Say] = []
    if facts.gold is None:
        found.append(say("steps.check", n=len(facts.random_items())))
    unsure = np.flatnonzero(free & (of.tier == 2))
    if len(unsure):
        found.append(say("steps.ask" if "ask_next.csv" in files else "steps.look", n=len(unsure)))
        if round((more := one_more(facts, unsure))[0]) > round(more[1]):
            found.append(say("steps.one_more", before=more[0], after=more[1], n=len(unsure)))
    off = np.where(np.eye(len(of.classes), dtype=bool), 0, of.answers)
    off = off + off.T
    one, other = np.unravel_index(off.argmax(), off.shape)
    if off.max() >= 5 and not facts.data.alphabet.kind.means:  # which say what their difference is
        found.append(say("steps.explain", one=of.classes[one], other=of.classes[other], n=round(float(off.max()))))
    if n := int((free & (of.tier == 0)).sum()):
        found.append(say("steps.use", n=n))
    yield Steps(found)


def one_more(facts: Facts, items: np.ndarray) -> tuple[float, float]:
    """Expected errors on some items now, and after one more answer each of an average annotator, simulated.

    An answer counts by the crowd's mean confusion, and less where probabilities were softened for shared errors.
    """
    of = facts.of_classes
    counts = of.answers + 0.5
    table = counts / counts.sum(1, keepdims=True)
    correction = facts.posterior.correction
    power = 1 / ((None if correction is None else correction.temperature) or 1.0)
    stream = np.random.default_rng(0)
    some = stream.permutation(items)[:2000]
    p = of.p[some]
    after = 0.0
    for _ in range(AGAIN):
        truth = (np.cumsum(p, 1) < stream.random((len(p), 1))).sum(1).clip(max=p.shape[1] - 1)
        said = (np.cumsum(table[truth], 1) < stream.random((len(p), 1))).sum(1).clip(max=p.shape[1] - 1)
        new = p * table[:, said].T ** power
        after += float((1 - (new / new.sum(1, keepdims=True)).max(1)).mean())
    before = float(of.wrong[items].sum())
    return before, min(before, after / AGAIN * len(items))


def listing(facts: Facts) -> Iterator[Table]:
    """All labels, the least sure first, and all people."""
    of = facts.of_classes
    shown = of.by_doubt[:LONG]
    columns = [
        *(
            Column(say("columns.item"), "id"),
            Column(say("columns.label"), "id"),
            Column(say("columns.sure"), "pct"),
        ),
        *(Column(say("columns.given")), Column(say("columns.most_said"), "id")),
    ]
    most = of.votes.argmax(1)
    rows = []
    for n in shown:
        said = of.classes[most[n]] if not of.tied[n] else say("columns.tie")
        rows.append([facts.ids[n], of.classes[of.code[n]], of.sure[n], int(of.votes[n].sum()), said])
    if of.compared.any():
        columns.append(Column(say("columns.truth"), "id"))
        for n, row in zip(shown, rows, strict=True):
            row.append(of.classes[of.known[n]] if of.compared[n] else "–")
    table = Table(columns, rows, len(of.code), "labels.csv", say("listing.labels"), long=True)
    yield facts.told(table, shown)
