"""Fits by em and vb: full batch, minibatch, acceleration and resumption."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.checkpoint import checkpoint_of
from crowdppl.inference.loop import Progress, Run, iterate, run_each
from crowdppl.inference.neural.learner import FullBatch, Learner, refuse_options
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.state import first_state
from crowdppl.inference.vb.coordinate_ascent import Ascent, MapUpdate, MeanFieldUpdate, UpdateRule
from crowdppl.inference.vb.gaussians import PARTICLES
from crowdppl.networks.outputs import network_of
from crowdppl.networks.training import training_of

EPOCHS = 3
DELAY, FORGETTING = 1.0, 0.6
"""Step t of minibatches has rate (t + delay) ** -forgetting (Hoffman et al. 2013)."""
GROWTH = 4.0
"""Factor by which the longest extrapolation grows after a success, and shrinks after a failure."""
KEPT = 0.1
"""Least part of a concentration that an extrapolation leaves of it."""
MOST_DRAWS, DRAWS_X_LABELS = 64, 40_000
"""Quadrature draws at most, and draws times labels at most. With more draws, results depend less on the seed."""


@dataclass(frozen=True)
class VbRun(Run):
    """A run of em or vb; ``ascent`` is the engine at its last state."""

    ascent: Ascent


def run_starts(problem: Problem, options: Options, engine: str) -> list[VbRun]:
    """Runs em or vb from each start; the best comes first.

    Raises:
        MethodError: when em meets a prior below 1 or a hierarchical prior.
    """
    learner = learner_of(problem, options)

    def run(number: int) -> VbRun:
        name, shares = problem.start(number)
        ascent = prepare(problem, options, engine, shares, number)
        title = f"{engine} from {name}"
        if learner is None:
            ascent, progress = _run(problem, options, ascent, title, number)
        else:
            ascent.learner = learner
            progress = _run_with(learner, options, ascent, title, engine)
        return VbRun(name, progress, progress.objectives[-1] if progress.objectives else -np.inf, ascent)

    return run_each(run, options.restarts)


def prepare(problem: Problem, options: Options, engine: str, shares: Tensor | None, number: int = 0) -> Ascent:
    """The engine at its start; arguments and errors as of ``first_state``."""
    rule: UpdateRule = MapUpdate() if engine == "em" else MeanFieldUpdate()
    state = first_state(problem, options, engine, shares, number)
    chains = state.gaussians.chains if problem.of_kind("free") else None
    return Ascent(problem.full_pass(chains), rule, state, repeats=problem.steady, kind=problem.kind)


def _run(problem: Problem, options: Options, ascent: Ascent, title: str, number: int) -> tuple[Ascent, Progress]:
    """A run from one start, until the objective converges; then again, with more draws of Gaussians."""
    if options.batch_size is not None and options.batch_size < problem.n_items:
        warm_up(ascent, problem, options)
    in_labels, most = ascent.current.gaussians_in_labels, options.max_iterations or 1000
    extrapolates = isinstance(ascent.rule, MeanFieldUpdate) and not ascent.state.logits and not in_labels
    fit = Extrapolation(ascent, problem.tolerance) if extrapolates else ascent
    progress = iterate(lambda t: fit.step(), options, steps=most, tolerance=problem.tolerance, name=title)
    before, callback = progress.iterations, options.callback
    finer = None
    if progress.converged and before < most:
        finer = with_more_draws(problem, ascent, options.seed + number)
    if finer is None:
        return ascent, progress
    if callback is not None:
        options = replace(options, callback=lambda t, value: callback(before + t, value))
    ascent, steps = finer, most - before
    progress = iterate(lambda t: ascent.step(), options, steps=steps, tolerance=problem.tolerance, name=title)
    progress.before = before
    return ascent, progress


def learner_of(problem: Problem, options: Options) -> Learner | None:
    """The trainer of the model's network, where it has one; made first, because it writes the blocks' outputs.

    Raises:
        MethodError: for options that have no meaning where a network learns.
    """
    if network_of(problem.model) is None:
        return None
    training = training_of(getattr(problem.model, "training", {}))
    refuse_options(options, "batch_size", "max_iterations", *(() if training.full_batch else ("tolerance",)))
    if options.restarts > 1:
        raise MethodError(
            f"restarts={options.restarts} has no meaning where a network learns; fit with several seeds"
        )
    return (FullBatch if training.full_batch else Learner)(problem, training)


def _run_with(learner: Learner, options: Options, ascent: Ascent, title: str, engine: str) -> Progress:
    """A run of as many iterations as the network's training has epochs; in full batch, at most."""

    def restore(arrays: dict[str, Tensor], epochs: int) -> None:
        ascent.state.restore(arrays)
        learner.restore(arrays, epochs)

    full = learner.training.full_batch
    progress = iterate(
        lambda t: ascent.step(),
        options,
        steps=learner.training.length,
        tolerance=learner.problem.tolerance if full else None,
        name=title,
        checkpoint=checkpoint_of(
            learner.problem, options, engine, lambda: ascent.state.arrays() | learner.arrays(), restore
        ),
    )
    learner.finish(progress.interrupted)
    if not full or learner.training.stop_after is not None:
        progress.converged = not progress.interrupted
    return progress


