"""Robust annotators: labels are numbers around the item's own, with errors of heavy tails and on scales that end.

    mean            ~ Normal(0, scale)                          ()      of items' numbers, from the centre
    width           ~ LogNormal(log scale, 1)                   ()      their standard deviation
    bias[a]         ~ Normal(0, bias_spread * scale)            (A)
    spread[a]       ~ LogNormal(log(scale / 2), 1)              (A)
    consensus[i]    ~ Normal(centre + mean, width), on a grid   (N)
    label[i, a]     ~ StudentT(4, consensus[i] + bias[a], sqrt(spread[a]^2 + (step / 2)^2)), cut off at the ends
    truth[i]        ~ Normal(consensus[i], shared * v[i])       v: variance that labels of the item tell

The consensus of an item is summed out. Centre and scale are the mean and the standard deviation of all labels. On a
scale with ``ends``, a label at an end stands for all that lies beyond it. A step is that of the grid, whose points
tell no errors that are smaller. With item covariates x, standardised, the mean is mean + x[i] slope, and each slope
~ Normal(0, scale).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import mean_field
from crowdppl.errors import MethodError

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

BEYOND = 2.0
"""How far a grid without ends reaches beyond all labels, in standard deviations of a bias."""
INFORMATION = 5 / 7
"""Fisher's of a label of spread 1 about its centre."""


