"""Distributions of models: Categorical, OneHot and ChosenDirichlet, which never renormalise, and NormalGamma.

Pyro's own ``Categorical(probs)`` divides by the sum. That would turn the gradient with respect to
log-probabilities from counts into centred counts, and every engine takes counts from that gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor
from torch.distributions import AffineTransform, biject_to, transform_to

from crowdppl.errors import MethodError


class Categorical(TorchDistribution):
    """A class drawn with the given log-probabilities, which are not renormalised.

    Args:
        logits: log-probabilities (..., K), normalised or not; minus infinity rules a class out. The name is Pyro's,
            whose ``compute_marginals`` gives them.
        batch_shape: by default that of ``logits``. Expansion is lazy.

    Examples:
        >>> import torch
        >>> crowdppl.primitives.Categorical(torch.tensor([[0.0, -1.0]])).log_prob(torch.tensor([1]))
        tensor([-1.])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_enumerate_support = True

    def __init__(self, logits: Tensor, batch_shape: torch.Size | None = None) -> None:
        self.log_p = logits
        super().__init__(logits.shape[:-1] if batch_shape is None else batch_shape, validate_args=False)

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes, (..., K), normalised."""
        return self.log_p.softmax(-1)

    @property
    def support(self) -> Any:
        """Whole numbers from 0 to K - 1."""
        return constraints.integer_interval(0, self.log_p.shape[-1] - 1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability of ``value``, expanded (as a view) to the batch shape, which Pyro validates."""
        rank, out = len(self.batch_shape), self.log_factor(value)
        ahead = out.dim() - rank
        full = (max(pair) for pair in zip(out.shape[ahead:], self.batch_shape, strict=True))
        return out.expand((*out.shape[:ahead], *full))

    def log_factor(self, value: Tensor) -> Tensor:
        """Log-probability of a value, (*enumerated, *batch), of size 1 in dimensions over which it does not vary.

        Its gradient is not expanded either: that of one prevalence for all items is a single row.
        """
        return pick(self.log_p, value, len(self.batch_shape))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All K values along a new leading dimension."""
        n = self.log_p.shape[-1]
        values = torch.arange(n, device=self.log_p.device).reshape((-1,) + (1,) * len(self.batch_shape))
        return values.expand((n, *self.batch_shape)) if expand else values

    def sums(self, share: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sums over chains of probabilities (K, C, n_items), of their squares, and of their entropies in bits."""
        share = share.contiguous()  # so that the same numbers add up in the same order
        return share.sum(1), share.square().sum(1), bits(share).sum(0)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws values; the weights are normalised for the draw."""
        logits = self.log_p.expand(self.batch_shape + self.log_p.shape[-1:])
        out: Tensor = dist.Categorical(logits=logits, validate_args=False).sample(torch.Size(sample_shape))
        return out

    def expand(self, batch_shape: Any, _instance: Any = None) -> Categorical:
        """These log-probabilities over a larger batch, without copying them."""
        return Categorical(self.log_p, torch.Size(batch_shape))


class LinkedCategorical(Categorical):
    """Classes of items of which each depends on those of others; an item's own factor is what does not."""

    def log_prob(self, value: Tensor) -> Tensor:
        """Of drawn values; MethodError for those that are enumerated, unless each item stands alone."""
        if value.dim() > len(self.batch_shape) and self.links:
            raise MethodError("Pyro sums items out one by one, and these are linked; use crowdppl.fit")
        return super().log_prob(value)

    @property
    def links(self) -> bool:
        """Whether some items are linked."""
        raise NotImplementedError

    def summed(self, log_p: Tensor, name: str | None = None) -> Tensor:
        """The log-factor of each item ([C,] N), given log-potentials (K, [C,] N), those of labels among them."""
        raise NotImplementedError


