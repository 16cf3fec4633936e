"""Comparisons of two objects, of which labels name the winner."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.ids import Encoding, Place, encode, native
from crowdppl.data.kinds.classes import Classes
from crowdppl.data.kinds.kind import Small
from crowdppl.data.kinds.parts import SEPARATOR, SIDES, Parts
from crowdppl.data.tables import Rows
from crowdppl.errors import DataError

TIE = "tie"
TIES = ("tie", "draw", "equal")
"""How labels that prefer neither begin."""
BAD = "bad"
"""A word in answers that both are bad, such as "tie (bothbad)", which do not say that the two are near."""
STRENGTH = re.compile(r"\[*\s*([-+]?\d+([.,]\d+)?|[^<>=]+(<+|>+|=+)[^<>=]+?)\s*\]*")
"""Answers that say by how much one is better: numbers, such as -3 to 3, and text such as "A>>B"."""
COUPLES = tuple(combinations(("apple", "fig", "kiwi", "pear", "plum"), 2))
"""Pairs of objects, for examples."""


@dataclass(frozen=True)
class Comparisons(Classes):
    """Labels that say which of two objects is better: "left", "right" or "tie"."""

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
            ties = label is not None and TIE in label.values
            changed["classes"] = [*SIDES, *([TIE] if ties else [])]
        return replace(rows, label=label, gold=gold), changed

    def truths(self, gold: pd.Series[Any], items: pd.Index[Any], covariates: pd.DataFrame, roles: Any) -> Any:
        """Known winners as sides, by the ids of items."""
        return _sides_of_truths(super().truths(gold, items, covariates, roles), roles, covariates.loc[:, [*SIDES]])


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


def _sides(
    given: Encoding,
    objects: list[np.ndarray],
    roles: Mapping[str, str],
    away: Iterable[Hashable],
    place: Place,
    what: str = "label",
) -> Encoding:
    """Which object each label names: "left", "right" or "tie"; abstentions stay as they are."""
    texts = [str(native(value)) for value in given.values]
    said = {TIE: TIE} | {word: side for side in SIDES for word in (side, roles.get(side, side))}
    ties = {text: TIE for text in texts if text.lower().startswith(TIES) and BAD not in text.lower()}
    answers = [*SIDES, TIE, *dict.fromkeys(map(str, away))]
    words = ties | said | {word: word for word in answers[3:]}
    by_word = np.array([answers.index(words[text]) if text in words else -1 for text in texts])
    code, spelled = by_word[given.codes], np.array(texts, object)[given.codes]
    for side, ids in enumerate(objects):
        code = np.where(spelled == ids, side, code)
    if (code < 0).any():
        row = int(np.argmax(code < 0))
        if BAD in spelled[row].lower():
            raise DataError(
                f"the {what} {spelled[row]!r} at {place(row)} says that both are bad, which is no tie; leave such "
                f"rows out, name it in abstentions=[{spelled[row]!r}], or write 'tie' where it is meant as one"
            )
        if STRENGTH.fullmatch(spelled[row]) and not any((ids == spelled[row]).any() for ids in objects):
            raise DataError(
                f"the {what} {spelled[row]!r} at {place(row)} seems to say how much better one is than the other; "
                "methods take which one alone, so write 'left', 'right' or 'tie' for each such answer"
            )
        raise DataError(
            f"the {what} {spelled[row]!r} at {place(row)} names neither {objects[0][row]!r} nor "
            f"{objects[1][row]!r}; give the id of the winner, 'left', 'right' or 'tie'"
            + (", or name it in abstentions=" if what == "label" else "")
        )
    used, codes = np.unique(code, return_inverse=True)
    return Encoding(pd.Index([answers[n] for n in used], dtype=object), codes.astype(np.int32))


def _couple(n: int) -> str:
    """Two of seven objects, of which the lower one is on the right in each third pair."""
    pair = [f"item {n % 4}", f"item {n % 4 + 1 + n // 4}"]
    return SEPARATOR.join(pair[::-1] if n % 3 == 1 else pair)


PAIR = Comparisons(
    "pair",
    "comparisons",
    "comparisons: left, right, winner",
    parts=Parts("pair", SIDES, shared=True),
    aliases=("pairwise", "preference", "preferences", "comparison", "battle", "battles"),
    methods=("bradley_terry", "crowd_bt"),
    candidates={
        "bradley_terry": ("bradley_terry", {}),
        "crowd_bt": ("crowd_bt", {}),
        "bradley_terry with position_bias": ("bradley_terry", {"position_bias": True}),
        "crowd_bt with position_bias": ("crowd_bt", {"position_bias": True}),
        "preference_groups": ("preference_groups", {}),
    },
    table="ranking",
    example=(COUPLES, SIDES),
    small=Small(_couple, SIDES, TIE),
)
