"""Features brought to one scale, as networks are fed them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from crowdppl.data.stored_features import Features

ROWS = 1024
"""Items that a network looks at at once where nothing is learned, and rows of a table that are read at once."""
NUMBERS = 2**24
"""Numbers of images, or of what else is no table, that are looked at at once."""


LARGEST = float(torch.finfo(torch.float32).max)


class Standardise(nn.Module):
    """Brings features to mean 0 and standard deviation 1, after a square root where none is negative.

    Counts and activations that are never negative have long tails, which the root shortens. A feature that is the
    same for all items, to the last bit, becomes 0.

    Args:
        features: (N, D), of all items, looked at 1024 rows at a time, twice where none is negative; in float64, so
            that sums in another order come to the same in float32.
    """

    root: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, features: Features) -> None:
        super().__init__()
        root = all(bool((part >= 0).all()) for part in parts(features))
        n, mean, spread = 0, torch.zeros(()), torch.zeros(())
        first, varies = None, torch.zeros((), dtype=torch.bool)
        for part in parts(features):
            first = part[:1] if first is None else first
            varies = varies | (part != first).any(0)
            x = part.double().sqrt() if root else part.double()
            m, its_mean = len(x), x.mean(0)
            its_spread = (x - its_mean).square().mean(0).sqrt()
            if n:  # Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance"
                between = (its_mean - mean) * math.sqrt(n * m) / (n + m)
                within = (n * spread.square() + m * its_spread.square()) / (n + m)
                its_mean, its_spread = mean + (its_mean - mean) * m / (n + m), (within + between.square()).sqrt()
            n, mean, spread = n + m, its_mean, its_spread
        self.register_buffer("root", torch.tensor(root))
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", torch.where(varies, 1 / spread, 0.0).clamp(max=LARGEST).float())

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., D)."""
        if x.is_cuda:  # to ask the flag would be to wait for the GPU, in every step of an epoch
            x = torch.where(self.root, x.clamp(min=0).sqrt(), x)
        elif bool(self.root):
            x = x.clamp(min=0).sqrt()
        return (x - self.mean) * self.scale


def parts(features: Features) -> Iterable[Tensor]:
    """Features one after the other, as many rows at a time as are looked at at once where nothing is learned."""
    width = 1 if features.dim() == 2 else max(1, math.prod(features.shape[1:]))
    found: Iterable[Tensor] = features.split(max(1, min(ROWS, NUMBERS // width)))
    return found
