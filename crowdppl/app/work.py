"""The process of a file: it reads, recognises, fits and writes, an order after another, apart from the server.

Orders are lines of JSON on its standard input, and so are answers on its output. It ends when its input does: when
the server is gone, however it went.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from crowdppl import registry
from crowdppl.app.fields import Said, command_of, field_of, offers, options_of
from crowdppl.cli import arguments
from crowdppl.cli.outputs import write_result
from crowdppl.cli.reading import read_answers, read_texts
from crowdppl.data.files import read_gold, read_table
from crowdppl.data.ids import native
from crowdppl.data.kinds.grades import order_of
from crowdppl.errors import CrowdpplError, CrowdpplWarning
from crowdppl.fitting import fit
from crowdppl.primitives.model import card_of
from crowdppl.report.write import PAGE

if TYPE_CHECKING:
    import pandas as pd

    from crowdppl.data.annotations import Annotations

ROWS, WIDTH = 5, 80
"""Rows of the file that are shown, and characters of a cell."""
READ_BY_METHODS = {"features", "item_covariates", "annotator_covariates", "label_covariates", "edges"}
"""What some methods need beyond labels, and the app does not take."""
OFTEN = 0.25
"""Seconds between two answers about a fit that goes on."""

Tell = Callable[[Mapping[str, Any]], None]


@lru_cache(maxsize=1)
def _first_rows(path: Path, format: Any, delimiter: Any, encoding: Any) -> dict[str, Any]:
    """The columns of a file and its first rows, as text."""
    table = read_table(path, None, format, delimiter, encoding)
    head = table.head()[:ROWS]
    cells = [[str(native(x)) for x in row] for row in head.itertuples(index=False)]
    short = [[x if len(x) <= WIDTH else f"{x[: WIDTH - 1]}…" for x in row] for row in cells]
    return {"columns": [*map(str, table.names)], "rows": short}


@lru_cache(maxsize=1)
def _read(path: Path, said: str) -> tuple[Annotations, tuple[str, ...]]:
    """The annotations of a file, and warnings about them."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", CrowdpplWarning)
        data = read_answers(path, options_of(json.loads(said)))
    return data, tuple(dict.fromkeys(str(warning.message) for warning in noted))


def read(path: Path, said: Said) -> tuple[Annotations, pd.Series[Any] | None, tuple[str, ...]]:
    """The annotations of a file without known truths, these, and warnings; CrowdpplError where it cannot be."""
    of_fits = ("method", "who", "gold_file", "text")
    data, noted = _read(path, json.dumps({k: v for k, v in said.items() if k not in of_fits and v}, sort_keys=True))
    known = data.gold
    if said.get("gold_file"):
        try:
            known = read_gold(Path(said["gold_file"]))
            data.with_gold(known)  # refuses items and classes that are not there
        except CrowdpplError as error:
            error.field = "gold_file"  # type: ignore[attr-defined]
            raise
    return data.with_gold(None), known, noted


@lru_cache(maxsize=4)
def methods(kind: str) -> list[tuple[str, str]]:
    """Methods for labels of a kind that need nothing else, and the first sentence about each."""
    found = []
    for name in registry.names_for(kind):
        model = registry.method(name)
        card = card_of(model)
        if card is not None and not READ_BY_METHODS & {*card.uses}:
            found.append((name, registry.in_a_line(model)))
    return found


def texts(path: Path, said: Said) -> pd.Series[Any] | None:
    """What items say, where a column is named; CrowdpplError where it cannot be."""
    given = options_of(said)
    try:
        return read_texts(path, given["text"], given) if "text" in given else None
    except CrowdpplError as error:
        error.field = "text"  # type: ignore[attr-defined]
        raise


def look(path: Path, said: Said) -> dict[str, Any]:
    """What a file holds and how it is read: columns, first rows, kind, counts, warnings; or what is wrong."""
    found: dict[str, Any] = {"columns": [], "rows": []}
    try:
        given = options_of(said)
        found |= _first_rows(path, *(given.get(name) for name in ("format", "delimiter", "encoding")))
        data, known, noted = read(path, said)
        texts(path, said)
    except CrowdpplError as error:
        return found | _wrong(error)
    classes = [*map(native, data.classes)] if data.n_classes and not data.alphabet.kind.means else []
    plain = data.n_classes and not data.space.ordered and data.alphabet.kind.parts is None
    order = order_of(data.classes) if plain and not said.get("kind") else None
    return found | {
        "kind": data.kind,
        "roles": dict(data.roles),
        "counts": {"labels": data.n_labels, "people": data.n_annotators, "items": data.n_items},
        "classes": [*map(str, classes)],
        "offers": [] if order is None else [{"kind": "ordinal", "classes": arguments.listed(map(str, order))}],
        "known": 0 if known is None else len(known),
        "warnings": noted,
        "methods": methods(data.kind),
    }


def compute(path: Path, said: Said, out: Path, language: str, tell: Tell) -> None:
    """Fits a method and writes what ``crowdppl fit --report`` writes; CrowdpplError where it cannot."""
    began = time.perf_counter()
    tell({"step": "read"})
    data, known, _ = read(path, said)
    shown = texts(path, said)
    seconds = {"read": time.perf_counter() - began}
    last, passes = 0.0, 0

    def count(*_: Any) -> None:
        nonlocal last, passes
        passes, now = passes + 1, time.monotonic()
        if now - last > OFTEN:
            last = now
            tell({"step": "fit", "n": passes})

    tell({"step": "fit", "n": 0})
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report says what matters
        posterior = fit(
            said.get("method") or "auto", data, models=True if said.get("who") else None, seed=0, callback=count
        )
        seconds["fit"] = time.perf_counter() - began
        tell({"step": "write"})
        about = {"answers": path.name, "gold": None}
        write_result(posterior, out, about, seconds, spreadsheet_safe=True)
        told: Any = {"source": path.name, "command": command_of(path.name, said, language), "language": language}
        posterior.report(out / PAGE, known, **told, text=shown, tables=out, spreadsheet_safe=True)


def _wrong(error: Exception) -> dict[str, Any]:
    """What is wrong, in the words of the library, and at which field of the page."""
    if isinstance(error, CrowdpplError):
        text = str(error)
        return {"error": text, "field": getattr(error, "field", field_of(text)), "offers": offers(text)}
    traceback.print_exception(error)  # on the terminal, for whoever mends it
    return {"error": f"{type(error).__name__}: {error}", "field": "", "offers": []}


def obey(order: Mapping[str, Any], tell: Tell) -> None:
    """Does what one order says, and tells how it ended."""
    path, said = Path(order["path"]), order["said"]
    try:
        if order["do"] == "look":
            tell({"found": look(path, said)})
        else:
            compute(path, said, Path(order["out"]), order["language"], tell)
            tell({"done": PAGE})
    except Exception as error:  # whatever it is, the page says it
        tell(_wrong(error))


def main() -> None:
    """Obeys orders until the input ends, also in the middle of one."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    orders: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            orders.put(line)
        os._exit(0)

    def tell(what: Mapping[str, Any]) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    Thread(target=listen, daemon=True).start()
    while True:
        obey(json.loads(orders.get()), tell)


if __name__ == "__main__":
    main()
