"""Tasks of Label Studio, as its JSON export has them, as rows of labels."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import Any, NamedTuple

import pandas as pd

from crowdppl.core.validation import listed, shown, warn
from crowdppl.data.ids import Place, native
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.classes import Classes, parsed
from crowdppl.data.kinds.comparisons import PAIR
from crowdppl.data.kinds.kind import Kind
from crowdppl.data.kinds.parts import SIDES
from crowdppl.data.kinds.rankings import RANKINGS
from crowdppl.data.kinds.sequences import POSITION, SEQUENCE, SEQUENCES
from crowdppl.data.kinds.sets import SETS
from crowdppl.data.kinds.similarity import SIMILARITY
from crowdppl.data.options import AnnotationOptions
from crowdppl.data.tables import Rows, looks_like
from crowdppl.data.tagged import END, SPAN, START, tags_of_spans
from crowdppl.errors import CrowdpplWarning, DataError

SHOWS, MADE = "data", "annotations"
TASK = (SHOWS, MADE)
"""Columns of an export: of a task, what it shows, and what each annotator made of it."""
FLAT = ("id", "annotator", "annotation_id")
"""Columns of an export as CSV or JSON-MIN, of an annotation a row."""
MORE = ("created_at", "updated_at", "lead_time")
"""What an annotation says of itself, which travels with its labels."""
WRITTEN = re.compile(r"\s|\\[nrt]")
"""Blanks, which the text of a span may spell otherwise than the text of its task."""
ONE_OF_TWO = re.compile(r"[\W_]*(1|2|a|b|left|right|first|second)$", re.IGNORECASE)
"""The end of the names of two fields that are compared, such as "answer_a" and "answer_b"."""
ANEW = "export the tasks from Label Studio as JSON"
REGIONS = " of regions"
WORDS: Mapping[Any, str] = {dict: "an object", list: "a list", str: "text"}


class Control(NamedTuple):
    """A control of Label Studio: the key of its values, the kinds of label that they may be, the usual first, and
    how a value is read: as None where it says nothing, ValueError where it is none.
    """

    key: str
    kinds: tuple[str, ...]
    read: Callable[[Any], Any]


def _names(value: Any) -> list[str] | None:
    """Classes that are chosen; one in a tree is "animal/dog"."""
    if not isinstance(value, list):
        raise ValueError
    return ["/".join(map(_text, x)) if isinstance(x, list) else _text(x) for x in value] or None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise ValueError
    return value


def _ranking(value: Any) -> list[Any] | None:
    """Objects, the best first; those that stay in their list are under "_"."""
    lists = [ids for name, ids in value.items() if name != "_"] if isinstance(value, dict) else []
    if len(lists) != 1 or not isinstance(lists[0], list):
        raise ValueError
    return lists[0] or None


REAL = ("real", "count", "angle")
CONTROLS: Mapping[str, Control] = {
    "choices": Control("choices", ("nominal", SETS.name, "ordinal", PAIR.name, SIMILARITY.name, *REAL), _names),
    "taxonomy": Control("taxonomy", ("nominal", SETS.name, "ordinal"), _names),
    "rating": Control("rating", ("ordinal", "nominal", *REAL), _number),
    "number": Control("number", (*REAL, "ordinal", "nominal"), _number),
    "pairwise": Control("selected", (PAIR.name, "nominal"), _text),
    "ranker": Control("ranker", (RANKINGS.name,), _ranking),
    "labels": Control("labels", (SEQUENCES.name,), _names),
}
"""By the type of results; those of other types, such as free text and boxes, are no labels."""


@dataclass(frozen=True)
class Made:
    """An annotation or a prediction.

    Attributes:
        task: the row of its task.
        where: such as "the annotation of 'ann' at entry 2 of tasks.json".
        who: the id of the annotator, or the version of the model.
        results: those of each question.
        gold: whether it is marked as ground truth.
        more: what it says of itself.
    """

    task: int
    where: str
    who: Any
    results: Mapping[str, Sequence[Mapping[str, Any]]]
    gold: bool
    more: Mapping[str, Any]


class Tasks(NamedTuple):
    """Tasks, where each stands, and what was made of them."""

    ids: Sequence[Any]
    shows: Sequence[Mapping[str, Any]]
    place: Place
    made: Sequence[Made]


def rows_of_tasks(
    table: pd.DataFrame,
    place: Place,
    options: AnnotationOptions,
    item: Any = None,
    question: str | None = None,
    predictions: bool = False,
) -> tuple[Rows, AnnotationOptions]:
    """Tasks as rows of labels, and options that say their kind and what is known.

    Annotations that were skipped are left out, those marked as ground truth are gold, and ``predictions`` are
    annotations by models. Items are tasks, or what the field ``item`` of their data says; of comparisons two
    fields, of spans the text. DataError for what is no task, and where it is not clear which ``question`` is meant,
    or which field.
    """
    tasks = _read(table, place, predictions, named=item is not None)
    like = options.get("like")
    kind = options.get("kind") if like is None else like.kind
    name, its_type = _question(tasks, question, kind)
    if CONTROLS[its_type].read is _names and its_type != "labels":
        several = any(len(x) > 1 for one in tasks.made if (x := _answer(one, name, its_type)))
        kind = kind or CONTROLS[its_type].kinds[several]
    kind = kind or CONTROLS[its_type].kinds[0]
    if kind == SEQUENCES.name:
        rows, gold, known = _spans(tasks, name, item)
    else:
        rows, gold = _answers(tasks, name, its_type, kind, item, {*options.get("abstentions", ())})
        known = {"items": [*gold]} if gold else {}
    changed: Any = known | {**options} | {"kind": None if like is not None else kind}
    if gold and options.get("gold") is not None:
        warn("gold= is given, so annotations that are marked as ground truth are left out", CrowdpplWarning)
    elif gold:
        changed["gold"] = gold
        if like is None and options.get("classes") is None:
            changed["classes"] = _classes(KINDS[kind], rows.label, gold.values(), [*options.get("abstentions", ())])
    return rows, changed


def _classes(kind: Kind, labels: Any, truths: Iterable[Any], away: Sequence[Any]) -> pd.Index[Any] | None:
    """The classes of labels and truths, where these name others; None for those of labels."""

    def of(answers: Iterable[Any]) -> set[Any]:
        return {name for x in answers for name in (x if isinstance(x, list) else [x])} - {*away}

    said, true = of(labels), of(truths)
    if true <= said or not isinstance(kind, Classes) or (kind.parts is not None and kind.parts.shared):
        return None
    return kind.in_order(pd.Index([*(said | true)]))


def tasks_of_rows(frame: pd.DataFrame, named: Any, kind: str | None) -> pd.DataFrame | None:
    """An export as CSV or JSON-MIN, an annotation a row, as tasks with the spans of one column; None without.

    The column is the one that is ``named``, or the only one of spans, if nothing else looks like labels.
    """
    marked = {name: cells for name in frame.columns if (cells := _span_lists(frame[name])) is not None}
    others = {*looks_like([*frame.columns], "label")} - {*marked}
    if named is not None:
        marked = {name: cells for name, cells in marked.items() if name == named}
    if len(marked) != 1 or (named is None and kind is None and others):
        return None
    ((column, cells),) = marked.items()
    once = frame.astype(str).groupby("id").nunique() <= 1
    shows = [
        name
        for name in frame.columns
        if name not in (*FLAT, *MORE, column)
        and once[name].all()
        and frame[name].map(lambda x: isinstance(x, str)).all()
    ]
    made = [
        {"completed_by": who, **more, "result": [{"type": "labels", "from_name": column, "value": x} for x in own]}
        for who, own, more in zip(
            frame["annotator"].map(native),
            cells,
            frame[[x for x in MORE if x in frame]].to_dict("records"),
            strict=True,
        )
    ]
    tasks = {"id": [*map(native, frame["id"])], SHOWS: frame[shows].to_dict("records"), MADE: [[x] for x in made]}
    return pd.DataFrame(tasks)


def _span_lists(column: pd.Series[Any]) -> list[list[Any]] | None:
    """The spans in each cell of a column, lists of records or such lists as JSON; None where it holds others."""
    found = [parsed(x) if isinstance(x, str) else x for x in column]
    lists = [x if isinstance(x, list) else [] for x in found]
    wrong = any(
        not isinstance(x, list) and cell not in ("", None) and cell == cell
        for x, cell in zip(found, column, strict=True)
    )
    records = [x for own in lists for x in own]
    is_span = records and all(isinstance(x, dict) and {START, END, "labels"} <= x.keys() for x in records)
    return lists if is_span and not wrong else None


def _read(table: pd.DataFrame, place: Place, predictions: bool, named: bool) -> Tasks:
    """Tasks and what was made of them; DataError for what is none, and two of one id unless fields name items."""
    ids = [*table["id"]] if "id" in table else [*range(1, len(table) + 1)]
    made, first, none = list[Made](), dict[Any, int](), 0
    given = [*table[MADE]]
    models = [*table["predictions"]] if "predictions" in table else [[]] * len(ids)
    shows = [_part(x, SHOWS, dict, place(n)) for n, x in enumerate(table[SHOWS])]
    for n, key in enumerate(ids):
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise DataError(f"the id of the task at {place(n)} is {shown(key)}; give text or a whole number")
        if not named and shows[first.setdefault(key, n)] != shows[n]:
            raise DataError(
                f"the task {key!r} at {place(n)} shows something else than at {place(first[key])}; give tasks that "
                "differ an id each, or say item= for a field of their data that names them"
            )
        own = [*_made(n, given[n], place)]
        if predictions:
            own += _made(n, models[n], place, of_model=True)
        made += own
        none += not own
    if not made:
        raise DataError(f"no task from {place(0)} on has an annotation that counts; export those that are labelled")
    if none:
        warn(f"{none} of {len(ids)} tasks have no annotation that counts and are left out", CrowdpplWarning)
    if predictions:  # versions of models are text
        made = [Made(x.task, x.where, str(x.who), x.results, x.gold, x.more) for x in made]
    return Tasks(ids, shows, place, made)


def _part(value: Any, name: str, wanted: type, where: str) -> Any:
    """A part of an export of the type that it has there; DataError for another."""
    if not isinstance(value, wanted):
        raise DataError(
            f"{name!r} at {where} is {shown(value)}, and {WORDS[wanted]} in exports of Label Studio; {ANEW}"
        )
    return value


def _made(task: int, given: Any, place: Place, of_model: bool = False) -> Iterator[Made]:
    """What was made of one task, but for what was skipped."""
    for record in _part(given, "predictions" if of_model else MADE, list, place(task)):
        if of_model and isinstance(record, int):
            raise DataError(
                f"predictions at {place(task)} are numbers alone, such as {record}; export a snapshot that "
                "includes predictions"
            )
        _part(record, "predictions" if of_model else MADE, dict, place(task))
        if record.get("was_cancelled"):
            continue
        who = (record.get("model_version") or "prediction") if of_model else record.get("completed_by")
        who = (who.get("email") or who.get("id")) if isinstance(who, dict) else who
        if isinstance(who, bool) or not isinstance(who, str | int):
            raise DataError(
                f"'completed_by' of an annotation at {place(task)} is {shown(who)}, and names nobody; {ANEW}"
            )
        where = f"the {'prediction' if of_model else 'annotation'} of {who!r} at {place(task)}"
        results = dict[str, list[Mapping[str, Any]]]()
        for result in _part(record.get("result"), "result", list, where):
            _part(result, "result", dict, where)
            its_type = _part(result.get("type"), "type", str, where)
            if its_type != "relation":  # it joins two regions, and has no value
                _part(result.get("value"), "value", dict, where)
                results.setdefault(str(result.get("from_name", its_type)), []).append(result)
        more = {name: record[name] for name in MORE if name in record}
        yield Made(task, where, who, results, not of_model and bool(record.get("ground_truth")), more)


def _type(result: Mapping[str, Any]) -> str:
    """The type of a result, of an answer about a part of what a task shows another one."""
    name: str = result["type"]
    control = CONTROLS.get(name)
    beyond = control is not None and name != "labels" and result["value"].keys() - {control.key}
    return f"{name}{REGIONS}" if beyond else name


def _question(tasks: Tasks, wanted: Any, kind: str | None) -> tuple[str, str]:
    """The question that is read and the type of its results; DataError where several could be meant, or none."""
    types, first = dict[str, str](), dict[str, Made]()
    for one in tasks.made:
        for name, results in one.results.items():
            first.setdefault(name, one)
            for its_type in map(_type, results):
                if types.setdefault(name, its_type) != its_type:
                    raise DataError(
                        f"{first[name].where} answers {name!r} by {types[name]}, and {one.where} by {its_type}; "
                        "say question= for another one, or leave one of these out"
                    )
    if not types and kind == SEQUENCES.name:  # nobody marked anything
        return "labels", "labels"
    if not types:
        raise DataError(f"no annotation from {tasks.place(0)} on holds an answer; export tasks that are labelled")
    asked = listed([f"{name!r} ({its_type})" for name, its_type in types.items()])
    if wanted is not None and wanted not in types:
        raise DataError(f"question={shown(wanted)} is none of those that are answered; there are {asked}")
    able = [name for name, its_type in types.items() if its_type in CONTROLS and wanted in (None, name)]
    fits = [name for name in able if kind is None or kind in CONTROLS[types[name]].kinds]
    if len(fits) == 1:
        return fits[0], types[fits[0]]
    if fits:
        raise DataError(
            f"tasks such as that of {first[fits[0]].where} ask several questions, {asked}; say "
            f"question={fits[0]!r}, or another of them"
        )
    if able:
        raise DataError(
            f"{first[able[0]].where} answers {able[0]!r} by {types[able[0]]}, which is no label of kind={kind!r}; "
            "leave kind= out" + (f", and say question={able[0]!r}" if len(able) > 1 else "")
        )
    rest = [name for name, its_type in types.items() if its_type in CONTROLS]
    remedy = f"say question={rest[0]!r}" if rest else f"ask for one of these: {', '.join(CONTROLS)}"
    where = first[wanted] if wanted is not None else tasks.made[0]
    raise DataError(f"no label can be read from {where.where}, of questions answered {asked}; {remedy}")


def _answer(one: Made, name: str, its_type: str) -> Any:
    """What somebody answered to a question, None for nothing; DataError for two answers, or what is none."""
    results = one.results.get(name, ())
    if len(results) > 1:
        raise DataError(f"{one.where} has {len(results)} answers to {name!r}; keep one")
    control = CONTROLS[its_type]
    for result in results:
        value = result["value"].get(control.key)
        try:
            return control.read(value)
        except ValueError:
            buckets = its_type == "ranker" and isinstance(value, dict) and len(value) > 1
            raise DataError(
                f"{one.where} answers {name!r} by {shown(value)}, "
                + (
                    "which sorts objects into several buckets; keep the list that is ranked"
                    if buckets
                    else f"which is no value of {its_type}; {ANEW}"
                )
            ) from None
    return None


def _answers(
    tasks: Tasks, name: str, its_type: str, kind: str, item: Any, away: set[Any]
) -> tuple[Rows, dict[Any, Any]]:
    """Rows of answers to a question about whole tasks, and truths by item, of which none is an abstention."""
    answers = [_answer(one, name, its_type) for one in tasks.made]
    if kind == SETS.name:
        answers = [x or [] for x in answers]
    elif CONTROLS[its_type].read is _names:
        for one, answer in zip(tasks.made, answers, strict=True):
            if answer is not None and len(answer) > 1:
                raise DataError(f"{one.where} chooses {shown(answer)} for {name!r}; say kind='set'")
        answers = [x and x[0] for x in answers]
    if unsaid := sum(x is None for x in answers):
        warn(f"{unsaid} of {len(answers)} annotations do not answer {name!r} and are left out", CrowdpplWarning)
    roles, ids = _ids(tasks, name, kind, item)
    gold, kept, labels = dict[Any, Any](), list[Made](), list[Any]()
    for one, answer in zip(tasks.made, answers, strict=True):
        if answer is None:
            continue
        if not one.gold:
            kept.append(one)
            labels.append(answer)
            continue
        if not isinstance(answer, list) and answer in away:
            continue
        key = ids[one.task]
        told = {(key, x): rank for rank, x in enumerate(answer, 1)} if kind == RANKINGS.name else {key: answer}
        if any(gold.get(of, truth) != truth for of, truth in told.items()):
            raise DataError(f"{one.where} is a ground truth, and differs from another of its item; keep one")
        gold |= told
    _require_labels(kept, tasks)
    at: Any = [ids[one.task] for one in kept]
    if kind in (PAIR.name, SIMILARITY.name):
        at = pd.DataFrame(at, columns=[*SIDES])
    who = pd.Series([one.who for one in kept], dtype=object)
    rows = Rows(
        at if isinstance(at, pd.DataFrame) else pd.Series(at, dtype=object),
        who,
        pd.Series(labels, dtype=object),
        _more(kept),
        lambda row: kept[row].where,
        roles={**roles, "annotator": "completed_by", "label": name},
    )
    return rows, gold


def _require_labels(made: Sequence[Made], tasks: Tasks) -> None:
    """Refuses tasks of which nobody's labels are left."""
    if not made:
        raise DataError(
            f"no label is left: {tasks.made[0].where}, as all others, is marked as ground truth or answers "
            "nothing; unmark those that are labels"
        )


def _more(made: Sequence[Made]) -> pd.DataFrame | None:
    """What annotations say of themselves, a row each."""
    table = pd.DataFrame([one.more for one in made], index=range(len(made)))
    return table if table.shape[1] else None


def _ids(tasks: Tasks, name: str, kind: str, item: Any) -> tuple[dict[str, str], list[Any]]:
    """The roles of the fields that name items, and the item of each task: an id, or two objects."""
    two = kind in (PAIR.name, SIMILARITY.name)
    if item is None and not two:
        return {"item": "id"}, [*tasks.ids]
    fields = (item,) if isinstance(item, str) else tuple(item or _compared(tasks, name))
    if len(fields) != (2 if two else 1):
        wanted = "two fields of the data, the left one and the right one" if two else "a field of the data"
        raise DataError(f"item={shown(item)} must name {wanted}, such as {listed([*map(repr, tasks.shows[0])])}")
    columns = [[_field(tasks, field, n) for n in range(len(tasks.ids))] for field in fields]
    roles = dict(zip(SIDES if two else ("item",), fields, strict=True))
    return roles, [*zip(*columns, strict=True)] if two else columns[0]


def _field(tasks: Tasks, field: Any, task: int) -> Any:
    """What a field of a task's data says, text or a whole number."""
    value = tasks.shows[task].get(field)
    if isinstance(value, bool) or not isinstance(value, str | int):
        there = listed([repr(x) for x, said in tasks.shows[task].items() if isinstance(said, str | int)]) or "none"
        raise DataError(
            f"the data of the task at {tasks.place(task)} have no field {field!r} of text or whole numbers; there "
            f"are {there}; say one of these as item="
        )
    return value


def _fields_of_text(tasks: Tasks) -> list[str]:
    """Fields that hold text in all tasks."""
    return [name for name in tasks.shows[0] if all(isinstance(x.get(name), str) for x in tasks.shows)]


def _compared(tasks: Tasks, name: str) -> tuple[str, str]:
    """The two fields that are compared, by what the answers say, or by their names."""
    there = [*tasks.shows[0]]
    of_names = {str(x.get("to_name")) for one in tasks.made for x in one.results.get(name, ())}
    told = tuple(of_names.pop().split(",")) if len(of_names) == 1 else ()
    if len(told) == 2 and {*told} <= {*there}:
        return told[0], told[1]
    sides = [looks_like(there, side) for side in SIDES]
    if [len(found) for found in sides] == [1, 1]:
        return str(sides[0][0]), str(sides[1][0])
    texts = sorted(_fields_of_text(tasks))
    alike = [
        pair for pair in combinations(texts, 2) if len(stems := {*map(_stem, pair)}) == 1 and not stems & {*pair}
    ]
    if len(alike) == 1:
        return alike[0]
    some = (texts * 2)[:2] if len(texts) > 1 else ["left", "right"]
    raise DataError(
        f"the task at {tasks.place(0)} may compare any two fields of its data, {listed([*map(repr, there)])}; say "
        f"which as item=({some[0]!r}, {some[1]!r}), the left one first"
    )


def _stem(field: str) -> str:
    return ONE_OF_TWO.sub("", field)


def _spans(tasks: Tasks, name: str, item: Any) -> tuple[Rows, dict[Any, Any], dict[str, Any]]:
    """Rows of the tags of words, truths by item, and what is known of items."""
    marked = [one.results.get(name, ()) for one in tasks.made]
    field = _text_field(tasks, marked) if item is None else item
    rows, number = list[tuple[Any, ...]](), list[int]()
    none: list[tuple[Any, ...]] = [(None, None, None)]
    for n, (one, results) in enumerate(zip(tasks.made, marked, strict=True)):
        text = _field(tasks, field, one.task)
        spans = [*_in_letters(results, text, one.where)] or none
        rows += [(tasks.ids[one.task], text, one.who, *span, n) for span in spans]
        number += [n] * len(spans)
    table = pd.DataFrame(rows, columns=["id", *SPAN, "annotation"], dtype=object)
    labels, known, where = tags_of_spans(table, lambda row: tasks.made[number[row]].where)
    made = [tasks.made[number[row]] for row in where]
    truth = [one.gold for one in made]
    true = labels[truth]
    gold = dict(zip(zip(true[SEQUENCE], true[POSITION], strict=True), true["label"], strict=True))
    kept = [one for one in made if not one.gold]
    _require_labels(kept, tasks)
    labels = labels[[not x for x in truth]].reset_index(drop=True)
    return (
        Rows(
            labels[[SEQUENCE, POSITION]],
            labels["annotator"],
            labels["label"],
            _more(kept),
            lambda row: kept[row].where,
            roles={SEQUENCE: "id", "annotator": "completed_by", "label": name},
        ),
        gold,
        {"items": known.index, "item_covariates": known},
    )


def _text_field(tasks: Tasks, marked: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """The field of the data in which spans are marked: that which answers name, or the one that they fit."""
    texts = _fields_of_text(tasks)
    told = {result.get("to_name") for results in marked for result in results}
    named = [field for field in texts if told == {field}]
    if len(texts) > 1 and not named:
        named = [field for field in texts if _fit(tasks, marked, field)]
    found = named or texts
    if len(found) == 1:
        return found[0]
    if not found:
        raise DataError(
            f"no field of the data holds text in all tasks from {tasks.place(0)} on, as spans need; there are "
            f"{listed([*map(repr, tasks.shows[0])])}: give the text the same name in each task"
        )
    raise DataError(
        f"spans from {tasks.place(0)} on may be marked in any of the fields {listed([*map(repr, found)])}; say in "
        f"which as item={found[0]!r}"
    )


def _fit(tasks: Tasks, marked: Sequence[Sequence[Mapping[str, Any]]], field: str) -> bool:
    """Whether all spans may be marked in a field."""
    try:
        for one, results in zip(tasks.made, marked, strict=True):
            _in_letters(results, tasks.shows[one.task][field], one.where)
    except DataError:
        return False
    return True


def _in_letters(results: Iterable[Mapping[str, Any]], text: str, where: str) -> list[tuple[int, int, str]]:
    """Start, end and type of the spans of an annotation, counted in letters.

    Label Studio counts units of UTF-16, of which a letter beyond the first 65,536 takes two; some of its versions
    count letters, which is known by the text that spans say.
    """
    spans = [_span(result, where) for result in results]
    units = [0, *accumulate(1 + (letter > "\uffff") for letter in text)]
    ends = range(len(text) + 1)
    wrong = None
    for edges in [units, ends] if all(said is not None for *_, said in spans) else [units]:
        found = [[bisect_left(edges, x) for x in (start, end)] for start, end, *_ in spans]
        wrong = next(
            (
                span
                for span, (start, end) in zip(spans, found, strict=True)
                if not span[0] < span[1] <= edges[-1]
                or [edges[start], edges[end]] != [*span[:2]]
                or (span[3] is not None and _bare(span[3]) != _bare(text[start:end]))
            ),
            None,
        )
        if wrong is None:
            return [(start, end, span[2]) for (start, end), span in zip(found, spans, strict=True)]
    assert wrong is not None
    start, end, _, said = wrong
    says = "" if said is None else f", and says that {said!r:.60} stands there"
    raise DataError(
        f"{where} marks {start} to {end}{says}, which is not so in its text of {len(text)} letters, {text!r:.60}; "
        f"{ANEW}, or say item= for the field of the data that is marked"
    )


def _bare(text: str) -> str:
    return WRITTEN.sub("", text)


def _span(result: Mapping[str, Any], where: str) -> tuple[int, int, str, str | None]:
    """Start, end, type and text of one result, as it says; DataError where it marks no text."""
    value = result["value"]
    start, end, names = value.get(START), value.get(END), value.get("labels")
    of_text = all(isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in (start, end))
    if not of_text or "channel" in value or "original_length" in result:
        raise DataError(
            f"{where} marks {shown(start)} to {shown(end)}, which are no places of letters; spans of plain text "
            "are read, those of HTML, dialogues and sound are not: say question= for another one"
        )
    if not isinstance(names, list) or len(names) != 1:
        raise DataError(f"{where} marks {start} to {end} as {shown(names)}; give each span one label")
    said = value.get("text")
    return start, end, _part(names[0], "labels", str, where), said if isinstance(said, str) else None
