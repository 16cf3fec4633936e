"""Spellings of one thing: blanks around it, zeros of a number, case, and the Unicode form of accents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from unicodedata import is_normalized, normalize

NUMBER = re.compile(r"\+?(-?)0*([0-9]+?)(?:\.([0-9]*?)0*)?")
"""Sign, whole part and decimals of a number, without the zeros that change nothing."""


def bare(text: str) -> str:
    """A text without blanks around it, in one Unicode form and case; a number without zeros."""
    number = NUMBER.fullmatch(text.strip())
    return f"{number[1]}{number[2]}.{number[3] or ''}" if number else composed(text.strip()).casefold()


def composed(text: str) -> str:
    """A text with each accent in its letter (NFC)."""
    return text if is_normalized("NFC", text) else normalize("NFC", text)


def otherwise_spelled(value: Any, ids: Iterable[Any]) -> str:
    """How an id that stands for the same as a value is written there; "" where there is none.

    Args:
        value: text, or what is looked at as text.
        ids: those that there are.
    """
    wanted = bare(str(value))
    return next((repr(one) for one in ids if bare(str(one)) == wanted), "")
