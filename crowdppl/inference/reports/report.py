"""From parameters, or draws of them, to what a user reads of items, and the names of what sites hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.fold import Fold
from crowdppl.inference.reading.problem import Problem
from crowdppl.inference.reading.sites import Site

MOST_DRAWS = 200
"""Draws that a result keeps of tables, and over which the truth is averaged at least."""
SMALL_DRAWS, NUMBERS = 1_000, 500_000
"""The same where all of them are few numbers: ends of intervals are then known to a fifteenth of a standard
deviation, of 200 draws to a seventh."""
SPREAD_DRAWS, SPREAD_READ = 50, 250_000
"""Draws over which the spread of vb's probabilities is found at least, and the labels that more may read."""
TRUTH_DRAWS, LABELS_READ = 2_000, 2_500_000
"""Draws of a sampler over which the truth of small data is averaged, and the labels that this may read: of 200 the
Monte Carlo error is a fourteenth of a probability's spread, which turns an item that stands between two classes."""
FEWEST_DRAWS, HELD = 50, 200_000_000
"""Draws that vb makes of very large tables, at least, and the numbers that more than these may take."""
WIDTH = 2_000_000
"""Numbers in the largest array of a pass over several draws; ten times as many take memory, and no less time."""
TOGETHER = 64
"""Draws in a pass over small data: fewer pay more for passes, more gain nothing."""
Draws = Mapping[str, Tensor]


def thinned(draws: Draws, n: int) -> dict[str, Tensor]:
    """At most n draws, evenly spread over what there is."""
    have = next(iter(draws.values())).shape[0]
    at = torch.linspace(0, have - 1, min(n, have)).round().long()
    return {name: x[at.to(x.device)] for name, x in draws.items()}


def affordable(problem: Problem) -> int:
    """How many draws are made, or kept: by the size of sites and annotators' tables, which are to fit in memory."""
    block = problem.blocks[0]
    sites = sum(math.prod(site.shape(problem.n_items)) for site in problem.sites.values())
    size = max(sites, block.n_annotators * block.n_classes * block.n_answers)
    wanted = max(MOST_DRAWS, min(SMALL_DRAWS, NUMBERS // size))
    return max(FEWEST_DRAWS, min(wanted, HELD // size))


def draws_for_spread(problem: Problem) -> int:
    """Over how many draws of vb the spread of the truth is found."""
    return max(SPREAD_DRAWS, SPREAD_READ // max(problem.n_labels, 1))


def draws_for_truth(problem: Problem) -> int:
    """Over how many draws of a sampler the truth is averaged: many where that is a small part of what they cost."""
    return max(MOST_DRAWS, min(TRUTH_DRAWS, LABELS_READ // max(problem.n_labels, 1)))


@dataclass(frozen=True)
class TruthOver:
    """Each item's truth probabilities over draws of the parameters, by position.

    Attributes:
        mean, sd: (N, K).
        entropies: (N, 2) in bits: of the mean, and the mean of the draws' own.
    """

    mean: np.ndarray
    sd: np.ndarray
    entropies: np.ndarray


def truth_over(problem: Problem, draws: Draws) -> TruthOver:
    """Truth probabilities averaged over draws."""
    assert problem.truth is not None
    n_draws = next(iter(draws.values())).shape[0]
    rows = max(problem.n_items, problem.blocks[0].n_annotators * problem.blocks[0].n_answers)
    step = max(1, min(TOGETHER, WIDTH // (rows * problem.states)))
    sums: list[Tensor] = []
    for start in range(0, n_draws, step):
        some = {n: x[start : start + step] for n, x in draws.items()}
        density = density_of(problem, len(next(iter(some.values()))))
        fold = Fold(density, problem.blocks, problem.sites)
        marginal = fold(some, marginals=(problem.truth,)).marginals[problem.truth].double()
        found = [marginal.sum(1), marginal.square().sum(1), _bits(marginal).sum(0)]
        sums = [a + b for a, b in zip(sums, found, strict=True)] if sums else found
    mean, square, own = (x / n_draws for x in sums)
    variance = (square - mean.square()).clamp(min=0)
    entropies = torch.stack([_bits(mean), own], -1)
    return TruthOver(mean.t().cpu().numpy(), variance.sqrt().t().cpu().numpy(), entropies.cpu().numpy())


def _bits(p: Tensor) -> Tensor:
    """Entropy in bits over the leading dimension."""
    out: Tensor = torch.special.entr(p).sum(0) / math.log(2)
    return out


def truth_at(problem: Problem, values: Mapping[str, Tensor], chains: int | None) -> np.ndarray:
    """Truth probabilities (N, K) by position at one value of the parameters (particles are averaged)."""
    assert problem.truth is not None
    fold = Fold(density_of(problem, chains), problem.blocks, problem.sites)
    marginal = fold(values, marginals=(problem.truth,)).marginals[problem.truth].double()
    out = marginal if chains is None else marginal.mean(1)
    return out.t().cpu().numpy()


def density_of(problem: Problem, chains: int | None) -> Density:
    """The density of a problem's story, its Dirichlet sites given as log theta."""
    conjugate = frozenset(s.name for s in problem.of_kind("conjugate"))
    return Density(problem.model, problem.plates, chains, conjugate)


@dataclass(frozen=True)
class Dims:
    """Names of a site's dimensions, from the method's card where it has one."""

    problem: Problem

    def of(self, site: Site) -> tuple[str, ...]:
        """One name for each dimension of the site's value."""
        rank = len(site.batch_shape) + len(site.event_shape)
        card = getattr(self.problem.story, "card", None)
        words = card.sites.get(site.name, "").split() if card is not None else []
        if len(words) != rank:
            return tuple(
                "item" if n == -1 else f"{site.name}_dim_{i}"
                for i, n in enumerate((*site.batch_shape, *site.event_shape))
            )
        return tuple(_names(words))


def _names(words: Sequence[str]) -> list[str]:
    """K K becomes truth, label; a lone K becomes class; other letters become what they count."""
    plain = {"N": "item", "A": "annotator", "L": "answer"}
    twice = words.count("K") + words.count("L") > 1 and "K" in words
    out: list[str] = []
    for word in words:
        if word == "K":
            name = ("label" if "truth" in out else "truth") if twice else "class"
        else:
            name = "label" if word == "L" and twice else plain.get(word, word.lower())
        while name in out:
            name += "_"
        out.append(name)
    return out
