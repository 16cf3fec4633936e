"""The plate diagram of a story, drawn without graphviz."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot
from typing import TYPE_CHECKING, Any

from crowdppl import registry
from crowdppl.data.annotations import Annotations
from crowdppl.doors import demands
from crowdppl.pictures.canvas import DARK, LIGHT, MIDDLE, axes_or_new
from crowdppl.pictures.story_graph import ITEMS, a_few_labels, graph_of
from crowdppl.pictures.story_layout import Box, Layout, Oval, arrange
from crowdppl.stories.story import Story, card_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EDGE = 10.0
"""White around the drawing."""
POINTS = 72.0
"""Units of the arrangement an inch."""


def plot_story(story: str | Story, data: Annotations | None = None, *, ax: Axes | None = None) -> Axes:
    """Draws the plate diagram of a story: what is drawn from what, and what is repeated for whom.

    An arrow goes from a variable to those that are drawn given it; a variable is repeated for each member of the
    plates (rounded boxes) around it, and what is observed is grey. Labels lie where items and annotators meet. The
    story is run once and traced, so that the diagram shows what the code does. Shapes are those of the card, if it
    has one.

    Args:
        story: a method by name, or a story.
        data: annotations on which it is run; by default a few of three grades, with features.
        ax: axes to draw on; made if absent.

    Raises:
        MethodError: for an unknown name, a story that draws no labels, or one with too many arrows to arrange.

    Examples:
        >>> from crowdppl import plot_story
        >>> axes = plot_story("one_coin")
        >>> [text.get_text() for text in axes.texts if text.get_text() in ("ability", "truth", "label")]
        ['ability', 'truth', 'label']
    """
    ready = registry.resolve(story)
    graph = graph_of(ready, a_few_labels() if data is None else demands.require_annotations(data))
    layout, card = arrange(graph), card_of(ready)
    shapes = {} if card is None else card.sites
    left, top, right, bottom = extent(layout)
    axes = axes_or_new(ax, (right - left) / POINTS, (bottom - top) / POINTS)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_aspect("equal")
    axes.axis("off")
    for plate, box in layout.boxes.items():
        _draw_plate(axes, plate, box)
    for child, parents in graph.parents.items():
        for parent in parents:
            _draw_arrow(axes, layout.ovals[parent], layout.ovals[child])
    for name in graph.parents:
        _draw_variable(axes, name, layout.ovals[name], shapes, name in graph.observed)
    return axes


def extent(layout: Layout) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a drawing with its white edge; down is positive."""
    ovals, boxes = layout.ovals.values(), layout.boxes.values()
    return (
        min([o.x - o.rx for o in ovals] + [b.left for b in boxes]) - EDGE,
        min([o.y - o.ry for o in ovals] + [b.top for b in boxes]) - EDGE,
        max([o.x + o.rx for o in ovals] + [b.right for b in boxes]) + EDGE,
        max([o.y + o.ry for o in ovals] + [b.bottom for b in boxes]) + EDGE,
    )


def _draw_plate(axes: Axes, plate: str, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch  # slow to import

    shape = "round,pad=0,rounding_size=8"
    size = box.right - box.left, box.bottom - box.top
    axes.add_patch(FancyBboxPatch((box.left, box.top), *size, shape, fill=False, edgecolor=MIDDLE, linewidth=1.2))
    # Items end to the right of labels and annotators to the left, so that there the names stand free.
    x, side = (box.right - 8, "right") if plate == ITEMS else (box.left + 8, "left")
    axes.text(x, box.bottom - 6, plate, ha=side, va="bottom", fontsize="small", color="0.35")


def _draw_arrow(axes: Axes, a: Oval, b: Oval) -> None:
    dx, dy = b.x - a.x, b.y - a.y
    out, into = (1 / hypot(dx / oval.rx, dy / oval.ry) for oval in (a, b))
    start, end = (a.x + out * dx, a.y + out * dy), (b.x - into * dx, b.y - into * dy)
    look: dict[str, Any] = {"arrowstyle": "-|>", "color": DARK, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=look)


def _draw_variable(axes: Axes, name: str, oval: Oval, shapes: Mapping[str, str], observed: bool) -> None:
    from matplotlib.patches import Ellipse

    fill = LIGHT if observed else "white"
    axes.add_patch(
        Ellipse((oval.x, oval.y), 2 * oval.rx, 2 * oval.ry, facecolor=fill, edgecolor=DARK, linewidth=1.2, zorder=3)
    )
    at: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "small", "zorder": 4}
    words = shapes.get(name, "").split()
    axes.text(oval.x, oval.y - (6 if words else 0), name, **at)
    if words:
        axes.text(oval.x, oval.y + 9, f"({', '.join(words)})", color="0.35", **at)
