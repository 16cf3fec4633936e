"""Truths of items that follow one another: chains, summed out exactly along each sequence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro.ops.provenance import detach_provenance
from torch import Tensor

from crowdppl.data.kinds.sequences import Sequences, Tags, tag_of
from crowdppl.errors import MethodError
from crowdppl.primitives.distributions import LinkedCategorical, pick
from crowdppl.primitives.plates import Data, block_of
from crowdppl.primitives.sums import Summing, current, one_each, pairs_probe, summing


def chain(log_p: Tensor, log_transition: Tensor, sequences: Sequences, name: str | None = None) -> Tensor:
    """Sums chains of classes out: log sum over all paths of ``prod p[i, k_i] * prod transition[k_i, k_i+1]``.

    A forward pass over the items of all sequences at once. As with ``logsumexp``, engines get from its backward
    pass the expected number of each transition and the marginals of items, or those of a joint draw of whole paths
    (forward filtering and backward sampling; Rabiner 1989, "A tutorial on hidden Markov models"). Shares are scaled
    at each item, in double precision: potentials of a transition within 200 of each other, or minus infinity, lose
    nothing, however many items follow. Few long sequences take as many steps as a multiple of the root of their
    length; joint draws and second derivatives take one an item.

    Args:
        log_p: (K, ..., N) log-potentials of each item's class; of a first item, with its initial log-probabilities.
        log_transition: (K, K, ..., 1) [before, after], of the same number of dimensions, one more class apart.
        sequences: which items follow one another, ``Block.sequences``.
        name: by which engines return the probability of each pair of an item's class and that before it.

    Returns:
        (..., N): of each item the log of its factor given those before it, which add up to the sequence's total.
        The gradient of a total stands at the last item of its sequence.

    Examples:
        Two items in one sequence, of two classes:

        >>> import torch
        >>> from crowdppl.data.kinds.sequences import Sequences
        >>> log_p = torch.tensor([[0.6, 0.5], [0.4, 0.5]]).log()
        >>> stay = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log().unsqueeze(-1)
        >>> crowdppl.primitives.chain(log_p, stay, Sequences.of(torch.tensor([0, 0]))).exp()
        tensor([1.0000, 0.5000])
    """
    how, pairs = current(), pairs_probe(name, log_p)
    lead = torch.broadcast_shapes(log_p.shape[1:-1], log_transition.shape[2:-1])
    own = log_p.expand(len(log_p), *lead, log_p.shape[-1])
    between = log_transition.expand(len(log_p), len(log_p), *lead, 1)
    out: Tensor = _Chain.apply(own, between, pairs, sequences, how, how.formed, name)  # type: ignore[no-untyped-call]
    how.formed += how.kind != "sum"
    return out


LEAST = 1e-250
"""A smaller share, of 575 nats, stands for none: what is lost of it in double precision might matter."""


class _Chain(torch.autograd.Function):
    """Shares of classes in double precision, scaled at each item: no logarithm is taken on the way."""

    @staticmethod
    def forward(
        ctx: Any,
        log_p: Tensor,
        log_transition: Tensor,
        pairs: Tensor | None,
        sequences: Sequences,
        how: Summing,
        index: int,
        name: str | None,
    ) -> Tensor:
        ctx.sequences, ctx.how, ctx.index, ctx.name = sequences, how, index, name
        own, top, move = _scaled(log_p, log_transition, sequences)
        ahead, scale = torch.ops.crowdppl.filtered(own, move, sequences.sizes)
        ctx.save_for_backward(log_p, log_transition, own, move, ahead, scale)
        level = torch.where(scale > LEAST, top + scale.log(), -torch.inf).squeeze(-2)
        return _at(level, sequences.back).to(log_p.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        log_p, log_transition, own, move, ahead, scale = ctx.saved_tensors
        sequences, how = ctx.sequences, ctx.how
        if torch.is_grad_enabled():  # a second derivative: shares must depend on potentials again
            own, _, move = _scaled(log_p, log_transition, sequences)
            ahead, scale = _filtered(own, move, sequences.sizes)
        share = own / scale
        count = _at(grads[0], sequences.order[sequences.last]).double()  # of each sequence
        if how.kind == "sum":
            smoothed = _smoothed if torch.is_grad_enabled() else torch.ops.crowdppl.smoothed
            after = smoothed(share, move, count, sequences.sizes)
            at, before = ahead * after, ahead * share
        else:
            if how.kind == "draw":
                count = torch.ops.crowdppl.whole(count, ctx.name, True)
                how.tape[ctx.index] = torch.ops.crowdppl.drawn(
                    ahead * share, move, count, sequences.sizes, how.generator
                )
            at = before = after = how.tape[ctx.index]
            move = torch.ones_like(move)
        first = sequences.sizes[0]
        before = _at(before, sequences.previous[first:])
        moved = move * (before @ after[..., first:].mT)
        pairs = None
        if ctx.needs_input_grad[2]:
            pairs = before.unsqueeze(-2) * move.unsqueeze(-1) * after[..., first:].unsqueeze(-3)
            pairs = _at(torch.nn.functional.pad(pairs, (first, 0)), sequences.back)
            pairs = pairs.movedim((-3, -2), (0, 1)).to(log_p.dtype)
        at = _at(at, sequences.back).movedim(-2, 0).to(log_p.dtype)
        moved = moved.movedim((-2, -1), (0, 1)).unsqueeze(-1).to(log_p.dtype)
        return at, moved, pairs, None, None, None, None


def _at(x: Tensor, places: Tensor) -> Tensor:
    """``x[..., places]``, several times faster."""
    return x.gather(-1, places.expand(*x.shape[:-1], -1))


def _scaled(log_p: Tensor, log_transition: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor, Tensor]:
    """Factors of items over their largest (..., K, N), its logarithm (..., 1, N), and of pairs (..., K, K)."""
    packed = _at(log_p.movedim(0, -2), sequences.order).double()
    top = packed.detach().amax(-2, keepdim=True).nan_to_num(neginf=0.0)
    return (packed - top).exp(), top, log_transition.squeeze(-1).movedim((0, 1), (-2, -1)).double().exp()


def _filtered(
    own: Tensor, move: Tensor, sizes: Sequence[int], first: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Shares of classes given the items before (..., K, N), by default 1 at a first one, and totals (..., 1, N)."""
    ahead, scale = list[Tensor](), list[Tensor]()
    into, at = move.mT, own[..., : sizes[0]]
    first = torch.ones_like(at) if first is None else first
    for factor in own.split(sizes, -1):
        ahead.append(into @ at[..., : factor.shape[-1]] if ahead else first)
        both = factor * ahead[-1]
        scale.append(both.sum(-2, keepdim=True).clamp(min=LEAST))
        at = both / scale[-1]
    return torch.cat(ahead, -1), torch.cat(scale, -1)


