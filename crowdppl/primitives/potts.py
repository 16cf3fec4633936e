"""Truths of items that are linked by edges: a Potts field, summed out by belief propagation, drawn by colours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyro.distributions as dist
import torch
from pyro.ops.provenance import detach_provenance
from torch import Tensor

from crowdppl.core.collective import all_gathered, process, reduced
from crowdppl.core.devices import default_dtype
from crowdppl.core.validation import require_data
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.data.edges import NO_EDGES, Graph
from crowdppl.errors import DataError
from crowdppl.primitives.distributions import LinkedCategorical
from crowdppl.primitives.plates import Data, block_of
from crowdppl.primitives.sums import Summing, current, one_each

SWEEPS, TOLERANCE = 500, 1e-9
"""Rounds of messages at most, and the largest change of one, in nats, at which they stop."""
PRIOR_SWEEPS = 200
"""Of draws of a field without labels."""
ROUNDS, KEPT, STRONGEST = 60, 30, 10.0
"""Rounds in which a strength is learned, those whose mean it is, and the largest: neighbours then never differ."""
STEP, WEAK = 1.0, 0.01
"""The longest step of a round, and the precision of a prior around 0: where all neighbours agree, no strength is
best."""


class PottsCategorical(LinkedCategorical):
    """Classes of items of which linked ones tend to be equal.

    The probability of all is proportional to exp(sum of log_p + strength * number of equal linked pairs).

    Args:
        log_p: (..., N, K), log-potentials of each item alone: its field, and what is known of it.
        field: (..., 1, K) or (..., N, K), the part of them that is the prior's, normalised.
        strength: at least 0.
        graph: the edges, ``Edges.graph``.
        batch_shape: by default that of ``log_p``.
    """

    def __init__(
        self, log_p: Tensor, field: Tensor, strength: float, graph: Graph, batch_shape: torch.Size | None = None
    ) -> None:
        self.field, self.strength, self.graph = field, strength, graph
        super().__init__(log_p, batch_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> PottsCategorical:
        """This distribution over a larger batch."""
        return PottsCategorical(self.log_p, self.field, self.strength, self.graph, torch.Size(batch_shape))

    @property
    def links(self) -> bool:
        """Whether some items are linked."""
        return len(self.graph.source) > 0

    def log_factor(self, value: Tensor) -> Tensor:
        """Of drawn values with half of each edge; of values that are summed out without, see ``summed``."""
        own = super().log_factor(value)
        if value.dim() > len(self.batch_shape) or not self.links:
            return own
        value = value.expand((*value.shape[:-1], self.log_p.shape[-2]))
        one, other = value[..., self.graph.source], value[..., self.graph.target]
        equal = self.strength * (one == other).to(own.dtype) / 2
        return own + _added(equal, self.graph.source, value.shape[-1]) - self._prior_total()

    def summed(self, log_p: Tensor, name: str | None = None) -> Tensor:
        """The log-factor of each item, with half of each of its edges, given log-potentials (K, [C,] N).

        Bethe's approximation by belief propagation (Yedidia, Freeman & Weiss 2005, "Constructing free-energy
        approximations and generalized belief propagation algorithms"), which is exact where edges form no loop.
        Drawn, classes are those of one sweep over the colours, each exactly given all others, and the factor is
        that of an item's labels given its neighbours' classes.
        """
        how = current()
        if how.kind == "sum":
            return _bethe(log_p, self.strength, self.graph) - self._prior_total().to(log_p.dtype)
        field = self.field.movedim(-1, 0).to(log_p.dtype)
        field = field.reshape(len(field), *(1,) * (log_p.dim() - field.dim()), *field.shape[1:]).expand_as(log_p)
        out: Tensor = _Drawn.apply(log_p, field, self.strength, self.graph, how, how.formed)  # type: ignore[no-untyped-call]
        how.formed += 1
        return out

    def _prior_total(self) -> Tensor:
        """The log-factor of each item without labels, (N,), computed once a graph."""
        field = detach_provenance(self.field).detach()
        field = field.reshape(-1, *field.shape[-2:])[0].double()
        key = (self.strength, *map(float, field[0]))
        if key not in self.graph.kept:
            with torch.no_grad():
                own = field.mT.expand(-1, self.log_p.shape[-2])
                self.graph.kept[key] = _bethe(own, self.strength, self.graph)
        return self.graph.kept[key]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws values by many sweeps from a start without edges: nearly exact where the strength is moderate."""
        shape, n = torch.Size(sample_shape) + self.batch_shape, self.log_p.shape[-2]
        log_p = detach_provenance(self.log_p).detach()
        own = log_p.expand(*shape[:-1], n, log_p.shape[-1]).movedim(-1, 0).contiguous()
        value = dist.Categorical(logits=own.movedim(0, -1), validate_args=False).sample()
        for _ in range(PRIOR_SWEEPS if self.links else 0):
            value, _ = _swept(own, value, self.strength, self.graph, None)
        out: Tensor = value.reshape(shape)
        return out


def _added(x: Tensor, place: Tensor, n: int) -> Tensor:
    """Sums of numbers (..., M) by their places, (..., n)."""
    return x.new_zeros(*x.shape[:-1], n).index_add_(-1, place, x)


