"""Classes of a fit that labels contradict."""

from __future__ import annotations

import numpy as np

from crowdppl.criticism.tails import ERRORS
from crowdppl.inference.result import Fit

MARGIN = 0.8
"""The ratio by which a class has to fall short of the agreement of labels, besides ``ERRORS`` standard errors."""


def class_agreement(posterior: Fit) -> tuple[np.ndarray, np.ndarray]:
    """How often labels name the class of their item, and how often they repeat another label of it.

    The first share of class k is among labels of items that the fit gives to k, the second, a mean over items,
    among all other labels of items with a label k. (K,) each, NaN where nothing is counted.
    """
    votes, p = posterior.data.votes(), posterior.uncorrected().result.probabilities
    labels = votes.sum(1)
    others = np.where(labels > 1, 1 / np.maximum(labels - 1, 1), 0)
    repeated = np.einsum("i,ik,ik->k", others, votes, votes) - others @ votes
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.einsum("ik,ik->k", votes, p) / (labels @ p), repeated / ((labels > 1) @ votes)


def agreement_error(posterior: Fit, k: int) -> float:
    """The standard error, by items, of the difference of the two shares of class k."""
    votes, p = posterior.data.votes(), posterior.uncorrected().result.probabilities[:, k]
    own, other = (share[k] for share in class_agreement(posterior))
    labels, given = votes.sum(1), votes[:, k]
    several = labels > 1
    again = given * (given - 1) / np.maximum(labels - 1, 1) - other * given * several
    pull = p * (given - own * labels) / (labels @ p) - again / (several @ given)
    return float(np.sqrt(pull @ pull))


def contradicted(posterior: Fit) -> list[int]:
    """Codes of the classes whose items get their label less often than it is repeated."""
    own, other = class_agreement(posterior)
    below = np.flatnonzero(own < MARGIN * other)
    return [int(k) for k in below if own[k] < other[k] - ERRORS * agreement_error(posterior, int(k))]