def _smoothed(share: Tensor, move: Tensor, count: Tensor, sizes: Sequence[int]) -> Tensor:
    """Items' shares (..., K, N), times how much likelier a class makes those after; ``count`` of sequences."""
    return _backward(share, move, _of_classes(count, share), sizes, lambda x: x)


def _of_classes(count: Tensor, like: Tensor) -> Tensor:
    """Numbers (..., M) repeated for each class, (..., K, M)."""
    return count.unsqueeze(-2).expand(*like.shape[:-1], -1)


def _drawn(
    share: Tensor, move: Tensor, count: Tensor, sizes: Sequence[int], generator: torch.Generator | None
) -> Tensor:
    """One-hot classes (..., K, N) of paths drawn backwards from filtered shares; none where ``count`` is 0."""

    def pick(weight: Tensor) -> Tensor:
        used = count[..., : weight.shape[-1]]
        return one_each(used, weight.movedim(-2, 0), generator).movedim(0, -2)

    return _backward(share, move, _of_classes(torch.ones_like(count), share), sizes, pick)


def _backward(
    share: Tensor, move: Tensor, ends: Tensor, sizes: Sequence[int], pick: Callable[[Tensor], Tensor]
) -> Tensor:
    """What is picked of items' shares times those after, from ``ends`` (..., K, sequences) to each first item."""
    out, then = list[Tensor](), ends[..., :0]
    for at in reversed(share.split(sizes, -1)):
        then = torch.cat([then, ends[..., then.shape[-1] : at.shape[-1]]], -1)
        out.append(pick(at * then))
        then = move @ out[-1]
    return torch.cat(out[::-1], -1)


LONG, WIDE = 200, 2000
"""Items of the longest sequence from which on stretches are passed side by side, and how wide a step may be: the
square of the number of classes times the items of an average step. Measured: else, item after item is faster."""


