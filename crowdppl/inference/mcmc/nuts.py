"""Pyro's NUTS on the density in which every discrete site is summed out exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from pyro.infer.mcmc import MCMC, NUTS
from torch import Tensor

from crowdppl.core.devices import pyro_state_kept, seeded
from crowdppl.errors import MethodError
from crowdppl.inference.density import TraceSites
from crowdppl.inference.loop import Progress
from crowdppl.inference.options import Options
from crowdppl.inference.passes import FullPass
from crowdppl.inference.problem import Problem
from crowdppl.inference.replay import Function, Replayed
from crowdppl.inference.sites import DIRICHLET, Extra
from crowdppl.inference.state import first_state


@dataclass
class Marginal:
    """Potential energy of a model's continuous sites in unconstrained space.

    Raises:
        MethodError: for a model with a one-hot site.
    """

    problem: Problem
    full_pass: FullPass = field(init=False)
    replayed: Function = field(init=False)

    def __post_init__(self) -> None:
        onehot = [s.name for s in self.problem.of_kind("onehot")]
        if onehot:
            raise MethodError(
                f"nuts refuses {type(self.problem.model).__name__}: {', '.join(onehot)} is discrete and cannot be "
                "summed out; use inference='gibbs' or 'vb'"
            )
        self.full_pass = self.problem.full_pass()
        self.replayed = Replayed(self._with_slopes) if self.problem.steady else self._with_slopes

    def __call__(self, at: Mapping[str, Tensor]) -> Tensor:
        """Minus the log posterior density at unconstrained values, differentiable in them, once."""
        found = self.replayed({n: u.detach() for n, u in at.items()})
        value = found["value"]
        for name, u in at.items():  # makes the numbers depend on the position again
            value = value + (found[f"slope.{name}"] * (u - u.detach())).sum()
        return value

    def _with_slopes(self, at: Mapping[str, Tensor]) -> dict[str, Tensor]:
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
        total = self.full_pass(given, gradient=list(given), extra=self._prior)
        value = total.objective
        for name, g in total.gradient.items():
            value = value + (g * (leaf[name] - given[name])).sum()  # likewise
        for name, u in at.items():
            value = value + sites[name].transform.log_abs_det_jacobian(u, x[name]).sum()
        return -value

    def _prior(self, first: bool) -> Extra:
        """Log priors: those of items with each block, the others with the first."""

        def extra(sites: TraceSites, values: Mapping[str, Tensor]) -> Tensor:
            total = torch.zeros((), dtype=torch.float64)
            for name, site in self.problem.sites.items():
                if not (first or site.local):
                    continue
                fn = sites[name].fn
                if name in self.full_pass.density.log_sites:
                    total = total + DIRICHLET.full_log_prior(fn, values[name].log()).sum()
                else:
                    total = total + fn.log_prob(values[name]).sum()
            return total

        return extra

    def start(self, options: Options, chain: int) -> dict[str, Tensor]:
        """A starting point around perturbed votes (the first chain: around the votes)."""
        _, shares = self.problem.start(chain if chain != 1 else options.chains)
        state = first_state(self.problem, options, "vb", shares, chain)
        stream = options.generator(5, chain)
        out = {}
        for name, parameter in state.parameters.items():
            theta = DIRICHLET.draw(parameter, stream).exp()
            out[name] = self.problem.sites[name].transform.inv(theta)
        for name, loc in state.gaussians.loc.items():
            noise = torch.randn(loc.shape, generator=stream, dtype=loc.dtype, device=loc.device)
            out[name] = loc.detach() + 0.1 * noise
        return out


def sample(problem: Problem, options: Options) -> tuple[dict[str, Tensor], Progress, dict[str, Any]]:
    """Runs the chains one after another, each from a start of its own.

    Returns:
        Draws by site, (C, D, [1, ...] batch, event), Dirichlets as log theta; progress, with the log density of the
        chain that moved after each transition, warm-up included; divergences a chain.

    Raises:
        MethodError: for a model with a discrete site that cannot be summed out.
        KeyboardInterrupt: at Ctrl-C before the first chain has a start.
    """
    marginal = Marginal(problem)
    progress = Progress()
    chains: list[_Chain] = []
    for number in range(options.chains):
        chain = _Chain()
        try:
            with pyro_state_kept():
                _run_chain(marginal, options, number, chain, progress)
        except KeyboardInterrupt:
            progress.interrupted = True
        if chain.draws or (chain.at and not chains):  # the first chain counts even if stopped during warm-up
            chains.append(chain)
        if progress.interrupted:
            break
    if not chains:
        raise KeyboardInterrupt
    divergences = {f"chain {number}": chain.divergences for number, chain in enumerate(chains)}
    return _stack(problem, chains), progress, {"divergences": divergences}


@dataclass
class _Chain:
    """The current point of a chain, in unconstrained space, and its kept draws."""

    at: dict[str, Tensor] = field(default_factory=dict)
    draws: list[dict[str, Tensor]] = field(default_factory=list)
    divergences: int = 0


def _run_chain(marginal: Marginal, options: Options, number: int, chain: _Chain, progress: Progress) -> None:
    """Fills the chain and the objectives at each transition, so that an interruption loses nothing."""

    def hook(kernel: Any, at: Mapping[str, Tensor], stage: str, t: int) -> None:
        chain.at = {n: u.detach().clone() for n, u in at.items()}
        if stage.startswith("Sample") or stage == "sample":
            chain.divergences = len(kernel._divergences)
            chain.draws.append(chain.at)
        progress.objectives.append(-float(kernel._potential_energy_last))
        if options.callback is not None:
            options.callback(len(progress.objectives) - 1, progress.objectives[-1])

    with seeded(options.seed * 1009 + number):
        chain.at = marginal.start(options, number)
        mcmc = MCMC(
            NUTS(potential_fn=marginal),
            num_samples=options.draws,
            warmup_steps=options.warmup,
            initial_params=dict(chain.at),
            disable_progbar=not options.progress,
            hook_fn=hook,
        )
        mcmc.run()


def _stack(problem: Problem, chains: list[_Chain]) -> dict[str, Tensor]:
    """(C, D, ...) with the shortest chain's length (chains differ only after an interruption)."""
    kept = [chain.draws or [chain.at] for chain in chains]
    length = min(map(len, kept))
    out = {}
    for name, site in problem.sites.items():
        u = torch.stack([torch.stack([draw[name] for draw in draws[:length]]) for draws in kept])
        out[name] = site.leaf(site.widen(site.transform(u), problem.plates, lead=2))
    return out
