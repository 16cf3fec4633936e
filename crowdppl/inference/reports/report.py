"""From parameters, or draws of them, to what a user reads: truth, tables, prevalence, site by site."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.bags import Bags
from crowdppl.data.blocks import Block
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.fold import Fold
from crowdppl.inference.reading.problem import Problem
from crowdppl.inference.reading.sites import Site
from crowdppl.inference.reports.fresh import fresh_items

MOST_DRAWS = 200
"""Draws over which the truth is averaged; its Monte Carlo error is then a fourteenth of its own spread."""
FEWEST_DRAWS, HELD = 50, 200_000_000
"""Draws that vb makes of very large tables, at least, and the numbers that more than these may take."""
WIDTH = 2_000_000
"""Numbers in the largest array of a pass over several draws; ten times as many take memory, and no less time."""
LINEAR = 1e-5
"""Difference of float32 probabilities that is rounding."""

Draws = Mapping[str, Tensor]


def thinned(draws: Draws, n: int) -> dict[str, Tensor]:
    """At most n draws, evenly spread over what there is."""
    have = next(iter(draws.values())).shape[0]
    at = torch.linspace(0, have - 1, min(n, have)).round().long()
    return {name: x[at.to(x.device)] for name, x in draws.items()}


def affordable(problem: Problem) -> int:
    """How many draws vb makes: fewer where sites or annotators' tables are so large that draws fill the memory."""
    block = problem.blocks[0]
    sites = sum(math.prod(site.shape(problem.n_items)) for site in problem.sites.values())
    size = max(sites, block.n_annotators * block.n_classes * block.n_answers)
    return max(FEWEST_DRAWS, min(MOST_DRAWS, HELD // size))


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
    step = max(1, min(16, WIDTH // (problem.n_items * problem.states)))
    sums: list[Tensor] = []
    for start in range(0, n_draws, step):
        some = {n: x[start : start + step] for n, x in draws.items()}
        density = _density(problem, len(next(iter(some.values()))))
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
    fold = Fold(_density(problem, chains), problem.blocks, problem.sites)
    marginal = fold(values, marginals=(problem.truth,)).marginals[problem.truth].double()
    out = marginal if chains is None else marginal.mean(1)
    return out.t().cpu().numpy()


def tables_at(problem: Problem, values: Mapping[str, Tensor], chains: int | None) -> tuple[Tensor, Tensor]:
    """What each annotator would answer on a fresh item of each class, whatever the story.

    Every (annotator, answer) pair is put to the story as an item with that one label; Bayes' rule turns the
    posterior of its truth and its evidence into p(answer | annotator, truth). That is averaged over what sites of
    single items may be for a fresh item, such as its difficulty: errors on hard items are errors, too.

    Returns:
        ([C,] A, K, L) tables and ([C,] K) prevalence.
    """
    assert problem.truth is not None
    block = problem.blocks[0]
    probe = _probe_block(block)
    local = [n for n, s in problem.sites.items() if s.local]
    given = {n: x for n, x in values.items() if n not in local}
    density, joint = _density(problem, chains), torch.zeros(())
    for own in fresh_items(density, probe, given, local):
        one = density(probe, given | own, marginals=(problem.truth,))
        share = one.marginals[problem.truth].double()  # (K, [C,] items)
        joint = joint + share * one.per_item.double().exp()
    prevalence = joint[..., -1] / joint[..., -1].sum(0)
    conditional = joint[..., :-1] / prevalence.clamp(min=1e-300).unsqueeze(-1)
    conditional = conditional.reshape(*conditional.shape[:-1], block.n_annotators, block.n_answers)
    if block.abstainers is not None:
        conditional[..., ~block.abstainers, block.n_classes :] = 0
    total = conditional.sum(-1, keepdim=True)
    even = torch.full_like(conditional, 1 / block.n_answers)
    tables = torch.where(total > 0, conditional / total.clamp(min=1e-300), even)
    return tables.movedim(0, -2), prevalence.movedim(0, -1)


def _probe_block(block: Block) -> Block:
    """One item for each (annotator, answer) pair, and one without labels."""
    cells, known = block.n_annotators * block.n_answers, block.item_covariates
    every = torch.arange(cells + 1, dtype=torch.int32, device=block.device)
    bags = Bags(cells + 1, cells, every[:-1], every, every[:-1], None, None)
    # Everyone may abstain here: an answer of probability 0 would be no item that a story can have.
    return replace(
        block,
        bags=bags,
        gold=None,
        evidence=None,
        features=None,
        seen=None,
        item_covariates=known and known.average(cells + 1),
        abstainers=None,
        offset=0,
        scale=1.0,
        tempered=False,
        dtype=torch.float64,
        _views={},
    )


def table_draws(problem: Problem, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """(n, A, K, L) float32 draws of the annotators' tables and (n, K) of the prevalence."""
    block = problem.blocks[0]
    n = next(iter(draws.values())).shape[0]
    step = max(1, min(32, WIDTH // (block.n_annotators * block.n_answers * problem.states)))
    tables, prevalence = [], []
    for start in range(0, n, step):
        some = {name: x[start : start + step] for name, x in draws.items()}
        table, share = tables_at(problem, some, len(next(iter(some.values()))))
        tables.append(table.float().cpu().numpy())
        prevalence.append(share.cpu().numpy())
    return np.concatenate(tables), np.concatenate(prevalence)


def are_linear(problem: Problem, crossed: Draws) -> bool:
    """Whether truth and answer together are linear in each site of shares; the mean table is then that at the mean.

    They are not where a one-hot site chooses among rows of others, or a row is used twice.

    Args:
        problem: the story and data.
        crossed: as from ``crowdppl.inference.reading.draws.crossed``.
    """
    if not len(next(iter(crossed.values()))):
        return True
    tables, prevalence = table_draws(problem, crossed)
    joint = tables * prevalence[:, None, :, None]
    one, other, middle = joint[::3], joint[1::3], joint[2::3]
    return bool(np.allclose(middle, (one + other) / 2, rtol=0, atol=LINEAR))


def _density(problem: Problem, chains: int | None) -> Density:
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
