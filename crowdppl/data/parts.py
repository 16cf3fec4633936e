"""Items that are named by two columns: comparisons of two objects, positions in a sequence."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.gold import by_item
from crowdppl.data.ids import Codebook, Encoding, Place, encode, native, refuse_missing_text
from crowdppl.data.rankings import OF_RANKS, ONLY, RANKING, require_rankings
from crowdppl.data.sets import OF_SETS, SEPARATOR, SET, with_answers
from crowdppl.data.tables import Rows
from crowdppl.errors import DataError

SIDES = ("left", "right")
TIE = "tie"
TIES = ("tie", "draw", "equal")
"""How labels that prefer neither begin."""


DIFFERENT_SAME = (("different", "same"), ("dissimilar", "similar"), ("no", "yes"), ("false", "true"), ("0", "1"))
"""What labels of similarity say, where nobody lists them."""


@dataclass(frozen=True)
class PartsKind:
    """A kind of labels whose items are named by two columns, ``parts``, which models read as item covariates.

    Both may be ids of ``shared`` objects, ``unordered`` if it does not matter which comes first; the second may
    count positions, and be ``ordered``. Without ``columns``, items are read, and labels name the second part.
    ``only`` is the first part of ids that have one part alone.
    """

    name: str
    parts: tuple[str, str]
    shared: bool = False
    unordered: bool = False
    ordered: bool = False
    columns: bool = True
    only: str | None = None

    @property
    def objects(self) -> str | None:
        """The part that holds ids of objects; None where neither does."""
        return self.parts[0] if self.shared else None if self.only is None else self.parts[1]


PARTS = {
    kind.name: kind
    for kind in (
        PartsKind("pair", SIDES, shared=True),
        PartsKind("similarity", SIDES, shared=True, unordered=True),
        PartsKind("sequence", ("sequence", "position"), ordered=True),
        PartsKind(SET, OF_SETS, columns=False),
        PartsKind(RANKING, OF_RANKS, only=ONLY),
    )
}
"""The kinds whose items have parts; labels of all but rankings are classes."""


def with_parts(rows: Rows, options: Mapping[str, Any], kind: PartsKind) -> tuple[Rows, dict[str, Any]]:
    """The same rows with one id an item, "left | right", and its parts as item covariates.

    Ids of items in options may be pairs or such text. Labels of pairs become "left", "right" or "tie". DataError
    for an id that is no pair, or holds the separator, a position that is no whole number, an object that is
    compared with itself, and a label that names neither object.
    """
    if not kind.columns:
        rows, options = with_answers(rows, options)
    features = options.get("features")
    table = features if isinstance(features, pd.DataFrame) else None
    of_objects = table is not None and kind.shared and not any(map(_is_pair, table.index))
    given = [options.get("items"), None if table is None or of_objects else table.index]
    named = [_parts(ids, kind, _of_options) for ids in given if ids is not None]
    every = [_parts(rows.item, kind, rows.place, named, rows.text), *named]
    first, second = _books(every, kind)
    listed = [first.codes(a.values)[a.codes] * len(second) + second.codes(b.values)[b.codes] for a, b in every]
    place, distinct = listed[0], np.unique(np.concatenate(listed))
    one, other = np.divmod(distinct, len(second))
    if kind.shared and (one == other).any():
        row = int(np.argmax(np.isin(place, distinct[one == other])))
        raise DataError(
            f"{native(first.ids[place[row] // len(second)])!r} is compared with itself at {rows.place(row)}"
        )
    names = _names(zip(first.ids[one], second.ids[other], strict=True), kind)
    left: Any = pd.Categorical.from_codes(one, categories=first.ids)
    right: Any = second.ids[other] if kind.ordered else pd.Categorical.from_codes(other, categories=second.ids)
    parts = pd.DataFrame(dict(zip(kind.parts, (left, right), strict=True)), index=names)
    changed = {**options, "item_covariates": _joined(options.get("item_covariates"), parts, kind)}
    if table is not None:
        both = _of_both_sides(table, first, one, other).set_axis(names) if of_objects else None
        changed["features"] = table.set_axis(_ids(table.index, kind)) if both is None else both
    if options.get("items") is not None and not isinstance(options.get("items"), Codebook):
        changed["items"] = _ids(options["items"], kind)
    gold = None if rows.gold is None else rows.gold.set_axis(_ids(rows.gold.index, kind))
    if options.get("gold") is not None:
        truths = by_item(options["gold"])
        changed["gold"] = truths.set_axis(_ids(truths.index, kind))
    item = Encoding(names, np.searchsorted(distinct, place).astype(np.int32))
    if kind.name == RANKING:
        annotator = encode(rows.annotator, "annotator", rows.place)
        require_rankings(place // len(second), item.codes, annotator, names, rows.place)
    rows = replace(rows, item=item, items=Codebook("item", names), gold=gold)
    if kind.name == "similarity" and options.get("classes") is None and options.get("like") is None:
        changed["classes"] = _different_and_same(rows, options)
    return _with_sides(rows, changed, parts) if kind.name == "pair" else (rows, changed)


def _different_and_same(rows: Rows, options: Mapping[str, Any]) -> list[Any]:
    """The classes of labels of similarity: different, then same."""
    away = {*map(str, options.get("abstentions", ()))}
    found = [] if rows.label is None else list(encode(rows.label, "label", rows.place, mixed=True).values)
    said = {str(native(x)).strip().lower(): native(x) for x in found if str(native(x)) not in away}
    for different, same in DIFFERENT_SAME:
        if said.keys() == {different, same}:
            return [said[different], said[same]]
    raise DataError(
        f"the labels of kind='similarity' are {', '.join(map(repr, said.values())) or 'to be drawn'}; say which is "
        "which: classes=[different, same]"
    )


def _of_options(row: int) -> str:
    """Where an id of an option stands."""
    return f"place {row} of items="


def _parts(
    ids: Any,
    kind: PartsKind,
    place: Place,
    named: Sequence[tuple[Encoding, Encoding]] | None = None,
    text: bool = False,
) -> tuple[Encoding, Encoding]:
    """The two parts of each id, of a table of two columns, of pairs, or of text with the separator.

    DataError for a part of rows that is missing, in a file of ``text`` also as "NA", and not among the ``named``.
    """
    if isinstance(ids, Encoding):
        parts = _parts(ids.values, kind, lambda n: place(ids.first_row(n)), named, text)
        one, other = (Encoding(part.values, part.codes[ids.codes]) for part in parts)
        return one, other
    if isinstance(ids, pd.MultiIndex):
        ids = ids.to_frame(index=False)
    if not isinstance(ids, pd.DataFrame):
        values = list(ids.ids if isinstance(ids, Codebook) else ids)
        cells = [tuple(x.split(SEPARATOR)) if isinstance(x, str) else x for x in values]
        if kind.only is not None:
            cells = [
                x if isinstance(x, tuple) and len(x) > 1 else (kind.only, values[n]) for n, x in enumerate(cells)
            ]
        wrong = next((n for n, x in enumerate(cells) if not isinstance(x, tuple | list) or len(x) != 2), None)
        if wrong is not None:
            raise DataError(
                f"the item {values[wrong]!r} at {place(wrong)} is no {' and '.join(kind.parts)}, as "
                f"kind={kind.name!r} asks; give item={kind.parts!r}, two columns, or ids such as 'a{SEPARATOR}b'"
            )
        ids = pd.DataFrame(cells, columns=list(kind.parts)) if cells else pd.DataFrame(columns=list(kind.parts))
    if ids.shape[1] != 2:
        raise DataError(
            f"items of kind={kind.name!r} have two parts, {' and '.join(kind.parts)}; there are {ids.shape[1]}"
        )
    found = [encode(ids.iloc[:, n], part, place) for n, part in enumerate(kind.parts)]
    for n, (part, given) in enumerate(zip(kind.parts, found, strict=True)):
        if named is not None and (n == 0 or kind.columns):  # else it is a class
            remedy = "give it an id or leave the row out; if it really is an id, name it in items="
            refuse_missing_text(given, part, place, chain(*(ids[n].values for ids in named)), remedy, text)
        bad = [n for n, x in enumerate(given.values) if SEPARATOR in str(x)]
        if bad:
            raise DataError(
                f"the {part} {given.values[bad[0]]!r} at {place(given.first_row(bad[0]))} holds {SEPARATOR!r}, "
                "which separates the parts of an item's id; rename it"
            )
    if kind.ordered:
        found[1] = _positions(found[1], place)
    return _in_one_order(*found) if kind.unordered else (found[0], found[1])


def _in_one_order(one: Encoding, other: Encoding) -> tuple[Encoding, Encoding]:
    """Both parts of items, of which that comes first whose text does."""
    values = one.values.append(other.values[~other.values.isin(one.values)])
    left, right = (values.get_indexer(part.values)[part.codes] for part in (one, other))
    rank = np.argsort(np.argsort(values.map(str)))
    first = np.where(rank[left] < rank[right], left, right)
    return Encoding(values, first.astype(np.int32)), Encoding(values, (left + right - first).astype(np.int32))


def _positions(given: Encoding, place: Place) -> Encoding:
    """Positions as whole numbers."""
    numbers = pd.to_numeric(pd.Series(given.values), errors="coerce").to_numpy(np.float64)
    wrong = ~(numbers % 1 == 0)
    if wrong.any():
        n = int(np.argmax(wrong))
        raise DataError(
            f"the position {native(given.values[n])!r} at {place(given.first_row(n))} is no whole number; "
            "count the positions of a sequence"
        )
    values, codes = np.unique(numbers.astype(np.int64), return_inverse=True)
    return Encoding(pd.Index(values), codes[given.codes].astype(np.int32))


def _books(every: list[tuple[Encoding, Encoding]], kind: PartsKind) -> tuple[Codebook, Codebook]:
    """The ids of either part, sorted; one book for both where they are the same objects."""

    def book(name: str, columns: Iterable[Encoding]) -> Codebook:
        values = [column.values for column in columns]
        return encode(values[0].append(values[1:]).unique(), name).codebook(name)[0]

    if kind.shared:
        both = book("object", (part for parts in every for part in parts))
        return both, both
    return book(kind.parts[0], (one for one, _ in every)), book(kind.parts[1], (other for _, other in every))


def _ids(given: Any, kind: PartsKind) -> pd.Index[Any]:
    """Ids of items as text."""
    one, other = _parts(given, kind, _of_options)
    return _names(zip(one.values[one.codes], other.values[other.codes], strict=True), kind).astype(object)


def _names(pairs: Iterable[tuple[Any, Any]], kind: PartsKind) -> pd.Index[Any]:
    """Ids of items of two parts, or of the second alone where there is only one first."""
    return pd.Index([f"{b}" if a == kind.only else f"{a}{SEPARATOR}{b}" for a, b in pairs])


def _is_pair(given: Any) -> bool:
    """Whether an id names two parts."""
    return isinstance(given, tuple | list) or SEPARATOR in str(given)


def of_side(side: str, name: Any) -> str:
    """Name of a feature of the object on one side."""
    return f"{side} {native(name)}"


def beside(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    """Features of pairs, a row each, from those of both objects, whose columns are the same."""
    tables = [
        table.set_axis([of_side(side, name) for name in table.columns], axis=1).reset_index(drop=True)
        for side, table in zip(SIDES, (left, right), strict=True)
    ]
    out: pd.DataFrame = pd.concat(tables, axis=1)
    return out


def _of_both_sides(features: pd.DataFrame, objects: Codebook, one: np.ndarray, other: np.ndarray) -> pd.DataFrame:
    """Features of the objects of each pair, those of the left one first, from a table by object."""
    code = objects.codes(features.index)
    row = np.full(len(objects), -1)
    row[code[code >= 0]] = np.flatnonzero(code >= 0)
    used = np.unique(np.concatenate([one, other]))
    wrong = [*used[row[used] < 0], *used[np.bincount(code[code >= 0], minlength=len(objects))[used] > 1]]
    if wrong:
        several = "several rows" if row[wrong[0]] >= 0 else "none"
        raise DataError(
            f"features by object have {several} for {native(objects.ids[wrong[0]])!r}; give one row each"
        )
    return beside(*(features.iloc[row[at]] for at in (one, other)))


def _joined(given: Any, parts: pd.DataFrame, kind: PartsKind) -> Any:
    """Covariates of items with their parts as the first columns; a column of the same name must say the same."""
    if not isinstance(given, pd.DataFrame):
        return parts if given is None else given  # what is no table is refused where covariates are read
    given = given.set_axis(_ids(given.index, kind))
    for part in kind.parts:
        if part in given.columns:
            same = given[part].astype(str) == parts[part].astype(str).reindex(given.index)
            if not same.all():
                raise DataError(
                    f"the column {part!r} of item_covariates differs from the {part} of its item; rename it"
                )
            given = given.drop(columns=part)
    lost = given.index[~given.index.isin(parts.index)]
    if len(lost):
        raise DataError(f"item_covariates has a row for {lost[0]!r}, which is no item; leave the row out")
    return parts.join(given)


def _with_sides(rows: Rows, options: dict[str, Any], parts: pd.DataFrame) -> tuple[Rows, dict[str, Any]]:
    """Labels and truths of pairs as sides."""
    away = [*options.get("abstentions", ())]
    changed = {**options}
    if options.get("gold") is not None:
        changed["gold"] = _sides_of_truths(options["gold"], rows.roles, parts)
    gold = None if rows.gold is None else _sides_of_truths(rows.gold, rows.roles, parts)
    label = None
    if rows.label is not None:
        item: Any = rows.item
        objects = [parts[side].astype(str).to_numpy()[item.codes] for side in SIDES]
        label = _sides(encode(rows.label, "label", rows.place, mixed=True), objects, rows.roles, away, rows.place)
    if options.get("classes") is None and options.get("like") is None:
        ties = label is not None and TIE in label.values
        changed["classes"] = [*SIDES, *([TIE] if ties else [])]
    return replace(rows, label=label, gold=gold), changed


def truths_of_items(
    gold: Any, kind: str, items: pd.Index, covariates: pd.DataFrame | None, roles: Mapping[str, str]
) -> Any:
    """Known truths by the ids of items of two parts, given as pairs or so; winners of pairs as sides."""
    known = PARTS.get(kind)
    if gold is None or known is None or kind == SET or covariates is None:
        return gold
    truth = by_item(gold)
    if not truth.index.isin(items).all():
        truth = truth.set_axis(_ids(truth.index, known))
    return _sides_of_truths(truth, roles, covariates.loc[:, [*SIDES]]) if kind == "pair" else truth


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
    ties = {text: TIE for text in texts if text.lower().startswith(TIES)}
    answers = [*SIDES, TIE, *dict.fromkeys(map(str, away))]
    words = ties | said | {word: word for word in answers[3:]}
    by_word = np.array([answers.index(words[text]) if text in words else -1 for text in texts])
    code, spelled = by_word[given.codes], np.array(texts, object)[given.codes]
    for side, ids in enumerate(objects):
        code = np.where(spelled == ids, side, code)
    if (code < 0).any():
        row = int(np.argmax(code < 0))
        raise DataError(
            f"the {what} {spelled[row]!r} at {place(row)} names neither {objects[0][row]!r} nor "
            f"{objects[1][row]!r}; give the id of the winner, 'left', 'right' or 'tie'"
            + (", or name it in abstentions=" if what == "label" else "")
        )
    used, codes = np.unique(code, return_inverse=True)
    return Encoding(pd.Index([answers[n] for n in used], dtype=object), codes.astype(np.int32))
