"""Labels that are sets of classes, as answers of yes or no about each class."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from crowdppl.core.validation import kind_of
from crowdppl.data.ids import (
    Codebook,
    Encoding,
    Place,
    as_index,
    by_item,
    choices_of,
    encode,
    listed_answers,
    native,
)
from crowdppl.data.kinds.classes import (
    PLUS,
    SEPARATORS,
    Classes,
    parsed,
    read_label_set,
    set_of_classes,
    without_brackets,
)
from crowdppl.data.kinds.kind import Settled, Small
from crowdppl.data.kinds.parts import SEPARATOR, Parts
from crowdppl.data.tables import LISTS, Rows
from crowdppl.errors import DataError

OF_SETS = ("item", "class")
"""The item that a set was given to, and the class of which an answer says whether it is in the set."""
NO_YES = ("no", "yes")
Members = tuple[Any, ...] | None
"""The classes in a set; None for an abstention."""


@dataclass(frozen=True)
class Sets(Classes):
    """Labels that are sets of classes, read as an answer, yes or no, about each class of an item."""

    lists: ClassVar[bool] = True

    def read(self, rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
        """Rows of answers, whose items are pairs of item and class."""
        return super().read(*with_answers(rows, options))

    def settled(self, rows: Rows, objects: Codebook | None, options: Mapping[str, Any]) -> Settled:
        """The classes that sets hold."""
        away = listed_answers(options.get("abstentions", ()), "abstentions")
        known = _known_classes(options)
        classes = _classes(_sets([*rows.label.values], rows.place, known, away), known)  # type: ignore[union-attr]
        book = encode(classes, OF_SETS[1]).codebook("object")[0]
        alphabet = read_label_set(None, NO_YES, away, self, options.get("informative_abstentions", False))
        return Settled(alphabet, {"classes": [*classes]}, book, width=len(classes))

    def truths(self, gold: pd.Series[Any], items: pd.Index[Any], covariates: pd.DataFrame, roles: Any) -> Any:
        """Known sets as known answers by item and class."""
        return truths_by_class(gold, map(str, covariates[OF_SETS[1]].cat.categories))


def are_answers(items: Any) -> bool:
    """Whether ids already name an item and a class each, "item | class"."""
    values = items.values if isinstance(items, Encoding) else as_index(items)
    return len(values) > 0 and all(isinstance(x, str) and SEPARATOR in x for x in values)


def with_answers(rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
    """Rows of sets as rows of answers about each class, whose items are pairs of item and class.

    A set is text such as "a;b", or a list, a tuple or a set, of Python or written out, or {"choices": list}; an
    empty one holds no class. Where classes are listed, a text is cut into these, whatever stands between them:
    lines, blanks, ";", "|", ",", "+" or "/". Else the first of line, ";", "|" and "," that stands in any text
    separates the classes of all, but for lists that are written out; "+" where parts come in other labels, too.
    Brackets around names without quotes, "[a;b]", are none of theirs. Rows of answers stay as they are. DataError
    for a label that is missing or no set, with its row, an unknown class, or none, and for features, which tell no
    classes apart.
    """
    unnamed = options.get("classes") is None and options.get("like") is None
    if are_answers(rows.item):
        return rows, {**options, "classes": NO_YES} if unnamed else dict(options)
    if options.get("features") is not None:
        raise DataError("features do not tell classes apart; leave them out, or make a table of each class")
    away = listed_answers(options.get("abstentions", ()), "abstentions")
    known = _known_classes(options)
    label: Any = rows.label
    cells = np.array(label.values, object)[label.codes] if isinstance(label, Encoding) else label
    if rows.of_lists and not any(isinstance(x, LISTS) or any(mark in str(x) for mark in SEPARATORS) for x in cells):
        raise DataError(
            f"{rows.place(0)} has lists of annotators and of labels such as {native(cells[0])!r}, each a class of "
            "one or all a set; give a list of classes for each annotator, or a row for each (DataFrame.explode)"
        )
    sets = None if label is None else _sets(list(cells), rows.place, known, away)
    classes = _classes(sets, known)
    n, item = len(classes), encode(rows.item, "item", rows.place)
    annotator = encode(rows.annotator, "annotator", rows.place)
    given, place = rows.columns, rows.place
    named = options.get("items") if options.get("items") is not None else rows.items
    changed = {**options, "classes": None if options.get("like") is not None else NO_YES}
    changed["items"] = None if named is None else [(x, name) for x in as_index(named) for name in classes]
    if isinstance(options.get("item_covariates"), pd.DataFrame):
        of_items = options["item_covariates"]
        changed["item_covariates"] = _repeated(of_items, n).set_axis(_names(of_items.index, classes))
    if options.get("gold") is not None:
        changed["gold"] = truths_by_class(options["gold"], classes)
    gold = rows.gold
    if gold is not None:
        gold = truths_by_class(
            gold[gold.notna() & ~gold.map(lambda x: isinstance(x, str) and x == "").astype(bool)], classes
        )
    return replace(
        rows,
        item=_pairs(item, classes),
        annotator=Encoding(annotator.values, np.repeat(annotator.codes, n)),
        label=None if sets is None else _answers(sets, classes, away),
        columns=None if given is None else _repeated(given, n).reset_index(drop=True),
        place=lambda row: place(row // n),
        gold=gold,
    ), changed


def truths_by_class(gold: Any, classes: Iterable[Any]) -> pd.Series[Any]:
    """Known truths as known answers, yes or no, by "item | class"; DataError for what is no set of ``classes``.

    Of an item, its whole set is known, or by (item, class) the answer about one class: "yes", "no", or a bool.
    """
    given = by_item(gold)
    pairs = [x if isinstance(x, tuple) else (x,) if are_answers([x]) else None for x in given.index]
    of_one = np.array([pair is not None for pair in pairs], bool)
    known, names = given[~of_one], as_index(list(classes))
    sets = _sets(known.tolist(), lambda n: f"the gold of item {native(known.index[n])!r}", names, ())
    answers = _answers(sets, names, [])
    whole = pd.Series(answers.values[answers.codes], index=_names(known.index, names), dtype=object)
    ids = pd.Index([SEPARATOR.join(map(str, pair)) for pair in pairs if pair is not None], dtype=object)
    told = [NO_YES[int(x)] if isinstance(x, bool | np.bool_) else x for x in given[of_one]]
    one = pd.Series(told, index=ids, dtype=object)
    return whole if one.empty else pd.concat([whole, one])


def classes_of(items: pd.Index[Any]) -> pd.Index[Any]:
    """The classes that ids of items and classes name, as text."""
    return pd.Index(list(dict.fromkeys(str(name).rsplit(SEPARATOR, 1)[1] for name in items)))


def _known_classes(options: Mapping[str, Any]) -> pd.Index[Any] | None:
    """The classes that options list, or those of data that new ones are to be like."""
    if options.get("like") is not None:
        known: pd.Index[Any] = options["like"].item_covariates[OF_SETS[1]].cat.categories
        return known
    given = options.get("classes")
    return None if given is None else as_index(listed_answers(given, "classes"))


def _sets(
    cells: Sequence[Any], place: Place, known: pd.Index[Any] | None, away: Sequence[Hashable]
) -> list[Members]:
    """The classes of each label, those that are known in their spelling."""
    texts = {x for x in cells if isinstance(x, str)} - {*map(str, away)} - {*([] if known is None else known)}
    lists: dict[str, Any] = {x: found for x in texts if (found := parsed(x)) is not None}
    if known is not None:
        lists |= {x: found for x in texts - lists.keys() if (found := _cut(x, known)) is not None}
    cells = [lists.get(x, without_brackets(x) if x in texts else x) if isinstance(x, str) else x for x in cells]
    texts = {without_brackets(x) for x in texts - lists.keys()}
    mark = next((mark for mark in SEPARATORS if any(mark in x for x in texts)), None)
    if mark is None and set_of_classes([*texts], (PLUS,)) is not None:
        mark = PLUS
    book = None if known is None else Codebook("class", known)
    read: dict[Hashable, Members] = {}
    out = list[Members]()
    for row, cell in enumerate(cells):
        one = isinstance(cell, str) or (isinstance(cell, Hashable) and not isinstance(cell, Collection))
        key: Any = cell if one else tuple(_members(cell, place, row))
        if key not in read:
            read[key] = _read(key, place, row, mark if key in texts else None, away)
            found = read[key]
            if found and book is not None:
                code = book.codes(list(found))
                if (code < 0).any():
                    lost = found[int(np.argmax(code < 0))]
                    there = ", ".join(repr(native(name)) for name in book.ids[:12])
                    raise DataError(
                        f"the class {lost!r} at {place(row)} is none of {len(book)} ({there}); correct it, or list "
                        "all in classes="
                    )
                read[key] = tuple(book.ids[code])
        out.append(read[key])
    if book is None:
        _refuse_other_separators(cells, out, mark, place)
    return out


def _cut(text: str, known: pd.Index[Any]) -> list[str] | None:
    """The classes that a text is made of, the longest where several fit; None where something else is left."""
    names = "|".join(re.escape(str(name)) for name in sorted(known, key=lambda name: -len(str(name))))
    one, found, at = re.compile(rf"\s*({names})(?:\s*[;|,+/]|\s+|$)"), list[str](), 0
    while at < len(text):
        match = one.match(text, at)
        if match is None:
            return None
        found.append(match[1])
        at = match.end()
    return found or None


def _refuse_other_separators(cells: Sequence[Any], sets: Sequence[Members], mark: str | None, place: Place) -> None:
    """Refuses a class such as "x,y" where ";" separates classes, and x or y is one."""
    texts = [members or () if isinstance(cell, str) else () for cell, members in zip(cells, sets, strict=True)]
    names = {name for members in texts for name in members}
    for other in (*SEPARATORS, PLUS) if mark else (*SEPARATORS, "/", " "):
        odd = {name for name in names if other in name and names & {part.strip() for part in name.split(other)}}
        if odd:
            row, name = next((n, x) for n, members in enumerate(texts) for x in members if x in odd)
            why = f"other labels separate classes by {mark!r}; " if mark else ""
            raise DataError(
                f"the label {cells[row]!r} at {place(row)} would hold the class {name!r}, and a part of that is a "
                f"class, too: {why}write {mark or ';'!r} for {other!r} here, or list all in classes="
            )


def _members(cell: Any, place: Place, row: int) -> list[Any]:
    """The classes that a list, a set or an array holds."""
    cell = choices_of(cell)
    if (isinstance(cell, Mapping) and cell) or not isinstance(cell, Collection | np.ndarray):
        raise DataError(
            f"the label at {place(row)} is {kind_of(cell)}, and no set of classes; give a list, or 'a;b'"
        )
    members = [native(x) for x in (cell if isinstance(cell, Collection) else cell.tolist())]
    wrong = next((x for x in members if not isinstance(x, str | int)), None)
    if wrong is not None:
        raise DataError(f"the label at {place(row)} holds {wrong!r}, which is no class; use text or integers")
    return members


def _read(cell: Any, place: Place, row: int, mark: str | None, away: Sequence[Hashable]) -> Members:
    """The classes of one label, each once."""
    if isinstance(cell, str):
        if cell in away:
            return None
        parts: list[Any] = [part.strip() for part in (cell.split(mark) if mark else [cell])]
        return tuple(dict.fromkeys(part for part in parts if part))
    if isinstance(cell, tuple):
        return tuple(dict.fromkeys(cell))
    if pd.isna(cell):
        raise DataError(
            f"the label at {place(row)} is missing ({cell!r}); say [] or '' for an empty set, or leave the row out"
        )
    return None if native(cell) in away else (native(cell),)


def _classes(sets: list[Members] | None, known: pd.Index[Any] | None) -> pd.Index[Any]:
    """The classes, in their order."""
    if known is not None:
        return known
    if sets is None:
        raise DataError("a design has no labels to take the classes from; list them in classes=")
    found = list(dict.fromkeys(name for members in sets for name in members or ()))
    if not found:
        raise DataError("no label names a class; list the classes in classes=")
    return encode(found, "class").codebook("class")[0].ids


def _answers(sets: list[Members], classes: pd.Index[Any], away: Sequence[Hashable]) -> Encoding:
    """An answer about each class for each set: no, yes, or the abstention."""
    n, place = len(classes), {name: k for k, name in enumerate(classes)}
    codes = np.zeros((len(sets), n), np.int32)
    row = np.repeat(np.arange(len(sets)), [len(members or ()) for members in sets])
    codes[row, [place[name] for members in sets for name in members or ()]] = 1
    codes[[k for k, members in enumerate(sets) if members is None]] = 2
    used, again = np.unique(codes, return_inverse=True)
    names = [*NO_YES, *map(str, away[:1])]
    return Encoding(pd.Index([names[k] for k in used], dtype=object), again.reshape(-1).astype(np.int32))


def _pairs(item: Encoding, classes: pd.Index[Any]) -> pd.DataFrame:
    """Every item with every class, a row each."""
    n, rows = len(classes), len(item)
    first = pd.Categorical.from_codes(np.repeat(item.codes, n), categories=item.values)
    second = pd.Categorical.from_codes(np.tile(np.arange(n), rows), categories=classes)
    return pd.DataFrame(dict(zip(OF_SETS, (first, second), strict=True)))


def _names(items: pd.Index[Any], classes: pd.Index[Any]) -> pd.Index[Any]:
    """The ids of every item with every class."""
    return pd.Index([f"{item}{SEPARATOR}{name}" for item in items for name in classes], dtype=object)


def _repeated(table: pd.DataFrame, n: int) -> pd.DataFrame:
    """Each row n times."""
    return table.iloc[np.repeat(np.arange(len(table)), n)]


SETS = Sets(
    "set",
    "sets",
    'sets of classes, such as "a;b"',
    called="answers",
    parts=Parts("set", OF_SETS, columns=False),
    aliases=("multilabel", "multi_label", "multiple", "choices", "multiple_choice"),
    table="sets",
    members={"set_clusters": {"clusters": 1}},
    example=(("one", "two", "three", "four", "five", "six"), ("red;round", "red", "", "long")),
    small=Small(lambda n: f"item {n // 3}{SEPARATOR}{n % 3}", "ab", None),
    means=dict(zip(NO_YES, ("not in the set", "in the set"), strict=True)),
)
