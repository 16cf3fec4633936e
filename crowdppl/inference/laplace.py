"""Laplace's approximation at the mode of a model's marginal density, in unconstrained space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.assembly import result_of_draws
from crowdppl.inference.density import Extra, TraceSites
from crowdppl.inference.loop import Progress, Run, diagnostics_of, iterate, run_each, starts_of
from crowdppl.inference.optimisers import LBFGSAscent
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import FitResult
from crowdppl.inference.state import first_state, refuse_inferred_priors

LOOKS, MOST = 12, 1000
"""Evaluations of the density in an iteration, and iterations at most."""
LARGEST = 5_000
"""Numbers whose curvature is found at most: it takes a backward pass and a row of a matrix for each."""
STREAM = 23
"""Key of the random numbers of the draws."""

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class LaplaceState:
    """Where the search for the mode stands: unconstrained values by site, and what it knows of the curvature."""

    at: Tensors
    memory: Tensors = field(default_factory=dict)


@dataclass(frozen=True)
class LaplaceRun(Run):
    """A run from one start, with its last state."""

    state: LaplaceState


def start(problem: Problem, number: int = 0) -> LaplaceState:
    """Where a start begins: at the means of its mean field.

    MethodError for a model with a one-hot site or inferred priors, or with too many numbers.
    """
    Marginal(problem, "laplace")
    refuse_inferred_priors(problem, "laplace")
    state, sites = first_state(problem, number, points=True), problem.sites
    means = {n: sites[n].transform.inv(sites[n].conjugate.mean_value(x)) for n, x in state.parameters.items()}
    at = {name: (means | state.loc)[name] for name in sites}
    size = sum(x.numel() for x in at.values())
    if size > LARGEST:
        raise MethodError(
            f"laplace finds the curvature of at most {LARGEST:,} numbers, and {type(problem.model).__name__} has "
            f"{size:,} on these data; use inference='vb' or 'nuts'"
        )
    return LaplaceState(at)


def step(problem: Problem, state: LaplaceState) -> tuple[LaplaceState, float]:
    """One iteration of the search for the mode: the next state, and its log density."""
    marginal = Marginal(problem, "laplace")
    at = {n: x.clone() for n, x in state.at.items()}
    leaves = [x.detach().requires_grad_() for x in at.values()]

    def objective() -> tuple[float, list[Tensor]]:
        found = problem.replay("marginal", marginal.with_slopes, at)
        return -float(found["value"]), [-found[f"slope.{name}"] for name in at]

    search = LBFGSAscent(leaves, LOOKS, LOOKS, state.memory)
    value = search(objective)  # moves the numbers that ``at`` shares with the leaves
    return LaplaceState(at, search.memory), value


def precision(problem: Problem, at: Mapping[str, Tensor]) -> Tensor:
    """Minus the second derivatives of the log density, (n, n) over all numbers of all sites in turn."""
    marginal, shapes = Marginal(problem, "laplace"), {n: x.shape for n, x in at.items()}

    def log_density(flat: Tensor) -> Tensor:
        parts = flat.split([shape.numel() for shape in shapes.values()])
        return marginal.log_density({n: x.reshape(shapes[n]) for n, x in zip(shapes, parts, strict=True)})

    flat = torch.cat([x.reshape(-1) for x in at.values()])
    second: Tensor = torch.autograd.functional.hessian(log_density, flat)
    return -second


def draws_at(problem: Problem, at: Mapping[str, Tensor]) -> Tensors:
    """Draws from the Gaussian at a mode, (1, D, [1, ...] batch, event) by site, conjugate sites as statistics.

    MethodError where the density has no maximum there.
    """
    factor, failed = torch.linalg.cholesky_ex(precision(problem, at))
    if bool(failed):
        raise MethodError(
            f"laplace found no maximum of the posterior of {type(problem.model).__name__}: some direction does not "
            "curve downwards where its search ended; raise max_iterations, or use inference='vb' or 'nuts'"
        )
    stream, flat = problem.options.generator(STREAM), torch.cat([x.reshape(-1) for x in at.values()])
    noise = torch.randn((len(flat), problem.options.draws), generator=stream, dtype=flat.dtype, device=flat.device)
    drawn = flat + torch.linalg.solve_triangular(factor.mT, noise, upper=True).mT
    parts = drawn.split([x.numel() for x in at.values()], 1)
    u = {n: part.reshape(1, -1, *x.shape) for (n, x), part in zip(at.items(), parts, strict=True)}
    return constrained(problem, u)


def fit(problem: Problem) -> list[LaplaceRun]:
    """Searches for the mode from each start; the highest comes first."""

    def run(number: int) -> LaplaceRun:
        options, name = problem.options, problem.start_name(number)
        how: dict[str, Any] = {"steps": options.max_iterations or MOST, "tolerance": problem.tolerance}
        state, progress = iterate(
            partial(step, problem), start(problem, number), options, name=f"laplace from {name}", **how
        )
        return LaplaceRun(name, progress, progress.objectives[-1] if progress.objectives else -np.inf, state)

    return run_each(run, problem.options.restarts)


def sample(problem: Problem) -> tuple[Tensors, Progress]:
    """Draws by site, (1, D, ...), and how the search for the mode went."""
    best = fit(problem)[0]
    return draws_at(problem, best.state.at), best.progress


def run(problem: Problem, order: np.ndarray) -> FitResult:
    """The result of a fit; ``order`` has item codes by position.

    MethodError where no maximum is found. KeyboardInterrupt at Ctrl-C before one is.
    """
    runs, notes = fit(problem), []
    progress = runs[0].progress
    try:
        draws = draws_at(problem, runs[0].state.at)
    except MethodError:
        if progress.interrupted:
            raise KeyboardInterrupt from None
        raise
    if progress.interrupted:
        notes.append(f"laplace was stopped after {progress.iterations} iterations, short of the mode")
    elif not progress.converged:
        notes.append(f"laplace did not converge after {progress.iterations} iterations; raise max_iterations")
    diagnostics = diagnostics_of(progress, progress.converged, notes) | starts_of(runs)
    return result_of_draws(problem, order, draws, diagnostics)


def capability(problem: Problem) -> str:
    """What laplace does with a problem: it moves along gradients; a ``MethodError`` where it refuses."""
    start(problem)
    return "gradient"


@dataclass(frozen=True)
class Marginal:
    """Potential energy of a model's continuous sites in unconstrained space, every discrete site summed out.

    An engine moves on it. MethodError for a model with a one-hot site.
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
