"""A posterior of grades from those of the questions whether they are above each threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.inference.result import ClassProbabilities, Fit, FitResult, OnDemand, Tables
from crowdppl.results.levels import WithoutModel


@dataclass(frozen=True)
class ByThresholds(WithoutModel):
    """Of differences of probabilities of models of two classes."""

    method: str = ""

    def refusal(self) -> MethodError:
        """The error of what needs a model."""
        return MethodError(
            f"a posterior by thresholds has no model of grades: fit one, such as 'ordinal', or fit {self.method!r} "
            "to data.above(grade)"
        )


def joined(fits: Sequence[Fit], data: Annotations) -> Fit:
    """The posterior of grades, from fits to ``data.above(grade)`` of all grades but the last."""
    first, parts = fits[0], [fit.result.diagnostics for fit in fits]
    diagnostics = {
        "converged": all(part.get("converged", True) for part in parts),
        "interrupted": any(part.get("interrupted", False) for part in parts),
        "seconds": sum(part.get("seconds", 0.0) for part in parts),
        "warnings": list(dict.fromkeys(text for part in parts for text in part.get("warnings", []))),
    }

    def tables() -> Tables:
        over = (np.arange(data.n_classes)[:, None] > np.arange(len(fits))).astype(
            int
        )  # of each truth, by threshold
        own = np.stack(
            [np.asarray(x.result.table)[:, over[:, n]] for n, x in enumerate(fits)], -1
        )  # (A, K, L', K - 1)
        away = own[:, :, 2:].mean(-1)
        given = own[:, :, 1] / np.maximum(own[:, :, :2].sum(2), np.finfo(np.float64).tiny)
        mean = np.concatenate([differences(given) * (1 - away.sum(-1, keepdims=True)), away], -1)
        return Tables(mean, differences(np.array([fit.result.prevalence[1] for fit in fits])))

    shares = differences(np.stack([fit.result.probabilities[:, 1] for fit in fits], 1))
    result = FitResult({}, ClassProbabilities(shares), OnDemand(tables), diagnostics)
    model, name = ByThresholds(first.method), f"{first.method} by thresholds"
    return Fit(model, name, first.inference, data, result, options=first.options)


def differences(above: np.ndarray) -> np.ndarray:
    """Probabilities of grades (..., K) from those of being above each but the last, (..., K - 1).

    Where these rise, they are replaced by the mean of the largest falling sequence below and the smallest above.
    """
    below = np.minimum.accumulate(above, -1)
    over = np.maximum.accumulate(above[..., ::-1], -1)[..., ::-1]
    ends = np.ones((*above.shape[:-1], 1))
    return np.asarray(-np.diff(np.concatenate([ends, (below + over) / 2, 0 * ends], -1)))