class SparseCategorical(Categorical):
    """The truths of items, of which few are told apart where they are summed out: those that labels name.

    All others have the same probability of an item's labels. They are one value, K, so that what is summed out does
    not grow with the classes.

    Args:
        log_p: (..., K), the same for all items, normalised or not.
        named: (M, n_items) classes, -1 where an item has fewer.
        gold: (n_items,) known classes, each of which is named, or -1; None without.
        batch_shape: by default that of ``log_p``.
    """

    def __init__(
        self, log_p: Tensor, named: Tensor, gold: Tensor | None = None, batch_shape: torch.Size | None = None
    ) -> None:
        self.named, self.gold = named, gold
        super().__init__(log_p, batch_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> SparseCategorical:
        """This distribution over a larger batch."""
        return SparseCategorical(self.log_p, self.named, self.gold, torch.Size(batch_shape))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The classes named for each item, then K for any other: (M + 1, ..., n_items)."""
        values = torch.cat([self.named, torch.full_like(self.named[:1], self.log_p.shape[-1])])
        return values.reshape(len(values), *(1,) * (len(self.batch_shape) - 1), -1)

    def log_factor(self, value: Tensor) -> Tensor:
        """(M + 1, ..., n_items) where all values are summed out, else that of the drawn ones."""
        if value.dim() <= len(self.batch_shape):
            return super().log_factor(value)
        each, rest = self._parts()
        every = torch.cat([each, rest.log().unsqueeze(0)]).masked_fill(self._impossible(), -torch.inf)
        return every.reshape(*value.shape[: value.dim() - len(self.batch_shape)], *self._inner(), -1)

    def dense(self, share: Tensor) -> Tensor:
        """Probabilities of all classes (K, ..., n_items), from those of the values (M + 1, ..., n_items)."""
        _, rest = self._parts()
        p = self.log_p.exp().reshape(-1, self.log_p.shape[-1]).t().unsqueeze(-1)  # (K, chains or 1, 1)
        flat = share.reshape(len(share), -1, share.shape[-1])
        out = p * (flat[-1] / rest)
        for classes, found in zip(self.named, flat, strict=False):
            (at,) = torch.nonzero(classes >= 0, as_tuple=True)
            out[classes[at], :, at] = found[:, at].t()
        return out.reshape(-1, *share.shape[1:])

    def sums(self, share: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sums over chains of classes' shares, squares and entropies, from values' (M + 1, C, n_items)."""
        each, rest = self._parts()
        p = self.log_p.exp().reshape(-1, self.log_p.shape[-1])  # (C or 1, K)
        named, of_rest = share[:-1], share[-1] / rest
        every = p.expand(len(of_rest), -1).t()
        out = []
        for power in (1, 2):
            total = every**power @ of_rest**power
            for classes, found in zip(self.named, (named**power).sum(1), strict=True):
                (at,) = torch.nonzero(classes >= 0, as_tuple=True)
                total[classes[at], at] = found[at]
            out.append(total)
        # Classes that share the rest: entr(p f) = f entr(p) + p entr(f).
        own = bits(p.t()).unsqueeze(-1) - _some(bits(each.exp().unsqueeze(0)), self.named)
        unnamed = of_rest * own + rest * bits(of_rest.unsqueeze(0))
        return out[0], out[1], (bits(named) + unnamed).sum(0)

    def sparse(self, potential: Tensor) -> Tensor:
        """Log-potentials of the values, (M + 1, ..., n_items), from those of all classes (K, ..., n_items).

        Or from fewer than K: those of the classes named, more that are not looked at, and that of any other.
        """
        if len(potential) < self.log_p.shape[-1]:
            return torch.cat([potential[: len(self.named)], potential[-1:]])
        flat, n = potential.reshape(len(potential), -1, potential.shape[-1]), self.named.shape[-1]
        p = self.log_p.detach().exp().reshape(-1, self.log_p.shape[-1]).mean(0).to(potential)
        at = self.named.clamp(min=0)
        each = flat.gather(0, at.unsqueeze(1).expand(-1, flat.shape[1], n))
        own = p[at].masked_fill(self.named < 0, 0.0).unsqueeze(1)
        top = flat.amax(0)
        weighed = torch.tensordot(p, (flat - top).exp(), 1) - (own * (each - top).exp()).sum(0)
        rest = (weighed / (p.sum() - own.sum(0))).clamp(min=torch.finfo(p.dtype).tiny).log() + top
        return torch.cat([each, rest.unsqueeze(0)]).reshape(-1, *potential.shape[1:])

    def _parts(self) -> tuple[Tensor, Tensor]:
        """Log-weights of named classes (M, chains or 1, n_items), and the weight of all others, without the M."""
        log_p = self.log_p.reshape(-1, self.log_p.shape[-1])
        at = self.named.clamp(min=0).flatten()
        each = log_p.index_select(1, at).reshape(-1, *self.named.shape).movedim(1, 0)
        rest = log_p.exp().sum(-1, keepdim=True) - _some(each.exp(), self.named)
        return each, rest.clamp(min=torch.finfo(rest.dtype).tiny)

    def _impossible(self) -> Tensor:
        """Which values an item cannot have, (M + 1, 1, n_items)."""
        empty = torch.cat([self.named < 0, torch.zeros_like(self.named[:1], dtype=torch.bool)])
        if self.gold is not None:
            known = torch.cat([self.named != self.gold, torch.ones_like(empty[:1])])
            empty = empty | (known & (self.gold >= 0))
        return empty.unsqueeze(1)

    def _inner(self) -> tuple[int, ...]:
        """Sizes of the batch left of the items, 1 where nothing varies."""
        lead = self.log_p.shape[:-1]
        return (1,) * (len(self.batch_shape) - max(len(lead), 1)) + tuple(lead[:-1])


def bits(p: Tensor) -> Tensor:
    """Entropy in bits over the leading dimension."""
    out: Tensor = torch.special.entr(p).sum(0) / math.log(2)
    return out


def _some(x: Tensor, named: Tensor) -> Tensor:
    """Sums of numbers (M, C, n_items) over the classes that are named (M, n_items)."""
    return x.masked_fill((named < 0).unsqueeze(1), 0.0).sum(0)


class OneHot(TorchDistribution):
    """A class drawn as a one-hot vector, for a latent that a model uses linearly.

    A latent of an annotator, such as a community, cannot be enumerated, because it affects the labels of many
    items. As a one-hot vector that enters the log-likelihood linearly, it can be replaced by its expectation (mean
    field) or drawn from its exact conditional (Gibbs).

    Args:
        log_p: (..., K) log-weights.
        batch_shape: by default that of ``log_p``.

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

    @property
    def mean(self) -> Tensor:
        """The shares of the weights."""
        return self.log_p.softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """``sum of value * log_p``; linear, so that an expected one-hot vector gives the expected value."""
        return (value * self.log_p).sum(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws one-hot vectors."""
        logits = self.log_p.expand(self.batch_shape + self.event_shape)
        out: Tensor = dist.OneHotCategorical(logits=logits, validate_args=False).sample(torch.Size(sample_shape))
        return out

    def expand(self, batch_shape: Any, _instance: Any = None) -> OneHot:
        """These weights over a larger batch, without copying them."""
        return OneHot(self.log_p, torch.Size(batch_shape))


class ChosenDirichlet(TorchDistribution):
    """Rows drawn from one of several Dirichlets, chosen by a one-hot vector.

    An example is an annotator's confusion matrix around that of their community. The log-probability is linear in
    the one-hot vector, so that an expected vector gives the expected value.

    Args:
        onehot: (*batch, M).
        concentration: (*batch, M, *rows, K), one Dirichlet for each of the M alternatives and each row.
        event_dim: number of dimensions right of the alternatives: 2 for the rows of a matrix.
        batch_shape: by default that of the arguments.

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
        """A function of the concentrations, one number per row, weighted over alternatives: (*batch, *rows)."""
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
        """These alternatives over a larger batch."""
        shape = torch.Size(batch_shape)
        return ChosenDirichlet(self.onehot, self.concentration, len(self.event_shape), shape)


class Scaled(constraints.Constraint):
    """Real numbers that have a unit; coordinates of engines count in it."""

    def __init__(self, unit: float) -> None:
        self.unit = unit

    def check(self, value: Tensor) -> Tensor:
        """Whether a value is a number."""
        return value == value

    def __repr__(self) -> str:
        return f"Scaled({self.unit:g})"


for registry in (biject_to, transform_to):
    registry.register(Scaled, lambda support: AffineTransform(0.0, support.unit))


class ScaledNormal(dist.Normal):
    """A Normal of what is measured in a unit, such as that of labels that are numbers.

    Engines that search by gradients take their first steps in the unit, so that the same labels in another one are
    fitted alike; from a plain Normal they take them as if it were 1.

    Args:
        loc, scale: tensors or numbers.
        unit: a typical size.

    Examples:
        >>> from torch.distributions import biject_to
        >>> metres = crowdppl.primitives.ScaledNormal(0.0, 500.0, unit=1000.0)
        >>> biject_to(metres.support)(2.0)
        2000.0
    """

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, unit: float, validate_args: bool | None = None
    ) -> None:
        self.unit = unit
        self.support: Any = Scaled(unit)
        super().__init__(loc, scale, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ScaledNormal:
        """This distribution over a larger batch."""
        return ScaledNormal(self.loc.expand(batch_shape), self.scale.expand(batch_shape), self.unit, False)


class NormalGamma(TorchDistribution):
    """Coefficients of a linear regression together with the precision of its errors, under their conjugate prior.

    The precision is ``tau ~ Gamma(concentration, rate)``, the coefficients ``w ~ Normal(loc, 1 / (tau P))`` with
    the matrix P. One coefficient is an annotator's bias; two may be gain and bias. A value is (..., D + 1): the
    coefficients, then the precision.

    Args:
        loc: (..., D).
        precision_matrix: P, (..., D, D).
        concentration, rate: (...), tensors or numbers.

    Examples:
        >>> import torch
        >>> crowdppl.primitives.NormalGamma(torch.zeros(1), torch.eye(1), concentration=2.0, rate=4.0).mean
        tensor([0.0000, 0.5000])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "precision_matrix": constraints.positive_definite,
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }

    def __init__(
        self,
        loc: Tensor,
        precision_matrix: Tensor,
        concentration: Tensor | float,
        rate: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        a, b = torch.as_tensor(concentration), torch.as_tensor(rate)
        batch = torch.Size(np.broadcast_shapes(loc.shape[:-1], precision_matrix.shape[:-2], a.shape, b.shape))
        self.loc = loc.expand(batch + loc.shape[-1:])
        self.precision_matrix = precision_matrix.expand(batch + precision_matrix.shape[-2:])
        self.concentration, self.rate = a.expand(batch), b.expand(batch)
        super().__init__(batch, torch.Size([loc.shape[-1] + 1]), validate_args=validate_args)

    @property
    def support(self) -> Any:
        """Real coefficients, each in the unit of its typical spread, and a positive precision."""
        error = (self.rate / self.concentration).unsqueeze(-1)  # variance, about
        spread = (self.precision_matrix.inverse().diagonal(dim1=-2, dim2=-1) * error).sqrt().detach()
        parts = [*map(Scaled, spread.reshape(-1, self.loc.shape[-1]).mean(0).tolist()), constraints.positive]
        return constraints.independent(constraints.cat(parts, -1, [1] * len(parts)), 1)

    @property
    def mean(self) -> Tensor:
        """Expected coefficients and precision, (..., D + 1)."""
        return torch.cat([self.loc, (self.concentration / self.rate).unsqueeze(-1)], -1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of coefficients and precision."""
        tau = value[..., -1]
        out: Tensor = self._precision().log_prob(tau) + self._coefficients(tau).log_prob(value[..., :-1])
        return out

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws coefficients and precisions."""
        tau = self._precision().sample(sample_shape)
        return torch.cat([self._coefficients(tau).sample(), tau.unsqueeze(-1)], -1)

    def _precision(self) -> Any:
        return dist.Gamma(self.concentration, self.rate, validate_args=False)

    def _coefficients(self, tau: Tensor) -> Any:
        precision = tau[..., None, None] * self.precision_matrix
        return dist.MultivariateNormal(self.loc, precision_matrix=precision, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> NormalGamma:
        """This distribution over a larger batch."""
        shape = torch.Size(batch_shape)
        loc, precision = self.loc.expand(*shape, -1), self.precision_matrix.expand(*shape, -1, -1)
        return NormalGamma(loc, precision, self.concentration.expand(shape), self.rate.expand(shape), False)


def pick(log_p: Tensor, state: Tensor, rank: int, dim: int = -1) -> Tensor:
    """Looks up log-probabilities at a state that is enumerated, drawn or observed.

    Args:
        log_p: (*batch, T), where batch has at most ``rank`` dimensions.
        state: (*enumerated, *batch) whole numbers; enumerated dimensions lie left of the batch.
        rank: number of batch dimensions.
        dim: the dimension of ``log_p`` with the T states.

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
