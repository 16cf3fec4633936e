"""Gaussian annotators: labels are numbers around the item's own, with a bias and a precision of each annotator.

    level           ~ NormalGamma(0, 0.01, 1, scale^2)          mean m and precision l of items
    error[a]        ~ NormalGamma(0, bias_strength, strength, strength * scale^2 / 4)    bias b, precision t: (A, 2)
    consensus[i]    ~ Normal(centre + m, 1 / l)                 (N)
    label[i, a]     ~ Normal(consensus[i] + b[a], 1 / t[a])
    truth[i]        ~ Normal(consensus[i], shared * v[i])       v: variance of the item's labels

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
class GaussianAnnotators:
    """A bias and a precision for each annotator of numbers.

    Args:
        bias_strength: labels that the prior of a bias, around 0, is worth.
        strength: half the labels that the prior of a precision is worth.
        shared: correlation of the errors of an item's labels, which widens intervals, and by which few known truths
            tell little of biases. Labels cannot tell it: it is an assumption, to be checked by known truths.
        scale: on which errors are Gaussian. "log" is for positive numbers whose errors are shares of the truth:
            all above is then of logarithms, a bias of 0.1 being 10 %, and estimates are medians.
        covariates: names of item covariates on which the truth depends linearly.
        units: mean and standard deviation of the labels, then of each covariate; by default found in the data.
    """

    bias_strength: cp.Positive = 1.0
    strength: cp.Positive = 2.0
    shared: cp.Share = 0.5
    scale: cp.Scale = "linear"
    covariates: Sequence[str] = ()
    units: cp.Units | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Gaussian annotators",
        reference="Raykar et al. (2010), Learning from crowds, JMLR 11, with a bias for each annotator",
        kind="real",
        named={"covariates": "item_covariates"},
        sites={"level": "C", "error": "A 2", "truth": "N"},
        columns={"error": ("bias", "precision")},
        assumes="errors are Gaussian; an annotator's bias and spread are the same on all items",
        fails="when annotators use the scale differently (gains), or errors have heavy tails",
        cost="labels",
        sharded=True,
    )

    def setup(self, data: Annotations) -> GaussianAnnotators:
        """A copy with the units of labels and covariates."""
        return replace(self, units=self.units or cp.number_units(data, self.covariates, self.scale))

    def model(self, data: cp.Block) -> None:
        """Draws level, errors and labels; truths are integrated out."""
        units = self.units or cp.number_units(data, self.covariates, self.scale)
        level, rate = cp.number_level(data, units, self.covariates), self.strength * units[0][1] ** 2 / 4
        with cp.plates.annotators(data):
            prior = cp.NormalGamma(torch.zeros(1), self.bias_strength * torch.eye(1), self.strength, rate)
            log_t, t, once, twice = cp.natural("error", prior, shift=[[1.0, 0.0]])
        tb, tbb = once[..., 0], twice[..., 0, 0]
        errors = cp.Errors(log_t, t, tb, tbb, t, tb, t)
        with cp.plates.items(data):
            cp.annotate_numbers(
                data, cp.GaussianLabels(cp.plates.block_of(data), errors, level, self.shared, self.scale)
            )
