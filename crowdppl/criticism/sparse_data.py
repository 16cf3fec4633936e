"""Sparse data: annotators who gave too few labels for the parameters that a method has for each of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from crowdppl.criticism.collusion import pair_agreement
from crowdppl.data.split import keep
from crowdppl.errors import DataError
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.engines import engine_support
from crowdppl.inference.predict.answers import mean_field_tables
from crowdppl.inference.result import Fit
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.labels import LARGE_TABLE
from crowdppl.results.intervals import large_rows

PER_PARAMETER, PER_ROW = 2, 8
"""Labels that an annotator has to give for each free parameter, and for each row of a table."""
NARROW = 1.5
"""A posterior as narrow as so many times the labels needed would make it is supported."""
MAX_SPARSE = 0.25
"""Share of all labels that may come from annotators who gave too few."""
VERY_SPARSE = 0.1
"""Labels for each free parameter below which a method with fewer parameters is advised first."""
NARROW_DRAWS, FEWEST_DRAWS, NARROW_NUMBERS = 50, 5, 5_000_000
"""Draws that show how narrow a posterior is; of large tables fewer, so that they are so many numbers."""
ERRORS = 2
"""Standard errors beyond which annotators do not agree as expected."""
UNINFORMATIVE = 0.2
"""Share of the agreement beyond chance below which drawn tables say next to nothing."""
PROBE_LABELS = 100
"""Labels on which an engine's support of a model is tried."""


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
        square = draws.each(lambda x: x.mean(0, dtype=np.float64) ** 2).rows()
        variance = draws.each(lambda x: x.var(0, dtype=np.float64, ddof=1)).rows()
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
    some = draws.each(lambda x: x[::step, few]) if isinstance(draws, CoinTables) else draws[::step, few]
    return bool(np.median(narrowness(some)) >= worth)


def sparse_data(posterior: Fit, given: np.ndarray) -> Iterator[str]:
    """The text of the doubt about annotators with too few labels, given labels of each, (A,)."""
    free, rows = parameters(posterior)
    need = max(PER_PARAMETER * free, PER_ROW * rows)
    few = given < need
    share = given[few].sum() / max(1, given.sum())
    if share <= MAX_SPARSE:
        return
    if supported(posterior, few, NARROW * need / rows):
        return
    sampled = any(site.family == "draws" for site in posterior.result.sites.values())
    prior = _questionable_prior(posterior) if sampled else "on the prior, or on chance where there is none"
    if prior:
        median, own = np.median(given[few]), f"{free} free parameter{'s' * (free > 1)}"
        remedy = _sparse_remedy(posterior, sampled, not sampled and median < VERY_SPARSE * free, free)
        yield (
            f"{few.sum()} of {len(given)} annotators, with {share:.0%} of all labels, gave fewer than {need} "
            f"labels (median {median:.0f}), and {posterior.method} has {own} for each: its probabilities rest "
            f"{prior}. {remedy}, give annotators who are alike one id, or collect more labels"
        )


def _questionable_prior(posterior: Fit) -> str:
    """The prior on which drawn tables rest, where it is questionable; empty where annotators agree as expected."""
    try:
        observed, expected, chance, error = pair_agreement(posterior)
    except DataError:  # nobody shares an item with somebody else
        return "on the prior, which no agreement of annotators confirms"
    apart = observed - expected
    silent = expected - chance < UNINFORMATIVE * (observed - chance)
    if apart > -ERRORS * error and not (silent and apart > ERRORS * error):
        return ""
    says = "next to nothing" if apart > 0 else "too much"
    return (
        f"on a prior that says {says} of the annotators, who agree in {observed:.0%} of pairs of labels where the "
        f"fit expects {expected:.0%}"
    )


def _sparse_remedy(posterior: Fit, sampled: bool, very_sparse: bool, free: int) -> str:
    data = posterior.data
    fewer = f"with fewer, such as {'majority_vote or one_coin' if free > 1 else 'majority_vote'}"
    very_sparse = very_sparse or math.prod(posterior.result.confusions.shape) > LARGE_TABLE  # gibbs would take long
    if very_sparse and free > data.n_classes:
        return f"Take a method with fewer, such as one_coin (1 for each) or class_coin ({data.n_classes} for each)"
    if very_sparse:
        return f"Take a method {fewer}"
    if sampled:
        return f"Choose another prior, take a method {fewer}"
    some = keep(data, np.arange(data.n_labels) < PROBE_LABELS)
    if not networks_of(posterior.model) and engine_support(posterior.model, some, "gibbs") == "exact":
        return f'Fit it with inference="gibbs", which averages over all tables, or take a method {fewer}'
    return f'Take a method that inference="gibbs" fits (crowdppl.zoo() lists them), or one {fewer}'
