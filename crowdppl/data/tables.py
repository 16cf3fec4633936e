"""Tables with a label a row, as rows of item, annotator and label: which column holds what, and what it holds."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import kind_of, shown, warn
from crowdppl.data.ids import Encoding, Place, as_column, as_index, encode, encode_text, native, place_in_rows
from crowdppl.errors import CrowdpplWarning, DataError

if TYPE_CHECKING:
    import pyarrow as pa

ALIASES: Mapping[str, tuple[str, ...]] = {
    "item": (
        "item task question subject example",
        "instance object unit document doc patient sample hit record case",
        "id",
        "text image sentence audio video url",
        "comment commenttext post tweet message utterance review article passage paragraph snippet claim statement "
        "title photo picture clip file filename path stimulus",
    ),
    "annotator": (
        "annotator worker rater coder user",
        "labeler labeller judge grader observer reviewer expert performer contributor participant",
        "voter ranker respondent assessor evaluator juror marker scorer examiner turker crowdworker username "
        "annotatorname ratername workername annotatedby labeledby labelledby completedby createdby "
        "prolificpid",
    ),
    "label": (
        "label answer rating response accept",
        "class category annotation judgment judgement grade score choice vote value",
        "winner preferred preference tag nertag",
        "ranking rank",
        "labels tags categories verdict decision sentiment",
    ),
    "class": ("label class truth gold answer", "category true rating target", "rank"),
    **{
        side: (
            f"{side} {side}{end} {end}",
            f"model{end} model{number}",
            *(
                " ".join(f"{name}{end} {name}{number}" for name in names.split())
                for names in ("object option item candidate player team", "response answer output completion")
            ),
        )
        for side, end, number in (("left", "a", 1), ("right", "b", 2))
    },
    "winner": ("winner", "chosen preferred better", "preference choice verdict"),
    "loser": ("loser", "rejected dispreferred worse"),
    "sequence": ("sequence sentence", "document doc", "text"),
    "position": ("position", "tokenid wordid tokenindex wordindex", "token index order"),
    "token": ("token word", "form", "text"),
    "text": ("text", "sentence document content"),
    "start": ("start startoffset startchar begin beginoffset",),
    "end": ("end endoffset endchar stop",),
    "type": ("type", "label entity entitytype tag category class"),
    "problem": ("problem list", "query question topic task prompt"),
    "object": ("object candidate option alternative",),
}
"""Names of each role. Later ones count only where no earlier one is there: tables of labels carry the text or image
along, beside an id. Prodigy writes choices to "accept", beside an "answer" that says whether the task was done."""
PARTS_OF_ITEMS = ("left", "right", "sequence", "position", "problem", "object")
"""Roles of columns of which two name an item."""
NAMING = ("left", "right", "winner", "loser", "problem", "object")
"""Roles of columns that name things, whatever the kind of labels."""
PARTS_BESIDE = ("item", "problem", "sequence")
"""Roles of columns that may name an item together with that which is recognised."""
ARGUMENT: Mapping[str, str] = {"class": "label", "gold": "gold_column", **dict.fromkeys(PARTS_OF_ITEMS, "item")}
"""The argument that names the column of a role, where it is not called like the role."""
TOLOKA = re.compile("(INPUT|ASSIGNMENT):")
"""How names of columns of items and annotators begin in files of Toloka."""
REMARK = "comment"
"""What names an item, or what an annotator remarks on one."""
UNSPECIFIC = frozenset(["id", "ids", "index", "unnamed0"])
"""What tables call their rows: pandas writes an index under no name, and reads it back as "Unnamed: 0"."""

Roles = Mapping[str, Hashable | None]
"""The column of each role, or None to recognise it by name."""
LISTS = (list, tuple, np.ndarray)
EVERYONE = "all"
"""The annotator of all labels, where none is named."""
NOT_TAKEN = frozenset(["rejected", "discarded", "returned", "timedout", "true"])
"""What tools write in a column of states, or "tainted", beside labels that are not to count."""
NESTED = 100
"""Rows in which nested records are looked for."""


@dataclass(frozen=True)
class Rows:
    """Who gave which item which label, one row a label.

    Attributes:
        item, annotator: columns of ids, (S,); of items with two parts, a table (S, 2), pairs or text.
        label: column of labels; None for a design without labels.
        columns: further columns that travel with the rows.
        place: where a row stands, for messages.
        text: whether everything is text because the file knows nothing else.
        items, annotators: ids that are there whether or not they have labels.
        gold: truths in the table by item id, blank where unknown and repeated where known; None without.
        roles: the columns that were read, by what they hold, for the summary; empty where there was no table.
        of_lists: whether cells of the table held lists of annotators and of their labels.
        pooled: whether all labels count as one annotator's, as nobody says whose they are.
        recognised: of what kind labels were taken without being told, for messages; "" where they were not.
    """

    item: Any
    annotator: Any
    label: Any | None
    columns: pd.DataFrame | None = None
    place: Place = place_in_rows
    text: bool = False
    items: Any = None
    annotators: Any = None
    gold: pd.Series[Any] | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    of_lists: bool = False
    pooled: bool = False
    recognised: str = ""

    @classmethod
    def of_arrays(
        cls, item: Any, annotator: Any, label: Any | None, columns: pd.DataFrame | None = None, parts: bool = False
    ) -> Rows:
        """Rows of lists, arrays or tensors; ``label`` is None for a design; items may have two ``parts``."""
        labels = None if label is None else as_column(label, "label")
        items = item if parts else as_column(item, "item")
        return cls(items, as_column(annotator, "annotator"), labels, columns)

    def chosen(self, kept: np.ndarray) -> Rows:
        """Some of the rows, by a mask (S,); items and annotators that no row has any more stay."""
        at = np.flatnonzero(kept)

        def rows_of(column: Any) -> Any:
            if isinstance(column, Encoding):
                used, codes = np.unique(column.codes[at], return_inverse=True)
                return replace(column, values=column.values[used], codes=codes.astype(np.int32))
            return column.iloc[at].reset_index(drop=True) if hasattr(column, "iloc") else [column[n] for n in at]

        items, annotators = self.items, self.annotators
        if items is None and not isinstance(self.item, pd.DataFrame):
            items = encode(self.item, "item", self.place).values
        return replace(
            self,
            item=rows_of(self.item),
            annotator=rows_of(self.annotator),
            label=rows_of(self.label),
            columns=None if self.columns is None else self.columns.iloc[at].reset_index(drop=True),
            place=lambda row: self.place(int(at[row])),
            items=items,
            annotators=encode(self.annotator, "annotator", self.place).values if annotators is None else annotators,
        )

    def __post_init__(self) -> None:
        columns = {"item": self.item, "annotator": self.annotator, "label": self.label}
        lengths = {name: len(column) for name, column in columns.items() if column is not None}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{n} {name}s" for name, n in lengths.items())
            raise DataError(f"there are {counts}; give one of each a row")
        if self.columns is not None and len(self.columns) != lengths["item"]:
            raise DataError(
                f"there are {lengths['item']} labels and {len(self.columns)} rows of covariates; give one a label"
            )
        if lengths["item"] == 0:
            raise DataError("there are no rows; give at least one label")


@dataclass(frozen=True)
class Table:
    """A table, of Arrow or pandas.

    Attributes:
        origin: what it is called in messages, such as "answers.csv".
        place: where a row stands, such as "line 5 of answers.csv".
        text: whether ids and labels are text because the format knows nothing else.
        tokens: whether rows are tokens of CoNLL, with tags in further columns.
    """

    frame: pd.DataFrame | pa.Table
    origin: str = "the table"
    place: Place = place_in_rows
    text: bool = False
    tokens: bool = False

    @property
    def names(self) -> list[Hashable]:
        """Names of columns."""
        return list(self.frame.columns if isinstance(self.frame, pd.DataFrame) else self.frame.column_names)

    def head(self) -> pd.DataFrame:
        """The first rows as pandas has them."""
        frame = self.frame[:NESTED] if isinstance(self.frame, pd.DataFrame) else self.frame.slice(0, NESTED)
        return as_pandas(frame, self.origin)

    def some(self, names: Sequence[Hashable]) -> pd.DataFrame:
        """Some columns as pandas has them, rows counted from 0."""
        return _selected(self.frame, [*names], self.origin).reset_index(drop=True)


def rows_of_frame(table: Table, given: Roles) -> Rows:
    """A table with one label a row; ``given`` are columns by role: item or its parts, annotator, label, gold.

    Without a role of annotators, all labels are by one. A further column named like a role is kept as
    "other_label", say. DataError when a column is missing, ambiguous, or guessed to hold items and counts rows.
    """
    frame, names, origin, place = table.frame, table.names, table.origin, table.place
    try:
        roles = recognise(names, given, origin)
    except DataError:
        _refuse_nested(frame, origin)
        raise
    frame, place = _one_annotator_a_row(frame, roles, origin, place)
    rest = [name for name in names if name not in roles.values()]
    columns = _selected(frame, rest, origin).rename(columns=apart_from_roles(rest, roles)) if rest else None
    if table.text and columns is not None:  # all is text where a file was read before its shape was known
        columns = columns.apply(numbers_of_text)
    found = {role: encode_text(frame[roles[role]], role, place) for role in ("annotator", "label") if role in roles}
    annotator = found.get("annotator", Encoding(pd.Index([EVERYONE]), np.zeros(len(frame), np.int32)))
    item: Any
    if "item" in roles:
        item = encode_text(frame[roles["item"]], "item", place)
        if given.get("item") is None and letters(roles["item"]) in (*UNSPECIFIC, REMARK):
            distinct = len(item.values) if isinstance(item, Encoding) else item.astype(str).nunique()
            if distinct == len(item) > 1:
                says = f"{roles['item']!r} differs in each row, and seems to tell rows apart, not items"
                raise DataError(f"{origin}: {says}; say item=")
    else:
        parts = {role: column for role, column in roles.items() if role in PARTS_OF_ITEMS}
        item = _selected(frame, [*parts.values()], origin).set_axis([*parts], axis=1)
        item = item if parts else pd.DataFrame(index=range(len(frame)))
    if "label" in found and given.get("item") is None:
        _refuse_part_of_items(frame, roles, item, annotator, origin, place)
    gold = None
    if "gold" in roles:
        known = _selected(frame, [roles["gold"]], origin).iloc[:, 0]
        if isinstance(item, pd.DataFrame) and item.shape[1] == 2:
            gold = known.set_axis(pd.MultiIndex.from_frame(item))
        else:
            ids = item.iloc[:, 0] if isinstance(item, pd.DataFrame) and item.shape[1] else item
            gold = known.set_axis(ids.values.take(ids.codes) if isinstance(ids, Encoding) else as_index(ids))
    of_cells = [roles[role] for role in ("annotator", "label") if role in roles]
    warn_of_states(table.frame, rest, of_cells, origin)
    said = {role: str(column) for role, column in roles.items()}
    pooled, of_lists = "annotator" not in found, frame is not table.frame
    return Rows(
        item,
        annotator,
        found.get("label"),
        columns,
        place,
        table.text,
        gold=gold,
        roles=said,
        of_lists=of_lists,
        pooled=pooled,
    )


def numbers_of_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of text as numbers, where all of it are; others as they are."""
    if pd.api.types.infer_dtype(column) != "string":  # dates of Arrow are objects, too
        return column
    blank = column.str.strip() == ""
    numbers = pd.to_numeric(column.mask(blank), errors="coerce")
    return numbers if bool((numbers.notna() | blank).all()) else column


