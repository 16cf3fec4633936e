"""Tagged text: columns of tags, a token a line (CoNLL), and character spans, as tables of labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import shown, warn
from crowdppl.data.ids import Place, encode
from crowdppl.data.kinds.classes import parsed
from crowdppl.data.kinds.sequences import POSITION, SEQUENCE, tag_in_any_scheme
from crowdppl.data.tables import looks_like
from crowdppl.errors import CrowdpplWarning, DataError

TOKEN, START, END = "token", "start", "end"
"""Item covariates: the text of an item, and where its characters begin and end in the text of its sequence."""
PLACE = (SEQUENCE, POSITION)
NO_TAG = ("_", "?")
"""What stands in a column of tags where an annotator gave none."""
COMMENT = re.compile(r"# (?:(\S+) = (.*)|new(?:doc|par)\b.*)")
WORD = re.compile(r"\w+|[^\w\s]")
SPAN = ("text", "annotator", START, END, "type")
FILLERS = (*NO_TAG, "-X-")
"""What stands in columns of CoNLL that say nothing of a token."""
DOCUMENT = "-DOCSTART-"
"""What stands for a token where a document begins."""
PHRASES = frozenset(["NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"])
"""Types of chunks, which CoNLL-2000 and CoNLL-2003 give in a column of their own."""


def read_conll(lines: Iterable[str], name: str) -> tuple[pd.DataFrame, list[int]]:
    """Lines of CoNLL columns as a table: sequence, position, token, a column an annotator; and their numbers."""
    header: list[str] | None = None
    rows, numbers, sequence, position, inside = list[list[Any]](), list[int](), None, 0, 0
    for number, text in enumerate(lines, 1):
        line = text.strip()
        found = COMMENT.fullmatch(line)
        fields = line.split("\t") if "\t" in line else line.split()
        if found:
            if found[1] == "sent_id":
                sequence = found[2]
            elif found[1] == "global.columns":
                header = found[2].split("\t") if "\t" in found[2] else found[2].split()
        elif not line or fields[0] == DOCUMENT:
            inside += position > 0
            sequence, position = (None, 0) if position else (sequence, 0)
        else:
            header = header or [TOKEN, *map(str, range(1, len(fields)))]
            if len(fields) != len(header) or len(fields) < 2:
                raise DataError(
                    f"line {number} of {name} has {len(fields)} columns, and {max(len(header), 2)} are wanted: a "
                    "token, and a tag of each annotator, '_' where there is none"
                )
            rows.append([inside + 1 if sequence is None else sequence, position, *fields])
            numbers.append(number)
            position += 1
    if header is None or not rows:
        raise DataError(f"{name} holds no tokens; write one a line, with a tag of each annotator")
    return pd.DataFrame(rows, columns=[*PLACE, TOKEN, *header[1:]]), numbers


def tags_of_columns(
    table: pd.DataFrame, annotators: Sequence[Any] | None, kept: Iterable[Any]
) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """A table of CoNLL columns as a table of labels, the items, and the row of the table of which each label is.

    ``kept`` are marks that are abstentions. Without a list of ``annotators``, columns with other things than most,
    such as parts of speech, are left out with a warning. DataError where that is unclear, unless the file has
    ``named`` its columns.
    """
    columns = _with_tags(table) if annotators is None else [str(name) for name in annotators]
    lost = [name for name in columns if name not in table]
    if lost and len(columns) <= table.shape[1] - 3:  # the last columns
        table = table.set_axis([*table.columns[: -len(columns)], *columns], axis=1)
    elif lost:
        raise DataError(f"there is no column of {lost[0]!r}; there are {shown([*table.columns[3:]])}")
    long = table.melt([*PLACE], columns, "annotator", "label", ignore_index=False)
    long = long[~long["label"].isin({*NO_TAG} - {*kept})]
    items = table[[TOKEN]].set_axis(pd.MultiIndex.from_frame(table[[*PLACE]]))
    return long.reset_index(drop=True), items, long.index.to_numpy()


def _with_tags(table: pd.DataFrame) -> list[Any]:
    """The columns of annotators: those of tags, if there are any, and none of chunks beside other tags."""
    columns, named = [*table.columns[3:]], [*table.columns[3:]] != [*map(str, range(1, table.shape[1] - 2))]
    values = {name: {*table[name]} - {*FILLERS} for name in columns}
    tags = {name: {tag_in_any_scheme(x) for x in own} for name, own in values.items()}
    types = {name: {tag[1] for tag in own if tag} - {""} for name, own in tags.items() if None not in own}
    if any(types.values()):
        chosen = [name for name in columns if name in types and values[name]]
        chunks = [name for name in chosen if types[name] and types[name] <= PHRASES]
        if any(types[name] - PHRASES for name in chosen):
            chosen = [name for name in chosen if name not in chunks]
        values = {name: types[name] for name in chosen}
    else:
        chosen = [name for name in columns if values[name]]
    for name in chosen:
        others = {x for other in chosen if other != name for x in values[other]}
        if not named and values[name] and others and not values[name] & others:
            raise DataError(
                f"the column {name!r} shares no tag, such as {min(values[name])!r}, with others, so not all can be "
                f"annotators' tags of one kind; name the columns of annotators, as in annotators={chosen[-1:]!r}"
            )
    left = [name for name in columns if name not in chosen]
    if left and chosen:
        several = f"columns {', '.join(map(repr, left))} are" if len(left) > 1 else f"column {left[0]!r} is"
        warn(
            f"the {several} read as no annotators', for tags stand in {', '.join(map(repr, chosen))}; if that is "
            "wrong, name the columns of annotators in annotators=",
            CrowdpplWarning,
        )
    return chosen or columns


def holds_spans(cells: pd.Series[Any]) -> bool:
    """Whether a column holds lists of spans: records with a start and an end, or [start, end, type]."""
    lists = [found for cell in cells if (found := _list_of(cell))]
    return bool(lists) and all(_record(x) is not None for found in lists for x in found)


def _list_of(cell: Any) -> list[Any] | None:
    """A list, also one that is written out as JSON; None for anything else."""
    found = parsed(cell) if isinstance(cell, str) else cell
    return [*found] if isinstance(found, list | tuple | np.ndarray) else None


def _record(given: Any) -> list[Any] | None:
    """Start, end, type and, where it is there, text of a span; None for what is none."""
    if isinstance(given, Mapping):
        keys = [*given]
        names = [next(iter(looks_like(keys, role)), None) for role in (START, END, "type", "text")]
        start, end, its_type, text = (given.get(name) for name in names)
        its_type = given.get("labels", its_type)
        if isinstance(its_type, list) and len(its_type) == 1:
            its_type = its_type[0]
        return None if None in names[:2] else [start, end, its_type, text]
    whole = isinstance(given, list | tuple | np.ndarray) and len(given) == 3
    return [*given, None] if whole and isinstance(given[2], str) else None


def spans_of_cells(
    cells: pd.Series[Any], texts: pd.Series[Any], place: Place, answers: pd.Series[Any] | None
) -> tuple[pd.DataFrame, np.ndarray]:
    """Lists of spans as a table of start, end and type, and the row of each; those of skipped tasks are left out.

    A row without any has one of nothing. DataError for what is no list of spans, or not what stands in the text.
    """
    spans, where = list[list[Any]](), list[int]()
    for row, (cell, text) in enumerate(zip(cells, texts, strict=True)):
        if answers is not None and answers[row] == "ignore":
            continue
        if answers is not None and answers[row] == "reject":
            raise DataError(
                f"{place(row)} was rejected, which says that its spans are wrong, and not which are right; leave "
                "such lines out"
            )
        none = cell is None or cell is pd.NA or (isinstance(cell, float) and cell != cell) or str(cell) == ""
        found = [] if none else _list_of(cell)
        own = None if found is None else [_record(x) for x in found]
        if own is None or None in own:
            raise DataError(f"{shown(cell)} at {place(row)} is no list of spans; give start, end and type of each")
        for start, end, its_type, marked in (x for x in own if x is not None):
            if isinstance(marked, str) and isinstance(text, str) and text[start:end] != marked:
                raise DataError(
                    f"{marked!r} is not what stands from {start} to {end} at {place(row)}; count characters from 0"
                )
            spans.append([start, end, its_type])
            where.append(row)
        if not own:
            spans.append([None, None, None])
            where.append(row)
    skipped = 0 if answers is None else int((answers == "ignore").sum())
    if skipped:
        warn(f"{skipped} of {len(cells)} tasks were ignored and are left out, with their spans", CrowdpplWarning)
    if not spans:
        raise DataError(f"no row from {place(0)} on was accepted; give those that were")
    return pd.DataFrame(spans, columns=[*SPAN[2:]], dtype=object), np.array(where)


def spans_of_rows(given: pd.DataFrame) -> pd.DataFrame:
    """Start, end and type of spans, of which blanks are missing, and numbers that are text are numbers."""
    out: pd.DataFrame = given.astype(object)
    out = out.where(given.notna() & (given.map(str) != ""), None)
    for name in (START, END):
        numbers = pd.to_numeric(out[name], errors="coerce").astype(object)
        out[name] = numbers.where(numbers.notna(), out[name])
    return out


def are_spans(table: pd.DataFrame) -> bool:
    """Whether start and end of most rows that have them are places in their text: one that is not is a mistake."""
    fits = [
        all(isinstance(x, int | float) and x % 1 == 0 for x in (start, end))
        and isinstance(text, str)
        and 0 <= start < end <= len(text)
        for text, start, end in zip(table["text"], table[START], table[END], strict=True)
        if start is not None or end is not None
    ]
    return 2 * sum(fits) > len(fits) or not fits


def tags_of_spans(table: pd.DataFrame, place: Place) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """A table of spans as a table of BIO tags, the items, and the row of the table of which each tag is.

    A row is a span that an annotator marked in a text, or none, where start, end and type are missing. Items are
    words and signs of a text, cut where any annotator's span begins or ends. What somebody marked in a text counts
    as one annotation, unless a column "annotation" tells several apart. DataError for what is no id, text or type,
    offsets outside of the text, and spans of one annotation that overlap.
    """
    ids = table["id"] if "id" in table else pd.Series(pd.factorize(table["text"])[0] + 1, table.index)
    for name, column in ((SEQUENCE, ids), ("annotator", table["annotator"])):
        encode(column, name, place)  # refuses what is no id
    number = table["annotation"] if "annotation" in table else [0] * len(table)
    texts, marks = dict[Any, str](), dict[Any, dict[Any, list[tuple[int, int, str, int]]]]()
    for row, (key, of, text, who, *span) in enumerate(
        zip(ids, number, *(table[name] for name in SPAN), strict=True)
    ):
        if not isinstance(text, str) or not WORD.search(text) or texts.setdefault(key, text) != text:
            raise DataError(
                f"the text at {place(row)} is {text!r:.60}; give one that is no blank, the same of one id"
            )
        own = marks.setdefault(key, {}).setdefault((who, of), [])
        own.append((*_span(span, text, place(row)), row))
    rows, where, items = list[tuple[Any, ...]](), list[int](), list[tuple[Any, ...]]()
    for key, by in marks.items():
        words = _words(texts[key], {x for own in by.values() for first, last, *_ in own for x in (first, last)})
        items += [(key, n, texts[key][a:b], a, b) for n, (a, b) in enumerate(words)]
        for (who, _), own in by.items():
            rows += [(key, n, who, tag) for n, tag in enumerate(_tags(words, sorted(own), place))]
            where += [own[0][3]] * len(words)
    frame = pd.DataFrame(items, columns=[*PLACE, TOKEN, START, END])
    known = frame[[TOKEN, START, END]].set_axis(pd.MultiIndex.from_frame(frame[[*PLACE]]))
    labels = pd.DataFrame(rows, columns=[*PLACE, "annotator", "label"])
    return labels, known, np.array(where)


def _span(given: Sequence[Any], text: str, place: str) -> tuple[int, int, str]:
    """Start, end and type of one span; an empty one where all are missing."""
    if all(x is None or x != x for x in given):
        return 0, 0, ""
    start, end, its_type = given
    whole = all(isinstance(x, int | float) and x % 1 == 0 for x in (start, end) if x is not None and x == x)
    if (
        not whole
        or None in (start, end)
        or not 0 <= start < end <= len(text)
        or not text[int(start) : int(end)].strip()
    ):
        raise DataError(
            f"the span from {start!r} to {end!r} at {place} is none of a text of {len(text)} characters; count "
            "from 0, the end not included"
        )
    if not isinstance(its_type, str) or not its_type.strip():
        raise DataError(f"the type of the span at {place} is {its_type!r}; give a text")
    return int(start), int(end), its_type


def _words(text: str, cuts: set[int]) -> list[tuple[int, int]]:
    """Where words and signs begin and end, each cut where a span begins or ends inside."""
    out = list[tuple[int, int]]()
    for word in WORD.finditer(text):
        edges = [word.start(), *sorted(x for x in cuts if word.start() < x < word.end()), word.end()]
        out += pairwise(edges)
    return out


def _tags(words: list[tuple[int, int]], spans: list[tuple[int, int, str, int]], place: Place) -> Iterator[str]:
    """The BIO tag of each word."""
    for one, other in pairwise(spans):
        if other[0] < one[1]:
            raise DataError(
                f"the spans {one[:2]} at {place(one[3])} and {other[:2]} at {place(other[3])} of one annotator "
                "overlap; leave one out"
            )
    before = None
    for start, end in words:
        own = next((span for span in spans if span[0] <= start and end <= span[1]), None)
        yield "O" if own is None else f"{'I' if own is before else 'B'}-{own[2]}"
        before = own
