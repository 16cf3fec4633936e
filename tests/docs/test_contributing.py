"""Files to read have as many lines as CONTRIBUTING says, and lists by hand in docstrings name all that there is."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from crowdppl.cli.arguments import READING, Inference
from crowdppl.criticism.doubts import doubts
from crowdppl.criticism.doubts.search import FINDERS
from crowdppl.data.files import FORMATS, read_annotations
from crowdppl.data.kinds import KINDS
from crowdppl.data.options import AnnotationOptions
from crowdppl.fitting import fit
from crowdppl.inference.engines import ENGINES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PLACES = (ROOT, ROOT / "crowdppl")


def table(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its first two lines."""
    lines = PAGE.partition(heading)[2].split("\n#")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]


def named(text: str) -> list[str]:
    """Paths of Python files that a text names, without stand-ins for new ones."""
    return [path for path in re.findall(r"`([\w/]+\.pyi?)`", text) if "NAME" not in path]


def found(path: str) -> Path:
    return next((place / path for place in PLACES if (place / path).is_file()), ROOT / path)


WHOLE = [
    row
    for row in table("### What to read before the first edit")
    if re.fullmatch(r"(this page|`[\w/]+\.py`|, )+", row[2])
]


@pytest.mark.parametrize("row", WHOLE, ids=[row[0] for row in WHOLE])
def test_files_to_read_have_as_many_lines_as_the_page_says(row: list[str]) -> None:
    """Within a quarter: files grow, and a page that is far off misleads."""
    texts = [found(path).read_text(encoding="utf-8") for path in named(row[2])]
    texts += [PAGE] * ("this page" in row[2])
    lines = sum(len(text.splitlines()) for text in texts)
    assert abs(lines - int(row[3])) <= 0.25 * lines, f"{row[0]}: {lines} lines; write {round(lines, -1)}"


def help_of(option: object) -> str:
    (found,) = option.__metadata__  # type: ignore[attr-defined]
    return str(found.help)


LISTS: dict[str, tuple[Iterable[str], str | None]] = {
    "engines in fit": (map('"{}"'.format, ENGINES), fit.__doc__),
    "engines in --inference": (ENGINES, help_of(Inference)),
    "formats in read_annotations": (map('"{}"'.format, FORMATS), read_annotations.__doc__),
    "formats in --format": (FORMATS, help_of(READING["format"][0])),
    "kinds in AnnotationOptions": (map('"{}"'.format, KINDS), AnnotationOptions.__doc__),
    "kinds of doubts": ((f'"{finder.kind}"' for finder in FINDERS if finder.kind != "own"), doubts.__doc__),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_by_hand_names_all(name: str) -> None:
    names, text = LISTS[name]
    words = " ".join((text or "").split())
    assert [x for x in names if not re.search(rf"(?<![\w-]){re.escape(x)}(?![\w-])", words)] == []
