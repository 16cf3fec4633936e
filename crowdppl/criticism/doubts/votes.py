"""Doubts about predictions: labels left out are predicted worse than by a majority vote."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.criticism.doubts.search import AUTO, Search, doubt
from crowdppl.criticism.tails import ERRORS
from crowdppl.data.split import whole_units
from crowdppl.errors import DataError
from crowdppl.evaluation.heldout import heldout_score
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.result import Fit
from crowdppl.results.intervals import named_site
from crowdppl.results.leave_one_out import standard_error

MAX_QUICK_LABELS = 20_000
"""Labels up to which overfitting is looked for beside a fit."""
TABLE_TOLERANCE = 0.02
"""Largest difference between a table and the shares of its labels, which are counted after the last iteration."""
LEAST_LABEL = math.exp(-80)
"""Probability of a label at least, before a logarithm."""
MAX_ROUNDS, SETTLED = 100, 1e-6
"""Of the search for the accuracy that a majority vote has, and the change at which it ends."""


class Predictions(NamedTuple):
    """Log-probabilities of labels, (S,) each, by a fit and by a majority vote, and the unit of each."""

    own: np.ndarray
    votes: np.ndarray
    unit: np.ndarray


@doubt("votes", thorough=True)
def worse_than_votes(search: Search) -> Iterator[Doubt]:
    """Labels left out of fits are predicted worse than by a majority vote, beyond chance.

    Of a corrected posterior, the method's own predictions are meant.
    """
    posterior = search.posterior.uncorrected()
    options = posterior.options
    if posterior.inference == "gibbs":
        brief = {name: min(100, options[name]) for name in ("warmup", "draws")}
        posterior = replace(posterior, options={**options, **brief})
    try:
        fit = heldout_score(posterior).labels
        votes = heldout_score("majority_vote", posterior.data, inference="em", seed=options["seed"]).labels
    except DataError:  # no item has labels of two annotators: none can be left out
        return
    found = Predictions(fit["log_p"].to_numpy(), votes["log_p"].to_numpy(), fit["unit"].to_numpy())
    remedy = "crowdppl.compare finds a method that fits better, and fit('auto', data) chooses by it"
    pooled, coin, leaning = search.methods
    call = f"crowdppl.compare({[*dict.fromkeys([coin, leaning, pooled])]}, data)"
    yield from _worse(f"{posterior.method} predicts labels left out", found, remedy, call)


@doubt("votes")
def overfitting(search: Search) -> Iterator[Doubt]:
    """Labels, each taken out of its annotator's row, are predicted worse than by a majority vote, beyond chance.

    After maximum likelihood with a confusion matrix for each annotator, and in place of labels left out. Some
    doubts are missed, and none is raised in error.
    """
    found = None if search.thorough else predicted_without_itself(search.posterior.uncorrected())
    if found is not None:
        remedy = (
            "By maximum likelihood an answer that an annotator never gave is impossible: take "
            f"{search.methods[2]}, or a method that crowdppl.compare finds; fit('auto', data) chooses by it"
        )
        what = f"{search.posterior.method} predicts a label from the others"
        yield from _worse(what, found, remedy, f"crowdppl.fit({search.methods[2]!r}, data)")


def _worse(what: str, found: Predictions, remedy: str, call: str) -> Iterator[Doubt]:
    apart = found.own - found.votes
    error = standard_error(apart, found.unit)
    if apart.mean() < -ERRORS * error:
        own, votes = float(found.own.mean()), float(found.votes.mean())
        yield Doubt(
            "votes",
            f"{what} worse than a majority vote: {own:.3f} nats a label against {votes:.3f} "
            f"(difference {apart.mean():.3f}, standard error {error:.3f}). {remedy}",
            figures={"own": own, "votes": votes, "error": error},
            remedies=(call, AUTO),
        )


def predicted_without_itself(posterior: Fit) -> Predictions | None:
    """Each label of an item with several, taken out of its annotator's row, as the others predict it.

    For maximum likelihood with a confusion matrix for each annotator; None for other fits, and for many labels.
    Other items' truths still depend on the label, so that it seems to be predicted better than it is.
    """
    data = posterior.data
    if posterior.memory is not None or data.n_answers > data.n_classes or data.n_labels > MAX_QUICK_LABELS:
        return None
    sites, table = posterior.result.sites.values(), posterior.result.confusions
    if isinstance(table, CoinTables) or {site.family for site in sites} != {"point"}:
        return None
    if named_site(posterior, "confusion") is None:
        return None
    item, annotator, label = data.label_codes()
    share = posterior.result.probabilities[item]
    counts = np.zeros((data.n_annotators, data.n_classes, data.n_classes))
    np.add.at(counts.transpose(0, 2, 1), (annotator, label), share)
    total = counts.sum(-1, keepdims=True)
    seen = np.broadcast_to(total > 1, counts.shape)
    if (np.abs(counts / np.maximum(total, LEAST_LABEL) - table)[seen] >= TABLE_TOLERANCE).any():
        return None  # a prior has a part in the rows
    scored = np.bincount(item)[item] > 1  # nothing predicts an item's only label
    if not scored.any():
        return None
    own = log_p_without_label(table, counts, annotator, label, share)
    votes = log_p_by_vote(data.votes(), data.gold_codes, item, label)
    return Predictions(own[scored], votes[scored], whole_units(data)[item[scored]])


def log_p_without_label(
    table: np.ndarray, counts: np.ndarray, annotator: np.ndarray, label: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Log-probability of each label, (S,), by its annotator's and its item's other labels; of [annotator, truth,
    label] and shares (S, K) of the item's truth by all labels.
    """
    rest = np.maximum(counts[annotator, :, label] - share, 0)
    total = counts.sum(-1)[annotator] - share
    nothing = total < 1e-9
    p = np.where(nothing, 1 / table.shape[-1], rest / np.where(nothing, 1, total))
    truth = share / np.maximum(table[annotator, :, label], LEAST_LABEL)
    truth /= truth.sum(1, keepdims=True)
    return np.asarray(np.log((truth * np.maximum(p, LEAST_LABEL)).sum(1)))


def log_p_by_vote(votes: np.ndarray, gold: np.ndarray | None, item: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Log-probability of each label, (S,), by its item's other labels, where all annotators are right as often."""
    from scipy.special import softmax  # slow to import

    def weight(right: float) -> float:
        return math.log(right * (k - 1) / (1 - right))

    k, prior, rows = votes.shape[1], np.zeros(votes.shape), np.arange(len(item))
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        prior[known, gold[known]] = 1e6  # more than any number of votes makes
    right, before = 0.5 * (1 + 1 / k), 0.0
    for _ in range(MAX_ROUNDS):
        if abs(right - before) < SETTLED:
            break
        truth = softmax(votes * weight(right) + prior, axis=1)
        before, right = right, float(np.clip((truth * votes).sum() / votes.sum(), 1e-9, 1 - 1e-9))
    same = softmax((votes[item] - np.eye(k)[label]) * weight(right) + prior[item], axis=1)[rows, label]
    return np.asarray(np.log(same * right + (1 - same) * (1 - right) / (k - 1)))
