"""Hamiltonian Monte Carlo for a few prior parameters, all chains at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
LogDensity = Callable[[Mapping[str, Tensor]], tuple[Tensor, Tensors]]
"""From positions by site to the log density (C,) and its gradient by each position."""
TARGET = 0.8
"""Acceptance rate to which step sizes adapt."""
LEAPS = 8
FIRST_LOG_STEP = -2.0
RESCALE_AT = (50, 125)
"""Calls after which masses are set from the recent past, and step sizes adapt anew."""


@dataclass(frozen=True)
class HmcState:
    """Where the chains are, and what they have learned of their steps.

    Attributes:
        at: unconstrained position by site, (C, ...).
        log_step, average, error: (C,), of dual averaging (Hoffman & Gelman 2014).
        time, calls: trajectories since step sizes adapt anew, and in all.
        scale: (1, ...) by site, the inverse square roots of masses.
        visited: positions since masses were set, (V, C, ...) by site; empty once they no longer change.
    """

    at: Tensors
    log_step: Tensor
    average: Tensor
    error: Tensor
    time: Tensor
    calls: Tensor
    scale: Tensors
    visited: Tensors

    @staticmethod
    def of(at: Mapping[str, Tensor], chains: int, device: torch.device) -> HmcState:
        """Chains that have learned nothing yet."""
        step = torch.full((chains,), FIRST_LOG_STEP, dtype=torch.float64, device=device)
        none, scale = torch.zeros((), dtype=torch.int64), {n: torch.ones_like(x[:1]) for n, x in at.items()}
        visited = {n: x.new_zeros(0, *x.shape) for n, x in at.items()}
        return HmcState(dict(at), step, step, torch.zeros_like(step), none, none, scale, visited)


def moved(state: HmcState, log_density: LogDensity, generator: torch.Generator, *, adapting: bool) -> HmcState:
    """After one trajectory a chain, accepted or rejected; the density is independent over chains.

    Each chain has a step size of its own. Step sizes and masses adapt while ``adapting``.
    """
    start = state.at
    momentum = {
        n: torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device) for n, x in start.items()
    }
    value, slope = log_density(start)
    before = value - _kinetic(momentum)
    at, p = dict(start), momentum
    leaps = int(torch.randint(LEAPS // 2, LEAPS + 1, (1,), generator=generator, device=generator.device))
    for _ in range(leaps):
        p = {n: p[n] + 0.5 * _scaled(state, slope[n], n) for n in p}
        at = {n: at[n] + _scaled(state, p[n], n) for n in at}
        value, slope = log_density(at)
        p = {n: p[n] + 0.5 * _scaled(state, slope[n], n) for n in p}
    chance = (value - _kinetic(p) - before).exp().clamp(max=1).nan_to_num(0.0)
    u = torch.rand(len(chance), generator=generator, dtype=torch.float64, device=chance.device)
    state = replace(state, at=where(u < chance, at, start))
    return _adapted(state, chance) if adapting else state


def _scaled(state: HmcState, x: Tensor, name: str) -> Tensor:
    return _wide(state.log_step.exp(), x) * state.scale[name] * x


def _kinetic(p: Mapping[str, Tensor]) -> Tensor:
    return torch.stack([0.5 * x.square().reshape(len(x), -1).sum(1) for x in p.values()]).sum(0)


def _adapted(state: HmcState, chance: Tensor) -> HmcState:
    """Step sizes after a trajectory with these chances, and masses where it is time."""
    t, calls = int(state.time) + 1, state.calls + 1
    error = (1 - 1 / (t + 10)) * state.error + (TARGET - chance) / (t + 10)
    log_step = FIRST_LOG_STEP + 1.0 - t**0.5 / 0.05 * error
    weight = t**-0.75
    average = weight * log_step + (1 - weight) * state.average
    state = replace(state, log_step=log_step, average=average, error=error, time=state.time + 1, calls=calls)
    if int(calls) > RESCALE_AT[-1]:
        return state
    visited = {n: torch.cat([x, state.at[n][None]]) for n, x in state.visited.items()}
    if int(calls) not in RESCALE_AT:
        return replace(state, visited=visited)
    recent = {n: x[len(x) // 2 :] for n, x in visited.items()}
    scale = {n: x.var((0, 1), keepdim=True)[0].sqrt().clamp(min=1e-3) for n, x in recent.items()}
    visited = {n: x[:0] for n, x in visited.items()}
    return replace(state, scale=scale, visited=visited, time=state.time * 0, error=torch.zeros_like(error))


def where(chains: Tensor, new: Mapping[str, Tensor], old: Mapping[str, Tensor]) -> Tensors:
    """Values by site, (C, ...): new ones of some chains, bool (C,), old ones of the others."""
    return {n: torch.where(_wide(chains, x), new[n], x) for n, x in old.items()}


def _wide(x: Tensor, like: Tensor) -> Tensor:
    return x.reshape((-1,) + (1,) * (like.dim() - 1))
