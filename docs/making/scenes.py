"""Labels as a reader may have them, simulated: what pages of docs/kinds draw, and reports of the site tell of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import crowdppl

PEOPLE = ("Amira", "Ben", "Chen", "Dora", "Emeka", "Farah", "Goran", "Hana", "Ines", "Jonas", "Kofi", "Lena")


@dataclass(frozen=True)
class Scene:
    """A file of answers, and what is known beside it.

    Attributes:
        answers: a row as it would stand in a file.
        gold: known truths of some items by item, to compare with; None without.
        features: numbers of each item; None without.
        text: the column of texts of items; "" without.
    """

    answers: pd.DataFrame
    gold: Any = None
    features: pd.DataFrame | None = None
    text: str = ""

    @property
    def texts(self) -> pd.Series[str] | None:
        """The text of each item; None without."""
        if not self.text:
            return None
        ids = self.answers[["sequence", "position"]].apply(tuple, axis=1) if self.words else self.answers["item"]
        return self.answers[self.text].set_axis(pd.Index(ids))

    @property
    def words(self) -> dict[Any, list[str]]:
        """The words of each sequence; none of other kinds."""
        if "word" not in self.answers:
            return {}
        tokens = self.answers.drop_duplicates(["sequence", "position"])
        return {name: rows["word"].tolist() for name, rows in tokens.groupby("sequence")}


def scene(page: str) -> Scene:
    """The scene of a page of docs/kinds."""
    return SCENES[page](np.random.default_rng(0))


def annotations(page: str) -> crowdppl.Annotations:
    """The labels of a scene, read from its table."""
    given = scene(page)
    kind: Any = {"kind": KINDS[page]} if page in KINDS else {}
    return crowdppl.Annotations.from_frame(given.answers, features=given.features, **kind)


def asked(rng: np.random.Generator, items: Sequence[Any], people: Sequence[str], each: int) -> Iterator[Any]:
    """Places of items and of people, for each item some at random, in the order of the people."""
    for n in range(len(items)):
        yield from ((n, int(who)) for who in np.sort(rng.choice(len(people), each, replace=False)))


def voted(
    rng: np.random.Generator, items: Sequence[Any], truth: np.ndarray, right: Mapping[str, float], wrong: np.ndarray
) -> pd.DataFrame:
    """Five answers an item, as codes: right as often as is said of each, or drawn from the row of the truth."""
    people, rows = list(right), []
    for n, who in asked(rng, items, people, 5):
        hit = rng.random() < right[people[who]]
        rows.append((items[n], people[who], truth[n] if hit else rng.choice(len(wrong), p=wrong[truth[n]])))
    return pd.DataFrame(rows, columns=["item", "annotator", "label"])


TOPICS = {
    "billing": ("I was charged twice for {}", "The invoice for {} shows the wrong amount", "Refund for {}, please"),
    "delivery": ("Where is my {}?", "The {} went to my neighbour", "{} still not here after two weeks"),
    "fault": ("My {} does not switch on", "The {} arrived broken", "{} loses its connection"),
    "praise": ("Delighted with the {}", "The {} is better than I thought", "Thanks for the quick help with {}"),
}
THINGS = ("kettle", "headset", "lamp", "router", "camera", "heater", "drill", "keyboard")


def classes(rng: np.random.Generator) -> Scene:
    """Tickets of customers and what each is about; billing and delivery look alike, and one person guesses."""
    names = list(TOPICS)
    truth = rng.choice(4, 240, p=[0.3, 0.3, 0.3, 0.1])
    ids = [f"ticket {4000 + n}" for n in range(len(truth))]
    text = {x: rng.choice(TOPICS[names[k]]).format(rng.choice(THINGS)) for x, k in zip(ids, truth, strict=True)}
    wrong = np.array([[0, 0.8, 0.1, 0.1], [0.8, 0, 0.1, 0.1], [0.3, 0.5, 0, 0.2], [0.4, 0.3, 0.3, 0]])
    right = dict(zip(PEOPLE, [0.9, 0.85, 0.8, 0.8, 0.75, 0.75, 0.7, 0.7, 0.65, 0.6, 0.55, 0.05], strict=True))
    rows = voted(rng, ids, truth, right, wrong)
    rows["label"] = np.array(names)[rows["label"].astype(int)]
    rows["text"] = rows["item"].map(text)
    gold = pd.Series(np.array(names)[truth], ids).sample(80, random_state=0)
    return Scene(rows, gold, text="text")


def grades(rng: np.random.Generator) -> Scene:
    """Essays with grades from 1 to 5, by teachers of whom one is strict and one lenient."""
    ids, people = [f"essay {n + 1}" for n in range(60)], list(PEOPLE[:8])
    worth = rng.normal(0, 1.2, len(ids))
    severity = np.array([0.9, 0.3, 0.1, 0, 0, -0.1, -0.3, -0.9])
    steps = np.array([-1.6, -0.5, 0.5, 1.6])
    rows = []
    for n, who in asked(rng, ids, people, 4):
        seen = worth[n] - severity[who] + rng.logistic(0, 0.45)
        rows.append((ids[n], people[who], int(np.searchsorted(steps, seen)) + 1))
    return Scene(pd.DataFrame(rows, columns=["item", "annotator", "label"]))


def ratings(rng: np.random.Generator) -> Scene:
    """Quality of video clips from 0 to 100, by viewers who share errors, two of them most of all."""
    ids, people = [f"clip {n + 1:02d}" for n in range(40)], list(PEOPLE[:8])
    truth, bias = rng.normal(58, 16, len(ids)), np.array([-7, -3, 0, 1, 2, 3, 6, 0])
    spread, mood = np.array([4, 5, 5, 6, 6, 8, 8, 15]), rng.normal(0, 6, len(ids))
    shared = rng.normal(0, 5, len(ids))
    rows = []
    for n, who in asked(rng, ids, people, 6):
        seen = truth[n] + shared[n] + bias[who] + (mood[n] if who in (4, 5) else 0) + rng.normal(0, spread[who])
        rows.append((ids[n], people[who], float(np.clip(np.round(seen), 0, 100))))
    gold = pd.Series(np.round(truth, 1), ids).iloc[:20]
    return Scene(pd.DataFrame(rows, columns=["item", "annotator", "label"]), gold)


COFFEES = {
    "Yirgacheffe": 1.9,
    "Huila": 1.4,
    "Kiambu": 1.3,
    "Antigua": 0.6,
    "Tarrazu": 0.5,
    "Sidama": 0.4,
    "Cerrado": -0.2,
    "Mandheling": -0.4,
    "Chiapas": -0.6,
    "Dalat": -1.5,
    "Instant": -3.2,
}
"""How good each of some coffees is."""


def comparisons(rng: np.random.Generator) -> Scene:
    """Which of two coffees tastes better, by tasters of whom one tosses a coin."""
    names, people = list(COFFEES), list(PEOPLE[:9])
    rows = []
    for _ in range(80):
        one, other = rng.choice(len(names), 2, replace=False)
        for who in rng.choice(len(people), 5, replace=False):
            gap = COFFEES[names[one]] - COFFEES[names[other]]
            left = rng.random() < (0.5 if who == 8 else 1 / (1 + np.exp(-1.4 * gap)))
            rows.append((names[one], names[other], people[who], "left" if left else "right"))
    return Scene(pd.DataFrame(rows, columns=["left", "right", "annotator", "label"]))


FILMS = {"Metropolis": 1.5, "Nosferatu": 1.1, "Sunrise": 1.0, "The General": 0.4, "Faust": 0.2, "Safety Last": -0.6}
"""How much some films are liked."""


def rankings(rng: np.random.Generator) -> Scene:
    """Films in the order in which members of clubs like them, four a ballot; one ranks as it comes."""
    names, rows = list(FILMS), []
    for ballot in range(30):
        shown = np.sort(rng.choice(len(names), 4, replace=False))
        for who in rng.choice(9, 3, replace=False):
            worth = np.array([FILMS[names[k]] for k in shown]) * (0 if who == 8 else 1)
            order = np.argsort(-(worth + rng.gumbel(0, 0.6, 4)))
            ranked = " > ".join(names[shown[k]] for k in order)
            rows.append((f"evening {ballot + 1}", PEOPLE[who], ranked))
    return Scene(pd.DataFrame(rows, columns=["problem", "annotator", "rank"]))


SENTENCES = (
    "{PER} joined {ORG} in {LOC} last spring .",
    "The office of {ORG} in {LOC} will close .",
    "{PER} met {PER} near {LOC} .",
    "Shares of {ORG} fell after {PER} resigned .",
    "From {LOC} , {PER} wrote to {ORG} twice .",
)
ENTITIES = {
    "PER": ("Marie Curie", "Alan Turing", "Grace Hopper", "Noether", "Ada Lovelace", "Fritz Haber"),
    "ORG": ("Acme", "Bell Labs", "Royal Society", "Northern Rail", "Red Cross"),
    "LOC": ("Paris", "New York", "Lake Como", "Vienna", "Cape Town"),
}


def spans(rng: np.random.Generator) -> Scene:
    """Names in sentences, by readers who miss some, cut some short and take one type for another."""
    rows, gold = [], {}
    for n in range(36):
        words, true = list[str](), list[tuple[int, int, str]]()
        for token in SENTENCES[n % len(SENTENCES)].split():
            if (kind := token.strip("{}")) in ENTITIES:
                named = str(rng.choice(ENTITIES[kind])).split()
                true.append((len(words), len(words) + len(named), kind))
                words += named
            else:
                words.append(token)
        for who, (miss, cut, mistake) in READERS.items():
            marked = []
            for first, last, kind in true:
                if rng.random() < miss:
                    continue
                end = last - 1 if last - first > 1 and rng.random() < cut else last
                marked.append((first, end, str(rng.choice(list(ENTITIES))) if rng.random() < mistake else kind))
            tags = tagged(len(words), marked)
            rows += [
                (f"sentence {n + 1:02d}", k, who, t, w) for k, (t, w) in enumerate(zip(tags, words, strict=True))
            ]
        if n % 2 == 0:
            tags = tagged(len(words), true)
            gold |= {(f"sentence {n + 1:02d}", k): tag for k, tag in enumerate(tags)}
    frame = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label", "word"])
    return Scene(frame, pd.Series(gold), text="word")


READERS = {
    "Amira": (0.03, 0.05, 0.02),
    "Ben": (0.08, 0.1, 0.05),
    "Chen": (0.15, 0.25, 0.1),
    "Dora": (0.2, 0.1, 0.15),
    "Emeka": (0.4, 0.5, 0.3),
}
"""How often a reader misses a name, cuts it short, and mistakes its type."""


def tagged(n: int, marks: Sequence[tuple[int, int, str]]) -> list[str]:
    """Tags of n tokens."""
    tags = ["O"] * n
    for first, last, kind in marks:
        tags[first:last] = [f"B-{kind}", *[f"I-{kind}"] * (last - first - 1)]
    return tags


BOXES = {"people": 0.6, "dog": 0.25, "car": 0.4, "tree": 0.55, "water": 0.3}
"""How many pictures show what."""


def sets(rng: np.random.Generator) -> Scene:
    """All that a picture shows, by people of whom one overlooks trees and one names what is often there."""
    names, rate = list(BOXES), np.array(list(BOXES.values()))
    ids, people = [f"photo {n + 1:03d}" for n in range(90)], list(PEOPLE[:6])
    truth = rng.random((len(ids), len(names))) < rate
    seen = np.full((len(people), len(names)), 0.92)
    seen[4, 3], seen[5] = 0.3, 0.55
    added = np.array([0.02, 0.03, 0.05, 0.05, 0.08, 0.3])
    rows = []
    for n, who in asked(rng, ids, people, 4):
        named = rng.random(len(names)) < np.where(truth[n], seen[who], added[who])
        rows.append((ids[n], people[who], ";".join(np.array(names)[named])))
    return Scene(pd.DataFrame(rows, columns=["item", "annotator", "label"]))


MODELS = {
    "birch-large": (0, 0.91),
    "birch-small": (0, 0.84),
    "cedar-1": (1, 0.88),
    "cedar-2": (1, 0.9),
    "maple": (2, 0.86),
    "oak-mini": (3, 0.76),
}
"""Family and accuracy of some models."""


def judges(rng: np.random.Generator) -> Scene:
    """Answers of a chatbot, safe or not, by models of which those of a family err on the same ones."""
    truth = rng.random(500) < 0.4
    ids = [f"answer {n + 1:03d}" for n in range(len(truth))]
    hard = rng.normal(0, 1, (4, len(ids)))
    rows = []
    for name, (family, right) in MODELS.items():
        own = rng.normal(0, 1, len(ids))
        err = 0.75 * hard[family] + 0.66 * own < np.quantile(0.75 * hard[family] + 0.66 * own, 1 - right)
        said = np.where(truth ^ err, "unsafe", "safe")
        rows += list(zip(ids, [name] * len(ids), said, strict=True))
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    gold = pd.Series(np.where(truth, "unsafe", "safe"), ids).sample(120, random_state=0)
    return Scene(frame, gold)


def features(rng: np.random.Generator) -> Scene:
    """Birds on photos, one label each, and what was measured of each bird."""
    names = ("finch", "sparrow", "wren")
    truth = rng.integers(0, 3, 200)
    ids = [f"photo {n + 1:03d}" for n in range(len(truth))]
    means = np.array([[70.0, 10], [78, 12], [50, 13]])
    measured = means[truth] + rng.normal(0, [5, 1], (len(ids), 2))
    right, rows = np.linspace(0.9, 0.5, 6), []
    for n, who in asked(rng, ids, PEOPLE[:6], 2):
        said = truth[n] if rng.random() < right[who] else rng.integers(0, 3)
        rows.append((ids[n], PEOPLE[who], names[said]))
    frame = pd.DataFrame(np.round(measured, 1), ids, ["wing", "bill"])
    return Scene(pd.DataFrame(rows, columns=["item", "annotator", "label"]), features=frame)


SCENES: Mapping[str, Callable[[np.random.Generator], Scene]] = {
    make.__name__: make for make in (classes, grades, ratings, comparisons, rankings, spans, sets, judges, features)
}
"""The scenes by page."""

KINDS = {
    "grades": "ordinal",
    "ratings": "real",
    "comparisons": "pair",
    "rankings": "ranking",
    "spans": "sequence",
    "sets": "set",
}
"""What ``kind=`` says of the labels of a scene."""


def shifts(rng: np.random.Generator) -> crowdppl.Annotations:
    """Answers on a day from nine to five by six people, of whom one tires after lunch and one learns."""
    people, rows = PEOPLE[:6], []
    truth = rng.integers(0, 3, 480)
    for n in range(len(truth)):
        hour = 9 + 8 * n / len(truth)
        right = [0.9, 0.85, 0.9 - 0.12 * max(0.0, hour - 12.5), 0.8, 0.75, min(0.9, 0.45 + 0.1 * (hour - 9))]
        for who in np.sort(rng.choice(6, 3, replace=False)):
            said = truth[n] if rng.random() < right[who] else (truth[n] + rng.integers(1, 3)) % 3
            at = pd.Timestamp("2026-03-02 09:00") + pd.Timedelta(minutes=n)
            rows.append((f"photo {n + 1:03d}", people[who], ("cat", "dog", "fox")[said], at))
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label", "answered_at"])
    return crowdppl.Annotations.from_frame(frame, time="answered_at")


def scores(rng: np.random.Generator) -> crowdppl.Annotations:
    """Scores of essays by eight people, of whom three look at the same thing beside the essay's quality."""
    people, quality, looks = PEOPLE[:8], rng.normal(60, 12, 120), rng.normal(0, 6, 120)
    marks = quality + rng.normal(0, 5, (8, 120)) + looks * np.isin(np.arange(8), [1, 4, 6])[:, None]
    ids = [f"essay {n + 1:03d}" for n in range(120)]
    return crowdppl.Annotations.from_arrays(ids * 8, np.repeat(people, 120), marks.round().ravel(), kind="real")


BESIDE = {"shifts": shifts, "scores": scores}
"""Labels of the gallery that have no page of their own."""
