"""The record of an engine, which its own file fills in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdppl.inference.neural.learner import Epochs
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import FitResult

ASCENT = ("tolerance", "max_iterations", "restarts")
"""Options of engines that climb from several starts."""
KEPT = ("checkpoint", "checkpoint_every")
"""Options of engines whose fits go on from where they were killed."""
SAMPLING = ("chains", "draws", "warmup")
"""Options of engines that run chains."""


@dataclass(frozen=True)
class Engine:
    """What fits models; whatever an engine can do is asked of its record.

    Attributes:
        name: as ``fit(inference=...)`` takes it.
        run: from a problem, and the item code at each position, to a result.
        capability: what it does with a problem ("exact", "mean-field", "gradient"); a MethodError where it refuses.
        options: those of ``Options`` that it looks at, beside what all engines do.
        epochs: how it trains networks, one epoch after another; None where it trains none.
        sample: draws by site, (C, D, ...), before all else, for engines that draw from the posterior and keep all
            draws until they are put together.
        many_chains: whether it runs up to 32 chains on small data.
        takes_start: whether it can start where an earlier fit ended.
        shares: what processes can do together beside passes over all items: "networks", "batch_size".
    """

    name: str
    run: Callable[[Problem, np.ndarray], FitResult]
    capability: Callable[[Problem], str]
    options: tuple[str, ...]
    epochs: Epochs | None = None
    sample: Callable[[Problem], tuple[Any, ...]] | None = None
    many_chains: bool = False
    takes_start: bool = True
    shares: tuple[str, ...] = ()
