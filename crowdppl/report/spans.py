"""A report on passages that people marked in texts: which are sure, whose marks differ, which ends are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.ids import native
from crowdppl.data.kinds.sequences import POSITION, SEQUENCE
from crowdppl.data.tagged import TOKEN
from crowdppl.report.blocks import Column, Figure, Passage, Passages, Steps, Table, Text, Tile, Tiles, Tone
from crowdppl.report.facts import Facts
from crowdppl.report.pictures import Dots
from crowdppl.report.words import Say, say
from crowdppl.results.spans import in_sequences, marked_by, spans, tags_of

SURE, HALF_SURE = 0.9, 0.5
FEW, LONG, HALF, TEXTS = 8, 1000, 8, 4
AROUND = 25
"""Words beside a passage that are shown."""
MOST_WORDS = 120


@dataclass(frozen=True, eq=False)
class OfSpans:
    """Passages of a fit.

    Attributes:
        table: that of ``spans(0)``.
    """

    facts: Facts
    table: pd.DataFrame

    @classmethod
    def of(cls, facts: Facts) -> OfSpans:
        return cls(facts, spans(facts.posterior, 0.0))

    @cached_property
    def order(self) -> np.ndarray:
        """Codes of items in order of text and place."""
        return in_sequences(self.facts.data)[0]

    @cached_property
    def words(self) -> pd.DataFrame:
        """Text, place and word of each item, in order."""
        known = self.facts.data.item_covariates
        assert known is not None
        rows = known.iloc[self.order]
        place = rows[POSITION].to_numpy()
        if TOKEN in rows:
            words = rows[TOKEN].astype(str).to_numpy()
        elif self.facts.text is not None:
            words = np.array([self.facts.text_of(n) for n in self.order], object)
        else:
            words = np.full(len(place), "▪")
        return pd.DataFrame({"text": rows[SEQUENCE].to_numpy(), "place": place, "word": words})

    @property
    def told(self) -> bool:
        """Whether the words are known."""
        known = self.facts.data.item_covariates
        return self.facts.text is not None or (known is not None and TOKEN in known)

    @cached_property
    def found(self) -> np.ndarray:
        """First and last row of ``words``, and the type, of each passage, (S, 3); types as codes."""
        places = {(t, p): n for n, (t, p) in enumerate(zip(self.words["text"], self.words["place"], strict=True))}
        rows = zip(self.table["sequence"], self.table["first"], self.table["last"], self.table["type"], strict=True)
        found = [(places[t, a], places[t, b], self.types.index(kind)) for t, a, b, kind in rows]
        return np.array(found, np.int64).reshape(-1, 3)

    @cached_property
    def types(self) -> list[str]:
        """Names of types."""
        tags = tags_of(self.facts.data)
        assert tags is not None
        return sorted({*tags.types})

    @cached_property
    def marks(self) -> pd.DataFrame:
        """What people marked: first and last row of ``words``, type and who."""
        data = self.facts.data
        tags = tags_of(data)
        assert tags is not None
        decisions, who = marked_by(data, np.ones(data.n_labels, bool))
        kind = np.array([self.types.index(t) for t in tags.types])
        columns = {"first": decisions[:, 0], "last": decisions[:, 1], "type": kind[decisions[:, 2]], "who": who}
        return pd.DataFrame(columns)

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Each mark beside the passage that it overlaps most: "same", "type", "ends" or "none"; and which."""
        row_of = np.full(len(self.words), -1)
        for n, (a, b, _) in enumerate(self.found):
            row_of[a : b + 1] = n
        verdict, place = [], []
        for a, b, kind in self.marks[["first", "last", "type"]].to_numpy():
            met = row_of[a : b + 1]
            met = met[met >= 0]
            if not len(met):
                verdict.append("none")
                place.append(-1)
                continue
            n = int(np.bincount(met).argmax())
            place.append(n)
            ends = (a, b) == tuple(self.found[n, :2])
            verdict.append("same" if ends and kind == self.found[n, 2] else "type" if ends else "ends")
        return self.marks.assign(verdict=verdict, passage=place)

    @cached_property
    def known(self) -> np.ndarray:
        """First and last row of ``words``, and the type, of each passage of the known truths, (T, 3)."""
        data = self.facts.data
        tags = tags_of(data)
        assert tags is not None
        code = self.facts.of_classes.known[self.order]
        place = np.flatnonzero(code >= 0)
        begins = in_sequences(data)[1][place] | (np.diff(place, prepend=-2) != 1)
        ends = tags.ends(code[place], begins)
        first = np.flatnonzero(ends >= 0)
        kind = np.array([self.types.index(t) for t in tags.types])
        return np.column_stack([place[first], place[ends[first]], kind[code[place[first]]]])

    @cached_property
    def checked(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether the truth of each passage is known, and whether the passage is one of it exactly, bool (S,)."""
        seen = np.append(0, np.cumsum(self.facts.of_classes.compared[self.order]))
        first, last = self.found[:, 0], self.found[:, 1] + 1
        true = {*map(tuple, self.known.tolist())}
        right = np.array([tuple(row) in true for row in self.found.tolist()], bool)
        return seen[last] - seen[first] == last - first, right

    @cached_property
    def readers(self) -> dict[Any, np.ndarray]:
        """Who read each text, by its id."""
        item, who, _ = self.facts.data.label_codes()
        text = pd.Series(self.words["text"].to_numpy(), index=self.order).loc[item].to_numpy()
        pairs = pd.DataFrame({"text": text, "who": who}).drop_duplicates()
        return {key: rows.to_numpy() for key, rows in pairs.groupby("text", sort=False)["who"]}

    def marked_by(self, n: int) -> int:
        """How many marked a passage exactly so."""
        return int(((self.compared["passage"] == n) & (self.compared["verdict"] == "same")).sum())

    def passage(self, n: int) -> Passage:
        """The words around a passage, with all passages among them and what people marked."""
        a, b, _ = self.found[n]
        text = self.words["text"].iloc[a]
        here = np.flatnonzero((self.words["text"] == text).to_numpy())
        low, high = max(here[0], a - AROUND), min(here[-1], max(b, a) + AROUND, a + MOST_WORDS)
        marks = [
            (x - low, min(y, high) - low, self.types[k], float(p))
            for (x, y, k), p in zip(self.found, self.table["probability"], strict=True)
            if low <= x <= high
        ]
        names = self.facts.data.annotators
        by = []
        for who in self.readers[text][:6]:
            own = self.marks[
                (self.marks["who"] == who) & (self.marks["last"] >= low) & (self.marks["first"] <= high)
            ]
            spans_of = [(max(x, low) - low, min(y, high) - low) for x, y in own[["first", "last"]].to_numpy()]
            by.append((native(names[who]), spans_of))
        return Passage(native(text), self.words["word"].iloc[low : high + 1].tolist(), marks, by)


def texts(facts: Facts) -> int:
    """How many texts there are."""
    return len(facts.once(OfSpans.of).readers)


def minute(facts: Facts) -> Iterator[Any]:
    """How many passages are sure."""
    of = facts.once(OfSpans.of)
    p = of.table["probability"].to_numpy()
    tier = np.where(p >= SURE, 0, np.where(p >= HALF_SURE, 1, 2))
    tones: Sequence[tuple[str, Tone]] = (("span_sure", "good"), ("span_likely", "middle"), ("span_open", "bad"))
    tiles = []
    for number, (name, tone) in enumerate(tones):
        here = tier == number
        n = int(here.sum())
        wrong = float((1 - p[here]).sum())
        text = say(f"tiles.{name}.text", n=n, wrong=wrong)
        if facts.gold is not None and (seen := of.checked[0] & here).any():
            missed = int((seen & ~of.checked[1]).sum())
            text = say(f"tiles.{name}.seen", n=n, wrong=wrong, seen=int(seen.sum()), found=missed)
        tiles.append(Tile(tone, n, n / max(1, len(p)), say(f"tiles.{name}.title"), text))
    yield Tiles(tiles)
    yield Text(
        say("minute.spans", n=len(p), texts=len(of.readers), right=round(100 * float(p.mean())) if len(p) else 0)
    )
    if facts.gold is not None:
        seen, right = of.checked
        found = int((seen & right).sum())
        values = {"right": found, "there": len(of.known), "missed": len(of.known) - found}
        yield Text(say("minute.spans_checked", n=int(seen.sum()), **values))


def seen(facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """Of checked passages the probability that each is wrong, and whether it is."""
    of = facts.once(OfSpans.of)
    known, right = of.checked
    return 1 - of.table["probability"].to_numpy()[known], ~right[known]


def results(facts: Facts) -> Iterator[Any]:
    """Some texts with their passages."""
    of = facts.once(OfSpans.of)
    if not len(of.table):
        yield Text(say("results.no_spans"))
        return
    order = np.argsort(-of.table["probability"].to_numpy(), kind="stable")
    shown: list[int] = []
    for n in order[np.linspace(0, len(order) - 1, min(len(order), 4 * TEXTS)).astype(int)]:
        if of.table["sequence"].iloc[n] not in {of.table["sequence"].iloc[m] for m in shown} and len(shown) < TEXTS:
            shown.append(int(n))
    yield Text(say("results.texts"))
    yield Passages([of.passage(n) for n in shown])


def first(facts: Facts) -> Iterator[Any]:
    """The least sure passages."""
    of = facts.once(OfSpans.of)
    order = np.argsort(of.table["probability"].to_numpy(), kind="stable")[:FEW]
    if not len(order):
        return
    yield Text(say("first.spans"))
    yield Table(_columns(), [_row(of, int(n)) for n in order])
    alone = sum(of.marked_by(n) == 1 for n in range(len(of.table))) if len(of.table) <= LONG else 0
    if alone:
        yield Text(say("first.alone", n=alone))


def _columns() -> list[Column]:
    titles = [("text", "id"), ("passage", ""), ("type", "id"), ("sure", "pct"), ("marked_by", ""), ("read_by", "")]
    return [Column(say(f"columns.{x}"), spec) for x, spec in titles]


def _row(of: OfSpans, n: int) -> list[Any]:
    a, b, kind = of.found[n]
    text = of.words["text"].iloc[a]
    words: Any = " ".join(of.words["word"].iloc[a : b + 1])
    if not of.told:
        words = say(
            "columns.from_to", first=native(of.words["place"].iloc[a]), last=native(of.words["place"].iloc[b])
        )
    p = float(of.table["probability"].iloc[n])
    return [native(text), words, of.types[kind] or "–", p, of.marked_by(n), len(of.readers[text])]


def people(facts: Facts) -> Iterator[Any]:
    """How many passages of the texts that each read each found, and how many marks are none."""
    of = facts.once(OfSpans.of)
    text = np.array([of.words["text"].iloc[a] for a, _, _ in of.found], object)
    p = of.table["probability"].to_numpy()
    sure = Counter(text[p >= HALF_SURE].tolist())
    hits = of.compared[
        (of.compared["verdict"] == "same") & (p[of.compared["passage"]] >= HALF_SURE if len(p) else False)
    ]
    rows, names = [], dict(enumerate(map(native, facts.data.annotators)))
    for who, own in of.compared.groupby("who"):
        there = sum(sure[t] for t, readers in of.readers.items() if who in readers)
        if there:
            found = int((hits["who"] == who).sum())
            kinds = own["verdict"].value_counts()
            rows.append(
                (
                    names[int(str(who))],
                    there,
                    found,
                    int(kinds.get("ends", 0)),
                    int(kinds.get("none", 0)),
                )
            )
    enough = min(20.0, max((row[1] for row in rows), default=0) / 4)
    kept = sorted((row for row in rows if row[1] >= enough), key=lambda row: -row[2] / row[1])
    if not kept:
        return
    few = len(kept) <= 2 * HALF
    shown = kept if few else [*kept[:HALF], *kept[-HALF:]]
    dots = []
    for name, there, found, _, _ in shown:
        share = found / there
        reach = 1.96 * np.sqrt(max(share * (1 - share), 0.25 / (there + 4)) / there)
        dots.append(
            (name, say("people.passages", n=there), share, max(0.0, share - reach), min(1.0, share + reach), "a")
        )
    gap = None if few else (HALF, say("people.others", n=len(kept) - 2 * HALF))
    yield Figure(
        Dots(dots, "pct", say("people.axis_found"), None, gap), say("people.picture_found"), say("people.note")
    )
    columns = [Column(say("columns.name"), "id")]
    columns += [Column(say(f"columns.{x}")) for x in ("passages", "found", "wrong_ends", "false_marks")]
    yield Table(columns, shown[:FEW])


def mixed(facts: Facts) -> Iterator[Any]:
    """What goes wrong with marks: ends, types, or nothing is there."""
    of = facts.once(OfSpans.of)
    found = of.compared
    if found.empty:
        return
    share = found["verdict"].value_counts(normalize=True)
    values = {name: float(share.get(name, 0.0)) for name in ("same", "ends", "type", "none")}
    yield Text(say("mixed.marks", **values))
    off = found[found["verdict"] == "ends"]
    if len(off) >= 5:
        truth = of.found[off["passage"].to_numpy()]
        ahead, behind = off["first"].to_numpy() - truth[:, 0], off["last"].to_numpy() - truth[:, 1]
        parts = {"early": ahead < 0, "late": ahead > 0, "short": behind < 0, "long": behind > 0}
        yield Text(say("mixed.ends_of_marks", n=len(off), **{name: float(x.mean()) for name, x in parts.items()}))


def steps(facts: Facts, files: Sequence[str]) -> Iterator[Any]:
    """What to do next."""
    of = facts.once(OfSpans.of)
    p = of.table["probability"].to_numpy()
    found: list[Say] = []
    if facts.gold is None:
        found.append(say("steps.check_texts"))
    if n := int((p < SURE).sum()):
        found.append(say("steps.read_again", n=n))
    if (of.compared["verdict"] == "ends").mean() > 0.1:
        found.append(say("steps.rule"))
    if n := int((p >= SURE).sum()):
        found.append(say("steps.use_spans", n=n))
    yield Steps(found)


def listing(facts: Facts) -> Iterator[Table]:
    """All passages, the least sure first."""
    of = facts.once(OfSpans.of)
    order = np.argsort(of.table["probability"].to_numpy(), kind="stable")[:LONG]
    yield Table(
        _columns(), [_row(of, int(n)) for n in order], len(of.table), "spans.csv", say("listing.spans"), long=True
    )
