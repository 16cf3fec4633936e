"""Collapsed variational Bayes: truths by parameters from which the item's own counts are removed, in sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from crowdppl.core.collective import all_reduced, in_step, process, reduced
from crowdppl.data.blocks import Block
from crowdppl.inference.cavities import WORK, ItemLabels, RowCounts, normalised, refuse
from crowdppl.inference.problem import Problem
from crowdppl.inference.state import Tensors

CHUNK = 1_000_000
"""Labels whose places are in memory together, some 100 bytes each."""
SWEEPS = 200
"""Sweeps at most; there is always one, and labels times classes of all are at most ``WORK``."""
STEP, SETTLED = 0.7, 1e-6
"""Part of the way to the new probabilities that a sweep goes, and the largest change at which they have settled."""


@dataclass(frozen=True)
class _Chunks:
    """The labels of a problem in chunks of items, of which one is in memory at a time; a single one stays there."""

    problem: Problem
    values: Mapping[str, Tensor]

    def __iter__(self) -> Iterator[tuple[slice, ItemLabels]]:
        for blocks in self._groups:
            first, last = blocks[0].offset, blocks[-1].offset + blocks[-1].n_items
            # Blocks of a sweep's own, whose places of labels go with it.
            some = [replace(block, offset=block.offset - first) for block in blocks]
            problem = replace(self.problem, blocks=some)
            # It is found by all processes together, whose chunks differ in number.
            vars(problem)["sums_others"] = self.problem.sums_others
            yield slice(first, last), self._only if len(self._groups) == 1 else ItemLabels.of(problem, self.values)

    @cached_property
    def _only(self) -> ItemLabels:
        return ItemLabels.of(self.problem, self.values)

    @cached_property
    def _groups(self) -> list[list[Block]]:
        """Consecutive blocks."""
        groups, labels = list[list[Block]](), CHUNK
        for block in (b for b in self.problem.blocks if b.n_items):
            if labels >= CHUNK:
                groups.append([])
                labels = 0
            groups[-1].append(block)
            labels += block.n_labels
        return groups


@dataclass(frozen=True)
class Collapsed:
    """Where collapsed variational Bayes ended.

    Attributes:
        shares: (N, K) probabilities of truths, by position.
        parameters: of the sites, prior and counts at these shares.
        sweeps: how many there were.
        change: the largest change of a probability in the last.
    """

    shares: Tensor
    parameters: Tensors
    sweeps: int
    change: float


def collapsed(
    problem: Problem, priors: Mapping[str, Tensor], values: Mapping[str, Tensor], shares: Tensor
) -> Collapsed:
    """Collapsed variational Bayes of order zero from a mean field (Asuncion et al. 2009, "On smoothing and
    inference for topic models").

    The parameters are integrated out: an item's labels are weighed by expected shares of rows from which the item's
    own expected counts are removed, until probabilities settle; labels of an item that use one row count one after
    another. With many labels there are few sweeps: an item's own part of the counts is small there.

    Args:
        priors: parameters of the conjugate sites.
        values: statistics of all sites at which the mean field weighs labels.
        shares: (N, K) probabilities of truths of the mean field, by position; those found take their places.

    Raises:
        NoProductError: where labels of an item are no product of shares given its truth.
    """
    refuse(problem)
    first, chunks = process() == 0, _Chunks(problem, values)
    dtype, change, sweeps = problem.blocks[0].dtype, float("inf"), 0

    def parameters() -> Tensors:  # priors enter once
        return {n: x.double().contiguous().clone() if first else x.double() * 0 for n, x in priors.items()}

    counted = parameters()
    with in_step():
        for span, labels in chunks:
            own = shares[span].to(dtype).contiguous()
            labels.check(values, own)
            labels.count(counted, own)
    counted = _summed(counted)
    most = max(1, min(SWEEPS, WORK // max(1, problem.n_labels * shares.shape[1])))
    while sweeps < most and change > SETTLED:
        rows, step, changes = {n: RowCounts.of(x) for n, x in counted.items()}, STEP if sweeps else 1.0, [0.0]
        counted = parameters()
        for span, labels in chunks:
            own = shares[span].to(dtype).contiguous()
            difference = normalised(labels.without_own(rows, own)) - own
            changes.append(float(difference.abs().max()))
            moved = own.double() + step * difference
            moved /= moved.sum(1, keepdim=True)
            shares[span] = moved.to(shares.dtype)
            labels.count(counted, moved)
        counted, change, sweeps = _summed(counted), reduced(max(changes), "max"), sweeps + 1
    return Collapsed(shares, counted, sweeps, change)


def _summed(parameters: Tensors) -> Tensors:
    """The sums over processes of what each has."""
    return dict(zip(parameters, all_reduced([*parameters.values()]), strict=True))
