"""Chains whose classes stand for other classes than the votes do: found, and called as the votes call them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.fold import Fold
from crowdppl.inference.reading.problem import Problem

CLEAR = 0.1
"""Likeness to the votes that each renamed class has to gain in the mean, on a scale from 0 to 1."""
LOOKS = 3
"""Draws of a chain from which its permutation is read at the end."""
SMALLEST = 1e-6
"""Share of a class below which a relabelled truth is not followed: what was certain may be drawn back."""


def likeness(marginal: Tensor, counts: Tensor) -> np.ndarray:
    """How alike each chain's classes and those of the votes are.

    The items that a chain gives to its class k and the votes to class j, over the geometric mean of all that it
    gives to k and they to j: 1 where both mean the same items, whatever the sizes of classes, so that a large class
    does not outweigh a small one, nor an empty one find its like by chance.

    Args:
        marginal: truth probabilities of each chain, (K, C, N).
        counts: votes, (N, K).

    Returns:
        (C, K, K), [chain, class of the chain, class of the votes].
    """
    voted = counts.sum(1, keepdim=True)
    shares = counts / voted.clamp(min=1)
    seen = (voted > 0).to(shares)  # an item without votes is no sign of anything
    out = []
    for chain in range(marginal.shape[1]):
        mine = marginal[:, chain].to(shares) * seen.t()
        sizes = mine.sum(1)[:, None] * shares.sum(0)
        out.append(mine @ shares / sizes.clamp(min=1e-12).sqrt())
    return torch.stack(out).cpu().numpy()


def permutation(alike: np.ndarray) -> np.ndarray:
    """The class of the votes for which each class of a chain stands, (K,).

    That of the largest total likeness (K, K), where it is clearly larger than as the classes are called; else they
    stand for themselves.
    """
    own = np.arange(len(alike))
    if (alike.argmax(1) == own).all():
        return own
    from scipy.optimize import linear_sum_assignment  # slow to import

    best = np.asarray(linear_sum_assignment(alike, maximize=True)[1])
    gain = float((alike[own, best] - alike[own, own]).sum())
    return best if gain > CLEAR * np.count_nonzero(best != own) else own


def permutations(problem: Problem, draws: Mapping[str, Tensor]) -> list[list[int]]:
    """For which class of the votes each class stands, in each chain of a finished run.

    Args:
        problem: story and data.
        draws: by site, (C, D, ..., event) as the story's chains see them, Dirichlets as log theta.

    Returns:
        C lists of K classes, [0, 1, ...] where nothing is permuted; none where the story's truth is no class.
    """
    chains, length = next(iter(draws.values())).shape[:2]
    conjugate = frozenset(s.name for s in problem.of_kind("conjugate"))
    fold = Fold(Density(problem.model, problem.plates, chains, conjugate), problem.blocks, problem.sites)
    found = []
    for at in np.unique(np.linspace(0, length - 1, LOOKS).round().astype(int)):
        marginal = truth_shares(problem, fold, {name: x[:, at] for name, x in draws.items()})
        if marginal is None:
            return []
        found.append(likeness(marginal, problem.counts))
    return [permutation(alike).tolist() for alike in np.mean(found, 0)]


def truth_shares(problem: Problem, fold: Fold, values: Mapping[str, Tensor]) -> Tensor | None:
    """Truth probabilities of each chain, (K, C, N); None where the story's truth is not one of the K classes."""
    if problem.truth is None:
        return None
    marginal = fold(values, marginals=(problem.truth,)).marginals[problem.truth]
    return marginal if len(marginal) == problem.counts.shape[1] else None


def named_already(problem: Problem) -> bool:
    """Whether something else than the labels says which class is which: known truths, evidence or history."""
    return any(
        block.evidence is not None
        or block.history is not None
        or (block.gold is not None and bool((block.gold >= 0).any()))
        for block in problem.blocks
    )


def renamed(marginal: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Truth shares of all chains with classes called as the votes call them.

    Args:
        marginal: truth probabilities of each chain, (K, C, N).
        counts: votes, (N, K).

    Returns:
        Which chains are permuted, bool (C,); and log truth shares (K, C, N), of those others unchanged.
    """
    alike = likeness(marginal, counts)
    shares, moved = marginal.clone(), []
    for chain, one in enumerate(alike):
        stands_for = permutation(one)
        moved.append(bool((stands_for != np.arange(len(one))).any()))
        shares[torch.from_numpy(stands_for).to(shares.device), chain] = marginal[:, chain]
    return torch.tensor(moved, device=marginal.device), shares.clamp(min=SMALLEST).log()


def where(moved: Tensor, new: Mapping[str, Tensor], old: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values by site, (C, ...): new ones of the chains that moved, old ones of the others, to the bit."""
    return {n: torch.where(moved.reshape(-1, *(1,) * (x.dim() - 1)), new[n], x) for n, x in old.items()}
