"""Hooks of MkDocs: README and its like, and notebooks, become pages; their links are adapted to the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from docs.making import benchmarks, reports  # noqa: E402
from docs.making.notebooks import page_of  # noqa: E402

PAGES = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tutorials/README.md": "tutorials/index.md",
}
"""Files of the repository outside docs, and the pages that show them."""
BOOSTED = ("methods/dawid_skene.md", "methods/bradley_terry.md", "methods/item_difficulty.md")
"""Pages that a search shows before others of their words."""
MEASURED = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
HOMES = benchmarks.homes(MEASURED)

LINK = re.compile(r"\]\(([\w./-]+)(#[\w-]+)?\)")


def place(path: str) -> str:
    """The page of a file of the repository; files without a page go along below "files"."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("tutorials/"):
        return path.removesuffix(".ipynb") + ".md" if path.endswith(".ipynb") else path
    return f"files/{path}"


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages, pictures and downloads that do not lie in docs."""
    for source, page in PAGES.items():
        add(files, config, page, (ROOT / source).read_text(encoding="utf-8"))
    for name, text in benchmarks.split(MEASURED).items():
        add(files, config, f"benchmarks/{name}.md", text)
    for path in sorted((ROOT / "tutorials").glob("*.ipynb")):
        text, images = page_of(path)
        add(files, config, f"tutorials/{path.stem}.md", text)
        add(files, config, f"tutorials/{path.name}", path.read_bytes())
        for name, content in images.items():
            add(files, config, f"tutorials/{name}", content)
    for name, content in reports.files().items():
        add(files, config, f"reports/{name}", content)
    for name in ("CITATION.cff", "LICENSE", *(f"models/{path.name}" for path in ROOT.glob("models/*.py"))):
        add(files, config, f"files/{name}", (ROOT / name).read_bytes())
    return files


def on_config(config: Any) -> Any:
    """Shows the version below each page."""
    version = re.search(r'^__version__ = "(.+)"', (ROOT / "crowdppl" / "__init__.py").read_text(), re.MULTILINE)
    assert version is not None, "crowdppl/__init__.py says the version"
    config.copyright = f"crowdppl {version[1]}"
    return config


def add(files: Files, config: Any, page: str, content: str | bytes) -> None:
    """Adds a file that is made here."""
    files.append(File.generated(config, page, content=content))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links of the repository become links of the site."""
    here = page.file.src_uri
    if here in BOOSTED:
        page.meta["search"] = {"boost": 3}
    sources = {name: path for path, name in PAGES.items()}
    source = sources.get(here, here if here.startswith("tutorials/") else f"docs/{here}")
    if here == "benchmarks.md":
        return benchmarks.overview(MEASURED)
    if here.startswith("benchmarks/"):
        source = "docs/benchmarks.md"

    if here == "report.md":
        markdown = markdown.replace("\n## ", f"\n{reports.cards()}\n\n## ", 1)
    if (page_of_kind := here.removeprefix("kinds/").removesuffix(".md")) in reports.REPORTS:
        markdown = f"{markdown}\n## A report\n\n{reports.links(page_of_kind, '../reports')}\n"

    def moved(match: re.Match[str]) -> str:
        path = normpath(f"{dirname(source)}/{match[1]}".lstrip("/"))
        if not (ROOT / path).is_file() or place(path) == here:
            return match[0]  # MkDocs warns of a file that is not there; a page's own source is a download
        page = place(path)
        if page == "benchmarks.md" and match[2]:
            page = f"benchmarks/{HOMES[match[2][1:]]}.md"
        return f"]({relpath(page, dirname(here) or '.')}{match[2] or ''})"

    return LINK.sub(moved, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Wide tables scroll in a box that keys reach."""
    return re.sub(r"<table>.*?</table>", r'<div class="scroll" tabindex="0">\g<0></div>', html, flags=re.DOTALL)


def on_post_page(output: str, **_: Any) -> str:
    """The theme's box of search results gets the name that it lacks."""
    return re.sub(r'data-md-component="search" role="dialog"', r'\g<0> aria-label="Search"', output)
