"""Parameters of priors in a Gibbs sampler: moved by gradients, given counts, with the Dirichlets integrated out."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crowdppl.inference.checkpoints import cut
from crowdppl.inference.machinery.hmc import Hmc
from crowdppl.inference.machinery.recording import Function
from crowdppl.inference.machinery.repeating import Repeated
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.families import DIRICHLET
from crowdppl.inference.reading.nodes import nodes
from crowdppl.inference.reading.problem import Problem
from crowdppl.inference.reading.sites import per_chain


class Hyper:
    """Prior parameters of all chains.

    Args:
        problem: story, data and sites.
        density: the story's, with as many chains.
        at: unconstrained position by site, (C, ...).
    """

    def __init__(self, problem: Problem, density: Density, at: dict[str, Tensor]) -> None:
        assert density.chains is not None
        self.problem, self.density, self.chains = problem, density, density.chains
        self.search = Hmc(at, self.chains)
        self._found: Function = Repeated(self._log_density) if problem.steady else self._log_density

    def values(self, at: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """In their own space, (C, ...): where they are, or elsewhere."""
        at = self.search.at if at is None else at
        return {n: self.problem.sites[n].transform(x) for n, x in at.items()}

    def move(
        self,
        theta: Mapping[str, Tensor],
        onehot: Mapping[str, Tensor],
        counts: Mapping[str, Tensor],
        generator: torch.Generator,
        *,
        adapting: bool,
    ) -> None:
        """One trajectory a chain.

        Args:
            theta: log theta of Dirichlets, (C, ...); only their shapes matter.
            onehot: one-hot sites, (C, ...).
            counts: drawn for each Dirichlet, in its shape.
            generator: random stream.
            adapting: whether step sizes and masses may change.
        """
        parts = {"theta": theta, "onehot": onehot, "count": counts}
        given = {f"{part}.{n}": x for part, by_name in parts.items() for n, x in by_name.items()}

        def log_density(at: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            found = self._found({**given, **{f"at.{n}": x for n, x in at.items()}})
            return found["value"], dict(cut(found, "slope"))

        self.search.move(log_density, generator, adapting=adapting)

    def _log_density(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Log posterior given the counts, (C,), and its slopes."""
        at = {n: x.detach().requires_grad_() for n, x in cut(given, "at").items()}
        theta, counts, values = cut(given, "theta"), cut(given, "count"), self.values(at)
        told = {**theta, **cut(given, "onehot"), **values}
        trace = nodes(self.density.trace(self.problem.blocks[0], told))
        total = torch.zeros(self.chains, dtype=torch.float64)
        for name, x in theta.items():
            prior = DIRICHLET.natural(trace[name]["fn"])
            if prior.requires_grad:
                prior = prior.reshape(prior.shape[:1] + x.shape[1:]).expand(x.shape)
                filled = DIRICHLET.log_normaliser(prior + counts[name]) - DIRICHLET.log_normaliser(prior)
                total = total + per_chain(filled, self.chains)
        for name, x in values.items():
            transform = self.problem.sites[name].transform
            total = total + per_chain(trace[name]["fn"].log_prob(x), self.chains)
            total = total + per_chain(transform.log_abs_det_jacobian(at[name], x), self.chains)
        slopes = torch.autograd.grad(total.sum(), list(at.values()))
        return {"value": total.detach(), **{f"slope.{n}": g for n, g in zip(at, slopes, strict=True)}}
