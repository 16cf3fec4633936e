"""What an engine hands over: plain arrays, so that results need neither the engine nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SiteResult:
    """The posterior of one continuous or one-hot site.

    Attributes:
        name: the site.
        dims: names of the dimensions of its value, such as ("annotator", "truth", "label"); "item" first
            where the site belongs to items, which then stand in codebook order.
        family: "dirichlet", "point", "normal", "onehot" or "draws".
        arrays: by family: {"concentration"}, with "weight", the part of each row's that is knowledge, where that is
            known; {"value"}; {"loc", "scale"} in unconstrained space, with "mean" in the site's own;
            {"probability"}; {"draws"} of shape (chains, draws, *dims).
        support: of a normal site, what its own space is: "real", "positive", "unit" (from 0 to 1) or
            "simplex"; "" for anything else.
    """

    name: str
    dims: tuple[str, ...]
    family: str
    arrays: Mapping[str, np.ndarray]
    support: str = ""

    def constrained(self, x: np.ndarray) -> np.ndarray | None:
        """Values of a normal site in its own space, from unconstrained ones; None where that is not known."""
        if self.support == "simplex":
            share = np.exp(x - x.max(-1, keepdims=True))
            return np.asarray(share / share.sum(-1, keepdims=True))
        if self.support == "positive":
            return np.asarray(np.exp(x))
        if self.support == "unit":
            return np.asarray(1 / (1 + np.exp(-x)))
        return x if self.support == "real" else None

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean (or the point), of shape dims."""
        if self.family == "dirichlet":
            c = self.arrays["concentration"]
            return np.asarray(c / c.sum(-1, keepdims=True))
        if self.family == "draws":
            return np.asarray(self.arrays["draws"].mean((0, 1)))
        key = {"point": "value", "normal": "mean", "onehot": "probability"}[self.family]
        return self.arrays[key]

    @property
    def spread(self) -> np.ndarray:
        """Concentration of Dirichlets as wide as the posterior, of shape dims: that of vb says too much."""
        c = self.arrays["concentration"]
        return np.asarray(c * self.arrays["weight"][..., None]) if "weight" in self.arrays else c


@dataclass(frozen=True)
class FitResult:
    """Everything that a posterior is made from.

    Attributes:
        sites: the story's continuous and one-hot sites.
        probabilities: (N, K) probability of each truth in codebook order, averaged over parameter draws where
            the engine draws.
        probability_sd: (N, K) standard deviation of that probability over parameter draws; None for points.
        table: (A, K, L) posterior mean of p(answer | annotator, truth), whatever the story.
        table_draws: (n, A, K, L) float32 draws of it, spread over chains; None for points.
        prevalence: (K,) posterior mean share of each class.
        prevalence_draws: (n, K), the same draws as ``table_draws``; None for points.
        entropies: (N, 2) in bits, over parameter draws: of the mean probabilities, and the mean of the draws' own;
            None for points.
        diagnostics: converged, iterations, objective, restarts, R-hat, ESS, divergences, warnings, seconds.
    """

    sites: Mapping[str, SiteResult]
    probabilities: np.ndarray
    probability_sd: np.ndarray | None
    table: np.ndarray
    table_draws: np.ndarray | None
    prevalence: np.ndarray
    prevalence_draws: np.ndarray | None
    diagnostics: dict[str, Any] = field(default_factory=dict)
    entropies: np.ndarray | None = None
