"""Links: those of the Markdown sources and notebooks, and those of the built site. Nothing is asked over a network.

`python -m docs.making.links` checks the sources; the build of the site checks its pages (``hooks``).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.benchmarks.results import ROOT

FENCE = re.compile(r"^ *(```+|~~~+)")
CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
INLINE = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^\s)>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINED = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)", re.MULTILINE)
AUTOMATIC = re.compile(r"<(https?://[^>\s]*)>")
HTML = re.compile(r"""\b(?:href|src)=["']([^"']*)["']""")
HEADING = re.compile(r"^ {0,3}#{1,6} +(.+?)(?: +#+)? *$")
HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}(?::\d+)?")


def sources(root: Path = ROOT) -> list[Path]:
    """What people read: Markdown at the top and below docs, and the notebooks."""
    patterns = ("*.md", "docs/**/*.md", "tutorials/*.md", "tutorials/*.ipynb")
    return sorted(path for pattern in patterns for path in root.glob(pattern))


def problems_of_sources(paths: Iterable[Path], root: Path = ROOT) -> list[str]:
    """What is wrong with the links of some sources: "file: link: reason", one each.

    A relative link must lead to a file or folder of the checkout, and its anchor to a heading there. A link to
    elsewhere must look like one.
    """
    out = []
    for path in paths:
        name = path.relative_to(root).as_posix()
        out += [f"{name}: {link}: {why}" for link in links(path) if (why := _wrong(link, path, root))]
    return out


def links(path: Path) -> list[str]:
    """The links of a Markdown file or a notebook, code left out."""
    text = "\n".join(prose(path))
    found = [match[1] for pattern in (INLINE, DEFINED, AUTOMATIC, HTML) for match in pattern.finditer(text)]
    return sorted({link for link in found if link})


def prose(path: Path) -> Iterator[str]:
    """The lines of a file that are no code, code in lines left out."""
    for line in lines_without_fences(markdown_of(path)):
        yield CODE.sub("", line)


def markdown_of(path: Path) -> str:
    """A Markdown file, or the Markdown cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join("".join(cell["source"]) for cell in cells)


def lines_without_fences(text: str) -> Iterator[str]:
    """Lines outside of fenced code."""
    fence = ""
    for line in text.splitlines():
        match = FENCE.match(line)
        if fence:
            fence = "" if match and match[1].startswith(fence) else fence
        elif match:
            fence = match[1]
        else:
            yield line


@cache
def anchors(path: Path) -> frozenset[str]:
    """Anchors of a file's headings, as repositories and the site make them: "What it is?" has "what-it-is"."""
    found: dict[str, int] = {}
    for line in lines_without_fences(markdown_of(path)):
        if match := HEADING.match(line):
            slug = slug_of(match[1])
            found[slug] = found.get(slug, -1) + 1
    return frozenset(slug if not i else f"{slug}-{i}" for slug, n in found.items() for i in range(n + 1))


def slug_of(heading: str) -> str:
    """The anchor of a heading: lower case, words joined by hyphens, markup and punctuation dropped."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain).strip())


def _wrong(link: str, path: Path, root: Path) -> str:
    """Why a link of a source cannot be right; empty where it can."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return badly_formed(link)
    if link.startswith("/"):
        return "starts at the root of a server; make it relative"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(root.resolve()):
        return "leads out of the checkout"
    if not target.exists():
        return "there is no such file"
    if parts.fragment and target.suffix in {".md", ".ipynb"} and parts.fragment not in anchors(target):
        return f"{target.name} has no heading with this anchor"
    return ""


def badly_formed(link: str) -> str:
    """Why a link to elsewhere cannot be one; empty where it can."""
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return "" if re.fullmatch(r"[^@\s]+@[^@\s]+\.\w+", parts.path) else "no address"
    if parts.scheme not in {"http", "https"}:
        return f"the scheme {parts.scheme!r} is not http, https or mailto"
    if not HOST.fullmatch(parts.netloc.lower()):
        return f"{parts.netloc!r} is no host"
    return "" if re.fullmatch(r"[\x21-\x7e]+", link) else "has characters that must be escaped"


class Page(HTMLParser):
    """What a page of the site defines and asks for.

    Attributes:
        ids: its anchors.
        leads: addresses that a reader may follow.
        loads: addresses that a browser fetches by itself.
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: set[str] = set()
        self.leads: set[str] = set()
        self.loads: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes anchors and addresses of a tag."""
        given = {name: value for name, value in attrs if value}
        self.ids |= {given[name] for name in ("id", "name") if name in given and (name == "id" or tag == "a")}
        if "href" in given:
            (self.loads if tag == "link" else self.leads).add(given["href"])
        self.loads |= {given[name] for name in ("src", "poster", "data") if name in given}

    handle_startendtag = handle_starttag


def problems_of_site(site: Path) -> list[str]:
    """What is wrong with the links of a built site: "page: link: reason", one each.

    Relative links must lead to files of the site and their anchors to elements there. Nothing that a browser
    fetches by itself may come from elsewhere, so that the site works offline.
    """
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    out = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for link in sorted(page.leads | page.loads):
            if why := _wrong_on_site(link, path, pages, site, loaded=link in page.loads):
                out.append(f"{name}: {link}: {why}")
    return out


def _wrong_on_site(link: str, path: Path, pages: dict[Path, Page], site: Path, loaded: bool) -> str:
    parts = urlsplit(link)
    if parts.scheme == "data":
        return ""
    if parts.scheme or parts.netloc:
        return "is fetched from elsewhere, which fails offline" if loaded else badly_formed(link)
    start = (
        site if link.startswith("/") else path.parent
    )  # 404.html, which any address may show, starts at the root
    target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return "there is no such file on the site"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        return f"{target.name} has no such anchor"
    return ""


if __name__ == "__main__":
    found = problems_of_sources(sources())
    print("\n".join(found) or "all links of the sources lead somewhere")
    sys.exit(bool(found))
