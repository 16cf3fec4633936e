"""Plate diagrams of models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations, product
from math import hypot
from typing import TYPE_CHECKING, Any

import numpy as np
import pyro
import pyro.distributions as dist

from crowdppl import registry
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.features import read_stored
from crowdppl.data.kinds import KINDS
from crowdppl.datasets.examples import example
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.networks.outputs import networks_of
from crowdppl.plots.axes import DARK, LIGHT, MIDDLE, axes_or_new
from crowdppl.primitives.model import Model, card_of, set_up, with_examples, with_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ITEMS, ANNOTATORS, FEATURES = "items", "annotators", "features"
SEEN = "items with features"
"""Pyro wants another name for each plate object of a model."""

LINKED = {"ChainedCategorical": "one before", "PottsCategorical": "neighbours"}
"""What the truths of items depend on, of other items, by the name of their distribution."""


@dataclass(frozen=True)
class ModelGraph:
    """The variables of a model: parents of each, in the order in which the model draws them, the members of each
    plate, outer plates first, those that are observed; what else one depends on of its own kind, as in a chain; and
    shapes.
    """

    parents: Mapping[str, tuple[str, ...]]
    plates: Mapping[str, tuple[str, ...]]
    observed: frozenset[str]
    loops: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)

    def plates_of(self, name: str) -> frozenset[str]:
        """The plates that a variable lies in."""
        return frozenset(plate for plate, members in self.plates.items() if name in members)

    def children(self, name: str) -> tuple[str, ...]:
        """The variables that depend on one directly."""
        return tuple(child for child, parents in self.parents.items() if name in parents)


def graph_of(model: Any, data: Annotations) -> ModelGraph:
    """The graph of a model on some annotations, of which a few are enough; MethodError when it draws no labels.

    Pyro places the labels, which are ragged, in the plate of items (and of groups); here they lie where items and
    annotators meet.
    """
    from pyro.infer.inspect import get_model_relations

    ready = set_up(model, data)
    found = get_model_relations(_on(ready, data))
    factors = {name for name, fn in found["sample_dist"].items() if fn == "Unit"}
    parents = {name: tuple(above) for name, above in found["sample_sample"].items() if name not in factors}
    labels = [name for name, fn in found["sample_dist"].items() if fn.endswith("Labels")]
    if not labels:
        raise MethodError("the model draws no labels: call crowdppl.primitives.annotate inside the plate of items")
    plates = _plates(found["plate_sample"], parents, labels)
    card = card_of(model)
    if card is not None and card.truth not in parents:  # it is integrated out, and no site
        above = parents.pop(labels[0])
        if KINDS[card.kind].numeric:
            own = [name for name in above if name in plates[ANNOTATORS]]
        else:  # of a scale, numbers of all items and their groups say where truths lie
            own = [name for name in above if card.sites.get(name, "A") not in ("", "G")]
        parents |= {card.truth: tuple(name for name in above if name not in own), labels[0]: (*own, card.truth)}
        plates[ITEMS] = (*plates[ITEMS], card.truth)
    read = {name for above in parents.values() for name in above}
    loose = [name for name in parents if name not in read and not parents[name] and name not in labels]
    parents[labels[0]] = (*parents[labels[0]], *loose)  # while a network learns, weights of labels read them
    loops = {name: LINKED[fn] for name, fn in found["sample_dist"].items() if fn in LINKED and name in parents}
    if hasattr(ready, "derived_covariates"):
        loops[labels[0]] = "own last"
    shapes = {} if card is None else {name: ", ".join(card.sites.get(name, "").split()) for name in parents}
    return ModelGraph(parents, plates, frozenset(found["observed"]) & parents.keys(), loops, shapes)


def _on(model: Any, data: Annotations) -> Callable[[], None]:
    """The model on data, as a program without arguments that reads features where it has networks."""
    block = with_missing(model, data).as_block()

    def program() -> None:
        if block.features is None or not networks_of(model):
            model.model(block)
            return
        # No Delta: Pyro traces nothing to it. Networks run beforehand, as where a model is not learning.
        features = read_stored(block.features)
        near = dist.Normal(features, 1.0).to_event(features.dim() - 1)
        with pyro.plate(SEEN, block.n_items):
            x = pyro.sample(FEATURES, near, obs=features)
        seen = {name: network(x) for name, network in networks_of(model).items()}
        model.model(replace(block, features=x, seen=seen))

    return program


def _plates(
    found: Mapping[str, Sequence[str]], names: Collection[str], labels: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Members by plate, larger plates first: labels among items and annotators, features among items."""
    out = {plate: [n for n in members if n in names and n not in labels] for plate, members in found.items()}
    out[ITEMS] = [*out.get(ITEMS, []), *out.pop(SEEN, []), *labels]
    out[ANNOTATORS] = [*out.get(ANNOTATORS, []), *labels]
    return {plate: tuple(members) for plate, members in sorted(out.items(), key=lambda p: -len(p[1])) if members}


