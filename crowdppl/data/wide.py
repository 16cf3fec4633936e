"""Tables with a column an annotator, or a column an item, and matrices of labels, as rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import warn
from crowdppl.data.ids import (
    EXACT,
    Codebook,
    Place,
    as_index,
    native,
    place_in_rows,
    tensor_to_numpy,
)
from crowdppl.data.tables import (
    ALIASES,
    EVERYONE,
    NESTED,
    REMARK,
    UNSPECIFIC,
    Roles,
    Rows,
    as_pandas,
    letters,
    looks_like,
    named,
    recognise,
    refuse_twins,
    require_table,
)
from crowdppl.data.votes import FEW, TRUTHS, column_of_counts, of_annotators, refuse_ballots, refuse_sums
from crowdppl.errors import CrowdpplWarning, DataError

NO_ANNOTATOR = TRUTHS | {"true", "target"}
"""Words in the name of a column of a wide table that holds truths."""
HELPERS = "mean average avg median std sd variance agreement kappa entropy confidence votes total sum final"
"""Words in the name of one that holds what is computed of an item's labels, or said beside them."""
WORDS = 3
"""Words of a text from which it seems to be free."""
MEASURED = "time times timestamp date created updated seconds duration length words tokens count"
"""Words in the name of one that holds times and lengths."""
COLUMNS = ("annotators", "classes", "items")
"""What the columns of a wide table may be."""
FROM_FRAME = "read it by crowdppl.Annotations.from_frame(pandas.DataFrame(matrix), {})"
FORMS = "email emailaddress username respondent respondentid responseid"
"""What forms and surveys call those who fill them in."""


def rows_of_wide(
    frame: Any,
    given: Roles,
    annotators: Any = None,
    place: Place = place_in_rows,
    text: bool = False,
    asked: bool = False,
) -> Rows:
    """A table with a row an item and a column an annotator; an empty cell, or one of blanks, is no label.

    Columns of annotators are those that ``annotators`` lists; else all but gold, of which none may look like
    something else. Items are in the column given for "item", else in one that is recognised where the index only
    counts rows, else in the index. DataError where columns are given for other roles, have one name or are those
    of a long table, and where they seem to be classes or items, which is ``asked`` of labels that are classes.
    """
    origin = "the wide table"
    frame = as_pandas(require_table(frame, origin), origin)
    refuse_twins(list(frame.columns), origin)
    others = {role: given[role] for role in ("annotator", "label") if given.get(role) is not None}
    if others:
        raise DataError(f"{others} name columns, but each column of a wide table is an annotator; leave them out")
    if asked:
        _refuse_others_than_annotators(frame, given.get("item"), origin)
    frame = _by_item(frame, given.get("item"), text, origin)
    said, gold = {"item": str(frame.index.name or "the index")}, None
    if given.get("gold") is not None:
        truth = recognise(list(frame.columns), {"gold": given["gold"]}, origin)["gold"]
        gold, said["gold"] = frame[truth], str(truth)
        frame = frame.drop(columns=truth)
    if asked:
        refuse_sums(frame, origin)
    if asked and annotators is None and said["item"] == "the index" and frame.shape[1] > len(frame):
        warn(
            f"{origin} has more columns than rows, and rows have no name: {len(frame)} rows are read as items, "
            f"{frame.shape[1]} columns as annotators. If each row is an annotator, say columns='items', else "
            "columns='annotators', not wide=",
            CrowdpplWarning,
        )
    frame = _of_annotators(frame, annotators, origin)
    if asked:
        refuse_sums(frame, origin)
        refuse_ballots(frame, origin)
    row, column, labels = _cells(frame, frame, np.nan)
    return Rows(
        frame.index.take(row),
        frame.columns.take(column),
        labels,
        place=lambda label: f"column {native(frame.columns[column[label]])!r} of {place(int(row[label]))}",
        text=text,
        items=frame.index,
        annotators=frame.columns,
        gold=gold,
        roles=said | {"annotator": ", ".join(map(str, frame.columns))},
    )


