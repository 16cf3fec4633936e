"""Tagged text: columns of tags, a token a line (CoNLL), and character spans, as tables of labels and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.files import new_file
from crowdppl.core.validation import require_path, shown
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.ids import Place, encode
from crowdppl.data.kinds.sequences import POSITION, SEQUENCE, SEQUENCES, Tags, units_of
from crowdppl.errors import DataError

TOKEN, START, END = "token", "start", "end"
"""Item covariates: the text of an item, and where its characters begin and end in the text of its sequence."""
PLACE = (SEQUENCE, POSITION)
NO_TAG = ("_", "?")
"""What stands in a column of tags where an annotator gave none."""
COMMENT = re.compile(r"# (?:(\S+) = (.*)|new(?:doc|par)\b.*)")
WORD = re.compile(r"\w+|[^\w\s]")
SPAN = ("text", "annotator", START, END, "type")
TASK = ("data", "annotations")
"""Columns of an export of Label Studio: of a task, what is shown, and what each annotator made of it."""


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
        elif not line:
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
    table: pd.DataFrame, place: Place, annotators: Sequence[Any] | None, kept: Iterable[Any]
) -> tuple[pd.DataFrame, pd.DataFrame, Place]:
    """A table of CoNLL columns as a table of labels, and the items; ``kept`` are marks that are abstentions."""
    columns = [*table.columns[3:]] if annotators is None else [str(name) for name in annotators]
    lost = [name for name in columns if name not in table]
    if lost and len(columns) <= table.shape[1] - 3:  # the last columns
        table = table.set_axis([*table.columns[: -len(columns)], *columns], axis=1)
    elif lost:
        raise DataError(f"there is no column of {lost[0]!r}; there are {shown([*table.columns[3:]])}")
    long = table.melt([*PLACE], columns, "annotator", "label", ignore_index=False)
    long = long[~long["label"].isin({*NO_TAG} - {*kept})]
    items = table[[TOKEN]].set_axis(pd.MultiIndex.from_frame(table[[*PLACE]]))
    rows = long.index.to_numpy()
    return long.reset_index(drop=True), items, lambda row: place(int(rows[row]))


def tags_of_spans(table: pd.DataFrame, place: Place) -> tuple[pd.DataFrame, pd.DataFrame, Place]:
    """A table of spans as a table of BIO tags, and the items.

    A row is a span that an annotator marked in a text, or none, where start, end and type are missing. Items are
    words and signs of a text, cut where any annotator's span begins or ends. DataError for what is no id, text or
    type, offsets outside of the text, and spans of one annotator that overlap.
    """
    ids = table["id"] if "id" in table else pd.Series(pd.factorize(table["text"])[0] + 1, table.index)
    for name, column in ((SEQUENCE, ids), ("annotator", table["annotator"])):
        encode(column, name, place)  # refuses what is no id
    texts, marks = dict[Any, str](), dict[Any, dict[Any, list[tuple[int, int, str, int]]]]()
    for row, (key, text, who, *span) in enumerate(zip(ids, *(table[name] for name in SPAN), strict=True)):
        if not isinstance(text, str) or not WORD.search(text) or texts.setdefault(key, text) != text:
            raise DataError(
                f"the text at {place(row)} is {text!r:.60}; give one that is no blank, the same of one id"
            )
        own = marks.setdefault(key, {}).setdefault(who, [])
        own.append((*_span(span, text, place(row)), row))
    rows, where, items = list[tuple[Any, ...]](), list[int](), list[tuple[Any, ...]]()
    for key, by in marks.items():
        words = _words(texts[key], {x for own in by.values() for first, last, *_ in own for x in (first, last)})
        items += [(key, n, texts[key][a:b], a, b) for n, (a, b) in enumerate(words)]
        for who, own in by.items():
            rows += [(key, n, who, tag) for n, tag in enumerate(_tags(words, sorted(own), place))]
            where += [own[0][3]] * len(words)
    frame = pd.DataFrame(items, columns=[*PLACE, TOKEN, START, END])
    known = frame[[TOKEN, START, END]].set_axis(pd.MultiIndex.from_frame(frame[[*PLACE]]))
    labels = pd.DataFrame(rows, columns=[*PLACE, "annotator", "label"])
    return labels, known, lambda row: place(where[row])


def spans_of_tasks(table: pd.DataFrame, place: Place) -> tuple[pd.DataFrame, Place]:
    """Tasks as Label Studio exports them as a table of spans, but for cancelled ones; DataError for other tasks."""
    rows, where = list[tuple[Any, ...]](), list[int]()
    ids = table["id"] if "id" in table else range(1, len(table) + 1)
    for n, (key, shows, made) in enumerate(zip(ids, *(table[name] for name in TASK), strict=True)):
        try:
            (text,) = [shows["text"]] if "text" in shows else [x for x in shows.values() if isinstance(x, str)]
            for one in (x for x in made if not x.get("was_cancelled")):
                who = one["completed_by"]
                who = who.get("email", who.get("id")) if isinstance(who, dict) else who
                marked = [_marked(x, text) for x in one["result"]] or [(None, None, None)]
                rows += [(key, text, who, *span) for span in marked]
                where += [n] * len(marked)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{place(n)} is no task with spans of one text ({type(error).__name__}: {error}); export tasks of "
                "labelled text from Label Studio as JSON, or write a span a line"
            ) from error
    if not rows:
        raise DataError(f"no task from {place(0)} on has an annotation; export those that are labelled")
    return pd.DataFrame(rows, columns=["id", *SPAN], dtype=object), lambda row: place(where[row])


def _marked(result: dict[str, Any], text: str) -> tuple[Any, Any, Any]:
    """Start, end and type of one result of an annotation."""
    if result["type"] != "labels":
        raise ValueError(f"a result is of type {result['type']!r}, and spans are 'labels'")
    value = result["value"]
    (its_type,) = value["labels"]
    start, end = value[START], value[END]
    if value.get("text", text[start:end]) != text[start:end]:
        raise ValueError(f"{value['text']!r} is not what stands from {start} to {end}")
    return start, end, its_type


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


def write_conll(data: Annotations, path: str | Path, labels: pd.Series[Any] | None = None) -> None:
    """Writes sequences as CoNLL columns: a token a line, a tag of each annotator, a blank line between sequences.

    Columns are separated by tabs and named in the first line (CoNLL-U Plus), and each sequence has its ``sent_id``.
    ``read_annotations`` reads such a file.

    Args:
        data: labels of kind "sequence"; the item covariate "token" has the text of items.
        path: the file; it is replaced.
        labels: one tag of each item instead, by item id, such as ``posterior.labels()["label"]``.

    Raises:
        DataError: for another kind, items without a token, two labels of an annotator on one item, labels that
            lack an item, and names or tokens with tabs or ends of lines.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("s.conll").write_text("Ann B-PER B-PER\\nLee I-PER I-PER\\nsang O O\\n")
        >>> data = crowdppl.read_annotations("s.conll", kind="sequence")
        >>> crowdppl.write_conll(data, "again.conll")
        >>> crowdppl.read_annotations("again.conll", kind="sequence").frame().equals(data.frame())
        True
    """
    order, starts, names, tags = _tagged(data, labels)
    known = data.item_covariates
    assert known is not None
    lines = ["# global.columns = " + "\t".join(["FORM", *map(str, names)])]
    sequence, token = (np.asarray(known[name], object)[order] for name in (SEQUENCE, TOKEN))
    for n, first in enumerate(starts):
        lines += [""] * bool(first and n) + [f"# sent_id = {sequence[n]}"] * bool(first)
        lines.append("\t".join([str(token[n]), *(NO_TAG[0] if tag is None else str(tag) for tag in tags[n])]))
    if any(line.count("\t") != len(names) for line in lines if line and not line.startswith("# sent_id")):
        raise DataError("a token or a name holds a tab, which separates columns; rename it")
    if any(len(line.splitlines()) > 1 for line in lines):
        raise DataError("a token or a name holds an end of line, which ends a token; rename it")
    with new_file(require_path(path)) as part:
        part.write_text("\n".join([*lines, ""]), encoding="utf-8")


def write_spans(data: Annotations, path: str | Path, labels: pd.Series[Any] | None = None) -> None:
    """Writes the spans of BIO tags as JSON lines of id, text, annotator, start, end and type.

    An annotator who labelled a sequence and marked nothing has one line of nulls. Texts are the tokens where they
    stood, blanks between them; without the item covariates "start" and "end", one blank. An I-X after no span
    belongs to none. ``read_annotations`` reads such a file.

    Args:
        data, path, labels: as of ``write_conll``.

    Raises:
        DataError: as ``write_conll``, and for classes that are no BIO tags.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("s.conll").write_text("Ann B-PER B-PER\\nLee I-PER I-PER\\nsang O O\\n")
        >>> data = crowdppl.read_annotations("s.conll", kind="sequence", annotators=["eve", "bob"])
        >>> crowdppl.write_spans(data, "s.jsonl")
        >>> print(Path("s.jsonl").read_text().split("\\n")[1])
        {"id": "1", "text": "Ann Lee sang", "annotator": "eve", "start": 0, "end": 7, "type": "PER"}
    """
    order, starts, names, tags = _tagged(data, labels)
    book = Tags.of([*data.classes, "O"])
    known = data.item_covariates
    if book is None or known is None:
        raise DataError(f"the classes {shown([*data.classes])} are no BIO tags, of which spans are made")
    sequence, token = (np.asarray(known[name], object)[order] for name in (SEQUENCE, TOKEN))
    code = {name: k for k, name in enumerate([*data.classes])}
    codes = np.array([[code.get(tag, len(code)) for tag in row] for row in tags]).reshape(tags.shape)
    ends = np.stack([book.ends(column, starts) for column in codes.T], 1)
    lines = list[str]()
    edges = [*np.flatnonzero(starts), len(order)]
    for first, after in pairwise(edges):
        rows = order[first:after]
        places = _places(known.iloc[rows], token[first:after])
        text = ""
        for (start, _), word in zip(places, token[first:after], strict=True):
            text = text.ljust(start) + str(word)
        for a, name in enumerate(names):
            found = [(n, ends[n, a]) for n in range(first, after) if ends[n, a] >= 0]
            said = [(places[n - first][0], places[m - first][1], book.types[codes[n, a]]) for n, m in found]
            if said or any(tag is not None for tag in tags[first:after, a]):
                fixed = {"id": str(sequence[first]), "text": text, "annotator": str(name)}
                lines += [
                    json.dumps(fixed | dict(zip((START, END, "type"), span, strict=True)), ensure_ascii=False)
                    for span in said or [(None, None, None)]
                ]
    with new_file(require_path(path)) as part:
        part.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _places(known: pd.DataFrame, token: np.ndarray) -> list[tuple[int, int]]:
    """Where the tokens of a sequence begin and end, as is known, or with one blank between them."""
    if START in known and END in known:
        return [(int(a), int(b)) for a, b in zip(known[START], known[END], strict=True)]
    ends = np.cumsum([len(str(word)) + 1 for word in token]) - 1
    return [(int(end) - len(str(word)), int(end)) for word, end in zip(token, ends, strict=True)]


def _tagged(
    data: Annotations, labels: pd.Series[Any] | None
) -> tuple[np.ndarray, np.ndarray, list[Any], np.ndarray]:
    """Items in order, which of them are first, names of columns, and their tags (N, columns), None for none."""
    require_annotations(data)
    units = units_of(data.item_covariates) if data.alphabet.kind == SEQUENCES else None
    if units is None or data.item_covariates is None or TOKEN not in data.item_covariates:
        raise DataError(
            f"these labels of kind {data.kind!r} have no item covariate {TOKEN!r}; read them from CoNLL"
        )
    order = np.lexsort(units.T[::-1])
    if labels is not None:
        if (
            not isinstance(labels, pd.Series)
            or not labels.index.is_unique
            or not data.items.isin(labels.index).all()
        ):
            raise DataError(f"labels={shown(labels)} is no series with one tag of each item, by item id")
        column = labels.reindex(data.items).astype(object)
        tags = column.where(column.notna(), None).to_numpy()[order, None]
        return order, units[order, 1] == 1, [labels.name or "label"], tags
    item, annotator, answer = data.label_codes()
    if pd.DataFrame({"item": item, "annotator": annotator}).duplicated().any():
        raise DataError("an annotator labelled an item twice; read the labels with repeats='last'")
    answers = np.array([*data.alphabet.book.ids], object)
    tags = np.full((data.n_items, data.n_annotators), None, object)
    tags[item, annotator] = answers[answer]
    return order, units[order, 1] == 1, [*data.annotators], tags[order]
