"""Pyro's NUTS on the density in which every discrete site is summed out exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from pyro.infer.mcmc import MCMC, NUTS
from torch import Tensor

from crowdppl.core.devices import pyro_state_kept, seeded
from crowdppl.inference.laplace import Marginal, constrained
from crowdppl.inference.loop import Progress
from crowdppl.inference.problem import Problem
from crowdppl.inference.state import first_state


def start(problem: Problem, chain: int) -> dict[str, Tensor]:
    """Where a chain starts: around perturbed votes (the first chain: around the votes), in unconstrained space."""
    options = problem.options
    shares = chain if chain != 1 else options.chains
    state = first_state(problem, chain, shares, points=options.guide == "point")
    stream = options.generator(5, chain)
    out = {}
    for name, parameter in state.parameters.items():
        site = problem.sites[name]
        out[name] = site.transform.inv(site.value(site.conjugate.draw(parameter, stream)))
    for name, loc in state.loc.items():
        noise = torch.randn(loc.shape, generator=stream, dtype=loc.dtype, device=loc.device)
        out[name] = loc + 0.1 * noise
    return out


def sample(problem: Problem) -> tuple[dict[str, Tensor], Progress, dict[str, Any]]:
    """Runs the chains one after another, each from a start of its own.

    Returns:
        Draws by site, (C, D, [1, ...] batch, event), conjugate sites as statistics; progress, with the log density
        of the chain that moved after each transition, warm-up included; divergences a chain.

    Raises:
        MethodError: for a model with a discrete site that cannot be summed out.
        KeyboardInterrupt: at Ctrl-C before the first chain has a start.
    """
    marginal, progress = Marginal(problem, "nuts"), Progress()
    chains: list[_Chain] = []
    for number in range(problem.options.chains):
        chain = _Chain()
        try:
            with pyro_state_kept():
                _run_chain(marginal, number, chain, progress)
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


def _run_chain(marginal: Marginal, number: int, chain: _Chain, progress: Progress) -> None:
    """Fills the chain and the objectives at each transition, so that an interruption loses nothing."""
    options = marginal.problem.options

    def hook(kernel: Any, at: Mapping[str, Tensor], stage: str, t: int) -> None:
        chain.at = {n: u.detach().clone() for n, u in at.items()}
        if stage.startswith("Sample") or stage == "sample":
            chain.divergences = len(kernel._divergences)
            chain.draws.append(chain.at)
        progress.objectives.append(-float(kernel._potential_energy_last))
        if options.callback is not None:
            options.callback(len(progress.objectives) - 1, progress.objectives[-1])

    with seeded(options.seed * 1009 + number):
        chain.at = start(marginal.problem, number)
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
    stacked = {
        name: torch.stack([torch.stack([draw[name] for draw in draws[:length]]) for draws in kept])
        for name in problem.sites
    }
    return constrained(problem, stacked)