def warm_up(ascent: Ascent, problem: Problem, options: Options) -> None:
    """Moves a fit at its start by a few epochs over minibatches, before full passes.

    Dirichlets move by natural gradients, one-hot sites by averaged logits (assigned logits would follow every
    batch), prior parameters as in full batch.

    Raises:
        MethodError: for em, and for models with sites of items or other sites that need gradients.
    """
    assert options.batch_size is not None
    if not isinstance(ascent.rule, MeanFieldUpdate):
        raise MethodError("batch_size is an option of vb and svi; em runs over all items (use inference='vb')")
    free = [n for n in ascent.state.gaussians.sites if problem.sites[n].kind == "free"]
    if free:
        raise MethodError(
            f"vb with batch_size refuses {type(problem.model).__name__}: {', '.join(free)} has no natural "
            "gradient; leave batch_size out"
        )
    rng = np.random.default_rng(options.seed)
    share = options.batch_size / problem.n_items
    t = 0
    for _ in range(EPOCHS):
        for block in problem.blocks:
            size = max(1, round(share * block.n_items))
            order = rng.permutation(block.n_items)
            for chosen in np.array_split(order, max(1, block.n_items // size)):
                batch = block.subset(np.sort(chosen), problem.n_items / len(chosen))
                _minibatch_step(ascent, batch, (t + DELAY) ** -FORGETTING)
                t += 1


def _minibatch_step(ascent: Ascent, batch: Block, rate: float) -> None:
    """A step of an engine whose only block is the minibatch, and which shares the state."""
    before = {n: x.clone() for n, x in ascent.state.logits.items()}
    full_pass = replace(ascent.full_pass, blocks=[replace(batch, offset=0)])
    Ascent(full_pass, MeanFieldUpdate(rate), ascent.state).step()
    for name, old in before.items():
        ascent.state.logits[name] = torch.lerp(old, ascent.state.logits[name], rate)


Arrays = dict[str, Tensor]


@dataclass
class Extrapolation:
    """Iterations of which, from the third on, every second begins at an extrapolated point.

    Two iterations from x0 to x1 = M(x0) and x2 = M(x1) show a direction and how it bends; the next begins at
    ``x0 + 2 s (x1 - x0) + s^2 (x2 - 2 x1 + x0)`` with ``s = |x1 - x0| / |x2 - 2 x1 + x0|`` (SQUAREM, scheme S3 of
    Varadhan & Roland 2008, "Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm"). Where the objective there does not exceed that at x1 by more than the tolerance, it begins at x2,
    which costs one more pass. So objectives of iterations never fall, and convergence is judged by plain iterations
    alone.

    Args:
        ascent: a fit by vb, without one-hot sites, whose labels depend on no Gaussian.
        tolerance: relative gain below which it has converged.
    """

    ascent: Ascent
    tolerance: float
    _past: list[Arrays] = field(default_factory=list)
    _last: float = float("-inf")
    _longest: float = GROWTH

    def step(self) -> float:
        """One iteration; returns the objective at its start."""
        if len(self._past) == 2:
            value = self._step_from_ahead(*self._past)
            if value is not None:
                return value
        self._past.append(self.ascent.state.copy())
        self._last = self.ascent.step()
        return self._last

    def _step_from_ahead(self, start: Arrays, middle: Arrays) -> float | None:
        """An iteration from the extrapolated point; None where it does not pay, and nothing has moved."""
        state, self._past = self.ascent.state, []
        here = state.copy()
        ahead, length = self._extrapolated(start, middle, here)
        if length <= 1:
            return None
        try:
            state.restore(ahead)
            value = self.ascent.step()
        except NumericalError:  # the point is out of range; the fit itself is fine
            value = float("-inf")
        except BaseException:  # Ctrl-C, too, leaves a state whose objective has not fallen
            state.restore(here)
            raise
        if not value - self._last > self.tolerance * (1 + abs(value)):
            state.restore(here)
            self._longest = max(GROWTH, self._longest / GROWTH)
            return None
        if length == self._longest:
            self._longest *= GROWTH
        self._past, self._last = [ahead], value
        return value

    def _extrapolated(self, start: Arrays, middle: Arrays, here: Arrays) -> tuple[Arrays, float]:
        """The extrapolated point, and the length of the step; with length 1, it is ``here``."""
        lines = {n: (start[n], middle[n], here[n]) for n in here}
        first = sum(float((b - a).square().sum()) for a, b, _ in lines.values())
        bend = sum(float((c - 2 * b + a).square().sum()) for a, b, c in lines.values())
        length = min(self._longest, (first / bend) ** 0.5) if bend > 0 else 1.0
        if length <= 1:
            return here, 1.0
        found = {}
        for name, (a, b, c) in lines.items():
            x = a + 2 * length * (b - a) + length**2 * (c - 2 * b + a)
            found[name] = torch.maximum(x, KEPT * c) if name.startswith("parameter.") else x
        return found, length


def quadrature_draws(problem: Problem) -> int:
    """Number of base draws of Gaussians where labels depend on them."""
    return max(PARTICLES, min(MOST_DRAWS, DRAWS_X_LABELS // max(problem.n_labels, 1)))


def with_more_draws(problem: Problem, ascent: Ascent, seed: int) -> Ascent | None:
    """The same fit with more base draws, to continue after convergence; None where there are enough.

    Few draws, each of which costs a pass, serve for most of the way.
    """
    gaussians, particles = ascent.state.gaussians, quadrature_draws(problem)
    if not gaussians.noise or not ascent.current.gaussians_in_labels or particles <= (gaussians.chains or 0):
        return None
    finer = gaussians.with_particles(particles, problem.signatures, seed)
    state = replace(ascent.state, gaussians=finer)
    full_pass = problem.full_pass(particles)
    return Ascent(full_pass, ascent.rule, state, ascent.fixed, repeats=ascent.repeats, kind=ascent.kind)