def rows_of_items(
    frame: Any,
    given: Roles,
    items: Any = None,
    place: Place = place_in_rows,
    text: bool = False,
    origin: str = "the wide table",
) -> Rows:
    """A table with a row an annotator and a column an item; an empty cell, or one of blanks, is no label.

    Columns of items are those that ``items`` lists, else all but that of annotators, of which none may look like
    something else. Annotators are in the column given, else in one that is recognised, else in the index; without
    that role all labels are by one. DataError as of ``rows_of_wide``.
    """
    frame = as_pandas(require_table(frame, origin), origin)
    refuse_twins(list(frame.columns), origin)
    others = {role: given[role] for role in ("item", "label", "gold") if given.get(role) is not None}
    if others:
        raise DataError(
            f"{others} name columns, but each column is an item; leave them out, and name that of annotators by "
            "annotator="
        )
    who: Any = given.get("annotator")
    pooled = "annotator" not in given
    if who is not None:
        recognise(list(frame.columns), {"annotator": who}, origin)  # refuses what is not there
    elif not pooled and not _named_by_index(frame):
        who = next(iter(answerers(list(frame.columns))), None)
    if who is not None and items is None and frame[who].duplicated().any():
        _refuse_several_rows(frame, who, origin)
    said = {"annotator": "none" if pooled else str(who or frame.index.name or "the rows")}
    if who is not None:
        frame = frame.set_index(who)
    if items is not None and not isinstance(items, Codebook):
        known = Codebook("item", frame.columns)
        frame = frame.iloc[:, known.require_once(items, "items=", "name columns of the table")]
    else:
        foreign = dict(not_annotators(frame, by_name=False))
        if len(foreign) >= frame.shape[1] - 1 > 0 and len(foreign) > 1:
            raise DataError(
                f"{origin} has a row an annotator, and columns with values that no other has, as answers to "
                "different questions; make a table of each question, or name items with the same classes in items="
            )
        for odd, why in foreign.items():
            rest = [native(name) for name in frame.columns if name not in foreign]
            as_who = who is None and not pooled and frame[odd].map(str).is_unique
            raise DataError(
                f"{origin} has a column {odd!r} that looks like no item's, {why}; say columns='items', "
                f"{f'annotator={odd!r}, ' if as_who else ''}items={rest}, or name others in items="
            )
    refuse_ballots(frame, origin, who)
    row, column, labels = _cells(frame, frame, np.nan)
    return Rows(
        frame.columns.take(column),
        pd.Index([EVERYONE]).take(np.zeros(len(row), int)) if pooled else frame.index.take(row),
        labels,
        place=lambda label: f"column {native(frame.columns[column[label]])!r} of {place(int(row[label]))}",
        text=text,
        items=frame.columns,
        annotators=None if pooled else frame.index,
        roles=said | {"item": ", ".join(map(str, frame.columns))},
        pooled=pooled,
    )


def _refuse_several_rows(frame: pd.DataFrame, who: Hashable, origin: str) -> None:
    """Refuses rows of an annotator each of which is about something else, which a column names."""
    for name in frame.columns:
        if name != who and any(looks_like([name], role) for role in ("item", "problem", "sequence")):
            fixed, pair = [native(name), native(who)], [native(name), "column"]
            raise DataError(
                f"{origin} has several rows of an annotator, and a column {name!r} that seems to name what each is "
                f"about; make a row of each label, table.melt({fixed}, var_name='column', value_name='label')"
                f".assign(item=lambda x: x[{pair}].astype(str).agg(' '.join, axis=1)).drop(columns={pair}), or "
                "name others in items="
            )


def _named_by_index(frame: pd.DataFrame) -> bool:
    """Whether an index is called like annotators."""
    return bool(looks_like([frame.index.name], "annotator") or named([frame.index.name], FORMS, "annotator"))


def answerers(columns: Sequence[Hashable]) -> list[Hashable]:
    """Columns that are called like annotators, or those who fill in a form."""
    return looks_like(columns, "annotator") or named(columns, FORMS, "annotator")


