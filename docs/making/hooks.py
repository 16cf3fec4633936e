"""What MkDocs is told while it builds the site: the pages that are made of other files, the menu, and the links."""

from __future__ import annotations

import logging
import re
import sys
from html import unescape
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from docs.making import commonmark, links, notebooks, places, reference  # noqa: E402

log = logging.getLogger("mkdocs.hooks.crowdppl")

FORMULA = re.compile(r'<(span|div) class="arithmatex">(?:\\\((.*?)\\\)|\s*\\\[(.*?)\\\]\s*)</\1>', re.DOTALL)

SOURCES: dict[str, str] = {}
"""The file of the checkout that a page is made of, by the page's path."""


def on_config(config: Any) -> Any:
    """Makes the menu, methods and notebooks as they are found."""
    topics = [reference.path_of(topic) for topic in reference.TOPICS]
    modules = [f"reference/{module.rpartition('.')[2]}.md" for module in reference.MODULES]
    pages = sorted((ROOT / "docs" / "methods").glob("*.md"))
    methods = [f"methods/{path.name}" for path in pages if path.name != "index.md"]
    tutorials = [f"tutorials/{path.stem}.md" for path in _notebooks()]
    tutorials = (["tutorials/index.md"] if (ROOT / "tutorials" / "README.md").exists() else []) + tutorials
    config.nav = [
        {"Start": "index.md"},
        {"Installation": "installation.md"},
        *([{"Tutorials": tutorials}] if tutorials else []),
        {"Methods": ["methods/index.md", *methods]},
        {"Benchmarks": "benchmarks.md"},
        {"Reference": ["reference/index.md", *topics, *modules]},
        {"Contributing": "contributing.md"},
        {"Changes": "changelog.md"},
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds pages that are no files of docs: README and its like, notebooks, the reference."""
    SOURCES.clear()
    SOURCES.update({file.src_uri: f"docs/{file.src_uri}" for file in files.documentation_pages()})
    found = {path: place for path, place in places.PAGES.items() if (ROOT / path).exists()}
    made = {place: (ROOT / path).read_text(encoding="utf-8") for path, place in found.items()}
    SOURCES.update({place: path for path, place in found.items()})
    for path in _notebooks():
        page = notebooks.shown(path.stem, path.read_text(encoding="utf-8"))
        made[f"tutorials/{path.stem}.md"] = page.text
        SOURCES[f"tutorials/{path.stem}.md"] = f"tutorials/{path.name}"
        _add(files, config, f"tutorials/{path.name}", path.read_bytes())
        for name, content in page.images.items():
            _add(files, config, f"tutorials/{name}", content)
    for place, text in {**made, **reference.pages()}.items():
        _add(files, config, place, text)
    _add_linked(files, config)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Brings lists and links of a page into the form that they need here."""
    source = SOURCES.get(page.file.src_uri)
    if source is None:  # made for the site alone
        return markdown
    text = places.relinked(commonmark.for_site(markdown), source)[0]
    if source.endswith(".ipynb"):
        title, _, rest = text.partition("\n")
        text = f"{title}\n\n[Download this notebook]({Path(source).name})\n\n{rest}"
    return text


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Turns formulas into MathML, which browsers show without a script."""
    return FORMULA.sub(lambda match: _mathml(unescape(match[2] or match[3]), block=bool(match[3])), html)


def on_post_build(config: Any) -> None:
    """Checks the links of the finished site; under --strict a warning ends the build.

    The index of the search goes into a script as well, which is where pages that are read from a disk look for it.
    """
    index = Path(config.site_dir) / "search" / "search_index.json"
    script = f"var __index = {index.read_text(encoding='utf-8')}"
    index.with_suffix(".js").write_text(script, encoding="utf-8")
    for problem in links.problems_of_site(Path(config.site_dir)):
        log.warning(problem)


def _mathml(formula: str, block: bool) -> str:
    out: str = latex2mathml.converter.convert(formula, display="block" if block else "inline")
    return out


def _notebooks() -> list[Path]:
    """In the order in which the page on tutorials names them; what it does not name follows."""
    folder = ROOT / "tutorials"
    text = (folder / "README.md").read_text(encoding="utf-8") if (folder / "README.md").exists() else ""
    found = sorted(folder.glob("*.ipynb"))
    return sorted(found, key=lambda path: text.find(path.stem) if path.stem in text else len(text))


def _add_linked(files: Files, config: Any) -> None:
    """Adds the files without a page that some page leads to."""
    for place, source in list(SOURCES.items()):
        file = files.get_file_from_path(place)
        assert file is not None
        for path in places.relinked(file.content_string, source)[1]:
            at = ROOT / path
            if not at.is_file():
                log.warning(f"{source}: {path}: there is no such file")
            elif files.get_file_from_path(places.on_site(path)) is None:
                _add(files, config, places.on_site(path), at.read_bytes())


def _add(files: Files, config: Any, path: str, content: str | bytes) -> None:
    files.append(File.generated(config, path, content=content))
