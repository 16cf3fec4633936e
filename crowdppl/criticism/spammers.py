"""Spammers found from labels alone."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pandas as pd

from crowdppl.agreement.votes import DeduplicatedVotes, row_pairs
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.errors import DataError

SPARSE_SOLVER = 200
"""Annotators from which on only the largest eigenvectors are computed."""
MAX_ROUNDS, TOLERANCE = 1000, 1e-5
"""V is fitted in at most so many rounds, until no cell of its product moves by more."""


def covariance_spammers(data: Annotations) -> pd.DataFrame:
    """Finds spammers from labels alone, as a second opinion: no model is fitted.

    Labels of two annotators covary only through the truth. Their covariances, summed over classes (agreement less
    what is expected from how often each gives a class), are off the diagonal a matrix V V' of rank (K - 1)^2 at
    most, and a spammer's row of V is zero. Pairs weigh as many items as they share, the diagonal nothing. Rows are
    then split by length into two clusters of least squares, of which the shorter are the spammers. There are
    always two clusters: look at lengths before dropping anyone; a fit without weak annotators may be worse. Who
    copies a spammer is not found. After Traganitis & Giannakis (2021), "Identifying
    spammers to boost crowdsourced classification", who cluster rows. Abstentions are no labels.

    Returns:
        DataFrame by annotator:

        - ``labels``: labels given, repeats counted once
        - ``strength``: length of the row of V; NaN for annotators who share no item with anyone
        - ``spammer``: whether it is in the shorter cluster

    Raises:
        DataError: when fewer than three annotators share items, or labels are no classes.

    Examples:
        >>> crowd = crowdppl.simulate_annotators([0, 1, 2] * 50, {"hammer": 3, "spammer": 1}, seed=0)
        >>> crowdppl.covariance_spammers(crowd.data).round(2)
                   labels  strength  spammer
        annotator
        hammer-1      150      0.55    False
        hammer-2      150      0.48    False
        hammer-3      150      0.60    False
        spammer-1     150      0.14     True
    """
    n_classes = len(require_annotations(data).classes)
    ballots = DeduplicatedVotes.of(data)
    covariance, shared, own = _covariances(ballots)
    seen = shared.any(1)
    if seen.sum() < 3:
        raise DataError(f"{int(seen.sum())} annotators share items; at least 3 have to, for a structure to show")
    strength = np.full(ballots.n_annotators, np.nan)
    rank = min((n_classes - 1) ** 2, int(seen.sum()) - 1)
    strength[seen] = _lengths(covariance[np.ix_(seen, seen)], shared[np.ix_(seen, seen)], own[seen], rank)
    labels = np.bincount(ballots.annotator[ballots.first_rows], minlength=ballots.n_annotators)
    columns = {"labels": labels, "strength": strength, "spammer": strength < _split(strength[seen])}
    return pd.DataFrame(columns, index=data.annotators)


def _covariances(ballots: DeduplicatedVotes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances summed over classes and numbers of shared items, (A, A) each; own variances, (A,)."""
    a, k = ballots.n_annotators, ballots.n_classes
    given = np.bincount(ballots.annotator * k + ballots.answer, ballots.share, a * k).reshape(a, k)
    rates = given / np.maximum(given.sum(1, keepdims=True), 1)
    one, other = row_pairs(np.bincount(ballots.item))
    cell = ballots.annotator[one] * a + ballots.annotator[other]
    weight = ballots.share[one] * ballots.share[other] * (ballots.annotator[one] != ballots.annotator[other])
    shared, same = (
        (x + x.T)
        for x in (
            np.bincount(cell, w, a * a).reshape(a, a)
            for w in (weight, weight * (ballots.answer[one] == ballots.answer[other]))
        )
    )
    chance = rates @ rates.T
    return np.where(shared > 0, same / np.maximum(shared, 1e-9) - chance, 0), shared, 1 - chance.diagonal()


def _lengths(covariance: np.ndarray, shared: np.ndarray, own: np.ndarray, rank: int) -> np.ndarray:
    """Lengths of rows of V, for V V' nearest off the diagonal, at most root ``own`` (Srebro & Jaakkola 2003)."""
    weight = shared / shared.max()
    fitted = np.zeros_like(covariance)
    for _ in range(MAX_ROUNDS):
        values, vectors = _largest(fitted + weight * (covariance - fitted), rank)
        v = vectors * np.sqrt(np.maximum(values, 0))
        v *= np.minimum(1, np.sqrt(own / np.maximum((v**2).sum(1), 1e-12)))[:, None]
        before, fitted = fitted, v @ v.T
        if np.abs(fitted - before).max() < TOLERANCE:
            break
    return np.asarray(np.sqrt((v**2).sum(1)))


def _largest(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues (rank,) of a symmetric matrix (A, A), and their vectors (A, rank)."""
    if len(matrix) >= SPARSE_SOLVER and 10 * rank <= len(matrix):
        from scipy.sparse.linalg import ArpackError, eigsh  # slow to import

        with suppress(ArpackError):  # to which a matrix of zeros is one
            found: tuple[np.ndarray, np.ndarray] = eigsh(matrix, rank, which="LA", v0=np.ones(len(matrix)))
            return found
    values, vectors = np.linalg.eigh(matrix)
    return values[-rank:], vectors[:, -rank:]


def _split(lengths: np.ndarray) -> float:
    """The shortest length of the longer cluster: two clusters of least squares, found by trying all cuts."""
    x = np.sort(lengths)
    n = np.arange(1, len(x))
    before, after = np.cumsum(x)[:-1], x.sum() - np.cumsum(x)[:-1]
    return float(x[1 + np.argmax(before**2 / n + after**2 / (len(x) - n))])
