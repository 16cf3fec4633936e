"""Markdown as repositories and notebooks show it, for the site's parser, which wants lists indented by four."""

from __future__ import annotations

import re

from docs.making.links import FENCE

ITEM = re.compile(r"( {0,3})([-*+]|\d{1,9}[.)])( {1,4})(?=\S)")


def for_site(text: str) -> str:
    """The same text with lists as Python-Markdown reads them.

    CommonMark indents what belongs to an item by the width of its marker; Python-Markdown by four, always. A list
    may follow a paragraph at once in CommonMark; Python-Markdown wants an empty line between.
    """
    out: list[str] = []
    widths: list[int] = []  # of the text before an item's own, one for each list that is open
    fence, blank, paragraph = "", True, False
    for line in text.split("\n"):
        if not line.strip():
            out.append("")
            blank, paragraph = True, False
            continue
        indent = len(line) - len(line.lstrip(" "))
        lazy = not blank and paragraph and not ITEM.match(line.lstrip(" ")) and not fence
        while widths and indent < widths[-1] and not lazy and not fence:
            widths.pop()
        inner = line[min(indent, widths[-1]) :] if widths else line
        match = None if fence else ITEM.match(inner)
        if match and not (paragraph and not widths and match[2][:-1].isdigit() and int(match[2][:-1]) != 1):
            if out and out[-1] and not widths and not _item_before(out[-1]):
                out.append("")
            out.append(" " * 4 * len(widths) + match[2] + " " + inner[match.end() :])
            widths.append((widths[-1] if widths else 0) + match.end())
        else:
            out.append(" " * 4 * len(widths) + inner)
            if opened := FENCE.match(inner):
                fence = "" if fence and opened[1].startswith(fence) else fence or opened[1]
        blank, paragraph = False, not inner.startswith("    ") and not fence
    return "\n".join(out)


def _item_before(line: str) -> bool:
    return bool(ITEM.match(line.lstrip(" "))) or line.startswith("    ")
