"""A plate diagram as an SVG file: text that is the same every time, and of which a change shows line by line."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from math import hypot

from crowdppl.plots.model_graph import ANNOTATORS, FEATURES, ITEMS, Box, ModelGraph, Oval, arrange, extent
from docs.making import symbols

INK, FILL, SHADE = "#333333", "#ffffff", "#d9d9d9"

CAPTIONS: Mapping[str, str] = {
    ITEMS: "items N",
    ANNOTATORS: "annotators A",
    "communities": "communities M",
    "groups": "groups 1 + G",
    "linked": "groups G",
}
"""What stands on a plate; others show their name in the story."""

STYLE = (
    f"text{{font-family:sans-serif;font-size:11px;fill:{INK};text-anchor:middle}}"
    ".s{font-family:serif;font-size:17px;font-style:italic}.i{font-size:11px}"
    f"ellipse,rect,path{{fill:none;stroke:{INK};stroke-width:1.2}}ellipse{{fill:{FILL}}}ellipse.o{{fill:{SHADE}}}"
)


def svg(method: str, graph: ModelGraph, shapes: Mapping[str, str]) -> str:
    """The drawing of a story.

    Args:
        method: its name in the registry.
        graph: its variables.
        shapes: of the sites, as on the card; labels and features have theirs of themselves.
    """
    layout = arrange(graph)
    shapes = {"label": "N A", FEATURES: "N"} | dict(shapes)
    left, top, right, bottom = extent(layout)
    wide, high = f"{right - left:.0f}", f"{bottom - top:.0f}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {top:.0f} {wide} {high}" '
        f'width="{wide}" height="{high}" role="img">',
        f"<title>Plate diagram of {escape(method)}</title>",
        f"<desc>{escape(in_words(graph))}</desc>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto"><path d="M0,0.8 L8,4 L0,7.2 z" style="fill:{INK};stroke:none"/></marker></defs>',
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{wide}" height="{high}" style="fill:{FILL};stroke:none"/>',
        *(_plate(plate, box) for plate, box in layout.boxes.items()),
        *(
            _arrow(layout.ovals[parent], layout.ovals[child])
            for child, parents in graph.parents.items()
            for parent in parents
        ),
        *(
            _variable(method, name, layout.ovals[name], shapes[name], name in graph.observed)
            for name in graph.parents
        ),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def in_words(graph: ModelGraph) -> str:
    """The arrows and plates in a sentence each, for those who do not see the drawing."""
    arrows = [f"{name} depends on {', '.join(parents)}." for name, parents in graph.parents.items() if parents]
    plates = [f"Plate of {plate}: {', '.join(names)}." for plate, names in graph.plates.items()]
    return " ".join([*arrows, *plates])


def _plate(plate: str, box: Box) -> str:
    # Items end to the right of labels and annotators to the left, so that there the names stand free.
    at, anchor = (box.right - 8, "end") if plate == ITEMS else (box.left + 8, "start")
    return (
        f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.right - box.left:.1f}" '
        f'height="{box.bottom - box.top:.1f}" rx="8"/>\n'
        f'<text x="{at:.1f}" y="{box.bottom - 7:.1f}" style="text-anchor:{anchor}">'
        f"{escape(CAPTIONS.get(plate, plate))}</text>"
    )


def _arrow(a: Oval, b: Oval) -> str:
    dx, dy = b.x - a.x, b.y - a.y
    out, into = (1 / hypot(dx / oval.rx, dy / oval.ry) for oval in (a, b))
    return (
        f'<path d="M{a.x + out * dx:.1f},{a.y + out * dy:.1f} L{b.x - into * dx:.1f},{b.y - into * dy:.1f}" '
        'marker-end="url(#tip)"/>'
    )


def _variable(method: str, name: str, oval: Oval, shape: str, observed: bool) -> str:
    index = symbols.indices(method, shape)
    below = f'<tspan class="i" dy="4">{escape(index)}</tspan>' if index else ""
    letter = escape(symbols.symbol(method, name).letter)
    shaded = ' class="o"' if observed else ""
    return (
        f'<ellipse cx="{oval.x:.1f}" cy="{oval.y:.1f}" rx="{oval.rx:.1f}" ry="{oval.ry:.1f}"{shaded}/>\n'
        f'<text class="s" x="{oval.x:.1f}" y="{oval.y - 2:.1f}">{letter}{below}</text>\n'
        f'<text x="{oval.x:.1f}" y="{oval.y + 15:.1f}">{escape(name)}</text>'
    )
