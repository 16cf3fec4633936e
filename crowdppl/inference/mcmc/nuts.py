"""Pyro's NUTS on the density in which every discrete site is summed out exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from pyro.infer.mcmc import MCMC, NUTS
from torch import Tensor

from crowdppl.core.devices import pyro_state_kept, seeded
from crowdppl.inference.engine import SAMPLING, Engine
from crowdppl.inference.loop import Progress
from crowdppl.inference.mcmc.chains import result_of_chains
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import FitResult
from crowdppl.inference.target import Target


def sample(problem: Problem) -> tuple[dict[str, Tensor], Progress, dict[str, Any]]:
    """Runs the chains one after another, each from a start of its own.

    Returns:
        Draws by site, (C, D, [1, ...] batch, event), conjugate sites as statistics; progress, with the log density
        of the chain that moved after each transition, warm-up included; divergences a chain.

    Raises:
        MethodError: for a model with a discrete site that cannot be summed out.
        KeyboardInterrupt: at Ctrl-C before the first chain has a start.
    """
    target, progress = Target(problem, "nuts"), Progress()
    chains: list[_Chain] = []
    for number in range(problem.options.chains):
        chain = _Chain()
        try:
            with pyro_state_kept():
                _run_chain(target, number, chain, progress)
        except KeyboardInterrupt:
            progress.interrupted = True
        if chain.draws or (chain.at is not None and not chains):  # the first counts even if stopped in its warm-up
            chains.append(chain)
        if progress.interrupted:
            break
    if not chains:
        raise KeyboardInterrupt
    divergences = {f"chain {number}": chain.divergences for number, chain in enumerate(chains)}
    kept: Any = [chain.draws or [chain.at] for chain in chains]
    length = min(map(len, kept))  # chains differ only after an interruption
    stacked = torch.stack([torch.stack(draws[:length]) for draws in kept])
    return target.sites(stacked), progress, {"divergences": divergences}


@dataclass
class _Chain:
    """The current vector of a chain, and its kept draws."""

    at: Tensor | None = None
    draws: list[Tensor] = field(default_factory=list)
    divergences: int = 0


def potential(target: Target, at: Mapping[str, Tensor]) -> Tensor:
    """Minus the log density at unconstrained values of the sites, differentiable in them, once."""
    u = target.flat(at)
    value, slope = target.value_and_slope(u)
    return -(value + (slope * (u - u.detach())).sum())


def _run_chain(target: Target, number: int, chain: _Chain, progress: Progress) -> None:
    """Fills the chain and the objectives at each transition, so that an interruption loses nothing."""
    options = target.problem.options

    def hook(kernel: Any, at: Mapping[str, Tensor], stage: str, t: int) -> None:
        chain.at = target.flat(at).detach()
        if stage.startswith("Sample") or stage == "sample":
            chain.divergences = len(kernel._divergences)
            chain.draws.append(chain.at)
        progress.objectives.append(-float(kernel._potential_energy_last))
        if options.callback is not None:
            options.callback(len(progress.objectives) - 1, progress.objectives[-1])

    with seeded(options.seed * 1009 + number):
        chain.at = target.drawn_start(number, options.generator(5, number), options.chains)
        mcmc = MCMC(
            NUTS(potential_fn=partial(potential, target)),
            num_samples=options.draws,
            warmup_steps=options.warmup,
            initial_params=target.by_site(chain.at),
            disable_progbar=not options.progress,
            hook_fn=hook,
        )
        mcmc.run()


def run(problem: Problem, order: np.ndarray) -> FitResult:
    """The result of a fit; ``order`` has item codes by position."""
    return result_of_chains("nuts", problem, order, *sample(problem))


def capability(problem: Problem) -> str:
    """What nuts does with a problem: it moves along gradients; a ``MethodError`` where it refuses."""
    Target(problem, "nuts")
    return "gradient"


ENGINE = Engine("nuts", run, capability, SAMPLING, sample=sample)
