"""The memory that is left, and the refusal of what would not fit into it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from crowdppl.errors import MemoryShortageError

MACHINE, CONTAINERS = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
LIMITS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Of containers, version 2 and 1: the limit, what is used, and where it says how much of that is a mere cache."""
FEWEST = "one_coin"
"""The method of least memory, which is advised where others need too much."""
ALLOCATORS = ("can't allocate memory", "not enough memory")
"""Texts of torch's RuntimeError when main memory is short, on Linux and on Windows."""
COPIES, TRUTHS = 12, 2
"""Arrays of the size of a method's largest site or table, and of the truth's probabilities, that a fit holds at a
time: of Dawid-Skene by em, 14 were measured."""
BYTES = 8
"""Of a number."""


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
    of_torch = isinstance(error, RuntimeError) and any(text in str(error) for text in ALLOCATORS)
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
