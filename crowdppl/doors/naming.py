"""What was given, as messages name it: the value itself where it is short, or its kind."""

from __future__ import annotations

from typing import Any

LONGEST = 80
"""Letters of a value in a message."""


def shown(value: object) -> str:
    """A wrong value as messages show it; of what would fill the page, such as a table, its kind."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = ""
    return text if 0 < len(text) <= LONGEST and "\n" not in text else kind_of(value)


def kind_of(value: Any) -> str:
    """What something is, as messages say it: "a list", "an Annotations"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
