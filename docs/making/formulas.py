"""The model of a method in the symbols of the literature, beside its code."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape

import crowdppl
from crowdppl.primitives.model import card_of
from docs.making import symbols

LINE = re.compile(r"^(?P<left>\S.*?)\s+(?P<sign>[~=]) +(?P<right>.*?)(?:\s{2,}(?P<rest>\S.*))?$")
"""A line of a model: what is drawn, how, and after two spaces its shape and what it is."""
NAME = re.compile(r"[A-Za-z_]+")


def beside(name: str, story: Sequence[str], linked: Callable[[str], str]) -> str:
    """The paragraphs of a model: the indented one as formulas beside the code of the method."""
    code = textwrap.dedent(inspect.getsource(type(crowdppl.method(name)).model)).rstrip()
    parts = []
    for paragraph in story:
        if paragraph.startswith("    "):
            rows = table(name, textwrap.dedent(paragraph))
            parts.append(
                f'<div class="beside" markdown>\n\n{rows}\n\n<div markdown>\n\n'
                f"```python\n{code}\n```\n\n</div>\n\n</div>"
            )
        else:
            parts.append(linked(paragraph))
    return "\n\n".join(parts)


def table(name: str, text: str) -> str:
    """The lines of a model as rows of a table of HTML, with symbols for sites."""
    known = letters(name)
    rows = []
    for line in text.split("\n"):
        if line.startswith(" "):
            rows.append(f"<tr><td></td><td></td><td>{formula(line.strip(), known)}</td><td></td></tr>")
        elif found := LINE.match(line):
            left, sign, right, rest = (found[part] or "" for part in ("left", "sign", "right", "rest"))
            cells = [formula(left, known), {"~": "∼"}.get(sign, sign), formula(right, known), escape(rest)]
            rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        else:
            rows.append(f'<tr><td colspan="4">{formula(line, known)}</td></tr>')
    return "\n".join(['<table class="formulas">', *rows, "</table>"])


def letters(name: str) -> Mapping[str, str]:
    """The letter of each site of a method."""
    card = card_of(crowdppl.method(name))
    assert card is not None
    return {site: symbols.symbol(name, site).letter for site in (*card.sites, "label")}


def formula(text: str, known: Mapping[str, str]) -> str:
    """Code as a formula: letters for sites, with what stands in brackets as an index."""
    out, at = [], 0
    while at < len(text):
        if word := NAME.match(text, at):
            at = word.end()
            letter = known.get(word[0])
            out.append(escape(word[0]) if letter is None else f"<i>{letter}</i>")
            if at < len(text) and text[at] == "[":
                end = closing(text, at)
                out.append(f"<sub>{formula(text[at + 1 : end], known).replace(', ', ',')}</sub>")
                at = end + 1
        else:
            out.append({"*": "·", "-": "−"}.get(text[at], escape(text[at])))
            at += 1
    return "".join(out)


def closing(text: str, at: int) -> int:
    """The place of the bracket that closes the one at a place; the end of the text where none does."""
    depth = 0
    for n in range(at, len(text)):
        depth += (text[n] == "[") - (text[n] == "]")
        if depth == 0:
            return n
    return len(text)
