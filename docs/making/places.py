"""Where a file of the checkout stands on the site, and its links as they have to read there."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from docs.making.links import CODE, FENCE, HTML, INLINE

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tutorials/README.md": "tutorials/index.md",
}
"""Pages that are made of files outside of docs, which are not copied."""


def on_site(path: str) -> str:
    """Where a file of the checkout is found below the site's sources: "docs/benchmarks.md" is "benchmarks.md".

    A file that has no page of its own ("LICENSE", "models/glad.py") goes along below "files".
    """
    if path in PAGES:
        return PAGES[path]
    if path in {"tutorials", "docs/methods"}:
        return f"{path.removeprefix('docs/')}/index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("tutorials/"):
        return path.removesuffix(".ipynb") + ".md" if path.endswith(".ipynb") else path
    return f"files/{path}"


def relinked(text: str, source: str) -> tuple[str, list[str]]:
    """Markdown as it has to read on the site, and the files without a page that it leads to.

    Args:
        text: Markdown.
        source: the file of the checkout that it comes from, to which its links are relative.
    """
    here, more = PurePosixPath(source).parent, set[str]()

    def moved(link: str) -> str:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or not parts.path or link.startswith("/"):
            return link
        path = os.path.normpath(here / parts.path)
        place = on_site(path)
        if place.startswith("files/"):
            more.add(path)
        new = os.path.relpath(place, PurePosixPath(on_site(source)).parent)
        return f"{new}#{parts.fragment}" if parts.fragment else new

    def line_moved(line: str) -> str:
        code = [(match.start(), match.end()) for match in CODE.finditer(line)]

        def one(match: re.Match[str]) -> str:
            if any(start <= match.start(1) < end for start, end in code):
                return match[0]
            at, to = match.start(1) - match.start(), match.end(1) - match.start()
            return match[0][:at] + moved(match[1]) + match[0][to:]

        return HTML.sub(one, INLINE.sub(one, line))

    out, fence = [], ""
    for line in text.split("\n"):
        match = FENCE.match(line)
        if fence:
            fence = "" if match and match[1].startswith(fence) else fence
            out.append(line)
        elif match:
            fence = match[1]
            out.append(line)
        else:
            out.append(line_moved(line))
    return "\n".join(out), sorted(more)
