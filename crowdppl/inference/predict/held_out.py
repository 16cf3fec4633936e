"""Probabilities of labels that a fit did not have, and of each of its own labels given the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.data.ragged import runs
from crowdppl.errors import MethodError
from crowdppl.inference.predict.answers import label_tables, truth_alone
from crowdppl.inference.predict.predictive import (
    DRAWS,
    GivenLabels,
    LabelBags,
    StateShares,
    TemperedError,
    predictive,
    predictive_each,
    state_shares,
)
from crowdppl.inference.predict.update import options_of
from crowdppl.inference.problem import build_problem, model_runs
from crowdppl.inference.result import Fit
from crowdppl.inference.sites import Power
from crowdppl.primitives.model import with_missing

REPEATS = (
    "labels that repeat one another count for less than one each (repeats='share'), so that none can be left out "
    "alone; use heldout_score"
)
PIECE = 10_000_000
"""Numbers, draws x labels, that are computed together."""


def left_out(
    posterior: Fit,
    full: Annotations,
    out: np.ndarray,
    alone: bool = True,
    together: bool = True,
    draws: int = DRAWS,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-probabilities of left-out labels under a fit to the others; by vb, under its mean field.

    Args:
        posterior: a fit to the labels that were kept.
        full: all labels.
        out: bool (S,), the labels that were left out, in the order of ``full.frame()``.
        alone: whether to score labels one at a time.
        together: whether to score all of an item at once.
        draws: of the posterior, over which predictions are averaged.

    Returns:
        log p(label | kept labels) of each label left out, in their order (empty unless ``alone``); the codes of
        items with labels left out; and log p(all their labels left out | kept labels) (empty unless ``together``).
    """
    posterior = replace(posterior, result=posterior.result.mean_field())  # widths would cost more than the fit
    given = GivenLabels.of(full)
    item, gone = given.item, np.flatnonzero(out)
    mine, at = np.unique(item[gone], return_inverse=True)
    none = np.empty(0)
    if _linked(posterior):  # those left out are whole units, such as rankings, that the sites alone tell of
        each = predictive(posterior, given.bags(item[gone], np.arange(len(gone)), gone), draws)
        of_items = np.stack([np.bincount(at, x, len(mine)) for x in each])
        return _log_mean_exp(each) if alone else none, mine, _log_mean_exp(of_items) if together else none
    row_of = np.full(full.n_items, -1)
    row_of[mine] = np.arange(len(mine))
    kept = np.flatnonzero(~out & (row_of[item] >= 0))
    n, kept_row = len(mine), row_of[item[kept]]
    bag, rows = [kept_row], [kept]
    if together:
        bag, rows = [kept_row, kept_row + n, at + n], [kept, kept, gone]
    bags = given.bags(np.tile(mine, 1 + together), np.concatenate(bag), np.concatenate(rows))
    try:
        asked = given.bags(item[gone], np.arange(len(gone)), gone)
        if not together and (found := state_shares(posterior, bags, asked, draws)) is not None:
            return _of_states(found, at), mine, none
        logs = predictive(posterior, bags, draws)
    except TemperedError:
        each, items = _by_tables(posterior, full, gone, mine, at)
        return each if alone else none, mine, items if together else none
    before = logs[:, :n]
    items = _log_mean_exp(logs[:, n:] - before) if together else none
    if not alone:
        return none, mine, items
    place, copied = copies(kept_row, at, n)
    with_label = np.concatenate([place, np.arange(len(at))]), np.concatenate([kept[copied], gone])
    with_one = predictive(posterior, given.bags(item[gone], *with_label), draws)
    return _log_mean_exp(with_one - before[:, at]), mine, items


def _linked(posterior: Fit) -> bool:
    """Whether labels of one item tell of those of others, given the sites that items share."""
    with model_runs(posterior.model, posterior.data):
        return build_problem(posterior.model, posterior.data, options_of(posterior, device="cpu")).reads.linked


def _of_states(found: Iterator[StateShares], at: np.ndarray) -> np.ndarray:
    """Mean log-probabilities of labels, (S,), one more each of the bags ``at``; equal ones are computed once."""
    total, n = np.zeros(len(at)), 0
    for some in found:
        pairs, each = np.unique(some.row[at] * len(some.table) + some.cell, return_inverse=True)
        row, column = np.divmod(pairs, len(some.table))
        total += np.einsum("sct,sct->s", some.share[row], some.table[column])[each]
        n += some.share.shape[1]
    return np.asarray(np.log(total / n))


