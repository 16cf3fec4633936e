"""Each name on the page of the literature exists, and each method of the zoo is on it."""

import re
from operator import attrgetter
from pathlib import Path

import crowdppl

PAGE = Path(__file__).resolve().parents[2] / "docs" / "literature.md"


def names() -> set[str]:
    """What the last column of all tables calls by name, settings left out."""
    rows = [line.split(" | ")[-1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}


def test_names_exist() -> None:
    methods = {*crowdppl.zoo(engines=False).index}
    functions = {name.removeprefix("crowdppl.") for name in names() if name.startswith("crowdppl.")}
    assert {name for name in names() if not name.startswith("crowdppl.")} <= methods
    assert all(attrgetter(name)(crowdppl) for name in functions)


def test_every_method_is_listed() -> None:
    assert {*crowdppl.zoo(engines=False).index} - names() == set()
    assert {f"crowdppl.baselines.{name}" for name in crowdppl.baselines.METHODS} <= names()
