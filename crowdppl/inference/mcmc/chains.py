"""Results of engines that run chains: how well the chains agree, and in which order they have the classes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.collective import all_reduced
from crowdppl.inference.assembly import result_of_draws
from crowdppl.inference.loop import Progress, diagnostics_of
from crowdppl.inference.passes import FullPass
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import FitResult
from crowdppl.inference.sites import Site
from crowdppl.inference.starts import votes

MARGIN = 0.1
"""Similarity to the votes, from 0 to 1, that each relabelled class must gain in the mean."""
SMALLEST_SHARE = 1e-6
"""Least share of a class in a relabelled truth, so that no class is excluded."""


def result_of_chains(
    engine: str,
    problem: Problem,
    order: np.ndarray,
    draws: Mapping[str, Tensor],
    progress: Progress,
    more: dict[str, Any],
) -> FitResult:
    """The result of gibbs or nuts: draws by site, (C, D, ..., event), and what the engine says of its chains."""
    truth = more.pop("truth", None)
    out = diagnostics_of(progress, False, []) | more
    if n := sum(more.get("divergences", {}).values()):
        note = f" met {n} divergent transitions: the posterior has corners it cannot follow; raise warmup"
        out["warnings"].append(engine + note)
    out["permutations"] = permutations(problem, draws)
    out |= mixing(draws, problem.sites)
    out["chains"], out["draws"] = next(iter(draws.values())).shape[:2]
    worst = max(out["rhat"].values(), default=float("nan"))
    out["converged"] = bool(worst < 1.05) and not out["interrupted"]
    if out["interrupted"] and out["iterations"] <= problem.options.warmup:
        note = " was stopped in its warm-up: this is where its chains were, not what they draw from"
    elif out["interrupted"]:
        note = f" was stopped after {out['draws']} draws a chain"
    elif out["converged"]:
        return result_of_draws(problem, order, draws, out, truth)
    elif out["chains"] == 1:
        note = " ran one chain, and only several show whether they agree: fit with chains=4"
    elif out["draws"] < 4:
        note = f"'s chains of {out['draws']} draws are too short to be compared; raise draws"
    else:
        site = max(out["rhat"], key=out["rhat"].__getitem__) if out["rhat"] else "no site"
        longer = f"draws={3 * problem.options.draws}, warmup={3 * max(problem.options.warmup, out['draws'] // 2)}"
        note = f"'s chains disagree (R-hat {worst:.3f} at {site}), so that no number is sure: run longer ({longer})"
        if problem.integral is not None:  # swapped classes are a doubt of their own
            note += "; what all annotators share, such as a bias, moves slowly"
    out["warnings"].append(engine + note)
    return result_of_draws(problem, order, draws, out, truth)


def mixing(draws: Mapping[str, Tensor], sites: Mapping[str, Site]) -> dict[str, Any]:
    """How well chains agree and how much their draws are worth, by site.

    The worst split R-hat over at most 200 of the site's entries, from at most 100 draws a chain (thinning takes
    nothing from a comparison of chains); and the smallest bulk and tail ESS, from all draws, of the 40 entries
    whose R-hat is worst.
    """
    import arviz as az  # slow to import, needed by samplers only

    out: dict[str, dict[str, float]] = {"rhat": {}, "ess_bulk": {}, "ess_tail": {}}
    with warnings.catch_warnings():  # many chains of few draws are no dimensions mixed up
        warnings.filterwarnings("ignore", "More chains", UserWarning)
        for name, x in draws.items():
            values = sites[name].value(x).reshape(*x.shape[:2], -1)
            at = torch.linspace(0, values.shape[-1] - 1, min(200, values.shape[-1])).round().long()
            array = values[..., at].cpu().numpy().astype(np.float64)
            array = array[..., array.std((0, 1)) > 1e-12 * np.abs(array).max()]  # in the unit of the site
            if array.shape[1] < 4 or array.shape[-1] == 0:
                continue
            rhat = np.full(array.shape[-1], np.nan)
            if len(array) > 1:  # one chain has none, and ArviZ would warn of each site
                some = az.convert_to_dataset({"x": array[:, :: max(1, array.shape[1] // 100)]})
                with np.errstate(divide="ignore", invalid="ignore"):  # chains that do not move are infinitely apart
                    rhat = az.rhat(some)["x"].values
            worst = az.convert_to_dataset({"x": array[..., np.argsort(-np.nan_to_num(rhat))[:40]]})
            out["rhat"][name] = float("nan") if np.isnan(rhat).all() else float(np.nanmax(rhat))
            for tail in ("bulk", "tail"):
                out[f"ess_{tail}"][name] = float(np.nanmin(az.ess(worst, method=tail)["x"].values))
    return out


def permutations(problem: Problem, draws: Mapping[str, Tensor]) -> list[list[int]]:
    """The class of the votes that corresponds to each class, in each chain of a finished run.

    C lists of K classes, [0, 1, ...] where nothing is permuted; none where the model's truth is no class.
    """
    chains, length = next(iter(draws.values())).shape[:2]
    full_pass, found = problem.full_pass(chains), []
    for at in np.unique(np.linspace(0, length - 1, 3).round().astype(int)):  # three draws tell it
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
        both, of_chain, of_votes = all_reduced([own @ votes, own.sum(1), votes.sum(0)])
        out.append(both / (of_chain[:, None] * of_votes).clamp(min=1e-12).sqrt())
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