def _refuse_part_of_items(
    frame: pd.DataFrame | pa.Table, roles: Roles, item: Any, annotator: Any, origin: str, place: Place
) -> None:
    """Refuses a recognised column of items, or of sequences, that names one only with another column beside it."""
    of = next((role for role in ("item", "sequence") if role in roles), None)
    names = frame.columns if isinstance(frame, pd.DataFrame) else frame.column_names
    free = [x for x in names if x not in roles.values() and letters(x) not in UNSPECIFIC]
    beside = [x for x in free if letters(x) == "label" or any(looks_like([x], role) for role in PARTS_BESIDE)]
    if of is None or not beside:
        return
    columns: dict[Any, Any] = {of: item}
    if isinstance(item, pd.DataFrame):
        columns = {name: item[name] for name in item}
    both = np.zeros(len(annotator), np.int64)
    for role, column in {**columns, "annotator": annotator}.items():
        codes = encode(column, role, place).codes
        both = both * (codes.max(initial=0) + 1) + codes
    again = np.flatnonzero(pd.Series(both).duplicated(keep=False))
    for name in beside if len(again) else ():
        other = _selected(frame, [name], origin).iloc[:, 0]
        own = pd.DataFrame({"both": both[again], "other": other.iloc[again].map(str).to_numpy()})
        if not own.duplicated().any() and not other.map(str).is_unique:
            at = native(_selected(frame, [roles[of]], origin).iloc[int(again[0]), 0])
            pair = [native(roles[of]), native(name)]
            say = f", or say item={pair[0]!r} if labels of one are to count together" if of == "item" else ""
            raise DataError(
                f"{origin}: an annotator labels the {pair[0]} {at!r:.60} again for another {name!r}, and both seem "
                f"to name the {of}: make a column of both, table.assign({of}=table[{pair}].astype(str)"
                f".agg(' '.join, axis=1)).drop(columns={pair}){say}"
            )


