"""Items that are named by two columns: comparisons of two objects, positions in a sequence."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.ids import Codebook, Encoding, Place, by_item, encode, native, refuse_missing_text
from crowdppl.data.tables import Rows
from crowdppl.errors import DataError

SIDES = ("left", "right")
"""The two objects that are compared."""
SEPARATOR = " | "
"""What stands between the parts of an item's id."""


@dataclass(frozen=True)
class Parts:
    """Two columns that name an item together, and that models read as item covariates.

    Both may be ids of ``shared`` objects, ``unordered`` if it does not matter which comes first; the second may
    count positions, and be ``ordered``. Without ``columns``, items are read, and labels name the second part.
    ``only`` is the first part of ids that have one part alone. ``kind`` is what ``kind=`` says, for messages.
    """

    kind: str
    names: tuple[str, str]
    shared: bool = False
    unordered: bool = False
    ordered: bool = False
    columns: bool = True
    only: str | None = None

    @property
    def objects(self) -> str | None:
        """The part that holds ids of objects; None where neither does."""
        return self.names[0] if self.shared else None if self.only is None else self.names[1]

    @property
    def ranks(self) -> bool:
        """Whether labels say which objects are better."""
        return self.objects is not None and not self.unordered

    @property
    def common(self) -> tuple[str, ...]:
        """The columns whose ids any item may have: those of objects, and the classes of sets."""
        return self.names if self.shared else () if self.ordered else self.names[1:]

    def units(self, given: Any) -> pd.Index[Any]:
        """What keeps items together, as text, by their ids: the first part, or all where objects are shared."""
        if self.shared:
            return ids_of_items(given, self)
        if not self.columns:  # an item with or without a class
            return pd.Index([str(native(x[0] if isinstance(x, tuple) else x)).split(SEPARATOR)[0] for x in given])
        one, _ = _parts(given, self, _of_options)
        return one.values.map(str).take(one.codes)

    def names_of(self, table: pd.DataFrame) -> pd.Index[Any]:
        """The ids of items, of a table of both parts."""
        return _names(zip(table[self.names[0]], table[self.names[1]], strict=True), self)

    def index(self, table: pd.DataFrame) -> pd.Index[Any]:
        """Both parts of items as an index of their names, from item covariates; the second where all share one."""
        columns = [table[name] for name in self.names]
        if self.only is not None and (columns[0] == self.only).all():
            columns = columns[1:]
        found: list[Any] = [x.cat if x.dtype == "category" else pd.Categorical(x) for x in columns]
        if len(found) == 1:
            one: pd.Index[Any] = found[0].categories.take(found[0].codes).rename(self.names[1])
            return one
        return pd.MultiIndex([x.categories for x in found], [x.codes for x in found], names=self.names)


def compares(data: Any) -> bool:
    """Whether labels of annotations say which objects are better."""
    parts: Parts | None = data.alphabet.kind.parts
    return parts is not None and parts.ranks


def with_parts(rows: Rows, options: Mapping[str, Any], pair: Parts) -> tuple[Rows, dict[str, Any]]:
    """Rows with one id an item, "left | right", and options with its parts as item covariates.

    Ids of items in options may be pairs or such text. DataError for an id that is no pair, or holds the separator,
    a position that is no whole number, and an object that is compared with itself.
    """
    features = options.get("features")
    table = features if isinstance(features, pd.DataFrame) else None
    of_objects = table is not None and _are_of_objects(table, pair)
    given = [options.get("items"), None if table is None or of_objects else table.index]
    named = [_parts(ids, pair, _of_options) for ids in given if ids is not None]
    every = [_parts(rows.item, pair, rows.place, named, rows.text), *named]
    first, second = _books(every, pair)
    listed = [first.codes(a.values)[a.codes] * len(second) + second.codes(b.values)[b.codes] for a, b in every]
    place, distinct = listed[0], np.unique(np.concatenate(listed))
    one, other = np.divmod(distinct, len(second))
    if pair.shared and (one == other).any():
        row = int(np.argmax(np.isin(place, distinct[one == other])))
        raise DataError(
            f"{native(first.ids[place[row] // len(second)])!r} is compared with itself at {rows.place(row)}"
        )
    names = _names(zip(first.ids[one], second.ids[other], strict=True), pair)
    left: Any = pd.Categorical.from_codes(one, categories=first.ids)
    right: Any = second.ids[other] if pair.ordered else pd.Categorical.from_codes(other, categories=second.ids)
    if _own_objects(options, pair):
        right = pd.Categorical(names, categories=names)
    parts = pd.DataFrame(dict(zip(pair.names, (left, right), strict=True)), index=names)
    changed = {**options, "item_covariates": with_covariates_of_parts(options.get("item_covariates"), parts, pair)}
    if table is not None:
        changed["features"] = with_features(table, parts, pair)
    if options.get("items") is not None and not isinstance(options.get("items"), Codebook):
        changed["items"] = ids_of_items(options["items"], pair)
    gold = None if rows.gold is None else rows.gold.set_axis(ids_of_items(rows.gold.index, pair))
    if options.get("gold") is not None:
        truths = by_item(options["gold"])
        changed["gold"] = truths.set_axis(ids_of_items(truths.index, pair))
    item = Encoding(names, np.searchsorted(distinct, place).astype(np.int32))
    return replace(rows, item=item, items=Codebook("item", names), gold=gold), changed


