"""One thread at a time: Pyro's handlers, and torch's default type and streams, belong to the whole process."""

from __future__ import annotations

from threading import RLock

TURN = RLock()
"""Held while a story runs, or a global setting is another than the user's; others wait."""