def a_few_labels(kind: str = "ordinal") -> Annotations:
    """Twelve items with two features and 48 labels, one of three grades or numbers; of other kinds, the example."""
    if KINDS[kind].example is not None:
        return example(kind)
    rng = np.random.default_rng(1)
    item, annotator = np.divmod(np.arange(48), 4)
    label, features = rng.integers(3, size=48), rng.normal(size=(12, 2))
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        return Annotations.from_arrays(item, annotator, label, kind=kind, items=np.arange(12), features=features)


WIDTH, HEIGHT = 132.0, 92.0
"""Distances of neighbouring variables."""
MARGIN, CAPTION = 14.0, 20.0
"""Between variables and the border of their plate; height of a plate's name."""
LOOP = 56.0
"""Room beside a variable that depends on its like; below an observed one, less."""
THROUGH, CROSSED = 1e6, 1e4
"""Costs of an arrow through a variable, and of two that cross, in units of length."""


@dataclass(frozen=True)
class Oval:
    """Middle and half axes."""

    x: float
    y: float
    rx: float
    ry: float

    def covers(self, x: Any, y: Any, by: float = 0.0) -> Any:
        """Whether points lie inside, or nearer to the border than ``by``."""
        return ((x - self.x) / (self.rx + by)) ** 2 + ((y - self.y) / (self.ry + by)) ** 2 < 1


@dataclass(frozen=True)
class Box:
    """Left, top, right and bottom."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Layout:
    """Places of variables and plates; down is positive."""

    ovals: Mapping[str, Oval]
    boxes: Mapping[str, Box]

    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the drawing with a white edge."""
        edge = 10.0
        boxes = [
            *self.boxes.values(),
            *(Box(o.x - o.rx, o.y - o.ry, o.x + o.rx, o.y + o.ry) for o in self.ovals.values()),
        ]
        left, top = min(box.left for box in boxes), min(box.top for box in boxes)
        return left - edge, top - edge, max(b.right for b in boxes) + edge, max(b.bottom for b in boxes) + edge


def arrange(graph: ModelGraph) -> Layout:
    """Places every variable and plate: the best of all orders within a row of a zone, the same every time.

    Variables outside of all plates are on top. Below them are zones from left to right: other plates, annotators,
    annotators and items, items. Arrows point down. Where arrows would run through variables, rows are drawn
    further apart, and then zones wider; MethodError where that does not help.
    """
    rows, zones = _rows(graph), {name: _zone(graph.plates_of(name)) for name in graph.parents}
    for spare, height in product((0, 1), (HEIGHT, 1.3 * HEIGHT, 1.6 * HEIGHT)):
        tried = [_placed(graph, rows, columns, height) for columns in _columns(rows, zones, spare)]
        best = min(tried, key=lambda ovals: round(_cost(graph, ovals), 3))
        if _cost(graph, best) < THROUGH:
            return Layout(best, {plate: _box(graph, plate, best) for plate in graph.plates})
    raise MethodError(
        f"{', '.join(graph.parents)} cannot be arranged so that arrows keep clear of variables; pyro.render_model "
        "draws such a model, where graphviz is installed"
    )


def _zone(plates: frozenset[str]) -> int:
    """0 above all plates, 1 other plates, 2 annotators, 3 annotators and items, 4 items, 5 items and another."""
    if {ITEMS, ANNOTATORS} <= plates:
        return 3
    if ITEMS in plates:
        return 4 if plates == {ITEMS} else 5
    return 2 if ANNOTATORS in plates else int(bool(plates))


def _rows(graph: ModelGraph) -> dict[str, int]:
    """The row of each variable: as far down as its children allow, those in no plate above all others."""
    height: dict[str, int] = {}
    for name in reversed(list(graph.parents)):  # children come later in the model
        free = not graph.plates_of(name)
        below = [height[child] for child in graph.children(name) if free == (not graph.plates_of(child))]
        height[name] = 1 + max(below, default=-1)
    plated = max(height[name] for name in height if graph.plates_of(name))
    height = {name: n if graph.plates_of(name) else plated + 1 + n for name, n in height.items()}
    return {name: max(height.values()) - n for name, n in height.items()}