def _long(share: Tensor, sizes: Sequence[int]) -> bool:
    """Whether (..., K, N) are of long sequences, and few."""
    return len(sizes) >= LONG and share.numel() * share.shape[-2] < WIDE * len(sizes)


@dataclass(frozen=True)
class _Stretches:
    """Sequences cut into stretches, as long as the longest has of them, that are passed side by side.

    Each is passed from every class in which it could be entered; one after the other tells in which it is.

    Attributes:
        place: int64 (N,), that of each item where all first items of stretches come first, then all second ones.
        sizes: number of stretches that have a first item, a second one, and so on.
        counts: number of sequences that have a first stretch, a second one, and so on.
        column: int64 (stretches,) among ``sizes``; all first ones of sequences come first.
    """

    place: Tensor
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    column: Tensor

    @classmethod
    def of(cls, sizes: Sequence[int], device: torch.device) -> _Stretches:
        """Those of sequences of ``Sequences.sizes``."""
        each, length = torch.tensor(sizes), math.isqrt(len(sizes))
        row = torch.arange(len(each)).repeat_interleave(each)
        sequence = torch.arange(len(row)) - (each.cumsum(0) - each)[row]
        counts = each[::length]
        stretch = (counts.cumsum(0) - counts)[row // length] + sequence
        column = stretch.bincount().argsort(descending=True, stable=True).argsort()
        own = (row % length).bincount()
        place = (own.cumsum(0) - own)[row % length] + column[stretch]
        return cls(place.to(device), tuple(own.tolist()), tuple(counts.tolist()), column.to(device))

    def items(self, x: Tensor) -> Tensor:
        """Numbers of items, (..., N), where those of stretches stand."""
        return torch.empty_like(x).index_copy_(-1, self.place, x)

    def of_classes(self, x: Tensor) -> Tensor:
        """1 where two classes are the same, for each stretch: (..., K, stretches, K), for items (..., K, N)."""
        return torch.eye(x.shape[-2]).to(x).unsqueeze(-2).repeat(*x.shape[:-2], 1, len(self.column), 1)

    def by_sequence(self, x: Tensor) -> tuple[Tensor, ...]:
        """Numbers (..., stretches, K) of all first stretches, all second ones, and so on."""
        out: tuple[Tensor, ...] = x[..., self.column, :].split(self.counts, -2)
        return out

    def joined(self, x: Sequence[Tensor]) -> Tensor:
        """Numbers (..., K, stretches) of first stretches, second ones and so on as one, where stretches stand."""
        found = torch.cat([*x], -1)
        return torch.empty_like(found).index_copy_(-1, self.column, found)


def _filtered_in_stretches(own: Tensor, move: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """As ``_filtered``, in fewer steps where sequences are long."""
    if not _long(own, sizes):
        return _filtered(own, move, sizes)
    cut, into, ended = _Stretches.of(sizes, own.device), move.mT, list[Tensor]()
    own = cut.items(own)
    then = cut.of_classes(own)
    level = torch.zeros_like(then[..., :1, :, :])
    for factor in own.split(cut.sizes, -1):
        n = factor.shape[-1]
        ended.append(then[..., n:, :])
        both = then[..., :n, :] * factor.unsqueeze(-1)
        scale = both.sum(-3, keepdim=True)
        level[..., :n, :] += scale.log()
        both = both.div_(scale.clamp_(min=torch.finfo(own.dtype).tiny))
        then = (into @ both.flatten(-2)).reshape(both.shape)
    through = torch.cat([*ended, then][::-1], -2)
    entered, then = list[Tensor](), torch.ones_like(own[..., : cut.counts[0]])
    for part, weight in zip(cut.by_sequence(through), cut.by_sequence(level), strict=True):
        entered.append(then[..., : part.shape[-2]])
        weight = weight + entered[-1].log().mT.unsqueeze(-3)
        weight = (weight - weight.amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp()
        then = (part * weight).sum(-1) / weight.sum(-1).clamp(min=LEAST)
    ahead, scale = _filtered(own, move, cut.sizes, cut.joined(entered))
    return _at(ahead, cut.place), _at(scale, cut.place)


def _smoothed_in_stretches(share: Tensor, move: Tensor, count: Tensor, sizes: Sequence[int]) -> Tensor:
    """As ``_smoothed``, in fewer steps where sequences are long."""
    if not _long(share, sizes):
        return _smoothed(share, move, count, sizes)
    cut, ends = _Stretches.of(sizes, share.device), _of_classes(count, share)
    share = cut.items(share)
    whole = cut.of_classes(share)
    then = whole[..., :0, :]
    for factor in reversed(share.split(cut.sizes, -1)):
        if factor.shape[-1] > then.shape[-2]:
            then = torch.cat([then, whole[..., then.shape[-2] : factor.shape[-1], :]], -2)
        both = then * factor.unsqueeze(-1)
        then = (move @ both.flatten(-2)).reshape(both.shape)
    left, after = list[Tensor](), ends[..., :0]
    for part in reversed(cut.by_sequence(then)):
        left.append(torch.cat([after, ends[..., after.shape[-1] : part.shape[-2]]], -1))
        after = (part * left[-1].mT.unsqueeze(-3)).sum(-1)
    return _at(_backward(share, move, cut.joined(left[::-1]), cut.sizes, lambda x: x), cut.place)


# Operations of torch: a recording of a pass has each as one step, however long sequences are.
_LIBRARY = torch.library.Library("crowdppl", "FRAGMENT")
_LIBRARY.define("filtered(Tensor own, Tensor move, int[] sizes) -> (Tensor, Tensor)")
_LIBRARY.impl("filtered", _filtered_in_stretches, "CompositeExplicitAutograd")
_LIBRARY.define("smoothed(Tensor share, Tensor move, Tensor count, int[] sizes) -> Tensor")
_LIBRARY.impl("smoothed", _smoothed_in_stretches, "CompositeExplicitAutograd")
_SCHEMA = "drawn(Tensor share, Tensor move, Tensor count, int[] sizes, Generator? generator) -> Tensor"
_LIBRARY.define(_SCHEMA, tags=(torch.Tag.nondeterministic_seeded,))
_LIBRARY.impl("drawn", _drawn, "CompositeExplicitAutograd")


class ChainedCategorical(LinkedCategorical):
    """Classes of items of which each depends on the one before it; an item's own factor is what does not.

    Args:
        log_p: (..., N, K), log-potentials of each item alone; of a first item, with its initial log-probabilities.
        log_transition: (..., 1, K, K) [before, after]; chains are leading dimensions.
        sequences: which items follow one another.
        batch_shape: by default that of ``log_p``.
    """

    def __init__(
        self, log_p: Tensor, log_transition: Tensor, sequences: Sequences, batch_shape: torch.Size | None = None
    ) -> None:
        self.log_transition, self.sequences = log_transition, sequences
        super().__init__(log_p, batch_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ChainedCategorical:
        """This distribution over a larger batch."""
        return ChainedCategorical(self.log_p, self.log_transition, self.sequences, torch.Size(batch_shape))

    @property
    def links(self) -> bool:
        """Whether some sequence is of several items."""
        return len(self.sequences.sizes) > 1

    def log_factor(self, value: Tensor) -> Tensor:
        """Of drawn values with the transition to each; of values that are summed out without, see ``summed``."""
        own, rank = super().log_factor(value), len(self.batch_shape)
        if value.dim() > rank:
            return own
        value = value.expand((*value.shape[:-1], self.log_p.shape[-2]))
        pair = value[..., self.sequences.before] * self.log_p.shape[-1] + value
        moved = pick(self.log_transition.flatten(-2), pair, rank)
        return own + moved.masked_fill(self.sequences.starts, 0.0)

    def summed(self, log_p: Tensor, name: str | None = None) -> Tensor:
        """``chain`` of log-potentials (K, [C,] N) of items, those of labels among them."""
        between = self.log_transition.movedim((-2, -1), (0, 1)).to(log_p.dtype)  # (K, K, ..., 1)
        ones = (1,) * (log_p.dim() + 1 - between.dim())
        return chain(log_p, between.reshape(*between.shape[:2], *ones, *between.shape[2:]), self.sequences, name)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws whole paths, exactly given all potentials; MethodError for several draws at once."""
        if len(sample_shape):
            raise MethodError("sequences are drawn one data set at a time; call crowdppl.simulate in a loop")
        n, k = self.batch_shape[-1], self.log_p.shape[-1]
        own, between = (detach_provenance(x).detach() for x in (self.log_p, self.log_transition))
        each = own.expand(*self.batch_shape, k).reshape(-1, n, k).movedim(-1, 0)
        with torch.enable_grad(), summing(Summing("draw")):
            log_p = each.contiguous().requires_grad_()
            total = ChainedCategorical(own, between, self.sequences).summed(log_p)
            (path,) = torch.autograd.grad(total.sum(), log_p)
        return path.argmax(0).reshape(self.batch_shape)


def shares_of_places(log_initial: Tensor, log_transition: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Log-share of each class among all items of sequences before any label, (..., K).

    Args:
        log_initial: (..., K) of first items.
        log_transition: (..., K, K).
        sizes: number of sequences that have a first item, a second one, and so on.
    """
    n, move = len(sizes), log_transition.exp()
    length = n if n < LONG else math.isqrt(n)  # of stretches, whose first items are found one after the other
    at = [log_initial.exp()]
    far = torch.linalg.matrix_power(move, length if length < n else 1)
    for _ in range(length, n, length):
        ahead = (at[-1].unsqueeze(-1) * far).sum(-2)
        at.append(ahead / ahead.sum(-1, keepdim=True))
    each = torch.stack(at, -2)
    weights = torch.zeros(len(at) * length).to(each)
    weights[:n] = torch.tensor(sizes).to(each)
    total = torch.zeros_like(at[0])
    for step, weight in enumerate(weights.reshape(len(at), length, 1).unbind(1)):
        each = (each.unsqueeze(-1) * move.unsqueeze(-3)).sum(-2) if step else each
        each = each / each.sum(-1, keepdim=True)
        total = total + (weight * each).sum(-2)
    return (total / sum(sizes)).log()


UNUSED = 1e-3
"""Pseudo-counts of such a class: the shares of the others then add up to one."""
Successions = tuple[tuple[bool, ...], ...]
"""For each class, whether it may be first, then whether it may follow each class, ((1 + K) x K)."""


def successions(data: Any, tags: str = "auto") -> Successions | None:
    """Which classes may follow which in a sequence: of BIO tags, I-X follows B-X or I-X alone.

    Args:
        data: annotations.
        tags: "bio", "plain", for which there is no rule, or "auto": "bio" where each class is O, B-X or I-X.

    Returns:
        For each class, whether it may be first, then whether it may follow each class; None without a rule.

    Raises:
        MethodError: for "bio" where a class is no such tag.

    Examples:
        >>> tags = ["B-PER", "I-PER", "O"]
        >>> data = crowdppl.random_design(4, 3, 2, classes=tags, seed=0)
        >>> crowdppl.primitives.successions(data)  # the rows are: first, and after B-PER, I-PER and O
        ((True, False, True), (True, True, True), (True, True, True), (True, False, True))
    """
    found = Tags.of(data.classes)
    if tags == "bio" and found is None:
        strange = next(str(name) for name in data.classes if tag_of(name) is None)
        raise MethodError(f"tags='bio' wants the classes O, B-X and I-X, and {strange!r} is none; use 'plain'")
    if tags == "plain" or found is None or (found.inside[found.begins] < 0).all():
        return None
    own = np.arange(len(found.inside))
    follows = (found.inside != own) | (np.append(-1, found.inside)[:, None] == own)
    return tuple(map(tuple, follows.tolist()))


def succession(
    data: Data, initial_strength: float, transition_strength: float, after: Successions | None = None
) -> tuple[Tensor, Tensor]:
    """Draws the probabilities of a sequence's first class and of each class after another.

    They are the sites ``initial`` (K) and ``transition`` (K, K) [before, after], Dirichlet. Call it outside all
    plates.

    Args:
        data: the model's argument.
        initial_strength, transition_strength: pseudo-counts of each class.
        after: what may be first and what may follow, as of ``successions``; None for everything.

    Returns:
        (..., K) and (..., K, K) log-probabilities, as ``truth`` takes them.
    """
    k = block_of(data).n_classes
    may = torch.ones(1 + k, k, dtype=torch.bool)
    if after is not None:
        may[: len(after), : len(after[0])] = torch.tensor(after)
    strength = torch.tensor([initial_strength] + [transition_strength] * k).unsqueeze(-1)
    prior = torch.where(may, strength, torch.full_like(strength, UNUSED))
    initial = pyro.sample("initial", dist.Dirichlet(prior[0])).log()
    transition = pyro.sample("transition", dist.Dirichlet(prior[1:]).to_event(1)).log()
    if after is None:
        return initial, transition
    ban = torch.where(may, 0.0, -80.0)  # finite, so that a gold label that breaks the rule stands
    return initial + ban[0], transition + ban[1:]
