"""Sparse data: annotators who gave too few labels for the parameters that a method has for each of them."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from crowdppl.criticism.joint_errors import pair_agreement
from crowdppl.criticism.tails import ERRORS
from crowdppl.errors import DataError
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.predict.answers import mean_field_tables
from crowdppl.inference.result import Fit
from crowdppl.results.intervals import large_rows

NARROW = 1.5
"""A posterior as narrow as so many times the labels needed would make it is supported."""
NARROW_DRAWS, FEWEST_DRAWS, NARROW_NUMBERS = 50, 5, 5_000_000
"""Draws that show how narrow a posterior is; of large tables fewer, so that they are so many numbers."""


@dataclass(frozen=True)
class SparseData:
    """Annotators who gave too few labels for what a method has to learn of each.

    Attributes:
        few: who they are, bool (A,).
        share: of all labels, that they gave.
        parameters: free parameters of an annotator.
        need: labels that these need.
        sampled: whether the fit holds draws, in which the prior has its part.
        agreement: of drawn tables, the share of pairs of labels of an item that agree, and its expectation, which
            differ; None where the fit is not sampled, or no item has labels of two.
    """

    few: np.ndarray
    share: float
    parameters: int
    need: int
    sampled: bool
    agreement: tuple[float, float] | None


def parameters(posterior: Fit) -> tuple[int, int]:
    """Free parameters of an annotator, and how many rows of proportions or single numbers they are in."""
    free, rows = 0, 0
    for site in posterior.result.sites.values():
        if "annotator" not in site.dims or "item" in site.dims or site.family == "onehot":
            continue
        value = site.arrays["draws"][0, 0] if site.family == "draws" else site.mean
        numbers, last = value.size // posterior.data.n_annotators, value.shape[-1]
        shares = site.dims[-1] != "annotator" and last > 1 and np.allclose(value.sum(-1), 1)
        rows += numbers // last if shares else numbers
        free += numbers // last * (last - 1) if shares else numbers
    return free, rows


def narrowness(draws: np.ndarray | CoinTables) -> np.ndarray:
    """How many labels a row of each annotator is worth, (A,): the concentration of Dirichlets with this spread."""
    if isinstance(draws, CoinTables):
        square = draws.map(lambda x: x.mean(0, dtype=np.float64) ** 2).rows()
        variance = draws.map(lambda x: x.var(0, dtype=np.float64, ddof=1)).rows()
    else:
        square = (draws.mean(0, dtype=np.float64) ** 2).sum(-1)
        variance = draws.var(0, dtype=np.float64, ddof=1).sum(-1)
    worth = (1 - square) / np.maximum(variance, 1e-12) - 1
    return np.asarray(worth.mean(-1))


def supported(posterior: Fit, few: np.ndarray, worth: float) -> bool:
    """Whether rows of the annotators ``few``, bool (A,), are as narrow as so many labels would make them."""
    drawn = posterior.result.draws
    if drawn is None:
        return False
    exact = large_rows(replace(posterior, result=posterior.result.mean_field()))
    if exact is not None:
        return bool(np.median(exact[few].sum(-1).mean(-1)) >= worth)
    if any(site.conjugate is not None for site in posterior.result.sites.values()):
        most = NARROW_NUMBERS // math.prod(posterior.result.confusions.shape)
        draws, step = mean_field_tables(posterior, max(FEWEST_DRAWS, min(NARROW_DRAWS, most))), 1
    else:
        draws, step = drawn().tables, len(drawn().prevalence) // NARROW_DRAWS + 1
    some = draws.map(lambda x: x[::step, few]) if isinstance(draws, CoinTables) else draws[::step, few]
    return bool(np.median(narrowness(some)) >= worth)


def sparse_data(posterior: Fit, given: np.ndarray) -> SparseData | None:
    """The annotators with too few labels, of labels (A,); None where they are few, or their rows are known."""
    free, rows = parameters(posterior)
    need = max(2 * free, 8 * rows)
    few = given < need
    share = given[few].sum() / max(1, given.sum())
    if share <= 0.25 or supported(posterior, few, NARROW * need / rows):
        return None
    sampled, agreement = any(site.family == "draws" for site in posterior.result.sites.values()), None
    if sampled:
        with suppress(DataError):  # nobody shares an item with somebody else
            observed, expected, chance, error = pair_agreement(posterior)
            apart = observed - expected
            silent = expected - chance < 0.2 * (observed - chance)  # tables say next to nothing
            if apart > -ERRORS * error and not (silent and apart > ERRORS * error):
                return None
            agreement = observed, expected
    return SparseData(few, float(share), free, need, sampled, agreement)
