"""How rows of a family respond to more evidence: the linear maps of its statistics, and how wide rows then are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from crowdppl.primitives.log_normals import Grid, grid_of, mode_of

LARGE = 1e7
"""Concentration of a row beyond which a difference is lost in rounding, and its limit is taken."""


def row_sum(x: Tensor, keepdim: bool = False) -> Tensor:
    """Sums over the last dimension; of two entries by an addition, ten times as fast as torch's sum of so few."""
    if x.shape[-1] != 2:
        return x.sum(-1, keepdim=keepdim)
    total = x[..., :1] + x[..., 1:]
    return total if keepdim else total.squeeze(-1)


class Response(ABC):
    """The rows of one site at a parameter.

    Args:
        parameter: of the family, float64 (..., P), one row each.
    """

    def __init__(self, parameter: Tensor) -> None:
        self.parameter = parameter

    @property
    @abstractmethod
    def shape(self) -> torch.Size:
        """Shape (..., F) of what is asked of the rows, such as their mean."""

    @abstractmethod
    def deviation(self) -> Tensor:
        """Standard deviations (..., F) of what is asked."""

    @abstractmethod
    def covariance(self, y: Tensor) -> Tensor:
        """V y (..., P), V being the covariance of the statistics."""

    @abstractmethod
    def inverse(self, y: Tensor) -> Tensor:
        """V^-1 y."""

    @abstractmethod
    def change(self, y: Tensor) -> Tensor:
        """Change (..., F) of what is asked when parameters change by y."""

    @abstractmethod
    def change_transposed(self, y: Tensor) -> Tensor:
        """The transpose of ``change``: (..., F) to (..., P)."""

    @abstractmethod
    def weight(self, extra: Tensor, prior: Tensor, unsupported: Tensor, most: Tensor) -> Tensor:
        """The part of each row's parameter that is left where what is asked varies more by ``extra``, in all.

        At least the amount ``prior`` is left, less what of it is ``unsupported``, but never more than ``most``.
        """


class DirichletResponse(Response):
    """Dirichlets: statistics log theta, concentrations; asked is mean theta."""

    @cached_property
    def _diagonal(self) -> Tensor:
        """The diagonal part of V, from which ``_common`` is subtracted everywhere in a row."""
        return torch.polygamma(1, self.parameter)

    @cached_property
    def _common(self) -> Tensor:
        """(..., 1)."""
        return torch.polygamma(1, row_sum(self.parameter, keepdim=True))

    @cached_property
    def _common_of_inverse(self) -> Tensor:
        """What is subtracted everywhere in a row of V^-1 (Sherman-Morrison): (..., 1)."""
        total = row_sum(self.parameter, keepdim=True)
        left = 1 - self._common * row_sum(1 / self._diagonal, keepdim=True)
        limit = (self.parameter.shape[-1] - 1) / (2 * total)
        return torch.as_tensor(self._common / torch.where(total > LARGE, limit, left))

    @property
    def shape(self) -> torch.Size:
        return self.parameter.shape

    def deviation(self) -> Tensor:
        n = row_sum(self.parameter, keepdim=True)
        mean = self.parameter / n
        return (mean * (1 - mean) / (n + 1)).sqrt()

    def covariance(self, y: Tensor) -> Tensor:
        return self._diagonal * y - self._common * row_sum(y, keepdim=True)

    def inverse(self, y: Tensor) -> Tensor:
        each = y / self._diagonal
        return each + self._common_of_inverse * row_sum(each, keepdim=True) / self._diagonal

    def change(self, y: Tensor) -> Tensor:
        total = row_sum(self.parameter, keepdim=True)
        return (y - self.parameter / total * row_sum(y, keepdim=True)) / total

    def change_transposed(self, y: Tensor) -> Tensor:
        total = row_sum(self.parameter, keepdim=True)
        return (y - row_sum(self.parameter * y, keepdim=True) / total) / total

    def weight(self, extra: Tensor, prior: Tensor, unsupported: Tensor, most: Tensor) -> Tensor:
        x = self.parameter
        n = x.sum(-1)
        mean, each, total = x / n.unsqueeze(-1), 1 / self._diagonal, (1 / self._diagonal).sum(-1)
        common = self._common_of_inverse.squeeze(-1)
        # The trace of J V^-1 J', where J is ``change`` and V^-1 is diagonal but for one direction.
        along = (each - mean * total.unsqueeze(-1)).square().sum(-1)
        apart = ((1 - mean).square() * each + mean.square() * (total.unsqueeze(-1) - each)).sum(-1)
        own = (apart + common * along) / n.square()
        left = (n + 1) / (1 + extra / own).clamp(min=1) - 1
        return _share_left(left, n, prior, unsupported, most)


