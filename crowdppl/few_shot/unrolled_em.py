"""A few differentiable steps of EM for prototypes of classes and confusions of annotators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from crowdppl.errors import MethodError
from crowdppl.networks.outputs import network_output
from crowdppl.primitives.plates import Data, block_of
from crowdppl.primitives.priors import coin_counts

SMOOTHING = 0.01
"""Pseudo-votes for each class of an item."""
TINY = 1e-30
"""Least probability of which the logarithm is taken."""


@dataclass(frozen=True)
class UnrolledEM:
    """The result of some steps of EM: probabilities of truths (..., N, K), centres of classes (..., K, M),
    prevalence (..., K), confusion (..., A, K, K) [annotator, truth, label], and objectives (..., J), the
    log-density of labels, embeddings and parameters after each step, up to a constant of the priors.
    """

    shares: Tensor
    mean: Tensor
    prevalence: Tensor
    confusion: Tensor
    objectives: Tensor

    def log_shares(self, embeddings: Tensor) -> Tensor:
        """Log-probabilities (..., N', K) of the truth of items without labels, from their embeddings."""
        log_p = self.prevalence.clamp(min=TINY).log().unsqueeze(-2) + prototype_log_probs(embeddings, self.mean)
        return log_p.log_softmax(-1)

    def detach(self) -> UnrolledEM:
        """A copy without gradients."""
        return UnrolledEM(*(x.detach() for x in vars(self).values()))


def em_steps(
    embeddings: Tensor,
    item: Tensor,
    annotator: Tensor,
    label: Tensor,
    prior: Tensor,
    *,
    steps: int = 3,
    tau: float | Tensor = 1.0,
    prevalence: float | Tensor | None = 1.0,
    known: Tensor | None = None,
    tied: bool = False,
    power: float | Tensor = 1.0,
) -> UnrolledEM:
    """Some steps of EM for a Gaussian mixture and Dawid-Skene together, each in closed form and differentiable.

    With ``u`` an embedding, ``r`` the truth's probabilities, starting from the votes, a step is

        mean[k]            = sum of r[i, k] u[i] / (tau + sum of r[i, k])
        prevalence[k]      = sum of r[i, k] + b, normalised
        confusion[a, k, l] = power * sum of r[i, k] over the items to which a gave l, + c[a, k, l], normalised
        r[i, k]            = prevalence[k] N(u[i] | mean[k], I) prod of confusion[a, k, l]^power, normalised

    The first step leaves out items without votes or known truth, which would draw the means together.

    Several tasks of one size stand in leading dimensions T; items and annotators are numbered through all tasks.

    Args:
        embeddings: (*T, N, M); M = 0 leaves plain Dawid-Skene.
        item, annotator, label: int64 (S,) each, codes of all labels.
        prior: c, pseudo-counts of the confusion rows, (A, K, K) or (*T, A, K, K); a Dirichlet's concentration is
            1 + c.
        steps: J.
        tau: prior precision of the means; 0 takes plain averages.
        prevalence: b, pseudo-counts of each class, the concentration being 1 + b; None fixes equal shares.
        known: log-potentials of the truth, (*T, N, K), such as 0 for a known class and minus infinity for others.
        tied: whether an annotator has the same accuracy in all classes, and even errors; pseudo-counts of all rows
            then add up.
        power: of the labels' likelihood: below 1, an item's labels count for less than independent ones.

    Returns:
        Parameters after the last step, and the truth's probabilities under them.

    Raises:
        MethodError: for less than one step, or codes out of range.

    Source: Kumagai et al. (2025), "Meta-learning representations for learning from multiple annotators", arXiv
    2506.10259; how they start is not stated.

    Examples:
        >>> import torch
        >>> from crowdppl.few_shot import em_steps
        >>> u = torch.tensor([[-2.0], [-1.5], [1.5], [2.0]])
        >>> item, annotator = torch.arange(4).repeat_interleave(2), torch.arange(2).repeat(4)
        >>> label = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0])
        >>> em_steps(u, item, annotator, label, torch.eye(2).expand(2, 2, 2)).shares.argmax(-1).tolist()
        [0, 0, 1, 1]
    """
    *lead, n, _ = embeddings.shape
    tasks, k = math.prod(lead), prior.shape[-1]
    full = prior.expand(*lead, *prior.shape[-3:]).to(embeddings)
    _check(
        steps, {"item": (item, tasks * n), "annotator": (annotator, tasks * full.shape[-3]), "label": (label, k)}
    )
    cell = annotator * k + label
    potential = embeddings.new_zeros(()) if known is None else known
    votes = embeddings.new_zeros(tasks * n, k).index_put((item, label), embeddings.new_ones(()), accumulate=True)
    shares = _from_votes(votes.reshape(*lead, n, k), potential)
    objectives = []
    for _ in range(steps):
        weight = shares.sum(-2)
        mean = shares.mT @ embeddings / (tau + weight).clamp(min=TINY).unsqueeze(-1)
        share = torch.full_like(weight, 1 / k) if prevalence is None else _normalised(weight + prevalence)
        counts = full.new_zeros(full.numel() // k, k).index_add(0, cell, power * shares.reshape(-1, k)[item])
        rows = counts.reshape(*lead, -1, k, k).mT + full
        confusion = _normalised(_tied_rows(rows) if tied else rows)
        table = confusion.clamp(min=TINY).log().mT.reshape(-1, k)
        labels = embeddings.new_zeros(tasks * n, k).index_add(0, item, power * table.index_select(0, cell))
        prior_log_p = share.clamp(min=TINY).log().unsqueeze(-2) + prototype_log_probs(embeddings, mean) + potential
        log_p = prior_log_p + labels.reshape(*lead, n, k)
        shares = log_p.softmax(-1)
        objectives.append(log_p.logsumexp(-1).sum(-1) + _penalty(share, mean, confusion, full, tau, prevalence))
    return UnrolledEM(shares, mean, share, confusion, torch.stack(objectives, -1))


def unrolled_em(data: Data, embeddings: Tensor, prior: Tensor, em: Callable[..., UnrolledEM]) -> UnrolledEM:
    """Steps of EM on all labels but abstentions, with known truths.

    Args:
        data: the model's argument.
        embeddings: (N, M).
        prior: c, (K, K) or (A, K, K).
        em: ``em_steps`` with its settings.
    """
    block = block_of(data)
    given = block.answer < block.n_classes
    labels = (codes[given] for codes in (block.item, block.annotator, block.answer))
    return em(embeddings, *labels, prior.expand(block.n_annotators, -1, -1), known=block.potential)


def _from_votes(votes: Tensor, potential: Tensor) -> Tensor:
    """The truth's probabilities (*T, N, K) before the first step; zeros without votes and known truth."""
    known = (votes + potential.abs()).sum(-1, keepdim=True) > 0
    return ((votes + SMOOTHING).log() + potential).softmax(-1) * known


def _tied_rows(rows: Tensor) -> Tensor:
    """Rows with the same right and wrong counts for each class, errors spread evenly."""
    k = rows.shape[-1]
    right, wrong = coin_counts(rows).unsqueeze(-1).unsqueeze(-1).unbind(-3)
    return torch.where(torch.eye(k, dtype=torch.bool, device=rows.device), right, wrong / (k - 1))


def _penalty(
    share: Tensor, mean: Tensor, confusion: Tensor, prior: Tensor, tau: float | Tensor, b: float | Tensor | None
) -> Tensor:
    """Log-priors up to their constants, (*T)."""
    rows = (prior * confusion.clamp(min=TINY).log()).sum((-3, -2, -1))
    classes = 0.0 if b is None else (b * share.clamp(min=TINY).log()).sum(-1)
    return rows + classes - 0.5 * (tau * mean.square()).sum((-2, -1))


def _normalised(x: Tensor) -> Tensor:
    """Shares along the last dimension; even ones where all is zero."""
    total = x.sum(-1, keepdim=True)
    return torch.where(total > TINY, x / total.clamp(min=TINY), 1 / x.shape[-1])


def _check(steps: int, codes: dict[str, tuple[Tensor, int]]) -> None:
    if steps < 1:
        raise MethodError(f"steps={steps} must be at least 1")
    for name, (code, size) in codes.items():
        if len(code) and not 0 <= int(code.min()) <= int(code.max()) < size:
            raise MethodError(f"{name} has codes from {int(code.min())} to {int(code.max())}, but there are {size}")


def prototype_log_probs(embeddings: Tensor, mean: Tensor) -> Tensor:
    """Log-density of each item under each class, a Gaussian with unit variance: ``log N(u | mean[k], I)``.

    Args:
        embeddings: (..., N, M).
        mean: (..., K, M).

    Returns:
        (..., N, K).
    """
    near = embeddings @ mean.mT - 0.5 * mean.square().sum(-1).unsqueeze(-2)
    own = 0.5 * (embeddings.square().sum(-1, keepdim=True) + embeddings.shape[-1] * math.log(2 * math.pi))
    return near - own


def prototype_logits(data: Data, embedding: nn.Module, mean: Tensor) -> Tensor:
    """``prototype_log_probs`` of the items of a model, (N, K), or zero where they have no features.

    Args:
        data: the model's argument.
        embedding: the model's attribute ``embedding``, from features to the embedding space.
        mean: (K, M), or of chains (C, 1, K, M); the result is then (C, N, K).
    """
    placed = network_output(data, embedding, "embedding")
    if placed is None:
        return mean.new_zeros(())
    log_p = prototype_log_probs(placed, mean)
    return log_p.squeeze(-3) if log_p.dim() > 2 else log_p


def prototype_prior(embedding: nn.Module, n_classes: int, tau: float) -> dist.Independent:
    """The prior of the means of classes, (K, M): ``Normal(0, tau^-1/2)`` in each dimension.

    Args:
        embedding: as ``meta_trained`` returns it.
        n_classes: K.
        tau: precision; 0 is practically flat.
    """
    known: Any = embedding
    scale = max(tau, 1e-12) ** -0.5  # a Normal cannot be flat
    prior: dist.Independent = dist.Normal(torch.zeros(n_classes, known.dimension), scale).to_event(2)
    return prior


def prototype_classifier(embedding: nn.Module | None, sites: Mapping[str, Tensor]) -> nn.Module | None:
    """From features to K logits: ``log prevalence[k] - |u - mean[k]|^2 / 2`` and a constant.

    Args:
        embedding: features to (B, M); without one there is no classifier.
        sites: ``mean`` (K, M), and ``prevalence`` (K,) unless shares are equal.
    """
    if embedding is None:
        return None
    mean, log_p = sites["mean"], sites["prevalence"].log() if "prevalence" in sites else 0.0
    head = nn.Linear(mean.shape[1], mean.shape[0])
    head.load_state_dict({"weight": mean, "bias": log_p - 0.5 * mean.square().sum(-1)})
    return nn.Sequential(embedding, head.requires_grad_(False)).eval()