def warn_of_states(
    frame: pd.DataFrame | pa.Table, rest: Sequence[Hashable], lists: Sequence[Hashable], origin: str
) -> None:
    """Warns of labels that a tool has marked as rejected, in a row each or in cells as the columns ``lists``."""
    for name in rest:
        if letters(name).endswith("status") or letters(name) == "tainted":
            states = _selected(frame, [name], origin).iloc[:, 0].map(plain_list).explode()
            out = states.map(lambda x: letters(str(x)) in NOT_TAKEN)
            if out.any():
                state, of_lists = native(states[out].iloc[0]), len(states) != len(frame)
                first = (
                    f"make a row of each, table = table.explode({[*lists, name]}), and then " if of_lists else ""
                )
                warn(
                    f"{out.sum()} of {len(out)} {'labels' if of_lists else 'rows'} have {name!r} {state!r:.60}, "
                    f"and their labels count; {first}leave them out, table[table[{name!r}] != {state!r:.60}], or "
                    "drop the column",
                    CrowdpplWarning,
                )


def _one_annotator_a_row(
    frame: pd.DataFrame | pa.Table, roles: Mapping[str, Hashable], origin: str, place: Place
) -> tuple[pd.DataFrame | pa.Table, Place]:
    """A table whose cells hold lists of annotators and their labels, with a row for each; others as they are."""
    if not {"annotator", "label"} <= {*roles}:
        return frame, place
    names = [roles["annotator"], roles["label"]]
    head = _selected(frame[:NESTED] if isinstance(frame, pd.DataFrame) else frame.slice(0, NESTED), names, origin)
    if not all(isinstance(cell, LISTS) for cell in head[names[0]]) or not len(head):
        return frame, place
    frame = as_pandas(frame, origin).reset_index(drop=True)
    for row, cells in enumerate(zip(*(frame[name].map(plain_list) for name in names), strict=True)):
        sizes = [len(cell) if isinstance(cell, LISTS) else None for cell in cells]
        if sizes[0] is None or sizes[0] != sizes[1]:
            raise DataError(
                f"{place(row)} names the annotators {shown(cells[0])} and the labels {shown(cells[1])}; give lists "
                "of one label for each annotator, or a row for each (DataFrame.explode)"
            )
    long = frame.explode(names)
    long = long[long[names[0]].notna().to_numpy()]  # of two empty lists
    rows = long.index.to_numpy()
    return long.reset_index(drop=True), lambda row: place(int(rows[row]))


