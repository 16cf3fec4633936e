"""Where the variables of a plate diagram stand: annotators to the left, items to the right, labels between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product

from crowdppl.errors import MethodError
from crowdppl.pictures.story_graph import ANNOTATORS, ITEMS, StoryGraph

WIDE, HIGH = 132.0, 92.0
"""Distances of neighbouring variables."""
TALL = 27.0
"""Half the height of a variable."""
MARGIN, CAPTION = 14.0, 20.0
"""Between variables and the border of their plate; what a plate's name takes below."""
THROUGH, CROSSED = 1e6, 1e4
"""Costs of an arrow through a variable, and of two that cross, in units of length."""


@dataclass(frozen=True)
class Oval:
    """Middle and half axes."""

    x: float
    y: float
    rx: float
    ry: float

    def covers(self, x: float, y: float, by: float = 0.0) -> bool:
        """Whether a point lies inside, or nearer to the border than ``by``."""
        return ((x - self.x) / (self.rx + by)) ** 2 + ((y - self.y) / (self.ry + by)) ** 2 < 1


@dataclass(frozen=True)
class Box:
    """Left, top, right and bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, oval: Oval) -> bool:
        """Whether an oval lies inside."""
        return (
            self.left < oval.x - oval.rx
            and oval.x + oval.rx < self.right
            and self.top < oval.y - oval.ry
            and oval.y + oval.ry < self.bottom
        )

    def meets(self, oval: Oval) -> bool:
        """Whether an oval lies inside, wholly or in part."""
        x, y = min(max(oval.x, self.left), self.right), min(max(oval.y, self.top), self.bottom)
        return oval.covers(x, y)


@dataclass(frozen=True)
class Layout:
    """A finished arrangement."""

    ovals: Mapping[str, Oval]
    boxes: Mapping[str, Box]


def half_width(name: str) -> float:
    """Half the width that a variable's name needs."""
    return max(32.0, 3.6 * len(name) + 12)


def arrange(graph: StoryGraph) -> Layout:
    """Places every variable and plate: the best of all orders within a row of a zone, the same every time.

    Variables outside of all plates stand above. Below them lie zones from left to right: other plates, annotators,
    annotators and items, items. An arrow points down. Where arrows would run through variables, rows are drawn
    further apart, and then zones wider.

    Raises:
        MethodError: when no arrangement keeps all arrows clear of variables.
    """
    rows = _rows(graph)
    zones = {name: _zone(graph, name) for name in graph.parents}
    for spare, high in product((0, 1), (HIGH, 1.3 * HIGH, 1.6 * HIGH)):
        tried = [_placed(graph, rows, zones, columns, high) for columns in _columns(rows, zones, spare)]
        best = min(tried, key=lambda ovals: round(_cost(graph, ovals), 3))
        if _cost(graph, best) < THROUGH:
            return Layout(best, {plate: _box(graph, plate, best) for plate in graph.plates})
    raise MethodError(
        f"{', '.join(graph.parents)} cannot be arranged so that arrows keep clear of variables; pyro.render_model "
        "draws such a story, where graphviz is installed"
    )


def _zone(graph: StoryGraph, name: str) -> int:
    """0 above all plates, 1 other plates, 2 annotators, 3 annotators and items, 4 items, 5 items and another."""
    plates = graph.plates_of(name)
    if not plates:
        return 0
    if {ITEMS, ANNOTATORS} <= plates:
        return 3
    if ITEMS in plates:
        return 4 if plates == {ITEMS} else 5
    return 2 if ANNOTATORS in plates else 1


def _rows(graph: StoryGraph) -> dict[str, int]:
    """The row of each variable: as far down as its children allow, those in no plate above all others."""
    height: dict[str, int] = {}
    for name in reversed(list(graph.parents)):  # children come later in the story
        free = not graph.plates_of(name)
        below = [height[child] for child in graph.children(name) if free == (not graph.plates_of(child))]
        height[name] = 1 + max(below, default=-1)
    plated = max(height[name] for name in height if graph.plates_of(name))
    lifted = {name: n if graph.plates_of(name) else plated + 1 + n for name, n in height.items()}
    return {name: max(lifted.values()) - n for name, n in lifted.items()}


