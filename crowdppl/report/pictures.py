"""Pictures of a report, as SVG that a page holds; each tells its numbers as a table, too.

Colours are classes of the page's style (a settled, b likely, c open), so that they follow light and dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any, Literal
from unicodedata import east_asian_width

from markupsafe import Markup, escape

from crowdppl.report.blocks import Column, Table
from crowdppl.report.words import Say, Words, say

WIDTH = 540
"""Of pictures, in pixels; a telephone shows two thirds of it legibly."""
TONES = "abc"
ROW = 26
"""Letters of a row of a matrix at most."""
Anchor = Literal["start", "middle", "end"]


def _text(x: float, y: float, text: Any, anchor: Anchor = "start", style: str = "", title: str = "") -> str:
    style = f' class="{style}"' if style else ""
    about = f"<title>{escape(title)}</title>" if title and title != text else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{about}{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def _rect(x: float, y: float, width: float, height: float, style: str, opacity: float = 1, title: str = "") -> str:
    shade = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
    about = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" class="{style}"{shade}>'
        f"{about}</rect>"
    )


def _svg(parts: Iterable[str], width: float, height: float, label: str) -> Markup:
    return Markup(
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="--w:{width:.0f}px" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _columns(name: str) -> int:
    """The width of a text in letters; those of East Asia are two wide."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in name)


def _cut(name: str, most: int = 16) -> str:
    """A text that is at most so many letters wide."""
    if _columns(name) <= most:
        return name
    while _columns(name) >= most:
        name = name[:-1]
    return name + "…"


def _inside(x: float, text: str) -> float:
    """Where the middle of a small text has room: at x, or left of it where a picture ends."""
    return min(x, WIDTH - 4 - 3.4 * _columns(text))


