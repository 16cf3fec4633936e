"""What a page is made of: records without words and without HTML, which the template shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal, Protocol

from markupsafe import Markup

from crowdppl.report.words import Say, Words

Tone = Literal["good", "middle", "bad"]


class Picture(Protocol):
    """A picture: it is drawn in a language, and tells its numbers as a table."""

    def draw(self, words: Words) -> Markup: ...

    def table(self) -> Table: ...


@dataclass(frozen=True)
class Text:
    """A paragraph of one or several sentences; ``note`` in small letters."""

    block: ClassVar[str] = "text"
    said: Say | Sequence[Say]
    note: bool = False

    @property
    def sentences(self) -> Sequence[Say]:
        """The sentences."""
        return [self.said] if isinstance(self.said, Say) else self.said


@dataclass(frozen=True)
class Tile:
    """A large number, what share of all it is, and what it means."""

    tone: Tone
    number: Any
    share: float | None
    title: Say
    text: Say
    spec: str = ""


@dataclass(frozen=True)
class Tiles:
    """Tiles beside one another."""

    block: ClassVar[str] = "tiles"
    tiles: Sequence[Tile]


@dataclass(frozen=True)
class Card:
    """What was seen, why it matters and what to do; of tone "good" what was checked and is fine."""

    block: ClassVar[str] = "card"
    tone: Tone
    said: Sequence[Say]
    action: Say | None = None


@dataclass(frozen=True)
class Figure:
    """A picture, with a sentence below, and what its colours (a, b, c) mean."""

    block: ClassVar[str] = "figure"
    picture: Picture
    title: Say
    note: Say | None = None
    key: Sequence[tuple[str, Say]] = ()


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its title, and the format of its cells (``Words``), or "votes"."""

    title: Say
    spec: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of values; ``total`` counts those that there are, and ``file`` holds them all.

    Attributes:
        long: whether the table can be searched and downloaded, and is not printed.
    """

    block: ClassVar[str] = "table"
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    total: int | None = None
    file: str = ""
    title: Say | None = None
    long: bool = False


@dataclass(frozen=True)
class Steps:
    """A numbered list."""

    block: ClassVar[str] = "steps"
    steps: Sequence[Say]


@dataclass(frozen=True)
class Passage:
    """A text with marked places (first, last, type, probability), and what people marked in it (first, last)."""

    title: Any
    tokens: Sequence[str]
    marks: Sequence[tuple[int, int, str, float]]
    by: Sequence[tuple[Any, Sequence[tuple[int, int]]]] = ()

    def runs(self) -> Iterator[Run]:
        """The words, those of a mark together."""
        place = 0
        for first, last, kind, p in sorted(self.marks):
            if first > place:
                yield Run(" ".join(self.tokens[place:first]))
            yield Run(" ".join(self.tokens[first : last + 1]), kind, p)
            place = last + 1
        if place < len(self.tokens):
            yield Run(" ".join(self.tokens[place:]))

    def lines(self) -> Iterator[tuple[Any, Sequence[tuple[str, bool]]]]:
        """Of each who marked, the words, and whether they were marked."""
        for who, marks in self.by:
            on = [any(a <= n <= b for a, b in marks) for n in range(len(self.tokens))]
            edges = [0, *(n for n in range(1, len(on)) if on[n] != on[n - 1]), len(on)]
            yield who, [(" ".join(self.tokens[a:b]), on[a]) for a, b in pairwise(edges)]


@dataclass(frozen=True)
class Run:
    """Words in a row; of a mark, its type and probability."""

    text: str
    type: str | None = None
    p: float = 0.0

    @property
    def depth(self) -> str:
        """How dark a mark is, from 0 to 1."""
        return f"{self.p:.2f}"


@dataclass(frozen=True)
class Passages:
    """Texts with marked places."""

    block: ClassVar[str] = "passages"
    passages: Sequence[Passage]


@dataclass(frozen=True)
class Section:
    """A heading and what stands below."""

    name: str
    title: Say
    blocks: Sequence[Any] = field(default_factory=list)