def _columns(rows: Mapping[str, int], zones: Mapping[str, int], spare: int) -> Iterator[dict[str, float]]:
    """Every choice of columns for what stands in plates, zones side by side, each ``spare`` columns wider."""
    cells: dict[tuple[int, int], list[str]] = {}
    for name, row in rows.items():
        if zones[name]:
            cells.setdefault((zones[name], row), []).append(name)
    left, starts, widths = 0, {}, {}
    for zone in range(1, 6):
        most = max((len(names) for (at, _), names in cells.items() if at == zone), default=0)
        # Annotators and items keep a column of their own, which is where their plates' names stand.
        widths[zone] = most + (spare if most and zone != 3 else 0) or int(zone in (2, 4))
        starts[zone], left = left, left + widths[zone]
    choices = [
        [
            {name: starts[zone] + at for name, at in zip(names, slots, strict=True)}
            for slots in _slots(len(names), widths[zone], spare)
        ]
        for (zone, _), names in cells.items()
    ]
    for choice in product(*choices):
        yield {name: at for part in choice for name, at in part.items()}


def _slots(n: int, width: int, spare: int) -> Iterator[tuple[float, ...]]:
    """Orders of n columns: in the middle of the width, or with columns to spare anywhere."""
    if spare:
        yield from permutations(range(width), n)
    else:
        yield from permutations([i + (width - n) / 2 for i in range(n)])


def _placed(
    graph: StoryGraph,
    rows: Mapping[str, int],
    zones: Mapping[str, int],
    columns: Mapping[str, float],
    high: float,
) -> dict[str, Oval]:
    """Ovals for one choice of columns; what stands above is each over the middle of its children."""
    x = {name: WIDE * column for name, column in columns.items()}
    for row in sorted({rows[name] for name in zones if not zones[name]}, reverse=True):
        free = [name for name in graph.parents if not zones[name] and rows[name] == row]
        x |= _over_children({name: _middle(x, graph.children(name)) for name in free})
    return {name: Oval(x[name], rows[name] * high, half_width(name), TALL) for name in graph.parents}


def _middle(x: Mapping[str, float], names: Sequence[str]) -> float:
    return sum(x[name] for name in names) / len(names) if names else 0.0


def _over_children(wanted: Mapping[str, float]) -> dict[str, float]:
    """Places at least a width apart, as near to where they are wanted as least squares has it."""
    names = sorted(wanted, key=lambda name: wanted[name])
    pools: list[tuple[float, int]] = []
    for i, name in enumerate(names):
        mean, size = wanted[name] - i * WIDE, 1
        while pools and pools[-1][0] > mean:
            other, n = pools.pop()
            mean, size = (mean * size + other * n) / (size + n), size + n
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    return {name: at + i * WIDE for i, (name, at) in enumerate(zip(names, flat, strict=True))}


def _box(graph: StoryGraph, plate: str, ovals: Mapping[str, Oval]) -> Box:
    """The border of a plate, wider the more plates lie within it."""
    members = [ovals[name] for name in graph.plates[plate]]
    inner = [p for p, names in graph.plates.items() if p != plate and set(names) < set(graph.plates[plate])]
    gap = MARGIN + (MARGIN + CAPTION) * len(inner) / 2
    left, right = min(o.x - o.rx for o in members), max(o.x + o.rx for o in members)
    if plate == ANNOTATORS and len(members) == 1:
        left -= WIDE - MARGIN  # labels alone: the plate's name stands beside them
    bottom = max(o.y + o.ry for o in members) + MARGIN + CAPTION + (CAPTION if plate == ITEMS else 0)
    return Box(left - gap, min(o.y - o.ry for o in members) - gap, right + gap, bottom + (gap - MARGIN))


def _cost(graph: StoryGraph, ovals: Mapping[str, Oval]) -> float:
    """Arrows through other variables weigh most, then arrows that cross, then their length."""
    edges = [(parent, child) for child, parents in graph.parents.items() for parent in parents]
    through = sum(len(passed(ovals, parent, child)) for parent, child in edges)
    crossed = sum(
        _cross(*(ovals[name] for name in (*one, *other)))
        for i, one in enumerate(edges)
        for other in edges[:i]
        if not set(one) & set(other)
    )
    length = sum(abs(ovals[p].x - ovals[c].x) + abs(ovals[p].y - ovals[c].y) for p, c in edges)
    return THROUGH * through + CROSSED * crossed + length


def passed(ovals: Mapping[str, Oval], parent: str, child: str) -> list[str]:
    """Variables that the arrow from one to another would run through."""
    a, b = ovals[parent], ovals[child]
    points = [(a.x + (b.x - a.x) * t / 40, a.y + (b.y - a.y) * t / 40) for t in range(41)]
    others = [name for name in ovals if name not in (parent, child)]
    return [name for name in others if any(ovals[name].covers(x, y, by=3) for x, y in points)]


def _cross(a: Oval, b: Oval, c: Oval, d: Oval) -> bool:
    def side(p: Oval, q: Oval, r: Oval) -> float:
        return (q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x)

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
