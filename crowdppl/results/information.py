"""How much an annotator's answers tell of the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdppl.results.intervals import among_named

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior


def telling(posterior: Posterior, tables: np.ndarray) -> np.ndarray:
    """Tables (..., A, K, L) as far as answers tell of the truth: over classes, unless abstentions are informative.

    Who names a class in one of ten cases says as much by it as others do.
    """
    return tables if posterior.data.alphabet.informative else among_named(tables)


def information(table: np.ndarray, prevalence: np.ndarray) -> np.ndarray:
    """Mutual information of truth and answer in bits: (A, K, L) and (K,) to (A,)."""
    joint = prevalence[:, None] * table
    apart = prevalence[:, None] * joint.sum(1, keepdims=True)
    ratio = np.where(joint > 0, joint, 1) / np.where(joint > 0, apart, 1)
    out: np.ndarray = np.maximum((joint * np.log2(ratio)).sum((1, 2)), 0)
    return out