def who_answered(frame: pd.DataFrame) -> tuple[Hashable, bool] | None:
    """The index or column that names annotators, and whether each has one row; None where it holds labels, say."""
    if len(frame) < 2 or frame.shape[1] < 2:
        return None
    if _named_by_index(frame):
        return frame.index.name, frame.index.is_unique
    found = answerers(list(frame.columns))
    if len(found) != 1:
        return None
    own, others = frame[found[0]].map(str), frame.drop(columns=found).map(str)
    once = own.is_unique and len(own) > FEW and not any(others[name].is_unique for name in others)
    foreign = ~pd.Series(own.unique()).isin({*others.to_numpy().ravel()})
    return (found[0], own.is_unique) if once or 2 * foreign.sum() > len(foreign) else None


def _refuse_others_than_annotators(frame: pd.DataFrame, item: Hashable | None, origin: str) -> None:
    """Refuses a table in which annotators are rows, or labels are counts in records or a row each."""
    records = column_of_counts(frame[:NESTED])
    if records is not None:
        raise DataError(f"{origin} has a column {records!r} of counts of votes; say columns='classes', not wide=")
    beside = item is not None or looks_like(list(frame.columns), "item")
    if of_annotators([*frame.index]) and not of_annotators([*frame.columns]):
        raise DataError(
            f"{origin} has rows {native(frame.index[0])!r} and so on, named as annotators; say columns='items', "
            "not wide=, or columns='annotators' if rows are items"
        )
    who = None if looks_like(list(frame.columns), "label") else who_answered(frame)
    if who is not None and who[1] and not beside:
        raise DataError(
            f"{origin} has {who[0]!r}, which names annotators, a row each; say columns='items', "
            "or columns='annotators' if it is itself an annotator"
        )
    if who is not None and beside:
        raise DataError(
            f"{origin} has {who[0]!r}, which names annotators, a label a row; leave out wide=, or "
            "say columns='classes' if each class has a column"
        )
    if not beside:
        refuse_sums(frame, origin)


def _by_item(frame: pd.DataFrame, item: Hashable | None, text: bool, origin: str) -> pd.DataFrame:
    """A wide table with its items as the index: of a column, or as they are."""
    if item is None and _counts_rows(frame.index):
        found = looks_like(list(frame.columns), "item")
        _refuse_unspecific(frame, origin, found if [*map(letters, found)] == [REMARK] else ())
        if text or found:
            item = recognise(list(frame.columns), {"item": None}, origin)["item"]
    if item is None:
        return frame
    return frame.set_index(recognise(list(frame.columns), {"item": item}, origin)["item"])


def _of_annotators(frame: pd.DataFrame, listed: Any, origin: str) -> pd.DataFrame:
    """The columns of annotators: those of a list; else all, and one that looks like something else is refused."""
    if listed is not None and not isinstance(listed, Codebook):
        known = Codebook("annotator", frame.columns)
        return frame.iloc[:, known.require_once(listed, "annotators=", "name columns of the table")]
    one, other = (named(list(frame.columns), ALIASES[role][0], role) for role in ("annotator", "label"))
    if one and other:
        raise DataError(
            f"{origin} has columns {one[0]!r} and {other[0]!r}, as a table with a label a row has; leave out "
            "wide=, or name the columns of annotators in annotators="
        )
    _refuse_others(frame, origin, "say annotators={}, or name others, or give it as gold_column=")
    return frame


def _refuse_others(frame: pd.DataFrame, origin: str, remedy: str) -> None:
    """Refuses a column that looks like something else than an annotator's labels."""
    foreign = dict(not_annotators(frame))
    remedy = remedy.format([native(name) for name in frame.columns if name not in foreign])
    for column, why in foreign.items():
        if frame[column].map(str).is_unique and len(frame) > FEW:
            items, who = f"item={column!r}", f"columns='items', annotator={column!r}"
            remedy = f"say {items} if it names items, {who} if annotators; else {remedy}"
        raise DataError(f"{origin} has a column {column!r} that looks like no annotator's, {why}; {remedy}")


