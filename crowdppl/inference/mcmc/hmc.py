"""Hamiltonian Monte Carlo for a few prior parameters, all chains at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

LogDensity = Callable[[Mapping[str, Tensor]], tuple[Tensor, dict[str, Tensor]]]
"""From positions by site to the log density (C,) and its gradient by each position."""
TARGET = 0.8
"""Acceptance rate to which step sizes adapt."""
LEAPS = 8
FIRST_LOG_STEP = -2.0
RESCALE_AT = (50, 125)
"""Calls after which masses are set from the recent past, and step sizes adapt anew."""


@dataclass
class Hmc:
    """A sampler that moves every chain by one trajectory a call, with a step size of its own.

    Step sizes and masses adapt while ``adapting`` and are frozen afterwards (Hoffman & Gelman 2014, dual
    averaging).

    Args:
        at: unconstrained position by site, (C, ...).
        chains: C.
    """

    at: dict[str, Tensor]
    chains: int
    log_step: Tensor = field(init=False)

    def __post_init__(self) -> None:
        device = next(iter(self.at.values())).device
        self.log_step = torch.full((self.chains,), FIRST_LOG_STEP, dtype=torch.float64, device=device)
        self._average = self.log_step.clone()
        self._error = torch.zeros_like(self.log_step)
        self._time = self._calls = 0
        self._scale = {n: torch.ones_like(x[:1]) for n, x in self.at.items()}
        self._visited: list[dict[str, Tensor]] = []

    def move(self, log_density: LogDensity, generator: torch.Generator, *, adapting: bool) -> None:
        """One trajectory a chain, accepted or rejected; the density is independent over chains."""
        start = {n: x.detach() for n, x in self.at.items()}
        momentum = {
            n: torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device) for n, x in start.items()
        }
        value, slope = log_density(start)
        before = value - self._kinetic(momentum)
        at, p = dict(start), momentum
        leaps = int(torch.randint(LEAPS // 2, LEAPS + 1, (1,), generator=generator, device=generator.device))
        for _ in range(leaps):
            p = {n: p[n] + 0.5 * self._scaled(slope[n], n) for n in p}
            at = {n: at[n] + self._scaled(p[n], n) for n in at}
            value, slope = log_density(at)
            p = {n: p[n] + 0.5 * self._scaled(slope[n], n) for n in p}
        chance = (value - self._kinetic(p) - before).exp().clamp(max=1).nan_to_num(0.0)
        u = torch.rand(self.chains, generator=generator, dtype=torch.float64, device=chance.device)
        self.at = where(u < chance, at, start)
        if adapting:
            self._adapt(chance)

    def freeze(self) -> None:
        """Ends adaptation: the averaged step size is used from now on."""
        if self._time:
            self.log_step = self._average.clone()

    def _scaled(self, x: Tensor, name: str) -> Tensor:
        return _wide(self.log_step.exp(), x) * self._scale[name] * x

    def _kinetic(self, p: Mapping[str, Tensor]) -> Tensor:
        return torch.stack([0.5 * x.square().reshape(self.chains, -1).sum(1) for x in p.values()]).sum(0)

    def _adapt(self, chance: Tensor) -> None:
        self._calls += 1
        self._time += 1
        t = self._time
        self._error = (1 - 1 / (t + 10)) * self._error + (TARGET - chance) / (t + 10)
        self.log_step = FIRST_LOG_STEP + 1.0 - t**0.5 / 0.05 * self._error
        weight = t**-0.75
        self._average = weight * self.log_step + (1 - weight) * self._average
        self._visited.append(self.at)
        if self._calls in RESCALE_AT:
            recent = self._visited[len(self._visited) // 2 :]
            for name in self._scale:
                draws = torch.stack([s[name] for s in recent])
                self._scale[name] = draws.var((0, 1), keepdim=True)[0].sqrt().clamp(min=1e-3)
            self._visited, self._time, self._error = [], 0, torch.zeros_like(self._error)


def where(chains: Tensor, new: Mapping[str, Tensor], old: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values by site, (C, ...): new ones of some chains, bool (C,), old ones of the others."""
    return {n: torch.where(_wide(chains, x), new[n], x) for n, x in old.items()}


def _wide(x: Tensor, like: Tensor) -> Tensor:
    return x.reshape((-1,) + (1,) * (like.dim() - 1))
