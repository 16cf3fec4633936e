"""What results ask of the engines, which are looked up by name: results import none."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from crowdppl.data.annotations import Annotations

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

ENGINES = "crowdppl.inference.asking.refit"
"""Module that does it for a posterior that was loaded; looked up by name, so that results import no engine."""
REFITS = "crowdppl.inference.asking.predictive"
"""Module that fits again to some of the labels; looked up likewise."""
CORRECTIONS = "crowdppl.choosing.automatic"
"""Module that corrects again; looked up likewise."""


class Refit(Protocol):
    """What a posterior asks of the engines: a module or an object with these three functions."""

    def predict(self, posterior: Posterior, data: Annotations) -> np.ndarray:
        """Truth probabilities (N, K) of the items of ``data``, in its codebook order."""
        ...

    def draw_labels(self, posterior: Posterior, n: int, seed: int, kind: str) -> np.ndarray:
        """Answer codes (n, S) for the posterior's own design, labels in the order of its blocks."""
        ...

    def update(self, posterior: Posterior, data: Annotations, **options: Any) -> Posterior:
        """The posterior after more labels, for which the old one is the prior."""
        ...


def engines_of(posterior: Posterior) -> Refit:
    """What computes anew for a posterior: its own, or the engines."""
    return posterior._refit if posterior._refit is not None else cast(Refit, import_module(ENGINES))
