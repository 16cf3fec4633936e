"""Warnings that point to the line of the user's program at which they can be acted on."""

from __future__ import annotations

import sys
import warnings

LIBRARY = __name__.partition(".")[0]


def tell(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Warns at the innermost line outside this library, however deep inside it the reason was found.

    Args:
        message: what is to be said, or a warning that says it.
        category: of a message that is text.
    """
    frame, level = sys._getframe(1), 2
    while str(frame.f_globals.get("__name__")).partition(".")[0] == LIBRARY and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
