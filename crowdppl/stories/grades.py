"""Bands between cutpoints: the probability that noise carries a grade into each of them."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from crowdppl.errors import MethodError

Tail = Literal["normal", "logistic", "laplace"]


def log_bands(edge: Tensor, tail: Tail = "normal") -> Tensor:
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
        >>> crowdppl.log_bands(torch.tensor([-1.0, 1.0])).exp()
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
