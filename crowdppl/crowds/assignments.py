"""Which simulated annotator is asked about which item, and what the labels then are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from crowdppl.crowds.opinions import Draw, Opinion, Scene
from crowdppl.doors.counts import whole_number
from crowdppl.errors import DataError
from crowdppl.tables.codebook import plain

Opinions = Iterable[tuple[int, str, Opinion]]


@dataclass(frozen=True)
class Person:
    """An annotator of a simulated crowd.

    Attributes:
        number: place in the list of kinds.
        annotator: id.
        confusion: (K, K).
    """

    number: int
    annotator: str
    confusion: np.ndarray


@dataclass(frozen=True)
class Assignment:
    """Labels that were given.

    Attributes:
        people: the annotators.
        item, annotator, label: position of the item, place of the annotator among the people, class code: (S,).
    """

    people: list[Person]
    item: np.ndarray
    annotator: np.ndarray
    label: np.ndarray


def assign_by_chance(opinions: Opinions, scene: Scene, draw: Draw, shares: Sequence[float]) -> Assignment:
    """Asks each annotator about each item with a probability of its own kind.

    Args:
        opinions: place in the list of kinds, id and opinion of each annotator.
        scene: the items.
        draw: random numbers.
        shares: probability for each place in the list of kinds.

    Raises:
        DataError: when nobody is asked about anything.
    """
    people, items, labels = [], [], []
    for number, annotator, opinion in opinions:
        asked = scene.asked if opinion.able is None else scene.asked & opinion.able
        if shares[number] < 1:
            asked = asked & (draw(annotator, "items").random(scene.n_items) < shares[number])
        people.append(Person(number, annotator, opinion.confusion))
        items.append(np.flatnonzero(asked))
        labels.append(opinion.labels[items[-1]])
    if not sum(map(len, items)):
        raise DataError("nobody was asked about any item; raise the density, or give more items")
    who = np.repeat(np.arange(len(people)), [len(rows) for rows in items])
    return Assignment(people, np.concatenate(items), who, np.concatenate(labels))


def assign_by_number(opinions: Opinions, scene: Scene, draw: Draw, labels_per_item: int) -> Assignment:
    """Asks so many annotators about each item, drawn evenly from those who may be asked.

    Everyone draws a number for each item, and the smallest ones are asked: a newcomer then takes the place of at
    most one annotator an item, and moves nobody else.

    Args:
        opinions: place in the list of kinds, id and opinion of each annotator.
        scene: the items.
        draw: random numbers.
        labels_per_item: how many are asked.

    Raises:
        DataError: when the number is none, or an item has fewer annotators who may label it.
    """
    labels_per_item = whole_number("labels_per_item", labels_per_item, 1, "for a share use density=", DataError)
    rows = np.flatnonzero(scene.asked)
    at = np.arange(len(rows))
    people: list[Person] = []
    drawn = np.full((len(rows), labels_per_item), np.inf)
    who, label = np.full(drawn.shape, -1), np.full(drawn.shape, -1)
    for number, annotator, opinion in opinions:
        key = draw(annotator, "items").random(scene.n_items)
        if opinion.able is not None:
            key[~opinion.able] = np.inf
        worst = drawn.argmax(1)
        better = np.flatnonzero(key[rows] < drawn[at, worst])
        place = (better, worst[better])
        drawn[place], who[place] = key[rows[better]], len(people)
        label[place] = opinion.labels[rows[better]]
        people.append(Person(number, annotator, opinion.confusion))
    short = np.flatnonzero((who < 0).any(1))
    if len(short):
        found = int((who[short[0]] >= 0).sum())
        raise DataError(
            f"labels_per_item={labels_per_item}, and {len(short)} of {len(rows)} items have fewer annotators who "
            f"may label them, such as {plain(scene.items[rows[short[0]]])!r} with {found}; ask for fewer labels, "
            "or add annotators"
        )
    return Assignment(people, np.repeat(rows, labels_per_item), who.reshape(-1), label.reshape(-1))
