"""Comparisons of two objects, of which labels name the winner."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.ids import Codebook, Encoding, Place, encode, native
from crowdppl.data.kinds.classes import Classes, answers_as_options, read_label_set
from crowdppl.data.kinds.kind import Settled, Small
from crowdppl.data.kinds.parts import SEPARATOR, SIDES, Parts
from crowdppl.data.tables import Rows
from crowdppl.errors import DataError

TIE = "tie"
TIES = ("tie", "draw", "equal")
"""How labels that prefer neither begin."""
BAD = "bad"
"""A word in answers that both are bad, such as "tie (bothbad)", which do not say that the two are near."""
LETTERS = ("a", "b")
"""What the two are called in answers such as "A>>B"."""
STRENGTH = re.compile(r"\[*\s*([-+]?\d+([.,]\d+)?|[^<>=]+(<+|>+|=+)[^<>=]+?)\s*\]*")
"""Answers that say by how much one is better: numbers, such as -3 to 3, and text such as "A>>B"."""
NUMBERED = re.compile(r"([-+]?\d+)(?:\.0+)?")
NAMED = re.compile(r"\[*\s*(\w+)\s*(<+|>+|=+)\s*(\w+)\s*\]*")
ORDINAL = "ordinal_bradley_terry"
"""The method of strengths."""
GRADED = re.compile(r"(left|right) ([2-9]|[1-9]\d+)")
"""Forms of strengths that are read: whole numbers, two names with signs between them, and answers as kept here."""
COUPLES = tuple(combinations(("apple", "fig", "kiwi", "pear", "plum"), 2))
"""Pairs of objects, for examples."""


@dataclass(frozen=True)
class Comparisons(Classes):
    """Labels that say which of two objects is better, "left", "right" or "tie", or by how much: "left 2", say.

    Strengths are read from numbers, -3 to 3 say, of which the negative ones are for the left object, as on a scale
    from left to right, and from text such as "A>>B" or "right > left", whose signs are counted.
    """

    def read(self, rows: Rows, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any]]:
        """Rows of which labels and truths are sides; DataError for a label that names neither object."""
        rows, changed = super().read(rows, options)
        parts = changed["item_covariates"]
        if not isinstance(parts, pd.DataFrame):
            return rows, changed
        away = [*options.get("abstentions", ())]
        if options.get("gold") is not None:
            changed["gold"] = _sides_of_truths(changed["gold"], rows.roles, parts)
        gold = None if rows.gold is None else _sides_of_truths(rows.gold, rows.roles, parts)
        label = None
        if rows.label is not None:
            item: Any = rows.item
            objects = [parts[side].astype(str).to_numpy()[item.codes] for side in SIDES]
            label = _sides(
                encode(rows.label, "label", rows.place, mixed=True), objects, rows.roles, away, rows.place
            )
        if options.get("classes") is None and options.get("like") is None:
            given: list[str] = [] if label is None else [x for x in label.values if x not in map(str, away)]
            most = max((int(found[2]) for word in given if (found := GRADED.fullmatch(word))), default=1)
            changed["classes"] = answers_of(most, TIE in given)
        return replace(rows, label=label, gold=gold), changed

    def settled(self, rows: Rows, objects: Codebook | None, options: Mapping[str, Any]) -> Settled:
        """Sides and grades, and how labels say them that are no ids of objects."""
        assert objects is not None, "comparisons are of objects"
        ids, away = {*map(str, objects.ids)}, [*options.get("abstentions", ())]
        texts = [str(native(x)) for x in rows.label.values] if isinstance(rows.label, Encoding) else []
        grades, _ = _grades([x for x in texts if x not in (*ids, *map(str, away))], ids, rows.roles)
        answers = answers_of(max(map(abs, grades.values()), default=1), 0 in grades.values())
        classes = options.get("classes")
        alphabet = read_label_set(
            None,
            answers if classes is None else classes,
            away,
            self,
            options.get("informative_abstentions", False),
        )
        words = {text: word for text, word in _words(grades, answers).items() if word not in ids}
        return Settled(alphabet, answers_as_options(alphabet), objects, words)

    def candidates_of(
        self, columns: pd.DataFrame, known: np.ndarray | None, n_classes: int
    ) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Of strengths, the method that reads them, else the candidates of sides."""
        if n_classes <= len((*SIDES, TIE)):
            return super().candidates_of(columns, known, n_classes)
        name, setting = ORDINAL, "position_bias"
        return {name: (name, {}), f"{name} with {setting}": (name, {setting: True})}

    def truths(self, gold: pd.Series[Any], items: pd.Index[Any], covariates: pd.DataFrame, roles: Any) -> Any:
        """Known winners as sides, by the ids of items."""
        return _sides_of_truths(super().truths(gold, items, covariates, roles), roles, covariates.loc[:, [*SIDES]])


