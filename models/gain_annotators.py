"""Gain annotators: labels are numbers on a scale of each annotator's own, with a gain, a bias and a precision.

    level           ~ NormalGamma(0, 0.01, 1, scale^2)          mean m and precision l of items
    error[a]        ~ NormalGamma((1, 0), diag(gain_strength * scale^2, bias_strength), strength,
                                  strength * scale^2 / 4)       gain g, bias b, precision t: (A, 3)
    consensus[i]    ~ Normal(m, 1 / l)                          (N)      counted from the centre
    label[i, a]     ~ Normal(centre + g[a] consensus[i] + b[a], 1 / t[a])
    truth[i]        ~ Normal(centre + consensus[i], shared * v[i])    v: variance of the item's labels

The consensus of an item is integrated out. Centre and scale are the mean and the standard deviation of all labels.
With ``scale="log"``, labels and truths stand for their logarithms.
With item covariates x, m is m[0] + x[i] m[1:] (Raykar's regression).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch

import crowdppl.primitives as cp

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


@dataclass(frozen=True)
class GainAnnotators:
    """A gain, a bias and a precision for each annotator of numbers.

    Args:
        gain_strength: labels, a standard deviation from the centre, that the prior of a gain, around 1, is worth.
        bias_strength: labels that the prior of a bias, around 0, is worth.
        strength: half the labels that the prior of a precision is worth.
        shared: correlation of the errors of an item's labels, as of ``gaussian_annotators``.
        scale: on which errors are Gaussian, as of ``gaussian_annotators``.
        covariates: names of item covariates on which the truth depends linearly.
        units: mean and standard deviation of the labels, then of each covariate; by default found in the data.
    """

    gain_strength: cp.Positive = 4.0
    bias_strength: cp.Positive = 1.0
    strength: cp.Positive = 2.0
    shared: cp.Share = 0.5
    scale: cp.Scale = "linear"
    covariates: Sequence[str] = ()
    units: cp.Units | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Gain annotators",
        reference="Raykar et al. (2010), Learning from crowds, JMLR 11, with a gain and a bias for each annotator",
        kind="real",
        named={"covariates": "item_covariates"},
        sites={"level": "C", "error": "A 3", "truth": "N"},
        columns={"error": ("gain", "bias", "precision")},
        assumes="errors are Gaussian; an annotator stretches or shrinks the scale alike everywhere",
        fails="when annotators label few items, or most of them shrink the scale alike, which labels cannot show",
        cost="labels",
        sharded=True,
    )

    def setup(self, data: Annotations) -> GainAnnotators:
        """A copy with the units of labels and covariates."""
        return replace(self, units=self.units or cp.number_units(data, self.covariates, self.scale))

    def model(self, data: cp.Block) -> None:
        """Draws level, errors and labels; truths are integrated out."""
        units = self.units or cp.number_units(data, self.covariates, self.scale)
        level, square = cp.number_level(data, units, self.covariates, gains=True), units[0][1] ** 2
        with cp.plates.annotators(data):
            strengths = torch.diag(torch.tensor([self.gain_strength * square, self.bias_strength]))
            prior = cp.NormalGamma(torch.tensor([1.0, 0.0]), strengths, self.strength, self.strength * square / 4)
            shift, powers = [[0.0] * 3, [0.0, 1.0, 0.0]], [-1.0, 0.0, 0.0]  # truths less c: b + g c; times s: g / s
            log_t, t, once, twice = cp.natural("error", prior, shift=shift, powers=powers)
        (tg, tb), ((tgg, tgb), (_, tbb)) = once.unbind(-1), (row.unbind(-1) for row in twice.unbind(-2))
        errors = cp.Errors(log_t, t, tb, tbb, tg, tgb, tgg)
        with cp.plates.items(data):
            cp.annotate_numbers(
                data, cp.GaussianLabels(cp.plates.block_of(data), errors, level, self.shared, self.scale)
            )
