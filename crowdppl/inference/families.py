"""Families of conjugate priors: what em, vb, gibbs and results need to know of each."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import pyro.distributions as dist
import torch
from torch import Tensor

from crowdppl.core.intervals import Estimate, check_level, from_dirichlet
from crowdppl.errors import MethodError
from crowdppl.inference.density import FLOOR, narrowed
from crowdppl.inference.responses import DirichletResponse, LogNormalResponse, Response, row_sum
from crowdppl.primitives import distributions, log_normals
from crowdppl.primitives.statistics import (
    gamma_statistics,
    log_normal_statistics,
    normal_gamma_parts,
    normal_gamma_statistics,
    unwrapped,
)

UNCOUNTED = 1e-12
"""Counts below this are none."""
Array = TypeVar("Array", Tensor, np.ndarray)


class Family(ABC):
    """Priors of which a posterior is of the same kind: its natural parameter is the prior's plus what was counted.

    A model's log-likelihood is linear in a site's sufficient *statistic*; the gradient by it is the count. A
    *value* is what the model draws.

    Attributes:
        name: as results hold it.
        key: name of the parameter's array in a result.
        counts: whether a value is rows of shares, and the parameter counts how often each was used.
        handed: whether a model receives the statistics themselves (``natural``): expected ones are none of a value.
    """

    name: str
    key: str
    counts: bool = False
    handed: bool = False

    @abstractmethod
    def holds(self, prior: Any) -> bool:
        """Whether a distribution is of the family, whatever it is wrapped in."""

    def chosen(self, prior: Any) -> bool:
        """Whether another site chooses the prior among several."""
        return False

    def statistic_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of statistics, and of parameters, for values of a shape."""
        return shape

    @abstractmethod
    def natural(self, prior: Any) -> Tensor:
        """Parameter of a prior, float64, unwrapped and expanded to batch and event."""

    def over(self, prior: Any, term: Callable[[Tensor, Tensor], Tensor], value: Tensor) -> Tensor:
        """A term of a prior's parameter and a value, one number a row; expected where a site chooses the prior."""
        return term(self.natural(prior), value)

    @abstractmethod
    def statistic(self, value: Tensor) -> Tensor:
        """The statistic of values."""

    @abstractmethod
    def value(self, statistic: Tensor) -> Tensor:
        """The values of statistics."""

    def slope(self, received: Tensor, gradient: Tensor) -> Tensor:
        """The gradient by the statistic, from that by what a model receives."""
        return gradient

    @abstractmethod
    def moved(self, statistic: Tensor) -> Tensor:
        """Other statistics, far from these: where a likelihood is linear, its gradient is the same there."""

    @abstractmethod
    def mean(self, parameter: Tensor) -> Tensor:
        """The expected statistic."""

    @abstractmethod
    def mean_value(self, parameter: Array) -> Array:
        """The expected value."""

    @abstractmethod
    def proper(self, parameter: np.ndarray) -> bool:
        """Whether these are parameters of distributions."""

    @abstractmethod
    def mode(self, parameter: Tensor, before: Tensor) -> Tensor:
        """The statistic of the most probable value; a row of which nothing is known stays as it was ``before``."""

    @abstractmethod
    def require_mode(self, name: str, prior: Tensor, counts: Tensor) -> None:
        """Refuses the prior of a site by a ``MethodError``, where its mode may lie at the border.

        ``counts`` are those at the start: what a model rules out has none, and may lie there.
        """

    @abstractmethod
    def draw(self, parameter: Tensor, generator: torch.Generator) -> Tensor:
        """Leaves of drawn values."""

    def mode_of_scale(self, statistic: Tensor, prior: Tensor) -> Tensor:
        """Statistics of the same ratios of all values, in the most probable unit under the prior."""
        raise NotImplementedError

    def mean_of_scale(self, parameter: Tensor, prior: Tensor) -> Tensor:
        """Parameter of the same ratios, in the unit that vb's objective prefers."""
        raise NotImplementedError

    def exponents(self, powers: Tensor) -> Tensor:
        """Powers of s (P,) by which statistics are multiplied where values are by s to ``powers``."""
        raise NotImplementedError

    def draw_of_scale(self, statistic: Tensor, prior: Tensor, generator: torch.Generator) -> Tensor:
        """Statistics of the same ratios, in a unit drawn from the prior for each chain (the first dimension)."""
        raise NotImplementedError

    def along(self, statistic: Tensor, prior: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The way of a shift (..., D), and of the prior along it the precision, and that times the mean."""
        raise NotImplementedError

    def shifted(self, statistic: Tensor, way: Tensor, by: Tensor) -> Tensor:
        """Statistics of coefficients that have moved ``by`` times a ``way`` (..., D)."""
        raise NotImplementedError

    @abstractmethod
    def sample(self, parameter: np.ndarray, n: int, stream: np.random.Generator) -> np.ndarray:
        """Drawn values (n, ...)."""

    @abstractmethod
    def log_prior(self, parameter: Tensor, statistic: Tensor) -> Tensor:
        """Log-density of each row without its constant."""

    @abstractmethod
    def log_normaliser(self, parameter: Tensor) -> Tensor:
        """Minus the constant of the log-density of each row."""

    def kl(self, parameter: Tensor, prior: Tensor) -> Tensor:
        """Kullback-Leibler divergence of each row from that of another parameter."""
        cross = row_sum((parameter - prior) * self.mean(parameter))
        return cross + self.log_normaliser(prior) - self.log_normaliser(parameter)

    @abstractmethod
    def distribution(self, parameter: Tensor, event_dim: int) -> Any:
        """The distribution with a parameter, of events of so many dimensions."""

    @abstractmethod
    def estimate(self, parameter: np.ndarray, level: float) -> Estimate:
        """Mean, standard deviation and interval of each value."""

    def amount(self, parameter: Tensor) -> Tensor:
        """What of a parameter (..., P) is information, one number a row: by it a site is made wider."""
        return row_sum(parameter)

    def response(self, parameter: Tensor, ratios: bool) -> Response | None:
        """How rows respond to more evidence, by which vb's are made as wide as they are; None where they stay.

        ``ratios`` says whether labels depend on those of values alone.
        """
        return None

    def prior_normaliser(self, prior: Any, like: Tensor) -> Tensor:
        """``log_normaliser`` of a prior found in a trace, one number for each row of ``like``.

        It is computed once for all rows that share a prior; lgamma takes three times as long on strides.
        """

        def shared(parameter: Tensor, _: Tensor) -> Tensor:
            few = narrowed(parameter).contiguous()
            return self.log_normaliser(few).expand(parameter.shape[:-1]).contiguous()

        return self.over(prior, shared, like)

    def full_log_prior(self, prior: Any, statistic: Tensor) -> Tensor:
        """Log-density of a prior found in a trace, with its constant."""
        return self.over(prior, lambda c, x: self.log_prior(c, x) - self.log_normaliser(c), statistic)


class DirichletFamily(Family):
    """Dirichlets: the statistic is log theta, the parameter the concentration (..., K)."""

    name, key, counts = "dirichlet", "concentration", True

    def holds(self, prior: Any) -> bool:
        return isinstance(unwrapped(prior), torch.distributions.Dirichlet | distributions.ChosenDirichlet)

    def chosen(self, prior: Any) -> bool:
        return isinstance(unwrapped(prior), distributions.ChosenDirichlet)

    def natural(self, prior: Any) -> Tensor:
        inner = unwrapped(prior)
        out: Tensor = inner.concentration
        out = inner.blend(out) if isinstance(inner, distributions.ChosenDirichlet) else out
        return out.double().expand(prior.batch_shape + prior.event_shape)

    def over(self, prior: Any, term: Callable[[Tensor, Tensor], Tensor], value: Tensor) -> Tensor:
        inner = unwrapped(prior)
        if isinstance(inner, distributions.ChosenDirichlet):
            spread = value.unsqueeze(-1 - len(inner.event_shape))
            return inner.expected(lambda c: term(c, spread))
        return term(self.natural(prior), value)

    def statistic(self, value: Tensor) -> Tensor:
        return value.clamp(min=math.exp(FLOOR)).log()

    def value(self, statistic: Tensor) -> Tensor:
        return statistic.clamp(min=FLOOR).exp()

    def slope(self, received: Tensor, gradient: Tensor) -> Tensor:
        return gradient * received

    def moved(self, statistic: Tensor) -> Tensor:
        return statistic + 2 * torch.rand(statistic.shape, dtype=statistic.dtype) - 1.3

    def mean(self, parameter: Tensor) -> Tensor:
        """``digamma(c) - digamma(sum c)``, clamped where its exponential would leave float32."""
        out = parameter.digamma() - row_sum(parameter, keepdim=True).digamma()
        return out.clamp(min=FLOOR)

    def mean_value(self, parameter: Array) -> Array:
        found: Array = parameter / parameter.sum(-1)[..., None]
        return found

    def proper(self, parameter: np.ndarray) -> bool:
        return bool((parameter > 0).all())

    def mode(self, parameter: Tensor, before: Tensor) -> Tensor:
        """Log of ``(c - 1) / sum(c - 1)``; a row without any count keeps its value."""
        counts = (parameter - 1).clamp(min=0)
        total = row_sum(counts, keepdim=True)
        theta = counts / total.clamp(min=1e-300)
        log_theta, known = theta.log_().clamp_(min=FLOOR), total > UNCOUNTED
        return log_theta if bool(known.all()) else torch.where(known, log_theta, before)

    def require_mode(self, name: str, prior: Tensor, counts: Tensor) -> None:
        smallest = float(torch.where((prior < 1) & (counts < UNCOUNTED), 1.0, prior).min())
        if smallest < 1:
            raise MethodError(
                f"em refuses site {name!r}: its smallest prior concentration is {smallest:.4g}, and below 1 the "
                "posterior has no interior mode and EM is not monotone; use inference='vb', or a prior of at least "
                "1; for confusions, cp.confusion_prior(data, mode=True) is one"
            )

    def draw(self, parameter: Tensor, generator: torch.Generator) -> Tensor:
        """Log theta; small concentrations are drawn through Gamma(c + 1), so that they do not underflow.

        In place, for draws of many annotators' tables are the largest arrays of a fit.
        """
        gamma = torch._standard_gamma(parameter + 1, generator=generator)
        u = torch.rand(parameter.shape, generator=generator, dtype=parameter.dtype, device=parameter.device)
        gamma.log_().add_(u.clamp_(min=1e-300).log_().div_(parameter))
        del u
        return gamma.log_softmax(-1).clamp_(min=FLOOR)

    def sample(self, parameter: np.ndarray, n: int, stream: np.random.Generator) -> np.ndarray:
        gamma = stream.standard_gamma(parameter, (n, *parameter.shape))
        gamma = np.maximum(gamma, np.finfo(np.float64).tiny)  # shapes far below 1 underflow to rows of zeros
        return np.asarray(gamma / gamma.sum(-1, keepdims=True))

    def log_prior(self, parameter: Tensor, statistic: Tensor) -> Tensor:
        """``sum of (c - 1) log theta``."""
        return row_sum((parameter - 1) * statistic)

    def response(self, parameter: Tensor, ratios: bool) -> Response:
        return DirichletResponse(parameter)

    def log_normaliser(self, parameter: Tensor) -> Tensor:
        """``sum of lgamma(c) - lgamma(sum c)``."""
        return row_sum(parameter.lgamma()) - row_sum(parameter).lgamma()

    def kl(self, parameter: Tensor, prior: Tensor) -> Tensor:
        expected = parameter.digamma() - row_sum(parameter, keepdim=True).digamma()
        cross = row_sum((parameter - prior) * expected)
        before = self.log_normaliser(narrowed(prior))  # once for all annotators who share it
        return before - self.log_normaliser(parameter) + cross

    def distribution(self, parameter: Tensor, event_dim: int) -> Any:
        return dist.Dirichlet(parameter).to_event(event_dim - 1)

    def estimate(self, parameter: np.ndarray, level: float) -> Estimate:
        return from_dirichlet(parameter, level)


class GammaFamily(Family):
    """Gammas: the statistics of x are log x and x, the parameter (..., 2) concentration and minus the rate."""

    name, key, handed = "gamma", "concentration_and_minus_rate", True

    def holds(self, prior: Any) -> bool:
        return isinstance(unwrapped(prior), torch.distributions.Gamma)

    def statistic_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape, 2)

    def natural(self, prior: Any) -> Tensor:
        inner, shape = unwrapped(prior), prior.batch_shape + prior.event_shape
        return torch.stack([inner.concentration.expand(shape), -inner.rate.expand(shape)], -1).double()

    def statistic(self, value: Tensor) -> Tensor:
        return gamma_statistics(value.clamp(min=math.exp(FLOOR)))

    def value(self, statistic: Tensor) -> Tensor:
        return statistic[..., 1]

    def moved(self, statistic: Tensor) -> Tensor:
        further, factor = torch.rand((2, *statistic.shape[:-1]), dtype=statistic.dtype)
        return torch.stack([statistic[..., 0] + further, statistic[..., 1] * (0.5 + factor)], -1)

    def mean(self, parameter: Tensor) -> Tensor:
        """``digamma(a) - log b``, and ``a / b``."""
        a, b = parameter[..., 0], -parameter[..., 1]
        return torch.stack([a.digamma() - b.log(), a / b], -1)

    def mean_value(self, parameter: Array) -> Array:
        found: Array = -parameter[..., 0] / parameter[..., 1]
        return found

    def proper(self, parameter: np.ndarray) -> bool:
        return bool((parameter[..., 0] > 0).all() and (parameter[..., 1] < 0).all())

    def mode(self, parameter: Tensor, before: Tensor) -> Tensor:
        """Of ``(a - 1) / b``."""
        return self.statistic(-(parameter[..., 0] - 1).clamp(min=0) / parameter[..., 1])

    def require_mode(self, name: str, prior: Tensor, counts: Tensor) -> None:
        smallest = float(prior[..., 0].min())
        if smallest < 1:
            raise MethodError(
                f"em refuses site {name!r}: its smallest prior concentration is {smallest:.4g}, and below 1 a "
                "Gamma has no mode; use inference='vb', or a prior of at least 1"
            )

    def draw(self, parameter: Tensor, generator: torch.Generator) -> Tensor:
        a, b = parameter[..., 0], -parameter[..., 1]
        return self.statistic(torch._standard_gamma(a.contiguous(), generator=generator) / b)

    def sample(self, parameter: np.ndarray, n: int, stream: np.random.Generator) -> np.ndarray:
        return np.asarray(stream.gamma(parameter[..., 0], -1 / parameter[..., 1], (n, *parameter.shape[:-1])))

    def exponents(self, powers: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(powers), powers])

    def log_prior(self, parameter: Tensor, statistic: Tensor) -> Tensor:
        """``(a - 1) log x - b x``."""
        return (parameter * statistic).sum(-1) - statistic[..., 0]

    def amount(self, parameter: Tensor) -> Tensor:
        return parameter[..., 0]

    def log_normaliser(self, parameter: Tensor) -> Tensor:
        """``lgamma(a) - a log b``."""
        a, b = parameter[..., 0], -parameter[..., 1]
        return a.lgamma() - a * b.log()

    def distribution(self, parameter: Tensor, event_dim: int) -> Any:
        return dist.Gamma(parameter[..., 0], -parameter[..., 1]).to_event(event_dim)

    def estimate(self, parameter: np.ndarray, level: float) -> Estimate:
        from scipy.stats import gamma  # slow to import

        check_level(level)
        own = gamma(parameter[..., 0], scale=-1 / parameter[..., 1])
        low, high = (own.ppf(q) for q in ((1 - level) / 2, (1 + level) / 2))
        return Estimate(own.mean(), own.std(), low, high)


class LogNormalFamily(Family):
    """Log-normals that labels tilt: the statistics of x are u = log x, x and u^2, of which labels leave the last.

    The parameter (..., 3) is the power, minus the rate and minus half the precision of a ``TiltedLogNormal``. The
    mode is that of u.
    """

    name, key, handed = "log_normal", "power_and_minus_rate_and_half_precision", True

    def holds(self, prior: Any) -> bool:
        return isinstance(unwrapped(prior), torch.distributions.LogNormal | log_normals.TiltedLogNormal)

    def statistic_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape, 3)

    def natural(self, prior: Any) -> Tensor:
        inner, shape = unwrapped(prior), prior.batch_shape + prior.event_shape
        if isinstance(inner, log_normals.TiltedLogNormal):
            parts = inner.power, -inner.rate, -inner.precision / 2
        else:
            precision = inner.scale.double() ** -2
            parts = inner.loc * precision, torch.zeros(()), -precision / 2
        return torch.stack([x.double().expand(shape) for x in parts], -1)

    def statistic(self, value: Tensor) -> Tensor:
        return log_normal_statistics(value.clamp(min=math.exp(FLOOR)))

    def value(self, statistic: Tensor) -> Tensor:
        return statistic[..., 1]

    def moved(self, statistic: Tensor) -> Tensor:
        further, factor = torch.rand((2, *statistic.shape[:-1]), dtype=statistic.dtype)
        u, x, square = statistic.unbind(-1)
        return torch.stack([u + further, x * (0.5 + factor), square + further], -1)

    def mean(self, parameter: Tensor) -> Tensor:
        grid = _grid(parameter)
        u = grid.mode.unsqueeze(-1) + grid.distance
        return torch.stack([grid.mean(u), grid.mean(u.exp()), grid.mean(u.square())], -1)

    def mean_value(self, parameter: Array) -> Array:
        if isinstance(parameter, np.ndarray):
            return self.mean(torch.from_numpy(parameter))[..., 1].numpy()
        return self.mean(parameter)[..., 1]

    def proper(self, parameter: np.ndarray) -> bool:
        return bool((parameter[..., 1] <= 0).all() and (parameter[..., 2] < 0).all())

    def mode(self, parameter: Tensor, before: Tensor) -> Tensor:
        return self.statistic(log_normals.mode_of(*_tilt(parameter)).exp())

    def require_mode(self, name: str, prior: Tensor, counts: Tensor) -> None:
        """There is one for every parameter."""

    def mode_of_scale(self, statistic: Tensor, prior: Tensor) -> Tensor:
        return _scaled(statistic, log_normals.mode_of(*_tilt_of_scale(statistic, prior, 0)))

    def mean_of_scale(self, parameter: Tensor, prior: Tensor) -> Tensor:
        shift = log_normals.mode_of(*_tilt_of_scale(self.mean(parameter), prior, 0))
        power, rate, half = parameter.unbind(-1)
        return torch.stack([power - 2 * half * shift, rate * (-shift).exp(), half], -1)

    def draw_of_scale(self, statistic: Tensor, prior: Tensor, generator: torch.Generator) -> Tensor:
        tilt = _tilt_of_scale(statistic, prior, 1)
        shift = _drawn(torch.stack([tilt[0], -tilt[1], -tilt[2] / 2], -1), generator)
        return _scaled(statistic, shift.reshape(-1, *(1,) * (statistic.dim() - 2)))

    def draw(self, parameter: Tensor, generator: torch.Generator) -> Tensor:
        return self.statistic(_drawn(parameter, generator).exp())

    def sample(self, parameter: np.ndarray, n: int, stream: np.random.Generator) -> np.ndarray:
        level = torch.from_numpy(stream.random((n, *parameter.shape[:-1])))
        return _grid(torch.from_numpy(parameter), log_normals.CELLS).quantile(level).exp().numpy()

    def log_prior(self, parameter: Tensor, statistic: Tensor) -> Tensor:
        """Of u."""
        return (parameter * statistic).sum(-1)

    def full_log_prior(self, prior: Any, statistic: Tensor) -> Tensor:
        return super().full_log_prior(prior, statistic) - statistic[..., 0]

    def amount(self, parameter: Tensor) -> Tensor:
        """How curved the log-density of u is at its mode."""
        power, rate, precision = _tilt(parameter)
        return precision + rate * log_normals.mode_of(power, rate, precision).exp()

    def response(self, parameter: Tensor, ratios: bool) -> Response | None:
        return LogNormalResponse(parameter) if ratios else None

    def log_normaliser(self, parameter: Tensor) -> Tensor:
        return _grid(parameter).log_total

    def distribution(self, parameter: Tensor, event_dim: int) -> Any:
        tilted: Any = log_normals.TiltedLogNormal(*_tilt(parameter))
        return tilted.to_event(event_dim)

    def estimate(self, parameter: np.ndarray, level: float) -> Estimate:
        check_level(level)
        grid = _grid(torch.from_numpy(parameter), log_normals.CELLS)
        x = (grid.mode.unsqueeze(-1) + grid.distance).exp()
        mean = grid.mean(x)
        sd = grid.mean((x - mean.unsqueeze(-1)).square()).sqrt()
        ends = (grid.quantile(torch.full_like(mean, (1 + side * level) / 2)).exp() for side in (-1, 1))
        return Estimate(*(each.numpy() for each in (mean, sd, *ends)))


def _tilt(parameter: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Power, rate and precision of log-normals."""
    return parameter[..., 0], -parameter[..., 1], -2 * parameter[..., 2]


def _grid(parameter: Tensor, points: int = log_normals.POINTS) -> log_normals.Grid:
    return log_normals.grid_of(*_tilt(parameter), points)


def _drawn(parameter: Tensor, generator: torch.Generator) -> Tensor:
    """Draws of u; where many are of the same rows, these have one grid."""
    level = torch.rand(parameter.shape[:-1], generator=generator, dtype=parameter.dtype, device=parameter.device)
    few = narrowed(parameter)
    while few.dim() > 1 and len(few) == 1:
        few = few[0]
    return _grid(few, log_normals.CELLS).quantile(level)


def _tilt_of_scale(statistic: Tensor, prior: Tensor, lead: int) -> tuple[Tensor, Tensor, Tensor]:
    """Power, rate and precision of a shift of all u, of which the prior alone tells; ``lead`` dimensions stay."""
    power, rate, precision = _tilt(prior.expand(statistic.shape))
    terms = power - precision * statistic[..., 0], rate * statistic[..., 1], precision
    one, two, three = (x.flatten(lead).sum(-1) for x in terms)
    return one, two, three


def _scaled(statistic: Tensor, shift: Tensor) -> Tensor:
    """Statistics of log-normals, all u of which are shifted."""
    u, x, square = statistic.unbind(-1)
    return torch.stack([u + shift, x * shift.exp(), square + 2 * shift * u + shift.square()], -1)


class NormalGammaFamily(Family):
    """Normal-Gammas of coefficients w and precision t: the statistics are log t, t, t w and t w w'.

    The parameter (..., 2 + D + D^2) is a, ``-(b + m'P m / 2)``, ``P m`` and ``-P / 2``: concentration a, rate b,
    location m and precision matrix P.
    """

    name, key, handed = "normal_gamma", "parameter", True

    def holds(self, prior: Any) -> bool:
        return isinstance(unwrapped(prior), distributions.NormalGamma)

    def statistic_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        d = shape[-1] - 1
        return (*shape[:-1], 2 + d + d * d)

    def natural(self, prior: Any) -> Tensor:
        inner, shape = unwrapped(prior), (prior.batch_shape + prior.event_shape)[:-1]
        m, p = inner.loc.double(), inner.precision_matrix.double()
        first = (p @ m.unsqueeze(-1)).squeeze(-1)
        second = -(inner.rate + (m * first).sum(-1) / 2)
        parts = [inner.concentration.double().unsqueeze(-1), second.unsqueeze(-1), first, -p.flatten(-2) / 2]
        return torch.cat(parts, -1).expand(*shape, -1)

    def statistic(self, value: Tensor) -> Tensor:
        tau = value[..., -1:].clamp(min=math.exp(FLOOR))
        return normal_gamma_statistics(torch.cat([value[..., :-1], tau], -1))

    def value(self, statistic: Tensor) -> Tensor:
        _, tau, first, _ = normal_gamma_parts(statistic)
        return torch.cat([first / tau.unsqueeze(-1), tau.unsqueeze(-1)], -1)

    def moved(self, statistic: Tensor) -> Tensor:
        further, factor = torch.rand((2, *statistic.shape[:-1], 1), dtype=statistic.dtype)
        w, tau = self.value(statistic).tensor_split([-1], -1)
        u = (1 + w.abs()) * torch.rand(w.shape, dtype=w.dtype)
        squares = (u.unsqueeze(-1) * u.unsqueeze(-2)).flatten(-2)
        return statistic + torch.cat([further, factor * tau, tau * u, tau * squares], -1)

    def mean(self, parameter: Tensor) -> Tensor:
        """``digamma(a) - log b``, ``a / b``, that times m, and ``a / b m m' + P^-1``."""
        a, b, m, factor = _regression(parameter)
        tau = a / b
        squares = tau[..., None, None] * m.unsqueeze(-1) * m.unsqueeze(-2) + torch.cholesky_inverse(factor)
        first = [(a.digamma() - b.log()).unsqueeze(-1), tau.unsqueeze(-1), tau.unsqueeze(-1) * m]
        return torch.cat([*first, squares.flatten(-2)], -1)

    def mean_value(self, parameter: Array) -> Array:
        if isinstance(parameter, np.ndarray):
            return self.mean_value(torch.from_numpy(parameter)).numpy()
        a, b, m, _ = _regression(parameter)
        return torch.cat([m, (a / b).unsqueeze(-1)], -1)

    def proper(self, parameter: np.ndarray) -> bool:
        a, b, _, factor = _regression(torch.from_numpy(parameter))
        return bool((a > 0).all() and (b > 0).all() and factor.isfinite().all())

    def mode(self, parameter: Tensor, before: Tensor) -> Tensor:
        """Of ``(a - 1 + D / 2) / b`` and m."""
        a, b, m, _ = _regression(parameter)
        tau = (a - 1 + m.shape[-1] / 2).clamp(min=0) / b
        return self.statistic(torch.cat([m, tau.unsqueeze(-1)], -1))

    def require_mode(self, name: str, prior: Tensor, counts: Tensor) -> None:
        smallest, least = float(prior[..., 0].min()), 1 - math.isqrt(prior.shape[-1] - 2) / 2
        if smallest < least:
            raise MethodError(
                f"em refuses site {name!r}: its smallest prior concentration is {smallest:.4g}, and below "
                f"{least:g} a NormalGamma has no mode; use inference='vb', or a prior of at least {least:g}"
            )

    def draw(self, parameter: Tensor, generator: torch.Generator) -> Tensor:
        a, b, m, factor = _regression(parameter)
        tau = (torch._standard_gamma(a.contiguous(), generator=generator) / b).unsqueeze(-1)
        noise = torch.randn(m.shape, generator=generator, dtype=m.dtype, device=m.device).unsqueeze(-1)
        w = m + torch.linalg.solve_triangular(factor.mT, noise, upper=True).squeeze(-1) / tau.sqrt()
        return self.statistic(torch.cat([w, tau], -1))

    def shifted(self, statistic: Tensor, way: Tensor, by: Tensor) -> Tensor:
        w, tau = self.value(statistic).tensor_split([-1], -1)
        return self.statistic(torch.cat([w + by * way, tau], -1))

    def along(self, statistic: Tensor, prior: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _, _, first, squares = normal_gamma_parts(prior)
        w, tau = self.value(statistic).tensor_split([-1], -1)
        way = shift[:, 0] + w @ shift[:, 1:].mT
        p = -(squares + squares.mT)
        pull = (first - (p @ w.unsqueeze(-1)).squeeze(-1)) * way
        return way, tau[..., 0] * (way * (p @ way.unsqueeze(-1)).squeeze(-1)).sum(-1), tau[..., 0] * pull.sum(-1)

    def sample(self, parameter: np.ndarray, n: int, stream: np.random.Generator) -> np.ndarray:
        a, b, m, factor = (x.numpy() for x in _regression(torch.from_numpy(parameter)))
        tau = stream.gamma(a, 1 / b, (n, *a.shape))[..., None]
        noise = stream.standard_normal((n, *m.shape))[..., None]
        return np.concatenate([m + np.linalg.solve(factor.mT, noise)[..., 0] / np.sqrt(tau), tau], -1)

    def exponents(self, powers: Tensor) -> Tensor:
        w, tau = powers.tensor_split([-1])
        return torch.cat([torch.zeros_like(tau), tau, tau + w, (tau + w.unsqueeze(-1) + w).flatten()])

    def log_prior(self, parameter: Tensor, statistic: Tensor) -> Tensor:
        """``(a - 1 + D / 2) log t - b t - t (w - m)'P (w - m) / 2``."""
        more = math.isqrt(statistic.shape[-1] - 2) / 2 - 1
        return (parameter * statistic).sum(-1) + more * statistic[..., 0]

    def log_normaliser(self, parameter: Tensor) -> Tensor:
        """``lgamma(a) - a log b + (D log 2 pi - log |P|) / 2``."""
        a, b, m, factor = _regression(parameter)
        log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return a.lgamma() - a * b.log() + m.shape[-1] * math.log(2 * math.pi) / 2 - log_det

    def distribution(self, parameter: Tensor, event_dim: int) -> Any:
        a, b, m, factor = _regression(parameter)
        rows: Any = distributions.NormalGamma(m, factor @ factor.mT, a, b)
        return rows.to_event(event_dim - 1)

    def estimate(self, parameter: np.ndarray, level: float) -> Estimate:
        from scipy import stats  # slow to import

        check_level(level)
        a, b, m, factor = _regression(torch.from_numpy(parameter))
        variance = torch.cholesky_inverse(factor).diagonal(dim1=-2, dim2=-1) * (b / a).unsqueeze(-1)
        own = stats.t(2 * a.unsqueeze(-1).numpy(), m.numpy(), variance.sqrt().numpy())
        precision = stats.gamma(a.unsqueeze(-1).numpy(), scale=1 / b.unsqueeze(-1).numpy())
        ends = ((1 - level) / 2, (1 + level) / 2)
        parts = [(x.mean(), x.std(), *map(x.ppf, ends)) for x in (own, precision)]
        return Estimate(*(np.concatenate(pair, -1) for pair in zip(*parts, strict=True)))


FAMILIES: Mapping[str, Family] = {
    family.name: family for family in (DirichletFamily(), GammaFamily(), LogNormalFamily(), NormalGammaFamily())
}
"""By the name that results hold."""


def family_of(prior: Any) -> Family | None:
    """The family of a prior; None where it has none."""
    return next((family for family in FAMILIES.values() if family.holds(prior)), None)


def _regression(parameter: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Concentration, rate, location and the lower Cholesky factor of the precision matrix of Normal-Gammas.

    The factor is not a number where there is none: an extrapolation may leave the parameters that there are.
    """
    a, second, first, squares = normal_gamma_parts(parameter)
    factor, failed = torch.linalg.cholesky_ex(-(squares + squares.mT))
    factor = torch.where((failed > 0)[..., None, None], torch.nan, factor)
    m = torch.cholesky_solve(first.unsqueeze(-1), factor).squeeze(-1)
    return a, -second - (m * first).sum(-1) / 2, m, factor
