"""How rows of a family respond to more evidence: the linear maps of its statistics, and how wide rows then are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

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


class GammaResponse(Response):
    """Gammas of which ratios matter: statistics log x and x; asked is log x less its mean over the first dimension.

    The parameter is concentration a and minus the rate b. The unit of all x is as uncertain as the prior leaves it,
    however many the labels: were log x asked, each row would be made wide by it, and their ratios, too.
    """

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """a, b and the variance of log x, (...)."""
        a, b = self.parameter[..., 0], -self.parameter[..., 1]
        return a, b, torch.polygamma(1, a)

    @property
    def shape(self) -> torch.Size:
        return self.parameter[..., :1].shape

    def deviation(self) -> Tensor:
        n, own = len(self.parameter), self._parts[2]
        return ((1 - 2 / n) * own + own.mean(0) / n).sqrt().unsqueeze(-1)

    def covariance(self, y: Tensor) -> Tensor:
        (a, b, own), (first, second) = self._parts, y.unbind(-1)
        return torch.stack([own * first + second / b, first / b + a / b.square() * second], -1)

    def inverse(self, y: Tensor) -> Tensor:
        (a, b, own), (first, second) = self._parts, y.unbind(-1)
        left = torch.where(a > LARGE, 0.5 / a, a * own - 1)  # b^2 times the determinant of V
        return torch.stack([a * first - b * second, b.square() * own * second - b * first], -1) / left.unsqueeze(-1)

    def change(self, y: Tensor) -> Tensor:
        return self._above_mean(self.covariance(y)[..., :1])

    def change_transposed(self, y: Tensor) -> Tensor:
        above = self._above_mean(y)
        return self.covariance(torch.cat([above, torch.zeros_like(above)], -1))

    def weight(self, extra: Tensor, prior: Tensor, unsupported: Tensor, most: Tensor) -> Tensor:
        n, (a, _, own) = len(self.parameter), self._parts
        # Independent rows with variances v are (1 - 2 / n) v + mean(v) / n around their mean.
        mean = extra.mean(0) / (1 - 1 / max(n, 2))
        each = (extra - mean / n) / (1 - 2 / n) if n > 2 else mean
        wanted = own + each.clamp(min=0)
        left = (1 + (1 + 2 * wanted).sqrt()) / (2 * wanted)  # below the solution, from where Newton's steps climb
        for _ in range(8):  # to rounding
            left = left - (torch.polygamma(1, left) - wanted) / torch.polygamma(2, left)
        return _share_left(left, a, prior, unsupported, most)

    def _above_mean(self, x: Tensor) -> Tensor:
        """(..., F) less the mean over the first dimension of the rows."""
        return x - x.mean(-self.parameter.dim(), keepdim=True)


def _share_left(left: Tensor, n: Tensor, prior: Tensor, unsupported: Tensor, most: Tensor) -> Tensor:
    """The part of n that is left: ``left``, but the prior's at least, less what nothing supports, and ``most``."""
    known = torch.maximum(left, torch.minimum(prior.to(n), n)) - unsupported.to(n)
    return torch.as_tensor((torch.minimum(known, most.to(n)) / n).clamp(max=1))
