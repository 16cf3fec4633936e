"""Statistics of labels by item, of which predictive checks compare data and replicates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crowdppl.agreement.votes import row_pairs
from crowdppl.criticism.design import MIN_SHARED, Design
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.comparisons import PAIR, grades_of
from crowdppl.data.kinds.parts import SIDES
from crowdppl.data.kinds.rankings import OF_RANKS

RAREST = 0.05
"""Probability of an answer, agreement on rarer ones than which has no more weight."""


def _unanimous(design: Design, answer: np.ndarray) -> float:
    several = design.labels > 1
    return float((design.votes(answer)[several].max(1) == design.labels[several]).mean())


def _pair_agreement(design: Design, answer: np.ndarray) -> float:
    votes = design.votes(answer)
    return float((votes * (votes - 1)).sum() / (design.labels * (design.labels - 1)).sum())


def _class_shares(design: Design, answer: np.ndarray) -> float:
    given = design.given(answer)
    n = given.sum(1, keepdims=True)
    distance = given / np.maximum(n, 1) - given.sum(0) / n.sum()
    return float((n * distance**2).sum() / n.sum())


STATISTICS: dict[str, Callable[[Design, np.ndarray], float]] = {
    "unanimous": _unanimous,
    "pair_agreement": _pair_agreement,
    "class_shares": _class_shares,
}
"""Those that one set of answers has by itself."""
OF_ONE = ("class_shares",)
"""Those of them that need no two labels of an item."""


def of_triads(data: Annotations, design: Design, answers: np.ndarray) -> dict[str, np.ndarray]:
    """The share of cycles among three objects of which each two have a winner; none where nothing is compared."""
    if data.alphabet.kind != PAIR:
        return {}
    from scipy.sparse import coo_array  # slow to import

    covariates = data.item_covariates
    assert covariates is not None
    left, right = (covariates[side].cat.codes.to_numpy()[data.order][design.item] for side in SIDES)
    size = len(covariates[SIDES[0]].cat.categories)
    cycles, grade = [], grades_of(data.n_classes)
    for answer in answers:
        won, named = (np.isin(answer, np.flatnonzero(x)) for x in (grade > 0, grade != 0))
        ahead, behind = np.where(won, left, right)[named], np.where(won, right, left)[named]
        net = coo_array((np.ones(len(ahead)), (ahead, behind)), (size, size)).tocsr()
        beats = ((net - net.T) > 0).astype(np.float64)
        decided = beats + beats.T
        triads = (decided @ decided).multiply(decided).sum() / 6
        cycles.append((beats @ beats).multiply(beats.T).sum() / 3 / max(triads, 1))
    return {"cycles": np.array(cycles)}


def of_numbers(design: Design, errors: np.ndarray) -> dict[str, np.ndarray]:
    """The statistics of labels that are numbers, for each row of their ``errors``."""
    n = design.labels[design.item]
    several = n > 1
    who, wider = design.annotator[several], np.sqrt(n[several] / (n[several] - 1))
    given, found = np.maximum(np.bincount(who), 1), []
    for row in errors:
        error = row[several] * wider
        bias, square = (np.bincount(who, x) / given for x in (error, error**2))
        own = np.sqrt(np.maximum(square - bias**2, 0))[who]
        scaled = np.divide(error - bias[who], own, out=np.zeros_like(own), where=own > 0)
        within, tails = np.sqrt((error**2).mean()), (scaled**4).mean()
        found.append((within, bias[who].std(), np.sqrt(square)[who].std(), tails))
    names = ("within_items", "annotator_means", "annotator_spreads", "tails")
    return dict(zip(names, np.array(found).T, strict=True))


def errors_of(design: Design, numbers: np.ndarray) -> np.ndarray:
    """How far numbers are from the mean of their item, (n, S)."""
    times, space = np.maximum(np.bincount(design.item), 1), design.space
    found = []
    for y in numbers:
        mean, _ = space.estimate(*(np.bincount(design.item, x) / times for x in space.moments(y)))
        found.append(space.error(y, mean[design.item]))
    return np.stack(found)


def rankings_of(data: Annotations, design: Design) -> tuple[np.ndarray, np.ndarray]:
    """The problem and the ranking, as codes, of each label, (S,) each."""
    assert data.item_covariates is not None
    problem = data.item_covariates[OF_RANKS[0]].cat.codes.to_numpy(np.int64)[data.order][design.item]
    return problem, np.unique(problem * design.n_annotators + design.annotator, return_inverse=True)[1]


def tied_alike(ranks: np.ndarray, ranking: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Drawn rankings (n, S), without ties, whose places have the ranks (S,) that were given, ties among them."""
    order = np.lexsort((ranks, ranking))
    first = np.searchsorted(ranking[order], ranking)
    return np.asarray(ranks[order][first + drawn.astype(np.int64) - 1])