def _by_tables(
    posterior: Fit, full: Annotations, gone: np.ndarray, mine: np.ndarray, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of labels, alone and an item's together, from truth probabilities and mean tables.

    For points, and for mean fields, in which truth and tables are independent, these are the means over draws.
    Refused after a sampler, whose draws of truth and tables depend on each other, and where labels of an item share
    more than its truth. ``gone`` are the rows of labels, (S,), ``mine`` codes of items, (n,), and ``at`` the place
    of each label's among them, (S,).
    """
    with model_runs(posterior.model, posterior.data):
        options = options_of(posterior, dtype=torch.float64, device="cpu")
        problem = build_problem(posterior.model, posterior.data, options)
        power = cast(Power, problem.label_power)
        alone = truth_alone(problem)
    if any(site.family == "draws" for site in posterior.result.sites.values()):
        raise MethodError(
            f"{posterior.method} {power.what}; labels left out are then scored after em or vb, not after a sampler"
        )
    if not alone:
        raise MethodError(
            f"{posterior.method} {power.what}, and labels depend on more than the truth of their item; "
            f"{power.remedy}"
        )
    start = np.log(np.clip(posterior.result.probabilities[mine], 1e-300, None))
    each = np.log(np.clip(label_tables(posterior, with_missing(posterior.model, full), gone), 1e-300, None))
    together = np.stack([np.bincount(at, x, len(mine)) for x in each.T], 1)
    items = np.logaddexp.reduce(start + together, axis=1)
    return np.logaddexp.reduce(start[at] + each, axis=1), items


def given_the_rest(posterior: Fit, unit: str, n_draws: int) -> Iterator[np.ndarray]:
    """log p(label | the item's other labels, draw) of every label, or log p(labels | draw) of every item.

    Yields float64 (n draws, some), side by side (n draws, S) in the order of ``data.frame()``, or (n draws, items
    with labels) in codebook order.
    """
    given = GivenLabels.of(posterior.data)
    item = given.item
    if any(block.weights is not None for block in posterior.data.blocks):
        raise MethodError(REPEATS)
    if _linked(posterior):
        raise MethodError(f"labels of items depend on each other by {posterior.method}; use heldout_score")
    if unit == "label":
        parts = pieces(n_draws + np.bincount(item)[item], PIECE)
        bags = (_with_and_without_each(given, some) for some in parts)
        places = (np.unique(item[some], return_inverse=True)[1] for some in parts)
        for at, logs in zip(places, predictive_each(posterior, bags, n_draws), strict=True):
            n = logs.shape[1] - len(at)
            yield logs[:, :n][:, at] - logs[:, n:]
        return
    earlier = posterior.memory is not None  # evidence of earlier labels is subtracted
    labelled, sizes = np.unique(item, return_counts=True)
    items = [labelled[some] for some in pieces(n_draws + sizes, PIECE)]
    for logs in predictive_each(posterior, (_all_labels(given, some, earlier) for some in items), n_draws):
        n = logs.shape[1] // 2
        yield logs[:, :n] - logs[:, n:] if earlier else logs


def _with_and_without_each(given: GivenLabels, out: np.ndarray) -> LabelBags:
    """All labels of each item that some consecutive labels belong to, then each label's item without that label."""
    item = given.item
    mine, at = np.unique(item[out], return_inverse=True)
    first, last = np.searchsorted(item, [mine[0], mine[-1] + 1])
    bag = np.searchsorted(mine, item[first:last])
    row, copied = copies(bag, at, len(mine))
    others = copied + first != out[row]
    bags = np.concatenate([bag, len(mine) + row[others]])
    rows = np.concatenate([np.arange(first, last), first + copied[others]])
    return given.bags(np.concatenate([mine, item[out]]), bags, rows)


def _all_labels(given: GivenLabels, mine: np.ndarray, empty: bool) -> LabelBags:
    """All labels of some consecutive items; with ``empty``, then a bag without labels for each."""
    first, last = np.searchsorted(given.item, [mine[0], mine[-1] + 1])
    bag = np.searchsorted(mine, given.item[first:last])
    return given.bags(np.concatenate([mine, mine]) if empty else mine, bag, np.arange(first, last))


def pieces(work: np.ndarray, size: int) -> list[np.ndarray]:
    """Consecutive places (n,) in runs of about ``size`` work each."""
    edges = np.unique((np.cumsum(work) - 1) // size, return_index=True)[1]
    return np.split(np.arange(len(work)), edges[1:])


def copies(owner: np.ndarray, wanted: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """All entries of each wanted owner: the place in ``wanted`` and the entry of each copy.

    Owners are sorted, and below n; those that are wanted stand in any order.
    """
    sizes = np.bincount(owner, minlength=n)
    return runs((np.cumsum(sizes) - sizes)[wanted], sizes[wanted])


def _log_mean_exp(x: np.ndarray) -> np.ndarray:
    top = x.max(0)
    return np.asarray(top + np.log(np.exp(x - top).mean(0)))