def plain_list(cell: Any) -> Any:
    """An array as a list."""
    return cell.tolist() if isinstance(cell, np.ndarray) else cell


def _refuse_nested(frame: pd.DataFrame | pa.Table, origin: str) -> None:
    """Refuses a table of which a column holds records, as labelling tools export the annotations of a task."""
    head = frame.head(NESTED) if isinstance(frame, pd.DataFrame) else as_pandas(frame.slice(0, NESTED), origin)
    cells = [(name, cell) for name in head.columns for cell in head[name]]
    lists = [(name, cell[0]) for name, cell in cells if isinstance(cell, list | np.ndarray) and len(cell)]
    for n, (name, record) in enumerate([*lists, *cells]):
        if isinstance(record, Mapping):
            tool, remedy = "", "make a row of each label, with columns item, annotator and label"
            if n < len(lists):
                remedy += f", such as by pandas.json_normalize(records, {name!r}, [...]) with the column of items"
            if "completed_by" in record:
                tool, remedy = " of Label Studio", "read the exported file by crowdppl.read_annotations"
            keys = ", ".join(map(str, [*record][:5]))
            raise DataError(f"{origin} is a nested export{tool}: {name!r} holds records of {keys}; {remedy}")


def _selected(frame: pd.DataFrame | pa.Table, names: list[Hashable], origin: str) -> pd.DataFrame:
    """Some columns of a table."""
    return frame[names] if isinstance(frame, pd.DataFrame) else as_pandas(frame.select(names), origin)


