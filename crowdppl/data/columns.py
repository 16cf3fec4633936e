"""Which column of a table holds items, annotators, labels or gold: as said, or recognised by its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.ids import native
from crowdppl.errors import DataError

ALIASES: Mapping[str, tuple[str, ...]] = {
    "item": (
        "item task question subject example",
        "instance object unit document doc patient sample hit record case",
        "id",
        "text image sentence audio video url",
    ),
    "annotator": (
        "annotator worker rater coder user",
        "labeler labeller judge grader observer reviewer expert performer contributor participant",
    ),
    "label": (
        "label answer rating response accept",
        "class category annotation judgment judgement grade score choice vote value",
        "winner preferred preference tag",
        "ranking rank",
    ),
    "class": ("label class truth gold answer", "category true rating target", "rank"),
    "left": ("left lefta objecta optiona responsea modela itema a",),
    "right": ("right rightb objectb optionb responseb modelb itemb b",),
    "sequence": ("sequence sentence", "document doc text"),
    "position": ("position", "token index order"),
    "problem": ("problem list", "query question topic task prompt"),
    "object": ("object candidate option alternative",),
}
"""Names of each role. Later ones count only where no earlier one is there: tables of labels carry the text or image
along, beside an id. Prodigy writes choices to "accept", beside an "answer" that says whether the task was done."""
IDENTIFIED = frozenset(["item", "annotator"])
"""Roles whose columns may end in "id"; one of labels never does."""
PARTS_OF_ITEMS = ("left", "right", "sequence", "position", "problem", "object")
"""Roles of columns of which two name an item."""
OPTIONAL = ("problem", "object")
"""Those of which either may be missing: rankings of one list name none, and whole ones name their objects."""
ARGUMENT: Mapping[str, str] = {"class": "label", "gold": "gold_column", **dict.fromkeys(PARTS_OF_ITEMS, "item")}
"""The argument that names the column of a role, where it is not called like the role."""
NO_ANNOTATOR = "gold golden truth groundtruth gt true target majority consensus adjudicated"
"""Words in the name of a column of a wide table that holds truths."""
MEASURED = "time times timestamp date created updated seconds duration length words tokens count"
"""Words in the name of one that holds times and lengths."""
UNSPECIFIC = frozenset(["id", "ids", "index", "unnamed0"])
"""What tables call their rows: pandas writes an index under no name, and reads it back as "Unnamed: 0"."""

Roles = Mapping[str, Hashable | None]
"""The column of each role, or None to recognise it by name."""


def label_roles(
    item: Any, annotator: Hashable | None, label: Hashable | None, gold: Hashable | None, parts: Sequence[str] = ()
) -> Roles:
    """The roles of a table of labels and, where it is given, of gold, which is never recognised: it informs a fit.

    Where two columns, of roles ``parts``, name an item together, ``item`` is a pair of columns, or one with the
    ids of both; else DataError.
    """
    if parts and item is not None and not isinstance(item, str) and np.size(item) != 2:
        raise DataError(
            f"item={item!r} must name two columns, of {' and '.join(parts)}: item=({', '.join(map(repr, parts))}), "
            "or one with ids of both"
        )
    one = not parts or isinstance(item, str)
    of_item = {"item": item} if one else dict(zip(parts, item or (None, None), strict=False))
    roles = {**of_item, "annotator": annotator, "label": label}
    return roles if gold is None else {**roles, "gold": gold}


def recognise(columns: Sequence[Hashable], given: Roles, origin: str) -> dict[str, Hashable]:
    """Finds the column of each role: as given, or, for None, by its name.

    Names are compared without regard to case, spaces, underscores and, of items and annotators, a final "id". The
    truth in a table of gold has the role "class". A column "item" names both parts of items where no other column
    does. DataError when a column is missing, occurs twice, or several could be meant.
    """
    listed = ", ".join(map(repr, columns)) or "none"
    refuse_twins(columns, origin)
    parts = [role for role in given if role in PARTS_OF_ITEMS]
    if "item" in columns and parts and not any(given[role] or looks_like(columns, role) for role in parts):
        given = {"item": "item"} | {role: column for role, column in given.items() if role not in parts}
    found = {role: column for role, column in given.items() if column is not None}
    for role, column in found.items():
        if column not in columns:
            raise DataError(f"{origin} has no column {column!r} for {role}; its columns are {listed}")
    taken = set(found.values())
    if len(taken) < len(found):
        raise DataError(f"one column is given for several of {', '.join(found)}; each needs one of its own")
    for role in [role for role in given if role not in found]:
        near = looks_like([c for c in columns if c not in taken], role)
        argument = f"{ARGUMENT.get(role, role)}="
        if len(near) > 1:
            names = ", ".join(map(repr, near))
            raise DataError(f"{origin}: the {role} could be any of the columns {names}; say {argument}")
        if not near and role in OPTIONAL:
            continue
        if not near:
            wide = ", or wide=True if each annotator has a column" if role == "annotator" else ""
            raise DataError(
                f"{origin} has no column that looks like {role} (such as {ALIASES[role][0].replace(' ', ', ')}); "
                f"its columns are {listed}; say {argument}{wide}"
            )
        found[role] = near[0]
    return {role: found[role] for role in given if role in found}


def two_parts(columns: Sequence[Hashable]) -> tuple[str, ...]:
    """The roles of two columns that name an item together, where no other column is named like items."""
    pairs = zip(PARTS_OF_ITEMS[::2], PARTS_OF_ITEMS[1::2], strict=True)
    pair = next((pair for pair in pairs if all(looks_like(columns, part) for part in pair)), ())
    own = {column for part in pair for column in named(columns, ALIASES[part][0], part)}
    return () if looks_like([column for column in columns if column not in own], "item") else pair


def refuse_twins(columns: Sequence[Hashable], origin: str) -> None:
    """Refuses columns of one name."""
    again = pd.Series(list(columns), dtype=object).duplicated()
    if again.any():
        raise DataError(
            f"{origin} has several columns named {columns[int(np.argmax(again))]!r}; rename all but one"
        )


def looks_like(columns: Sequence[Hashable], role: str) -> list[Hashable]:
    """Columns that are named like a role, by the most usual of its names that are there."""
    return next((found for names in ALIASES[role] if (found := named(columns, names, role))), [])


def named(columns: Sequence[Hashable], names: str, role: str) -> list[Hashable]:
    """Columns that bear one of the names, separated by blanks, as a column of the role may be spelled."""

    def spellings(column: Hashable) -> set[str]:
        bare = letters(column)
        return {bare, bare.removesuffix("ids").removesuffix("id")} if role in IDENTIFIED else {bare}

    return [column for column in columns if spellings(column) & {*names.split()}]


def not_annotators(table: pd.DataFrame) -> Iterator[tuple[Hashable, str]]:
    """Columns of a wide table that look like no annotator's, and why: their names, or values of their own."""
    usual = {*" ".join(chain(*(ALIASES[role] for role in ("item", "label", "class")))).split(), *UNSPECIFIC}
    truths, measures = {*NO_ANNOTATOR.split()}, {*MEASURED.split()}
    values = [_values(table.iloc[:, n]) for n in range(table.shape[1])]
    spans = [_span(own) for own in values]
    times = Counter(chain(*values))
    for n, (column, own) in enumerate(zip(table.columns, values, strict=True)):
        alone = {value for value in own if times[value] == 1}
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", str(column))}
        if letters(column) in usual or words & truths or (words & measures and alone):
            yield column, "by its name"
            continue
        foreign = len(alone) == len(own) > 1 and len(values) > 2  # of two, either may be the odd one
        if foreign and not _among(spans[n], [*spans[:n], *spans[n + 1 :]]):
            yield column, f"because no other has its values, such as {native(next(iter(alone)))!r}"


