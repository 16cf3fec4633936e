"""How em and vb treat conjugate sites: a point that maximises, or a distribution in closed form."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.reading.families import DIRICHLET


class Rule(Protocol):
    """One treatment of the conjugate sites of a story.

    Attributes:
        slow: whether a fit mostly takes a dozen iterations or more.
    """

    slow: bool

    def leaf(self, parameter: Tensor) -> Tensor:
        """Log theta at which the labels' term is evaluated."""
        ...

    def update(self, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """New parameter, given prior concentrations and expected counts."""
        ...

    def penalty(self, prior: Any, parameter: Tensor) -> Tensor:
        """What the site adds to the objective, a term for each row; ``prior`` is the trace's distribution."""
        ...


class Maximise:
    """em: the parameter is log theta, updated to the mode of Dirichlet(prior + counts)."""

    slow = True

    def leaf(self, parameter: Tensor) -> Tensor:
        """Log theta itself."""
        return parameter

    def update(self, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """The mode; a row without counts or prior keeps its value."""
        return DIRICHLET.mode(prior + counts, before)

    def penalty(self, prior: Any, parameter: Tensor) -> Tensor:
        """``sum of (c - 1) log theta``."""
        return DIRICHLET.over(prior, DIRICHLET.log_prior, parameter)


class Average:
    """vb: the parameter is a concentration, evaluated at expected log theta.

    Args:
        rate: share of the new value in an update: 1 for full batches, decaying for minibatches (natural-
            gradient stochastic variational inference, Hoffman et al. 2013).
    """

    slow = False

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def leaf(self, parameter: Tensor) -> Tensor:
        """Expected log theta."""
        return DIRICHLET.mean(parameter)

    def update(self, before: Tensor, prior: Tensor, counts: Tensor) -> Tensor:
        """Prior plus counts."""
        new = prior + counts
        return new if self.rate == 1.0 else before + self.rate * (new - before)

    def penalty(self, prior: Any, parameter: Tensor) -> Tensor:
        """Minus the divergence of the posterior from the prior."""
        return -DIRICHLET.over(prior, lambda c, q: DIRICHLET.kl(q, c), parameter)


def refuse_below_one(name: str, prior: Tensor) -> None:
    """Refuses a prior whose mode lies at the border, where em would not be monotone.

    Raises:
        MethodError: naming the site, its smallest concentration and the remedy.
    """
    smallest = float(prior.min())
    if smallest < 1:
        raise MethodError(
            f"em refuses site {name!r}: its smallest prior concentration is {smallest:.4g}, and below 1 the "
            "posterior has no interior mode and EM is not monotone; use inference='vb', or a prior of at least 1"
        )
