"""Poisson annotators: labels are counts around the item's own, which each annotator counts with a gain.

    rate            ~ Gamma(1, mean / shape)                    ()
    gain[a]         ~ Gamma(gain_strength, gain_strength)       (A)      1 on average
    truth[i]        ~ Gamma(shape, rate)                        (N)
    label[i, a]     ~ Poisson(gain[a] truth[i])

The truth of an item is integrated out: given the annotators, it is a Gamma whose shape grows with the counts, and
whose rate with the gains. Mean and shape are found in the labels by moments: their mean m, and m^2 over the
covariance of two annotators' labels of an item. Labels cannot tell a gain that all annotators share: the prior of
gains is centred at 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyro.distributions as dist
import torch
from torch import Tensor

import crowdppl.primitives as cp

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

LEAST = 0.01
"""For what a known truth of 0 is taken, of which no label but 0 could be."""
SHAPES = (0.1, 100.0)
"""Between which the shape lies that is found in labels."""


@dataclass(frozen=True)
class PoissonAnnotators:
    """A gain for each annotator of counts.

    Args:
        gain_strength: of the prior of gains; with 25, 95 % of them are from 0.65 to 1.43. ``em``, which finds
            modes, has all gains lower by one in so many, and counts higher by as much.
        shape: of the Gamma of items' counts: the inverse square of their coefficient of variation; by default found
            in the labels.
        mean: of the labels, for the prior; by default found in them.
    """

    gain_strength: cp.Positive = 25.0
    shape: cp.Positive | None = None
    mean: cp.Positive | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Poisson annotators",
        reference="Gelman et al. (2013), Bayesian Data Analysis, section 2.6, with a gain for each annotator",
        kind="count",
        sites={"rate": "", "gain": "A", "truth": "N"},
        assumes="an annotator misses, or counts twice, a share of what there is, and counts scatter as Poisson's",
        fails="when counts scatter less, as careful ones of a few objects do, or more: intervals are then too "
        "wide, or too narrow (within_items of predictive_check shows it)",
        cost="labels",
        sharded=True,
    )

    def setup(self, data: Annotations) -> PoissonAnnotators:
        """A copy with the shape and the mean that labels have."""
        mean, shape = self._moments(data)
        return replace(self, mean=mean, shape=shape)

    def model(self, data: cp.Block) -> None:
        """Draws the rate, gains and labels; truths are integrated out."""
        mean, shape = self._moments(data)
        log_rate, rate = cp.natural("rate", dist.Gamma(1.0, mean / shape), powers=[-1.0])
        with cp.plates.annotators(data):
            log_gain, gain = cp.natural("gain", dist.Gamma(self.gain_strength, self.gain_strength), powers=[-1.0])
        with cp.plates.items(data):
            block = cp.plates.block_of(data)
            cp.annotate_numbers(data, PoissonLabels(block, (log_gain, gain), (log_rate, rate), shape))

    def _moments(self, data: cp.Block | Annotations) -> tuple[float, float]:
        """The mean of labels, and the shape of the Gamma of items' counts."""
        if self.mean is not None and self.shape is not None:
            return self.mean, self.shape
        mean, shape = _found(data.as_block())
        return self.mean or mean, self.shape or shape


class PoissonLabels(cp.NumberLabels):
    """Counts whose truths have a Gamma distribution of some shape.

    Gains, (..., A), and the rate of truths, (..., 1), are given as their logarithm and themselves (``natural``).
    """

    def __init__(
        self, block: cp.Block, gain: tuple[Tensor, Tensor], rate: tuple[Tensor, Tensor], shape: float
    ) -> None:
        super().__init__(block)
        self.gains = gain[1]
        self.log_gain, self.gain = (block.of_annotator(x) for x in gain)
        (self.log_rate, self.rate), self.concentration = rate, torch.tensor(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability of each item's labels, (..., n_items)."""
        terms = value, value * self.log_gain - torch.lgamma(value + 1), self.gain
        count, each, exposure = (self.block.sum_by_item(x) for x in terms)
        total, exposure = self.concentration + count, exposure + self.rate
        each = each + self.concentration * self.log_rate - torch.lgamma(self.concentration)
        known = None if self.block.gold is None else self.block.gold.clamp(min=LEAST)
        return cp.log_gamma(each, total, exposure, name=self.truth, known=known)

    def information(self, truth: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
        """A gain over the count, by annotator and item."""
        return self.gains.unsqueeze(-1), 1 / truth.clamp(min=LEAST).unsqueeze(0)

    def draw(self) -> tuple[Tensor, Tensor]:
        """Truths (n_items,), and labels (S,) given them."""
        truth = dist.Gamma(self.concentration, self.rate).expand((self.block.n_items,)).sample()
        truth = self.where_known(truth)
        return truth, dist.Poisson(truth[self.block.item] * self.gain).sample()


def _found(block: cp.Block) -> tuple[float, float]:
    """Mean and shape of counts by the moments of labels; 10 and 1 without labels."""
    y = block.numbers if block.has_labels else None
    if y is None or not len(y):
        return 10.0, 1.0
    n_labels = cp.reduced(len(y))
    mean = max(cp.reduced(len(y) / n_labels * float(y.mean())), 1 / n_labels)
    times, first, second = (block.sum_by_item(x) for x in (torch.ones_like(y), y, y.square()))
    pairs = cp.reduced(float((times * (times - 1)).sum()))
    excess = cp.reduced(float((first.square() - second).sum()))
    if not pairs:
        return mean, 1.0
    excess = excess / pairs / mean**2 - 1
    return mean, min(max(1 / max(excess, 1e-9), SHAPES[0]), SHAPES[1])
