"""Torch's device, precision and random streams, memory limits and interrupts of a fit."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from types import FrameType
from typing import Any, Protocol

import torch
from pyro.poutine.runtime import _DIM_ALLOCATOR, _PYRO_STACK
from torch import nn

from crowdppl.errors import MemoryShortageError, MethodError

ALLOCATORS = ("can't allocate memory", "not enough memory")
"""What torch's allocators of main memory say, on Linux and on Windows, in an error without a class of its own."""


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that memory is too small, whosever it is."""
    said = isinstance(error, RuntimeError) and any(text in str(error) for text in ALLOCATORS)
    return said or isinstance(error, MemoryError | torch.OutOfMemoryError)


class Sizes(Protocol):
    """What of the data decides how much memory a fit takes."""

    @property
    def n_annotators(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def n_labels(self) -> int: ...


@contextmanager
def memory_errors_explained(name: str, data: Sizes) -> Iterator[None]:
    """What runs inside and finds too little memory fails with the sizes that matter, and a remedy.

    Args:
        name: of the method.
        data: the annotations.

    Raises:
        MemoryShortageError: in place of an allocator's error.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_shortage(error) or isinstance(error, MemoryShortageError):
            raise
        raise MemoryShortageError(
            f"{name} needs more memory than there is, for {data.n_labels:,} labels of {data.n_annotators:,} "
            f"annotators and {data.n_classes:,} classes ({data.n_annotators * data.n_classes**2:,} numbers in one "
            "table of confusions): merge rare classes, leave out annotators of few labels, or take a method with "
            f"fewer numbers an annotator (one_coin has one): {(str(error) or type(error).__name__).splitlines()[0]}"
        ) from error


TURN = RLock()
"""Held while a story runs, or a global setting is another than the user's; others wait."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The global streams from a seed on; afterwards they are where they were.

    Args:
        seed: a whole number, as ``torch.manual_seed`` takes it.
    """
    with TURN, torch.random.fork_rng():
        seed_streams(seed)
        yield


def seed_streams(seed: int) -> None:
    """Sets the global streams of all devices to a seed.

    Where there is no GPU, not by ``torch.manual_seed``: that notes for GPUs which may come where it was called
    from, a stack's worth of text that is kept for good, and takes longer than to run a story does.
    """
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Ctrl-C inside leaves Pyro's handlers, its plates and torch's gradients as they were.

    One that comes just as a plate is left would leave it entered for good ("duplicate plate"), and no story would
    run again.

    Raises:
        KeyboardInterrupt: at Ctrl-C.
    """
    with TURN:
        stack, plates, gradients = list(_PYRO_STACK), list(_DIM_ALLOCATOR._stack), torch.is_grad_enabled()
    try:
        yield
    except KeyboardInterrupt:
        with TURN:
            _PYRO_STACK[:], _DIM_ALLOCATOR._stack[:] = stack, plates
        torch.set_grad_enabled(gradients)
        raise


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


def check_device(name: object) -> str:
    """The name of a device that torch sees; "auto" is a GPU where there is one.

    Args:
        name: "cpu", "cuda", "cuda:N", "auto", or a ``torch.device``.

    Raises:
        MethodError: for another name, or a GPU that torch does not see.
    """
    found = str(name) if isinstance(name, torch.device) else name
    if found == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not isinstance(found, str) or re.fullmatch(r"cpu|cuda(:\d+)?", found) is None:
        raise MethodError(f"device={found!r} must be 'cpu', 'cuda', 'cuda:N' or 'auto'")
    if found.startswith("cuda") and not torch.cuda.is_available():
        raise MethodError(f"device={found!r}, but torch sees no GPU; use device='cpu' or 'auto'")
    if int(found.partition(":")[2] or 0) >= max(1, torch.cuda.device_count()):
        raise MethodError(f"device={found!r}, but torch sees {torch.cuda.device_count()} GPUs, from 0")
    return found


def device_or_cpu(name: object) -> str:
    """The device that a result names, or the CPU where this machine has none such."""
    try:
        return check_device(name)
    except MethodError:
        return "cpu"


def device_of(network: nn.Module) -> torch.device:
    """Where a network's weights are; the CPU for one without any."""
    return next((x.device for x in network.parameters()), torch.device("cpu"))


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Lets torch make new tensors in a precision; that of before comes back whatever happens, and threads wait.

    Fits are in float64. Networks are in float32 within them, too: one that adds noise, or numbers that say where a
    word stands, would else mix precisions.
    """
    with TURN:
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


@contextmanager
def moved_to(network: nn.Module, device: str | torch.device) -> Iterator[nn.Module]:
    """The network on a device, and afterwards where it was."""
    before = device_of(network)
    try:
        yield network.to(device)
    finally:
        network.to(before)
