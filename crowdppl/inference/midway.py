"""Where an epoch stands between two of its steps, so that a checkpoint may be of there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from crowdppl.inference.checkpoints import Arrays, Checkpoint, cut


class Midway:
    """The steps of epochs: after every so many, a checkpoint is written, from which an epoch goes on.

    It keeps the number of steps that have been, where the global random streams stand, and what the epoch adds.

    Attributes:
        kept: what a checkpoint told of an epoch that was cut off, by name; empty elsewhere.
    """

    def __init__(self) -> None:
        self.kept: Arrays = {}
        self._every: int | None = None
        self._write: Callable[[], None] = lambda: None

    def into(self, checkpoint: Checkpoint | None, every: int | None) -> None:
        """Where it is written, and after how many steps each; None for never."""
        if checkpoint is not None:
            self._every, self._write = every, checkpoint.write

    def arrays(self) -> Arrays:
        """What is kept, as tensors by name; nothing between two epochs."""
        return {f"midway.{name}": x for name, x in self.kept.items()}

    def restore(self, arrays: Mapping[str, Tensor]) -> None:
        """Takes back what ``arrays`` gave."""
        self.kept = cut(arrays, "midway")

    def steps(self, n: int, more: Callable[[], Mapping[str, Tensor]], last: bool = False) -> Iterator[int]:
        """Numbers of the steps of an epoch that are still to be made; call it once the streams are seeded.

        Args:
            n: steps of the epoch.
            more: called before a checkpoint is written: what else the epoch goes on from.
            last: whether one is written after the last step, too.
        """
        first = int(self.kept["step"]) if self.kept else 0
        _put_streams(cut(self.kept, "stream"))
        self.kept = {}
        for step in range(first, n):
            yield step
            done = step + 1
            if self._every is not None and (last if done == n else done % self._every == 0):
                self.kept = {"step": torch.tensor(done), **_streams(), **more()}
                self._write()
                self.kept = {}


def _streams() -> Arrays:
    """Where torch's global random streams stand: the CPU's, and that of each GPU."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"stream.cpu": torch.get_rng_state(), **{f"stream.{n}": x for n, x in enumerate(gpus)}}


def _put_streams(kept: Mapping[str, Tensor]) -> None:
    """Sets those streams; a GPU that was not there, or no longer is, is left out."""
    if kept:
        torch.set_rng_state(kept["cpu"])
    for n in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        if str(n) in kept:
            torch.cuda.set_rng_state(kept[str(n)], n)