def _columns(rows: Mapping[str, int], zones: Mapping[str, int], spare: int) -> Iterator[dict[str, float]]:
    """Every choice of columns for the variables in plates, zones side by side, each ``spare`` columns wider."""
    cells: dict[tuple[int, int], list[str]] = {}
    for name, row in rows.items():
        if zones[name]:
            cells.setdefault((zones[name], row), []).append(name)
    left, choices = 0, []
    for zone in range(1, 6):
        here = [names for (at, _), names in cells.items() if at == zone]
        most = max(map(len, here), default=0)
        # Annotators and items keep a column of their own, for the names of their plates.
        width = most + (spare if most and zone != 3 else 0) or int(zone in (2, 4))
        for names in here:
            slots = range(width) if spare else [n + (width - len(names)) / 2 for n in range(len(names))]
            choices.append([dict(zip(names, order, strict=True)) for order in permutations(slots, len(names))])
            choices[-1] = [{name: left + at for name, at in choice.items()} for choice in choices[-1]]
        left += width
    for choice in product(*choices):
        yield {name: at for part in choice for name, at in part.items()}


def _placed(
    graph: ModelGraph, rows: Mapping[str, int], columns: Mapping[str, float], height: float
) -> dict[str, Oval]:
    """Ovals for one choice of columns; variables outside of plates are each over the middle of their children."""
    x = {name: WIDTH * column for name, column in columns.items()}
    for row in sorted({rows[name] for name in rows if name not in columns}, reverse=True):
        free = [name for name in graph.parents if name not in columns and rows[name] == row]
        below = {name: [x[child] for child in graph.children(name)] for name in free}
        x |= spread({name: sum(at) / max(len(at), 1) for name, at in below.items()})
    wide = {n: max(32.0, 3.6 * len(n) + 12, 3.4 * len(graph.shapes.get(n, "")) + 14) for n in graph.parents}
    return {name: Oval(x[name], rows[name] * height, wide[name], 27.0) for name in graph.parents}


def spread(wanted: Mapping[str, float]) -> dict[str, float]:
    """Places at least a width apart, as near to the wanted ones as least squares allows."""
    from scipy.optimize import isotonic_regression  # slow to import

    names, steps = sorted(wanted, key=lambda name: wanted[name]), WIDTH * np.arange(len(wanted))
    found = isotonic_regression(np.array([wanted[name] for name in names]) - steps).x + steps
    return dict(zip(names, found.tolist(), strict=True))


def _box(graph: ModelGraph, plate: str, ovals: Mapping[str, Oval]) -> Box:
    """The border of a plate, wider the more plates lie within it."""
    members = [ovals[name] for name in graph.plates[plate]]
    inner = [p for p, names in graph.plates.items() if p != plate and set(names) < set(graph.plates[plate])]
    gap = MARGIN + (MARGIN + CAPTION) * len(inner) / 2
    left = min(o.x - o.rx for o in members)
    right = max(o.x + o.rx for o in members)
    if plate == ANNOTATORS and len(members) == 1:
        left -= WIDTH - MARGIN  # labels alone: the plate's name is beside them
    bottom = max(o.y + o.ry for o in members)
    for name in graph.loops.keys() & {*graph.plates[plate]}:
        at, below = ovals[name], name in graph.observed
        right = max(right, at.x + at.rx + (0 if below else LOOP))
        bottom = max(bottom, at.y + at.ry + (LOOP * 0.6 if below else 0))
    bottom += MARGIN + CAPTION + (CAPTION if plate == ITEMS else 0)
    return Box(left - gap, min(o.y - o.ry for o in members) - gap, right + gap, bottom + (gap - MARGIN))


def _cost(graph: ModelGraph, ovals: Mapping[str, Oval]) -> float:
    """Arrows through other variables weigh most, then arrows that cross, then their length."""
    edges = [(parent, child) for child, parents in graph.parents.items() for parent in parents]
    through = sum(len(passed(ovals, parent, child)) for parent, child in edges)
    crossed = sum(
        _cross(*(ovals[name] for name in (*one, *other)))
        for one, other in combinations(edges, 2)
        if not set(one) & set(other)
    )
    length = sum(abs(ovals[p].x - ovals[c].x) + abs(ovals[p].y - ovals[c].y) for p, c in edges)
    return THROUGH * through + CROSSED * crossed + length


def passed(ovals: Mapping[str, Oval], parent: str, child: str) -> list[str]:
    """Variables that the arrow from one to another would run through."""
    a, b, t = ovals[parent], ovals[child], np.linspace(0, 1, 41)
    x, y = a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t
    return [name for name, oval in ovals.items() if name not in (parent, child) and oval.covers(x, y, by=3).any()]


def _cross(a: Oval, b: Oval, c: Oval, d: Oval) -> bool:
    def side(p: Oval, q: Oval, r: Oval) -> float:
        return (q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x)

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


POINTS = 72.0
"""Units of the arrangement an inch."""