@dataclass(frozen=True)
class RobustAnnotators:
    """A bias and a spread for each annotator of numbers, whose errors have heavy tails.

    Args:
        ends: lowest and highest number of the scale, such as (0, 100); None where it has no ends.
        points: of the grid of an item's number.
        bias_spread: standard deviation of biases, in that of labels.
        shared: correlation of the errors of an item's labels, as of ``gaussian_annotators``.
        covariates: names of item covariates on which the truth depends linearly.
        units: mean, standard deviation, least and largest of the labels; by default found in the data.
        covariate_units: mean and standard deviation of each covariate; by default found in the data.
    """

    ends: tuple[float, float] | None = None
    points: cp.Count = 81
    bias_spread: cp.Positive = 0.5
    shared: cp.Share = 0.5
    covariates: Sequence[str] = ()
    units: tuple[float, float, float, float] | None = None
    covariate_units: cp.Units | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Robust annotators",
        reference="Student's t for outliers as in Lange et al. (1989), JASA 84, with a bias for each annotator",
        doi="10.1080/01621459.1989.10478852",
        kind="real",
        named={"covariates": "item_covariates"},
        sites={"mean": "", "slope": "C", "width": "", "bias": "A", "spread": "A", "truth": "N"},
        assumes="most labels lie near the item's number, and a few may lie anywhere",
        fails="when half of the annotators err alike, or all are more exact than the points of the grid lie apart",
        cost="labels x points, and a gradient step for each annotator",
    )

    def __post_init__(self) -> None:
        if self.points == 1 and self.points is not True:  # True is refused where settings are checked
            raise MethodError("points=1 are no grid; give 2 or more")

    def setup(self, data: Annotations) -> RobustAnnotators:
        """A copy with the units of the labels; MethodError where the grid is too coarse for most of them."""
        ready = replace(self, units=self._units(data), covariate_units=self._covariate_units(data))
        numbers, grid = data.as_block().numbers if data.has_labels else None, ready._grid(data)
        if numbers is not None and numbers.numel():
            inner = numbers.sort().values[len(numbers) // 4 : -(len(numbers) // 4) or None]
            half = float(inner[-1] - inner[0])
            apart = float(grid[1] - grid[0])
            if 0 < half < apart:
                raise MethodError(
                    f"the {self.points} points of the grid lie {apart:.3g} apart, and half of the labels within "
                    f"{half:.3g}; correct outliers (labels go from {numbers.min():g} to {numbers.max():g}), or "
                    "raise points"
                )
        return ready

    def model(self, data: cp.Block) -> None:
        """Draws annotators and labels; truths are summed out."""
        centre, scale, *_ = self._units(data)
        mean = pyro.sample("mean", cp.ScaledNormal(0.0, scale, scale))
        if self.covariates:
            prior = dist.Independent(cp.ScaledNormal(torch.zeros(len(self.covariates)), scale, scale), 1)
            middle, sd = torch.tensor(self._covariate_units(data)).unbind(-1)
            x = (cp.item_covariates(data, *self.covariates) - middle) / sd
            mean = mean + (x * pyro.sample("slope", prior)).sum(-1)
        width = pyro.sample("width", dist.LogNormal(math.log(scale), 1.0))
        with cp.plates.annotators(data):
            bias = pyro.sample("bias", cp.ScaledNormal(0.0, self.bias_spread * scale, scale))
            spread = pyro.sample("spread", dist.LogNormal(math.log(scale / 2), 1.0))
        with cp.plates.items(data):
            block, grid = cp.plates.block_of(data), self._grid(data)
            cp.annotate_numbers(
                data, RobustLabels(block, (bias, spread), (mean, width), grid, centre, self.ends, self.shared)
            )

    guide = mean_field

    def _grid(self, data: cp.Block | Annotations) -> Tensor:
        """The numbers that an item's may be, counted from the centre."""
        centre, scale, low, high = self._units(data)
        beyond = 0.0 if self.ends else BEYOND * self.bias_spread * scale
        return torch.linspace(low - centre - beyond, high - centre + beyond, self.points)

    def _covariate_units(self, data: cp.Block | Annotations) -> cp.Units:
        """Mean and standard deviation of each covariate."""
        return self.covariate_units or cp.number_units(data, self.covariates)[1:] if self.covariates else ()

    def _units(self, data: cp.Block | Annotations) -> tuple[float, float, float, float]:
        """Centre and scale of labels, and the ends of the grid."""
        if self.units is not None:
            return self.units
        block: cp.Block = data.as_block()
        numbers = block.numbers if block.has_labels else None
        ((centre, scale),) = cp.number_units(data)
        low, high = (centre - 3, centre + 3) if numbers is None else (float(numbers.min()), float(numbers.max()))
        if self.ends is None:
            return centre, scale, low, high
        if not self.ends[0] <= low <= high <= self.ends[1] or self.ends[0] == self.ends[1]:
            raise MethodError(
                f"ends={self.ends} do not hold all labels, which go from {low:g} to {high:g}; widen them"
            )
        return centre, scale, *self.ends


class RobustLabels(cp.NumberLabels):
    """Numbers with errors of Student's t (4 degrees of freedom) around an item's own, which lies on a grid (G,).

    Of annotators' bias and spread, (..., A) each, and items' mean, (..., n_items or 1), and width, (..., 1); grid
    and mean count from ``centre``, and ``shared`` is the correlation of the errors of an item's labels.
    """

    def __init__(
        self,
        block: cp.Block,
        annotators: tuple[Tensor, Tensor],
        items: tuple[Tensor, Tensor],
        grid: Tensor,
        centre: float,
        ends: tuple[float, float] | None,
        shared: float,
    ) -> None:
        super().__init__(block)
        self.bias, spread = (block.of_annotator(x) for x in annotators)
        self.spreads, self.least = annotators[1], ((grid[1] - grid[0]) / 2).square()
        self.scale = (spread.square() + self.least).sqrt()
        self.items, self.grid, self.shared, self.origin = items, grid, shared, centre
        self.ends = None if ends is None else (ends[0] - centre, ends[1] - centre)
        self.states = len(grid)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of each item's labels, (..., n_items)."""
        x, known, value = self.grid, None, value - self.origin
        total = self._prior(x).logsumexp(-1, keepdim=True)
        if self.block.gold is not None:  # all points of an item lie at what is known, and count once together
            known = ~self.block.gold.isnan()
            x = torch.where(known.unsqueeze(-1), (self.block.gold - self.origin).nan_to_num().unsqueeze(-1), x)
            total = total + torch.where(known, math.log(len(self.grid)), 0.0).unsqueeze(-1)
        of_labels = self.block.of_item(x, event_dim=1) if x.dim() > 1 else x
        log_p = self.block.sum_by_item(self._log_density(value.unsqueeze(-1), of_labels), event_dim=1)
        return cp.log_grid(log_p + self._prior(x) - total, x, self.truth, self.spread(), known)

    def _prior(self, x: Tensor) -> Tensor:
        """Log-weights of items' numbers, (..., n_items or 1, G)."""
        mean, width = (each.unsqueeze(-1) for each in self.items)
        return -((x - mean) / width).square() / 2

    def _log_density(self, y: Tensor, x: Tensor) -> Tensor:
        """Log-density of each label at each point, (..., S, G); at an end of the scale, the log-mass beyond it."""
        scale = self.scale.unsqueeze(-1)
        u = (y - x - self.bias.unsqueeze(-1)) / scale
        inside = math.log(3 / 8) - 2.5 * torch.log1p(u.square() / 4) - scale.log()
        if self.ends is None:
            return inside
        low, high = self.ends
        return torch.where(y <= low, _below(u).log(), torch.where(y >= high, _below(-u).log(), inside))

    def information(self, truth: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
        """Of each annotator, where the scale has no ends near."""
        return self.alike(INFORMATION / (self.spreads.square() + self.least))

    def spread(self) -> Tensor:
        """The variance of truths around the consensus."""
        count = self.block.sum_by_item(torch.ones_like(self.scale))
        told = self.block.sum_by_item(INFORMATION / self.scale.square())
        return self.shared * count / torch.where(count > 0, told, 1.0)

    def draw(self) -> tuple[Tensor, Tensor]:
        """Truths (n_items,), and labels (S,) given the consensus."""
        n = self.block.n_items
        at = torch.distributions.Categorical(logits=self._prior(self.grid).expand(n, -1)).sample()
        x = self.where_known(self.origin + self.grid[at])
        error = dist.StudentT(4.0).sample((self.block.n_labels,))
        labels = x[self.block.item] - self.origin + self.bias + self.scale * error
        labels = labels if self.ends is None else labels.clamp(*self.ends)
        return self.where_known(x + self.spread().sqrt() * torch.randn(n)), self.origin + labels


def _below(u: Tensor) -> Tensor:
    """The distribution function of Student's t with 4 degrees of freedom, exact in both tails."""
    q = u / (4 + u.square()).sqrt()
    near = 0.5 + 0.75 * (q - q**3 / 3)
    far = 4 / (4 + u.square())  # (1 - q^2), and (1 + q)^2 (2 - q) / 4 for a negative q
    small = (far / (1 - q)).square() * (2 - q) / 4
    return torch.where(u < -1, small, near).clamp(min=1e-300)