def require_table(frame: Any, origin: str) -> pd.DataFrame | pa.Table:
    """A DataFrame as it is, any other table through its Arrow stream; DataError for all else."""
    if isinstance(frame, pd.DataFrame):
        return frame
    import pyarrow as pa  # slow to import

    try:
        if hasattr(type(frame), "__arrow_c_stream__"):
            return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError):
        pass  # a stream of something else than rows
    raise DataError(
        f"{origin} is {kind_of(frame)}, and no table; give a DataFrame of pandas or polars, a table of pyarrow or "
        "duckdb, or read a file by crowdppl.read_annotations"
    )


def as_pandas(frame: pd.DataFrame | pa.Table, origin: str) -> pd.DataFrame:
    """Either as a DataFrame, whose index counts rows if it comes from Arrow; DataError where pandas has no such."""
    if isinstance(frame, pd.DataFrame):
        return frame
    try:
        # Without the metadata of pandas, by which a column may become the index.
        found: pd.DataFrame = frame.to_pandas(ignore_metadata=True)
        return found
    except (ValueError, TypeError, NotImplementedError) as error:
        raise DataError(f"{origin} cannot be read: {error}") from error


def arrow_table(frame: pd.DataFrame) -> pa.Table:
    """A table for Arrow, its index the first columns."""
    levels = [frame.index.get_level_values(n) for n in range(frame.index.nlevels)]
    return _side_by_side(map(_arrow, levels), frame.index.names, frame)


def coded_table(columns: Mapping[str, tuple[pd.Index[Any], np.ndarray]], rest: pd.DataFrame | None) -> pa.Table:
    """Columns as values and codes, and further ones, for Arrow."""
    import pyarrow as pa  # slow to import

    coded = [pa.DictionaryArray.from_arrays(codes, _arrow(ids)) for ids, codes in columns.values()]
    return _side_by_side(coded, columns, pd.DataFrame() if rest is None else rest)


