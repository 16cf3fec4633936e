"""Glyphs of names: fonts that have those that a picture's own font lacks, and boxes where no font has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crowdppl.doors.telling import tell
from crowdppl.errors import GlyphWarning

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

BOX = "□"
"""What stands for a letter that no font has."""
NO_SCRIPT = re.compile(r"cm\w+10|STIX(NonUnicode|Size\w+)|\.?Last ?Resort.*")
"""Fonts of mathematics, and those whose glyphs only say to which script a letter belongs."""
LISTED = 3
"""Names in a warning."""


def legible(*panels: Axes) -> None:
    """Gives the texts of axes fonts for the letters that their own lacks, and boxes for those that no font has.

    Args:
        panels: axes on which everything is written.

    Warns:
        GlyphWarning: once, with the names for whose letters no installed font has a glyph.
    """
    boxed: dict[str, None] = {}
    for axes in panels:
        for text in _texts(axes):
            written, families = _spelled(text.get_text(), text.get_fontfamily())
            if families != text.get_fontfamily():
                text.set_fontfamily(families)
            if written != text.get_text():
                boxed[" ".join(text.get_text().split())] = None
                text.set_text(written)
        for axis in (axes.xaxis, axes.yaxis):
            boxed |= dict.fromkeys(_spell_ticks(axis))
    if boxed:
        names = ", ".join(map(repr, list(boxed)[:LISTED]))
        more = f" and {len(boxed) - LISTED} more" if len(boxed) > LISTED else ""
        tell(
            f"no installed font has all letters of {names}{more}, so that boxes stand for some; install one that "
            "has, such as Noto Sans of that script, hand its file to matplotlib.font_manager.fontManager.addfont "
            'or set matplotlib.rcParams["font.family"], and draw again',
            GlyphWarning,
        )


def _texts(axes: Axes) -> Iterator[Text]:
    """Whatever is written on axes, but for the names of places on its edges."""
    yield from axes.texts
    yield from (axes.title, axes.xaxis.label, axes.yaxis.label)
    legend = axes.get_legend()
    if legend is not None:
        yield from (*legend.get_texts(), legend.get_title())


def _spell_ticks(axis: Any) -> list[str]:
    """The same for names of places on an edge; returns those that now hold boxes."""
    from matplotlib.ticker import FixedLocator

    if not isinstance(axis.get_major_locator(), FixedLocator):
        return []  # numbers, which matplotlib writes
    labels = axis.get_ticklabels()
    own: list[str] = labels[0].get_fontfamily() if labels else []
    texts = [label.get_text() for label in labels]
    families, written = own, []
    for text in texts:
        spelled, families = _spelled(text, families)
        written.append(spelled)
    if families != own:
        axis.set_tick_params(labelfontfamily=families)
    if written != texts:
        axis.set_ticklabels(written)
    return [text for text, spelled in zip(texts, written, strict=True) if text != spelled]


def _spelled(text: str, families: list[str]) -> tuple[str, list[str]]:
    """A text with a box for each letter that no font has, and families that have the others."""
    lacking = frozenset(x for x in text if not x.isspace())
    for path in _paths(families):
        lacking -= _covered(path, lacking)
    families = list(families)
    while lacking:
        name, found = _best(lacking)
        if not found:
            break
        families.append(name)
        lacking -= found
    return "".join(BOX if x in lacking else x for x in text), families


def _paths(families: list[str]) -> list[str]:
    """Files in which matplotlib looks for glyphs of some families."""
    from matplotlib.font_manager import FontProperties, findfont

    found = []
    for family in families:
        try:
            found.append(str(findfont(FontProperties(family=[family]), fallback_to_default=False)))
        except ValueError:  # matplotlib says itself that there is no such family, and takes its default
            continue
    return found or [str(findfont(FontProperties()))]


def _best(lacking: frozenset[str]) -> tuple[str, frozenset[str]]:
    """The font that has most of some letters, the first of several, and those that it has."""
    from matplotlib.font_manager import fontManager

    best: tuple[str, frozenset[str]] = "", frozenset()
    plain = [x for x in fontManager.ttflist if x.style == "normal" and not NO_SCRIPT.fullmatch(x.name)]
    for entry in plain:
        found = _covered(entry.fname, lacking)
        if len(found) > len(best[1]):
            best = entry.name, found
        if len(found) == len(lacking):
            break
    return best


@lru_cache(4096)
def _covered(path: str, letters: frozenset[str]) -> frozenset[str]:
    """Those of some letters of which the font in a file has glyphs that matplotlib can draw."""
    from matplotlib.ft2font import FT2Font

    if not letters:
        return letters
    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):  # a font that is listed and gone, or that FreeType cannot read
        return frozenset()
    if not font.scalable:  # bitmaps, of which matplotlib draws none
        return frozenset()
    return frozenset(x for x in letters if font.get_char_index(ord(x)))
