"""Labels that are classes, and those that seem to be something else."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import listed, warn
from crowdppl.data.ids import (
    AS_SETS,
    MISSING,
    Codebook,
    Encoding,
    Place,
    as_index,
    as_number,
    choices_of,
    encode,
    listed_answers,
    native,
    number_and_unit,
    refuse_missing_text,
    sorting,
    texts_of,
)
from crowdppl.data.kinds.kind import Kind, LabelSet, Settled
from crowdppl.data.kinds.parts import with_parts
from crowdppl.data.kinds.space import CATEGORIES, Space
from crowdppl.data.tables import Rows, letters
from crowdppl.errors import CrowdpplWarning, DataError

PLAIN = ("majority_vote", "one_coin", "class_coin", "bayesian_dawid_skene")
"""Methods for classes of any kind."""
MANY = 20
"""Numbers up to which they may be grades, whatever annotators do with them."""
AMOUNTS = frozenset("%‰$€£¥₹₩0123456789")
"""Signs in a unit, as "%" and "/100", that make numbers amounts; with letters, as "12a", they may be names."""
UNITS = 4
"""Most units of measurements, such as "day" and "days"; names that begin with a number, as "01 cat", have more."""
SEPARATORS = ("\n", ";", "|", ",")
PLUS = "+"
"""What separates classes, too, where these come in other labels, as in "a+b" and "a", and not in "C++"."""
STANDARD_ERRORS = 3
"""By how many those who differ must be nearer to each other than by chance, where numbers are whole."""
SPREAD = 7 / 5
"""Variance of the squared distance of two uniform ranks, over its squared mean."""
UNEQUAL = 0.95
"""Share of labels beyond which values that are all different are no classes."""
ANSWERS = ("accept", "reject", "ignore")
"""What Prodigy says of a task: that it was done, that what it shows is wrong, or that it was skipped."""
DECLINED = re.compile(
    r"(i?m?(dont|donot)know|idk|dk|(im|iam)?(notsure|unsure)|(i?(cant|cannot)(tell|say|decide))|"
    r"no(answer|response)|(did)?notanswer(ed)?|prefernotto(say|answer)|abstain(ed)?|skip(ped)?|refused)"
)
"""Letters of answers that mostly say that there is none."""
SAY = 'or say kind="nominal"'
SIDE_BY_SIDE = re.compile(r"(['\"])\s+(?=['\"])")
"""The end of a text and the start of the next one, without a comma."""
WHOLE = re.compile(r"([+-]?\d+)\.0+")
"""A whole number as pandas writes it where others of its column are missing."""
UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)
"""What ``ast.literal_eval`` raises."""


@dataclass(frozen=True)
class Classes(Kind):
    """Labels that are classes.

    Attributes:
        called: what its classes are called in messages.
        members: further members of the method "auto", and their settings.
    """

    called: str = field(default="classes", compare=False)
    space: Space = field(default=CATEGORIES, compare=False)
    methods: tuple[str, ...] = field(default=PLAIN, compare=False)
    members: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)

    def read(self, rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
        """Rows with one id an item."""
        return (rows, {**options}) if self.parts is None else with_parts(rows, options, self.parts)

    def answers(self, rows: Rows, options: Mapping[str, Any]) -> tuple[LabelSet, np.ndarray | None]:
        """Classes and abstentions, those of the option ``like`` where there are, and the answer of each row."""
        like, classes = options.get("like"), options.get("classes")
        away = listed_answers(options.get("abstentions", ()), "abstentions")
        informative = options.get("informative_abstentions", False)
        if like is not None and (classes is not None or away or informative):
            raise DataError("like= settles them: leave out classes=, abstentions= and informative_abstentions=")
        classes = None if classes is None else listed_answers(classes, "classes")
        labels = None
        if rows.label is not None:
            named = classes is not None or like is not None
            labels = encode_labels(rows.label, rows.place, named, away, rows.text)
            if not named:
                _warn_of_declined(labels, away, rows.place, self.space.ordered)
        alphabet = read_label_set(labels, classes, away, self, informative) if like is None else like.alphabet
        if labels is not None and like is not None and options.get("grow"):
            alphabet = _extended(alphabet, labels, rows.place, rows.text)
        return alphabet, None if labels is None else code_labels(alphabet, labels, rows.place)

    def settled(self, rows: Rows, objects: Codebook | None, options: Mapping[str, Any]) -> Settled:
        """All classes and abstentions."""
        alphabet, _ = self.answers(rows, options)
        return Settled(alphabet, answers_as_options(alphabet), objects)

    def in_order(self, classes: pd.Index[Any]) -> pd.Index[Any]:
        """Classes, of which nobody listed the order, in order; DataError for one number in two spellings."""
        for name in classes:
            found = WHOLE.fullmatch(name) if isinstance(name, str) else None
            if found and found[1] in classes:
                raise DataError(
                    f"{found[1]!r} and {name!r} are the same number; spell it one way, "
                    f"table[label].str.removesuffix({name.removeprefix(found[1])!r}), or list all in classes= if "
                    "they are two classes"
                )
        return classes[sorting(classes, "label")]


def answers_as_options(alphabet: LabelSet) -> dict[str, Any]:
    """Options that say what can be answered."""
    k = alphabet.n_classes
    return {"classes": [*alphabet.book.ids[:k]], "abstentions": [*alphabet.book.ids[k:]]}


NOMINAL = Classes(
    "nominal",
    "classes",
    "classes, such as spam or ham",
    aliases=("categorical", "class", "classes", "category", "classification", "binary", "multiclass"),
)


def _extended(alphabet: LabelSet, labels: Encoding, place: Place, text: bool) -> LabelSet:
    """A set in which unknown labels are further classes; DataError where classes have an order."""
    new = labels.values[Codebook("label", alphabet.book.ids).codes(labels.values) < 0]
    if not len(new):
        return alphabet
    refuse_missing_text(labels, "label", place, alphabet.book.ids, "leave it out", text)
    if alphabet.kind.space.ordered:
        raise DataError(
            f"the class {native(new[0])!r} is new, and its place among ordered classes is unknown; fit anew, and "
            "list all in classes="
        )
    classes = alphabet.classes.extended(new).ids
    book = Codebook("answer", classes.append(alphabet.book.ids[alphabet.n_classes :]))
    return replace(alphabet, book=book, n_classes=len(classes))


def code_labels(alphabet: LabelSet, labels: Encoding, place: Place) -> np.ndarray:
    """The answer code of each row; DataError for the first label that is no answer."""
    classes = ", ".join(repr(native(c)) for c in alphabet.book.ids[: min(alphabet.n_classes, 12)])
    remedy = "correct it, add it to classes=, or name it in abstentions= if it means that there is no answer"
    book = Codebook("label", alphabet.book.ids)
    return labels.code_in(book, place, f"{alphabet.n_classes} classes ({classes})", remedy)


def encode_labels(column: Any, place: Place, named: bool, abstentions: Iterable[Any], text: bool) -> Encoding:
    """Finds the distinct labels of a column; DataError, with the row, where they are missing, empty or mixed.

    They may be of mixed types where the classes are ``named``; in files of ``text``, missing values are text.
    """
    away = list(abstentions)
    labels = encode(column, "label", place, mixed=bool(away) or named)
    if named:
        return labels
    remedy = "leave it out, or name it in abstentions=; if it really is a class, list it in classes="
    if (several := set_of_classes([*texts_of(labels.values)])) is not None:
        remedy = (
            f"{AS_SETS} if labels are sets, as {several!r:.40} seems to be, and this is an empty one, else {remedy}"
        )
    refuse_missing_text(labels, "label", place, away, remedy, text)
    kept = np.flatnonzero(~_among(labels.values, away))
    encode(labels.values[kept].tolist(), "label", lambda n: place(labels.first_row(int(kept[n]))))
    return labels


def _warn_of_declined(labels: Encoding, away: list[Any], place: Place, ordered: bool) -> None:
    """Warns of labels that seem to say that there is no answer, and are taken for classes."""
    kept = ~_among(labels.values, away)
    found = [
        n
        for n, value in enumerate(labels.values)
        if kept[n] and isinstance(value, str) and (DECLINED.fullmatch(letters(value)) or value.strip() in MISSING)
    ]
    numbers = np.array([as_number(value) for value in labels.values])
    if not ordered and np.array_equal(np.sort(numbers[kept])[:2], [-1, 0]):  # labelling functions' way
        found += np.flatnonzero(kept & (numbers == -1)).tolist()
    if found:
        names, times = [native(labels.values[n]) for n in found], labels.times()
        first = int(np.argmax(np.isin(labels.codes, found)))
        warn(
            f"{times[found].sum()} of {times.sum()} labels are {listed([repr(name) for name in names])}, the first "
            f"at {place(first)}, and count as classes; if they say that there is no answer, name them, "
            f"abstentions={names}, else list all classes in classes=",
            CrowdpplWarning,
        )


def read_label_set(
    labels: Encoding | None,
    classes: Iterable[Any] | None,
    abstentions: Iterable[Any],
    kind: Classes,
    informative: bool = False,
) -> LabelSet:
    """Settles classes and abstentions, as the options of annotations say; ``labels`` is None for a design.

    DataError for fewer than two classes or one listed twice, ordinal ones without order, and informative
    abstentions of no name.
    """
    away = listed_answers(abstentions, "abstentions")
    if informative and not away:
        raise DataError("informative_abstentions=True, and abstentions= names none; name them")
    if classes is not None:
        ids = as_index(listed_answers(classes, "classes"))
    elif labels is None:
        raise DataError("a design has no labels to take the classes from; list them in classes=")
    else:
        ids = _classes_of(labels, away, kind)
    if len(ids) < 2:
        only = f"only {native(ids[0])!r}" if len(ids) else "none"
        whose = "the labels have" if classes is None else "classes= has"
        raise DataError(f"there must be two classes or more, and {whose} {only}; list all in classes=")
    texts = pd.api.types.infer_dtype(ids, skipna=False) == "string"
    answers = as_index([*ids, *(str(value) if texts else value for value in away)])
    if answers.isna().any() or not answers.is_unique:
        bad = answers[answers.isna() | answers.duplicated()][0]
        raise DataError(f"{native(bad)!r} is missing or occurs twice in classes= and abstentions=; list each once")
    return LabelSet(Codebook("answer", answers if away else ids), len(ids), kind, bool(informative))


def _classes_of(labels: Encoding, away: list[Any], kind: Classes) -> pd.Index[Any]:
    """The classes of labels: categories or values, without abstentions, in their order."""
    given = labels.values if labels.listed is None else labels.listed
    if away:
        given = as_index(given[~_among(given, away)].tolist())
    if labels.ranked or not len(given):
        return given
    return kind.in_order(given)


def _among(values: pd.Index[Any], away: list[Any]) -> np.ndarray:
    return Codebook("answer", as_index(away)).codes(values) >= 0 if away else np.zeros(len(values), bool)


def require_categories(classes: pd.Index, item: np.ndarray, answer: np.ndarray, place: Place) -> None:
    """Refuses labels, codes (S,) of items and answers, that seem to be free text, JSON, sets ("a;b") or
    measurements."""
    if len(classes) > MANY:
        _refuse_measurements(classes, item, answer)
        if len(classes) > UNEQUAL * len(answer) and len(answer) > 2 * MANY:
            one, other = native(classes[0]), native(classes[1])
            raise DataError(
                f"{len(answer)} labels have {len(classes)} different values, such as {one!r:.40} and "
                f"{other!r:.40}, so that hardly two are equal: free text and numbers are no classes; code texts "
                f'into classes that annotators share, read numbers by kind="real", {SAY} if each is a class'
            )
    require_words(classes, lambda found: place(int(np.argmax(answer == classes.get_loc(found)))))


def require_words(classes: pd.Index, place: Callable[[str], str]) -> None:
    """Refuses classes that seem to be lists, JSON, sets or no answers, and says where one stands."""
    texts = texts_of(classes)
    for found, what, remedy in (
        (_list_of_classes(texts), "is a list", AS_SETS),
        (_structured(texts), "is JSON", "take the class out of it, into a column of its own"),
        (set_of_classes([*texts]), "names several classes", AS_SETS),
        (_no_answer(texts), "seems to say that there is no answer", "name it in abstentions=[{!r}]"),
        (set_of_classes([*texts], (">",)), "names several things in order", 'say kind="ranking"'),
    ):
        if found is not None:
            raise DataError(
                f"the label {found!r:.60} at {place(found)} {what}; {remedy.format(found)}, {SAY} if this text is "
                "a class"
            )


def _refuse_measurements(classes: pd.Index, item: np.ndarray, answer: np.ndarray) -> None:
    """Refuses numbers, of which some may have a unit, that seem to be measurements."""
    found, given = [number_and_unit(native(value)) for value in classes], answer < len(classes)
    numbers, units = np.array([number for number, _ in found]), {unit for _, unit in found}
    unit = units.pop() if len(units) == 1 else ""
    if not np.isfinite(numbers).all() or len(units) > UNITS:
        return
    why = f"each has the unit {unit!r}" if AMOUNTS & {*unit} else "on one item, they are near rather than equal"
    if not AMOUNTS & {*unit} and not are_measurements(numbers, item[given], answer[given], unit != ""):
        return
    marked = np.array([as_number(value) for value in classes]) != numbers
    text = f"{numbers[marked.argmax()]:.15g} for {native(classes[marked.argmax()])!r}"
    alone = f"write each as a number alone ({text}), and then " if marked.any() else ""
    raise DataError(
        f"the labels are {len(classes)} numbers, from {numbers.min():g} to {numbers.max():g}, and look like "
        f"measurements: {why}; {alone}cut them into classes (pandas.cut), "
        'or say kind="real" for a model of numbers; say kind="nominal" or kind="ordinal" if each is a class'
    )


def _list_of_classes(texts: Iterable[str]) -> str | None:
    """The first text that is a list of names, and no record."""
    parts = ((text, choices_of(parsed(text))) for text in texts)
    return next(
        (text for text, found in parts if isinstance(found, list | tuple | set) and all(map(is_name, found))), None
    )


def _no_answer(texts: Collection[str]) -> str | None:
    """A sign beside numbers, such as "*", and "ignore" beside "accept" and "reject"."""
    if "ignore" in {*texts} <= {*ANSWERS}:
        return "ignore"
    signs = [text for text in texts if not any(letter.isalnum() for letter in text)]
    numbers = [text for text in texts if not math.isnan(as_number(text))]
    return signs[0] if len(signs) == 1 and len(numbers) == len(texts) - 1 > 1 else None


def is_name(part: object) -> bool:
    """Whether a part of a label may be a class."""
    return isinstance(part, str | int)


def _structured(texts: Iterable[str]) -> str | None:
    """The first text that is a list or an object of JSON or Python."""
    return next((text for text in texts if parsed(text) is not None), None)


def parsed(text: str) -> Any:
    """What a text says that is a list, a tuple, a set or an object of JSON or Python; None for another."""
    shown = text.strip()
    if shown == "set()":
        return set()
    if shown[:1] in ("[", "{", "("):
        # numpy writes arrays without commas, and Python would join their texts
        for parse in (json.loads, lambda x: ast.literal_eval(SIDE_BY_SIDE.sub(r"\1, ", x))):
            try:
                found = parse(shown)
            except UNREADABLE:
                continue
            return found if isinstance(found, Collection) and not isinstance(found, str | bytes) else None
    return None


def without_brackets(text: str) -> str:
    """What stands between brackets, of a list whose names are not quoted."""
    bare = text.strip()
    return bare[1:-1] if bare[:1] + bare[-1:] in ("[]", "{}") else text


def set_of_classes(texts: Sequence[str], marks: Sequence[str] = (*SEPARATORS, PLUS)) -> str | None:
    """The first text with several parts that are labels by themselves, or come in another order, too."""
    for mark in marks:
        parts = {
            text: tuple(part.strip() for part in without_brackets(text).split(mark))
            for text in texts
            if mark in text
        }
        alone = {without_brackets(text).strip() for text in texts if mark not in text}
        orders: dict[frozenset[str], set[tuple[str, ...]]] = {}
        for each in parts.values():
            orders.setdefault(frozenset(each), set()).add(each)
        for text, each in parts.items():
            if all(each) and len({*each}) > 1 and ({*each} <= alone or len(orders[frozenset(each)]) > 1):
                return text
    return None


def are_measurements(numbers: np.ndarray, item: np.ndarray, answer: np.ndarray, of_unit: bool = False) -> bool:
    """Whether annotators agree on numbers, (K,) by class, as on measurements rather than as on categories.

    Two labels of one item that differ are compared with two labels of any items, by the squared distance of their
    ranks: numbers that only name classes are as far apart, measurements are nearer. They are called measurements
    where this exceeds the agreement of equal labels, beyond chance, and chance, unless there are fractions or all
    are ``of_unit``. Without items of several labels, these are. Items and answers are codes of each label, (S,).
    """
    fractions, size = of_unit or bool((numbers % 1 != 0).any()), np.bincount(item)[item]
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
