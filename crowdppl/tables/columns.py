"""Which column holds what: recognised by name, unless one is told."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence

from crowdppl.errors import DataError

# Usual names first; the others count only where no usual one is there, because tables of labels often carry a
# text, an image or a value along.
ALIASES: Mapping[str, tuple[str, str]] = {
    "item": (
        "item task question subject example",
        "instance object unit document doc image sentence text patient sample hit record case",
    ),
    "annotator": (
        "annotator worker rater coder user",
        "labeler labeller judge grader observer reviewer expert performer contributor participant",
    ),
    "label": (
        "label answer rating response",
        "class category annotation judgment judgement grade score choice vote value",
    ),
    "class": ("label class truth gold answer", "category true rating target"),
}

SAID: Mapping[str, str] = {"class": "label"}
"""How a reader of files calls a role, where not by its name."""

# What tables call their rows: pandas writes an index under no name, and reads it back as "Unnamed: 0".
UNSPECIFIC = frozenset(["id", "ids", "index", "unnamed0"])


def recognise(
    columns: Sequence[Hashable], given: Mapping[str, Hashable | None], origin: str
) -> dict[str, Hashable]:
    """Finds the column of each role.

    Names are compared without regard to case, spaces, underscores and a final "id".

    Args:
        columns: names of all columns.
        given: for each role ("item", "annotator", "label"; "class" in a table of gold) the column that holds it,
            or None to look for it.
        origin: what the columns belong to, for messages.

    Raises:
        DataError: when a column is missing, occurs twice, or several could be meant.
    """
    listed = ", ".join(map(repr, columns)) or "none"
    refuse_twins(columns, origin)
    found = {role: column for role, column in given.items() if column is not None}
    for role, column in found.items():
        if column not in columns:
            raise DataError(f"{origin} has no column {column!r} for {role}; its columns are {listed}")
    taken = set(found.values())
    if len(taken) < len(found):
        raise DataError(f"one column is given for several of {', '.join(found)}; each needs one of its own")
    for role in [role for role in given if role not in found]:
        near = looks_like([c for c in columns if c not in taken], role)
        if len(near) > 1:
            names = ", ".join(map(repr, near))
            raise DataError(
                f"{origin}: the {role} could be any of the columns {names}; say {SAID.get(role, role)}="
            )
        if not near:
            lost = [one for one in ("annotator", "label") if one in given and one not in found]
            alike = len(lost) == 2 and not any(looks_like(columns, one) for one in lost)
            wide = ", or wide=True if each annotator has a column" if alike else ""
            raise DataError(
                f"{origin} has no column that looks like {role} (such as {ALIASES[role][0].replace(' ', ', ')}); "
                f"its columns are {listed}; say {SAID.get(role, role)}={wide}"
            )
        found[role] = near[0]
    return {role: found[role] for role in given}


def refuse_twins(columns: Sequence[Hashable], origin: str) -> None:
    """Refuses columns of one name.

    Raises:
        DataError: naming the first.
    """
    seen: set[Hashable] = set()
    for column in columns:
        if column in seen:
            raise DataError(f"{origin} has several columns named {column!r}; rename all but one")
        seen.add(column)


def unspecific(column: Hashable) -> bool:
    """Whether a column holds ids or row numbers by its name, without a word of what they number."""
    return isinstance(column, str) and re.sub(r"[^a-z0-9]", "", column.lower()) in UNSPECIFIC


def names_nothing(columns: Sequence[Hashable]) -> bool:
    """Whether no column is named like any role, as where the first line of a file is a row."""
    return not any(looks_like(columns, role) for role in ALIASES)


def looks_like(columns: Sequence[Hashable], role: str) -> list[Hashable]:
    """Columns that are named like a role: by a usual name, or else by one of the others."""
    return usually(columns, role) or _named(columns, ALIASES[role][1])


def usually(columns: Sequence[Hashable], role: str) -> list[Hashable]:
    """Columns that have a usual name of a role."""
    return _named(columns, ALIASES[role][0])


def _named(columns: Sequence[Hashable], names: str) -> list[Hashable]:
    return [column for column in columns if _bare(column) in names.split()]


def _bare(column: Hashable) -> str:
    word = re.sub(r"[^a-z0-9]", "", str(column).lower()) if isinstance(column, str) else ""
    return word.removesuffix("ids").removesuffix("id") if word not in ("id", "ids") else ""