def nice_ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Round numbers that span an interval, about n of them."""
    if not high > low:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / n
    base = 10 ** floor(log10(rough))
    step = next(base * x for x in (1, 2, 2.5, 5, 10) if base * x >= rough * (1 - 1e-9))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(step * k, 12) for k in range(first, last + 1)]


@dataclass(frozen=True)
class Bars:
    """Counts in three shades, a row each.

    Attributes:
        names: of the rows.
        counts: settled, likely and open of each.
        what: the key of what the rows are.
        expected: a count that is marked in each row; none where empty.
    """

    names: Sequence[Any]
    counts: Sequence[tuple[int, int, int]]
    what: str = "columns.class"
    expected: Sequence[float] = ()

    def draw(self, words: Words) -> Markup:
        names = [_cut(words.plain(name), 30) for name in self.names]
        left = 20 + 8 * max(12, max(map(_columns, names), default=0))
        most = max((sum(x) for x in self.counts), default=1) or 1
        scale, parts = (WIDTH - left - 60) / max(most, *self.expected, 0), []
        for row, (name, counts) in enumerate(zip(names, self.counts, strict=True)):
            x, y = float(left), 8.0 + 30 * row
            parts.append(_text(left - 10, y + 15, name, "end", title=words.plain(self.names[row])))
            for tone, count in zip(TONES, counts, strict=True):
                width = count * scale
                parts.append(_rect(x, y, width, 21, f"f{tone}"))
                shown = words.plain(count)
                if width > 8 + 8 * len(shown):
                    parts.append(_text(x + width / 2, y + 15, shown, "middle", f"s on{tone}"))
                x += width
            if self.expected:
                at = left + self.expected[row] * scale
                parts += [_line(at, y - 3, at, y + 4, "mark"), _line(at, y + 17, at, y + 24, "mark")]
                x = max(x, at)
            parts.append(_text(x + 8, y + 15, words.plain(sum(counts)), "start", "s dim"))
        return _svg(parts, WIDTH, 12 + 30 * len(self.names), words.plain(say("pictures.bars")))

    def table(self) -> Table:
        titles = [say(self.what), *(say(f"tiers.{x}") for x in ("settled", "likely", "open"))]
        columns = [Column(t) for t in titles]
        rows: list[tuple[Any, ...]] = [(n, *c) for n, c in zip(self.names, self.counts, strict=True)]
        if self.expected:
            columns.append(Column(say("columns.expected"), "round"))
            rows = [(*row, x) for row, x in zip(rows, self.expected, strict=True)]
        return Table(columns, rows)


@dataclass(frozen=True)
class Box:
    """A group: its size, members that are shown with their tones, how sure it is with its tone, and why.

    Attributes:
        said: what stands below its members.
    """

    size: int
    members: Sequence[tuple[Any, str]]
    sure: float
    tone: str
    said: Say


@dataclass(frozen=True)
class Boxes:
    """Groups as boxes that hold their members."""

    boxes: Sequence[Box]

    def draw(self, words: Words) -> Markup:
        parts, y = list[str](), 6.0
        for box in self.boxes:
            inside, top = list[str](), y
            inside.append(_text(18, y + 20, words.plain(say("pictures.group", n=box.size)), "start", "strong"))
            how = words.plain(say("pictures.held", p=box.sure)) if box.sure > 0 else ""
            inside.append(_text(WIDTH - 12, y + 20, how, "end", "s"))
            x, y = 18.0, y + 32
            more = box.size - len(box.members)
            chips = [(words.plain(name, "id"), tone) for name, tone in box.members]
            for name, tone in [*chips, *([(words.plain(say("pictures.others", n=more)), "")] if more else [])]:
                shown = _cut(name, 24)
                width = 7.4 * _columns(shown) + 14
                if x + width > WIDTH - 10 and x > 18:
                    x, y = 18.0, y + 27
                inside.append(_rect(x, y, width, 22, f"f{tone} chip" if tone else "shade chip", title=name))
                inside.append(_text(x + width / 2, y + 15, shown, "middle", f"s on{tone}" if tone else "s dim"))
                x += width + 6
            inside.append(_text(18, y + 41, words.plain(box.said), "start", "s dim"))
            y += 52
            parts.append(_rect(3, top, WIDTH - 6, y - top, "box"))
            parts.append(_rect(3, top, 6, y - top, f"f{box.tone}"))
            parts += inside
            y += 10
        return _svg(parts, WIDTH, y, words.plain(say("pictures.groups")))

    def table(self) -> Table:
        columns = [Column(say("columns.group"), "ids"), Column(say("columns.size"))]
        columns += [Column(say("columns.sure"), "pct"), Column(say("columns.link"))]
        return Table(columns, [([m for m, _ in b.members], b.size, b.sure, b.said) for b in self.boxes])


@dataclass(frozen=True)
class Curve:
    """Expected share of wrong labels against the share that is kept, the surest first.

    Attributes:
        kept, wrong: of each point, from 0 to 1.
        found: shares wrong that known truths show; none without.
        marks: places of points that are named.
    """

    kept: Sequence[float]
    wrong: Sequence[float]
    found: Sequence[float] = ()
    marks: Sequence[int] = ()

    def draw(self, words: Words) -> Markup:
        left, right, top, bottom = 56.0, WIDTH - 30.0, 14.0, 210.0
        ticks = nice_ticks(0, max(0.02, max([*self.wrong, *(x for x in self.found if isfinite(x))])), 4)
        x = [left + k * (right - left) for k in self.kept]
        height = (bottom - top) / ticks[-1]
        parts = []
        for tick in ticks:
            parts += [_line(left, bottom - tick * height, right, bottom - tick * height, "grid")]
            parts += [_text(left - 8, bottom - tick * height + 4, words.plain(tick, "pct1"), "end", "s")]
        for share in (0, 0.25, 0.5, 0.75, 1):
            at = left + share * (right - left)
            parts.append(_text(at, bottom + 18, words.plain(share, "pct"), "middle", "s"))
        for values, style in ((self.found, "curve2"), (self.wrong, "curve")):
            points = [
                f"{a:.1f},{bottom - y * height:.1f}" for a, y in zip(x, values, strict=bool(values)) if isfinite(y)
            ]
            parts += [f'<polyline points="{" ".join(points)}" class="{style}"/>'] if points else []
        for n in self.marks:
            y = bottom - self.wrong[n] * height
            said = say("pictures.keep", kept=self.kept[n], wrong=round(100 * self.wrong[n], 1))
            parts.append(f'<circle cx="{x[n]:.1f}" cy="{y:.1f}" r="5" class="fa"/>')
            # Where it has no room above the curve, it stands below, if the axis leaves some.
            anchor: Anchor = "end" if x[n] > left + 190 else "start"
            above = anchor == "end" or y + 20 > bottom
            aside, down = -8 if anchor == "end" else 8, -9 if above else 17
            parts.append(_text(x[n] + aside, y + down, words.plain(said), anchor, "s halo"))
        parts.append(_text((left + right) / 2, bottom + 38, words.plain(say("pictures.share_kept")), "middle", "s"))
        return _svg(parts, WIDTH, 254, words.plain(say("pictures.curve")))

    def table(self) -> Table:
        titles = [
            say("columns.kept"),
            say("columns.wrong_said"),
            *([say("columns.wrong_found")] if self.found else []),
        ]
        some = range(0, len(self.kept), max(1, len(self.kept) // 10))
        columns = [self.kept, self.wrong, *([self.found] if self.found else [])]
        return Table([Column(t, "pct1") for t in titles], [tuple(x[n] for x in columns) for n in some])


@dataclass(frozen=True)
class Dots:
    """Values with ranges, a row each.

    Attributes:
        rows: name, a note at its right, value, low, high and tone of each.
        spec: format of the values; "pct" draws from 0 to 1.
        line: a value that is marked, and what it is.
        gap: after how many rows others are left out, and what is said there.
        axis: what the values are.
        shades: rows of one shade, as first and last, such as tiers.
    """

    rows: Sequence[tuple[Any, Say | str, float, float, float, str]]
    spec: str
    axis: Say
    line: tuple[float, Say] | None = None
    gap: tuple[int, Say] | None = None
    shades: Sequence[tuple[int, int]] = ()

    def _range(self) -> tuple[float, float]:
        if self.spec == "pct":
            return 0.0, 1.0
        ends = [x for row in self.rows for x in row[2:5] if isfinite(x)]
        ends += [self.line[0]] if self.line else []
        return (min(ends), max(ends)) if ends else (0.0, 1.0)

    def draw(self, words: Words) -> Markup:
        notes = any(row[1] for row in self.rows)
        beside = 7.4 * max((_columns(words.plain(row[1])) for row in self.rows if row[1]), default=0)
        named = 8 * min(17, max((_columns(words.plain(row[0], "id")) for row in self.rows), default=0))
        left, right, step, top = max(140.0, 36.0 + named + beside), WIDTH - 24.0, 21.0, 20.0
        low, high = self._range()
        ticks = [0, 0.2, 0.4, 0.6, 0.8, 1.0] if self.spec == "pct" else nice_ticks(low, high)
        if not self.spec:  # places in a ranking
            ticks = sorted({max(1.0, round(x)) for x in ticks})
        low, high = min(ticks[0], low), max(ticks[-1], high)

        def at(x: float) -> float:
            return left + (min(max(x, low), high) - low) / (high - low) * (right - left)

        gap = self.gap[0] if self.gap else len(self.rows)
        place = [top + step * (n + (n >= gap)) for n in range(len(self.rows))]
        bottom = top + step * (len(self.rows) + (self.gap is not None)) - 4
        parts = []
        for number, (first, last) in enumerate(self.shades):
            if number % 2 == 0:
                parts.append(_rect(0, place[first] - 14, WIDTH, place[last] - place[first] + step, "shade"))
        for tick in ticks:
            parts += [_line(at(tick), top - 12, at(tick), bottom, "grid")]
            parts += [_text(at(tick), bottom + 15, words.plain(tick, self.spec), "middle", "s")]
        if self.line:
            parts.append(_line(at(self.line[0]), top - 12, at(self.line[0]), bottom, "dash"))
            said = words.plain(self.line[1])
            parts.append(_text(_inside(at(self.line[0]), said), top - 10, said, "middle", "s warn halo"))
        for y, (name, note, value, low_end, high_end, tone) in zip(place, self.rows, strict=True):
            parts.append(_text(left - (26 + beside if notes else 12), y, _cut(words.plain(name, "id"), 17), "end"))
            parts += [_text(left - 12, y, words.plain(note), "end", "s dim")] if note else []
            if isfinite(low_end) and isfinite(high_end):
                parts.append(_line(at(low_end), y - 4, at(high_end), y - 4, f"whisker w{tone}"))
            if isfinite(value):
                about = f"<title>{escape(words.plain(value, self.spec))}</title>"
                parts.append(
                    f'<circle cx="{at(value):.1f}" cy="{y - 4:.1f}" r="5" class="f{tone}">{about}</circle>'
                )
        if self.gap:
            parts.append(_text((left + right) / 2, top + step * gap, words.plain(self.gap[1]), "middle", "s dim"))
        axis = words.plain(self.axis)
        parts.append(_text(_inside((left + right) / 2, axis), bottom + 36, axis, "middle", "s"))
        return _svg(parts, WIDTH, bottom + 46, axis)

    def table(self) -> Table:
        specs = ["id", "", *[self.spec] * 3]
        titles = [say(f"columns.{x}") for x in ("name", "of", "value", "low", "high")]
        return Table([Column(t, s) for t, s in zip(titles, specs, strict=True)], [row[:5] for row in self.rows])


@dataclass(frozen=True)
class Heat:
    """A matrix in shades, with a number and a small number in each cell.

    Attributes:
        rows, columns: names.
        shades: from 0 to 1; NaN is left grey.
        values: what stands in the cells, with its format.
        counts: small numbers; none where empty.
        top: what the columns are.
        tone: of the shades.
    """

    rows: Sequence[Any]
    columns: Sequence[Any]
    shades: Sequence[Sequence[float]]
    values: Sequence[Sequence[Any]]
    spec: str
    about: Say
    counts: Sequence[Sequence[int]] = ()
    tone: str = "a"

    def draw(self, words: Words) -> Markup:
        names = [words.plain(name, "id") for name in self.rows]
        left = 130.0 + 7 * max(0, min(ROW, max(map(_columns, names), default=0)) - 17)
        longest = max((len(words.plain(name, "id")) for name in self.columns), default=0)
        room = int(WIDTH - left - 10) // len(self.columns)
        side = min(max(72, 8 * longest + 8), room) if len(self.columns) <= 7 else 42
        top, tall = 48.0, 45 if self.counts else 38
        about, right = words.plain(self.about), left + side * len(self.columns)
        half = 3.4 * _columns(about)  # of its width, for it may be wider than the cells
        middle = max((left + right) / 2, half)
        parts = [_text(middle, 14, about, "middle", "s dim")]
        for k, name in enumerate(self.columns):
            parts.append(
                _text(left + side * (k + 0.5), 36, _cut(words.plain(name, "id"), side // 8), "middle", "s")
            )
        for r, name in enumerate(names):
            y = top + (tall + 3) * r
            parts.append(_text(left - 10, y + tall / 2 + 4, _cut(name, ROW), "end"))
            for k in range(len(self.columns)):
                x, shade = left + side * k, self.shades[r][k]
                if not isfinite(shade):
                    parts.append(_rect(x, y, side - 3, tall, "none"))
                    continue
                parts.append(_rect(x, y, side - 3, tall, "paper"))
                parts.append(_rect(x, y, side - 3, tall, f"f{self.tone}", 0.05 + 0.95 * min(1, shade)))
                style = f"on{self.tone}" if shade > 0.55 else ""
                line = y + (tall / 2 - 2 if self.counts else tall / 2 + 4)
                parts.append(_text(x + side / 2 - 1, line, self._cell(r, k, side, words), "middle", style))
                if self.counts:
                    small = words.plain(self.counts[r][k])
                    parts.append(_text(x + side / 2 - 1, line + 15, small, "middle", f"xs {style}"))
        return _svg(
            parts,
            max(right, middle + half) + 6,
            top + (tall + 3) * len(self.rows) + 4,
            words.plain(self.about),
        )

    def _cell(self, row: int, column: int, side: int, words: Words) -> str:
        """What stands in a cell; of per cent where they have no room, the number alone."""
        value = self.values[row][column]
        text = words.plain(value, self.spec)
        return text if self.spec != "pct" or 7 * len(text) < side else f"{100 * value:.0f}"

    def table(self) -> Table:
        shown = self.counts or self.values
        columns = [Column(say("columns.name"), "id"), *(Column(say("columns.said", name=c)) for c in self.columns)]
        spec = "" if self.counts else self.spec
        columns = [columns[0], *(Column(c.title, spec) for c in columns[1:])]
        return Table(columns, [(name, *row) for name, row in zip(self.rows, shown, strict=True)])


def votes_svg(counts: Sequence[int], chosen: int, words: Words, names: Sequence[Any]) -> Markup:
    """Small bars of the answers of an item; the label's is dark."""
    most, parts = max(max(counts), 1), []
    for k, count in enumerate(counts):
        height = 3 + 15 * count / most
        title = f"{words.plain(names[k])}: {words.plain(count)}"
        parts.append(_rect(10 * k, 19 - height, 8, height, "fa" if k == chosen else "bar", title=title))
    return Markup(
        f'<svg viewBox="0 0 {10 * len(counts)} 20" class="votes" style="width:{10 * len(counts)}px" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )
