"""Ids and labels that look like one and count as several."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from difflib import get_close_matches

import numpy as np
import pandas as pd

from crowdppl.data.coding import Coded
from crowdppl.errors import SpellingWarning
from crowdppl.tables.alphabet import Alphabet
from crowdppl.tables.codebook import Codebook, is_text, plain
from crowdppl.tables.options import Options
from crowdppl.tables.variants import bare as bare_of
from crowdppl.tables.variants import composed

CLOSE = 0.8
"""Similarity of two spellings, from 0 to 1, from which on one may be meant for the other."""
ZEROS = (re.compile(r"\n(?:\+|-?0[0-9])"), re.compile(r"\.0*\n"))
"""Marks of whole numbers that could be written shorter, in lines of ids."""


def spelling_warnings(coded: Coded, options: Options) -> list[SpellingWarning]:
    """What to say of items, annotators and labels that differ in spelling alone: at most one warning of each.

    Books that are given as such and classes that are listed are as their owner wants them, and are passed over.

    Args:
        coded: rows of codes, with what the codes mean.
        options: what was said about them.
    """
    new, named = options.get("like") is None, isinstance(options.get("annotators"), Codebook)
    looked_at = {
        "items": not isinstance(options.get("items"), Codebook),
        "annotators": options.get("grow", False) or (new and not named),
        "labels": new and options.get("classes") is None,
    }
    books = {"items": coded.items, "annotators": coded.annotators, "labels": coded.alphabet.book}
    found = [_warning(kind, book) for kind, book in books.items() if looked_at[kind]]
    if looked_at["labels"] and coded.answer is not None and len(coded.alphabet.book) > coded.alphabet.n_classes:
        found.append(_misspelt(coded.alphabet, np.bincount(coded.answer, minlength=len(coded.alphabet.book))))
    return [warning for warning in found if warning is not None]


def _misspelt(alphabet: Alphabet, given: np.ndarray) -> SpellingWarning | None:
    """Of an abstention that nobody gave, where a label is nearly spelled so and counts as a class.

    Args:
        alphabet: classes and abstentions.
        given: how often each was given.
    """
    names = [str(plain(name)) for name in alphabet.book.ids]
    classes = [names[code] for code in np.flatnonzero(given[: alphabet.n_classes])]
    for name in [name for name, n in zip(names, given, strict=True) if not n and name not in classes]:
        for near in get_close_matches(name, classes, 1, CLOSE):
            return SpellingWarning(
                f"nobody abstained by {name!r}, and {near!r} counts as a class; name it in abstentions= as it is "
                "spelled in the labels, or list the classes in classes= if it is one"
            )
    return None


def _warning(kind: str, book: Codebook) -> SpellingWarning | None:
    if kind == "labels":
        # Abstentions may be text where classes are numbers.
        texts = [text for text in book.ids if isinstance(text, str)]
        bare = list(map(bare_of, texts))
    elif is_text(book.ids):
        texts = book.ids.tolist()
        bare = _bare_ids(texts)
    else:
        return None
    if bare == texts or len(set(bare)) == len(bare):
        return None
    times = Counter(bare)
    alike = [position for position, one in enumerate(bare) if times[one] > 1]
    pair = [texts[position] for position in alike if bare[position] == bare[alike[0]]][:2]
    # Accents look alike in either Unicode form, so that the message spells them out.
    one, other = map(ascii if len({composed(text) for text in pair}) == 1 else repr, pair)
    unless = "or list all in classes=" if kind == "labels" else "or go on"
    return SpellingWarning(
        f"{len(alike)} of {len(book)} {kind} differ from another in blanks, zeros, case or Unicode form alone, "
        f"such as {one} and {other}, and count as {kind} of their own; spell each in one way, {unless} if they are "
        "meant to differ"
    )


def _bare_ids(texts: list[str]) -> list[str]:
    """Ids without blanks around them, in one Unicode form and case, and whole numbers without zeros.

    Zeros of decimals may tell ids apart: 1.1 and 1.10 number parts of something.
    """
    # All ids are searched as one text, which takes a tenth of the time of a look at each. Whole numbers of one
    # width, as 0001 to 9999, are each spelled once.
    bare = _each(composed, list(map(str.strip, texts)))
    lines = "\n".join(["", *bare, ""])
    if any(mark.search(lines) for mark in ZEROS) and not (
        len(set(map(len, bare))) == 1 and "".join(bare).isdecimal()
    ):
        bare = list(map(_whole, bare))
    return _in_one_case(bare)


def _in_one_case(texts: list[str]) -> list[str]:
    """Ids in lower case where case is that of a word: in Ann, ann and ANN, not in dQw4w9WgXcQ, nor in one letter.

    Other capitals may tell ids apart, as in base64; where most that differ in case have them, case does for all.
    """
    folded = _each(str.casefold, texts)
    if folded is texts or len(set(folded)) == len(texts):
        return texts
    low = dict(zip(texts, folded, strict=True))
    twice = pd.Index(list(low.values())).duplicated(keep=False)
    alike = [text for text, again in zip(low, twice.tolist(), strict=True) if again]
    words = {text: low[text] for text in alike if _a_word(text)}
    return [words.get(text, text) for text in texts] if 2 * len(words) > len(alike) else texts


def _a_word(text: str) -> bool:
    return len(text) > 1 and text in (text.lower(), text.upper(), text.capitalize(), text.title())


def _each(change: Callable[[str], str], texts: list[str]) -> list[str]:
    """Every text changed, all as one, by a change that looks at no letter beyond a line's end."""
    lines = "\n".join(texts)
    changed = change(lines)
    if changed == lines:
        return texts
    parts = changed.split("\n")
    return parts if len(parts) == len(texts) else list(map(change, texts))


def _whole(text: str) -> str:
    if text.isdecimal():
        return text.lstrip("0") or "0"
    head, _, decimals = text.partition(".")
    digits = head.lstrip("+-")
    if decimals.strip("0") or not digits.isdecimal():
        return text
    return ("-" if head[0] == "-" else "") + (digits.lstrip("0") or "0")
