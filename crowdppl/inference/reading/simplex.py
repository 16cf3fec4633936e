"""Points of the simplex from real vectors, every class treated alike."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.transforms import Transform


class Softmax(Transform):
    """``x = softmax(u)``, made a change of variables by a total that is independent of x.

    Stick-breaking treats classes in order, so that a Gaussian fit would change when they are renamed. Here K
    real numbers stand for K - 1 proportions and one auxiliary total: with ``g = exp(u)``, ``x = g / sum g`` and
    ``G = sum g`` given the density Gamma(K, 1), the density of u is ``p(x) p(G)`` times ``G * prod x``, and
    integrating over G leaves p(x). Gaussians in this space bound the evidence of the enlarged model, which is
    the evidence of the story; a sampler that forgets G samples x exactly.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Softmax)

    def __hash__(self) -> int:
        return hash(Softmax)

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        """The vector whose total is the mean of its density, K."""
        return y.clamp(min=1e-35).log() + math.log(y.shape[-1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Log of ``G * prod y`` times the density of the total: (...) for (..., K)."""
        k = x.shape[-1]
        log_total = x.logsumexp(-1)
        log_density = (k - 1) * log_total - log_total.exp() - math.lgamma(k)
        return x.log_softmax(-1).sum(-1) + log_total + log_density

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        """The same."""
        return shape

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        """The same."""
        return shape


def plain_support(support: object) -> object:
    """The constraint of one event, without what batches put around it."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support