def answers_of(most: int, ties: bool) -> list[str]:
    """The answers to a comparison: sides, perhaps ties, and sides that are better by up to so many grades."""
    graded = [f"{side} {grade}" for grade in range(2, most + 1) for side in SIDES]
    return [*SIDES, *([TIE] if ties else []), *graded]


def grades_of(n_classes: int) -> np.ndarray:
    """By how many grades the left object is better in each answer (K,): negative for the right one, 0 for a tie."""
    grade = np.arange(n_classes // 2) + 1
    both = np.stack([grade, -grade], 1).ravel()
    return np.insert(both, len(SIDES), 0) if n_classes % 2 else both


def _grade(text: str, roles: Mapping[str, str]) -> int | None:
    """By how many grades a label says that the left object is better; None where it says no such thing."""
    low, named = (
        text.lower(),
        {roles.get(side, side).lower(): side for side in SIDES} | {side: side for side in SIDES},
    )
    if side := side_of(text, roles):
        return None if BAD in low else {SIDES[0]: 1, SIDES[1]: -1, TIE: 0}[side]
    if found := GRADED.fullmatch(low):
        return int(found[2]) * (1 if found[1] == SIDES[0] else -1)
    if found := NUMBERED.fullmatch(low):
        return -int(found[1])
    sides = dict(zip(LETTERS, SIDES, strict=True)) | named
    if (found := NAMED.fullmatch(low)) and {sides.get(found[1]), sides.get(found[3])} == {*SIDES}:
        ahead = {">": 1, "<": -1, "=": 0}[found[2][0]] * (1 if sides[found[1]] == SIDES[0] else -1)
        return ahead * len(found[2])
    return None


def _sides_of_truths(gold: pd.Series[Any], roles: Mapping[str, str], parts: pd.DataFrame) -> pd.Series[Any]:
    """Known truths of pairs, by item, as sides; unknown ones stay away."""
    known = gold[gold.notna() & (gold.astype(str).str.strip() != "") & gold.index.isin(parts.index)]
    objects = [parts[side].astype(str).reindex(known.index).to_numpy() for side in SIDES]
    found = _sides(
        encode(known, "gold", mixed=True), objects, roles, (), lambda n: f"the item {known.index[n]!r}", "truth"
    )
    rest = gold[~gold.index.isin(parts.index)]
    out: pd.Series[Any] = pd.concat(
        [pd.Series(found.values.take(found.codes), index=known.index, dtype=object), rest]
    )
    return out


def side_of(text: str, roles: Mapping[str, str]) -> str | None:
    """The side that an answer names: "left", its column, "A" of model_a and model_b; "tie", also of bad ones.

    Numbers name none: they may be strengths.
    """
    word = text.strip(" []").lower()
    if word.startswith(TIES):
        return TIE
    columns = [str(roles.get(side, side)).lower() for side in SIDES]
    parts = [{*re.findall(r"[^\W\d_]", column[-1:]), *re.findall(r"[^\W\d_]+", column)} for column in columns]
    words = [{side, column, *own} for side, column, own in zip(SIDES, columns, parts, strict=True)]
    shared = words[0] & words[1]
    return next((side for side, own in zip(SIDES, words, strict=True) if word in own - shared), None)


def _sides(
    given: Encoding,
    objects: list[np.ndarray],
    roles: Mapping[str, str],
    away: Iterable[Hashable],
    place: Place,
    what: str = "label",
) -> Encoding:
    """Which object each label names, and perhaps by how many grades; abstentions stay as they are."""
    texts, names = [str(native(value)) for value in given.values], [*map(str, away)]
    known = {str(x) for side in objects for x in pd.unique(side)}
    grades, unclear = _grades([text for text in texts if text not in names], known, roles)
    answers = answers_of(max(map(abs, grades.values()), default=1), True)
    words = _words(grades, answers)
    answers += [word for word in dict.fromkeys(names) if word not in answers]
    words |= {word: word for word in names}
    by_word = np.array([answers.index(words[text]) if text in words else -1 for text in texts])
    code, spelled = by_word[given.codes], np.array(texts, object)[given.codes]
    for n, ids in enumerate(objects):
        code = np.where(spelled == ids, n, code)
    if (code < 0).any():
        row = int(np.argmax(code < 0))
        if BAD in spelled[row].lower():
            raise DataError(
                f"the {what} {spelled[row]!r} at {place(row)} says that both are bad, which is no tie; leave such "
                f"rows out, name it in abstentions=[{spelled[row]!r}], or write 'tie' where it is meant as one"
            )
        if STRENGTH.fullmatch(spelled[row]) and not any((ids == spelled[row]).any() for ids in objects):
            raise DataError(
                f"the {what} {spelled[row]!r} at {place(row)} seems to say how much better one is than the other"
                f"{unclear.get(spelled[row], '')}; write whole numbers, negative ones for the left object, or text "
                "such as 'left>>right', 'left=right' and 'right>left'"
            )
        raise DataError(
            f"the {what} {spelled[row]!r} at {place(row)} names neither {objects[0][row]!r} nor "
            f"{objects[1][row]!r}; give the id of the winner, 'left', 'right' or 'tie'"
            + (f", or name it in abstentions=[{spelled[row]!r}]" if what == "label" else "")
        )
    used, codes = np.unique(code, return_inverse=True)
    return Encoding(pd.Index([answers[n] for n in used], dtype=object), codes.astype(np.int32))


def _grades(
    texts: list[str], ids: Iterable[str], roles: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, str]]:
    """By how many grades labels say that the left object is better, and why others are unclear."""
    strengths = [text for text in texts if STRENGTH.fullmatch(text)]
    unclear = _unclear(strengths, {x.lower() for x in ids}) if strengths else {}
    found = {text: _grade(text, roles) for text in texts if text not in unclear}
    return {text: grade for text, grade in found.items() if grade is not None}, unclear


