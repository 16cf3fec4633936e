"""An extension of Griffe, which reads the docstrings of the reference: the house's own habits, spelt out for it."""

from __future__ import annotations

import re
from typing import Any

import griffe

TOGETHER = re.compile(r"^( {4})(\*{0,2}\w+(?:, \*{0,2}\w+)+): (.*(?:\n {5,}\S.*)*)", re.MULTILINE)


class HouseStyle(griffe.Extension):
    """Rewrites docstrings before they are parsed, and shows functions that a class takes over as its methods."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            returns = obj.returns if isinstance(obj, griffe.Function) else None
            obj.docstring.value = spelt(obj.docstring.value, "" if returns is None else str(returns))

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Called when everything is loaded: ``save = archive.save`` in a class body is the method ``save``."""
        for cls in _classes(pkg):
            for name, member in list(cls.members.items()):
                value = member.value if isinstance(member, griffe.Attribute) else None
                if isinstance(value, griffe.Expr):
                    _take_over(cls, name, str(value))


def spelt(docstring: str, returns: str = "") -> str:
    """A docstring as Griffe wants it.

    Several arguments that are explained together are explained one by one. What is returned begins with its type,
    so that a colon in its description is not taken for the end of one. A paragraph ends in one colon, not two.

    Args:
        docstring: as it is in the source.
        returns: the annotated type of what the function returns.
    """

    def each(match: re.Match[str]) -> str:
        indent, names, text = match.groups()
        return "\n".join(f"{indent}{name}: {text}" for name in names.split(", "))

    out = TOGETHER.sub(each, docstring)
    if returns:
        out = re.sub(r"^(Returns:\n +)(?=\S)", lambda match: f"{match[1]}{returns}: ", out, flags=re.MULTILINE)
    return re.sub(r"::$", ":", out, flags=re.MULTILINE)


def _classes(module: griffe.Module) -> list[griffe.Class]:
    found = [member for member in module.members.values() if isinstance(member, griffe.Class)]
    for member in module.members.values():
        if isinstance(member, griffe.Module):
            found += _classes(member)
    return found


def _take_over(cls: griffe.Class, name: str, value: str) -> None:
    module, _, rest = value.partition(".")
    try:  # as the module sees it: in the class, `doubts = doubts.doubts` would lead to itself
        path = cls.module.resolve(module)
        function = cls.modules_collection[f"{path}.{rest}" if rest else path]
    except (griffe.NameResolutionError, KeyError):  # a value from elsewhere, such as a number
        return
    if isinstance(function, griffe.Function):
        _, *others = function.parameters  # the first is the object itself
        method = griffe.Function(
            name,
            parameters=griffe.Parameters(*others),
            returns=function.returns,
            docstring=function.docstring,
            lineno=cls.members[name].lineno,
        )
        cls.set_member(name, method)
