"""Log-normals, and what labels make of them where their logarithms count wins and their values wait."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints

NEWTON = 16
"""Steps to the mode; from its upper bound they converge without any turn."""
POINTS, CELLS = 64, 256
"""Of the grid, for moments and for draws."""
DROP = 36.0
"""Of the log-density at the ends of the grid."""
TINY = 1e-300


class Grid(NamedTuple):
    """A density of log x at points that lie close around its mode.

    Attributes:
        mode: of log x, (...).
        distance: of each point from the mode, (..., P).
        height: of the density there, the mode's being 1.
        share: of each point, which sum to one.
        log_total: log of the integral.
    """

    mode: Tensor
    distance: Tensor
    height: Tensor
    share: Tensor
    log_total: Tensor

    def mean(self, x: Tensor) -> Tensor:
        """Of numbers at the points."""
        return (self.share * x).sum(-1)

    def quantile(self, level: Tensor) -> Tensor:
        """Of log x, the density taken for linear between points; levels (..., *mode.shape)."""
        several = level.reshape(-1, *self.mode.shape).movedim(0, -1)
        width, left, right = self.distance.diff(), self.height[..., :-1], self.height[..., 1:]
        below = ((left + right) * width).cumsum(-1) / 2
        wanted = several * below[..., -1:]
        cell = torch.searchsorted(below, wanted.contiguous()).clamp(max=width.shape[-1] - 1)
        rest = wanted - torch.where(cell > 0, below.gather(-1, (cell - 1).clamp(min=0)), 0.0)
        width, left, right, start = (x.gather(-1, cell) for x in (width, left, right, self.distance[..., :-1]))
        root = (left.square() + 2 * (right - left) * rest / width).clamp(min=0).sqrt()
        found = torch.minimum(start + 2 * rest / (left + root).clamp(min=TINY), start + width)
        return self.mode + found.movedim(-1, 0).reshape(level.shape)


def mode_of(power: Tensor, rate: Tensor, precision: Tensor) -> Tensor:
    """The highest point of ``power u - rate exp(u) - precision u^2 / 2``, by Newton's steps from a bound above."""
    won, lost, curve = power.clamp(min=TINY), rate.clamp(min=TINY), precision.clamp(min=TINY)
    ahead = torch.minimum(won / curve, (won / lost).log())
    behind = torch.minimum((lost / won).log(), (lost / curve).log1p()).clamp(min=0)
    behind = (lost / (won + curve * behind)).log().clamp(min=0)
    u = torch.where(power > rate, ahead, torch.minimum(-behind, (power / curve).clamp(max=0)))
    for _ in range(NEWTON):
        waited = rate * u.exp()
        u = u + (power - waited - precision * u) / (waited + precision).clamp(min=TINY)
    return u


def grid_of(power: Tensor, rate: Tensor, precision: Tensor, points: int = POINTS) -> Grid:
    """The density ``exp(power u - rate exp(u) - precision u^2 / 2)`` of u, at points close around its mode."""
    mode = mode_of(power, rate, precision)
    waited = rate * mode.exp()
    wide, q = (2 * DROP / precision).sqrt(), DROP / waited.clamp(min=TINY)
    low, high = torch.minimum(wide, (q + (q.square() + 8 * q).sqrt()) / 2), torch.minimum(wide, (2 * q).sqrt())
    unit = (waited + precision).rsqrt()
    low, high = ((x / unit).asinh().unsqueeze(-1) for x in (low, high))
    at = torch.linspace(0, 1, points, dtype=mode.dtype, device=mode.device) * (low + high) - low
    distance = unit.unsqueeze(-1) * at.sinh()
    log = -waited.unsqueeze(-1) * (distance.expm1() - distance) - precision.unsqueeze(-1) * distance.square() / 2
    each, top = log + at.cosh().log(), power * mode - waited - precision * mode.square() / 2
    step = unit * (low + high).squeeze(-1) / (points - 1)
    return Grid(mode, distance, log.exp(), each.softmax(-1), each.logsumexp(-1) + step.log() + top)


class TiltedLogNormal(TorchDistribution):
    """Positive numbers x, of which log x is normal but for counts of wins and of waiting.

    The density of u = log x is proportional to ``exp(power u - rate exp(u) - precision u^2 / 2)``: the posterior of
    a log-normal after ``power`` wins in comparisons that took ``rate`` units of time (Caron & Doucet 2012,
    doi:10.1080/10618600.2012.638220, with log-normals in place of Gammas). Draws are by inversion on a grid.

    Args:
        power, rate, precision: (...), the last two not negative and positive.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "power": constraints.real,
        "rate": constraints.nonnegative,
        "precision": constraints.positive,
    }
    support = constraints.positive

    def __init__(self, power: Tensor, rate: Tensor, precision: Tensor, validate_args: bool | None = None) -> None:
        self.power, self.rate, self.precision = torch.broadcast_tensors(power, rate, precision)
        super().__init__(self.power.shape, torch.Size(), validate_args=validate_args)

    def grid(self, points: int = POINTS) -> Grid:
        """The density of log x at points around its mode."""
        return grid_of(self.power.double(), self.rate.double(), self.precision.double(), points)

    @property
    def mean(self) -> Tensor:
        """Expected values."""
        grid = self.grid()
        return grid.mean((grid.mode.unsqueeze(-1) + grid.distance).exp()).to(self.power)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of x."""
        u = value.log()
        density = (self.power - 1) * u - self.rate * value - self.precision * u.square() / 2
        out: Tensor = density - self.grid().log_total.to(density)
        return out

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws values."""
        level = torch.rand(torch.Size(sample_shape) + self.batch_shape, dtype=torch.float64)
        return self.grid(CELLS).quantile(level).exp().to(self.power)

    def expand(self, batch_shape: Any, _instance: Any = None) -> TiltedLogNormal:
        """This distribution over a larger batch."""
        power, rate, precision = (x.expand(batch_shape) for x in (self.power, self.rate, self.precision))
        return TiltedLogNormal(power, rate, precision, False)
