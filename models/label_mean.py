"""Label mean: annotators of numbers are all alike, so that the mean of an item's labels tells its number.

    precision       ~ Gamma(strength, strength * scale^2 / 4)   (1)      one for all, t
    consensus[i]    ~ Normal(centre, 100 scale^2)               (N)
    label[i, a]     ~ Normal(consensus[i], 1 / t)
    truth[i]        ~ Normal(consensus[i], shared * v[i])       v: variance of the item's labels

The consensus of an item is integrated out. Centre and scale are the mean and the standard deviation of all labels.
With ``scale="log"``, labels and truths stand for their logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyro.distributions as dist
import torch

import crowdppl.primitives as cp

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


@dataclass(frozen=True)
class LabelMean:
    """The mean of an item's labels, with an interval.

    Args:
        strength: half the labels that the prior of the precision is worth.
        shared: correlation of the errors of an item's labels, as of ``gaussian_annotators``.
        scale: on which errors are Gaussian, as of ``gaussian_annotators``.
        units: mean and standard deviation of the labels; by default found in the data.
    """

    strength: cp.Positive = 2.0
    shared: cp.Share = 0.5
    scale: cp.Scale = "linear"
    units: cp.Units | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Label mean",
        reference="the mean of labels, as a model",
        kind="real",
        sites={"precision": "", "truth": "N"},
        assumes="all annotators are equally good and err evenly to both sides",
        fails="when some annotators are better than others, or biased",
        cost="labels",
        sharded=True,
    )

    def setup(self, data: Annotations) -> LabelMean:
        """A copy with the units of the labels."""
        return replace(self, units=self.units or cp.number_units(data, scale=self.scale))

    def model(self, data: cp.Block) -> None:
        """Draws the precision and labels; truths are integrated out."""
        ((centre, scale),) = self.units or cp.number_units(data, scale=self.scale)
        log_t, t = cp.natural("precision", dist.Gamma(self.strength, self.strength * scale**2 / 4))
        zero, weak = torch.zeros(data.n_annotators), torch.tensor(0.01 / scale**2)
        log_t, t = log_t + zero, t + zero
        level = cp.Level(torch.tensor(math.log(weak)), weak, torch.zeros(1), torch.zeros(1), centre)
        with cp.plates.items(data):
            errors = cp.Errors(log_t, t, zero, zero, t, zero, t)
            cp.annotate_numbers(
                data, cp.GaussianLabels(cp.plates.block_of(data), errors, level, self.shared, self.scale)
            )
