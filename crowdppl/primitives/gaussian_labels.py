"""Labels that are numbers around an item's own, and the prior of what that is."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from crowdppl.core.collective import all_reduced, reduced
from crowdppl.data.blocks import Block
from crowdppl.errors import DataError
from crowdppl.primitives.distributions import NormalGamma
from crowdppl.primitives.labels import NumberLabels
from crowdppl.primitives.likelihood import item_covariates
from crowdppl.primitives.plates import Data
from crowdppl.primitives.statistics import natural
from crowdppl.primitives.sums import log_gaussian

LOG_2_PI = math.log(2 * math.pi)
LARGEST = 1e15
"""A standard deviation whose square, and the inverse of that, single precision holds."""
EXACT = 1e-15
"""Variance of a known truth around the consensus, in that of items, where no label differs from it."""
WEAK = 0.01
"""Labels that the prior of a level or a slope is worth."""


Units = Sequence[Sequence[float]]
Scale = Literal["linear", "log"]
"""On which errors of numbers are Gaussian: "log" where they are shares of the truth, and all numbers positive."""


def number_units(data: Data, covariates: Sequence[Hashable] = (), scale: Scale = "linear") -> Units:
    """Mean and standard deviation of all labels, then of item covariates; 0 and 1 without labels.

    Of numbers that are all equal, the size stands for the standard deviation, or 1 for that of zeros.

    Args:
        data: the argument of the model's ``model`` or ``setup``.
        covariates: names of columns of ``item_covariates``.
        scale: of labels; "log" for mean and standard deviation of their logarithms.

    Raises:
        DataError: when a standard deviation is above 1e15 or below 1e-15, of which squares are out of range.

    Examples:
        >>> from crowdppl import Annotations
        >>> data = Annotations.from_dicts({"ann": {"x": 1.0, "y": 5.0}, "bob": {"y": 3.0}}, kind="real")
        >>> [(round(middle, 2), round(scale, 2)) for middle, scale in crowdppl.primitives.number_units(data)]
        [(3.0, 1.63)]
    """
    block = data.as_block()
    numbers = block.numbers if block.has_labels else None
    on_scale = numbers.log() if numbers is not None and scale == "log" else numbers
    columns, names = ([], []) if on_scale is None else ([on_scale], ["labels"])
    names += [f"covariates {name!r}" for name in covariates]
    columns += list(item_covariates(block, *covariates).double().unbind(-1)) if covariates else []
    found = (_unit(x, name) for x, name in zip(columns, names, strict=True))
    return tuple(found) if numbers is not None else ((0.0, 1.0), *found)


def _unit(x: Tensor, name: Hashable) -> tuple[float, float]:
    """Mean and standard deviation, or size, of some numbers."""
    part, mean, variance = len(x) / reduced(len(x)), float(x.mean()), float(x.var(correction=0))
    low, high = all_reduced([-float(x.min()), float(x.max())], "max")
    centre = reduced(part * mean)
    scale = math.sqrt(reduced(part * (variance + (mean - centre) ** 2)))
    if -low == high:
        centre, scale = high, abs(high) or 1.0
    if not 1 / LARGEST <= scale <= LARGEST:
        raise DataError(
            f"{name} have a standard deviation of {scale:.3g}, which must be from {1 / LARGEST:g} to {LARGEST:g}; "
            "give them in another unit"
        )
    return centre, scale


class Level(NamedTuple):
    """Expected or drawn statistics of the prior of each item's number: its mean m and precision l, (..., N or 1).

    Attributes:
        log_l, l, lm, lmm: log l, l, l m and l m^2, where m counts from ``centre``.
        centre: a number near all labels.
    """

    log_l: Tensor
    l: Tensor  # noqa: E741 - as in the models
    lm: Tensor
    lmm: Tensor
    centre: float


def number_level(data: Data, units: Units, covariates: Sequence[Hashable] = (), gains: bool = False) -> Level:
    """Draws the mean and the precision of items' numbers, outside all plates; the mean may depend on covariates.

    The site ``level`` is a NormalGamma of the mean (of the intercept and a slope a covariate) and the precision.

    Args:
        data: the model's argument.
        units: as of ``number_units``.
        covariates: names of columns of ``item_covariates``, by which the mean changes linearly.
        gains: whether annotators have gains, so that labels do not tell the unit of items' numbers.
    """
    (centre, scale), *others = units
    size = 1 + len(covariates)
    prior = NormalGamma(torch.zeros(size), WEAK * torch.eye(size), 1.0, scale**2)
    shift = [[-1.0, *[0.0] * size], *[[0.0] * (1 + size)] * (size - 1)]  # truths move against all biases
    log_l, precision, once, twice = natural(
        "level", prior, shift=shift, powers=[1.0] * size + [-2.0] if gains else None
    )
    if not covariates:
        return Level(log_l, precision, once[..., 0], twice[..., 0, 0], centre)
    middle, width = torch.tensor(others).unbind(-1)
    x = (item_covariates(data, *covariates) - middle) / width
    x = torch.cat([torch.ones_like(x[:, :1]), x], -1)
    squares = x.unsqueeze(-1) * x.unsqueeze(-2)
    return Level(log_l, precision, (x * once).sum(-1), (squares * twice).sum((-2, -1)), centre)


class Errors(NamedTuple):
    """Expected or drawn statistics of each annotator's gain g, bias b and precision t, (..., A) each."""

    log_t: Tensor
    t: Tensor
    tb: Tensor
    tbb: Tensor
    tg: Tensor
    tgb: Tensor
    tgg: Tensor


