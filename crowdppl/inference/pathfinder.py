"""Pathfinder: the best normal approximation along each of several paths to a mode, and importance resampling.

Zhang, Carpenter, Gelman & Vehtari 2022, "Pathfinder: parallel quasi-Newton variational inference", JMLR 23(306).
Weights whose Pareto k is above .7 are raised to the power .7 / k: with a longer tail, few draws would be left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributions as dist
from torch import Tensor

from crowdppl.core.importance import notes_on_tail, weights_of
from crowdppl.inference.assembly import result_of_draws
from crowdppl.inference.engine import Engine
from crowdppl.inference.loop import Run, diagnostics_of_runs, iterate, run_each
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import FitResult
from crowdppl.inference.sites import CentredSoftmax
from crowdppl.inference.target import Target

LOOKS, MOST, PATIENCE, TRIED, STREAM = 4, 250, 10, 20, 29
"""Looks at the density in a step of a path, most steps, and steps after the best normal; draws for an ELBO; key."""


@dataclass(frozen=True)
class Normal:
    """A normal of n numbers: draws are ``mean + scale * (z + basis (factor - 1) basis' z)``, z standard normal."""

    mean: Tensor  # (n,)
    scale: Tensor  # (n,)
    basis: Tensor  # (n, r), orthonormal
    factor: Tensor  # (r, r), lower triangular

    @classmethod
    def at(cls, target: Target, u: Tensor, memory: dict[str, Tensor]) -> Normal:
        """By what L-BFGS knows at a vector: its last m steps, (m, n), and how the slope fell over each."""
        steps, turns = (memory.get(key, u[:0]).reshape(-1, len(u)) for key in ("old_stps", "old_dirs"))
        diagonal, m, (_, slope) = torch.ones_like(u), len(steps), target.value_and_slope(u)
        for s, z in zip(steps, turns, strict=True):
            a, b, c = (z * z * diagonal).sum(), (s * z).sum(), (s * s / diagonal).sum()
            diagonal = 1 / (a / (b * diagonal) + z * z / b - a * s * s / (b * c * diagonal**2))
        products, wide = steps @ turns.mT, torch.cat([diagonal * turns, steps]).mT
        back, inner = torch.linalg.inv(products.triu()), products.diagonal().diag() + turns @ wide[:, :m]
        core = torch.cat([torch.cat([0 * back, -back], 1), torch.cat([-back.mT, back.mT @ inner @ back], 1)])
        basis, upper = torch.linalg.qr(wide / diagonal.sqrt()[:, None])
        factor, failed = torch.linalg.cholesky_ex(torch.eye(len(upper)).to(u) + upper @ core @ upper.mT)
        factor = factor.masked_fill(failed > 0, torch.nan)  # of an ELBO that is no number, and never the best
        return cls(u + diagonal * slope + wide @ (core @ (wide.mT @ slope)), diagonal.sqrt(), basis, factor)

    def draw(self, n: int, stream: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws (n, size), and the log density of each."""
        z = torch.randn((n, len(self.mean)), generator=stream, dtype=self.mean.dtype, device=self.mean.device)
        own = z @ self.basis
        wide = z + (own @ self.factor.mT - own) @ self.basis.mT
        size = self.scale.log().sum() + self.factor.diagonal().log().sum()
        return self.mean + self.scale * wide, dist.Normal(0.0, 1.0).log_prob(z).sum(1) - size


@dataclass(frozen=True)
class Path(Run):
    """A run along one path, whose objective is the ELBO of its best normal."""

    normal: Normal


def target_of(problem: Problem) -> Target:
    """The density on which paths climb."""
    return Target(problem, "pathfinder", CentredSoftmax())


def path(problem: Problem, number: int) -> Path:
    """Climbs from one start by L-BFGS; of the normals of its steps, that of the highest ELBO is kept."""
    target, options, stream = target_of(problem), problem.options, problem.options.generator(STREAM, number)
    name, u = problem.start_name(number), target.drawn_start(number, stream, problem.options.chains)
    best, normal, late = -math.inf, Normal.at(target, u, {}), 0

    def step(state: Any) -> tuple[Any, float]:  # a vector, what is known of the curvature, and the log density
        nonlocal best, normal, late
        if late == PATIENCE:
            return state, state[2]  # which is no gain, and ends the path
        u, memory, value = target.climb(state[0], LOOKS, state[1])
        here = Normal.at(target, u, memory)
        tried, log_q = here.draw(TRIED, stream)
        elbo = float((target.many(tried) - log_q).mean())
        best, normal, late = (elbo, here, 0) if elbo > best else (best, normal, late + 1)
        return (u, memory, value), value

    how: Any = {
        "steps": options.max_iterations or MOST,
        "tolerance": problem.tolerance,
        "name": f"path from {name}",
    }
    _, progress = iterate(step, (u, {}, best), options, **how)
    return Path(name, progress, best, normal)


def sample(problem: Problem) -> tuple[dict[str, Tensor], list[Path], float]:
    """Draws by site, (1, D, ...), the paths, the best first, and the Pareto k of their importance weights."""
    target, options = target_of(problem), problem.options
    paths, stream = run_each(partial(path, problem), options.chains), options.generator(STREAM, options.chains)
    u, log_q = map(torch.cat, zip(*(one.normal.draw(options.draws, stream) for one in paths), strict=True))
    found, k = weights_of((target.many(u) - log_q).cpu().numpy())
    weights = torch.from_numpy(found).to(u)
    return target.sites(u[weights.multinomial(options.draws, True, generator=stream)][None]), paths, k


def run(problem: Problem, order: np.ndarray) -> FitResult:
    """The result of a fit; ``order`` has item codes by position."""
    draws, paths, k = sample(problem)
    diagnostics = diagnostics_of_runs("pathfinder", paths, "raise max_iterations") | {"pareto_k": k}
    diagnostics["warnings"] += notes_on_tail(k)
    diagnostics["converged"] &= not notes_on_tail(k)
    return result_of_draws(problem, order, draws, diagnostics)


def capability(problem: Problem) -> str:
    """What pathfinder does with a problem: it moves along gradients; a ``MethodError`` where it refuses."""
    target_of(problem)
    return "gradient"


ENGINE = Engine("pathfinder", run, capability, ("tolerance", "max_iterations", "chains", "draws"), sample=sample)
