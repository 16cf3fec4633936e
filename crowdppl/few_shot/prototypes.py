"""Prototypes: each class is a Gaussian of unit variance around its mean in the embedding space."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from crowdppl.networks.outputs import network_output
from crowdppl.primitives.plates import Data

TINY = 1e-30
"""Least probability of which the logarithm is taken."""


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
