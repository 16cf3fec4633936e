"""The posterior of a model as one function of a flat vector, on which engines that follow gradients move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.density import Extra, TraceSites
from crowdppl.inference.gaussians import FIRST_SCALE
from crowdppl.inference.problem import Problem
from crowdppl.inference.sites import per_chain
from crowdppl.inference.state import first_state

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Target:
    """Log posterior density of all continuous sites as a function of one vector, every discrete site summed out.

    The vector, (n,), holds the sites in turn, each in unconstrained space.

    Args:
        problem: model and data.
        engine: its name, for messages.

    Raises:
        MethodError: for a model with a one-hot site.
    """

    problem: Problem
    engine: str

    def __post_init__(self) -> None:
        onehot = [s.name for s in self.problem.of_kind("onehot")]
        if onehot:
            raise MethodError(
                f"{self.engine} refuses {type(self.problem.model).__name__}: {', '.join(onehot)} is discrete and "
                "cannot be summed out; use inference='gibbs' or 'vb'"
            )

    @cached_property
    def _shapes(self) -> dict[str, torch.Size]:
        """Of each site in unconstrained space."""
        n, sites = self.problem.n_items, self.problem.sites
        return {name: site.transform.inverse_shape(torch.Size(site.shape(n))) for name, site in sites.items()}

    def flat(self, at: Mapping[str, Tensor]) -> Tensor:
        """One vector from unconstrained values by site."""
        return torch.cat([at[name].reshape(-1) for name in self._shapes])

    def by_site(self, u: Tensor) -> Tensors:
        """Unconstrained values by site, from vectors (..., n)."""
        parts = u.split([shape.numel() for shape in self._shapes.values()], -1)
        return {
            n: x.reshape((*u.shape[:-1], *shape)) for (n, shape), x in zip(self._shapes.items(), parts, strict=True)
        }

    def start(self, number: int = 0) -> Tensor:
        """Where start number n begins: at the means of its mean field."""
        state, sites = first_state(self.problem, number, points=True), self.problem.sites
        means = {n: sites[n].transform.inv(sites[n].conjugate.mean_value(x)) for n, x in state.parameters.items()}
        return self.flat(means | state.loc)

    def drawn_start(self, number: int, stream: torch.Generator, chains: int) -> Tensor:
        """A draw around start number n, of which that of moments comes last of so many chains'."""
        shares = chains if number == 1 else number
        state, at = first_state(self.problem, number, shares, points=False), Tensors()
        for name, parameter in state.parameters.items():
            site = self.problem.sites[name]
            at[name] = site.transform.inv(site.value(site.conjugate.draw(parameter, stream)))
        for name, loc in state.loc.items():
            at[name] = loc + FIRST_SCALE * torch.randn(
                loc.shape, generator=stream, dtype=loc.dtype, device=loc.device
            )
        return self.flat(at)

    def value_and_slope(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The log density at a vector, and its gradient (n,)."""
        found = self.problem.replay("target", self._value_and_slope, {"u": u.detach()})
        return found["value"], found["slope"]

    def _value_and_slope(self, at: Mapping[str, Tensor]) -> Tensors:
        u, sites = at["u"].detach().requires_grad_(), self.problem.sites
        free = self.by_site(u)
        x = {n: sites[n].transform(v) for n, v in free.items()}
        held = {n: sites[n].statistic(v) for n, v in x.items()}
        given = {n: v.detach() for n, v in held.items()}
        total = self.problem.full_pass()(given, gradient=list(given), extra=self._prior)
        value = total.objective
        for name, g in total.gradient.items():  # makes the number depend on the vector again
            value = value + (g * (held[name] - given[name])).sum()
        value = self._with_jacobians(value, free, x)
        (slope,) = torch.autograd.grad(value, u)
        return {"value": value.detach(), "slope": slope}

    def many(self, u: Tensor) -> Tensor:
        """The log density at each of C vectors at once, (C, n) to (C,)."""
        free, sites, plates = self.by_site(u), self.problem.sites, self.problem.plates
        x = {n: sites[n].transform(v) for n, v in free.items()}
        held = {n: sites[n].statistic(sites[n].with_plate_dims(v, plates)) for n, v in x.items()}
        value = self.problem.full_pass(len(u))(held, extra=lambda first: self._prior(first, len(u))).objective
        return self._with_jacobians(value, free, x, len(u))

    def hessian(self, u: Tensor) -> Tensor:
        """The second derivatives of the log density at a vector, (n, n), in float64."""
        found: Tensor = torch.autograd.functional.hessian(self._differentiable, u)
        return found

    def _differentiable(self, u: Tensor) -> Tensor:
        """The log density in float64, to be differentiated as often as wanted."""
        free, sites, full_pass = self.by_site(u), self.problem.sites, self.problem.full_pass()
        x = {n: sites[n].transform(v) for n, v in free.items()}
        held = {n: sites[n].statistic(v) for n, v in x.items()}
        value = torch.zeros((), dtype=torch.float64, device=self.problem.blocks[0].device)
        for number, block in enumerate(block for block in self.problem.blocks if block.n_items):
            exact, own = replace(block, dtype=torch.float64), full_pass.in_block(held, block)
            value = value + full_pass.density.objective(exact, own, self._prior(number == 0))
        return self._with_jacobians(value, free, x)

    def sites(self, u: Tensor) -> Tensors:
        """Draws by site as engines hold them, (C, D, [1, ...] batch, event), from vectors (C, D, n)."""
        sites, plates = self.problem.sites, self.problem.plates
        return {
            n: sites[n].statistic(sites[n].with_plate_dims(sites[n].transform(x), plates, 2))
            for n, x in self.by_site(u).items()
        }

    def _with_jacobians(self, value: Tensor, free: Tensors, x: Tensors, chains: int | None = None) -> Tensor:
        """A log density of values, as one of unconstrained values."""
        for name, u in free.items():
            change = self.problem.sites[name].transform.log_abs_det_jacobian(u, x[name])
            value = value + per_chain(change, chains)
        return value

    def _prior(self, first: bool, chains: int | None = None) -> Extra:
        """Log priors: those of items with each block, the others with the first."""

        def extra(sites: TraceSites, values: Mapping[str, Tensor]) -> Tensor:
            total = torch.zeros((), dtype=torch.float64)
            for name, site in self.problem.sites.items():
                if first or site.local:
                    fn, x = sites[name].fn, values[name]
                    log_p = (
                        fn.log_prob(x) if site.family is None else site.family.full_log_prior(fn, site.statistic(x))
                    )
                    total = total + per_chain(log_p, chains)
            return total

        return extra
