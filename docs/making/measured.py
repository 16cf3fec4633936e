"""What README and the file of results say about one method, read from there and never typed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.benchmarks import advice, readme, results

BASELINES = ("vote shares", "majority_vote")
"""Rows of the results that each method is shown beside."""


class MeasuredError(ValueError):
    """README has no row for a method of the zoo."""


@dataclass(frozen=True)
class Numbers:
    """A method's row of one table of the results.

    Attributes:
        section: the title above it.
        about: the sentence before it.
        table: in Markdown: the header, the baselines' rows and the method's.
    """

    section: str
    about: str
    table: str


def engines(text: str) -> dict[str, dict[str, str]]:
    """What each engine does with each method, from README's table of the zoo, reasons spelt out.

    Args:
        text: README.
    """
    part = readme.part_of(text, "zoo")
    reasons = dict(re.findall(r"^(\d+)\. (.+)$", part, flags=re.MULTILINE))
    found = {}
    for row in advice.tables(part)[0]:
        title, *cells = row.items()
        (name,) = re.findall(r"`(\w+)`", title[1])
        found[name] = {engine: _spelt(cell, reasons) for engine, cell in cells}
    return found


def engines_of(name: str, text: str) -> dict[str, str]:
    """The same for one method.

    Raises:
        MeasuredError: when README does not know it.
    """
    found = engines(text)
    if name not in found:
        raise MeasuredError(
            f"README's table of the zoo has no row for {name}; run `python -m tests.benchmarks.readme zoo` first"
        )
    return found[name]


def _spelt(cell: str, reasons: Mapping[str, str]) -> str:
    number = re.fullmatch(r"refused \((\d+)\)", cell)
    return f"refused: {reasons[number[1]]}" if number else cell


def numbers(name: str, text: str) -> list[Numbers]:
    """A method's rows in the results; none where it was not measured.

    Args:
        name: of the method.
        text: what `make bench` wrote.
    """
    return [
        Numbers(section, about, table)
        for section, body in results.sections(text).items()
        for about, header, rows in _tables(body)
        if (table := _rows_of(name, header, rows))
    ]


def _tables(body: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """The tables of a section: the first sentence of the text before each, its header and its rows."""
    about = ""
    for block in body.split("\n\n"):
        lines = block.strip().splitlines()
        if lines and lines[0].startswith("|"):
            yield about, lines[:2], lines[2:]
        else:
            about = re.split(r"(?<=[.:;]) ", block.strip(), maxsplit=1)[0].rstrip(":;") or about


def _rows_of(name: str, header: list[str], rows: list[str]) -> str:
    """The table of one method, all its forms; empty where the table is not of methods, or has no row for it."""
    if not header[0].startswith("| method"):
        return ""
    mine = [row for row in rows if re.match(rf"{name}\b", _named(row))]
    named = {_named(row): row for row in rows if row not in mine}
    return "\n".join([*header, *(named[row] for row in BASELINES if row in named), *mine]) if mine else ""


def _named(row: str) -> str:
    first = row.split("|")[1].strip().replace("*", "").replace("`", "")
    return first.partition(" (")[0]
