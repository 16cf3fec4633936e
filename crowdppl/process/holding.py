"""Ctrl-C that comes once a fit has found something: held back until that is put together, so that it stays."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Hold:
    """A handler of Ctrl-C that notes the first one, and raises KeyboardInterrupt at the second.

    Args:
        before: the handler that comes back.
        empty: whether nothing was found yet that could be lost, so that Ctrl-C raises as ever.
        came: whether Ctrl-C has come already, and is still to be heeded.

    Attributes:
        through: whether somebody waits for Ctrl-C (``let_through``), so that it raises as ever.
    """

    def __init__(self, before: Any = None, *, empty: bool = False, came: bool = False) -> None:
        self.before, self.empty, self.came, self.through = before, empty, came, False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """What Python calls at Ctrl-C.

        Raises:
            KeyboardInterrupt: unless this is the first to be held back.
        """
        if self.through:
            self.through = self.empty = False  # here, because the next may come before whoever waits has cleared up
            raise KeyboardInterrupt
        if self.empty:
            raise KeyboardInterrupt
        if self.came:
            self.restore()
            raise KeyboardInterrupt
        self.came = True

    def restore(self) -> None:
        """Brings the handler of before back, if nobody has put in another."""
        if _current() is self:
            signal.signal(signal.SIGINT, self.before)


@contextmanager
def held_back(*, empty: bool = False) -> Iterator[Hold]:
    """Ctrl-C inside is noted in what this yields (``came``, to be asked for afterwards); a second one raises.

    Nothing changes in threads, which Ctrl-C does not reach, or where somebody has put in a handler of their own.
    Within another hold that holds back, both know of a Ctrl-C.

    Args:
        empty: whether there is nothing to lose yet, so that Ctrl-C raises as ever until the first ``let_through``
            inside has ended.

    Raises:
        KeyboardInterrupt: at the second Ctrl-C, and at any while nothing is held back.
    """
    handler = signal.getsignal(signal.SIGINT) if _in_main() else None
    outer = handler if isinstance(handler, Hold) and not (handler.empty or handler.through) else None
    hold = Hold(handler, empty=empty and outer is None, came=outer is not None and outer.came)
    try:
        if isinstance(handler, Hold) or handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, hold)
        yield hold
    finally:
        hold.restore()
        if outer is not None:
            outer.came |= hold.came


@contextmanager
def let_through() -> Iterator[None]:
    """Ctrl-C inside raises as ever, within a hold, too, for whoever catches it; and is held back afterwards.

    Raises:
        KeyboardInterrupt: at Ctrl-C, and at once where one was held back before.
    """
    hold = _current()
    if hold is None:
        yield
        return
    before, hold.through = hold.through, True
    try:
        if hold.came:
            hold.came = False
            raise KeyboardInterrupt
        yield
    finally:
        hold.through, hold.empty = before, False


def _current() -> Hold | None:
    """The innermost hold, in the only thread that Ctrl-C reaches."""
    handler = signal.getsignal(signal.SIGINT) if _in_main() else None
    return handler if isinstance(handler, Hold) else None


def _in_main() -> bool:
    return threading.current_thread() is threading.main_thread()
