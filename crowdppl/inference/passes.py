"""Passes over all blocks: objectives, counts and one-hot logits add up in float64, block by block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.inference.density import Density, Evaluation
from crowdppl.inference.sites import Extra, Site, one_hot_terms
from crowdppl.primitives.sums import Summing

Reduce = Callable[[Tensor], Tensor]


def alone(x: Tensor) -> Tensor:
    """The reduction of a fit that runs in one process: nothing to add."""
    return x


@dataclass(frozen=True)
class Total:
    """What a pass over all blocks returns.

    Attributes:
        objective: float64 (C,) or ().
        gradient: float64, for each site asked for; local sites in the order of positions.
        trace: the first block's trace, for priors of global sites.
        per_item: ([C,] N) log evidence by position, where asked for.
        marginals: (T, [C,] N) by position, for each discrete site asked for.
    """

    objective: Tensor
    gradient: dict[str, Tensor]
    trace: Trace
    per_item: Tensor | None = None
    marginals: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class FullPass:
    """A model on all blocks of a data set.

    Args:
        density: the model's density.
        blocks: the data.
        sites: the model's continuous and one-hot sites.
        reduce: adds up a tensor over processes; the identity today. Whatever reads all data goes through it.
    """

    density: Density
    blocks: Sequence[Block]
    sites: Mapping[str, Site]
    reduce: Reduce = alone

    @property
    def n_items(self) -> int:
        """Items in all blocks."""
        return sum(b.n_items for b in self.blocks)

    def __call__(
        self,
        values: Mapping[str, Tensor],
        *,
        gradient: Collection[str] = (),
        marginals: Collection[str] = (),
        tilt: Mapping[str, Tensor] | None = None,
        how: Callable[[int], Summing] | None = None,
        evidence: bool = False,
        extra: Callable[[bool], Extra | None] | None = None,
    ) -> Total:
        """Evaluates every block, forward and backward, and adds up.

        Args:
            values: a tensor for every site; local ones for all items, by position.
            gradient, marginals: as in ``Density``.
            tilt: log-potentials (T, [C,] N) for all items, by position.
            how: summing mode of the block that begins at a position.
            evidence: whether to keep the log evidence of each item.
            extra: terms to add to the objective of the first block (True) and of the others (False); by
                default the log-prior of one-hot sites, once.
        """
        running = _Running(self.sites)
        for block in self.blocks:
            if block.n_items == 0:
                continue
            one = self.density(
                block,
                self.cut(values, block),
                gradient=gradient,
                marginals=marginals,
                tilt={n: self._span(x, block) for n, x in (tilt or {}).items()},
                how=how(block.offset) if how else None,
                extra=(extra or self._global_terms)(running.trace is None),
            )
            running.add(one, evidence)
        return running.total(self.reduce)

    def cut(self, values: Mapping[str, Tensor], block: Block) -> dict[str, Tensor]:
        """The values that one block of items sees: local sites cut to its items."""
        if len(self.blocks) == 1:
            return dict(values)
        start, stop = block.offset, block.offset + block.n_items
        local = {n: s for n, s in self.sites.items() if s.local}
        return {n: local[n].cut(x, start, stop) if n in local else x for n, x in values.items()}

    def _span(self, x: Tensor, block: Block) -> Tensor:
        return x if len(self.blocks) == 1 else x[..., block.offset : block.offset + block.n_items]

    def _global_terms(self, first: bool) -> Extra | None:
        onehot = [n for n, s in self.sites.items() if s.kind == "onehot"]
        return one_hot_terms(onehot, self.density.chains) if first else None


@dataclass
class _Running:
    """The sum so far, over the blocks that were seen."""

    sites: Mapping[str, Site]
    objective: Tensor | None = None
    trace: Trace | None = None
    sums: dict[str, Tensor] = field(default_factory=dict)
    parts: dict[str, list[Tensor]] = field(default_factory=dict)
    marginals: dict[str, list[Tensor]] = field(default_factory=dict)
    evidence: list[Tensor] = field(default_factory=list)

    def add(self, one: Evaluation, evidence: bool) -> None:
        """One more block."""
        self.trace = one.trace if self.trace is None else self.trace
        self.objective = one.objective if self.objective is None else self.objective + one.objective
        for name, g in one.gradient.items():
            if self.sites[name].local:
                self.parts.setdefault(name, []).append(g)
            else:
                self.sums[name] = self.sums[name] + g.double() if name in self.sums else g.double()
        for name, x in one.marginals.items():
            self.marginals.setdefault(name, []).append(x)
        if evidence:
            self.evidence.append(one.per_item)

    def total(self, reduce: Reduce) -> Total:
        """Everything added up, sites of items put side by side."""
        assert self.objective is not None and self.trace is not None, "annotations have at least one item"
        gradient = {n: reduce(g) for n, g in self.sums.items()}
        for name, pieces in self.parts.items():
            gradient[name] = torch.cat(pieces, -1 - len(self.sites[name].event_shape))
        return Total(
            reduce(self.objective),
            gradient,
            self.trace,
            torch.cat(self.evidence, -1) if self.evidence else None,
            {n: torch.cat(x, -1) for n, x in self.marginals.items()},
        )
