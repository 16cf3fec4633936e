"""Fits that need more memory than there is, told by what asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch

from crowdppl.errors import MemoryShortageError

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
def told_of_shortage(name: str, data: Sizes) -> Iterator[None]:
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
