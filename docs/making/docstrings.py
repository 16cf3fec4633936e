"""An extension of Griffe: arguments that a docstring explains together are explained one by one."""

from __future__ import annotations

import re
from typing import Any

import griffe

TOGETHER = re.compile(r"^( {4})(\*{0,2}\w+(?:, \*{0,2}\w+)+): (.*(?:\n {5,}\S.*)*)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            returns = obj.returns if isinstance(obj, griffe.Function) else None
            obj.docstring.value = rewritten(obj.docstring.value, "" if returns is None else str(returns))


def rewritten(docstring: str, returns: str = "") -> str:
    """A docstring as Griffe reads it: one argument a line, a type before what is returned, single colons."""

    def each(match: re.Match[str]) -> str:
        indent, names, text = match.groups()
        return "\n".join(f"{indent}{name}: {text}" for name in names.split(", "))

    out = TOGETHER.sub(each, docstring)
    if returns:
        out = re.sub(r"^(Returns:\n +)(?=\S)", lambda match: f"{match[1]}{returns}: ", out, flags=re.MULTILINE)
    return re.sub(r"::$", ":", out, flags=re.MULTILINE)