def _span(values: set[Any]) -> tuple[float, float, float, bool] | None:
    """Least, median and greatest of numbers, and whether there are fractions; None where one is no number."""
    numbers = pd.to_numeric(pd.Series([*values]), errors="coerce").to_numpy(np.float64)
    if not len(numbers) or not np.isfinite(numbers).all():
        return None
    return numbers.min(), float(np.median(numbers)), numbers.max(), bool((numbers % 1 != 0).any())


def _among(own: tuple[float, float, float, bool] | None, others: list[Any]) -> bool:
    """Whether numbers lie where those of other columns do, and are of their kind: measurements seldom repeat."""
    known = [span for span in others if span is not None]
    if own is None or not known:
        return False
    least, _, greatest, fractions = zip(*known, strict=True)
    return min(least) <= own[1] <= max(greatest) and (any(fractions) or not own[3])


def _values(column: pd.Series[Any]) -> set[Any]:
    """The different values of a column, blanks aside; none where there are lists among them."""
    try:
        found = set(column.dropna().unique().tolist())
    except TypeError:
        return set()
    return {value for value in found if not (isinstance(value, str) and not value.strip())}


def letters(column: Hashable) -> str:
    """The letters and digits of a column's name, in lower case."""
    return re.sub(r"[^a-z0-9]", "", column.lower()) if isinstance(column, str) else ""


def apart_from_roles(columns: Sequence[Hashable], roles: Mapping[str, Hashable]) -> dict[Hashable, Hashable]:
    """New names for columns that bear the name of a role that another one holds: "other_label", say."""
    new: dict[Hashable, Hashable] = {}
    for column in columns:
        if column in roles:
            name = f"other_{column}"
            while name in columns:
                name = f"other_{name}"
            new[column] = name
    return new
