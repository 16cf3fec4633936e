"""What a table holds, by its columns and their values: the one place where the shape of a table is recognised."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crowdppl.core.validation import warn
from crowdppl.data.ids import Place, as_numbers, encode, native
from crowdppl.data.kinds.classes import ANSWERS, NOMINAL
from crowdppl.data.kinds.comparisons import PAIR, TIE, side_of
from crowdppl.data.kinds.kind import Kind
from crowdppl.data.kinds.parts import SIDES
from crowdppl.data.kinds.rankings import BETTER, OF_RANKS, RANKINGS
from crowdppl.data.kinds.sequences import POSITION, SEQUENCES, tag_in_any_scheme
from crowdppl.data.kinds.sets import SETS
from crowdppl.data.kinds.similarity import DIFFERENT_SAME, SIMILARITY
from crowdppl.data.soft_labels import with_most_probable
from crowdppl.data.tables import (
    EVERYONE,
    LISTS,
    Roles,
    Rows,
    Table,
    as_pandas,
    label_roles,
    letters,
    looks_like,
    recognise,
    refuse_twins,
    rows_of_frame,
)
from crowdppl.data.tagged import (
    PLACE,
    SPAN,
    are_spans,
    holds_spans,
    spans_of_cells,
    spans_of_rows,
    tags_of_columns,
    tags_of_spans,
)
from crowdppl.data.votes import (
    COUNTED,
    COUNTERS,
    column_of_counts,
    columns_of_classes,
    counted,
    item_of,
    numbers_of,
    refuse_ballots,
    refuse_sums,
    rows_of_classes,
    seems,
)
from crowdppl.data.wide import answerers, rows_of_items, rows_of_wide, who_answered
from crowdppl.errors import CrowdpplWarning, DataError

TIED = frozenset(["tie", "draw", "istie", "isdraw", "tied"])
"""Columns that say whether neither of winner and loser won."""
COUNTED_WINS = COUNTERS | {"vote", "wins", "win", "won"}
"""Words in the names of columns that count votes for a side."""
WINNER = "winner_"
"""How columns begin that say of each side whether it won."""
ORDINAL_NUMBER = re.compile(r"(?<=\d)(st|nd|rd|th)\s*$", re.IGNORECASE)
"""The end of "1st", "2nd" and the like."""
YES, NO = frozenset(["1", "1.0", "true", "yes"]), frozenset(["0", "0.0", "false", "no", "", "nan", "none"])
Reading = tuple[Rows, dict[str, Any]]
"""Rows of labels, and options."""


class Said(NamedTuple):
    """What a user says of a table: the column of each role, ``...`` to recognise that of annotators, whether it is
    wide, and what its columns are: annotators, classes or items."""

    item: Any = None
    annotator: Hashable | None = ...
    label: Hashable | None = None
    gold: Hashable | None = None
    wide: bool = False
    columns: str | None = None


@dataclass(frozen=True)
class Seen:
    """A table, what is said of it, and the kind of labels; None where it is to be recognised."""

    table: Table
    said: Said
    kind: Kind | None
    options: Mapping[str, Any]

    def one(self, role: str, *taken: Hashable | None) -> Hashable | None:
        """The column that is named like a role; None where there is none, or several."""
        found = looks_like([name for name in self.table.names if name not in taken], role)
        return found[0] if len(found) == 1 else None

    def roles(self, known: Mapping[str, Hashable | None]) -> Roles:
        """Roles, with those of annotators and gold as they are said."""
        rest = label_roles(None, self.said.annotator, None, self.said.gold)
        return {**known, **{role: column for role, column in rest.items() if role in ("annotator", "gold")}}

    def rows(self, roles: Roles, kind: Kind) -> Reading:
        """Rows by columns, of a kind that messages name where it was recognised."""
        rows = rows_of_frame(self.table, self.roles(roles))
        if self.kind is None:
            read = ", ".join(str(rows.roles[role]) for role in roles if role in rows.roles)
            rows = replace(rows, recognised=f"columns {read} were read as kind={kind.name!r}")
        return rows, {**self.options, "kind": kind.name} if self.kind is None else {**self.options}


def rows_of_table(table: Table, said: Said, kind: Kind, options: Mapping[str, Any]) -> Reading:
    """Rows of labels of a table, in whatever shape they come, and options with what the shape tells.

    Shapes of a kind are looked for where that is said, and all where neither kind, classes nor ``like`` are.
    DataError where a table may be of several kinds, with what to say.
    """
    refuse_twins(table.names, table.origin)
    table = _accepted(table, said)
    table, label, options = with_most_probable(table, said.label, options)
    said = said._replace(label=label)
    unsaid = all(options.get(name) is None for name in ("kind", "classes", "like"))
    if table.tokens and not (unsaid or kind == SEQUENCES):
        raise DataError(f"{table.origin} has columns of CoNLL, which are labels of sequences; say kind='sequence'")
    seen = Seen(table, said, None if unsaid else kind, options)
    _refuse_counted_rows(seen)
    if (said.wide or said.columns is not None) and not table.tokens:
        return _wide(seen)
    for known, read in SHAPES:
        found = read(seen) if unsaid or kind in known else None
        if found is not None:
            return found
    parts = () if kind.parts is None or not kind.parts.columns else kind.parts.names
    return rows_of_frame(table, label_roles(said.item, said.annotator, said.label, said.gold, parts)), {**options}


def _accepted(table: Table, said: Said) -> Table:
    """A table of choices of Prodigy, in "accept", without the tasks that "answer" says were not done."""
    names = {letters(name): name for name in table.names}
    if not {"accept", "answer"} <= {*names} or said.label not in (None, names["accept"]):
        return table
    answers = table.some([names["answer"]]).iloc[:, 0]
    if not answers.isin(ANSWERS).all():
        return table
    kept = np.flatnonzero(answers == ANSWERS[0])
    if len(kept) < len(answers):
        warn(
            f"{len(answers) - len(kept)} of {len(answers)} tasks were ignored or rejected and are left out",
            CrowdpplWarning,
        )
    frame = as_pandas(table.frame, table.origin).iloc[kept].drop(columns=names["answer"]).reset_index(drop=True)
    return replace(table, frame=frame, place=lambda row: table.place(int(kept[row])))


def _refuse_counted_rows(seen: Seen) -> None:
    """Refuses rows by nobody that each stand for several labels, in a column of whole numbers."""
    if seen.said.annotator is not None or seen.said.wide or seen.said.columns is not None:
        return
    for name in seen.table.names:
        if letters(name) in COUNTERS and name != seen.said.label:
            numbers = numbers_of(seen.table.some([name]))
            if numbers is not None and ((numbers >= 0) & (numbers % 1 == 0)).all() and numbers.max(initial=0) > 1:
                raise DataError(
                    f"the column {name!r} of {seen.table.origin} seems to say how many labels a row stands for; "
                    f"make so many rows, table.loc[table.index.repeat(table[{name!r}])].drop(columns={name!r}), or "
                    "rename the column if it says something else"
                )


def _wide(seen: Seen) -> Reading:
    """A table of which it is said that columns are annotators, classes or items."""
    said, table, kind = seen.said, seen.table, seen.kind
    roles = label_roles(said.item, said.annotator, said.label, said.gold)
    if said.columns == "items":
        return _of_items(seen)
    if said.columns == "classes":
        if kind is not None and kind not in (*COUNTED, SETS):
            raise DataError(
                f"columns='classes' is for labels that are classes, and kind={kind.name!r}; say columns='items' "
                "where each column is an item, or leave out kind="
            )
        told = any(seen.options.get(name) is not None for name in ("kind", "like"))
        return rows_of_classes(table, roles, seen.options, kind if told else None)
    asked = said.columns is None and (kind is None or kind in COUNTED)
    listed = seen.options.get("annotators")
    return rows_of_wide(table.frame, roles, listed, table.place, table.text, asked), {**seen.options}


def _ranked_again(seen: Seen) -> Reading | None:
    """Ranks in a column an object, where rankers or problems have several rows."""
    said, table = seen.said, seen.table
    if seen.kind not in (None, RANKINGS) or any(x is not None for x in (said.item, said.label, said.gold)):
        return None
    who = seen.one("annotator") if said.annotator is ... else said.annotator
    problem = seen.one("problem", who) or seen.one("item", who)
    fixed = [name for name in (problem, who) if name is not None]
    names = [name for name in table.names if name not in fixed]
    if len(names) < 2 or not {*fixed} <= {*table.names} or seems(table.head()[names])[0] != "ranks":
        return None
    if all(table.some([name]).iloc[:, 0].map(str).is_unique for name in fixed):
        return None
    if seems(table.some(names))[0] != "ranks":
        return None
    frame, (one, other) = as_pandas(table.frame, table.origin).reset_index(drop=True), (OF_RANKS[1], "rank")
    long = frame.melt(fixed, names, one, other, ignore_index=False).dropna(subset=[other])
    long = long.sort_index(kind="stable")
    row = long.index.to_numpy()
    own = replace(table, frame=long.reset_index(drop=True), place=lambda n: table.place(int(row[n])))
    return replace(seen, table=own).rows({OF_RANKS[0]: problem, OF_RANKS[1]: one, "label": other}, RANKINGS)


def _of_items(seen: Seen) -> Reading:
    """A table with a row an annotator; of ranks, rankings."""
    again = _ranked_again(seen)
    if again is not None:
        return again
    said, table = seen.said, seen.table
    roles = label_roles(said.item, said.annotator, said.label, said.gold)
    frame, place = _without_questions(table)
    rows = rows_of_items(frame, roles, seen.options.get("items"), place, table.text, table.origin)
    ranks = seen.kind is None and seems(as_pandas(frame, table.origin)[[*rows.items]])[0] == "ranks"
    return rows, {**seen.options, "kind": RANKINGS.name} if ranks else {**seen.options}


def _without_questions(table: Table) -> tuple[Any, Place]:
    """Answers to questions of a Qualtrics export, without texts and ids of questions; other tables as they are."""
    frame = table.frame
    if len(table.names) > 1 and len(frame) > 2:
        second = as_pandas(frame[1:2] if isinstance(frame, pd.DataFrame) else frame.slice(1, 1), table.origin)
        ids = {name: str(cell) for name, cell in second.iloc[0].items() if str(cell).startswith('{"ImportId"')}
        if len(ids) == len(table.names):
            names = [name for name, cell in ids.items() if '"QID' in cell or "recordId" in cell]
            return table.some(names)[2:].reset_index(drop=True), lambda row: table.place(row + 2)
        head = as_pandas(frame[:1] if isinstance(frame, pd.DataFrame) else frame.slice(0, 1), table.origin)
        first: dict[Hashable, Any] = head.iloc[0].to_dict()
        if any(letters(first[name]) == letters(name) for name in answerers(table.names)):  # "Response ID"
            return table.some(table.names)[1:].reset_index(drop=True), lambda row: table.place(row + 1)
    return frame, table.place


def _answered(seen: Seen) -> Reading | None:
    """A row an annotator, who is named, and a column an item; or a row a ranker."""
    said, table = seen.said, seen.table
    if (
        said.item is not None
        or said.label is not None
        or said.annotator not in (..., None)
        or said.gold is not None
    ):
        return None
    again = _ranked_again(seen)
    if again is not None:
        return again
    if looks_like(table.names, "item") or looks_like(table.names, "label"):
        return None
    frame = as_pandas(_without_questions(table)[0], table.origin)
    ranks = seen.kind in (None, RANKINGS) and seems(frame)[0] == "ranks"
    who = who_answered(frame) if said.annotator is ... and frame.shape[1] > 2 else None
    if who is not None and not who[1] and who[0] in frame:
        refuse_ballots(frame.drop(columns=[who[0]]), table.origin, who[0])
    return _of_items(seen) if ranks or (who is not None and who[1]) else None


def _voted(seen: Seen) -> Reading | None:
    """Counts of votes, in a column a class or in records."""
    said, table = seen.said, seen.table
    if said.annotator not in (..., None) or (said.annotator is ... and looks_like(table.names, "annotator")):
        return None
    head = table.head()
    roles = label_roles(said.item, said.annotator, said.label, said.gold)
    taken = [item_of(head, said.item, table.origin), said.gold]
    free = [name for name in head if name not in taken]
    if said.label in head or (said.label is None and column_of_counts(head[free]) is not None):
        records = said.label is None or counted(head[said.label]) is not None
        return rows_of_classes(table, roles, seen.options, seen.kind or NOMINAL) if records else None
    if said.label is not None or looks_like(free, "label"):
        return None
    names = columns_of_classes(head, [name for name in taken if name is not None])
    what, counts = seems(table.some(names)) if len(names) > 1 else ("", [])
    if what == "votes" and counts == names:
        return rows_of_classes(table, roles, seen.options, seen.kind or NOMINAL)
    if what:
        refuse_sums(table.some(names), table.origin, taken[0])
    return None


def _marked_classes(seen: Seen) -> Reading | None:
    """A row a label, with a column of 0 and 1 for each class."""
    said, table = seen.said, seen.table
    if said.label is not None or looks_like(table.names, "label") or not looks_like(table.names, "annotator"):
        return None
    head = table.head()
    roles = label_roles(said.item, said.annotator, None, said.gold)
    item, who = (
        item_of(head, said.item, table.origin),
        seen.one("annotator") if said.annotator is ... else said.annotator,
    )
    if item is None or who is None:
        return None
    names = columns_of_classes(head, [name for name in (item, who, said.gold) if name is not None], marks=True)
    numbers = numbers_of(table.some(names)) if len(names) > 1 else None
    if numbers is None or not np.isin(numbers, (0, 1)).all():
        return None
    if seen.kind is None and not ((numbers.sum(1) == 1).all() and len(numbers) > 2):
        listed = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
        raise DataError(
            f"{table.origin} has no column that looks like label, and columns {listed} hold 0 and 1; say "
            "columns='classes' if they are classes, of which a label may hold several (and which, in classes=)"
        )
    return rows_of_classes(table, roles, seen.options, seen.kind)


def _pair_of(item: Any) -> tuple[Hashable, ...]:
    """The two columns that ``item`` names; none where it names another number."""
    return () if item is None or isinstance(item, str) or np.size(item) != 2 else tuple(item)


def _winners(seen: Seen) -> Reading | None:
    """A winner and a loser a row. Which stood left is unknown: the one whose name comes first is put there."""
    given, label = _pair_of(seen.said.item), seen.said.label
    if label is not None and label in given:
        won, lost = label, given[label == given[0]]
    elif seen.said.item is None and label is None and _sides(seen) == ():
        won, lost = seen.one("winner"), seen.one("loser")
    else:
        return None
    if won is None or lost is None:
        return None
    rows, options = seen.rows(dict(zip(SIDES, (won, lost), strict=True)), PAIR)
    objects = rows.item.reset_index(drop=True)
    left, right = (objects[side] for side in SIDES)
    swapped = left.map(str) > right.map(str)
    item = pd.DataFrame({SIDES[0]: left.mask(swapped, right), SIDES[1]: right.mask(swapped, left)})
    tie = next((name for name in seen.table.names if letters(name) in TIED), None)
    named = {"winner": str(won), "loser": str(lost)} | ({} if tie is None else {TIE: str(tie)})
    return replace(
        rows,
        item=item,
        label=np.where(_is_tied(seen, tie), TIE, np.where(swapped, SIDES[1], SIDES[0])),
        gold=None if rows.gold is None else rows.gold.set_axis(pd.MultiIndex.from_frame(item)),
        roles=named | {role: column for role, column in rows.roles.items() if role not in SIDES},
    ), options


def _is_tied(seen: Seen, tie: Hashable | None) -> np.ndarray:
    """Which rows say, in a column of yes and no, that neither won."""
    if tie is None:
        return np.zeros(len(seen.table.frame), bool)
    texts = seen.table.some([tie]).iloc[:, 0].map(lambda x: str(x).strip().lower())
    wrong = ~texts.isin(YES | NO).to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"the {TIE} {texts[row]!r} at {seen.table.place(row)} is neither yes nor no; write 1 where neither "
            f"won, and 0 elsewhere, or rename the column {tie!r}"
        )
    return np.asarray(texts.isin(YES))


def _sides(seen: Seen) -> tuple[Hashable, ...]:
    """The columns of two things that are compared; none where there are no two."""
    if seen.said.item is not None:
        return _pair_of(seen.said.item)
    sides = [seen.one(side, seen.said.label) for side in SIDES]
    return () if None in sides else tuple(sides)


def _compared(seen: Seen) -> Reading | None:
    """Two things a row, and a label that names one of them or says whether they are the same."""
    sides = _sides(seen)
    _refuse_winner_columns(seen, sides)
    label = seen.said.label or seen.one("winner", *sides) or seen.one("label", *sides)
    if sides and label is None:
        _refuse_votes_of_sides(seen, sides)
    if not sides or label is None:
        return None
    roles = {**dict(zip(SIDES, sides, strict=True)), "label": label}
    if seen.kind is not None:
        return seen.rows(roles, seen.kind)
    texts = seen.table.some([*sides, label]).map(str)
    named = {side: str(column) for side, column in zip(SIDES, sides, strict=True)}
    known = {text: side_of(text, named) is not None for text in texts[label].unique()}
    known |= dict.fromkeys(map(str, seen.options.get("abstentions", ())), True)
    fits = texts[label].map(known) | (texts[label] == texts[sides[0]]) | (texts[label] == texts[sides[1]])
    if fits.all():
        return seen.rows(roles, PAIR)
    if {text.strip().lower() for text in known} in map(set, DIFFERENT_SAME[:2]):
        return seen.rows(roles, SIMILARITY)
    item = seen.one("item", *sides, label)
    if item is not None and not {*texts[sides[0]]} & {*texts[sides[1]]}:
        return None  # they hold different things, such as edges of a box
    row = int(np.argmin(fits))
    classes = ", or kind='nominal' if they are classes" if item is not None else ""
    raise DataError(
        f"{seen.table.origin} has columns {sides[0]!r} and {sides[1]!r}, as of two things that are compared, and "
        f"the label {texts[label][row]!r} at {seen.table.place(row)} names neither: say kind='pair' if labels say "
        f"which is better, kind='similarity' if they say whether both are the same{classes}"
    )


def _refuse_winner_columns(seen: Seen, sides: tuple[Hashable, ...]) -> None:
    """Refuses a column for each winner, such as "winner_model_a" and "winner_tie"."""
    names = [name for name in seen.table.names if isinstance(name, str) and name.lower().startswith(WINNER)]
    if sides and len(names) > 1 and seen.said.label is None:
        raise DataError(
            f"{seen.table.origin} has a column for each winner; make one of them, table['winner'] = "
            f"table[{names}].idxmax(axis=1).str[{len(WINNER)}:], drop them, table.drop(columns={names}), and say "
            "kind='pair'"
        )


def _refuse_votes_of_sides(seen: Seen, sides: tuple[Hashable, ...]) -> None:
    """Refuses a column of votes for each side, such as "votes_left" and "votes_right"."""
    words = [{*re.findall(r"[a-z]+|\d+", str(name).lower())} for name in (*sides, *seen.table.names)]
    of_side = [{side} | own for side, own in zip(SIDES, words, strict=False)]
    alone = [own - other for own, other in zip(of_side, of_side[::-1], strict=True)]
    found = [
        name
        for own in alone
        for name, said in zip(seen.table.names, words[2:], strict=True)
        if name not in sides and said & own and said & COUNTED_WINS and _counts(seen.table, name)
    ]
    if len(found) == 2:
        raise DataError(
            f"{seen.table.origin} has counts of votes for each side; make a row of each vote, pandas.concat("
            "[table.loc[table.index.repeat(table[name])].assign(winner=side) for name, side in "
            f"{dict(zip(found, SIDES, strict=True))}.items()]).drop(columns={found}), and say annotator=None if "
            "nobody is named"
        )


def _ranks(seen: Seen) -> Reading | None:
    """The rank of an object a row, or a whole ranking, in a column that is called so."""
    label = seen.said.label or seen.one("label")
    if seen.kind is not None or seen.said.item is not None or letters(label) not in ("rank", "ranking"):
        return None
    given = seen.table.some([label]).iloc[:, 0]
    problem = seen.one("problem")
    roles: dict[str, Hashable | None] = {OF_RANKS[0]: problem, "label": label}
    if given.map(lambda x: isinstance(x, LISTS) or BETTER in str(x)).all():
        roles = {**dict.fromkeys(OF_RANKS), **roles} if problem is None else roles
        return seen.rows(roles, RANKINGS)
    thing = seen.one("object") or seen.one("item", problem)
    who = seen.one("annotator") if seen.said.annotator is ... else seen.said.annotator
    by = seen.table.some([name for name in (problem, who) if name is not None])
    if thing is None or not _are_rankings(given, by, seen.table.some([thing]).iloc[:, 0]):
        return None
    return seen.rows({OF_RANKS[0]: problem, OF_RANKS[1]: thing, "label": label}, RANKINGS)


def _are_rankings(labels: pd.Series[Any], by: pd.DataFrame, things: pd.Series[Any]) -> bool:
    """Whether numbers are ranks of different objects, few of them tied, in each group of rows: also from 0, means
    of tied ranks, or "1st", of which the kind says what it asks for.
    """
    ranks = pd.Series(as_numbers(labels.map(lambda x: ORDINAL_NUMBER.sub("", x) if isinstance(x, str) else x)))
    group = pd.Series([*map(str, by.itertuples(index=False))] if by.shape[1] else "", index=ranks.index)
    own = ranks.groupby(group)
    ways = [own.rank(how) for how in ("dense", "min", "average")]  # 1, 2, 2, 3 or 1, 2, 2, 4 or 1, 2.5, 2.5, 4
    in_order = any((way - first == ranks).all() for way in ways for first in (0, 1))
    once = not pd.DataFrame({"group": group, "thing": things.map(str)}).duplicated().any()
    return bool(in_order and once and (own.size() > 1).all() and (2 * own.nunique() > own.size()).all())


def _marked(seen: Seen) -> Reading | None:
    """Spans of characters of a text: one a row, or lists of them in a column."""
    text = seen.one("text")
    if text is None:
        return None
    head = seen.table.head()
    cells = next((name for name in head if name != text and holds_spans(head[name])), None)
    answer = next((name for name in head if letters(name) == "answer"), None)
    columns = [seen.one("start"), seen.one("end"), seen.said.label or seen.one("type", text)]
    key = seen.said.item or seen.one("item", text, cells)
    if cells is not None:
        beside = seen.kind is None and looks_like([x for x in head if x not in (text, cells, answer)], "label")
        if beside or seen.said.label not in (None, cells):
            return None  # labels are beside the spans
        answers = None if answer is None else seen.table.some([answer]).iloc[:, 0]
        done = answers if answers is not None and answers.isin(ANSWERS).all() else None
        given, texts = (seen.table.some([name]).iloc[:, 0] for name in (cells, text))
        spans, row = spans_of_cells(given, texts, seen.table.place, done)
    elif None in columns:
        return None
    else:
        spans = spans_of_rows(seen.table.some(columns).set_axis([*SPAN[2:]], axis=1))
        row = np.arange(len(spans))
        if (
            seen.said.item is None
            and key is not None
            and seen.table.some([key]).iloc[:, 0].map(str).is_unique
            and len(row) > 1
        ):
            key = None  # it counts spans
    frame = spans.assign(text=seen.table.some([text]).iloc[row, 0].to_numpy())
    if seen.kind is None and cells is None and not are_spans(frame):
        return None
    if key is not None:
        frame["id"] = seen.table.some([key]).iloc[row, 0].to_numpy()
        encode(frame["id"], "sequence", lambda n: seen.table.place(int(row[n])))  # refuses what is no id
        alike = (frame.groupby("id")[["start", "end"]].nunique() < 2).all(axis=None)
        if seen.kind is None and cells is None and alike:
            raise DataError(
                f"{seen.table.origin} has one span for each {key!r}: say kind='sequence' if annotators marked it, "
                "or kind='nominal' if it was given and labels are its classes"
            )
    if seen.said.gold is not None:
        raise DataError(
            f"gold_column={seen.said.gold!r}: spans have no truth a row; give gold= by sequence and position"
        )
    read = {"text": str(text), "spans": str(cells) if cells is not None else ", ".join(map(str, columns))}
    frame["annotator"] = EVERYONE
    if seen.said.annotator is not None:
        wanted = {"annotator": None if seen.said.annotator is ... else seen.said.annotator}
        who = recognise(seen.table.names, wanted, seen.table.origin)["annotator"]
        frame["annotator"], read["annotator"] = seen.table.some([who]).iloc[row, 0].to_numpy(), str(who)
    labels, items, own = tags_of_spans(frame, lambda n: seen.table.place(int(row[n])))
    return _of_tokens(seen, labels, items, row[own], read)


def _tagged(seen: Seen) -> Reading | None:
    """A token of a sequence a row, with a tag of a span."""
    label = seen.said.label or seen.one("label")
    sequence = seen.one("sequence", label)
    if None in (label, sequence) or seen.said.item is not None:
        return None
    if seen.kind is None:
        if None in map(tag_in_any_scheme, seen.table.head()[label]):
            return None  # a long table is seldom looked through
        tags = [tag_in_any_scheme(x) for x in seen.table.some([label]).iloc[:, 0].map(str).unique()]
        if None in tags or not any(tag and tag[1] for tag in tags):
            return None
    token = seen.one("token", sequence)
    position = seen.one("position", label, None if _counts(seen.table, token) else token)
    if position is None:
        found = _in_order(seen, sequence)
        if found is None:
            return None
        seen, position = found
    return seen.rows({**dict(zip(PLACE, (sequence, position), strict=True)), "label": label}, SEQUENCES)


def _counts(table: Table, name: Hashable | None) -> bool:
    """Whether there is a column, of whole numbers."""
    numbers = None if name is None else numbers_of(table.some([name]))
    return numbers is not None and bool((numbers % 1 == 0).all())


def _in_order(seen: Seen, sequence: Hashable | None) -> tuple[Seen, Hashable] | None:
    """A table of tokens without their positions, with those by the order of rows, and the column of them.

    None where each row is a sequence of its own. DataError where annotators of a sequence have other tokens, or
    in another order.
    """
    who = None
    if seen.said.annotator is not None:
        wanted = {"annotator": None if seen.said.annotator is ... else seen.said.annotator}
        who = recognise(seen.table.names, wanted, seen.table.origin)["annotator"]
    frame, token = (
        as_pandas(seen.table.frame, seen.table.origin).reset_index(drop=True),
        seen.one("token", sequence),
    )
    by = [name for name in (sequence, who) if name is not None]
    place = frame.groupby(by, dropna=False).cumcount()
    if not place.any():
        return None
    if token is not None:
        texts = frame[token].map(str)
        wrong = (texts != texts.groupby([frame[sequence], place], dropna=False).transform("first")).to_numpy()
    else:
        length = place.groupby([frame[name] for name in by], dropna=False).transform("size")
        wrong = (length != length.groupby(frame[sequence], dropna=False).transform("first")).to_numpy()
    if wrong.any():
        at = int(wrong.argmax())
        what = f"{native(frame[token][at])!r} stands" if token is not None else "there are more or fewer rows"
        raise DataError(
            f"{seen.table.origin} has no positions of tokens, and annotators' rows of {sequence!r} "
            f"{native(frame[sequence][at])!r} differ: {what} at {seen.table.place(at)}; give a column 'position', "
            "the same of one token for all"
        )
    column = POSITION
    while column in frame:
        column = f"other_{column}"
    return replace(seen, table=replace(seen.table, frame=frame.assign(**{column: place}))), column


def _of_columns(seen: Seen) -> Reading | None:
    """Tokens of CoNLL, with tags in further columns."""
    if not seen.table.tokens:
        return None
    annotators, kept = seen.options.get("annotators"), seen.options.get("abstentions", ())
    labels, items, row = tags_of_columns(seen.table.frame, annotators, kept)
    return _of_tokens(seen, labels, items, row, {"annotator": ", ".join(map(str, labels["annotator"].unique()))})


def _of_tokens(
    seen: Seen, labels: pd.DataFrame, items: pd.DataFrame, row: np.ndarray, read: Mapping[str, str]
) -> Reading:
    """Rows of tags, of which each comes from a row of the table, and options with their tokens."""
    table = replace(seen.table, frame=labels, place=lambda n: seen.table.place(int(row[n])))
    rows = rows_of_frame(table, {name: name for name in (*PLACE, "annotator", "label")})
    more: dict[str, Any] = {"items": items.index, "item_covariates": items, **seen.options}
    if seen.kind is None:
        more["kind"] = SEQUENCES.name
    return replace(rows, roles=read, pooled=seen.said.annotator is None), more


SHAPES: tuple[tuple[tuple[Kind, ...], Callable[[Seen], Reading | None]], ...] = (
    ((PAIR,), _winners),
    ((PAIR,), _compared),
    ((RANKINGS,), _ranks),
    ((SEQUENCES,), _of_columns),
    ((SEQUENCES,), _marked),
    ((SEQUENCES,), _tagged),
    ((*COUNTED, RANKINGS), _answered),
    (COUNTED, _voted),
    ((*COUNTED, SETS), _marked_classes),
)
"""Shapes of tables beyond a column each of items, annotators and labels: the kinds, and what reads it, or None."""