class GaussianLabels(NumberLabels):
    """Numbers with Gaussian errors around an item's own, from which the truth departs.

    consensus[i]    ~ Normal(m[i], 1 / l)
    label[i, a]     ~ Normal(g[a] consensus[i] + b[a], 1 / t[a])        counted from the centre
    truth[i]        ~ Normal(consensus[i], shared v[i])

    Here v is one over the mean precision of an item's labels: ``shared`` is the correlation of their errors.
    Gains have no part in it: over a gain that may be 0, the variance would have no mean. Labels cannot tell
    ``shared``: it widens the intervals of truths, and says how far a known truth tells of its consensus, and so of
    biases. Without known truths it moves no estimate. Labels are drawn as if a known truth were the consensus. On
    the scale "log", labels and truths stand for their logarithms.

    Args:
        block: who labelled what.
        errors: of annotators.
        level: of items.
        shared: the correlation of the errors of an item's labels, from 0 to below 1.
        scale: of labels.
    """

    def __init__(self, block: Block, errors: Errors, level: Level, shared: float, scale: Scale = "linear") -> None:
        super().__init__(block)
        self.logs = scale == "log"
        self.level, self.shared, self.origin, self.errors = level, shared, level.centre, errors
        self.each = Errors(*(block.of_annotator(x) for x in errors))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of each item's labels, (..., n_items)."""
        own, (log_l, precision, lm, lmm, centre) = self.each, self.level
        y = self._modelled(value) - centre
        known = None if self.block.gold is None else self._modelled(self.block.gold) - centre
        each = (own.log_t - own.t * y**2 + 2 * own.tb * y - own.tbb - LOG_2_PI) / 2, own.tg * y - own.tgb, own.tgg
        c, h, p = (self.block.sum_by_item(x) for x in each)
        spread = self.spread()
        if self.logs:  # densities of labels and known truths themselves
            c = c - self.block.sum_by_item(y + centre)
            c = c if known is None else c - (known + centre).nan_to_num()
        c, h, p = c + (log_l - lmm - LOG_2_PI) / 2, h + lm, p + precision
        around = None if known is None else self._around()
        return log_gaussian(c, h, p, name=self.truth, spread=spread, known=known, around=around)

    def information(self, truth: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
        """The precision that a label of each annotator adds to the consensus."""
        return self.alike(self.errors.tgg)

    def spread(self) -> Tensor:
        """The variance of truths around the consensus."""
        precision, count = (self.block.sum_by_item(x) for x in (self.each.t, torch.ones_like(self.each.t)))
        return self.shared * count / torch.where(count > 0, precision, 1.0)

    def _around(self) -> tuple[Tensor, Tensor]:
        """Log-height and precision of known truths around the consensus, linear in the statistics of errors.

        That is the density of ``spread``, but for the geometric mean of precisions in its height.
        """
        count = self.block.sum_by_item(torch.ones_like(self.each.t))
        log_t, t = (self.block.sum_by_item(x) / count.clamp(min=1) for x in (self.each.log_t, self.each.t))
        shared = torch.where(count > 0, self.shared, EXACT)
        log_t, t = torch.where(count > 0, log_t, self.level.log_l), torch.where(count > 0, t, self.level.l)
        return (log_t - shared.log() - LOG_2_PI) / 2, t / shared

    def draw(self) -> tuple[Tensor, Tensor]:
        """Truths (n_items,), and labels (S,) given the consensus."""
        own, (_, precision, lm, _, centre) = self.each, self.level
        x = centre + lm / precision + torch.randn(self.block.n_items) / precision.sqrt()
        x = self._modelled(self.where_known(self._number(x))) - centre
        labels = (own.tg * x[self.block.item] + own.tb) / own.t + torch.randn(self.block.n_labels) / own.t.sqrt()
        spread = self.spread()
        truths = centre + x + spread.sqrt() * torch.randn(self.block.n_items)
        return self.where_known(self._number(truths)), self._number(centre + labels)

    def _modelled(self, number: Tensor) -> Tensor:
        """What is Gaussian of labels or truths."""
        return number.log() if self.logs else number

    def _number(self, modelled: Tensor) -> Tensor:
        """The labels or truths of which that is."""
        return modelled.exp() if self.logs else modelled
