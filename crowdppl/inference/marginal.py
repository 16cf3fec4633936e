"""The marginal density of a model's continuous sites in unconstrained space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.density import Extra, TraceSites
from crowdppl.inference.problem import Problem


@dataclass(frozen=True)
class Marginal:
    """Potential energy of a model's continuous sites in unconstrained space, every discrete site summed out.

    Args:
        problem: model and data.
        engine: that moves on it.

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

    def __call__(self, at: Mapping[str, Tensor]) -> Tensor:
        """Minus the log posterior density at unconstrained values, differentiable in them, once."""
        found = self.problem.replay("marginal", self.with_slopes, {n: u.detach() for n, u in at.items()})
        value = found["value"]
        for name, u in at.items():  # makes the numbers depend on the position again
            value = value + (found[f"slope.{name}"] * (u - u.detach())).sum()
        return value

    def with_slopes(self, at: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The same, and its slopes, as numbers."""
        leaves = {n: u.detach().requires_grad_() for n, u in at.items()}
        value = self._value(leaves)
        slopes = torch.autograd.grad(value, list(leaves.values()))
        return {"value": value.detach(), **{f"slope.{n}": g for n, g in zip(leaves, slopes, strict=True)}}

    def _value(self, at: Mapping[str, Tensor]) -> Tensor:
        sites = self.problem.sites
        x = {n: sites[n].transform(u) for n, u in at.items()}
        leaf = {n: sites[n].leaf(v) for n, v in x.items()}
        given = {n: v.detach() for n, v in leaf.items()}
        total = self.problem.full_pass()(given, gradient=list(given), extra=self._prior)
        value = total.objective
        for name, g in total.gradient.items():
            value = value + (g * (leaf[name] - given[name])).sum()  # likewise
        for name, u in at.items():
            value = value + sites[name].transform.log_abs_det_jacobian(u, x[name]).sum()
        return -value

    def log_density(self, at: Mapping[str, Tensor]) -> Tensor:
        """The log posterior density in float64, to be differentiated as often as wanted."""
        sites, full_pass = self.problem.sites, self.problem.full_pass()
        x = {n: sites[n].transform(u) for n, u in at.items()}
        leaf = {n: sites[n].leaf(v) for n, v in x.items()}
        total = torch.zeros((), dtype=torch.float64, device=self.problem.blocks[0].device)
        for number, block in enumerate(block for block in self.problem.blocks if block.n_items):
            exact = replace(block, dtype=torch.float64)
            own = full_pass.cut(leaf, block)
            total = total + full_pass.density.objective(exact, own, self._prior(number == 0))
        for name, u in at.items():
            total = total + sites[name].transform.log_abs_det_jacobian(u, x[name]).sum()
        return total

    def _prior(self, first: bool) -> Extra:
        """Log priors: those of items with each block, the others with the first."""

        def extra(sites: TraceSites, values: Mapping[str, Tensor]) -> Tensor:
            total = torch.zeros((), dtype=torch.float64)
            for name, site in self.problem.sites.items():
                if not (first or site.local):
                    continue
                fn = sites[name].fn
                if site.family is not None:
                    total = total + site.family.full_log_prior(fn, site.leaf(values[name])).sum()
                else:
                    total = total + fn.log_prob(values[name]).sum()
            return total

        return extra


def constrained(problem: Problem, draws: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Draws (C, D, batch, event) in unconstrained space as engines hold them: (C, D, [1, ...] batch, event)."""
    pairs = ((problem.sites[name], u) for name, u in draws.items())
    return {site.name: site.leaf(site.widen(site.transform(u), problem.plates, lead=2)) for site, u in pairs}
