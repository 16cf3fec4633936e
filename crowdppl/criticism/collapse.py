"""Collapse: classes of a fit that labels contradict, as it is with classes that fell together or wandered off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crowdppl.data.ids import native
from crowdppl.inference.result import Fit

ERRORS, MARGIN = 2.0, 0.8
"""Standard errors, and the ratio, by which a class has to fall short of the agreement of labels."""
MAX_NAMED = 5
"""Classes that a doubt names."""


def class_agreement(posterior: Fit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How often labels name the class of their item, and how often they repeat another label of it.

    The first share of class k is among labels of items that the fit gives to k, the second, a mean over items,
    among all other labels of items with a label k. (K,) each: both, NaN where nothing is counted, and the standard
    error of their difference by items.
    """
    data, p = posterior.data, posterior.uncorrected().result.probabilities
    votes = data.votes()
    labels, (row, k) = votes.sum(1), np.nonzero(votes)
    times, n, truth = votes[row, k], labels[row], p[row, k]
    said = np.where(n > 1, times, 0)
    again = said * (times - 1) / np.maximum(n - 1, 1)
    given, hit, base, repeated = labels @ p, *(np.bincount(k, x, p.shape[1]) for x in (times * truth, said, again))
    with np.errstate(divide="ignore", invalid="ignore"):
        own, other = hit / given, repeated / base
        away = own[k] * n * truth / given[k]  # what an item adds to the difference where nobody names the class
        pull = times * truth / given[k] - away - (again - other[k] * said) / base[k]
        variance = (own / given) ** 2 * np.einsum("i,ik,ik->k", labels**2, p, p)
        variance += np.bincount(k, pull**2 - away**2, p.shape[1])
    return own, other, np.sqrt(np.maximum(variance, 0.0))


def contradicted(own: np.ndarray, other: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Codes of the classes whose items get their label less often than it is repeated, of ``class_agreement``."""
    return np.flatnonzero((own < MARGIN * other) & (own < other - ERRORS * error))


def collapse(posterior: Fit) -> Iterator[str]:
    """The text of the doubt about such classes; sides of comparisons are none that could trade places."""
    if posterior.data.kind == "pair":
        return
    own, other, error = class_agreement(posterior)
    found = contradicted(own, other, error)
    if not len(found):
        return
    items, labels = (x.sum(0) / x.sum() for x in (posterior.result.probabilities, posterior.data.votes()))
    parts = [
        f"{native(posterior.data.classes[k])!r} ({items[k]:.0%} of items, {labels[k]:.0%} of labels; {own[k]:.0%} "
        f"of the labels of its items name it, and {other[k]:.0%} of those beside a label that does)"
        for k in found[:MAX_NAMED]
    ]
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    yield (
        f"labels agree with one another more than with the fit on {len(found)} of {len(own)} classes: "
        f"{', '.join(parts)}{more}. They fell together, wandered off or traded places: take a method with fewer "
        "parameters or a prior that leans on the diagonal, or fit('auto', data), or give known truths (gold=)"
    )
