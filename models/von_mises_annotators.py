"""Von Mises annotators: labels are angles around the item's own, with a bias and a concentration of each annotator.

    bias[a]           ~ Normal(0, bias_spread)                        (A)
    concentration[a]  ~ LogNormal(log typical, width)                 (A)
    consensus[i]      ~ Uniform, on the circle                        (N)
    label[i, a]       ~ VonMises(consensus[i] + bias[a], concentration[a])
    truth[i]          ~ Normal(consensus[i], shared * v[i]), wrapped  v: variance of the item's labels

The consensus of an item is integrated out: given the annotators, it is von Mises around the direction of the sum of
concentration[a] exp(i (label[i, a] - bias[a])), with the length of that sum for its concentration. Labels cannot
tell a bias that all annotators share: the prior of biases is centred at 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import mean_field

LOG_TURN = math.log(2 * math.pi)
MOST = 1e8
"""A concentration of labels that scatter by less than a hundredth of a degree; a sampler may try larger ones."""


@dataclass(frozen=True)
class VonMisesAnnotators:
    """A bias and a concentration for each annotator of angles.

    Args:
        bias_spread: standard deviation of biases, in turns; 0.05 is 18 degrees.
        typical: median of concentrations; of 10, labels scatter by 18 degrees around the truth.
        width: standard deviation of the logarithm of concentrations. With 1.5, 95 % of annotators are between 0.5,
            who are near to guessing, and 190, who scatter by 4 degrees.
        shared: correlation of the errors of an item's labels, as of ``gaussian_annotators``.
    """

    bias_spread: cp.Positive = 0.05
    typical: cp.Positive = 10.0
    width: cp.Positive = 1.5
    shared: cp.Share = 0.5

    card: ClassVar[cp.Card] = cp.Card(
        title="Von Mises annotators",
        reference="Mardia & Jupp (2000), Directional Statistics, Wiley, with a bias for each annotator",
        doi="10.1002/9780470316979",
        kind="angle",
        sites={"bias": "A", "concentration": "A", "truth": "N"},
        assumes="labels lie around the item's angle, most often near it, and annotators err independently",
        fails="when an annotator takes an axis for a direction, so that labels are half a turn off at times; the "
        "concentration is then too low",
        cost="labels, and a gradient step for each annotator",
    )

    def model(self, data: cp.Block) -> None:
        """Draws annotators and labels; truths are integrated out."""
        block = cp.plates.block_of(data)
        assert isinstance(block.space, cp.Circle)
        radian = block.space.radian
        with cp.plates.annotators(data):
            bias = pyro.sample("bias", cp.ScaledNormal(0.0, self.bias_spread * block.space.turn, radian))
            concentration = pyro.sample("concentration", dist.LogNormal(math.log(self.typical), self.width))
        with cp.plates.items(data):
            cp.annotate_numbers(data, VonMisesLabels(block, bias, concentration, self.shared, radian))

    guide = mean_field


class VonMisesLabels(cp.NumberLabels):
    """Angles with von Mises errors around an item's own, from which the truth departs.

    Of annotators' bias, in the unit of the labels, and concentration, (..., A) each. ``shared`` is the correlation
    of the errors of an item's labels, and ``radian`` one in their unit.
    """

    def __init__(self, block: cp.Block, bias: Tensor, concentration: Tensor, shared: float, radian: float) -> None:
        super().__init__(block)
        concentration = concentration.clamp(1 / MOST, MOST)
        self.bias, self.each = block.of_annotator(bias), block.of_annotator(concentration)
        self.concentration, self.shared, self.unit = concentration, shared, radian

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of each item's labels, (..., n_items)."""
        x, known = (value - self.bias) / self.unit, self.block.gold
        own = -self.each - torch.special.i0e(self.each).log() - LOG_TURN - math.log(self.unit)
        terms = own, self.each * x.cos(), self.each * x.sin()
        constant, cosine, sine = (self.block.sum_by_item(term) for term in terms)
        known = None if known is None else known / self.unit
        return cp.log_circle(constant - LOG_TURN, cosine, sine, name=self.truth, spread=self.spread(), known=known)

    def information(self, truth: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
        """Of each annotator."""
        k = self.concentration
        return self.alike(k * torch.special.i1e(k) / torch.special.i0e(k))

    def spread(self) -> Tensor:
        """The variance of truths around the consensus, in radians."""
        total, count = (self.block.sum_by_item(x) for x in (self.each, torch.ones_like(self.each)))
        return self.shared * count / torch.where(count > 0, total, 1.0)

    def draw(self) -> tuple[Tensor, Tensor]:
        """Truths (n_items,), and labels (S,) given the consensus."""
        n, turn = self.block.n_items, 2 * math.pi * self.unit
        x = self.where_known(turn * torch.rand(n))
        error = dist.VonMises(torch.zeros_like(self.each), self.each).sample()
        labels = x[self.block.item] + self.bias + self.unit * error
        truths = x + self.unit * self.spread().sqrt() * torch.randn(n)
        return self.where_known(truths % turn), labels % turn
