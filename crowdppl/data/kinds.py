"""Labels that are no plain categories: measurements, sets of classes, JSON. Each is refused with what to do."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from crowdppl.data.ids import AS_SETS, Place, as_number, texts_of
from crowdppl.errors import DataError

MANY = 20
"""Numbers up to which they may be grades, whatever annotators do with them."""
SEPARATORS = (";", "|", ",")
STANDARD_ERRORS = 3
"""By how many those who differ must be nearer to each other than by chance, where numbers are whole."""
SPREAD = 7 / 5
"""Variance of the squared distance of two uniform ranks, over its squared mean."""
SAY = 'or say kind="nominal"'
UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)
"""What ``ast.literal_eval`` raises."""


def require_categories(classes: pd.Index, item: np.ndarray, answer: np.ndarray, place: Place) -> None:
    """Refuses labels, codes (S,) of items and answers, that seem to be JSON, sets ("a;b") or measurements."""
    texts = texts_of(classes)
    for found, what, remedy in (
        (_structured(texts), "is JSON", "take the class out of it, into a column of its own"),
        (_set_of_classes([*texts]), "names several classes", AS_SETS),
    ):
        if found is not None:
            where = place(int(np.argmax(answer == classes.get_loc(found))))
            raise DataError(f"the label {found!r:.60} at {where} {what}; {remedy}, {SAY} if this text is a class")
    if len(classes) <= MANY:
        return
    numbers, given = np.array([as_number(value) for value in classes]), answer < len(classes)
    if np.isfinite(numbers).all() and are_measurements(numbers, item[given], answer[given]):
        raise DataError(
            f"the labels are {len(classes)} numbers, from {numbers.min():g} to {numbers.max():g}, and look like "
            "measurements: on one item, they are near rather than equal; cut them into classes (pandas.cut), "
            'or say kind="real" for a model of numbers; say kind="nominal" or "ordinal" if each is a class'
        )


def _structured(texts: Iterable[str]) -> str | None:
    """The first text that is a list or an object of JSON or Python."""
    for text in texts:
        if text.strip()[:1] in ("[", "{"):
            for parse in (json.loads, ast.literal_eval):
                try:
                    parse(text)
                except UNREADABLE:
                    continue
                return text
    return None


def _set_of_classes(texts: Sequence[str]) -> str | None:
    """The first text with several parts that are labels by themselves, or come in another order, too."""
    for mark in SEPARATORS:
        parts = {text: tuple(part.strip() for part in text.split(mark)) for text in texts if mark in text}
        alone = {text.strip() for text in texts if mark not in text}
        orders: dict[frozenset[str], set[tuple[str, ...]]] = {}
        for each in parts.values():
            orders.setdefault(frozenset(each), set()).add(each)
        for text, each in parts.items():
            if all(each) and len({*each}) > 1 and ({*each} <= alone or len(orders[frozenset(each)]) > 1):
                return text
    return None


def are_measurements(numbers: np.ndarray, item: np.ndarray, answer: np.ndarray) -> bool:
    """Whether annotators agree on numbers, (K,) by class, as on measurements rather than as on categories.

    Two labels of one item that differ are compared with two labels of any items, by the squared distance of their
    ranks: numbers that only name classes are as far apart, measurements are nearer. They are called measurements
    where this exceeds the agreement of equal labels, beyond chance, and chance, unless there are fractions.
    Without items of several labels, numbers with fractions are. Items and answers are codes of each label, (S,).
    """
    fractions, size = bool((numbers % 1 != 0).any()), np.bincount(item)[item]
    item, answer, size = item[size > 1], answer[size > 1], size[size > 1]
    if not len(item):
        return fractions
    n_classes = len(numbers)
    _, cell, count = np.unique(item * np.int64(n_classes) + answer, return_inverse=True, return_counts=True)
    equal = ((count[cell] - 1) / (size - 1)).mean()
    equal_by_chance = ((np.bincount(answer) / len(answer)) ** 2).sum()
    if equal == 1:
        return False
    rank = pd.Series(numbers[answer]).rank().to_numpy()
    rank = rank - rank.mean()
    total, squares = np.bincount(item, rank)[item], np.bincount(item, rank**2)[item]
    apart = ((size * rank**2 - 2 * rank * total + squares) / (size - 1)).mean() / (1 - equal)
    near = 1 - apart / (2 * rank.var() / (1 - equal_by_chance))
    alike = (equal - equal_by_chance) / (1 - equal_by_chance)
    pairs = len(item) / 2 * (1 - equal)
    return bool(near > max(alike, 0 if fractions else STANDARD_ERRORS * np.sqrt(SPREAD / pairs)))