def _words(grades: Mapping[str, int], answers: list[str]) -> dict[str, str]:
    """The answer that each label means."""
    return {text: answers[int(np.argmax(grades_of(len(answers)) == grade))] for text, grade in grades.items()}


def _unclear(strengths: list[str], ids: set[str]) -> dict[str, str]:
    """Those of some labels that cannot be read as strengths, and why: ids of objects, and numbers from 0 on."""
    numbers = [text for text in strengths if NUMBERED.fullmatch(text)]
    out = {}
    if any(map(NUMBERED.fullmatch, ids)):
        out = dict.fromkeys(numbers, ", and objects have numbers, too")
    elif not any(text.startswith("-") for text in numbers):
        out = dict.fromkeys(numbers, ", and no number is negative")
    for text in strengths:
        if (found := NAMED.fullmatch(text.lower())) and not ids.isdisjoint((found[1], found[3])):
            out[text] = ", and names objects"
    return out


def _couple(n: int) -> str:
    """Two of seven objects, of which the lower one is on the right in each third pair."""
    pair = [f"item {n % 4}", f"item {n % 4 + 1 + n // 4}"]
    return SEPARATOR.join(pair[::-1] if n % 3 == 1 else pair)


PAIR = Comparisons(
    "pair",
    "comparisons",
    "comparisons: left, right, winner",
    called="sides",
    parts=Parts("pair", SIDES, shared=True),
    aliases=("pairwise", "preference", "preferences", "comparison", "battle", "battles"),
    methods=("bradley_terry", "crowd_bt"),
    candidates={
        "bradley_terry": ("bradley_terry", {}),
        "crowd_bt": ("crowd_bt", {}),
        "bradley_terry with position_bias": ("bradley_terry", {"position_bias": True}),
        "crowd_bt with position_bias": ("crowd_bt", {"position_bias": True}),
        "crowd_bt with position_bias of each judge": ("crowd_bt", {"position_bias": "judge"}),
        "preference_groups": ("preference_groups", {}),
    },
    table="ranking",
    example=(COUPLES, SIDES),
    small=Small(_couple, SIDES, TIE),
)
