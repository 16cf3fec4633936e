"""A notebook as a page of the site: its text, its code, and the outputs that were committed with it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
IMAGES = {"image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpg"}
"""What is shown of an output that has several forms, first come; then HTML, Markdown and text."""


class NotebookError(ValueError):
    """A notebook cannot be shown as it was committed."""


@dataclass
class Shown:
    """A notebook's page.

    Attributes:
        text: Markdown.
        images: by file name, as the page refers to them.
    """

    text: str = ""
    images: dict[str, bytes] = field(default_factory=dict)


def shown(name: str, text: str) -> Shown:
    """The page of a notebook.

    Args:
        name: of its file, without the suffix; names of images begin with it.
        text: its JSON.

    Raises:
        NotebookError: when it has no title, is of an old format, or an output is an error.
    """
    notebook = json.loads(text)
    if notebook.get("nbformat") != 4:
        raise NotebookError(f"{name}.ipynb has format {notebook.get('nbformat')}; save it in format 4")
    out, parts, heading = Shown(), list[str](), ""
    for number, cell in enumerate(notebook["cells"], 1):
        source = _joined(cell["source"]).strip("\n")
        if cell["cell_type"] == "markdown":
            parts.append(source)
            heading = next(iter(re.findall(r"^#+ (.+)$", source, flags=re.MULTILINE)[::-1]), heading)
        elif cell["cell_type"] == "code" and source:
            parts.append(_fenced(source, "python"))
            for i, output in enumerate(cell["outputs"], 1):
                parts.append(_output(output, out, f"{name}-{number}-{i}", heading, f"{name}.ipynb, cell {number}"))
    if not parts or not re.match(r"# \S", parts[0]):
        raise NotebookError(f"{name}.ipynb does not begin with a title; let its first cell begin with '# '")
    out.text = "\n\n".join(parts) + "\n"
    return out


def _output(output: Mapping[str, Any], out: Shown, name: str, heading: str, where: str) -> str:
    """One output in Markdown; an image goes to a file of its own."""
    kind = output["output_type"]
    if kind == "error":
        raise NotebookError(f"{where} was committed with an error: {output['ename']}: {output['evalue']}")
    if kind == "stream":
        return _fenced(_plain(output["text"]), "text")
    data = output["data"]
    for form, suffix in IMAGES.items():
        if form in data:
            content = _joined(data[form])
            out.images[f"{name}.{suffix}"] = content.encode() if suffix == "svg" else base64.b64decode(content)
            return f"![{heading or name}]({name}.{suffix})"
    if "text/html" in data:
        lines = [line for line in _joined(data["text/html"]).splitlines() if line.strip()]
        return "\n".join(['<div class="output">', *lines, "</div>"])
    if "text/markdown" in data:
        return _joined(data["text/markdown"])
    if "text/plain" not in data:
        raise NotebookError(
            f"{where} has an output in {', '.join(data) or 'no form'}, none of which a page can show"
        )
    return _fenced(_plain(data["text/plain"]), "text")


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _plain(text: str | list[str]) -> str:
    """Text without colours, and of lines that were written over, such as progress bars, the last state."""
    lines = ESCAPES.sub("", _joined(text)).rstrip("\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
