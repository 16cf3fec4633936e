"""A notebook as a page of the site: its text, its code and its stored outputs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def page_of(path: Path) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a notebook, and its pictures by file name.

    Raises:
        ValueError: when an output is an error.
    """
    parts, images = list[str](), dict[str, bytes]()
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], 1):
        source = "".join(cell["source"]).strip("\n")
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source:
            parts.append(f"```python\n{source}\n```")
            for i, output in enumerate(cell["outputs"], 1):
                name = f"{path.stem}-{number}-{i}.png"
                if "image/png" in output.get("data", {}):
                    images[name] = base64.b64decode("".join(output["data"]["image/png"]))
                    parts.append(f"![Output of the code above]({name})")
                else:
                    parts.append(shown(output, f"{path.name}, cell {number}"))
    title, *rest = parts
    return "\n\n".join([title, f"[Download this notebook]({path.name})", *rest]) + "\n", images


def shown(output: Mapping[str, Any], where: str) -> str:
    """An output that is no picture, in Markdown."""
    if output["output_type"] == "error":
        raise ValueError(f"{where} has an error as output: {output['ename']}: {output['evalue']}")
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "text/html" in data:
        lines = [line for line in "".join(data["text/html"]).splitlines() if line.strip()]
        return "\n".join(['<div class="output" tabindex="0">', *lines, "</div>"])
    text = "".join(data["text/plain"]).rstrip("\n")
    lines = [
        re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip("\r").rpartition("\r")[2] for line in text.split("\n")
    ]
    return "\n".join(["```{ .text .wrap }", *lines, "```"])
