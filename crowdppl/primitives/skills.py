"""How far skills lie apart: the spread under which all comparisons are most probable."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from crowdppl.core.collective import all_gathered
from crowdppl.data.blocks import Block
from crowdppl.data.kinds.comparisons import grades_of
from crowdppl.data.kinds.parts import SIDES
from crowdppl.data.kinds.rankings import OF_RANKS
from crowdppl.primitives.likelihood import item_groups
from crowdppl.primitives.plates import Data, block_of

SPREADS = np.geomspace(0.1, 10.0, 17)
"""Standard deviations of log-skills that are tried."""
RELIABLE = np.array([0.55, 0.65, 0.75, 0.85, 0.92, 0.98])
"""Probabilities that an annotator is right, over which is averaged."""
TINY = 1e-300
DENSE = 500
"""Objects whose skills are integrated out together; of more, each by itself."""
FAR, CELLS, NODES = 200.0, 400, 40
"""Of the grid of leads by which grades are cut, and of the quadrature over log-skills."""
PARTNERS = 10
"""How far apart two objects of a ranking, put in a random order, may be to be compared."""
STEPS, CLOSE = 60, 1e-4
"""Of Newton's search, and its gain at the end."""


def learned_spread(data: Data, coin: tuple[float, float] | None = None, graded: bool = False) -> float:
    """Finds how far the skills of compared or ranked objects lie apart: the standard deviation of their logarithms.

    It has a half-Cauchy prior of scale 1 (Gelman 2006, doi:10.1214/06-BA117A), and the mean of its logarithm is
    taken: 0 without answers, and what they say where these are many. Log-skills are normal, and integrated out by
    Laplace's approximation; a tie is half of either answer, and a known truth one more. A ranking is taken for
    comparisons of its objects, each with up to 20 others at random: two objects of a ranking by stages are in an
    order as those that Bradley & Terry compare. These count as independent, which they are not: few long rankings
    give too wide a spread.
    Intervals of a fit take it for known, and are too narrow where answers are few: of four an object, those of 90 %
    hold three quarters of the true scores of 20 objects whose spread is 1.

    Args:
        data: the model's argument. A model finds the number in ``setup``, once for all blocks of the labels.
        coin: pseudo-counts of right and wrong answers, or of rankings by skill and at random, where annotators may
            err; they are taken for alike here.
        graded: whether ties and strengths are grades that are cut from a logistic, where they have the shares that
            they have in the answers if objects were compared at random.

    Returns:
        A number from 0.1 to 10.

    Raises:
        DataError: ``data`` is neither annotations nor a block of them, or they compare nothing.

    Examples:
        >>> round(crowdppl.primitives.learned_spread(crowdppl.datasets.example("pair")), 1)
        0.4
    """
    block = block_of(data)
    ranked = block.n_classes == 0
    own = _summed(*(_ranked(block) if ranked else _compared(block, graded)))
    every = [own] if isinstance(data, Block) else all_gathered(own)  # a block is of one process
    pair, answers = _summed(*map(np.concatenate, zip(*every, strict=True)))
    objects, code = np.unique(pair, return_inverse=True)
    pair, half_cauchy = code.reshape(-1, 2), -np.log(SPREADS + 1 / SPREADS)
    ends, reliable = _ends(answers.sum(0)), RELIABLE if coin else np.ones(1)
    each = [_evidence(pair, answers, ends, share, len(objects)) for share in reliable]
    if coin is not None:
        right, wrong = coin
        skilled = 2 * RELIABLE - 1 if ranked else RELIABLE  # a ranking at random has half of all pairs right
        prior = (right - 1) * np.log(skilled) + (wrong - 1) * np.log1p(-skilled)
        each = [np.logaddexp.reduce(np.array(each) + prior[:, None])]
    weight = np.exp(half_cauchy + each[0] - np.max(half_cauchy + each[0]))
    return float(np.exp(np.average(np.log(SPREADS), weights=weight)))


