"""Doubts that take time: labels that the fit draws, and labels that it was not shown, are not as it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.criticism.checks import predictive_check
from crowdppl.criticism.doubt import Doubt
from crowdppl.errors import DataError
from crowdppl.results.leave_one_out import standard_error

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

LEVEL = 0.01
"""Of the check of labels drawn from the fit."""
DRAWS = 100
"""The fewest of which one in a hundred is told."""
MOST = 1_000_000
"""Labels up to which they are drawn: each takes 8 bytes a draw."""
COMMON = (
    "Labels of an item may have more in common than its truth, and probabilities are then too sure: fit('auto', "
    "data) or calibrate=True correct them"
)
WHY = {
    "class_shares": "Annotators differ in what they answer by more than the method knows of: one with a confusion "
    "matrix for each may fit better"
}
"""What it may come from that a statistic stands out, where it is not what labels of an item have in common."""
SWEEPS = 100
"""Of gibbs to warm up, and to draw, where labels are left out: a score is a mean over 100 draws of all chains."""


def misfit(posterior: Posterior) -> Iterator[Doubt]:
    """Where labels drawn from the fit are unlike those given; a correction has looked at that, and is let pass."""
    if posterior.correction is not None or posterior.data.n_labels > MOST:
        return
    try:
        check = predictive_check(posterior, draws=DRAWS, seed=posterior.options["seed"])
    except DataError:  # no item has two labels
        return
    if check.p_value <= LEVEL:
        seen = check.table.loc[check.worst]
        yield Doubt(
            "misfit",
            f"labels drawn from the fit are unlike those given (p = {check.p_value:.2g}), most of all in "
            f"{check.worst}: {seen['observed']:.3g}, and {seen['low']:.3g} to {seen['high']:.3g} in 95 % of draws. "
            f"{WHY.get(check.worst, COMMON)}; crowdppl.predictive_check(posterior) shows more",
        )


def worse_than_votes(posterior: Posterior) -> Iterator[Doubt]:
    """Where labels left out are predicted worse than by a majority vote; of a correction, by its method's own."""
    posterior = posterior.uncorrected()
    score: Any = import_module("crowdppl.choosing.heldout").heldout_score  # by name, because it knows posteriors
    given = posterior.options
    if posterior.inference == "gibbs":
        brief = {name: min(SWEEPS, given[name]) for name in ("warmup", "draws")}
        posterior = replace(posterior, options={**given, **brief})
    try:
        own = score(posterior)
        votes = score("majority_vote", posterior.data, inference="em", seed=posterior.options["seed"])
    except DataError:  # no item has labels of two annotators: none can be left out
        return
    apart = (own.labels["log_p"] - votes.labels["log_p"]).to_numpy()
    error = standard_error(apart, np.unique(own.labels["item"], return_inverse=True)[1])
    if apart.mean() < -2 * error:
        yield Doubt(
            "votes",
            f"{posterior.method} predicts labels left out worse than a majority vote: {own.per_label:.3f} nats a "
            f"label against {votes.per_label:.3f} (difference {apart.mean():.3f}, standard error {error:.3f}). "
            "crowdppl.compare finds a method that fits better, and fit('auto', data) chooses by it",
        )
