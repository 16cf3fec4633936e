"""What Pyro and torch keep for the whole process, as it was before Ctrl-C came while they changed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from pyro.poutine.runtime import _DIM_ALLOCATOR, _PYRO_STACK

from crowdppl.process.turns import TURN


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