def _own_objects(options: Mapping[str, Any], pair: Parts) -> bool:
    """Whether objects of one name in several problems differ: as is said, or as in the labels of ``like``."""
    like = options.get("like")
    if like is None or pair.only is None or like.item_covariates is None:
        return options.get("objects") == "own"
    return any(SEPARATOR in str(x) for x in like.item_covariates[pair.names[1]].cat.categories)


def _of_options(row: int) -> str:
    """Where an id of an option stands."""
    return f"place {row} of items="


def _parts(
    ids: Any,
    pair: Parts,
    place: Place,
    named: Sequence[tuple[Encoding, Encoding]] | None = None,
    text: bool = False,
) -> tuple[Encoding, Encoding]:
    """The two parts of each id, of a table of two columns, of pairs, or of text with the separator.

    DataError for a part of rows that is missing, in a file of ``text`` also as "NA", and not among the ``named``.
    """
    if isinstance(ids, Encoding):
        parts = _parts(ids.values, pair, lambda n: place(ids.first_row(n)), named, text)
        one, other = (Encoding(part.values, part.codes[ids.codes]) for part in parts)
        return one, other
    if isinstance(ids, pd.MultiIndex):
        ids = ordered(ids, pair.names).to_frame(index=False)
    if not isinstance(ids, pd.DataFrame):
        values = list(ids.ids if isinstance(ids, Codebook) else ids)
        cells = [tuple(x.split(SEPARATOR)) if isinstance(x, str) else x for x in values]
        if pair.only is not None:
            cells = [
                x if isinstance(x, tuple) and len(x) > 1 else (pair.only, values[n]) for n, x in enumerate(cells)
            ]
        wrong = next((n for n, x in enumerate(cells) if not isinstance(x, tuple | list) or len(x) != 2), None)
        if wrong is not None:
            raise DataError(
                f"the item {native(values[wrong])!r} at {place(wrong)} is no {' and '.join(pair.names)}, as "
                f"kind={pair.kind!r} asks; give item={pair.names!r}, two columns, or ids such as 'a{SEPARATOR}b'"
            )
        ids = pd.DataFrame(cells, columns=list(pair.names)) if cells else pd.DataFrame(columns=list(pair.names))
    if ids.shape[1] != 2:
        raise DataError(
            f"items of kind={pair.kind!r} have two parts, {' and '.join(pair.names)}; there are {ids.shape[1]}"
        )
    found = [encode(ids.iloc[:, n], part, place) for n, part in enumerate(pair.names)]
    for n, (part, given) in enumerate(zip(pair.names, found, strict=True)):
        if named is not None and (n == 0 or pair.columns):  # else it is a class
            remedy = "give it an id or leave the row out; if it really is an id, name it in items="
            refuse_missing_text(given, part, place, chain(*(ids[n].values for ids in named)), remedy, text)
        bad = [n for n, x in enumerate(given.values) if SEPARATOR in str(x)]
        if bad:
            raise DataError(
                f"the {part} {given.values[bad[0]]!r} at {place(given.first_row(bad[0]))} holds {SEPARATOR!r}, "
                "which separates the parts of an item's id; rename it"
            )
    if pair.ordered:
        found[1] = _positions(found[1], place)
    return _in_one_order(*found) if pair.unordered else (found[0], found[1])


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


