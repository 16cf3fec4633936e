"""The picture docs/pictures/layers.svg, of the layers that tests/test_architecture.py keeps."""

from __future__ import annotations

from tests.test_architecture import LAYERS

ABOUT = (
    "errors, validation, devices, intervals",
    "annotations; statistics of labels alone",
    "the parts that a model is written with",
    "engines: vb (with em), mcmc, svi, neural, predict",
    "the methods and their data",
    "tables, decisions, correction, files of a fit; truths without a model",
    "quality, problems, pictures, population figures, pages for everybody",
    "what users call",
)
"""What each layer holds, from the lowest."""
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" role="img"
width="640" height="{height}">
<title>The layers of crowdppl</title>
<desc>Each layer imports from itself and from the layers below it, never from one above.</desc>
<style>text{{font-family:sans-serif;fill:#222}}.n{{font-size:14px;font-weight:bold}}.w{{font-size:12px;fill:#555}}rect{{stroke:#555;stroke-width:1}}path{{stroke:#222;stroke-width:1.5;fill:none}}</style>
<rect x="0" y="0" width="640" height="{height}" style="fill:#fff;stroke:none"/>"""
ARROW = "The arrow: a layer imports from itself and from those below it."
STEP = 46
"""Pixels from one layer to the next."""


def svg() -> str:
    """The picture, the highest layer on top."""
    end = 8 + STEP * len(LAYERS)
    lines = [HEAD.format(height=end + 32)]
    for number, (parts, about) in reversed([*enumerate(zip(LAYERS, ABOUT, strict=True), 1)]):
        y, grey = end - STEP * number, 192 + 63 * (number - 1) // (len(LAYERS) - 1)
        shown = ", ".join(part for part in parts if not part.startswith("_"))
        lines += [
            f'<rect x="8" y="{y}" width="570" height="40" rx="4" fill="rgb({grey},{grey},{grey})"/>',
            f'<text class="n" x="20" y="{y + 17}">{number}  {shown}</text>'
            f'<text class="w" x="37" y="{y + 33}">{about}</text>',
        ]
    lines += [
        f'<path d="M608,14 V{end - 10} M601,{end - 20} L608,{end - 10} L615,{end - 20}"/>',
        f'<text class="w" x="20" y="{end + 16}">{ARROW}</text>',
        "</svg>\n",
    ]
    return "\n".join(lines)
