"""Processes that share one fit: sums over all of them, and errors that end all.

The processes are those of the default group of ``torch.distributed``, within ``together``. Elsewhere, sums are what
is given.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from threading import current_thread, main_thread
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from crowdppl.errors import CrowdpplError, ProcessError

Summed = TypeVar("Summed", bound="Tensor | np.ndarray | float")
T = TypeVar("T")
SIZES = 65_521
"""By which the sizes of sums are compared: a prime, so that its square is exact in float64."""


@dataclass
class _Together:
    """What a process knows: whether Ctrl-C was pressed in it, and the error with which another has left."""

    asked: bool = False
    ended: BaseException | None = None


_together: ContextVar[_Together | None] = ContextVar("together", default=None)


def group_size() -> int:
    """Processes in the default group of ``torch.distributed``; 1 where there is none."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def n_processes() -> int:
    """Processes that share the work at hand; 1 outside ``together``."""
    return 1 if _together.get() is None else dist.get_world_size()


def process() -> int:
    """The number of this one among them, from 0."""
    return 0 if _together.get() is None else dist.get_rank()


@contextmanager
def process_group(device: str = "cpu") -> Iterator[None]:
    """The group of the processes that torchrun started, each with a GPU of its own on "cuda"; none of one alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or group_size() > 1:
        yield
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def together(wait: float | None = None) -> Iterator[None]:
    """Work that the processes of the group share: each calls the same sums in the same order.

    An error in one ends all: the others raise it with its process, as one of the same class where it is of
    crowdppl, else as a ``ProcessError``. Ctrl-C in one is a ``KeyboardInterrupt`` in all, at the same sum; pressed
    a second time, it ends that process at once.

    Args:
        wait: seconds after which a process that has not come is an error in all others; None waits as long as the
            group does. Of a group of gloo; others have time limits of their own.
    """
    if group_size() == 1 or _together.get() is not None:
        yield
        return
    state = _Together()
    token = _together.set(state)
    try:
        with _interrupts_kept(state):
            if wait is not None and dist.get_backend() == "gloo":
                _wait(state, timedelta(seconds=wait))
            yield
            _exchange(None)  # of an error after the last sum, all hear
    except BaseException as error:
        if state.ended is None:
            _exchange(error, left=True)
        raise
    finally:
        _together.reset(token)


@contextmanager
def shared_errors() -> Iterator[None]:
    """A process's own part before a sum: where it fails in one, all raise its error there, and may go on alike."""
    try:
        yield
    except Exception as error:
        _exchange(error)
        raise


@contextmanager
def in_step() -> Iterator[None]:
    """A process's own part after which there is no sum: where it fails in one, all raise its error."""
    error: BaseException | None = None
    try:
        yield
    except (Exception, KeyboardInterrupt) as found:
        error = found
    _exchange(error)
    if error is not None:
        raise error


def reduced(x: Summed, how: Literal["sum", "max"] = "sum") -> Summed:
    """What each process has of a tensor, array or number, added up over the processes that share a fit.

    A model's ``setup`` and ``init`` call it for whatever they count of the labels, and say so on the card
    (``sharded=True``). Where one process has all items, it is what is given.

    Args:
        x: of the same shape in all processes.
        how: "sum", or "max" for the largest.

    Raises:
        ProcessError: where another process failed, or adds up something else.
        KeyboardInterrupt: where Ctrl-C was pressed in any.

    Examples:
        >>> crowdppl.primitives.reduced(crowdppl.anaesthetists().n_labels)
        315
    """
    found: list[Summed] = all_reduced([x], how)
    return found[0]


def all_reduced(given: Sequence[Any], how: Literal["sum", "max"] = "sum") -> list[Any]:
    """Several sums, as of ``reduced``, each in the type and on the device of what was given.

    One call to ``all_reduce``, of all numbers in one vector: of int64 where all are whole, modulo 2**64, else of
    float64. All processes get the same bits.
    """
    if n_processes() == 1:
        return list(given)
    # A number alone would be of torch's default precision.
    tensors = [torch.as_tensor(one, dtype=torch.float64 if isinstance(one, float) else None) for one in given]
    whole = all(not one.is_floating_point() for one in tensors)
    dtype = torch.int64 if whole else torch.float64
    flat = torch.cat([one.detach().reshape(-1).to(_device(), dtype) for one in tensors])
    _exchange(None, len(flat))
    _all_reduce(flat, dist.ReduceOp.SUM if how == "sum" else dist.ReduceOp.MAX)
    parts = flat.split([one.numel() for one in tensors])
    return [_like(one, part, own) for one, part, own in zip(given, parts, tensors, strict=True)]


