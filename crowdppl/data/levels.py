"""Fewer classes: those of a level of a tree, of paths such as "animal/dog", and grades above a threshold."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import shown
from crowdppl.data.ids import Codebook, native
from crowdppl.data.kinds.classes import NOMINAL
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.data.kinds.sets import NO_YES
from crowdppl.errors import DataError

PATH = "/"
"""What separates the names of a path."""
BETWEEN = re.compile("(?<=[^/])/(?=[^/])")
"""One that has a name before it and after it."""


def ancestor(name: Any, level: int) -> Any:
    """What a class is at a level, counted from 1 at the root; itself where its path ends there or above."""
    return PATH.join(BETWEEN.split(name)[:level]) if isinstance(name, str) else name


def coarser(alphabet: LabelSet, level: Any) -> tuple[LabelSet, np.ndarray]:
    """The answers at a level of the tree of classes, and the code there of each answer, (L,).

    Classes keep the order in which they first come. An abstention that is a class there, such as "animal", which
    says no more than that, is this class. DataError where classes are no paths or end inside the tree, or there is
    no such level, or one class at it.
    """
    names = [native(name) for name in alphabet.book.ids]
    classes, away = names[: alphabet.n_classes], names[alphabet.n_classes :]
    if alphabet.kind != NOMINAL:
        raise DataError(
            f"levels are of classes without order, and labels are {alphabet.kind.plural}; read paths "
            "by kind='nominal'"
        )
    depth = max(len(BETWEEN.split(name)) if isinstance(name, str) else 1 for name in classes)
    if depth == 1:
        raise DataError(
            f"no class, such as {shown(classes[0])}, is a path; write them as 'animal{PATH}dog', upper level first"
        )
    _refuse_inner(classes)
    if isinstance(level, bool) or not isinstance(level, int | np.integer) or not 1 <= level <= depth:
        raise DataError(f"level={shown(level)}, and the paths of classes have the levels 1 to {depth}; give one")
    above = [ancestor(name, int(level)) for name in classes]
    kept = [*dict.fromkeys(above)]
    if len(kept) == 1:
        raise DataError(
            f"all classes are {kept[0]!r} at level {level}, which tells nothing apart; give a lower one"
        )
    left = [name for name in away if ancestor(name, int(level)) not in kept]
    answers = pd.Index([*kept, *left], dtype=alphabet.book.ids.dtype)
    book = Codebook("answer", answers)
    code = book.codes([*above, *(name if name in left else ancestor(name, int(level)) for name in away)])
    changed = replace(alphabet, book=book, n_classes=len(kept), level=int(level))
    return (changed if left else replace(changed, informative=False)), np.asarray(code)


def above(alphabet: LabelSet, grade: Any) -> tuple[LabelSet, np.ndarray]:
    """The classes "no" and "yes" of whether a grade is above another, and the code there of each answer, (L,)."""
    names = [native(name) for name in alphabet.book.ids]
    grades, away = names[: alphabet.n_classes], names[alphabet.n_classes :]
    if not alphabet.kind.space.ordered or not grades:
        raise DataError(f"thresholds are between grades, and labels are {alphabet.kind.plural}; say kind='ordinal'")
    if grade not in grades[:-1]:
        raise DataError(f"{shown(grade)} is no grade that others are above; give one of {shown(grades[:-1])}")
    book = Codebook("answer", pd.Index([*NO_YES, *map(str, away)]))
    code = [*(np.arange(len(grades)) > grades.index(grade)), *range(2, 2 + len(away))]
    return replace(alphabet, book=book, n_classes=2, kind=NOMINAL), np.asarray(code, np.int64)


def _refuse_inner(classes: list[Any]) -> None:
    """Refuses a class that holds others."""
    held = {above: name for name in classes for above in _above(name)}
    for name in classes:
        if name in held:
            raise DataError(
                f"the class {name!r} holds others, such as {held[name]!r}, and does not say which: read labels "
                f"with abstentions=[{name!r}], which count at its level and above, or call those that are no "
                f"other '{name}{PATH}other'"
            )


def _above(name: Any) -> list[str]:
    """The inner nodes above a class, from the root."""
    return list(accumulate(BETWEEN.split(name)[:-1], f"{{}}{PATH}{{}}".format)) if isinstance(name, str) else []
