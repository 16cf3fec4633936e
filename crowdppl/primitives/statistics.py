"""Sites that enter a model through their sufficient statistics, so that engines can treat them exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyro
import torch
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.primitives.distributions import NormalGamma
from crowdppl.primitives.log_normals import TiltedLogNormal
from crowdppl.primitives.sums import current


def gamma_statistics(x: Tensor) -> Tensor:
    """Sufficient statistics of positive numbers under a Gamma, (..., 2): their logarithms, and themselves."""
    return torch.stack([x.log(), x], -1)


def log_normal_statistics(x: Tensor) -> Tensor:
    """Those of positive numbers under a log-normal, (..., 3): logarithms, themselves, squared logarithms."""
    log = x.log()
    return torch.stack([log, x, log.square()], -1)


def normal_gamma_statistics(x: Tensor) -> Tensor:
    """Those of coefficients w and precision tau, (..., D + 1) -> (..., 2 + D + D^2): see ``normal_gamma_parts``."""
    w, tau = x[..., :-1], x[..., -1:]
    squares = (w.unsqueeze(-1) * w.unsqueeze(-2)).flatten(-2)
    return torch.cat([tau.log(), tau, tau * w, tau * squares], -1)


def normal_gamma_parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What belongs to log tau (...), tau (...), tau w (..., D) and tau w w' (..., D, D)."""
    d = math.isqrt(x.shape[-1] - 2)
    return x[..., 0], x[..., 1], x[..., 2 : 2 + d], x[..., 2 + d :].unflatten(-1, (d, d))


def unwrapped(fn: Any) -> Any:
    """A distribution without what ``to_event`` and ``expand`` put around it."""
    while hasattr(fn, "base_dist") and not isinstance(fn, torch.distributions.LogNormal):
        fn = fn.base_dist
    return fn


def natural(
    name: str,
    prior: Any,
    *,
    ratios: bool = False,
    shift: Sequence[Sequence[float]] | None = None,
    powers: Sequence[float] | None = None,
) -> tuple[Tensor, ...]:
    """Draws a site from a Gamma, LogNormal or NormalGamma, and returns its sufficient statistics.

    A model that is linear in them is fitted exactly by em, vb and gibbs, which hand over what they expect or draw
    of each; the logarithm of what is expected is not what is expected of the logarithm. Sums of positive numbers in
    a denominator stay linear by ``neg_log``, and Gaussian errors around a real variable by ``log_gaussian``.

    Args:
        name: of the site.
        prior: a Gamma, LogNormal or ``NormalGamma``, in any batches and events.
        ratios: whether the labels depend on the ratios of log-normals alone, those along the first dimension. Their
            unit is then known from the prior, and engines move it at once; in small steps it would take them long.
            vb's are made as wide as ratios are, and those of others stay as mean field has them.
        shift: of a NormalGamma whose coefficients can all move without a change to unknown truths' labels, together
            with those of other sites that have a shift: rows of a constant and a number a coefficient, D of 1 + D.
            They move by c shift (1, w) for any c; gibbs draws c, which small steps would take long to change.
        powers: of a Gamma, or of the coefficients and the precision of a NormalGamma (1 + D): by which powers
            of s all can be multiplied, together with other sites that have powers, without a change to unknown
            truths' labels. gibbs moves s.

    Returns:
        Of a Gamma and a LogNormal log x and x, (...) each. Of a NormalGamma of D coefficients w and precision tau:
        log tau (...), tau (...), tau w (..., D) and tau w w' (..., D, D).

    Raises:
        MethodError: for another prior, for ratios of anything but log-normals, and shifts but of NormalGammas.

    Examples:
        >>> import pyro.distributions as dist
        >>> log_x, x = crowdppl.primitives.natural("rate", dist.Gamma(2.0, 1.0))
        >>> bool(log_x == x.log())
        True
    """
    inner = unwrapped(prior)
    given = type(inner).__name__
    log_normal = isinstance(inner, torch.distributions.LogNormal | TiltedLogNormal)
    if not log_normal and not isinstance(inner, torch.distributions.Gamma | NormalGamma):
        raise MethodError(
            f"natural draws site {name!r} from a Gamma, LogNormal or NormalGamma, and its prior is {given}"
        )
    if ratios and not log_normal:
        raise MethodError(f"natural: only log-normals have ratios, and the prior of site {name!r} is a {given}")
    if shift is not None and not isinstance(inner, NormalGamma):
        raise MethodError(f"natural: only NormalGammas have a shift, and the prior of site {name!r} is a {given}")
    marked: Any = {"natural": True, "ratios": ratios, "shift": shift, "powers": powers}
    x: Tensor = pyro.sample(name, prior, infer=marked)
    found = current().statistics.get(name)
    if isinstance(inner, NormalGamma):
        return normal_gamma_parts(normal_gamma_statistics(x) if found is None else found)
    found = gamma_statistics(x) if found is None else found
    return found[..., 0], found[..., 1]
