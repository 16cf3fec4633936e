"""Tables with a column a class: counts of votes, or 0 and 1 of an annotator; and what sums of rows tell."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import shown
from crowdppl.data.ids import Encoding, as_index, as_numbers, listed_answers, native
from crowdppl.data.kinds.classes import NOMINAL, parsed
from crowdppl.data.kinds.grades import ORDINAL
from crowdppl.data.kinds.kind import Kind
from crowdppl.data.kinds.sets import SETS
from crowdppl.data.tables import (
    EVERYONE,
    NESTED,
    UNSPECIFIC,
    Roles,
    Rows,
    Table,
    apart_from_roles,
    as_pandas,
    letters,
    looks_like,
    recognise,
    warn_of_states,
)
from crowdppl.errors import DataError

COUNTED = (NOMINAL, ORDINAL)
"""Kinds of labels that votes are counted of."""
FEW, MANY = 3, 20
"""Rows from which equal sums tell what numbers are, and from which sums do that are near each other."""
NEAR, HALF, ERRORS = 0.1, 0.5, 4
"""Variance of sums of rows, in that of the columns, below which rows share a number of votes: it is 1 where
annotators are independent, and more where they agree. Beyond the first, as far as it is so many standard errors
below 1, up to the second."""
CHANCE, DRAWN = 0.05, 10_000
"""Probability below which few rows have one sum for a reason, and draws that tell it."""
APART, SURE = 0.25, 3
"""Part of a column's variance that others take back where it counts votes for a class, and the standard errors that
they do so beyond chance."""
ROUNDED = 0.01
"""How far probabilities that are written with few digits may be from the sum 1."""
TRUE_FALSE = ("true", "false")
LOOKED_AT = 20_000
"""Most rows that tell what numbers are."""
MOST_VOTES = 10**8
"""Most votes that are taken one by one."""
TRUTHS = frozenset(["gold", "golden", "truth", "groundtruth", "gt", "majority", "consensus", "adjudicated"])
"""Words in the name of a column of truths; two more where it also says of what."""
COUNTERS = frozenset(["count", "counts", "votes", "nvotes", "n", "freq", "frequency"])
"""Columns that say how many labels a row stands for."""
NO_CLASS = COUNTERS | {"class", "label", "total", "sum"}
"""Names of columns beside several of classes that are none."""
NUMBERED = re.compile(r"(.*?)[\W_]*(?:\d+|[A-Z])", re.DOTALL)
"""A name with a number or a letter, such as "rater_1"."""
COUNTS = "give counts instead, (table[names] * n).round() of n annotators, and say columns='classes'"


def seems(frame: pd.DataFrame) -> tuple[str, list[Hashable]]:
    """What numbers are by the rows of a table, and the columns that are: "ranks" from 1 on, "places" from 0
    on, "votes" or "shares" of classes; "" and none for others.

    Annotators agree, so that sums of their labels vary more than labels do; those of votes are near each other.
    Empty cells are ranks that nobody gave, or no votes.
    """
    names: list[Hashable] = list(frame.columns)
    if of_annotators(names):
        return "", []
    if frame.shape[1] < 2 or len(frame) < 2 or numbers_of(frame[:MANY]) is None:
        return "", []
    numbers = numbers_of(_some(frame))
    if numbers is None or (numbers < 0).any():
        return "", []
    blank, filled = np.isnan(numbers), np.nan_to_num(numbers)
    given, k = (~blank).sum(1), frame.shape[1]
    if (filled % 1).any():
        off = np.abs(filled.sum(1)[:, None] / (1, 100) - 1)  # per cent, too
        found = "shares" if not blank.any() and (off < ROUNDED).all(0).any() else ""
        return found, names if found else []
    if k >= FEW and _are_ranks(numbers):
        return "ranks", names
    if k >= FEW and not blank.any() and (np.sort(filled, 1) == np.arange(k)).all():
        return "places", names
    # Of a sum that is the same, a class that has more votes leaves less to others; what is no class does not.
    cov = np.atleast_2d(np.cov(filled.T))
    own = np.diag(cov)
    part = (cov.sum(1) - own < -APART * own) | ~filled.any(0)
    taken = cov[:, part].sum(1) - own  # a column that varies little may seem to leave less by chance
    chance = np.sqrt(
        np.maximum(own * (cov[part][:, part].sum() - own - 2 * taken) - taken**2, 0) / (len(filled) - 1)
    )
    part &= (taken < -SURE * chance) | (own == 0)
    kept, sums = own[part].sum(), filled[:, part].sum(1)
    if (part & (own > 0)).sum() < 2 or (not part.all() and len(frame) < MANY):
        return "", []
    same = (sums == sums[0]).all() and (len(sums) >= MANY or _equal_by_chance(filled[:, part]) < CHANCE)
    if blank.any():
        same, alike = same and (given != given[0]).any(), False
    else:
        least = min(HALF, 1 - ERRORS * np.sqrt(2 / len(filled)))
        alike = len(frame) >= MANY and sums.var(ddof=1) < max(NEAR, least) * kept
    return (
        ("votes", [name for name, is_one in zip(names, part, strict=True) if is_one]) if same or alike else ("", [])
    )


def _equal_by_chance(numbers: np.ndarray) -> float:
    """Probability that all rows (N, K) have one sum, were columns independent, by two rows drawn many times."""
    rng = np.random.default_rng(0)
    one, other = np.sum([rng.choice(column, (2, DRAWN)) for column in numbers.T], axis=0)
    return float((one == other).mean() ** (len(numbers) - 1))


def of_annotators(names: Sequence[Hashable]) -> bool:
    """Whether all columns are named as annotators by number."""
    found = [NUMBERED.fullmatch(str(name)) for name in names]
    return all(x is not None and looks_like([x[1]], "annotator") for x in found)


def _some(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows that are looked at, spread over a long table."""
    return frame.iloc[:: -(-len(frame) // LOOKED_AT)]


def _are_ranks(numbers: np.ndarray) -> bool:
    """Whether each row (K,) has ranks from 1 on, of which few are tied, NaN where none is given."""
    table, given = pd.DataFrame(numbers), (~np.isnan(numbers)).sum(1)
    in_order = any(
        table.rank(axis=1, method=how).equals(table) for how in ("dense", "min")
    )  # 1, 2, 2, 3 or 1, 2, 2, 4
    return in_order and bool((given > 1).all() and (2 * table.nunique(axis=1) > given).all())


def numbers_of(frame: pd.DataFrame) -> np.ndarray | None:
    """Cells as numbers (N, K), NaN where they are empty; None where one is anything else."""
    columns = []
    for n in range(frame.shape[1]):
        own = _without_words(frame.iloc[:, n])
        try:
            numbers = as_numbers(own)
        except (TypeError, ValueError):  # lists and the like
            return None
        if np.isinf(numbers).any() or not all(map(_is_empty, own[np.isnan(numbers)].array)):
            return None
        columns.append(numbers)
    return np.column_stack(columns)


def _are_words(column: pd.Series[Any]) -> bool:
    """Whether a column holds True and False, which may be text."""
    if pd.api.types.is_bool_dtype(column):
        return True
    texts = (isinstance(x, str) and x.strip().lower() in TRUE_FALSE for x in column)
    return len(column) > 0 and all(texts)


def _without_words(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of True and False as 1 and 0; others as they are."""
    return column.map(lambda x: int(str(x).strip().lower() == TRUE_FALSE[0])) if _are_words(column) else column


def are_ballots(frame: pd.DataFrame) -> bool:
    """Whether each row names different things, mostly those of other rows, too, as nobody's labels do."""
    if frame.shape[1] < 2 or len(frame) < 2:
        return False
    head = frame[:MANY]
    texts = head.map(lambda x: isinstance(x, str) and x.strip() != "").to_numpy(bool)
    if numbers_of(head) is not None or not texts.all():
        return False
    cells = _some(frame).map(str).to_numpy()
    if any(len({*row}) < len(row) for row in cells) or 2 * len(np.unique(cells)) >= cells.size:
        return False
    return len(cells) >= MANY or _different_by_chance(cells) < CHANCE


def _different_by_chance(cells: np.ndarray) -> float:
    """Probability that no row (N, K) names a thing twice, were columns independent."""
    rng, codes = np.random.default_rng(0), np.unique(cells, return_inverse=True)[1].reshape(cells.shape)
    drawn = np.sort([rng.choice(column, DRAWN) for column in codes.T], axis=0)
    return float((np.diff(drawn, axis=0) > 0).all(0).mean() ** len(cells))


def refuse_ballots(frame: pd.DataFrame, origin: str, who: Hashable | None = None) -> None:
    """Refuses a table in which a row lists what an annotator of ``who``, or of the index, ranks, the best first."""
    if are_ballots(frame):
        names = list(map(native, frame.columns))
        raise DataError(
            f"each row of {origin} names different things, as one annotator's ranking: make a column of lists, "
            f"pandas.DataFrame({{'annotator': table{'.index' if who is None else f'[{who!r}]'}, 'ranking': "
            f"table[{names}].values.tolist()}}), for "
            "crowdppl.Annotations.from_frame (or say columns='annotators' if columns are annotators)"
        )


def _is_empty(cell: Any) -> bool:
    return not cell.strip() if isinstance(cell, str) else pd.api.types.is_scalar(cell) and bool(pd.isna(cell))


def refuse_sums(
    frame: pd.DataFrame, origin: str, row: Hashable | None = None, call: str = "say {}", labels: str | None = None
) -> None:
    """Refuses rows of numbers that seem to be no labels, a column an annotator, with what to say instead.

    ``row`` is the column that names rows, ``call`` where arguments are said, ``labels`` what to say of labels.
    """
    found, columns = seems(frame)
    if not found:
        return
    beside = [] if len(columns) == frame.shape[1] else [f"classes={list(map(native, columns))}"]
    frame = frame[columns]
    names = ", ".join(repr(native(name)) for name in frame.columns[:3]) + (", ..." if frame.shape[1] > 3 else "")
    item, ranker = ("", "") if row is None else (f"item={row!r}, ", f"annotator={row!r}, ")
    told = {
        "ranks": f"each row has the numbers 1, 2, ... once, as one annotator's ranks of {names}; "
        + call.format(f"{ranker}columns='items', kind='ranking'"),
        "places": f"each row has the numbers 0, 1, ... once, as one annotator's ranks of {names}, or as counts of "
        "votes; add 1 to ranks, and say columns='items', kind='ranking', or " + call.format("columns='classes'"),
        "votes": f"rows have the same sum, or nearly so, as counts of votes for {names}; "
        + call.format(", ".join(["columns='classes'", *beside])),
        "shares": f"rows have the sum 1 or 100, as probabilities of {names}; {COUNTS}",
    }
    labels = labels or f"{item}columns='annotators'"
    raise DataError(f"{origin} seems to hold no labels: {told[found]} (or {labels} if columns are annotators)")


def counted(column: pd.Series[Any]) -> list[dict[Any, float]] | None:
    """Counts of a column whose cells are records {"cat": 3, "dog": 2}, also as text; None for others."""
    found = []
    for cell in column:
        record = parsed(cell) if isinstance(cell, str) else cell
        if not isinstance(record, Mapping) or not record:
            return None
        own = {name: x for name, x in record.items() if x is not None}  # Arrow fills records up
        if not all(isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in own.values()):
            return None
        found.append(own)
    return found or None


def column_of_counts(head: pd.DataFrame) -> Hashable | None:
    """The one column of records of counts, by the first rows of a table."""
    found = [name for name in head if counted(head[name]) is not None]
    return found[0] if len(found) == 1 else None


def columns_of_classes(head: pd.DataFrame, taken: list[Hashable], marks: bool = False) -> list[Hashable]:
    """Columns of numbers, by the first rows of a table; those of True and False where there are no others.

    Where a row of ``marks`` is a label, those of 0 and 1 if there are several.
    """
    numbers = {name: own for name in head if name not in taken and (own := numbers_of(head[[name]])) is not None}
    found = [name for name, own in numbers.items() if not np.isnan(own).all()]
    words = [name for name in found if _are_words(head[name])]
    plain = [name for name in found if name not in words]
    if marks:
        plain = [name for name in plain if np.isin(numbers[name], (0, 1)).all()] or plain
        return plain if len(plain) > 1 and np.isin(numbers[plain[0]], (0, 1)).all() else words or plain
    return plain or words


def item_of(head: pd.DataFrame, given: Hashable | None, origin: str) -> Hashable | None:
    """The column of items: given, recognised, or an index that was written; None where rows are counted."""
    names = list(head.columns)
    if given is not None:
        return recognise(names, {"item": given}, origin)["item"]
    names = [name for name in names if not head[name].map(lambda x: isinstance(x, Mapping)).any()]
    written = [name for name in names if name == "" or letters(name) in UNSPECIFIC]
    found = looks_like(names, "item")
    if len(found) > 1:
        return recognise(names, {"item": None}, origin)["item"]  # refuses
    return (found or written or [None])[0]


def rows_of_classes(
    table: Table, given: Roles, options: Mapping[str, Any], kind: Kind | None
) -> tuple[Rows, dict[str, Any]]:
    """Rows of a table with a column a class, or a column of records of counts, and options with kind and classes.

    Where a column names annotators, a row is the label of one, 1 in the column of its class, or of several of a
    set; else cells are counts of votes, which all count as one annotator's. Columns of classes are those that
    ``classes`` lists, else all of numbers. An item without a name is its row. DataError for cells that are no
    such numbers, with their place.
    """
    frame, origin = as_pandas(table.frame, table.origin), table.origin
    by_index = not (frame.index.name is None and pd.api.types.is_integer_dtype(frame.index.dtype))
    if by_index and given.get("item") is None and not looks_like(list(frame.columns), "item"):
        named = frame.index.rename(frame.index.name or "item")
        given, frame = {**given, "item": named.name}, frame.set_axis(named).reset_index()
    frame = frame.reset_index(drop=True)
    names, head = list(frame.columns), frame[:NESTED]
    item = item_of(head, given.get("item"), origin)
    who = given.get("annotator")
    if "annotator" in given and who is None:
        who = next(iter(looks_like([name for name in names if name != item], "annotator")), None)
    gold = given.get("gold")
    for role, column in (("annotator", who), ("gold", gold), ("label", given.get("label"))):
        if column is not None:
            recognise(names, {role: column}, origin)  # refuses what is not there
    taken = [name for name in (item, who, gold) if name is not None]
    records = given.get("label")
    records = column_of_counts(head.drop(columns=taken)) if records is None else records
    listed = None if options.get("classes") is None else listed_answers(options["classes"], "classes")
    if records is not None:
        cells = _of_records(frame[records], listed, table)
    else:
        cells = frame[_listed(listed, names, origin) or columns_of_classes(head, taken, marks=who is not None)]
        _refuse_other_names(list(cells.columns) if listed is None else [], origin)
    rest = [name for name in names if name not in (*taken, records, *cells.columns)]
    warn_of_states(frame, rest, [], origin)
    unnamed = [x for x in rest if head[x].map(str).is_unique and len(head) > 1] or [
        x for x in rest if numbers_of(head[[x]]) is None
    ]
    if item is None and unnamed:
        raise DataError(
            f"{origin} has no column that looks like item; say item={native(unnamed[0])!r}, columns='classes', or "
            "leave such columns out where each row is an item"
        )
    if cells.shape[1] < 2:
        raise DataError(
            f"{origin} has {cells.shape[1]} columns of numbers beside items and annotators, and each class "
            "needs one; name the columns in classes="
        )
    numbers = _checked(cells, table)
    said = {"item": "the rows" if item is None else str(item)}
    said |= {} if who is None else {"annotator": str(who)}
    said |= {} if gold is None else {"gold": str(gold)}
    said["classes" if who is not None else "votes"] = ", ".join(map(str, cells.columns))
    items = pd.RangeIndex(len(frame)) if item is None else as_index(frame[item])
    if item is None and table.text:
        items = items.astype(str)
    truths = None if gold is None else frame[gold].set_axis(items)
    classes = as_index(cells.columns)
    more = {**options} if options.get("like") is not None else {**options, "classes": classes}
    each = numbers.sum(1)
    if who is None and kind != SETS:
        if kind is None and numbers.max() <= 1 and (each != each[0]).any():
            raise DataError(
                f"{origin} has no counts of votes above 1: say kind='set' if a row is a set of classes, "
                "kind='nominal' if its classes have a vote each"
            )
        if listed is None and options.get("like") is None and len(numbers) >= FEW:
            _refuse_total(numbers, classes, origin)
        found = seems(cells)[1] if listed is None else []
        if len(found) not in (0, cells.shape[1]):
            raise DataError(
                f"{origin} has numbers beside counts of votes, whose sums are near each other; say "
                f"columns='classes', classes={list(map(native, found))}, or name others"
            )
        row, answer = (np.repeat(at, numbers[numbers > 0].astype(int)) for at in np.nonzero(numbers))
        label: Any = Encoding(classes, answer.astype(np.int32))
    else:
        one = kind != SETS and (each == 1).all()
        if numbers.max() > 1 or (kind in COUNTED and not one):
            at = int(np.argmax(numbers.max(1) > 1 if numbers.max() > 1 else each != 1))
            raise DataError(
                f"{table.place(at)} has {', '.join(f'{x:g}' for x in numbers[at][:9])} for the classes, and a "
                "label is 1 in one column, 0 in others; say kind='set' if it may be of several classes, or "
                "annotator=None if cells are counts of votes"
            )
        if kind is None and numbers.max() <= 1 and each.max() == 1 and not one:
            raise DataError(
                f"{table.place(int(each.argmin()))} has 0 for each class, and all other rows 1 for one; leave such "
                "rows out, or say kind='set' if a label may be of no class, or of several"
            )
        row = np.arange(len(frame))
        label = Encoding(classes, numbers.argmax(1).astype(np.int32))
        if not one:
            each_class = list(classes)
            more["kind"], label = SETS.name, [[each_class[k] for k in np.flatnonzero(own)] for own in numbers]
    columns = frame[rest].rename(columns=apart_from_roles(rest, dict.fromkeys(("item", "annotator", "label"), "")))
    return Rows(
        items.take(row),
        Encoding(pd.Index([EVERYONE]), np.zeros(len(row), np.int32)) if who is None else frame[who],
        label,
        columns if rest and len(row) == len(frame) and who is not None else None,
        lambda n: table.place(int(row[n])),
        table.text,
        items=items.dropna().unique(),
        gold=truths,
        roles=said,
        pooled=who is None,
    ), more


def _refuse_other_names(names: list[Hashable], origin: str) -> None:
    """Refuses a column among those of classes that is called like truths, or like a total."""
    for name in names:
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", str(name))}
        truths = words & TRUTHS or (words & {"true", "target"} and words & {"label", "class", "category", "answer"})
        if truths or (letters(name) in NO_CLASS and len(names) > 2):
            rest = [native(other) for other in names if other != name]
            raise DataError(
                f"{origin} has a column {name!r}, which looks like {'truths' if truths else 'no class'}, beside "
                f"counts; say columns='classes', classes={rest}, or name others"
            )


def _refuse_total(numbers: np.ndarray, names: pd.Index[Any], origin: str) -> None:
    """Refuses a column that is the sum of all others."""
    total = (2 * numbers == numbers.sum(1, keepdims=True)).all(0)
    if len(names) > 2 and total.any():
        at = int(total.argmax())
        rest = [native(name) for n, name in enumerate(names) if n != at]
        raise DataError(
            f"the column {native(names[at])!r} of {origin} is the sum of the others, and no class; say "
            f"columns='classes', classes={rest}"
        )


def _listed(classes: Iterable[Any] | None, names: Iterable[Hashable], origin: str) -> list[Hashable]:
    """The columns that bear the names of classes."""
    texts = {str(name): name for name in names}
    for name in classes or ():
        if str(name) not in texts:
            raise DataError(f"{origin} has no column {name!r}, which classes= names; name columns of the table")
    return [texts[str(name)] for name in classes or ()]


def _of_records(column: pd.Series[Any], classes: list[Any] | None, table: Table) -> pd.DataFrame:
    """Records of counts as a table with a column a class."""
    found = counted(column)
    if found is None:
        at = next(n for n, cell in enumerate(column) if counted(pd.Series([cell], dtype=object)) is None)
        raise DataError(
            f"{shown(column.iloc[at])} at {table.place(at)} is no record of counts such as {{'cat': 3, 'dog': 2}}; "
            "correct it, or leave the row out"
        )
    names = sorted({name for own in found for name in own}, key=str) if classes is None else classes
    for at, own in enumerate(found):
        if unknown := {*own} - {*names}:
            raise DataError(f"the class {unknown.pop()!r} at {table.place(at)} is not in classes=; add it")
    return pd.DataFrame([[own.get(name, 0) for name in names] for own in found], columns=as_index(names))


def _checked(cells: pd.DataFrame, table: Table) -> np.ndarray:
    """Counts (N, K); DataError for what is none."""
    own = [_without_words(cells.iloc[:, n]) for n in range(cells.shape[1])]
    values = [as_numbers(column.mask(column.map(_is_empty), 0)) for column in own]
    numbers = np.column_stack(values)
    wrong = ~((numbers >= 0) & (numbers % 1 == 0))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        value, name = shown(native(cells.iloc[row, column])), native(cells.columns[column])
        shares = seems(cells)[0] == "shares"
        remedy = (
            f"rows have the sum 1, as probabilities; {COUNTS}"
            if shares
            else "correct it, or name the columns of classes in classes="
        )
        raise DataError(f"{value} of column {name!r} at {table.place(int(row))} is no count of votes; {remedy}")
    if numbers.sum() > MOST_VOTES:
        large = cells.columns[int(numbers.sum(0).argmax())]
        raise DataError(
            f"the columns hold {numbers.sum():g} votes, most of them in {large!r}, and {MOST_VOTES:g} are taken at "
            "most; name the columns of classes in classes=, or divide all counts by a number"
        )
    if not numbers.any():
        raise DataError(f"all counts of {table.origin} are 0; give at least one vote")
    return numbers
