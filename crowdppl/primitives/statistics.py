"""Sites that enter a model through their sufficient statistics, so that engines can treat them exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pyro
import torch
from torch import Tensor

from crowdppl.errors import MethodError

_statistics: ContextVar[Mapping[str, Tensor]] = ContextVar("statistics", default={})  # noqa: B039 - never written to


@contextmanager
def handing(statistics: Mapping[str, Tensor]) -> Iterator[None]:
    """Makes ``natural`` return these statistics by site, (..., 2), in place of those of the site's value."""
    token = _statistics.set(statistics)
    try:
        yield
    finally:
        _statistics.reset(token)


def gamma_statistics(x: Tensor) -> Tensor:
    """Sufficient statistics of positive numbers under a Gamma, (..., 2): their logarithms, and themselves."""
    return torch.stack([x.log(), x], -1)


def natural(name: str, prior: Any) -> tuple[Tensor, Tensor]:
    """Draws a site from a Gamma, and returns its logarithm and itself.

    A model that is linear in both is fitted exactly by em, vb and gibbs, which hand over what they expect or draw
    of each; the logarithm of what is expected is not what is expected of the logarithm. Sums of Gammas in a
    denominator stay linear by ``neg_log``.

    Args:
        name: of the site.
        prior: a Gamma distribution, in any batches and events.

    Raises:
        MethodError: for another prior.

    Examples:
        >>> import pyro.distributions as dist
        >>> log_x, x = crowdppl.primitives.natural("rate", dist.Gamma(2.0, 1.0))
        >>> bool(log_x == x.log())
        True
    """
    inner = prior
    while hasattr(inner, "base_dist"):
        inner = inner.base_dist
    if not isinstance(inner, torch.distributions.Gamma):
        raise MethodError(f"natural draws site {name!r} from a Gamma, and its prior is {type(inner).__name__}")
    marked: Any = {"natural": True}
    x: Tensor = pyro.sample(name, prior, infer=marked)
    found = _statistics.get().get(name)
    log_x, x = (gamma_statistics(x) if found is None else found).unbind(-1)
    return log_x, x