def rows_of_matrix(matrix: Any, missing: Any, items: Any, annotators: Any, asked: bool = False) -> Rows:
    """A matrix (N, A) of labels: array, tensor, table or rows; what a mask covers, or is ``missing``, is no label.

    By default missing is what pandas takes so, -1 among what are no floats, and text of blanks; ``items`` and
    ``annotators`` are those of a table, else numbers. DataError if it is sparse or nothing fits, and where numbers
    seem to be votes or ranks, which is ``asked`` of labels that are classes.
    """
    values = tensor_to_numpy(matrix, "the matrix")
    try:
        values = np.asanyarray(values)
    except (TypeError, ValueError) as error:
        raise DataError(f"the matrix cannot be read ({error}); give rows of one length") from error
    if values.ndim != 2:
        raise DataError(f"the matrix has shape {values.shape}; give a row an item and a column an annotator")
    if asked and missing is None and annotators is None and not np.ma.is_masked(values):
        refuse_sums(pd.DataFrame(np.ma.getdata(values)), "the matrix", None, FROM_FRAME, "annotators= with names")
    if isinstance(matrix, pd.DataFrame):
        items = matrix.index if items is None else items
        annotators = _annotators_of(matrix) if annotators is None else annotators
    ids = []
    for axis, names, size in zip(("items", "annotators"), (items, annotators), values.shape, strict=True):
        ids.append(as_index(np.arange(size) if names is None else names))
        if len(ids[-1]) != size:
            raise DataError(f"the matrix has {size} {axis}, but {axis}= names {len(ids[-1])}")
    row, column, labels = _cells(matrix, values, missing)
    return Rows(
        ids[0].take(row),
        ids[1].take(column),
        labels,
        place=lambda label: f"[{row[label]}, {column[label]}]",
        items=ids[0],
        annotators=ids[1],
    )


def _counts_rows(index: pd.Index[Any]) -> bool:
    """Whether an index says nothing of items; sorted and filtered tables keep whole numbers without a name."""
    return index.name is None and pd.api.types.is_integer_dtype(index.dtype)


def _refuse_unspecific(table: pd.DataFrame, origin: str, also: Sequence[Hashable] = ()) -> None:
    """Refuses a column that may hold the items or be an annotator's."""
    found = [*(column for column in table.columns if letters(column) in UNSPECIFIC), *also]
    if found:
        raise DataError(
            f"{origin} has a column {found[0]!r}, which may hold the items or be an annotator's; make it the "
            "index (a wide table: say item=), or drop it"
        )


def _annotators_of(table: pd.DataFrame) -> pd.Index[Any]:
    """The columns of a matrix; refuses two of one name, and one of items, whose ids would be labels."""
    refuse_twins(list(table.columns), "the matrix")
    if _counts_rows(table.index):
        _refuse_unspecific(table, "the matrix", looks_like(list(table.columns), "item"))
    _refuse_others(table, "the matrix", "drop it, or name all columns in annotators=")
    return table.columns


