"""Networks of one shape that are trained apart on the same truth, and speak with one voice."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Layer(nn.Module):
    """A linear layer for each member: (M, B, before) to (M, B, after)."""

    def __init__(self, members: int, before: int, after: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, before, after))
        self.bias = nn.Parameter(torch.empty(members, 1, after))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all weights as ``torch.nn.Linear`` does."""
        most = 1 / math.sqrt(self.weight.shape[1])
        for x in (self.weight, self.bias):
            nn.init.uniform_(x, -most, most)

    def forward(self, x: Tensor) -> Tensor:
        """(M, B, before) to (M, B, after)."""
        return torch.baddbmm(self.bias, x, self.weight)


class Ensemble(nn.Module):
    """Members with one hidden layer each; their probabilities are averaged.

    Each member has weights of its own, and where ``apart`` is called, items of its own to learn from. Independent
    fits of neural networks differ; their mean has better probabilities than one of them (Lakshminarayanan, Pritzel
    & Blundell 2017, "Simple and scalable predictive uncertainty estimation using deep ensembles").

    Args:
        members: how many there are, M.
        n_features, n_classes: D and K.
        hidden: units of each member's hidden layer.
        dropout: share of them that a step leaves out.
    """

    def __init__(self, members: int, n_features: int, n_classes: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.members = members
        first, second = Layer(members, n_features, hidden), Layer(members, hidden, n_classes)
        self.layers = nn.Sequential(first, nn.ReLU(), nn.Dropout(dropout), second)

    def apart(self, x: Tensor) -> Tensor:
        """Logits (M, B, K) of each member, on items of its own (M, B, D)."""
        out: Tensor = self.layers(x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        """Log of the members' mean probabilities (B, K), on the same items (B, D)."""
        log_p = self.apart(x.expand(self.members, *x.shape)).log_softmax(-1)
        return log_p.logsumexp(0) - math.log(self.members)
