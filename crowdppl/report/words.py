"""The words of a report: one file a language, and how numbers and ids stand in its sentences."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import isfinite
from string import Formatter
from typing import Any

from markupsafe import Markup, escape

from crowdppl.core.validation import one_of, printable

LANGUAGES = ("en", "de")
MOST_NAMED = 5
"""Ids of a list that a sentence names."""
LONGEST = 100
"""Characters of an id that a page shows."""
LONGEST_TEXT = 300
"""Characters of the text of an item that a page shows."""


@dataclass(frozen=True)
class Say:
    """A sentence of the file of words, and what stands in its places."""

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)


def say(key: str, /, **values: Any) -> Say:
    """The sentence of a key; ``n`` among the values chooses between its forms for one and for several."""
    return Say(key, values)


@cache
def _sentences(language: str) -> dict[str, Any]:
    """The contents of a file of words."""
    return tomllib.loads((files(__package__) / "words" / f"{language}.toml").read_text(encoding="utf-8"))


class Words(Formatter):
    """A language, and what the labels at hand are called in it.

    Args:
        language: one of ``LANGUAGES``.
        nouns: the entry of ``nouns`` in the file of words for what is labelled: "classes", "numbers" ...
    """

    def __init__(self, language: str = "en", nouns: str = "classes") -> None:
        self.language = one_of("language", language, LANGUAGES)
        self.sentences = _sentences(language)
        self.nouns: Mapping[str, str] = self.sentences["nouns"][nouns]
        self.marks = self.sentences["marks"]

    def find(self, key: str) -> Any:
        """What stands under a key with dots; KeyError where nothing does."""
        found: Any = self.sentences
        for part in key.split("."):
            found = found[part]
        return found

    def has(self, key: str) -> bool:
        """Whether there is such a key."""
        try:
            self.find(key)
        except (KeyError, TypeError):
            return False
        return True

    def text(self, said: Say) -> str:
        """A sentence for a terminal."""
        return printable(re.sub(r"[*`]", "", self._fill(said, str)).replace("\u00a0", " "))

    def html(self, said: Say) -> Markup:
        """A sentence for a page: **bold**, `code`; whatever stands in its places is escaped."""
        return Markup(self._fill(said, _marked_up))

    def value(self, x: Any, spec: str = "") -> Markup:
        """A number, an id or a sentence, as it stands in a page."""
        return Markup(self._shown(x, spec, page=True))

    def plain(self, x: Any, spec: str = "") -> str:
        """The same as text without markup, not escaped, such as for attributes."""
        return self._shown(x, spec, page=False)

    def _fill(self, said: Say, prepare: Callable[[str], str]) -> str:
        found = self.find(said.key)
        if isinstance(found, Mapping):
            form = {0: "none", 1: "one"}.get(said.values.get("n", 2), "other")
            found = found.get(form, found["other"])
        values = {**self.nouns, **said.values}
        page = prepare is _marked_up
        parts = []
        for literal, name, spec, _ in self.parse(prepare(found)):
            parts.append(literal)
            if name is not None:
                x = values[name]
                if name in self.nouns and name not in said.values:
                    parts.append(str(escape(x)) if page else x)
                else:
                    parts.append(self._shown(x, spec or "", page))
        return "".join(parts)

    def _shown(self, x: Any, spec: str, page: bool) -> str:
        """A value by its format: "" for counts and text, pct, pct1 (with a decimal), num, round, About, points,
        id, ids, list, text, whole (text that is not cut)."""
        if isinstance(x, Say):
            return str(self.html(x)) if page else self.text(x)
        if spec == "ids" or (spec == "list" and not isinstance(x, str)):
            return self._listed(x, "id" if spec == "ids" else "num", page)
        if spec in ("text", "whole"):
            shown = _short(x, LONGEST_TEXT if spec == "text" else len(str(x)))
            return str(escape(shown)) if page else shown
        if spec == "id":
            shown = _short(x)
            return f'<bdi class="id">{escape(shown)}</bdi>' if page else shown
        text = self._number(x, spec) if isinstance(x, int | float) and not isinstance(x, bool) else _short(x)
        return str(escape(text)) if page else text

    def _number(self, x: float, spec: str) -> str:
        """A number as the language writes it; a dash where it is none."""
        if not isfinite(x):
            return "–"
        if spec == "pct":
            text = f"{100 * x:.0f}"
            text = self.marks["almost"] if text == "100" and x < 1 else text
            return str(self.marks["percent"]).format(self.marks["almost_none"] if 0 < x < 0.005 else text)
        if spec == "pct1":
            return str(self.marks["percent"]).format(self._number(round(100 * x, 1), "num"))
        if spec in ("round", "about", "About"):
            text = str(self.marks["under_one"]) if x < 0.95 else self._number(round(x), "")
            text = text if spec == "round" or x < 0.95 else str(self.marks["about"]).format(text)
            return text[0].upper() + text[1:] if spec == "About" else text
        if spec == "points":
            return f"{'+' if x > 0 else '−' if x < 0 else ''}{abs(x):.0f}"
        text = (
            f"{x:,.0f}" if spec == "" or abs(x) >= 1000 else f"{x:.2f}" if abs(x) >= 0.1 or x == 0 else f"{x:.1g}"
        )
        if spec and "." in text and "e" not in text:
            text = text.rstrip("0").rstrip(".")
        return text.translate(str.maketrans({",": self.marks["thousands"], ".": self.marks["decimal"]}))

    def _listed(self, ids: Sequence[Any], spec: str, page: bool) -> str:
        """Some of several, joined by commas and "and"."""
        more = len(ids) - MOST_NAMED
        kept = list(ids) if more <= 1 else list(ids[:MOST_NAMED])
        shown = [self._shown(x, spec, page) for x in kept]
        if len(kept) < len(ids):
            shown.append(self.marks["more"].format(self._number(more, "")))
        return ", ".join(shown[:-1]) + (self.marks["and"] if len(shown) > 1 else "") + shown[-1] if shown else "–"


def _short(x: Any, longest: int = LONGEST) -> str:
    """An id or a name, cut where it is long; characters that steer the terminal or the page are shown as such."""
    text = " ".join(map(str, x)) if isinstance(x, tuple) else str(x)
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join("␤" if c == "\n" else "�" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def _marked_up(sentence: str) -> str:
    """A sentence of the file as HTML, with its places."""
    text = str(escape(sentence)).replace(" %", "\u00a0%")
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", text)