def of_rankings(
    design: Design, problem: np.ndarray, ranking: np.ndarray, answers: np.ndarray
) -> dict[str, np.ndarray]:
    """The statistics of rankings, for each row of ranks."""
    order = np.argsort(ranking, kind="stable")
    sizes = np.bincount(ranking)
    start = np.cumsum(sizes) - sizes
    one, other = (order[rows] for rows in row_pairs(sizes))
    one, other = (np.where(design.item[one] < design.item[other], *x) for x in ((one, other), (other, one)))
    _, both = np.unique(design.item[one] * len(design.labels) + design.item[other], return_inverse=True)
    pairs, rankings = _pairs_of(np.bincount(both)), _pairs_of(np.bincount(problem[order[start]]))
    found = []
    for ranks in answers:
        ahead = np.sign(ranks[other] - ranks[one])
        tops = []
        for rank in (ranks, -ranks):
            first = rank == np.minimum.reduceat(rank[order], start)[ranking]
            share = first / np.bincount(ranking, first)[ranking]
            tops.append(_agreed(design.item, share) / rankings)
        found.append((_agreed(both, ahead) / max(pairs, 1), *tops))
    names = ("rank_agreement", "top_agreement", "bottom_agreement")
    return dict(zip(names, np.array(found).T, strict=True))


def _pairs_of(sizes: np.ndarray) -> float:
    return float((sizes * (sizes - 1)).sum() / 2)


def _agreed(group: np.ndarray, x: np.ndarray) -> float:
    """The sum over pairs of one group of the products of their numbers."""
    return float((np.bincount(group, x) ** 2 - np.bincount(group, x**2)).sum() / 2)


def of_pairs(design: Design, answers: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """The two statistics of annotator pairs, for each row of answers; none where no pair shares enough.

    Equal answers agree by the product of their ``weights``, (n, S).
    """
    met, times = design.met()
    met = met[times >= MIN_SHARED]
    if not len(met):
        return {}
    agreed = np.zeros((len(answers), len(met)))
    for one, other, key in design.meetings():
        column = np.minimum(np.searchsorted(met, key), len(met) - 1)
        kept = met[column] == key
        one, other, column = one[kept], other[kept], column[kept]
        for total, answer, weight in zip(agreed, answers, weights, strict=True):
            same = answer[one] == answer[other]
            a, b = one[same], other[same]
            total += np.bincount(column[same], weight[a] * weight[b], len(met))
    distance = (agreed - agreed.mean(0)) / np.sqrt(agreed.var(0) + 1)
    return {"pair_excess": distance.max(1), "pair_misfit": (distance**2).mean(1)}


def rarity(answers: np.ndarray, n_answers: int) -> np.ndarray:
    """One over the root of how probable each answer was at its place: (n, S), float32."""
    out = np.empty(answers.shape, np.float32)
    for answer in range(n_answers):
        given = answers == answer
        p = np.maximum(given.mean(0), RAREST)
        out[given] = np.broadcast_to(p**-0.5, given.shape)[given]
    return out


def standardised(numbers: np.ndarray) -> np.ndarray:
    """By the mean and the standard deviation at its place: (n, S), float32."""
    apart, sd = numbers - numbers.mean(0), numbers.std(0)
    return np.where(sd > 0, apart / np.where(sd > 0, sd, 1), 0).astype(np.float32)
