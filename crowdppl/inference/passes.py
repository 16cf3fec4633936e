"""Passes over all blocks: objectives, counts and one-hot logits add up in float64, block by block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crowdppl.core.collective import all_reduced, process, shared_errors
from crowdppl.data.blocks import Block
from crowdppl.inference.density import Density, DensityResult, Extra, TraceSites
from crowdppl.inference.sites import Site, one_hot_terms
from crowdppl.primitives.sums import Summing


@dataclass(frozen=True)
class Total:
    """What a pass over all blocks returns.

    Attributes:
        objective: float64 (C,) or (), of all processes; of this one where nothing but marginals was asked for.
        gradient: float64, for each site asked for, of all processes; local sites in the order of positions.
        trace_sites: of the run on the first block, for priors of global sites.
        per_item: ([C,] N) log evidence by position, where asked for.
        marginals: (T, [C,] N) by position, for each discrete site asked for.
    """

    objective: Tensor
    gradient: dict[str, Tensor]
    trace_sites: TraceSites
    per_item: Tensor | None
    marginals: dict[str, Tensor]


@dataclass(frozen=True)
class FullPass:
    """A model on all blocks of a data set; ``distinct`` finds one item for all that the model cannot tell apart."""

    density: Density
    blocks: Sequence[Block]
    sites: Mapping[str, Site]
    distinct: Callable[[Block], tuple[Block, Tensor] | None] = lambda _: None

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

        Items that the model cannot tell apart are evaluated once, unless more is given or asked of single ones.

        Args:
            values: a tensor for every site; local ones for all items, by position.
            gradient, marginals: as in ``Density``.
            tilt: log-potentials (T, [C,] N) for all items, by position.
            how: summing mode of the block that begins at a position.
            evidence: whether to keep the log evidence of each item.
            extra: terms to add to the objective of the first block (True) and of the others (False); by
                default the log-prior of one-hot sites, once. The first block of all is that of process 0.
        """
        with shared_errors():
            found = self._alone(values, gradient, marginals, tilt or {}, how, evidence, extra)
        if not gradient and marginals:
            return found
        shared = [n for n in found.gradient if not self.sites[n].local]
        objective, *slopes = all_reduced([found.objective, *(found.gradient[n] for n in shared)])
        return replace(found, objective=objective, gradient=found.gradient | dict(zip(shared, slopes, strict=True)))

    def _alone(
        self,
        values: Mapping[str, Tensor],
        gradient: Collection[str],
        marginals: Collection[str],
        tilt: Mapping[str, Tensor],
        how: Callable[[int], Summing] | None,
        evidence: bool,
        extra: Callable[[bool], Extra | None] | None,
    ) -> Total:
        """The pass over this process's own blocks."""
        onehot = [n for n, s in self.sites.items() if s.kind == "onehot"]
        first: DensityResult | None = None
        objective: Tensor | None = None
        sums = dict[str, Tensor]()
        per_item, slopes, shares = list[Tensor](), dict[str, list[Tensor]](), dict[str, _Table]()
        for block in (b for b in self.blocks if b.n_items):
            opening = first is None and process() == 0
            terms = None if extra is None else extra(opening)
            if extra is None and onehot and opening:
                terms = one_hot_terms(onehot, self.density.chains)
            span = slice(block.offset, block.offset + block.n_items)
            tilts = {n: x[..., span] for n, x in tilt.items()}
            alike = None if how or evidence or (marginals and gradient) else self.distinct(block)
            few = None if alike is None else _tilted_alike(*alike, tilts)
            copies = few[0].copies if few and marginals else None  # by which marginals would be multiplied
            one = self.density(
                block if few is None else few[0] if copies is None else replace(few[0], copies=None),
                self.in_block(values, block),
                gradient=gradient,
                marginals=marginals,
                tilt=few[2] if few else tilts,
                how=how(block.offset) if how else None,
                extra=terms,
            )
            more = one.objective if copies is None else one.objective + (one.per_item * (copies - 1)).sum(-1)
            objective = more if objective is None else objective + more
            for name, g in one.gradient.items():
                if self.sites[name].local:
                    slopes.setdefault(name, []).append(g)
                else:
                    sums[name] = sums[name] + g.double() if name in sums else g.double()
            for name, x in one.marginals.items():
                shares.setdefault(name, _Table(self.n_items)).add(x[..., few[1]] if few else x)
            per_item += [one.per_item] if evidence else []
            first = first or one
        assert first is not None and objective is not None, "annotations have at least one item"
        return Total(
            objective,
            sums | {n: torch.cat(x, -1 - len(self.sites[n].event_shape)) for n, x in slopes.items()},
            first.sites,
            torch.cat(per_item, -1) if evidence else None,
            {n: x.whole() for n, x in shares.items()},
        )

    def in_block(self, values: Mapping[str, Tensor], block: Block) -> dict[str, Tensor]:
        """The values that one block of items sees: local sites cut to its items."""
        if len(self.blocks) == 1:
            return dict(values)
        start, stop = block.offset, block.offset + block.n_items
        local = {n: s for n, s in self.sites.items() if s.local}
        return {n: local[n].at_positions(x, start, stop) if n in local else x for n, x in values.items()}


@dataclass
class _Table:
    """A table that is filled along its last dimension: kept in pieces, all would be in memory twice at the end.

    Attributes:
        length: how long it is expected to be.
    """

    length: int
    values: Tensor | None = None
    filled: int = 0

    def add(self, x: Tensor) -> None:
        """Adds a piece, which has the same shape but for its length."""
        end = self.filled + x.shape[-1]
        if self.values is None:
            self.values = x.new_empty(*x.shape[:-1], max(self.length, end))
        elif end > self.values.shape[-1]:  # of labels, there are more than items
            self.values = torch.cat([self.values, x.new_empty(*x.shape[:-1], end)], -1)
        self.values[..., self.filled : end] = x
        self.filled = end

    def whole(self) -> Tensor:
        """What was added."""
        assert self.values is not None, "nothing was added"
        return self.values[..., : self.filled].contiguous()


def _tilted_alike(
    block: Block, place: Tensor, tilt: Mapping[str, Tensor]
) -> tuple[Block, Tensor, dict[str, Tensor]] | None:
    """A block of distinct items with a tilt for each; None where items that are alike have another."""
    own = {}
    for name, x in tilt.items():
        own[name] = x.new_empty(*x.shape[:-1], block.n_items).index_copy_(-1, place, x)
        if not torch.equal(own[name][..., place], x):
            return None
    return block, place, own