def _books(every: list[tuple[Encoding, Encoding]], pair: Parts) -> tuple[Codebook, Codebook]:
    """The ids of either part, sorted; one book for both where they are the same objects."""

    def book(name: str, columns: Iterable[Encoding]) -> Codebook:
        values = [column.values for column in columns]
        return encode(values[0].append(values[1:]).unique(), name).codebook(name)[0]

    if pair.shared:
        both = book("object", (part for parts in every for part in parts))
        return both, both
    return book(pair.names[0], (one for one, _ in every)), book(pair.names[1], (other for _, other in every))


def ids_of_items(given: Any, pair: Parts) -> pd.Index[Any]:
    """Ids of items as text."""
    one, other = _parts(given, pair, _of_options)
    return _names(zip(one.values[one.codes], other.values[other.codes], strict=True), pair).astype(object)


def _names(pairs: Iterable[tuple[Any, Any]], pair: Parts) -> pd.Index[Any]:
    """Ids of items of two parts, or of the second alone where there is only one first."""
    return pd.Index([f"{b}" if a == pair.only else f"{a}{SEPARATOR}{b}" for a, b in pairs])


def in_one_column(index: pd.Index[Any], names: Sequence[Hashable] = ()) -> pd.Index[Any]:
    """An index of several columns as text, "left | right"; its columns in the order of ``names``."""
    if not isinstance(index, pd.MultiIndex):
        return index
    return pd.Index([SEPARATOR.join(map(str, row)) for row in ordered(index, names)], dtype=object)


def ordered(index: pd.Index[Any], names: Sequence[Hashable]) -> pd.Index[Any]:
    """An index whose columns have these names with them in this order; any other as it is."""
    if not isinstance(index, pd.MultiIndex) or {*names} != {*index.names}:
        return index
    return index.reorder_levels([*map(str, names)])


def of_objects(known: pd.Series[Any], table: pd.DataFrame) -> pd.DataFrame | None:
    """What is known of the two objects of each pair, from truths by object; None where truths are by pair."""
    if known.empty or isinstance(known.index, pd.MultiIndex) or any(map(_is_pair, known.index)):
        return None
    given = known.set_axis(known.index.map(str))
    found = pd.DataFrame({side: given.reindex(table[side].astype(str)).to_numpy() for side in SIDES}, table.index)
    return found.dropna()


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


def _are_of_objects(features: pd.DataFrame, pair: Parts) -> bool:
    """Whether features are those of objects, and not of pairs."""
    return pair.shared and not any(map(_is_pair, features.index))


def with_features(features: pd.DataFrame, parts: pd.DataFrame, pair: Parts) -> pd.DataFrame:
    """Features by the ids of items, from a table by item or by object, whose left ones are then the first."""
    if not _are_of_objects(features, pair):
        return features.set_axis(ids_of_items(features.index, pair))
    one, other = (parts[side].cat.codes.to_numpy() for side in pair.names)
    objects = Codebook("object", parts[pair.names[0]].cat.categories)
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
    return beside(*(features.iloc[row[at]] for at in (one, other))).set_axis(parts.index)


def with_covariates_of_parts(given: Any, parts: pd.DataFrame, pair: Parts) -> Any:
    """Covariates of items with their parts as the first columns; a column of the same name must say the same."""
    if not isinstance(given, pd.DataFrame):
        return parts if given is None else given  # what is no table is refused where covariates are read
    if not pair.columns and not any(map(_is_pair, given.index)):  # by item, for each of its classes
        first, own = parts[pair.names[0]].astype(str), given.set_axis(given.index.map(str))
        known = own.index.isin(first)
        given = pd.concat([own[known].reindex(first).set_axis(parts.index), own[~known]])
    else:
        given = given.set_axis(ids_of_items(given.index, pair))
    for part in pair.names:
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