def _summed(pair: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each pair that was asked about once, and how often each answer was given; both in one order."""
    asked = answers.sum(1) > 0
    pairs, row = np.unique(pair[asked], axis=0, return_inverse=True)
    return pairs, np.stack([np.bincount(row.ravel(), each, len(pairs)) for each in answers[asked].T], 1)


def _compared(block: Block, graded: bool) -> tuple[np.ndarray, np.ndarray]:
    """The objects of each item (N, 2), and how often each answer was given, (N, K)."""
    pair, k = item_groups(block, *SIDES).cpu().numpy(), block.n_classes
    answers = np.zeros((block.n_items, k))
    given = [(block.item, block.answer)] if block.has_labels else []
    given += [] if block.gold is None else [(torch.arange(block.n_items), block.gold)]
    for item, answer in ((x.cpu().numpy(), y.cpu().numpy()) for x, y in given):
        named = (answer >= 0) & (answer < k)
        answers += np.bincount(item[named] * k + answer[named], minlength=answers.size).reshape(answers.shape)
    return pair, answers if graded else answers @ (1 + np.outer(np.sign(grades_of(k)), [1, -1])) / 2


def _ranked(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of objects of a ranking (N, 2), and which of them is ahead, (N, 2), half each where they are tied."""
    found = [(np.empty((0, 2), np.int64), np.empty((0, 2)))]
    given = [(block.rankings, block.item)] if block.has_labels else []
    if block.gold is not None:
        given.append((block.known_rankings, block.gold.isfinite().nonzero().squeeze(-1)))
    thing = item_groups(block, OF_RANKS[1]).cpu().numpy()
    for rankings, item in given:
        assert rankings.ranks is not None
        ranking, rank = rankings.of_label.cpu().numpy(), rankings.ranks.cpu().numpy()
        who = rankings.annotator.cpu().numpy()[ranking]
        order = np.lexsort((_mixed(thing[item.cpu().numpy()] * block.n_annotators + who), ranking))
        for apart in range(1, min(PARTNERS, max(rankings.sizes.tolist(), default=1) - 1) + 1):
            one, other = order[:-apart], order[apart:]
            same = ranking[one] == ranking[other]
            one, other = one[same], other[same]
            ahead = (1 + np.sign(rank[other] - rank[one])) / 2
            pair = thing[item.cpu().numpy()[np.stack([one, other], 1)]]
            swap = pair[:, 0] > pair[:, 1]
            ahead = np.where(swap, 1 - ahead, ahead)
            found.append((np.sort(pair, 1), np.stack([ahead, 1 - ahead], 1)))
    return np.concatenate([pair for pair, _ in found]), np.concatenate([ahead for _, ahead in found])


def _mixed(codes: np.ndarray) -> np.ndarray:
    """Numbers that stand in for random ones, the same of a code wherever it is (splitmix64: Steele et al. 2014)."""
    x = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def _evidence(pair: np.ndarray, answers: np.ndarray, ends: list[np.ndarray], reliable: float, n: int) -> np.ndarray:
    """Log-probability of answers (N, K) to pairs (N, 2) of n objects for each spread, skills integrated out."""
    out, log_skill = [], np.zeros(n)
    for spread, end in zip(SPREADS, ends, strict=True):
        found, log_skill = _integrated(pair, answers, end, spread, reliable, log_skill)
        out.append(found)
    return np.array(out)


def _ends(times: np.ndarray) -> list[np.ndarray]:
    """From which logistic lead to which each answer is given, (2, K) for each spread, if shares at random are those
    of times (K,).
    """
    from scipy.special import expit

    grade, x = grades_of(len(times)), np.append(0.0, np.geomspace(1e-3, FAR, CELLS))
    z, weight = np.polynomial.hermite_e.hermegauss(NODES)
    fewer, out = [times[np.abs(grade) < m].sum() / max(times.sum(), 1) for m in range(1, grade.max() + 1)], []
    for spread in SPREADS:
        within = (2 * expit(x[:, None] - np.sqrt(2) * spread * z) - 1) @ weight / weight.sum()
        cut = np.append(np.interp(fewer, within, x), np.inf)
        cut = np.append(-cut[0], cut)
        near, far = cut[np.abs(grade)], cut[np.abs(grade) + 1]
        out.append(np.where(grade < 0, [-far, -near], [near, far]))
    return out


def _curvature(pair: np.ndarray, known: np.ndarray, prior: float, n: int) -> Any:
    """What comparisons and the prior tell of the skills of n objects, (n, n), sparse where these are many."""
    own = np.bincount(pair.ravel(), known.repeat(2), n) + prior
    if n <= DENSE:
        between = np.bincount(pair @ [n, 1], known, n * n).reshape(n, n)
        return np.diag(own) - between - between.T
    from scipy import sparse  # slow to import

    between = sparse.csr_matrix((known, tuple(pair.T)), (n, n))
    return (sparse.diags(own) - between - between.T).tocsr()


def _integrated(
    pair: np.ndarray, answers: np.ndarray, ends: np.ndarray, spread: float, reliable: float, log_skill: np.ndarray
) -> tuple[float, np.ndarray]:
    """The integral for one spread, and the log-skills of the mode, found from others by Fisher's scoring."""
    from scipy.special import expit

    n, times, prior = len(log_skill), answers.sum(1), 1 / spread**2
    wrong = (1 - reliable) / (answers.shape[1] - 1)
    (one, other), most = pair.T, (reliable - wrong) * -np.expm1(ends[0] - ends[1])

    def told(at: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The log-density, the probability of each answer, and its slope by the lead of an object."""
        lead = (at[one] - at[other])[:, None]
        over, under = expit(lead - ends[0]), expit(ends[1] - lead)
        own = most * over * under
        p = np.maximum(wrong + own, TINY)
        density = (answers * np.log(p)).sum() - prior * (at @ at) / 2 - n * np.log(spread)
        return float(density), p, own * (under - over)

    highest, p, change = told(log_skill)
    for _ in range(STEPS):
        each = (answers / p * change).sum(1)
        slope = np.bincount(one, each, n) - np.bincount(other, each, n) - prior * log_skill
        curvature = _curvature(pair, times * (change**2 / p).sum(1), prior, n)
        step, before = _solved(curvature, slope), highest
        while (found := told(log_skill + step))[0] < before and np.abs(step).max() > CLOSE:
            step = step / 2
        log_skill, (highest, p, change) = log_skill + step, found
        if highest - before < CLOSE:
            break
    dense = isinstance(curvature, np.ndarray)
    log_det = np.linalg.slogdet(curvature)[1] if dense else np.log(curvature.diagonal()).sum()
    return highest - log_det / 2, log_skill


def _solved(curvature: Any, slope: np.ndarray) -> np.ndarray:
    """A step of Newton's search."""
    if isinstance(curvature, np.ndarray):
        return np.linalg.solve(curvature, slope)
    from scipy import sparse
    from scipy.sparse.linalg import cg

    step: np.ndarray = cg(curvature, slope, M=sparse.diags(1 / curvature.diagonal()))[0]
    return step
