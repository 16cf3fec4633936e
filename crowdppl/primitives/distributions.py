"""Distributions of models that never renormalise: Categorical, OneHot, Dirichlet-multinomial and others.

Pyro's own ``Categorical(probs)`` divides by the sum. That would turn the gradient with respect to
log-probabilities from counts into centred counts, and every engine reads counts off that gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.primitives.plates import Data, block_of

Tail = Literal["normal", "logistic", "laplace"]


def ordinal_log_probs(edge: Tensor, tail: Tail = "normal") -> Tensor:
    """Log-probability that standard noise falls into each band between edges, exact far out in the tails too.

    Args:
        edge: (..., K - 1), increasing; the first band reaches down to minus infinity, the last one up to infinity.
        tail: distribution of the noise, symmetric about 0.

    Returns:
        (..., K); the exponentials sum to one.

    Raises:
        MethodError: for another tail.

    Examples:
        >>> import torch
        >>> crowdppl.primitives.ordinal_log_probs(torch.tensor([-1.0, 1.0])).exp()
        tensor([0.1587, 0.6827, 0.1587])
    """
    lower, upper = edge[..., :-1], edge[..., 1:]
    # Reflected into the lower tail, where a difference of probabilities does not cancel.
    reflect = lower + upper > 0
    low = _log_cdf(torch.where(reflect, -upper, lower), tail)
    high = _log_cdf(torch.where(reflect, -lower, upper), tail)
    inner = high + torch.log(-torch.expm1(low - high))
    return torch.cat([_log_cdf(edge[..., :1], tail), inner, _log_cdf(-edge[..., -1:], tail)], -1)


def _log_cdf(x: Tensor, tail: Tail) -> Tensor:
    if tail == "normal":
        normal: Tensor = torch.special.log_ndtr(x)
        return normal
    if tail == "logistic":
        return logsigmoid(x)
    if tail == "laplace":
        below = x.clamp(max=0) - math.log(2)
        return torch.where(x < 0, below, torch.log1p(-0.5 * torch.exp(-x.clamp(min=0))))
    raise MethodError(f"tail={tail!r} is not a noise; choose 'normal', 'logistic' or 'laplace'")


def log_dirichlet_multinomial(data: Data, spread: float) -> Tensor:
    """Log-probability of all labels of each item, if they follow unknown shares of the classes: (N,).

    The shares are drawn from a symmetric Dirichlet and integrated out (Polya's urn), so that labels of an item make
    one another more probable: ``prod_k Gamma(c + n_k) / Gamma(c) * Gamma(K c) / Gamma(K c + n)`` for n_k labels of
    class k, n in all. Abstentions do not count.

    Args:
        data: the story's argument.
        spread: c, pseudo-counts of each class.

    Examples:
        >>> labels = {"ann": {"x": "a", "y": "a", "z": "b"}, "bob": {"x": "a", "y": "b", "z": "b"}}
        >>> data = crowdppl.Annotations.from_dicts(labels)
        >>> crowdppl.primitives.log_dirichlet_multinomial(data, 1.0).exp()  # labels that are alike are more probable
        tensor([0.3333, 0.3333, 0.1667])
    """
    block = block_of(data)
    k, given = block.n_classes, block.answer < block.n_classes
    cell = (block.item * k + block.answer)[given]
    n = torch.bincount(cell, minlength=block.n_items * k).reshape(-1, k)
    total = n.sum(-1)
    counts = torch.arange(int(total.max()) + 1 if len(total) else 1, device=block.device)
    return _rising(spread, counts)[n].sum(-1) - _rising(k * spread, counts)[total]


def with_dirichlet_multinomial(
    data: Data, log_rate: Tensor, table: Tensor, spread: float, power: float = 1.0
) -> tuple[Tensor, Tensor | Callable[[Tensor], Tensor]]:
    """Lets labels of an item in the last state follow shares of the item's own.

    Labels of an urn depend on one another, so that the urn weighs the item's state and not its labels; where labels
    are still to be drawn, shares are drawn first.

    Args:
        data: the story's argument.
        log_rate: (..., 2) log-probabilities of another state and of the last.
        table: (..., A, T, L) log p(answer | annotator, state), in the last state 0 for every class.
        spread: as for ``log_dirichlet_multinomial``.
        power: of the labels' likelihood, as ``annotate`` takes it: an urn's labels count for less, too.

    Returns:
        Log-weights (..., N, 2) of another state and of the last, and what ``annotate`` takes as ``log_p``.

    Examples:
        >>> import torch
        >>> data = crowdppl.anaesthetists()
        >>> rate, table = torch.tensor([0.9, 0.1]).log(), torch.zeros(5, 2, 4)
        >>> crowdppl.primitives.with_dirichlet_multinomial(data, rate, table, 1.0)[0].shape  # of each item: another state, or the urn
        torch.Size([45, 2])
    """
    block = block_of(data)
    if block.has_labels:
        urn = log_dirichlet_multinomial(block, spread) * (power if block.uses_power else 1.0)
        return log_rate + torch.stack([torch.zeros_like(urn), urn], -1), table
    even = spread * torch.ones(block.n_classes, device=block.device)
    shares = torch.distributions.Dirichlet(even).sample((block.n_items,))
    return log_rate, _drawn(block, table, shares.log())


def _drawn(block: Block, table: Tensor, log_shares: Tensor) -> Callable[[Tensor], Tensor]:
    """Labels given shares (N, K) of each item in the last state."""

    def log_label(answer: Tensor) -> Tensor:
        each = block.of_annotator(table, event_dim=2)
        given = each.gather(-1, answer[:, None, None].expand(*each.shape[:-1], 1)).squeeze(-1)
        some = answer.clamp(max=block.n_classes - 1).unsqueeze(-1)
        own = block.of_item(log_shares, event_dim=1).gather(-1, some)
        own = torch.where(answer.unsqueeze(-1) < block.n_classes, own, torch.zeros_like(own))
        return torch.cat([given[..., :-1], given[..., -1:] + own], -1)

    return log_label


def _rising(c: float, n: Tensor) -> Tensor:
    """Log of c (c + 1) ... (c + n - 1)."""
    start = torch.as_tensor(c, dtype=torch.get_default_dtype(), device=n.device)
    return torch.lgamma(start + n) - torch.lgamma(start)


class Categorical(TorchDistribution):
    """A class drawn with the given log-probabilities, which are used as they stand.

    Args:
        log_p: (..., K), normalised or not; a known class may be marked by minus infinity elsewhere.
        batch_shape: the batch shape; that of ``log_p`` by default. Expansion is lazy.

    Examples:
        >>> import torch
        >>> crowdppl.primitives.Categorical(torch.tensor([[0.0, -1.0]])).log_prob(torch.tensor([1]))
        tensor([-1.])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_enumerate_support = True

    def __init__(self, log_p: Tensor, batch_shape: torch.Size | None = None) -> None:
        self.log_p = log_p
        super().__init__(log_p.shape[:-1] if batch_shape is None else batch_shape, validate_args=False)

    @property
    def support(self) -> Any:
        """Whole numbers from 0 to K - 1."""
        return constraints.integer_interval(0, self.log_p.shape[-1] - 1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability of ``value``: a view expanded to the batch shape, so that Pyro can validate it."""
        rank, out = len(self.batch_shape), self.log_factor(value)
        ahead = out.dim() - rank
        full = (max(pair) for pair in zip(out.shape[ahead:], self.batch_shape, strict=True))
        return out.expand((*out.shape[:ahead], *full))

    def log_factor(self, value: Tensor) -> Tensor:
        """The same, (*enumerated, *batch) with 1 for each dimension over which it does not vary.

        Neither is its gradient expanded then, which for one prevalence of all items is a single row.
        """
        return pick(self.log_p, value, len(self.batch_shape))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All K values along a new leading dimension."""
        n = self.log_p.shape[-1]
        values = torch.arange(n, device=self.log_p.device).reshape((-1,) + (1,) * len(self.batch_shape))
        return values.expand((n, *self.batch_shape)) if expand else values

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws values; the weights are normalised for the draw."""
        logits = self.log_p.expand(self.batch_shape + self.log_p.shape[-1:])
        out: Tensor = dist.Categorical(logits=logits, validate_args=False).sample(torch.Size(sample_shape))
        return out

    def expand(self, batch_shape: Any, _instance: Any = None) -> Categorical:
        """The same log-probabilities over a larger batch, without copying them."""
        return Categorical(self.log_p, torch.Size(batch_shape))


class OneHot(TorchDistribution):
    """A class drawn as a one-hot vector, for a latent that a story uses linearly.

    A latent of an annotator (a community, say) cannot be enumerated, because every item's labels touch it.
    Written as a one-hot vector that enters the log-likelihood table linearly, it can be replaced by its
    expectation (mean field) or drawn from its exact conditional (Gibbs).

    Args:
        log_p: (..., K) log-weights.
        batch_shape: the batch shape; that of ``log_p`` by default.

    Examples:
        >>> import torch
        >>> crowdppl.primitives.OneHot(torch.tensor([0.0, -1.0])).log_prob(torch.tensor([0.5, 0.5]))  # linear
        tensor(-0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.one_hot

    def __init__(self, log_p: Tensor, batch_shape: torch.Size | None = None) -> None:
        self.log_p = log_p
        shape = log_p.shape[:-1] if batch_shape is None else batch_shape
        super().__init__(shape, log_p.shape[-1:], validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """``sum of value * log_p``; linear, so that an expected one-hot vector gives the expected value."""
        return (value * self.log_p).sum(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws one-hot vectors."""
        logits = self.log_p.expand(self.batch_shape + self.event_shape)
        out: Tensor = dist.OneHotCategorical(logits=logits, validate_args=False).sample(torch.Size(sample_shape))
        return out

    def expand(self, batch_shape: Any, _instance: Any = None) -> OneHot:
        """The same weights over a larger batch, without copying them."""
        return OneHot(self.log_p, torch.Size(batch_shape))


class ChosenDirichlet(TorchDistribution):
    """Rows drawn from one of several Dirichlets, chosen by a one-hot vector.

    Such as an annotator's own confusion matrix around that of their community. The log-probability is linear in
    the one-hot vector, so that an expected vector gives the expected value.

    Args:
        onehot: (*batch, M).
        concentration: (*batch, M, *rows, K), one Dirichlet for each of the M alternatives and each row.
        event_dim: number of dimensions right of the alternatives: 2 for the rows of a matrix.
        batch_shape: the batch shape; that of the arguments by default.

    Examples:
        >>> import torch
        >>> two = torch.tensor([[[9.0, 1.0]], [[1.0, 1.0]]])  # two alternatives, each a matrix of one row
        >>> flat = crowdppl.primitives.ChosenDirichlet(torch.tensor([0.0, 1.0]), two, event_dim=2)
        >>> flat.log_prob(torch.tensor([[0.3, 0.7]]))
        tensor(0.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, onehot: Tensor, concentration: Tensor, event_dim: int = 2, batch_shape: torch.Size | None = None
    ) -> None:
        self.onehot, self.concentration = onehot, concentration
        # Numpy's: torch's takes six times as long.
        lead = np.broadcast_shapes(onehot.shape[:-1], concentration.shape[: -event_dim - 1])
        event = concentration.shape[concentration.dim() - event_dim :]
        super().__init__(torch.Size(lead) if batch_shape is None else batch_shape, event, validate_args=False)

    @property
    def support(self) -> Any:
        """Rows on the simplex."""
        return constraints.independent(constraints.simplex, len(self.event_shape) - 1)

    def expected(self, term: Callable[[Tensor], Tensor]) -> Tensor:
        """A term of the concentration, one number a row, weighted over the alternatives: (*batch, *rows)."""
        tail = len(self.event_shape) - 1
        each = term(self.concentration)
        weight = self.onehot.reshape(self.onehot.shape + (1,) * tail)
        return (weight * each).sum(-1 - tail)

    def blend(self, values: Tensor) -> Tensor:
        """Values (*batch, M, *rows, K) of the alternatives, weighted: (*batch, *rows, K)."""
        tail = len(self.event_shape)
        weight = self.onehot.reshape(self.onehot.shape + (1,) * tail)
        return (weight * values).sum(-1 - tail)

    @property
    def mean(self) -> Tensor:
        """Expected rows, (*batch, *rows, K)."""
        return self.blend(self.concentration / self.concentration.sum(-1, keepdim=True))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of rows (*batch, *rows, K), added up over the rows."""
        value = value.unsqueeze(-1 - len(self.event_shape))
        rows = self.expected(lambda c: dist.Dirichlet(c, validate_args=False).log_prob(value))
        return rows.sum(tuple(range(1 - len(self.event_shape), 0))) if len(self.event_shape) > 1 else rows

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws rows."""
        shape = torch.Size(sample_shape) + self.batch_shape + self.event_shape
        out: Tensor = dist.Dirichlet(self.blend(self.concentration).expand(shape), validate_args=False).sample()
        return out

    def expand(self, batch_shape: Any, _instance: Any = None) -> ChosenDirichlet:
        """The same alternatives over a larger batch."""
        shape = torch.Size(batch_shape)
        return ChosenDirichlet(self.onehot, self.concentration, len(self.event_shape), shape)


def pick(log_p: Tensor, state: Tensor, rank: int, dim: int = -1) -> Tensor:
    """Looks up log-probabilities at a state that is enumerated, drawn or observed.

    Args:
        log_p: (*batch, T), where batch has at most ``rank`` dimensions.
        state: (*enumerated, *batch) whole numbers; enumerated dimensions lie left of the batch.
        rank: number of batch dimensions.
        dim: where T stands in ``log_p``.

    Returns:
        (*enumerated, *batch), unexpanded where the state does not vary over the batch.
    """
    if state.dim() < rank:
        state = state.reshape((1,) * (rank - state.dim()) + state.shape)
    lead = state.dim() - rank
    if all(n == 1 for n in state.shape[lead:]):  # never by numel == T: a drawn value of T items has that too
        flat, front = state.flatten(), log_p.movedim(dim, 0) if dim % log_p.dim() else log_p
        every = flat.numel() == len(front) and flat.tolist() == list(range(len(front)))
        front = front if every else front[flat]
        shape = state.shape[:lead] + (1,) * (rank - (log_p.dim() - 1)) + front.shape[1:]
        return front if front.shape == shape else front.reshape(shape)
    log_p = log_p.movedim(dim, -1)
    wide = np.broadcast_shapes(log_p.shape[:-1], state.shape)
    table = log_p.expand(*wide, log_p.shape[-1])
    return table.gather(-1, state.expand(wide).unsqueeze(-1)).squeeze(-1)
