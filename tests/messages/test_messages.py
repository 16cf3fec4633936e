"""Each raise and warn statement of data, cli and fitting has a row here, which provokes it and takes its remedy."""

import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer import Exit

import crowdppl
from crowdppl.core import validation
from crowdppl.errors import CrowdpplError, CrowdpplWarning
from tests.messages import files, kinds, others, parts, studio, tables, votes
from tests.messages.inputs import Row

ROOT = Path(crowdppl.__file__).parent
ROWS: list[Row] = [*tables.ROWS, *kinds.ROWS, *files.ROWS, *studio.ROWS, *votes.ROWS, *parts.ROWS, *others.ROWS]
OF_NUMPY = re.compile(r"np\.\w+\(|numpy\.|dtype\(|array\(|[<>|][UifO]\d")
"""How numpy writes its values."""


class Site(NamedTuple):
    """A statement that raises or warns."""

    module: str
    function: str
    first: int
    last: int
    text: str


def _statements(path: Path) -> Iterator[Site]:
    module = path.relative_to(ROOT).with_suffix("").as_posix()

    def walk(node: ast.AST, function: str) -> Iterator[Site]:
        for child in ast.iter_child_nodes(node):
            inside = child.name if isinstance(child, ast.FunctionDef) else function
            raises = isinstance(child, ast.Raise) and child.exc is not None
            warns = isinstance(child, ast.Call) and ast.unparse(child.func) in ("warn", "warnings.warn")
            if isinstance(child, ast.Raise | ast.Call) and (raises or warns):
                lines = child.lineno, child.end_lineno or child.lineno
                yield Site(module, function, *lines, ast.unparse(child))
            yield from walk(child, inside)

    return walk(ast.parse(path.read_text(encoding="utf-8")), "")


@cache
def sites() -> tuple[Site, ...]:
    """All statements."""
    paths = [*sorted((ROOT / "data").rglob("*.py")), *sorted((ROOT / "cli").rglob("*.py")), ROOT / "fitting.py"]
    return tuple(site for path in paths for site in _statements(path))


def _at(file: str, line: int) -> list[Site]:
    name = Path(file)
    if ROOT not in name.parents:
        return []
    module = name.relative_to(ROOT).with_suffix("").as_posix()
    return [site for site in sites() if site.module == module and site.first <= line <= site.last]


def _of_error(error: BaseException | None) -> Iterator[Site]:
    """The statements that raised an error and those that it comes from."""
    while error is not None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None:
            yield from _at(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        error = error.__cause__ or error.__context__


class Said(NamedTuple):
    """What a call said: at which statements, in which words, and the error that ended it."""

    at: frozenset[Site]
    texts: tuple[str, ...]
    error: BaseException | None


def said_by(call: Callable[[], Any]) -> Said:
    """Calls, and notes where it raised and warned."""
    found, texts, own = set[Site](), list[str](), warnings.warn

    def noted(message: Any, category: Any = None, *more: Any, **named: Any) -> None:
        frame: Any = sys._getframe(1)
        while frame.f_code is validation.warn.__code__:
            frame = frame.f_back
        found.update(_at(frame.f_code.co_filename, frame.f_lineno))
        if isinstance(message, CrowdpplWarning) or (category and issubclass(category, CrowdpplWarning)):
            texts.append(str(message))

    warnings.warn = noted  # type: ignore[assignment]
    try:
        call()
        error: BaseException | None = None
    except (Exception, SystemExit) as raised:
        error = raised
        found.update(_of_error(raised))
        texts.append(str(raised))
    finally:
        warnings.warn = own
    return Said(frozenset(found), tuple(texts), error)


@cache
def provoked(number: int) -> Said:
    """What a row provokes."""
    return said_by(ROWS[number].provoke)


NUMBERED = [pytest.param(n, id=f"{n}-{row.function}") for n, row in enumerate(ROWS)]


def _own(number: int) -> set[Site]:
    """The statements of the row's function that were met."""
    module, _, function = ROWS[number].function.rpartition(".")
    found = provoked(number).at
    return {x for x in found if x.module.endswith(module) and x.function == function}


@pytest.mark.parametrize("number", NUMBERED)
def test_a_row_provokes_its_message(number: int) -> None:
    said = provoked(number)
    assert _own(number), f"said elsewhere: {[(x.module, x.function) for x in said.at]}, {said.error!r}"
    assert not any(OF_NUMPY.search(text) for text in said.texts), said.texts


@pytest.mark.parametrize("number", NUMBERED)
def test_its_remedy_leads_on(number: int) -> None:
    row = ROWS[number]
    if row.remedied is None:
        assert row.why, "a message without a remedy says why"
        return
    said = said_by(row.remedied)
    assert said.error is None, repr(said.error)
    assert not said.at & _own(number)


def test_each_statement_has_a_row() -> None:
    met = {site for n in range(len(ROWS)) for site in provoked(n).at}
    lost = [f"{x.module}.py:{x.first} {x.function}: {x.text[:120]}" for x in sites() if x not in met]
    assert not lost, "\n".join(["give each of these a row in tests/messages:", *lost])


def test_errors_are_of_crowdppl() -> None:
    known = (CrowdpplError, TypeError, AttributeError, NotImplementedError, SystemExit, Exit, type(None))
    assert not [row.function for n, row in enumerate(ROWS) if not isinstance(provoked(n).error, known)]
