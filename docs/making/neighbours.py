"""Which methods are simpler or richer than one, by the unknowns of their models: the sites of their cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, prod

from crowdppl.data.kinds import KINDS
from crowdppl.primitives.model import Card

SHOWN = 3
"""Neighbours of each sort that are shown."""
SIZES: Mapping[str, int] = {"A": 30, "K": 4, "L": 4, "N": 200, "O": 10, "C": 3}
"""Of annotators, classes and the like, by which unknowns are counted; others are 3."""
NETWORK = 1000
"""Weights that a classifier of features counts for."""
Axes = tuple[str, ...]


def unknowns(card: Card) -> dict[Axes, int]:
    """How many numbers a model has along which axes, as {("A", "K"): 2}; what all have is left out."""
    found: Counter[Axes] = Counter()
    for site, shape in card.sites.items():
        if site not in ("abstention", "prevalence", card.truth):
            words = ["2" if word == "coin" else "K" if word == "other" else word for word in shape.split()]
            found[(*sorted(word for word in words if not word.isdigit()),)] += prod(
                map(int, filter(str.isdigit, words))
            )
    return dict(found)


def needs(card: Card) -> set[str]:
    """What a method reads beyond labels."""
    return {*card.uses} - {"history", "annotator_covariates"}


def count(card: Card) -> float:
    """How many unknowns a model has at ``SIZES``."""
    own = sum(n * prod(SIZES.get(axis, 3) for axis in axes) for axes, n in unknowns(card).items())
    return own + NETWORK * ("features" in card.uses)


def within(few: Card, many: Card) -> bool:
    """Whether a model has more unknowns than another, and one at least as large for each of its."""

    def has(axes: Axes, n: int) -> bool:
        wider = {other: m for other, m in unknowns(many).items() if not Counter(axes) - Counter(other)}
        return any(m >= n or len(other) > len(axes) for other, m in wider.items())

    taken = few.kind == many.kind or (few.kind == "nominal" and not KINDS[many.kind].numeric)
    return (
        taken
        and needs(few) <= needs(many)
        and count(few) < count(many)
        and all(has(axes, n) for axes, n in unknowns(few).items())
    )


def neighbours(name: str, cards: Mapping[str, Card]) -> tuple[Sequence[str], Sequence[str]]:
    """The simpler and the richer methods nearest to one, those first that differ by the fewest unknowns.

    A richer one is for labels of the same kind; so is a simpler one, where there is any.
    """
    own = cards[name]
    order = sorted(cards, key=lambda other: abs(log((1 + count(cards[other])) / (1 + count(own)))))
    simpler = [other for other in order if within(cards[other], own)]
    alike = [other for other in simpler if cards[other].kind == own.kind]
    richer = [other for other in order if within(own, cards[other]) and cards[other].kind == own.kind]
    return (alike or simpler)[:SHOWN], richer[:SHOWN]
