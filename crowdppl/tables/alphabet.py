"""What the truth can be and what an annotator can say: two alphabets, the second beginning with the first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.errors import DataError
from crowdppl.tables.codebook import ONE_WAY, Codebook, as_index, is_text, plain, sorting, spelling
from crowdppl.tables.encoding import ROW, Encoding, Place, encode, refuse_markers
from crowdppl.tables.handover import of_tensor, unmasked
from crowdppl.tables.variants import otherwise_spelled

KINDS = ("nominal", "ordinal")


@dataclass(frozen=True, eq=False)
class Alphabet:
    """Classes, then abstentions.

    Attributes:
        book: all answers; ``ids[:n_classes]`` are the classes, in their order.
        n_classes: K.
        kind: "nominal", or "ordinal" where the order of the classes means something.
        informative: whether an abstention may tell of the class.
    """

    book: Codebook
    n_classes: int
    kind: str = "nominal"
    informative: bool = False

    @property
    def classes(self) -> Codebook:
        """What the truth can be."""
        return Codebook("class", self.book.ids[: self.n_classes])

    def code(self, labels: Encoding, place: Place) -> np.ndarray:
        """The answer code of each row.

        Raises:
            DataError: when a label is no answer, with its value and row.
        """
        codes = self.book.codes(labels.values)
        if (codes < 0).any():
            row = min(labels.first_row(int(position)) for position in np.flatnonzero(codes < 0))
            value = plain(labels.values[labels.codes[row]])
            classes = ", ".join(repr(plain(c)) for c in self.book.ids[: min(self.n_classes, 12)])
            near = otherwise_spelled(value, map(plain, self.book.ids))
            raise DataError(
                f"the label {value!r} at {place(row)} is none of the {self.n_classes} classes ({classes}); "
                + (f"{near} is there: {ONE_WAY}, or " if near else "correct it, ")
                + "add it to classes=, or name it in abstentions= if it means that there is no answer"
            )
        if np.array_equal(codes, np.arange(len(codes))):
            return labels.codes
        return np.asarray(codes.astype(np.int32)[labels.codes])


def check_kind(kind: str) -> None:
    """Refuses kinds of labels that are not supported, by name.

    Raises:
        DataError: for any but "nominal" and "ordinal".
    """
    if kind not in KINDS:
        raise DataError(f"labels of kind {kind!r} are not supported yet; use kind='nominal' or kind='ordinal'")


def check_informative(informative: Any, abstentions: list[Any]) -> None:
    """Refuses to take abstentions as informative where none is named, and anything but yes and no.

    Raises:
        DataError: naming the option.
    """
    if not isinstance(informative, bool | np.bool_):
        raise DataError(f"informative_abstentions={informative!r} is neither True nor False")
    if informative and not abstentions:
        raise DataError(
            'informative_abstentions=True, and no abstention is named; name them, as in abstentions=["don\'t know"]'
        )


def listed(values: Iterable[Any], name: str) -> list[Any]:
    """Values as a list; one text, which is a list of letters to Python, and one number are refused.

    Raises:
        DataError: naming the option.
    """
    if isinstance(values, str):
        raise DataError(f"{name}={values!r} is one text; give a list, {name}=[{values!r}]")
    if not isinstance(values, Iterable):
        raise DataError(f"{name}={values!r} is no list; give one, {name}=[{values!r}, ...]")
    return list(unmasked(of_tensor(values, f"{name}=")))


def encode_labels(
    column: Any,
    place: Place,
    named: bool,
    abstentions: Iterable[Any],
    text: bool,
    without: str = ROW,
) -> Encoding:
    """Finds the distinct labels of a column.

    Args:
        column: the labels.
        place: where a row stands.
        named: whether the classes are listed, so that they may be of mixed types.
        abstentions: values that are no class.
        text: whether the labels were read from a file of text, in which a missing value is text, too.
        without: how one label is left out.

    Raises:
        DataError: for missing, empty, infinite or mixed labels, with value and row.
    """
    away = list(abstentions)
    labels = encode(column, "label", place, one_type=not away and not named, without=without)
    if not named:
        remedy = f"{without}, or name it in abstentions=; if it really is a class, list it in classes="
        refuse_markers(labels, "label", place, away, remedy, text)
    if away and not named:
        mine = np.flatnonzero(~_among(labels.values, away))
        kept = as_index(labels.values[mine].tolist())
        encode(kept, "label", lambda position: place(labels.first_row(int(mine[position]))))
    return labels


def read_alphabet(
    labels: Encoding | None,
    classes: Iterable[Any] | None,
    abstentions: Iterable[Any],
    kind: str,
    informative: bool = False,
) -> Alphabet:
    """Settles classes and abstentions.

    Args:
        labels: what was given; None for a design.
        classes: the classes in their order; by default the categories of labels that pandas holds as such (in
            their order if they have one), else those given, sorted. A class that nobody gave stays.
        abstentions: answers that are no class.
        kind: "nominal" or "ordinal".
        informative: whether an abstention may tell of the class.

    Raises:
        DataError: when there are fewer than two classes, one is listed twice, grades have no order, or abstentions
            are said to tell something and there are none.
    """
    check_kind(kind)
    away = listed(abstentions, "abstentions")
    check_informative(informative, away)
    if classes is not None:
        ids = as_index(listed(classes, "classes"))
    elif labels is None:
        raise DataError("a design has no labels to take the classes from; list them in classes=")
    else:
        ids = _found(labels, away, kind)
    if len(ids) < 2:
        only = f"only {plain(ids[0])!r}" if len(ids) else "none"
        whose = "the labels have" if classes is None else "classes= has"
        raise DataError(
            f"there must be at least two classes, and {whose} {only}; list all that the truth can be, in classes="
        )
    texts = is_text(ids)
    answers = as_index([*ids, *(spelling(value) if texts else value for value in away)])
    if answers.isna().any() or not answers.is_unique:
        bad = answers[answers.isna() | answers.duplicated()][0]
        raise DataError(f"{plain(bad)!r} is missing or occurs twice in classes= and abstentions=; list each once")
    return Alphabet(Codebook("answer", answers if away else ids), len(ids), kind, bool(informative))


def _found(labels: Encoding, away: list[Any], kind: str) -> pd.Index[Any]:
    given = labels.values if labels.listed is None else labels.listed
    if away:
        given = as_index(given[~_among(given, away)].tolist())
    if labels.ranked or not len(given):
        return given
    return _graded(given) if kind == "ordinal" else given[sorting(given, "label")]


def _among(values: pd.Index[Any], away: list[Any]) -> np.ndarray:
    return Codebook("answer", as_index(away)).codes(values) >= 0 if away else np.zeros(len(values), bool)


def _graded(ids: pd.Index[Any]) -> pd.Index[Any]:
    """Grades by their numeric value.

    Raises:
        DataError: when a grade is no number, or two are the same number.
    """
    grades = np.array([_number(value) for value in ids])
    if np.isnan(grades).any():
        wrong = [plain(ids[int(np.flatnonzero(np.isnan(grades))[0])])]
        raise DataError(
            f"ordinal classes have no order that can be read off {wrong[0]!r}; "
            "list them from lowest to highest in classes="
        )
    order = np.argsort(grades, kind="stable")
    same = np.flatnonzero(np.diff(grades[order]) == 0)
    if len(same):
        pair = [plain(ids[int(order[same[0] + step])]) for step in (0, 1)]
        raise DataError(f"{pair[0]!r} and {pair[1]!r} spell the same grade; spell it one way, or list classes=")
    return ids[order]


def ranked(ids: pd.Index[Any]) -> bool:
    """Whether classes are numbers that rise, so that their order is that of grades."""
    grades = [_number(value) for value in ids]
    return all(low < high for low, high in pairwise(grades))


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan
