"""Messages of exports of Label Studio."""

from typing import Any

from tests.messages.inputs import USUAL, Row, answer, made, span, studio, task

TWO = {"title": "Ann sang", "body": "Bob sang"}
RANK = answer({"ranker": {"x": ["p", "q"], "y": ["r"]}}, "ranker")
PAIR = answer({"selected": "left"}, "pairwise")
ANEW = "the export is damaged, and is made anew"


def one(*results: Any, **more: Any) -> Any:
    """Two tasks, of which the second is answered so."""
    return USUAL[0], task(made(*results, **more), id=2)


def spans(*results: Any, data: Any = None, **options: Any) -> Any:
    return studio(task(made(*results), made(who="b"), data=data), **options)


def right(**options: Any) -> Any:
    return studio(**options)


ROWS = [
    Row(
        "label_studio.rows_of_tasks",
        lambda: studio(*USUAL, task(made(answer(["x"]), ground_truth=True), id=3), gold={1: "x"}),
        lambda: studio(*USUAL, gold={1: "x"}),
    ),
    Row("label_studio._read", lambda: studio(task(made(answer(["x"])), id=[1])), right),
    Row(
        "label_studio._read",
        lambda: studio(USUAL[0], task(made(answer(["y"])), id=1, data={"text": "other"})),
        lambda: studio(USUAL[0], task(made(answer(["y"])), id=1, data={"text": "other"}), item="text"),
    ),
    Row("label_studio._read", lambda: studio(task(id=1)), right),
    Row(
        "label_studio._read",
        lambda: studio(*USUAL, task(id=3)),
        why="nothing is wrong: it says how many tasks are left",
    ),
    Row("label_studio._part", lambda: studio(task(made(), id=1) | {"annotations": 3}), right, ANEW),
    Row("label_studio._made", lambda: studio(task(made(answer(["x"])), predictions=[3]), predictions=True), right),
    Row("label_studio._made", lambda: studio(*one(answer(["x"]), who=None)), right),
    Row("label_studio._question", lambda: studio(*one(answer(3, "rating"))), right),
    Row("label_studio._question", lambda: studio(task(made(), id=1)), right),
    Row("label_studio._question", lambda: studio(question="p"), lambda: studio(question="q")),
    Row(
        "label_studio._question",
        lambda: studio(*one(answer(["x"]), answer(["z"], name="p"))),
        lambda: studio(*one(answer(["x"]), answer(["z"], name="p")), question="q"),
    ),
    Row("label_studio._question", lambda: studio(kind="sequence"), right),
    Row(
        "label_studio._question",
        lambda: studio(*one(answer(["x"]), answer({"text": ["hm"]}, "textarea", "p")), question="p"),
        lambda: studio(*one(answer(["x"]), answer({"text": ["hm"]}, "textarea", "p")), question="q"),
    ),
    Row("label_studio._names", lambda: studio(*one(answer("x"))), right),
    Row("label_studio._text", lambda: studio(*one(answer([3]))), right),
    Row(
        "label_studio._number",
        lambda: studio(task(made(answer("3", "rating")))),
        lambda: studio(task(made(answer(3, "rating")), made(answer(4, "rating"), who="b"))),
    ),
    Row(
        "label_studio._ranking",
        lambda: studio(task(made(RANK))),
        lambda: studio(task(made(answer({"ranker": {"x": ["p", "q"]}}, "ranker")))),
    ),
    Row("label_studio._answer", lambda: studio(*one(answer(["x"]), answer(["y"]))), right),
    Row("label_studio._answer", lambda: studio(*one(answer("x"))), right),
    Row(
        "label_studio._answers",
        lambda: studio(*one(answer(["x", "y"])), kind="nominal"),
        lambda: studio(*one(answer(["x", "y"])), kind="set"),
    ),
    Row(
        "label_studio._answers",
        lambda: studio(*one(answer([]))),
        why="nothing is wrong: it says how many annotations are left",
    ),
    Row(
        "label_studio._answers",
        lambda: studio(
            *USUAL, task(made(answer(["x"]), ground_truth=True), made(answer(["y"]), ground_truth=True), id=3)
        ),
        lambda: studio(*USUAL, task(made(answer(["x"]), ground_truth=True), id=3)),
    ),
    Row("label_studio._require_labels", lambda: studio(task(made(answer(["x"]), ground_truth=True))), right),
    Row("label_studio._ids", lambda: studio(item=["text", "id"]), lambda: studio(*USUAL, item="text")),
    Row("label_studio._field", lambda: studio(item="title"), lambda: studio(item="text")),
    Row(
        "label_studio._compared",
        lambda: studio(task(made(PAIR), data={"p": "x", "q": "y", "r": "z"})),
        lambda: studio(task(made(PAIR), data={"p": "x", "q": "y", "r": "z"}), item=("p", "q")),
    ),
    Row("label_studio._text_field", lambda: spans(span(0, 3), data={"n": 3}), lambda: spans(span(0, 3))),
    Row(
        "label_studio._text_field",
        lambda: spans(span(0, 3), data=TWO),
        lambda: spans(span(0, 3), data=TWO, item="body"),
    ),
    Row(
        "label_studio._in_letters", lambda: spans(span(0, 30), item="text"), lambda: spans(span(0, 3), item="text")
    ),
    Row(
        "label_studio._span",
        lambda: spans(span("/p[1]", "/p[2]"), item="text"),
        lambda: spans(span(0, 3), item="text"),
    ),
    Row(
        "label_studio._span",
        lambda: spans(span(0, 3, ("X", "Y")), item="text"),
        lambda: spans(span(0, 3), item="text"),
    ),
]
