"""Links lead somewhere, files that the text names exist, and the reference lists all public names."""

import json
import re
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import crowdppl
from crowdppl import few_shot, networks, primitives, simulation
from docs.making.benchmarks import slug

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path for where in ("*.md", "docs/*.md", "docs/methods/*.md", "tutorials/*") for path in ROOT.glob(where)
)
LINK = re.compile(r"\]\(([^\s)]+)\)")


def prose(path: Path) -> str:
    """The Markdown of a file or of a notebook's cells, without code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"`[^`\n]*`", "code", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def wrong_links(path: Path) -> list[str]:
    """Links that lead to no file of the repository, or to no heading of one."""
    wrong = []
    for link in LINK.findall(prose(path)):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if re.match(r"https?://[\w.-]+\.\w+", link):
            continue
        headings = re.findall(r"^#+ (.+)$", prose(target), re.MULTILINE) if anchor and target.exists() else []
        described = anchor.startswith("crowdppl.")  # which the site's build checks
        if not target.exists() or (anchor and not described and anchor not in map(slug, headings)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    assert not wrong_links(path)


def test_wrong_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `title`\n")
    page = tmp_path / "README.md"
    page.write_text("[a](there.md) `[b](none.md)` [c](gone.md) [d](there.md#other) [e](https://x.org)\n")
    assert wrong_links(page) == ["gone.md", "there.md#other"]


def test_contributing_names_files_and_functions_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("### Where to add what")[2].partition("\n#")[0]
    for row in re.findall(r"^\| \w.*$", table, re.MULTILINE)[1:]:
        _, _, files, what, _ = row.split("|")
        paths = [ROOT / path for path in re.findall(r"`([\w/]+\.pyi?)`", files) if "NAME" not in path]
        assert all(path.exists() for path in paths), row
        source = "".join(path.read_text(encoding="utf-8") for path in paths)
        words = re.findall(r"`(\w+)(?:\(\w+\))?`", what)
        assert not [word for word in words if paths and word not in source and word != "Fit"], row
    for path in re.findall(r"`((?:crowdppl|inference|tests|docs|cli)/[\w/]+(?:\.\w+)?)`", text):
        assert "NAME" in path or (ROOT / path).exists() or (ROOT / "crowdppl" / path).exists(), path


def resolved(name: str) -> Any:
    """The object that a dotted name leads to."""
    found: Any = crowdppl
    for part in name.split(".")[1:]:
        found = getattr(found, part, None) or import_module(f"{found.__name__}.{part}")
    return found


def test_the_reference_has_all_public_names() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    described = {id(resolved(name)) for name in re.findall(r"^::: (\S+)", text, re.MULTILINE)}
    names = {f"crowdppl.{name}" for name in crowdppl.__all__ if not isinstance(getattr(crowdppl, name), ModuleType)}
    for module in (few_shot, networks, primitives, simulation):
        names |= {f"{module.__name__}.{name}" for name in module.__all__}
    assert not {name for name in names if id(resolved(name)) not in described}


def test_the_page_on_installation_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [extra for extra in project["optional-dependencies"] if f"| `{extra}` |" not in page] == []
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    assert capsys.readouterr().out == page.partition("```text\n")[2].partition("```")[0]
