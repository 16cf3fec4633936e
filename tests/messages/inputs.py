"""Small inputs that provoke messages."""

import json
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import crowdppl

A = crowdppl.Annotations
FOLDER = Path(tempfile.mkdtemp(prefix="messages-"))
NUMBER = count()


class Row(NamedTuple):
    """A message: the function that says it, a call that provokes it, and the call with the remedy applied.

    Without a ``remedied`` call, ``why`` says why there is none.
    """

    function: str
    provoke: Callable[[], Any]
    remedied: Callable[[], Any] | None = None
    why: str = ""


def table(rows: int = 4, **columns: Any) -> pd.DataFrame:
    """Two items, two annotators and two classes, and other or further columns; None takes one away."""
    own: dict[str, Any] = {"item": [1, 1, 2, 2], "annotator": ["a", "b"] * 2, "label": ["x", "y", "x", "x"]}
    own = {name: values[:rows] for name, values in own.items()} | columns
    return pd.DataFrame({name: values for name, values in own.items() if values is not None})


def read(frame: Any = None, **options: Any) -> crowdppl.Annotations:
    """Annotations of a table."""
    return A.from_frame(table() if frame is None else frame, **options)


def soft(px: Any = (0.9, 0.2, 0.5, 0.6), py: Any = (0.1, 0.8, 0.5, 0.4), **options: Any) -> crowdppl.Annotations:
    """Annotations whose labels are probabilities of two classes."""
    told = {"probabilities": ["px", "py"], "classes": ["x", "y"], **options}
    return read(table(px=[*px], py=[*py]), **told)


def pairs(winner: Any = ("p", "q", "p"), **columns: Any) -> pd.DataFrame:
    """Three comparisons."""
    own = {"left": ["p", "q", "r"], "right": ["q", "r", "p"], "annotator": ["a", "b", "a"], "winner": [*winner]}
    return pd.DataFrame(own | columns)


def written(text: str | bytes, name: str = "answers.csv") -> Path:
    """A file of its own."""
    path = FOLDER / f"{next(NUMBER)}-{name}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


CSV = "item,annotator,label\n1,a,x\n1,b,y\n2,a,x\n2,b,x\n"


def of_file(text: str | bytes = CSV, name: str = "answers.csv", **options: Any) -> crowdppl.Annotations:
    """Annotations of a file."""
    return crowdppl.read_annotations(written(text, name), **options)


def ranks(**columns: Any) -> pd.DataFrame:
    """Two annotators who rank three objects."""
    own = {"object": ["p", "q", "r"] * 2, "annotator": ["a"] * 3 + ["b"] * 3, "rank": [1, 2, 3, 2, 1, 3]}
    return pd.DataFrame(own | columns)


def whole(labels: Any, **columns: Any) -> pd.DataFrame:
    """Whole rankings, one of each annotator."""
    return pd.DataFrame({"annotator": [f"a{n}" for n in range(len(labels))], "ranking": [*labels]} | columns)


def tokens(labels: Any = ("B-X", "I-X", "O"), **columns: Any) -> pd.DataFrame:
    """A sequence of three tokens."""
    own = {"sequence": [1, 1, 1], "position": [0, 1, 2], "annotator": ["a"] * 3, "label": [*labels]}
    return pd.DataFrame(own | columns)


def answer(value: Any, kind: str = "choices", name: str = "q", **more: Any) -> dict[str, Any]:
    """A result of Label Studio."""
    return {"type": kind, "from_name": name, "value": value if isinstance(value, dict) else {kind: value}, **more}


def made(*results: Any, who: Any = "a", **more: Any) -> dict[str, Any]:
    """An annotation of Label Studio."""
    return {"completed_by": who, "result": [*results], **more}


def task(*annotations: Any, data: Any = None, **more: Any) -> dict[str, Any]:
    """A task of Label Studio."""
    return {"data": {"text": "Ann sang"} if data is None else data, "annotations": [*annotations], **more}


USUAL = (
    task(made(answer(["x"])), made(answer(["y"]), who="b"), id=1),
    task(made(answer(["x"])), made(answer(["x"]), who="b"), id=2),
)


def studio(*tasks: Any, **options: Any) -> crowdppl.Annotations:
    """Annotations of an export of Label Studio."""
    return of_file(json.dumps(tasks or USUAL), "tasks.json", **options)


def span(start: Any, end: Any, labels: Any = ("X",), **more: Any) -> dict[str, Any]:
    """A span of Label Studio."""
    return answer({"start": start, "end": end, "labels": [*labels], **more}, "labels")


def covariates(index: Any = (1, 2), **columns: Any) -> pd.DataFrame:
    """A table by id."""
    return pd.DataFrame(columns or {"words": [3.0, 5.0]}, index=[*index])


FEATURES = np.array([[0.5, 1.0], [1.5, 0.0]])
