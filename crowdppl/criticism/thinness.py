"""The doubt that annotators gave too few labels for what a method wants to know of each."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from crowdppl.criticism.discrepancies import Design
from crowdppl.criticism.doubt import Doubt
from crowdppl.data.splitting import keep
from crowdppl.errors import DataError
from crowdppl.networks.sight import networks_of
from crowdppl.results.leave_one_out import standard_error

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

A_PARAMETER, A_ROW = 2, 8
"""Labels that an annotator has to give for each free parameter, and for each row of a table."""
NARROW = 1.5
"""A posterior as narrow as by so many times the labels needed is supported, wherever it has that from."""
THIN = 0.25
"""Share of all labels that may come from annotators who gave too few."""
SPARSE = 0.1
"""Labels for each free parameter below which a method with fewer is advised first. Of 1,000 items of 50 classes, 5
labels each by 20 annotators right by .4 to .85, bayesian_dawid_skene by vb is surer than .99 of all, with a log
score of 1.05 to 1.60 (four crowds, two with favourite confusions), where one_coin has .10 to .30; of 200 classes
1.69, and one_coin .18."""
ERRORS = 2
"""Standard errors by which annotators have to agree otherwise than drawn tables expect."""
LITTLE = 0.2
"""Share of the agreement beyond chance below which drawn tables say next to nothing."""
ENGINES = "crowdppl.inference.cells"
"""Module that knows what an engine does with a story; looked up by name, so that results import no engine."""
NUMBERS = 2_000_000
"""Numbers that are held at once: of each pair of labels, the table of an annotator."""
SOME = 100
"""Labels on which it is seen what an engine does with a story."""


def thin(posterior: Posterior, given: np.ndarray) -> Iterator[Doubt]:
    """Too few labels for each annotator's parameters, where the fit makes too much of them.

    Args:
        given: labels of each annotator, (A,).
    """
    free, rows = parameters(posterior)
    need = max(A_PARAMETER * free, A_ROW * rows)
    few = given < need
    share = given[few].sum() / max(1, given.sum())
    if share <= THIN:
        return
    draws = posterior.result.table_draws
    if draws is not None and np.median(narrowness(draws[:: len(draws) // 50 + 1, few])) >= NARROW * need / rows:
        return
    sampled = any(site.family == "draws" for site in posterior.result.sites.values())
    prior = _prior(posterior) if sampled else "on the prior, or on chance where there is none"
    if prior:
        many = f"{few.sum()} of {len(given)} annotators, with {share:.0%} of all labels,"
        median, own = np.median(given[few]), f"{free} free parameter{'s' * (free > 1)}"
        sparse = not sampled and median < SPARSE * free
        remedy = _fewer(posterior, free) if sparse else _remedy(posterior, sampled, free)
        yield Doubt(
            "thin",
            f"{many} gave fewer than {need} labels (median {median:.0f}), and {posterior.method} "
            f"has {own} for each: its probabilities rest {prior}. {remedy}, give annotators "
            "who are alike one id, or collect more labels",
        )


def _prior(posterior: Posterior) -> str:
    """What drawn tables rest on, where that is no good; empty where annotators agree as these tables expect."""
    try:
        observed, expected, chance, error = _agreement(posterior)
    except DataError:  # nobody shares an item with somebody else
        return "on the prior, of which nothing tells whether it is right"
    apart = observed - expected
    silent = expected - chance < LITTLE * (observed - chance)
    if apart > -ERRORS * error and not (silent and apart > ERRORS * error):
        return ""
    says = "next to nothing" if apart > 0 else "too much"
    return (
        f"on a prior that says {says} of the annotators, who agree in {observed:.0%} of pairs of labels where the "
        f"fit expects {expected:.0%}"
    )


def _fewer(posterior: Posterior, free: int) -> str:
    """Methods with fewer parameters, the sparsest first, with their numbers for each annotator."""
    k = posterior.data.n_classes
    coins = f"one_coin (1 for each) or class_coin ({k} for each)" if free > k else "majority_vote (none)"
    return f"Take a method with fewer, such as {coins}{' or one_coin (1 for each)' if 1 < free <= k else ''}"


def _remedy(posterior: Posterior, sampled: bool, free: int) -> str:
    fewer = f"with fewer, such as {'majority_vote or one_coin' if free > 1 else 'majority_vote'}"
    if sampled:
        return f"Choose another prior, take a method {fewer}"
    average = "averages over all tables that the labels allow"
    data = posterior.data
    some = keep(data, np.arange(data.n_labels) < SOME)
    if not networks_of(posterior.story) and import_module(ENGINES).cell(posterior.story, some, "gibbs") == "exact":
        return f'Fit it with inference="gibbs", which {average}, or take a method {fewer}'
    gibbs = f'that inference="gibbs" fits (crowdppl.zoo() lists them) and so {average}'
    return f"Take a method {gibbs}, or one {fewer}"


def _agreement(posterior: Posterior) -> tuple[float, float, float, float]:
    """Share of pairs of labels of an item that are equal: as observed, as mean tables and prevalence have it, as by
    chance; and the standard error of the difference of the first two, items being the units.

    Raises:
        DataError: when no item has labels of two annotators.
    """
    design, result = Design.of(posterior.data), posterior.result
    equal, expected, item, step = [], [], [], max(1, NUMBERS // result.table[0].size)
    for one, other, _ in design.meetings():
        for a, b in zip(*(np.split(rows, range(step, len(rows), step)) for rows in (one, other)), strict=True):
            tables = result.table[design.annotator[a]], result.table[design.annotator[b]]
            expected.append(np.einsum("pkl,pkl,k->p", *tables, result.prevalence))
            equal.append(design.answer[a] == design.answer[b])
            item.append(design.item[a])
    if not sum(map(len, item)):
        raise DataError("no item has labels of two annotators, so that nothing tells how they agree")
    apart = np.concatenate(equal) - np.concatenate(expected)
    owner = np.unique(np.concatenate(item), return_inverse=True)[1]
    share = np.bincount(design.answer) / len(design.answer)
    observed, probable = (float(np.concatenate(x).mean()) for x in (equal, expected))
    return observed, probable, float((share**2).sum()), standard_error(apart, owner)


def parameters(posterior: Posterior) -> tuple[int, int]:
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


def narrowness(draws: np.ndarray) -> np.ndarray:
    """How many labels a row of each annotator is worth, (A,): the concentration of Dirichlets with this spread."""
    mean, variance = draws.mean(0, dtype=np.float64), draws.var(0, dtype=np.float64)
    worth = (1 - (mean**2).sum(-1)) / np.maximum(variance.sum(-1), 1e-12) - 1
    return np.asarray(worth.mean(-1))
