"""Laplace's approximation at the mode of a model's marginal density, in unconstrained space."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.assembly import result_of_draws
from crowdppl.inference.checkpoint import beside, checkpoint_of
from crowdppl.inference.engine import ASCENT, KEPT, Engine
from crowdppl.inference.loop import Progress, Run, diagnostics_of_runs, iterate, run_each
from crowdppl.inference.problem import Problem
from crowdppl.inference.replay import arrays_of, put_back
from crowdppl.inference.result import FitResult
from crowdppl.inference.state import refuse_inferred_priors
from crowdppl.inference.target import Target

LOOKS, MOST = 12, 1000
"""Evaluations of the density in an iteration, and iterations at most."""
LARGEST = 5_000
"""Numbers whose curvature is found at most: it takes a backward pass and a row of a matrix for each."""
STREAM = 23
"""Key of the random numbers of the draws."""


@dataclass(frozen=True)
class LaplaceState:
    """Where the search for the mode stands: a vector, (n,), and what it knows of the curvature."""

    at: Tensor
    memory: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class LaplaceRun(Run):
    """A run from one start, with its last state."""

    state: LaplaceState


def start(problem: Problem, number: int = 0) -> LaplaceState:
    """Where a start begins: at the means of its mean field.

    MethodError for a model with a one-hot site or inferred priors, or with too many numbers.
    """
    target = Target(problem, "laplace")
    refuse_inferred_priors(problem, "laplace")
    at = target.start(number)
    if len(at) > LARGEST:
        raise MethodError(
            f"laplace finds the curvature of at most {LARGEST:,} numbers, and {type(problem.model).__name__} has "
            f"{len(at):,} on these data; use inference='vb' or 'nuts'"
        )
    return LaplaceState(at)


def step(problem: Problem, state: LaplaceState) -> tuple[LaplaceState, float]:
    """One iteration of the search for the mode: the next state, and its log density."""
    at, memory, value = Target(problem, "laplace").climb(state.at, LOOKS, state.memory)
    return LaplaceState(at, memory), value


def draws_at(problem: Problem, at: Tensor) -> dict[str, Tensor]:
    """Draws from the Gaussian at a mode (n,), (1, D, [1, ...] batch, event) by site, conjugate sites as statistics.

    MethodError where the density has no maximum there.
    """
    target, stream = Target(problem, "laplace"), problem.options.generator(STREAM)
    draws = target.draws_around(at, problem.options.draws, stream)
    if draws is None:
        raise MethodError(
            f"laplace found no maximum of the posterior of {type(problem.model).__name__}: some direction does not "
            "curve downwards where its search ended; raise max_iterations, or use inference='vb' or 'nuts'"
        )
    return target.sites(draws[None])


def fit(problem: Problem) -> list[LaplaceRun]:
    """Searches for the mode from each start; the highest comes first."""
    options = problem.options

    def run(number: int) -> LaplaceRun:
        name, first = problem.start_name(number), start(problem, number)
        own = beside(options, f"{number}") if number else options
        state, progress = iterate(
            partial(step, problem),
            first,
            own,
            steps=options.max_iterations or MOST,
            tolerance=problem.tolerance,
            name=f"laplace from {name}",
            checkpoint=checkpoint_of(problem, own, "laplace", arrays_of, lambda x, _: put_back(first, x)),
        )
        return LaplaceRun(name, progress, progress.objectives[-1] if progress.objectives else -np.inf, state)

    return run_each(run, options.restarts)


def sample(problem: Problem) -> tuple[dict[str, Tensor], Progress]:
    """Draws by site, (1, D, ...), and how the search for the mode went."""
    best = fit(problem)[0]
    return draws_at(problem, best.state.at), best.progress


def run(problem: Problem, order: np.ndarray) -> FitResult:
    """The result of a fit; ``order`` has item codes by position.

    MethodError where no maximum is found. KeyboardInterrupt at Ctrl-C before one is.
    """
    runs = fit(problem)
    try:
        draws = draws_at(problem, runs[0].state.at)
    except MethodError:
        if runs[0].progress.interrupted:
            raise KeyboardInterrupt from None
        raise
    diagnostics = diagnostics_of_runs("laplace", runs, "raise max_iterations")
    return result_of_draws(problem, order, draws, diagnostics)


def capability(problem: Problem) -> str:
    """What laplace does with a problem: it moves along gradients; a ``MethodError`` where it refuses."""
    start(problem)
    return "gradient"


ENGINE = Engine("laplace", run, capability, (*ASCENT, *KEPT, "draws"), sample=sample)
