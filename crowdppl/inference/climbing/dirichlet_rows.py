"""Rows of Dirichlets under vb, and how what is said of them moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

LARGE = 1e7
"""Labels of a row beyond which a difference is lost in rounding, and its limit is as good."""

Parts = dict[str, Tensor]
"""Numbers for each vector, and each entry of each site: (P, *site)."""


@dataclass(frozen=True)
class Rows:
    """Dirichlets by site, and linear maps between log theta, theta and concentrations, row by row.

    Attributes:
        total: concentrations, float64.
    """

    total: Mapping[str, Tensor]

    @cached_property
    def own(self) -> Parts:
        """The diagonal of V, to which ``common`` comes, with a minus, everywhere in a row."""
        return {n: torch.polygamma(1, x) for n, x in self.total.items()}

    @cached_property
    def common(self) -> Parts:
        """What the shares of a row have in common: (..., 1)."""
        return {n: torch.polygamma(1, x.sum(-1, keepdim=True)) for n, x in self.total.items()}

    @cached_property
    def inverted(self) -> Parts:
        """What they have in common in V^-1 (Sherman-Morrison): (..., 1)."""
        out = {}
        for n, x in self.total.items():
            large = x.sum(-1, keepdim=True)
            left = 1 - self.common[n] * (1 / self.own[n]).sum(-1, keepdim=True)
            out[n] = self.common[n] / torch.where(large > LARGE, (x.shape[-1] - 1) / (2 * large), left)
        return out

    def deviation(self, name: str) -> Tensor:
        """Standard deviations of the shares of a site."""
        n = self.total[name].sum(-1, keepdim=True)
        share = self.total[name] / n
        return (share * (1 - share) / (n + 1)).sqrt()

    def covariance(self, y: Parts) -> Parts:
        """V y, V being the covariance of log theta."""
        return {n: x * y[n] - self.common[n] * y[n].sum(-1, keepdim=True) for n, x in self.own.items()}

    def inverse(self, y: Parts) -> Parts:
        """V^-1 y."""
        each = {n: y[n] / x for n, x in self.own.items()}
        return {n: x + self.inverted[n] * x.sum(-1, keepdim=True) / self.own[n] for n, x in each.items()}

    def down(self, y: Parts) -> Parts:
        """How mean shares move when concentrations do."""
        return {
            n: (y[n] - x / x.sum(-1, keepdim=True) * y[n].sum(-1, keepdim=True)) / x.sum(-1, keepdim=True)
            for n, x in self.total.items()
        }

    def up(self, y: Parts) -> Parts:
        """The transpose of ``down``."""
        return {
            n: (y[n] - (x * y[n]).sum(-1, keepdim=True) / x.sum(-1, keepdim=True)) / x.sum(-1, keepdim=True)
            for n, x in self.total.items()
        }

    def weight(self, name: str, beyond: Tensor, prior: Tensor, unsure: Tensor) -> Tensor:
        """The part of a concentration that is left where a row's variance is larger by ``beyond``.

        ``unsure`` is what of ``prior`` is no knowledge.
        """
        alone = Rows({name: self.total[name]})
        x = alone.total[name]
        k, n = x.shape[-1], x.sum(-1)
        unit = torch.eye(k).to(x).reshape(k, *(1,) * (x.dim() - 1), k).expand(k, *x.shape)
        own = (unit * alone.down(alone.inverse(alone.up({name: unit})))[name]).sum((0, -1))
        left = (n + 1) / (1 + beyond / own).clamp(min=1) - 1
        known = torch.maximum(left, torch.minimum(prior.to(n), n)) - unsure.to(n)
        out: Tensor = (known / n).clamp(max=1)
        return out
