"""How far skills lie apart: the spread under which all comparisons are most probable."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from crowdppl.data.kinds.comparisons import grades_of
from crowdppl.data.kinds.parts import SIDES
from crowdppl.primitives.likelihood import item_groups
from crowdppl.primitives.plates import Data, block_of

SPREADS = np.geomspace(0.1, 10.0, 17)
"""Standard deviations of log-skills that are tried."""
RELIABLE = np.array([0.55, 0.65, 0.75, 0.85, 0.92, 0.98])
"""Probabilities that an annotator is right, over which is averaged."""
TINY = 1e-300
DENSE = 500
"""Objects whose skills are integrated out together; of more, each by itself."""
STEPS, CLOSE = 60, 1e-4
"""Of Newton's search, and its gain at the end."""


def learned_spread(data: Data, coin: tuple[float, float] | None = None) -> float:
    """Finds how far the skills of compared objects lie apart: the standard deviation of their logarithms.

    It has a half-Cauchy prior of scale 1 (Gelman 2006, doi:10.1214/06-BA117A), and the mean of its logarithm is
    taken: 0 without answers, and what they say where these are many. Log-skills are normal, and integrated out by
    Laplace's approximation; a tie is half of either answer, and a known truth one more.
    Intervals of a fit take it for known: of 60 answers by annotators who often err they are too narrow.

    Args:
        data: the model's argument. A model finds the number in ``setup``, once for all blocks of the labels.
        coin: pseudo-counts of right and wrong answers, where annotators may err; they are taken for alike here.

    Returns:
        A number from 0.1 to 10.

    Raises:
        DataError: ``data`` is neither annotations nor a block of them, or they compare nothing.

    Examples:
        >>> round(crowdppl.primitives.learned_spread(crowdppl.datasets.example("pair")), 1)
        0.4
    """
    block = block_of(data)
    pair, answers = item_groups(block, *SIDES).cpu().numpy(), np.zeros((block.n_items, len(SIDES)))
    given = [(block.item, block.answer)] if block.has_labels else []
    given += [] if block.gold is None else [(torch.arange(block.n_items), block.gold)]
    for item, answer in ((x.cpu().numpy(), y.cpu().numpy()) for x, y in given):
        for said, grade in enumerate(np.sign(grades_of(block.n_classes))):
            shares = np.array([1 + grade, 1 - grade]) / 2
            answers += np.outer(np.bincount(item[answer == said], minlength=block.n_items), shares)
    asked = answers.sum(1) > 0
    half_cauchy = -np.log(SPREADS + 1 / SPREADS)
    each = [_evidence(pair[asked], answers[asked], share) for share in (RELIABLE if coin else (1.0,))]
    if coin is not None:
        right, wrong = coin
        prior = (right - 1) * np.log(RELIABLE) + (wrong - 1) * np.log1p(-RELIABLE)
        each = [np.logaddexp.reduce(np.array(each) + prior[:, None])]
    weight = np.exp(half_cauchy + each[0] - np.max(half_cauchy + each[0]))
    return float(np.exp(np.average(np.log(SPREADS), weights=weight)))


def _evidence(pair: np.ndarray, answers: np.ndarray, reliable: float) -> np.ndarray:
    """Log-probability of answers (N, 2) to pairs (N, 2) of objects for each spread, skills integrated out."""
    from scipy import sparse  # slow to import

    objects, code = np.unique(pair, return_inverse=True)
    at = (np.tile(np.arange(len(pair)), 2), code.reshape(pair.shape).T.ravel())
    lead = sparse.csr_matrix((np.repeat([1.0, -1.0], len(pair)), at), (len(pair), len(objects)))
    out, log_skill = [], np.zeros(len(objects))
    for spread in SPREADS:
        found, log_skill = _integrated(lead, answers, spread, reliable, log_skill)
        out.append(found)
    return np.array(out)


def _integrated(
    lead: Any, answers: np.ndarray, spread: float, reliable: float, log_skill: np.ndarray
) -> tuple[float, np.ndarray]:
    """The integral for one spread, and the log-skills of the mode, found from others by Fisher's scoring."""
    from scipy import sparse
    from scipy.sparse.linalg import cg
    from scipy.special import expit

    n, won, lost = len(log_skill), *answers.T

    def chances(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        left, right = (1 - reliable + (2 * reliable - 1) * expit(side * (lead @ at)) for side in (1, -1))
        return np.maximum(left, TINY), np.maximum(right, TINY)

    def density(at: np.ndarray) -> float:
        left, right = chances(at)
        labels = won @ np.log(left) + lost @ np.log(right)
        return float(labels - (at @ at) / (2 * spread**2) - n * np.log(spread))

    highest = density(log_skill)
    for _ in range(STEPS):
        (left, right), share = chances(log_skill), expit(lead @ log_skill)
        change = (2 * reliable - 1) * share * (1 - share)
        slope = lead.T @ ((won / left - lost / right) * change) - log_skill / spread**2
        known = sparse.diags((won + lost) * change**2 / (left * right))
        curvature = lead.T @ known @ lead + sparse.identity(n) / spread**2
        both, before = n <= DENSE, highest
        if both:
            step = np.linalg.solve(curvature.toarray(), slope)
        else:
            step = cg(curvature, slope, M=sparse.diags(1 / curvature.diagonal()))[0]
        while (highest := density(log_skill + step)) < before and np.abs(step).max() > CLOSE:
            step = step / 2
        log_skill = log_skill + step
        if highest - before < CLOSE:
            break
    log_det = np.linalg.slogdet(curvature.toarray())[1] if both else np.log(curvature.diagonal()).sum()
    return highest - log_det / 2, log_skill
