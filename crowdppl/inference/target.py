"""The posterior of a model as one function of a flat vector, on which engines that follow gradients move."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.distributions.transforms import Transform

from crowdppl.core.collective import process, reduced, shared_errors
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.density import Extra, TraceSites
from crowdppl.inference.gaussians import FIRST_SCALE
from crowdppl.inference.optimisers import LBFGSAscent
from crowdppl.inference.problem import Problem
from crowdppl.inference.sites import Softmax, per_chain
from crowdppl.inference.state import State, first_state

Tensors = dict[str, Tensor]

NUMBERS = 4_000_000
"""Of the largest array in a pass over many vectors."""


@dataclass(frozen=True)
class Target:
    """Log posterior density of all continuous sites as a function of one vector, every discrete site summed out.

    The vector, (n,), holds the sites in turn, each in unconstrained space.

    Args:
        problem: model and data.
        engine: its name, for messages.
        simplex: from real numbers to proportions; by default ``Softmax``.

    Raises:
        MethodError: for a model with a one-hot site.
    """

    problem: Problem
    engine: str
    simplex: Transform | None = None

    def __post_init__(self) -> None:
        onehot = [s.name for s in self.problem.of_kind("onehot")]
        if onehot:
            raise MethodError(
                f"{self.engine} refuses {type(self.problem.model).__name__}: {', '.join(onehot)} is discrete and "
                "cannot be summed out; use inference='gibbs' or 'vb'"
            )

    @cached_property
    def _transforms(self) -> dict[str, Transform]:
        """From the whole real space to each site's support."""
        own = {name: site.transform for name, site in self.problem.sites.items()}
        return {name: self.simplex if self.simplex and isinstance(x, Softmax) else x for name, x in own.items()}

    @cached_property
    def _shapes(self) -> dict[str, torch.Size]:
        """Of each site in unconstrained space."""
        n, sites = self.problem.n_items, self.problem.sites
        return {name: x.inverse_shape(torch.Size(sites[name].shape(n))) for name, x in self._transforms.items()}

    def flat(self, at: Mapping[str, Tensor]) -> Tensor:
        """One vector from unconstrained values by site."""
        return torch.cat([at[name].reshape(-1) for name in self._shapes])

    def by_site(self, u: Tensor) -> Tensors:
        """Unconstrained values by site, from vectors (..., n)."""
        parts = u.split([shape.numel() for shape in self._shapes.values()], -1)
        return {n: x.reshape((*u.shape[:-1], *self._shapes[n])) for n, x in zip(self._shapes, parts, strict=True)}

    def start(self, number: int = 0) -> Tensor:
        """Where start number n begins: at the means of its mean field."""
        return self.means(first_state(self.problem, number, points=True))

    def means(self, state: State) -> Tensor:
        """The means of a mean field, in one vector."""
        means = {n: self.problem.sites[n].conjugate.mean_value(x) for n, x in state.parameters.items()}
        return self.flat({n: self._transforms[n].inv(x) for n, x in means.items()} | state.loc)

    def drawn_start(self, number: int, stream: torch.Generator, chains: int) -> Tensor:
        """A draw around start number n, of which that of moments comes last of so many chains'."""
        shares = chains if number == 1 else number
        state, at = first_state(self.problem, number, shares, points=False), Tensors()
        for name, parameter in state.parameters.items():
            site = self.problem.sites[name]
            at[name] = self._transforms[name].inv(site.value(site.conjugate.draw(parameter, stream)))
        for name, loc in state.loc.items():
            noise = torch.randn(loc.shape, generator=stream, dtype=loc.dtype, device=loc.device)
            at[name] = loc + FIRST_SCALE * noise
        return self.flat(at)

    def value_and_slope(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The log density at a vector, and its gradient (n,)."""
        found = self.problem.replay((Target, type(self.simplex)), self._value_and_slope, {"u": u.detach()})
        return found["value"], found["slope"]

    def _value_and_slope(self, at: Mapping[str, Tensor]) -> Tensors:
        u = at["u"].detach().requires_grad_()
        held, changes = self._statistics(u)
        given = {n: x.detach() for n, x in held.items()}
        total = self.problem.full_pass()(given, gradient=list(given), extra=self._prior)
        value = total.objective
        for name, g in total.gradient.items():  # makes the number depend on the vector again
            value = value + (g * (held[name] - given[name])).sum()
        value = sum(changes, value)
        (slope,) = torch.autograd.grad(value, u)
        return {"value": value.detach(), "slope": slope}

    def climb(self, u: Tensor, looks: int, memory: Tensors) -> tuple[Tensor, Tensors, float]:
        """A few steps uphill by L-BFGS: the vector, what is known of the curvature, and the log density.

        Args:
            u: where to begin.
            looks: at the density, at most.
            memory: of the curvature; empty at first.
        """
        at = u.clone().requires_grad_()

        def objective() -> tuple[float, list[Tensor]]:
            value, slope = self.value_and_slope(at)
            return float(value), [slope]

        search = LBFGSAscent([at], looks, looks, memory)
        value = search(objective)
        return at.detach(), search.memory, value

    def many(self, u: Tensor) -> Tensor:
        """The log density at each of C vectors, (C, n) to (C,); minus infinity where it is not finite."""
        if len(u) > 1 and len(u) * self.problem.width > NUMBERS:
            return torch.cat([self.many(part) for part in u.tensor_split(2)])
        held, changes = self._statistics(u, len(u))
        try:
            total = self.problem.full_pass(len(u))(held, extra=lambda first: self._prior(first, len(u)))
        except NumericalError:
            some = [u.new_full((1,), -math.inf)] if len(u) == 1 else map(self.many, u.tensor_split(2))
            return torch.cat([*some])
        return sum(changes, total.objective)

    def hessian(self, u: Tensor) -> Tensor:
        """The second derivatives of the log density at a vector, (n, n), in float64."""
        full_pass, own = self.problem.full_pass(), process() == 0  # where what belongs to no item counts

        def value(u: Tensor) -> Tensor:
            held, changes = self._statistics(u)
            parts, changes = [torch.zeros((), dtype=torch.float64, device=u.device)], changes if own else []
            for number, block in enumerate(block for block in self.problem.blocks if block.n_items):
                exact, here = replace(block, dtype=torch.float64), full_pass.in_block(held, block)
                parts.append(full_pass.density.objective(exact, here, self._prior(own and number == 0)))
            return sum(changes, sum(parts[1:], parts[0]))

        with shared_errors():
            found: Tensor = torch.autograd.functional.hessian(value, u)
        return reduced(found)

    def draws_around(self, u: Tensor, n: int, stream: torch.Generator) -> Tensor | None:
        """Draws (n, numbers) around a vector from the Gaussian of its curvature; None unless this is downwards."""
        factor, failed = torch.linalg.cholesky_ex(-self.hessian(u))
        if bool(failed):
            return None
        noise = torch.randn((len(u), n), generator=stream, dtype=u.dtype, device=u.device)
        found: Tensor = u + torch.linalg.solve_triangular(factor.mT, noise, upper=True).mT
        return found

    def sites(self, u: Tensor) -> Tensors:
        """Draws by site as engines hold them, (C, D, [1, ...] batch, event), from vectors (C, D, n)."""
        sites, plates = self.problem.sites, self.problem.plates
        x = {n: self._transforms[n](x) for n, x in self.by_site(u).items()}
        return {n: sites[n].statistic(sites[n].with_plate_dims(v, plates, lead=2)) for n, v in x.items()}

    def _statistics(self, u: Tensor, chains: int | None = None) -> tuple[Tensors, list[Tensor]]:
        """Sites as a pass takes them at a vector, or (C, n) of them, and what each change of variables adds."""
        held, changes = Tensors(), []
        for name, v in self.by_site(u).items():
            site, transform = self.problem.sites[name], self._transforms[name]
            x = transform(v)
            held[name] = site.statistic(x if chains is None else site.with_plate_dims(x, self.problem.plates))
            changes.append(per_chain(transform.log_abs_det_jacobian(v, x), chains))
        return held, changes

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