def _bethe(log_p: Tensor, strength: float, graph: Graph) -> Tensor:
    """The log-factor of each item, (..., N), stationary in the messages, so that its slopes are beliefs."""
    gain = math.expm1(strength)
    with torch.no_grad():
        own = log_p.detach().double()
        message, cavity = torch.ops.crowdppl.potts_messages(
            own, gain, graph.source, graph.target, graph.back, graph.sizes
        )
        into = _added(message, graph.target, own.shape[-1])
        edge = (gain * (cavity * cavity[..., graph.back]).sum(0)).log1p() / 2
        shared = _added(edge, graph.source, own.shape[-1])
    return (log_p + into.to(log_p.dtype)).logsumexp(0) - shared.to(log_p.dtype)


def _messages(
    own: Tensor, gain: float, source: Tensor, target: Tensor, back: Tensor, sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Log-messages of directed edges, (K, ..., M), and p(class of the source | all but the target)."""
    message = own.new_zeros(*own.shape[:-1], len(source))
    cavity, belief = torch.zeros_like(message), own.clone()
    for _ in range(SWEEPS if len(source) else 0):
        change = 0.0
        for at in _spans(sizes):
            p = (belief[..., source[at]] - message[..., back[at]]).softmax(0)
            new = (gain * p).log1p()
            moved = new - message[..., at]
            belief.index_add_(-1, target[at], moved)
            message[..., at], cavity[..., at] = new, p
            change = max(change, float(moved.abs().max()) if moved.numel() else 0.0)
        if change < TOLERANCE:
            break
    return message, cavity


def _spans(sizes: Sequence[int]) -> Iterator[slice]:
    """Consecutive places of so many."""
    first = 0
    for n in sizes:
        yield slice(first, first + n)
        first += n


def _neighbours(value: Tensor, own: Tensor, strength: float, at: slice, graph: Graph) -> Tensor:
    """What the classes of neighbours add to log-potentials, (K, ..., N), by some directed edges."""
    theirs = torch.nn.functional.one_hot(value[..., graph.target[at]], len(own)).movedim(-1, 0).to(own.dtype)
    return _added(strength * theirs, graph.source[at], own.shape[-1])


def _swept(
    own: Tensor, value: Tensor, strength: float, graph: Graph, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Classes (..., N) drawn colour by colour given all others, from (..., N) on, and their probabilities."""
    value, share = value.clone(), torch.empty_like(own)
    for items, edges in zip(_spans(graph.colours), _spans(graph.sizes), strict=True):
        at = graph.order[items]
        p = (own[..., at] + _neighbours(value, own, strength, edges, graph)[..., at]).softmax(0)
        value[..., at] = one_each(torch.ones_like(p[0]), p, generator).argmax(0)
        share[..., at] = p
    return value, share


def _drawn(
    own: Tensor,
    last: Tensor | None,
    strength: float,
    order: Tensor,
    colours: Sequence[int],
    source: Tensor,
    target: Tensor,
    back: Tensor,
    sizes: Sequence[int],
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """``_swept`` as an operation; without a value to go on from, items are drawn first as if without edges."""
    if last is None:
        share = own.softmax(0)
        last = one_each(torch.ones_like(share[0]), share, generator).argmax(0)
    graph = Graph(order, tuple(colours), source, target, back, tuple(sizes))
    return _swept(own, last, strength, graph, generator)


class _Drawn(torch.autograd.Function):
    """The factor of items given their neighbours' classes; its backward pass draws all classes anew."""

    @staticmethod
    def forward(
        ctx: Any, log_p: Tensor, field: Tensor, strength: float, graph: Graph, how: Summing, index: int
    ) -> Tensor:
        ctx.strength, ctx.graph, ctx.how, ctx.index = strength, graph, how, index
        ctx.save_for_backward(log_p)
        if how.linked is None:
            return (log_p.logsumexp(0) - field.logsumexp(0)).to(log_p.dtype)
        more = _neighbours(how.linked, log_p, strength, slice(None), graph)
        return (log_p + more).logsumexp(0) - (field + more).logsumexp(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (log_p,) = ctx.saved_tensors
        how: Summing = ctx.how
        if how.kind == "draw":
            count = torch.ops.crowdppl.whole(grads[0], None, True)
            g = ctx.graph
            ends = (g.source, g.target, g.back, g.sizes)
            how.linked, how.given_others = torch.ops.crowdppl.potts_drawn(
                log_p.double(), how.linked, ctx.strength, g.order, g.colours, *ends, how.generator
            )
            one = torch.nn.functional.one_hot(how.linked, len(log_p)).movedim(-1, 0).to(log_p.dtype)
            how.tape[ctx.index] = one * count
        return how.tape[ctx.index].to(log_p.dtype), None, None, None, None, None


_LIBRARY = torch.library.Library("crowdppl", "FRAGMENT")
_LIBRARY.define(
    "potts_messages(Tensor own, float gain, Tensor source, Tensor target, Tensor back, int[] sizes) -> "
    "(Tensor, Tensor)"
)
_LIBRARY.impl("potts_messages", _messages, "CompositeExplicitAutograd")
_SCHEMA = (
    "potts_drawn(Tensor own, Tensor? last, float strength, Tensor order, int[] colours, Tensor source, "
    "Tensor target, Tensor back, int[] sizes, Generator? generator) -> (Tensor, Tensor)"
)
_LIBRARY.define(_SCHEMA, tags=(torch.Tag.nondeterministic_seeded,))
_LIBRARY.impl("potts_drawn", _drawn, "CompositeExplicitAutograd")


def graph_of(data: Data) -> Graph:
    """The edges of a model's argument; DataError where nothing is said of them."""
    block = block_of(data)
    if block.edges is None:
        raise DataError(f"the model reads edges, and {NO_EDGES}")
    return block.edges.graph


def learned_strength(data: Data) -> float:
    """How strongly linked items are alike, by pseudo-likelihood, where classes are equally common.

    Confusions of Dawid and Skene are fitted in turn with a draw of all truths given their neighbours'. The strength
    maximises the pseudo-likelihood, the product of p(truth | truths of neighbours) (Besag 1975, "Statistical
    analysis of non-lattice data"), expected over the truth of each item given its labels and the draws of its
    neighbours, by a step of Newton's a round (Lange 1995, "A gradient algorithm locally equivalent to the EM
    algorithm"; the draws are the simulated field of Celeux, Forbes & Peyrard 2003, "EM procedures using mean
    field-like approximations for Markov model-based image segmentation").

    Where nearly all neighbours agree, the likelihood is flat: of 150 pairs that agree, labelled by three people,
    its logarithm rises by less than .1 from 5.5 to 10, and draws decide which such strength is found.

    Args:
        data: the argument of the model's ``setup``.

    Returns:
        The strength, from 0 to 10.

    Raises:
        DataError: where nothing is said of edges.

    Examples:
        >>> import numpy as np
        >>> item, who = np.tile(np.arange(40), 3), np.repeat([0, 1, 2], 40)
        >>> path = [(i, i + 1) for i in range(39)]
        >>> data = crowdppl.Annotations.from_arrays(item, who, np.where(item < 20, "no", "yes"), edges=path)
        >>> crowdppl.primitives.learned_strength(data) > 1
        True
    """
    with default_dtype(torch.float64):
        given = [data] if isinstance(data, Block) else cast(Annotations, require_data(data)).blocks
        blocks = [block for block in given if block.n_items]
        every = all_gathered([block.n_items for block in blocks])
        before = sum(map(sum, every[: process()]))
        fields = [_Field(block, before + block.offset) for block in blocks]
        a, k, strength, kept = blocks[0].n_annotators, blocks[0].n_classes, 1.0, list[float]()
        for _ in range(ROUNDS):
            table = reduced(sum((field.counts() for field in fields), torch.zeros(a * k, k)))
            table = (table + 0.5).reshape(a, k, k)
            log_table = (table / table.sum(1, keepdim=True)).log().reshape(-1, k)
            slopes = reduced(sum((field.drawn(log_table, strength) for field in fields), torch.zeros(2)))
            slope, curvature = (slopes + WEAK * torch.tensor([-strength, 1.0])).tolist()
            strength = min(max(strength + min(max(slope / curvature, -STEP), STEP), 0.0), STRONGEST)
            kept.append(strength)
    return sum(kept[-KEPT:]) / KEPT


class _Field:
    """The items of a block and their classes, drawn again and again, by random numbers of the block's own."""

    def __init__(self, block: Block, place: int) -> None:
        self.graph, self.stream = graph_of(block), torch.Generator().manual_seed(place)
        self.n_items, self.n_classes, named = block.n_items, block.n_classes, block.named
        self.item, self.cell = block.item[named], block.annotator[named] * self.n_classes + block.answer[named]
        votes = block.vote_counts() + 1 / self.n_classes
        self.share = votes / votes.sum(1, keepdim=True)
        self.value = self.share.argmax(1)
        known = torch.zeros(()) if block.potential is None else block.potential.double()
        self.known = known.expand(self.n_items, self.n_classes)
        self.n_cells = block.n_annotators * self.n_classes

    def counts(self) -> Tensor:
        """How often annotators say each class, by what is probably true, (A * K, K)."""
        return torch.zeros(self.n_cells, self.n_classes).index_add_(0, self.cell, self.share[self.item])

    def drawn(self, log_table: Tensor, strength: float) -> Tensor:
        """Draws all classes; the slope and the curvature, (2,), of the expected pseudo-likelihood's logarithm."""
        own = self.known.index_add(0, self.item, log_table[self.cell]).mT.contiguous()
        self.value, _ = _swept(own, self.value, strength, self.graph, self.stream)
        near = _neighbours(self.value, own, 1.0, slice(None), self.graph)
        given, prior = ((x + strength * near).softmax(0) for x in (own, torch.zeros_like(own)))
        self.share = given.mT
        mean = (prior * near).sum(0)
        return torch.stack([(given * near).sum() - mean.sum(), (prior * near.square()).sum() - mean.square().sum()])
