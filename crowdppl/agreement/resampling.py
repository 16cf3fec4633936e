"""Coefficients of agreement with their values on bootstrap samples of items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from crowdppl.agreement.votes import EPSILON, bootstrap_counts


class Counts(Protocol):
    """What is counted of every item, as sums over items that count (N, C) times."""

    @property
    def size(self) -> np.ndarray:
        """How many annotators labelled each item, (N,)."""

    def total(self, weight: np.ndarray) -> Any:
        """Sums of which a formula makes a coefficient, (C,)."""


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of a data set: its value, NaN where it is not defined, its values on bootstrap samples,
    (B,), and the items and pairs that entered, and those that were left out.
    """

    value: float
    resampled: np.ndarray
    counts: dict[str, int]

    def bias(self) -> float:
        """How far the mean of the bootstrap samples is from the value, in their standard deviations."""
        known = self.resampled[np.isfinite(self.resampled)]
        spread = known.std() if len(known) > 1 else 0.0
        return float(abs(known.mean() - self.value) / spread) if spread > EPSILON else 0.0

    def row(self, level: float) -> dict[str, float]:
        """Its row of the table."""
        known = self.resampled[np.isfinite(self.resampled)]
        ends = np.quantile(known, [(1 - level) / 2, (1 + level) / 2]) if len(known) else [np.nan, np.nan]
        return {"value": self.value, "low": float(ends[0]), "high": float(ends[1]), **self.counts}


def resampled(
    counts: Counts, formulas: Mapping[str, Callable[[Any], np.ndarray]], samples: int, seed: int
) -> dict[str, Coefficient]:
    """Functions of totals, each with its value on bootstrap samples of items."""
    once = counts.total(np.ones((len(counts.size), 1)))
    drawn: dict[str, list[np.ndarray]] = {name: [np.empty(0)] for name in formulas}
    for count in bootstrap_counts(len(counts.size), samples, seed):
        totals = counts.total(count)
        for name, formula in formulas.items():
            drawn[name].append(formula(totals))
    several = counts.size > 1
    entered = {
        "items": int(several.sum()),
        "pairs": int((counts.size * (counts.size - 1)).sum()) // 2,
        "items_left_out": int((~several).sum()),
        "pairs_left_out": 0,
    }
    return {
        name: Coefficient(float(formula(once)[0]), np.concatenate(drawn[name]), entered)
        for name, formula in formulas.items()
    }
