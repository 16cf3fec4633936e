"""Conjugate families: what an engine needs to know of a distribution to update it in closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from crowdppl.inference.reading.density import FLOOR
from crowdppl.inference.reading.ring import narrowed
from crowdppl.stories.distributions import ChosenDirichlet


class Family(Protocol):
    """A family in which a posterior is the prior's parameter plus counts of the leaf statistic."""

    def natural(self, prior: Any) -> Tensor:
        """Parameter of a prior found in a trace, float64, in the full shape of the site's value."""
        ...

    def mean(self, parameter: Tensor) -> Tensor:
        """Expected leaf statistic."""
        ...

    def mode(self, parameter: Tensor, before: Tensor) -> Tensor:
        """Leaf statistic of the mode; ``before`` where the parameter leaves it open."""
        ...

    def draw(self, parameter: Tensor, generator: torch.Generator) -> Tensor:
        """Leaf statistic of a random draw."""
        ...

    def log_prior(self, parameter: Tensor, leaf: Tensor) -> Tensor:
        """Log-density up to a constant, as a function of the leaf statistic: (batch)."""
        ...

    def kl(self, parameter: Tensor, prior: Tensor) -> Tensor:
        """Divergence of one member from another: (batch)."""
        ...


class DirichletFamily:
    """Dirichlet distributions; the leaf statistic is log theta, the parameter the concentration (..., K)."""

    def natural(self, prior: Any) -> Tensor:
        """Concentration of a prior, float64, unwrapped and expanded to batch and event."""
        shape = prior.batch_shape + prior.event_shape
        inner = unwrapped(prior)
        out: Tensor = inner.concentration
        if isinstance(inner, ChosenDirichlet):
            out = inner.blend(out)
        return out.double().expand(shape)

    def over(self, prior: Any, term: Callable[[Tensor, Tensor], Tensor], value: Tensor) -> Tensor:
        """A term of concentration and value, one number a row; expected where a one-hot site chooses the prior."""
        inner = unwrapped(prior)
        if isinstance(inner, ChosenDirichlet):
            spread = value.unsqueeze(-1 - len(inner.event_shape))
            return inner.expected(lambda c: term(c, spread))
        return term(self.natural(prior), value)

    def mean(self, parameter: Tensor) -> Tensor:
        """``digamma(c) - digamma(sum c)``, clamped where its exponential would leave float32."""
        out = parameter.digamma() - parameter.sum(-1, keepdim=True).digamma()
        return out.clamp(min=FLOOR)

    def mode(self, parameter: Tensor, before: Tensor) -> Tensor:
        """Log of ``(c - 1) / sum(c - 1)``; a row without any count keeps its value."""
        counts = (parameter - 1).clamp(min=0)
        total = counts.sum(-1, keepdim=True)
        theta = counts / total.clamp(min=1e-300)
        log_theta, known = theta.log_().clamp_(min=FLOOR), total > 1e-12
        return log_theta if bool(known.all()) else torch.where(known, log_theta, before)

    def draw(self, parameter: Tensor, generator: torch.Generator) -> Tensor:
        """Log theta; small concentrations are drawn through Gamma(c + 1), so that they do not underflow.

        In place, for draws of many annotators' tables are the largest arrays of a fit.
        """
        gamma = torch._standard_gamma(parameter + 1, generator=generator)
        u = torch.rand(parameter.shape, generator=generator, dtype=parameter.dtype, device=parameter.device)
        gamma.log_().add_(u.clamp_(min=1e-300).log_().div_(parameter))
        del u
        return gamma.log_softmax(-1).clamp_(min=FLOOR)

    def log_prior(self, parameter: Tensor, leaf: Tensor) -> Tensor:
        """``sum of (c - 1) log theta``."""
        return ((parameter - 1) * leaf).sum(-1)

    def full_log_prior(self, prior: Any, leaf: Tensor) -> Tensor:
        """Log-density of a prior found in a trace, with its constant."""
        return self.over(prior, lambda c, x: self.log_prior(c, x) - self.log_normaliser(c), leaf)

    def log_normaliser(self, parameter: Tensor) -> Tensor:
        """``sum of lgamma(c) - lgamma(sum c)``."""
        return parameter.lgamma().sum(-1) - parameter.sum(-1).lgamma()

    def kl(self, parameter: Tensor, prior: Tensor) -> Tensor:
        """Kullback-Leibler divergence of Dirichlet(parameter) from Dirichlet(prior)."""
        expected = parameter.digamma() - parameter.sum(-1, keepdim=True).digamma()
        cross = ((parameter - prior) * expected).sum(-1)
        before = self.log_normaliser(narrowed(prior))  # once for all annotators who share it
        return before - self.log_normaliser(parameter) + cross


def unwrapped(fn: Any) -> Any:
    """A distribution without what ``to_event`` and ``expand`` put around it."""
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return fn


def is_dirichlet(fn: Any) -> bool:
    """Whether a distribution is a Dirichlet, or one chosen among several, whatever it is wrapped in."""
    return isinstance(unwrapped(fn), torch.distributions.Dirichlet | ChosenDirichlet)


DIRICHLET = DirichletFamily()
