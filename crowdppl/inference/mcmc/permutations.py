"""Permutations of the classes in which chains stand against the votes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.passes import FullPass
from crowdppl.inference.problem import Problem
from crowdppl.inference.starts import votes

MARGIN = 0.1
"""Similarity to the votes, from 0 to 1, that each relabelled class must gain in the mean."""
PERMUTATION_DRAWS = 3
"""Draws of a chain from which its permutation is found at the end."""
SMALLEST_SHARE = 1e-6
"""Least share of a class in a relabelled truth, so that no class is excluded."""


def permutations(problem: Problem, draws: Mapping[str, Tensor]) -> list[list[int]]:
    """The class of the votes that corresponds to each class, in each chain of a finished run.

    C lists of K classes, [0, 1, ...] where nothing is permuted; none where the model's truth is no class.
    """
    chains, length = next(iter(draws.values())).shape[:2]
    full_pass, found = problem.full_pass(chains), []
    for at in np.unique(np.linspace(0, length - 1, PERMUTATION_DRAWS).round().astype(int)):
        shares = truth_shares(problem, full_pass, {name: x[:, at] for name, x in draws.items()})
        if shares is None:
            return []
        found.append(class_similarity(shares, votes(problem.blocks)))
    return [best_permutation(similarity).tolist() for similarity in np.mean(found, 0)]


def truth_shares(problem: Problem, full_pass: FullPass, values: Mapping[str, Tensor]) -> Tensor | None:
    """Truth probabilities of each chain, (K, C, N); None where the model's truth is not one of the K classes."""
    if problem.truth is None:
        return None
    shares = full_pass(values, marginals=(problem.truth,)).marginals[problem.truth]
    return shares if len(shares) == problem.blocks[0].n_classes else None


def relabelled(shares: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Which chains are permuted against votes (N, K), bool (C,), and log truth shares (K, C, N) without that."""
    out, moved = shares.clone(), []
    for chain, similarity in enumerate(class_similarity(shares, counts)):
        best = best_permutation(similarity)
        moved.append(bool((best != np.arange(len(best))).any()))
        out[torch.from_numpy(best).to(out.device), chain] = shares[:, chain]
    return torch.tensor(moved, device=shares.device), out.clamp(min=SMALLEST_SHARE).log()


def class_similarity(shares: Tensor, counts: Tensor) -> np.ndarray:
    """Similarity of each chain's classes and those of the votes, [chain, class of the chain, class of the votes].

    The items that a chain gives to its class k and the votes to class j, over the geometric mean of all items of k
    and of j: 1 where both are the same items, whatever the sizes of classes. Shares are (K, C, N), votes (N, K).
    """
    voted = counts.sum(1, keepdim=True)
    votes = counts / voted.clamp(min=1)
    has_votes = (voted > 0).to(votes)
    out = []
    for chain in range(shares.shape[1]):
        own = shares[:, chain].to(votes) * has_votes.t()
        sizes = own.sum(1)[:, None] * votes.sum(0)
        out.append(own @ votes / sizes.clamp(min=1e-12).sqrt())
    return torch.stack(out).cpu().numpy()


def best_permutation(similarity: np.ndarray) -> np.ndarray:
    """The class of the votes that corresponds to each class of a chain, (K,).

    The assignment of the largest total similarity (K, K), where it exceeds that of the identity by ``MARGIN`` for
    each class that moves; else the identity.
    """
    own = np.arange(len(similarity))
    if (similarity.argmax(1) == own).all():
        return own
    from scipy.optimize import linear_sum_assignment  # slow to import

    best = np.asarray(linear_sum_assignment(similarity, maximize=True)[1])
    gain = float((similarity[own, best] - similarity[own, own]).sum())
    return best if gain > MARGIN * np.count_nonzero(best != own) else own