def _side_by_side(arrays: Iterable[Any], names: Iterable[Hashable], rest: pd.DataFrame) -> pa.Table:
    """Arrays, then the columns of a table."""
    import pyarrow as pa  # slow to import

    more = [_arrow(rest.iloc[:, n]) for n in range(rest.shape[1])]
    return pa.Table.from_arrays([*arrays, *more], [str(name) for name in (*names, *rest.columns)])


def _arrow(column: Any) -> Any:
    """A column as an array of Arrow; values that no type of Arrow holds together become text."""
    import pyarrow as pa  # slow to import

    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        return pa.array(column.map(str, na_action="ignore"), from_pandas=True)


def rows_of_dicts(dicts: Mapping[Hashable, Mapping[Hashable, Any]]) -> Rows:
    """Dictionaries {annotator: {item: label}}; DataError when they, or the inner values, are no mappings."""
    inner = dicts.values() if isinstance(dicts, Mapping) else [dicts]
    wrong = next((labels for labels in inner if not isinstance(labels, Mapping)), None)
    if wrong is not None or not isinstance(dicts, Mapping):
        raise DataError(f"labels are {kind_of(wrong)}; give a dictionary {{annotator: {{item: label}}}}")
    triples = [(i, a, label) for a, labels in dicts.items() for i, label in labels.items()]
    return Rows(
        item=[item for item, _, _ in triples],
        annotator=[annotator for _, annotator, _ in triples],
        label=[label for _, _, label in triples],
        place=lambda row: f"annotator {native(triples[row][1])!r}, item {native(triples[row][0])!r}",
        annotators=list(dicts),
    )


def label_roles(
    item: Any, annotator: Hashable | None, label: Hashable | None, gold: Hashable | None, parts: Sequence[str] = ()
) -> Roles:
    """The roles of a table of labels and, where it is given, of gold, which is never recognised: it informs a fit.

    That of annotators is left out where ``annotator`` is None, and ``...`` is recognised.
    Where two columns, of roles ``parts``, name an item together, ``item`` is a pair of columns, or one with the
    ids of both; else DataError.
    """
    if parts and item is not None and not isinstance(item, str) and np.size(item) != 2:
        raise DataError(
            f"item={item!r} must name two columns, of {' and '.join(parts)}: item=({', '.join(map(repr, parts))}), "
            "or one with ids of both"
        )
    one = not parts or isinstance(item, str)
    of_item = {"item": item} if one else dict(zip(parts, item or (None, None), strict=False))
    who = {} if annotator is None else {"annotator": None if annotator is ... else annotator}
    return {**of_item, **who, "label": label, **({} if gold is None else {"gold": gold})}


def recognise(columns: Sequence[Hashable], given: Roles, origin: str) -> dict[str, Hashable]:
    """Finds the column of each role: as given, or, for None, by its name.

    Names are compared without regard to case, spaces, underscores and, of items and annotators, a final "id" or
    "s". The truth in a table of gold has the role "class". A column "item" names both parts of items where no other
    column does. DataError when a column is missing, occurs twice, or several could be meant.
    """
    listed = ", ".join(map(repr, columns)) or "none"
    refuse_twins(columns, origin)
    parts = [role for role in given if role in PARTS_OF_ITEMS]
    if "item" in columns and parts and not any(given[role] or looks_like(columns, role) for role in parts):
        given = {"item": "item"} | {role: column for role, column in given.items() if role not in parts}
    found = {role: column for role, column in given.items() if column is not None}
    for role, column in found.items():
        if column not in columns:
            raise DataError(f"{origin} has no column {column!r} for {role}; its columns are {listed}")
    taken = set(found.values())
    if len(taken) < len(found):
        raise DataError(f"one column is given for several of {', '.join(found)}; each needs one of its own")
    for role in [role for role in given if role not in found]:
        near = looks_like([c for c in columns if c not in taken], role)
        argument = f"{ARGUMENT.get(role, role)}="
        if len(near) > 1:
            names = ", ".join(map(repr, near))
            raise DataError(f"{origin}: the {role} could be any of the columns {names}; say {argument}")
        # Rankings of one list name no problem, and whole ones no objects.
        if not near and role in ("problem", "object"):
            continue
        if not near:
            item = (
                ", wide=True if rows are items and annotators columns, or columns='items' if each item has a column"
                if role == "item"
                else ""
            )
            more = (
                ", wide=True if each has a column, columns='classes' if each class has a column of votes, or "
                "annotator=None for one annotator of all labels"
            )
            raise DataError(
                f"{origin} has no column that looks like {role} (such as {ALIASES[role][0].replace(' ', ', ')}); "
                f"its columns are {listed}; say {argument}{more if role == 'annotator' else item}"
            )
        found[role] = near[0]
    return {role: found[role] for role in given if role in found}