def all_gathered(value: Any) -> list[Any]:
    """What each process has of a picklable value, in their order."""
    if n_processes() == 1:
        return [value]
    _exchange(None)
    every: list[Any] = [None] * dist.get_world_size()
    with _reaching():
        dist.all_gather_object(every, value)
    return every


def of_first(make: Callable[[], T]) -> T:
    """What the first process makes, in all; where it fails, all raise its error."""
    found = list[Any]([None])
    with in_step():
        if process() == 0:
            found[0] = make()
    if n_processes() > 1:
        with _reaching():
            dist.broadcast_object_list(found, 0)
    made: T = found[0]
    return made


def agreed(what: str, digest: int, remedy: str) -> None:
    """Refuses processes that differ in what all must share, by its digest, with a ``ProcessError``."""
    low, high = all_reduced([-digest, digest], "max")
    if -low != high:
        raise ProcessError(f"processes differ in {what}; {remedy}")


def _like(given: Any, flat: Tensor, tensor: Tensor) -> Any:
    """Summed numbers as they were given."""
    found = flat.reshape(tensor.shape).to(tensor.device, tensor.dtype)
    if isinstance(given, Tensor):
        return found
    return found.numpy() if isinstance(given, np.ndarray) else type(given)(found.item())


def _exchange(error: BaseException | None, size: int = 0, left: bool = False) -> None:
    """Tells the other processes of an error, and what is to be summed; raises where another has one."""
    state = _together.get()
    if state is None:
        return
    if state.ended is not None:
        raise state.ended
    asked, part = state.asked and error is None, size % SIZES
    told = torch.tensor([error is not None, left, asked, part, part**2], dtype=torch.float64, device=_device())
    _all_reduce(told, dist.ReduceOp.SUM)
    failed, gone, stopped, total, squares = told.tolist()
    state.asked &= not asked
    if failed:
        first = _first_error(error)
        state.ended = first if gone else None
        if error is None:
            raise first
    elif stopped:
        raise KeyboardInterrupt
    elif squares * dist.get_world_size() != total**2:
        state.ended = ProcessError(
            "processes are out of step: they sum different things; start all with the same call, on the same parts "
            "and version"
        )
        raise state.ended


def _all_reduce(x: Tensor, how: Any) -> None:
    """Sums in place."""
    with _reaching():
        dist.all_reduce(x, how)


@contextmanager
def _reaching() -> Iterator[None]:
    """Calls of the group: a process that has died ends the others."""
    try:
        yield
    except RuntimeError as error:
        state = _together.get()
        if state is not None:
            state.ended = ProcessError(f"another process ended, or cannot be reached: {error}")
            raise state.ended from error
        raise


def _wait(state: _Together, time: timedelta) -> None:
    """Waits for all processes, so long."""
    try:
        dist.monitored_barrier(timeout=time)
    except RuntimeError as error:
        state.ended = ProcessError(
            f"what processes compute together, such as intervals, is to be asked for in all of them: {error}"
        )
        raise state.ended from error


def _first_error(error: BaseException | None) -> BaseException:
    """The error of the first process that has one, as others raise it."""
    own = None if error is None else (_kind(error), f"{error}" if isinstance(error, CrowdpplError) else repr(error))
    every: list[Any] = [None] * dist.get_world_size()
    with _reaching():
        dist.all_gather_object(every, own)
    number, (kind, text) = next((n, x) for n, x in enumerate(every) if x is not None)
    found: BaseException = kind(f"process {number} of {len(every)} failed: {text}")
    return found


def _kind(error: BaseException) -> type[BaseException]:
    """The class by which others raise an error."""
    known = isinstance(error, CrowdpplError | KeyboardInterrupt)
    return type(error) if known else ProcessError


def _device() -> torch.device:
    """Where the group sums."""
    return (
        torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
    )


@contextmanager
def _interrupts_kept(state: _Together) -> Iterator[None]:
    """Ctrl-C is kept until the next sum, where all processes raise it; the second one acts at once."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def keep(*_: Any) -> None:
        state.asked = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
