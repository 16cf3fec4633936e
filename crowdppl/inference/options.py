"""Options of fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, cast

import numpy as np
import torch

from crowdppl.core.devices import check_device
from crowdppl.core.validation import (
    SEED,
    SEEDS,
    Count,
    NotNegative,
    Positive,
    Range,
    Whole,
    check_settings,
    refuse_unknown,
    shown,
)
from crowdppl.errors import MethodError

SESSION = ("callback", "progress", "dtype", "checkpoint", "checkpoint_every")
"""Options that belong to the session of a fit, and not to its result."""
Callback = Callable[[int, float], object]
Seed = Annotated[int, Range(SEED, lambda x: 0 <= x < SEEDS, whole=True)]


class FitOptions(TypedDict, total=False):
    """Settings of a fit, as keywords of ``fit``, where ``device`` may also be "auto" or a ``torch.device``."""

    seed: int
    device: str | torch.device
    dtype: torch.dtype | None
    tolerance: float | None
    max_iterations: int | None
    restarts: int
    chains: int
    draws: int
    warmup: int
    batch_size: int | None
    guide: str
    learning_rate: float
    checkpoint: str | Path | None
    checkpoint_every: int
    progress: bool
    callback: Callback | None


@dataclass(frozen=True)
class Options:
    """Settings of an engine.

    Attributes:
        seed: of every random number in the fit; from 0.
        device: "cpu", "cuda" or "cuda:n".
        dtype: precision of what has an entry an item or a label; None takes float64 below 1,000,000 labels
            and float32 from there, or from 10,000,000 pairs of item and class that are told apart. Parameters
            and sums over items are float64 always.
        tolerance: em, vb, laplace and pathfinder stop when the objective gains less than this share of its size.
            None takes 1e-8, or 1e-7 in float32, whose rounding hides less. svi takes all its steps, and has
            converged where the objective gained less than this share, 1e-3 for None, between the last two tenths.
            gibbs and nuts ignore it.
        max_iterations: of em, vb and laplace (None: 1,000), of a path of pathfinder (None: 250), and steps of svi
            (None: 2,000). Where vb looks ahead in vain, an iteration takes two passes over the labels.
        restarts: starts of em, vb, laplace and svi (votes, spectral, perturbed votes); the best objective wins. The
            chains of gibbs and nuts each have a start of their own, whatever the restarts.
        chains, draws, warmup: of gibbs and nuts; draws a chain. ``fit`` runs gibbs with up to 32 chains on small
            data. laplace makes so many draws in all; pathfinder, whose paths are as many as chains, keeps so many.
        batch_size: items a minibatch of vb or svi; None is full batch. The other engines refuse it.
        guide: "normal" or "point", vb's treatment of sites that are not conjugate.
        learning_rate: of svi, whose steps decay from it a hundredfold over the run; no other engine has one.
        checkpoint: a file that holds a fit by em, vb, gibbs, laplace or svi after some of its iterations, or epochs
            of a network; where it is there already, the fit goes on from it, to the result that it would have had.
            Beside it lie files whose names begin alike: of draws, of further starts, and of what is found before
            the first epoch (".trials": each trial of ``volume`` that scored, the end of the first training of
            ``patience``). Of processes that share a fit, the first one keeps it for all.
        checkpoint_every: iterations between two writes of it.
        progress: whether to show a progress bar.
        callback: called with (iteration, objective) after every iteration, sweep or transition. The objective of
            gibbs is the mean log-likelihood of its chains; that of nuts, whose chains run one after another, the
            log density of the one that moves, in unconstrained space.

    Raises:
        MethodError: for a value that makes no sense, such as a number of draws that is not whole.
    """

    seed: Seed = 0
    device: str = "cpu"
    dtype: torch.dtype | None = None
    tolerance: NotNegative | None = None
    max_iterations: Count | None = None
    restarts: Count = 1
    chains: Count = 4
    draws: Count = 500
    warmup: Whole = 250
    batch_size: Count | None = None
    guide: Literal["normal", "point"] = "normal"
    learning_rate: Positive = 0.05
    checkpoint: str | Path | None = None
    checkpoint_every: Count = 5
    progress: bool = False
    callback: Callback | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        for name, value in vars(self).items():
            if isinstance(value, np.generic):  # a Python number is kept, for streams and files
                object.__setattr__(self, name, value.item())
        if self.callback is not None and not callable(self.callback):
            raise MethodError(
                f"callback={shown(self.callback)} cannot be called; give a function of (iteration, objective)"
            )
        if not any(self.dtype is known for known in (None, torch.float32, torch.float64)):
            raise MethodError(f"dtype={shown(self.dtype)} must be torch.float32, torch.float64 or None")
        object.__setattr__(self, "device", check_device(self.device))

    def generator(self, *keys: int) -> torch.Generator:
        """A random stream of its own for each tuple of keys, the same in every process and block order."""
        mixed = self.seed
        for key in keys:
            mixed = (mixed * 6364136223846793005 + key + 1442695040888963407) % 2**63
        return torch.Generator(device=self.device).manual_seed(mixed)

    def kept(self) -> dict[str, Any]:
        """What a result remembers: everything but what belongs to the session that made it."""
        return {k: v for k, v in vars(self).items() if k not in SESSION}


LOOKUPS = 400_000
"""Labels x classes x chains up to which gibbs takes more than 4 chains: below, most of a sweep's cost is fixed."""


def options_from(given: FitOptions, size: int | None = None) -> Options:
    """Checks the keywords of ``fit``; ``size`` is labels x classes, for an engine that runs more chains than 4, up
    to 32, the smaller the data.

    Raises:
        MethodError: for an unknown keyword, with the nearest one, or a value out of range.
    """
    of_method = "; settings of a method go in settings={{{name!r}: ...}}"
    refuse_unknown("fit", "option", given, [f.name for f in fields(Options)], of_method)
    if "chains" not in given and size:
        given = {**given, "chains": min(32, max(4, LOOKUPS // size))}
    return Options(**cast(Any, given))
