"""Each doubt has a row, which provokes it: its remedies run, lead on, and are those that its text tells of."""

import ast
import dataclasses
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import crowdppl
from crowdppl import Doubt
from crowdppl.data.annotations import Annotations
from crowdppl.posterior import Posterior
from tests.messages.doubts import ROWS, Found

ROOT = Path(crowdppl.__file__).parent
NAMED = re.compile(r"\b(\w+)=|(?:crowdppl|posterior|dataclasses)\.(\w+)|fit\('(auto)'|\b([a-z]+(?:_[a-z]+)+)\b")
"""How texts name arguments and settings, functions, auto and methods."""


class Said(NamedTuple):
    """A doubt of a row: by which statements, about what."""

    doubts: tuple[Doubt, ...]
    at: frozenset[tuple[str, int]]
    found: Found


def statements() -> Iterator[tuple[str, int, int]]:
    """Where doubts are made: file, first and last line."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Doubt":
                yield str(path), node.lineno, node.end_lineno or node.lineno


def doubts_of(found: Any, thorough: bool) -> tuple[Doubt, ...]:
    return tuple(found.doubts if isinstance(found.doubts, tuple) else found.doubts(thorough=thorough))


@cache
def said(number: int) -> Said:
    """What a row provokes."""
    row, at, own = ROWS[number], set[tuple[str, int]](), Doubt.__init__

    def noted(self: Doubt, *args: Any, **named: Any) -> None:
        frame = sys._getframe(1)
        at.add((frame.f_code.co_filename, frame.f_lineno))
        own(self, *args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Doubt, "__init__", noted)
        found = row.make()
        told = doubts_of(found.posterior, row.thorough)
    return Said(tuple(x for x in told if x.kind == row.kind), frozenset(at), found)


def run(code: str, found: Found) -> Any:
    """What a remedy returns; of labels read again, the fit that follows."""
    posterior = found.posterior
    data = found.data or posterior.data
    rows = data.frame() if found.rows is None else found.rows
    given = {"posterior": posterior, "data": data, "gold": found.gold, "rows": rows}
    out = eval(code, {"crowdppl": crowdppl, "dataclasses": dataclasses} | given)
    if isinstance(out, Annotations):
        return crowdppl.fit(posterior.model, out, inference=posterior.inference, seed=0)
    return out


NUMBERED = [pytest.param(n, id=f"{n}-{row.kind}") for n, row in enumerate(ROWS)]
SLOW = [pytest.param(n, id=f"{n}-{row.kind}", marks=[pytest.mark.slow] * row.slow) for n, row in enumerate(ROWS)]
ELSEWHERE = {"networks/experts.py"}
"""Doubts that networks alone raise; their remedies train for minutes."""


@pytest.mark.parametrize("number", SLOW)
def test_a_row_provokes_its_doubt_and_each_remedy_leads_on(number: int) -> None:
    row, (found, *more) = ROWS[number], said(number).doubts
    assert not more and (found.remedies or row.why)
    calls = (*found.remedies, *row.also)
    for code in calls:
        after = run(code, said(number).found)
        if isinstance(after, Posterior):
            left = {x.kind for x in doubts_of(after, row.thorough)}
            assert (row.kind in left) == (code in row.stays), (code, left)
        else:
            assert after is not None
    assert set(row.stays) <= set(calls)


@pytest.mark.parametrize("number", NUMBERED)
def test_what_its_text_names_is_tried(number: int) -> None:
    row, (found,) = ROWS[number], said(number).doubts
    calls = " ".join([*found.remedies, *row.also])
    methods = {*crowdppl.zoo(engines=False).index}
    for argument, function, auto, method in NAMED.findall(found.text):
        name = argument or function or auto or (method if method in methods else "")
        own = getattr(said(number).found.posterior, "method", "")
        assert not name or name == own or re.search(rf"\b{name}\b", calls), f"{name}: {found.text}"


def test_each_doubt_has_a_row() -> None:
    met = {place for n in range(len(ROWS)) for place in said(n).at}
    lost = [
        f"{Path(file).relative_to(ROOT)}:{first}"
        for file, first, last in statements()
        if Path(file).relative_to(ROOT).as_posix() not in ELSEWHERE
        and not any(path == file and first <= line <= last for path, line in met)
    ]
    assert not lost, f"give each of these a row in tests/messages/doubts.py: {lost}"
