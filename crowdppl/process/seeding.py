"""torch's global random streams, for what draws from no stream of its own: stories, dropout, first weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from crowdppl.process.turns import TURN


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