def _cells(matrix: Any, values: Any, missing: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Row, column and label of each cell with one: categoricals, if the matrix holds such; none is missing."""
    given, values = ~np.ma.getmaskarray(values), np.asarray(np.ma.getdata(values))
    if missing is None or pd.isna(missing):
        given &= ~pd.isna(values)
        if values.dtype.kind in "OU":
            given[given] = [not (isinstance(x, str) and not x.strip()) for x in values[given]]
        if missing is None and values.dtype.kind != "f":
            given[given] = values[given] != -1
    else:
        given &= np.where(pd.isna(values), True, values != missing)
    row, column = np.nonzero(given)
    labels = values[row, column]
    if pd.api.types.infer_dtype(labels) in ("floating", "mixed-integer-float"):
        labels = _whole(labels.astype(np.float64))
    if isinstance(matrix, pd.DataFrame):
        return row, column, _as_categories(matrix, labels, -1 if missing is None else missing)
    return row, column, labels


def _as_categories(table: pd.DataFrame, labels: np.ndarray, missing: Any) -> Any:
    """Labels of columns that are all categoricals as one, ordered if all are alike; unused ones stay classes."""
    kinds: list[Any] = list(table.dtypes)
    if not kinds or not all(isinstance(kind, pd.CategoricalDtype) for kind in kinds):
        return labels
    names = kinds[0].categories
    for kind in kinds[1:]:
        names = names.union(kind.categories, sort=False)
    names = pd.Index(_whole(names.to_numpy()))
    same = bool(kinds[0].ordered) and all(kind == kinds[0] for kind in kinds)
    return pd.Categorical(labels, names if pd.isna(missing) else names[names != missing], ordered=same)


def _whole(values: np.ndarray) -> np.ndarray:
    """Floats that are all whole numbers as integers: missing cells had made them floats."""
    if values.dtype.kind != "f" or not (np.abs(values) < EXACT).all() or (values % 1).any():
        return values
    return values.astype(np.int64)


def not_annotators(table: pd.DataFrame, by_name: bool = True) -> Iterator[tuple[Hashable, str]]:
    """Columns of a wide table that look like no annotator's, and why: their names, or values of their own.

    Where columns are questions, of any words, they look like no item's not ``by_name``.
    """
    usual = (
        {*" ".join(chain(*(ALIASES[role] for role in ("item", "label", "class")))).split()} if by_name else set()
    )
    usual |= {*UNSPECIFIC}
    others, measures = NO_ANNOTATOR | {*HELPERS.split()} if by_name else frozenset[str](), {*MEASURED.split()}
    values = [_values(table.iloc[:, n]) for n in range(table.shape[1])]
    spans = [_span(own) for own in values]
    rows = [n for n in range(table.shape[1]) if _counts_up(table.iloc[:, n])]
    known = [span for span in spans if span is not None]
    ends = sorted(span[0] for span in known)[:2], sorted((span[2] for span in known), reverse=True)[:2]
    fractions = sum(span[3] for span in known)
    times = Counter(chain(*values))
    for n, (column, own) in enumerate(zip(table.columns, values, strict=True)):
        alone = {value for value in own if times[value] == 1}
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", str(column))}
        if letters(column) in usual or words & others or (words & measures and alone):
            yield column, "by its name"
            continue
        if rows == [n] and (n == 0 or alone):  # grades may count up where rows are few
            yield column, "because it counts rows"
            continue
        free = [x for x in alone if isinstance(x, str) and len(x.split()) >= WORDS]
        if 2 * len(free) > len(own) > FEW:
            yield column, f"because it holds free text, such as {min(free)!r:.40}"
            continue
        foreign = len(alone) == len(own) > 1 and len(values) > 2  # of two, either may be the odd one
        if foreign and not (len(known) > 1 and _among(spans[n], *ends, fractions)):
            yield column, f"because no other has its values, such as {native(next(iter(alone)))!r}"


def _counts_up(column: pd.Series[Any]) -> bool:
    """Whether a column holds 1, 2, 3, ..., or from 0 on, in the order of rows."""
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    return len(numbers) > FEW and bool((np.diff(numbers) == 1).all() and numbers[0] in (0, 1))


def _span(values: set[Any]) -> tuple[float, float, float, bool] | None:
    """Least, median and greatest of numbers, and whether there are fractions; None where one is no number."""
    numbers = pd.to_numeric(pd.Series([*values]), errors="coerce").to_numpy(np.float64)
    if not len(numbers) or not np.isfinite(numbers).all():
        return None
    return float(numbers.min()), float(np.median(numbers)), float(numbers.max()), bool((numbers % 1 != 0).any())


def _among(
    own: tuple[float, float, float, bool] | None, lowest: list[float], highest: list[float], fractions: int
) -> bool:
    """Whether numbers lie where those of other columns do, and are of their kind: measurements seldom repeat.

    The two lowest and highest ends are of all columns, as is the number of those with fractions.
    """
    if own is None:
        return False
    low, high = lowest[own[0] == lowest[0]], highest[own[2] == highest[0]]  # of the others
    return low <= own[1] <= high and (fractions > own[3] or not own[3])


def _values(column: pd.Series[Any]) -> set[Any]:
    """The different values of a column, blanks aside; none where there are lists among them."""
    try:
        found = set(column.dropna().unique().tolist())
    except TypeError:
        return set()
    return {value for value in found if not (isinstance(value, str) and not value.strip())}