class LogNormalResponse(Response):
    """Log-normals of which ratios matter: statistics u = log x and x; asked is u less its mean along dimension 0.

    The unit of all x is as uncertain as the prior leaves it, however many the labels: were u asked, each row would
    be made wide by it, and their ratios, too. Labels leave u^2, which is therefore no part of the maps.
    """

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """The variance of u, the slope of x on u, and the variance of what u leaves of x, (...)."""
        grid = self._grid(self.parameter)
        u = grid.distance - grid.mean(grid.distance).unsqueeze(-1)
        x = (grid.mode.unsqueeze(-1) + grid.distance).exp()
        x = x - grid.mean(x).unsqueeze(-1)
        own = grid.mean(u.square())
        slope = grid.mean(u * x) / own
        return own, slope, grid.mean((x - slope.unsqueeze(-1) * u).square())

    @staticmethod
    def _grid(parameter: Tensor) -> Grid:
        return grid_of(parameter[..., 0], -parameter[..., 1], -2 * parameter[..., 2])

    @property
    def shape(self) -> torch.Size:
        return self.parameter[..., :1].shape

    def deviation(self) -> Tensor:
        n, own = len(self.parameter), self._parts[0]
        return ((1 - 2 / n) * own + own.mean(0) / n).sqrt().unsqueeze(-1)

    def covariance(self, y: Tensor) -> Tensor:
        (own, slope, left), (first, second, _) = self._parts, y.unbind(-1)
        u = own * (first + slope * second)
        return torch.stack([u, slope * u + left * second, torch.zeros_like(u)], -1)

    def inverse(self, y: Tensor) -> Tensor:
        (own, slope, left), (first, second, _) = self._parts, y.unbind(-1)
        rest = (second - slope * first) / left
        return torch.stack([first / own - slope * rest, rest, torch.zeros_like(rest)], -1)

    def change(self, y: Tensor) -> Tensor:
        return self._above_mean(self.covariance(y)[..., :1])

    def change_transposed(self, y: Tensor) -> Tensor:
        above = self._above_mean(y)
        return self.covariance(torch.cat([above, *[torch.zeros_like(above)] * 2], -1))

    def weight(self, extra: Tensor, prior: Tensor, unsupported: Tensor, most: Tensor) -> Tensor:
        n, own = len(self.parameter), self._parts[0]
        # Independent rows with variances v are (1 - 2 / n) v + mean(v) / n around their mean.
        mean = extra.mean(0) / (1 - 1 / max(n, 2))
        each = (extra - mean / n) / (1 - 2 / n) if n > 2 else mean
        wanted, part = own + each.clamp(min=0), torch.ones_like(own)
        for _ in range(8):  # a power of a density keeps its mode, and nearly divides the variance
            grid = self._grid(self.parameter * part.unsqueeze(-1))
            part = part * (grid.mean(grid.distance.square()) - grid.mean(grid.distance).square()) / wanted
        power, rate, precision = self.parameter[..., 0], -self.parameter[..., 1], -2 * self.parameter[..., 2]
        amount = precision + rate * mode_of(power, rate, precision).exp()
        return _share_left(part * amount, amount, prior, unsupported, most)

    def _above_mean(self, x: Tensor) -> Tensor:
        """(..., F) less the mean over the first dimension of the rows."""
        return x - x.mean(-self.parameter.dim(), keepdim=True)


def _share_left(left: Tensor, n: Tensor, prior: Tensor, unsupported: Tensor, most: Tensor) -> Tensor:
    """The part of n that is left: ``left``, but the prior's at least, less what nothing supports, and ``most``."""
    known = torch.maximum(left, torch.minimum(prior.to(n), n)) - unsupported.to(n)
    return torch.as_tensor((torch.minimum(known, most.to(n)) / n).clamp(max=1))
