"""Torch's device, precision, threads and random streams, Pyro's state after Ctrl-C, and the memory that is left."""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from pyro.poutine.runtime import _DIM_ALLOCATOR, _PYRO_STACK
from torch import nn

from crowdppl.core.validation import shown
from crowdppl.errors import MemoryShortageError, MethodError

TURN = RLock()
"""Lock: Pyro's handlers and torch's global settings are process-wide."""
MACHINE, CONTAINERS = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
LIMITS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Of containers, version 2 and 1: the limit, what is used, and where it says how much of that is a mere cache."""
FEWEST = "one_coin"
"""The method of least memory, which is advised where others need too much."""
COPIES, TRUTHS = 12, 2
"""Arrays of the size of a method's largest site or table, and of the truth's probabilities, that a fit holds at a
time: of Dawid-Skene by em, 14 were measured."""
BYTES = 8
"""Of a number."""
LABELS, WEIGHTS = 50_000, 1_000_000
"""Of a pass, and of networks, for which a thread is worth while."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds torch's global random streams; restores their states afterwards."""
    with TURN, torch.random.fork_rng():
        seed_streams(seed)
        yield


def seed_streams(seed: int) -> None:
    """Seeds the global random streams of all devices."""
    # Without a GPU, torch.manual_seed keeps a stack trace for GPUs to come, which takes longer than to run a model.
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def pyro_state_kept() -> Iterator[None]:
    """Ctrl-C inside leaves Pyro's handlers and plates and torch's gradients as they were; else no model runs."""
    with TURN:
        stack, plates, gradients = list(_PYRO_STACK), list(_DIM_ALLOCATOR._stack), torch.is_grad_enabled()
    try:
        yield
    except KeyboardInterrupt:
        with TURN:
            _PYRO_STACK[:], _DIM_ALLOCATOR._stack[:] = stack, plates
        torch.set_grad_enabled(gradients)
        raise


def check_device(name: object) -> str:
    """The name of a device that torch sees: "cpu", "cuda", "cuda:N" or a ``torch.device``; "auto": a GPU if any."""
    found = str(name) if isinstance(name, torch.device) else name
    if isinstance(found, str) and found == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not isinstance(found, str) or re.fullmatch(r"cpu|cuda(:\d+)?", found) is None:
        raise MethodError(f"device={shown(found)} must be 'cpu', 'cuda', 'cuda:N' or 'auto'")
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
    """Sets torch's default precision; restores it afterwards. Fits use float64, networks within them float32."""
    with TURN:
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


@contextmanager
def few_threads(n_labels: int, networks: Iterable[nn.Module] = ()) -> Iterator[None]:
    """Lets torch use as many threads as so much work deserves, at most the caller's; restores their number.

    Waiting threads spin: beside busy processes, two threads take ten times the processor time of one. Their number
    depends on data and model alone, so that results do not depend on how busy a machine is.
    """
    weights = sum(x.numel() for network in networks for x in network.parameters())
    with TURN:
        before = torch.get_num_threads()
        torch.set_num_threads(min(before, max(1, n_labels // LABELS, weights // WEIGHTS)))
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextmanager
def moved_to(network: nn.Module, device: str | torch.device) -> Iterator[nn.Module]:
    """The network on a device, and afterwards where it was."""
    before = device_of(network)
    try:
        yield network.to(device)
    finally:
        network.to(before)


def available() -> int:
    """Bytes that may still be taken, of the machine and of its container; beyond all bounds where Linux is not."""
    machine = _number(MACHINE, "MemAvailable:") * 1024 if MACHINE.exists() else sys.maxsize
    return min(machine, *(_of_container(*names) for names in LIMITS))


def require_memory(what: str, n_bytes: int, remedy: str) -> None:
    """Refuses what needs more bytes than are left by MemoryShortageError: a killed process gives no reason."""
    left = available()
    if n_bytes > left:
        raise MemoryShortageError(
            f"{what} takes at least {n_bytes / 1e9:,.2g} GB of memory, and {left / 1e9:,.2g} GB are left; {remedy}"
        )


def _of_container(limit: str, used: str, stat: str, cache: str) -> int:
    """What a container's limit leaves; beyond all bounds without one."""
    if not (CONTAINERS / limit).exists() or not (text := (CONTAINERS / limit).read_text().strip()).isdigit():
        return sys.maxsize
    return int(text) - int((CONTAINERS / used).read_text()) + _number(CONTAINERS / stat, cache)


def _number(file: Path, key: str) -> int:
    """The number that stands behind a key in a file of lines "key number"."""
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.split()[:1] == [key])


def is_shortage(error: BaseException) -> bool:
    """Whether an error means that memory is too small."""
    texts = ("can't allocate memory", "not enough memory")  # of torch, on Linux and on Windows
    of_torch = isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
    return of_torch or isinstance(error, MemoryError | torch.OutOfMemoryError)


@contextmanager
def enough_memory(name: str, data: Any, shapes: Sequence[str] = ()) -> Iterator[None]:
    """Refuses a method whose largest array does not fit, before anything is made; explains an allocator's error.

    ``shapes`` of sites and tables are words, as on a card; others than N, A, K, L are 1. MemoryShortageError has
    the sizes and a remedy.
    """
    sizes = {"N": data.n_items, "A": data.n_annotators, "K": data.n_classes, "L": data.n_answers}
    truths = BYTES * TRUTHS * data.n_items * data.n_classes
    what = f"{name} on {data.n_labels:,} labels of {data.n_annotators:,} annotators and {data.n_classes:,} classes"
    remedy = "merge rare classes, drop annotators of few labels"
    if name != FEWEST and truths < available():
        remedy += f", or use a method with fewer parameters an annotator, such as {FEWEST}"
    if shapes:
        largest = max(math.prod(sizes.get(word, 1) for word in shape.split()) for shape in shapes)
        require_memory(what, BYTES * COPIES * largest + truths, remedy)
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_shortage(error) or isinstance(error, MemoryShortageError):
            raise
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise MemoryShortageError(f"{what} needs more memory than there is; {remedy}: {said}") from error


MANY = 200_000
"""Items from which on memory that was freed is given back."""


def return_memory(n_items: int) -> None:
    """Gives freed memory back to the system: Arrow keeps it, and glibc does where small pieces lie between."""
    if n_items >= MANY:
        if "pyarrow" in sys.modules:
            sys.modules["pyarrow"].default_memory_pool().release_unused()
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)
