"""The first minute of a report, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from crowdppl.report.blocks import Card, Text, Tiles
from crowdppl.report.checks import cards
from crowdppl.report.facts import Facts
from crowdppl.report.page import heading, parts_of
from crowdppl.report.words import Words

WIDTH, MOST_DOUBTS = 100, 3


def first_minute(facts: Facts, language: str = "en") -> str:
    """The title, the tiles a line each, what to expect, and the first doubts."""
    parts = parts_of(facts)
    words = Words(language, parts.nouns)
    return "\n".join(
        fill(text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False)
        for start, text in _lines(facts, words)
    )


def _lines(facts: Facts, words: Words) -> Iterator[tuple[str, str]]:
    """What begins each line, and its text."""
    parts = parts_of(facts)
    yield "", words.text(heading(facts, parts)[0])
    for block in parts.minute(facts):
        if isinstance(block, Tiles):
            for tile in block.tiles:
                title, text = words.text(tile.title).lower(), words.text(tile.text)
                yield f"{words.plain(tile.number):>9}  ", f"{title}: {text}"
        elif isinstance(block, Text):
            yield "", " ".join(map(words.text, block.sentences))
    all_cards = cards(facts, words, parts.check, parts.seen)
    told = [card for card in all_cards if isinstance(card, Card) and card.tone == "bad"]
    for card in told[:MOST_DOUBTS]:
        yield "! ", words.text(card.said[0])