def two_parts(columns: Sequence[Hashable]) -> tuple[str, ...]:
    """The roles of two columns that name an item together, where no other column is named like items."""
    pairs = zip(PARTS_OF_ITEMS[::2], PARTS_OF_ITEMS[1::2], strict=True)
    pair = next((pair for pair in pairs if all(looks_like(columns, part) for part in pair)), ())
    own = {column for part in pair for column in named(columns, ALIASES[part][0], part)}
    return () if looks_like([column for column in columns if column not in own], "item") else pair


def refuse_twins(columns: Sequence[Hashable], origin: str) -> None:
    """Refuses columns of one name, and of names of several levels."""
    again = pd.Series(list(columns), dtype=object).duplicated()
    levels = next((name for name in columns if isinstance(name, tuple)), None)
    if levels is not None:
        raise DataError(
            f"{origin} has columns of several levels, such as {levels!r}; take those of one question, "
            f"table.xs({levels[-1]!r}, axis=1, level=-1), or join the levels, "
            "table.set_axis(table.columns.map(' '.join), axis=1)"
        )
    if again.any() and columns[int(np.argmax(again))] == "":
        raise DataError(
            f"{origin} has columns without a name: if names stand in a later line, or in two with merged cells, "
            "read it by pandas, read_csv(path, header=1), say, or header=[0, 1]; else name all but one"
        )
    if again.any():
        raise DataError(
            f"{origin} has several columns named {columns[int(np.argmax(again))]!r}; rename all but one"
        )


def looks_like(columns: Sequence[Hashable], role: str) -> list[Hashable]:
    """Columns that are named like a role, by the most usual of its names that are there."""
    return next((found for names in ALIASES[role] if (found := named(columns, names, role))), [])


def named(columns: Sequence[Hashable], names: str, role: str) -> list[Hashable]:
    """Columns that bear one of the names, separated by blanks, as a column of the role may be spelled."""

    def spellings(column: Hashable) -> set[str]:
        bare = letters(column)
        if role not in ("item", "annotator", "sequence"):
            return {bare}
        bare = letters(TOLOKA.sub("", str(column)))
        return {bare, bare.removesuffix("s"), bare.removesuffix("ids").removesuffix("id")}

    return [column for column in columns if spellings(column) & {*names.split()}]


def letters(column: Hashable) -> str:
    """The letters and digits of a column's name, in lower case."""
    return re.sub(r"[^a-z0-9]", "", column.lower()) if isinstance(column, str) else ""


def apart_from_roles(columns: Sequence[Hashable], roles: Mapping[str, Hashable]) -> dict[Hashable, Hashable]:
    """New names for columns that bear the name of a role that another one holds: "other_label", say."""
    new: dict[Hashable, Hashable] = {}
    for column in columns:
        if column in roles:
            name = f"other_{column}"
            while name in columns:
                name = f"other_{name}"
            new[column] = name
    return new