def plot_model(model: str | Model, data: Annotations | None = None, *, ax: Axes | None = None) -> Axes:
    """Draws the plate diagram of a model: its variables, and what each depends on.

    An arrow goes from a variable to those that are drawn given it; a variable is repeated for each member of the
    plates (rounded boxes) around it; observed variables are filled. Labels lie where items and annotators meet. A
    variable with an arrow to itself depends on its like: a truth on the one before it in a sequence, say. The
    model is run once and traced, so that the diagram shows what the code does. Shapes are those of the card, if it
    has one. Graphviz is not needed.

    Args:
        model: a method by name, or a model.
        data: annotations on which it is run; by default a few of three grades, or numbers, with features.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: for an unknown name, a model that draws no labels, or one with too many arrows to arrange.

    Examples:
        >>> from crowdppl import plot_model
        >>> axes = plot_model("one_coin")
        >>> [text.get_text() for text in axes.texts if text.get_text() in ("ability", "truth", "label")]
        ['ability', 'truth', 'label']
    """
    ready = registry.resolve(model)
    card = card_of(ready)
    few = a_few_labels() if card is None or card.takes("ordinal") else a_few_labels(card.kind)
    graph = graph_of(ready, with_examples(ready, few) if data is None else require_annotations(data))
    layout = arrange(graph)
    left, top, right, bottom = layout.extent()
    axes = axes_or_new(ax, (right - left) / POINTS, (bottom - top) / POINTS)
    axes.set(xlim=(left, right), ylim=(bottom, top))
    axes.set_aspect("equal")
    axes.axis("off")
    for plate, box in layout.boxes.items():
        _draw_plate(axes, plate, box)
    for child, parents in graph.parents.items():
        for parent in parents:
            _draw_arrow(axes, layout.ovals[parent], layout.ovals[child])
    for name, oval in layout.ovals.items():
        _draw_variable(axes, name, oval, graph.shapes.get(name, ""), name in graph.observed)
    for name, text in graph.loops.items():
        _draw_loop(axes, layout.ovals[name], text, name in graph.observed)
    return axes


def _draw_plate(axes: Axes, plate: str, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch  # slow to import

    corner, size = (box.left, box.top), (box.right - box.left, box.bottom - box.top)
    look: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=8", "fill": False, "edgecolor": MIDDLE}
    axes.add_patch(FancyBboxPatch(corner, *size, linewidth=1.2, **look))
    # Items extend to the right of labels and annotators to the left, where there is room for the names.
    x, side = (box.right - 8, "right") if plate == ITEMS else (box.left + 8, "left")
    axes.text(x, box.bottom - 6, plate, ha=side, va="bottom", fontsize="small", color="0.35")


def _draw_arrow(axes: Axes, a: Oval, b: Oval) -> None:
    dx, dy = b.x - a.x, b.y - a.y
    out, into = (1 / hypot(dx / oval.rx, dy / oval.ry) for oval in (a, b))
    start, end = (a.x + out * dx, a.y + out * dy), (b.x - into * dx, b.y - into * dy)
    look: dict[str, Any] = {"arrowstyle": "-|>", "color": DARK, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=look)


def _draw_loop(axes: Axes, oval: Oval, text: str, below: bool) -> None:
    """An arrow from a variable to itself, beside or below it, and what of its like it depends on."""
    one, other = ((-0.6, 0.8), (0.6, 0.8)) if below else ((0.8, -0.6), (0.8, 0.6))
    start, end = ((oval.x + x * oval.rx, oval.y + y * oval.ry) for x, y in (one, other))
    bend = "arc3,rad=1.2" if below else "arc3,rad=-1.4"
    look: dict[str, Any] = {"arrowstyle": "-|>", "color": DARK, "linewidth": 1, "connectionstyle": bend}
    axes.annotate("", end, start, arrowprops=look | {"shrinkA": 0, "shrinkB": 0})
    small: dict[str, Any] = {"fontsize": "x-small", "color": "0.35"}
    if below:
        axes.text(oval.x, oval.y + oval.ry + 21, text, ha="center", va="top", **small)
    else:
        axes.text(oval.x + oval.rx + 20, oval.y, text.replace(" ", "\n"), ha="left", va="center", **small)


def _draw_variable(axes: Axes, name: str, oval: Oval, shape: str, observed: bool) -> None:
    from matplotlib.patches import Ellipse  # slow to import

    look: dict[str, Any] = {"facecolor": LIGHT if observed else "white", "edgecolor": DARK, "linewidth": 1.2}
    axes.add_patch(Ellipse((oval.x, oval.y), 2 * oval.rx, 2 * oval.ry, zorder=3, **look))
    at: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "small", "zorder": 4}
    axes.text(oval.x, oval.y - (6 if shape else 0), name, **at)
    if shape:
        axes.text(oval.x, oval.y + 9, f"({shape})", color="0.35", **at)
