"""Truths of items that follow one another: chains, summed out exactly along each sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro.ops.provenance import detach_provenance
from torch import Tensor

from crowdppl.data.sequences import Sequences, Tags, tag_of
from crowdppl.errors import MethodError
from crowdppl.primitives.distributions import Categorical, pick
from crowdppl.primitives.plates import Data, block_of
from crowdppl.primitives.sums import Summing, logsumexp, pairs_probe, summing


def chain(log_p: Tensor, log_transition: Tensor, sequences: Sequences, name: str | None = None) -> Tensor:
    """Sums chains of classes out: log sum over all paths of ``prod p[i, k_i] * prod transition[k_i, k_i+1]``.

    A forward pass over the items of all sequences at once, each step a ``logsumexp``, so that engines get from its
    backward pass the expected number of each transition and the marginals of items, or those of a joint draw of
    whole paths (forward filtering and backward sampling; Rabiner 1989, "A tutorial on hidden Markov models").

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
        >>> from crowdppl.data.sequences import Sequences
        >>> log_p = torch.tensor([[0.6, 0.5], [0.4, 0.5]]).log()
        >>> stay = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log().unsqueeze(-1)
        >>> crowdppl.primitives.chain(log_p, stay, Sequences.of(torch.tensor([0, 0]))).exp()
        tensor([1.0000, 0.5000])
    """
    sizes = list(sequences.sizes)
    packed = log_p.index_select(-1, sequences.order)
    pairs = pairs_probe(name, log_p)
    extra = None if pairs is None else pairs.index_select(-1, sequences.order).split(sizes, -1)
    levels, ends = list[Tensor](), list[Tensor]()
    before: Tensor | None = None
    for step, (size, at) in enumerate(zip(sizes, packed.split(sizes, -1), strict=True)):
        if before is not None:
            both = before[..., :size].unsqueeze(1) + log_transition
            at = at + logsumexp(both if extra is None else both + extra[step], dim=0)
        level = at.detach().logsumexp(0)
        before = at - level.masked_fill(level == -torch.inf, 0.0)  # filtered: it neither grows nor vanishes
        levels.append(level)
        ends.append(before[..., sizes[step + 1] if step + 1 < len(sizes) else 0 :])
    total = logsumexp(torch.cat(ends, -1), dim=0)  # 0, with the gradient of the whole sum
    out = torch.cat(levels, -1).index_add(-1, sequences.last, total)
    return out.index_select(-1, sequences.back)


class ChainedCategorical(Categorical):
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
        """The same over a larger batch."""
        return ChainedCategorical(self.log_p, self.log_transition, self.sequences, torch.Size(batch_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Of drawn values; MethodError for those that are enumerated, unless each sequence is of one item."""
        if value.dim() > len(self.batch_shape) and len(self.sequences.sizes) > 1:
            raise MethodError("Pyro sums items out one by one, and these follow one another; use crowdppl.fit")
        return super().log_prob(value)

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
    at = log_initial.exp()
    total, move = torch.zeros_like(at), log_transition.exp()
    for n, size in enumerate(sizes):
        at = at if n == 0 else (at.unsqueeze(-1) * move).sum(-2)
        at = at / at.sum(-1, keepdim=True)
        total = total + size * at
    return (total / sum(sizes)).log()


FORBIDDEN = -80.0
"""Log-potential of a class where it may not be; finite, so that a gold label that breaks the rule stands."""
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
    ban = torch.where(may, 0.0, FORBIDDEN)
    return initial + ban[0], transition + ban[1:]
