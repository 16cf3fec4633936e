"""Fits by em and vb: full batch, minibatch, acceleration and resumption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.checkpoint import Checkpoint, beside, checkpoint_of
from crowdppl.inference.density import Density
from crowdppl.inference.gaussians import PARTICLES, base_draws
from crowdppl.inference.loop import Progress, Run, Step, iterate, run_each
from crowdppl.inference.neural.learner import FullBatch, Learner, refuse_options
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.replay import with_prefix
from crowdppl.inference.state import State
from crowdppl.inference.vb.coordinate_ascent import VB, CoordinateAscent, MeanFieldUpdate
from crowdppl.networks.outputs import network_of
from crowdppl.networks.training import training_of

EPOCHS = 3
DELAY, FORGETTING = 1.0, 0.6
"""Step t of minibatches has rate (t + delay) ** -forgetting (Hoffman et al. 2013)."""
GROWTH, SHORTEST = 4.0, 1.5
"""Longest extrapolation at first, and factor by which a success lets it grow; least to which failures halve it."""
KEPT = 0.1
"""Least part of a parameter that an extrapolation leaves of it."""
MOVING = ("parameters", "loc", "log_scale")
"""Parts of a state that an extrapolation moves."""
MOST_DRAWS, DRAWS_X_LABELS = 64, 40_000
"""Quadrature draws at most, and draws times labels at most. With more draws, results depend less on the seed."""


@dataclass(frozen=True)
class AscentRun(Run):
    """A run of em or vb: its last state, and what trained the model's network, where it has one."""

    ascent: CoordinateAscent
    state: State
    learner: Learner | None = None


def run_starts(problem: Problem, ascent: CoordinateAscent) -> list[AscentRun]:
    """Runs em or vb from each start; the best comes first.

    MethodError when em meets a prior below 1 or a hierarchical prior.
    """
    learner = learner_of(problem)
    run = partial(_run, problem, ascent) if learner is None else partial(_run_with, learner, problem, ascent)
    return run_each(run, problem.options.restarts)


def _finished(
    problem: Problem,
    ascent: CoordinateAscent,
    number: int,
    state: State,
    progress: Progress,
    learner: Learner | None = None,
) -> AscentRun:
    objective = progress.objectives[-1] if progress.objectives else -np.inf
    return AscentRun(problem.start_name(number), progress, objective, ascent, state, learner)


def _run(problem: Problem, ascent: CoordinateAscent, number: int) -> AscentRun:
    """A run from one start, until the objective converges; then again, with more draws of Gaussians."""
    options, state = problem.options, ascent.start(problem, number)
    options = beside(options, f"{number}") if number else options
    if options.batch_size is not None and options.batch_size < problem.n_items:
        state = warm_up(problem, state)
    most, step = options.max_iterations or 1000, partial(ascent.step, problem)
    how: Any = {"tolerance": problem.tolerance, "name": f"{ascent.name} from {problem.start_name(number)}"}
    if ascent.rule.spreads and not state.logits and not ascent.at(problem, state).gaussians_in_labels:
        ahead: Step[State] = Extrapolation(step, problem.tolerance)
    else:
        ahead = step
    kept = _checkpoint(problem, ascent, options, state, ahead)
    state, progress = iterate(ahead, state, options, steps=most, checkpoint=kept, **how)
    before, callback = progress.iterations, options.callback
    finer = with_more_draws(problem, state, options.seed + number) if progress.converged and before < most else None
    if finer is None:
        return _finished(problem, ascent, number, state, progress)
    options = beside(options, "finer")
    if callback is not None:
        options = replace(options, callback=lambda t, value: callback(before + t, value))
    kept = _checkpoint(problem, ascent, options, finer, step)
    state, progress = iterate(step, finer, options, steps=most - before, checkpoint=kept, **how)
    progress.before = before
    return _finished(problem, ascent, number, state, progress)


def _checkpoint(
    problem: Problem, ascent: CoordinateAscent, options: Options, first: State, step: Step[State]
) -> Checkpoint[State] | None:
    """The checkpoint of a run from a first state: its states, and what its steps know."""

    def take(state: State) -> Arrays:
        return state.arrays() | (step.arrays() if isinstance(step, Extrapolation) else {})

    def put(arrays: Arrays, _: int) -> State:
        if isinstance(step, Extrapolation):
            step.restore(arrays, first)
        return first.at(arrays)

    return checkpoint_of(problem, options, ascent.name, take, put)


def learner_of(problem: Problem) -> Learner | None:
    """The trainer of the model's network, where it has one; made first, because it writes the blocks' outputs.

    MethodError for options that have no meaning where a network learns.
    """
    if network_of(problem.model) is None:
        return None
    training, options = training_of(getattr(problem.model, "training", {})), problem.options
    refuse_options(options, "batch_size", "max_iterations", *(() if training.full_batch else ("tolerance",)))
    if options.restarts > 1:
        raise MethodError(
            f"restarts={options.restarts} has no meaning where a network learns; fit with several seeds"
        )
    return (FullBatch if training.full_batch else Learner)(problem, training)


def step_with_network(
    learner: Learner, problem: Problem, ascent: CoordinateAscent, state: State
) -> tuple[State, float]:
    """One iteration, at whose end the network learns; while it learns votes, annotators stay as votes made them."""
    learner.learn_votes_first()
    objective, total, priors = ascent.at(problem, state).evaluate((learner.target,))
    value = float(objective) + learner.penalty
    if not learner.on_votes:
        state = ascent.update(problem, state, priors, _counts(problem, ascent, state, total.gradient))
        if learner.training.full_batch and (state.logits or state.loc):  # they have moved since the pass
            values = ascent.at(problem, state).values()
            total = ascent.at(problem, state).full_pass(values, marginals=(learner.target,))
    learner.learn(total.marginals[learner.target])
    return state, value


def _counts(
    problem: Problem, ascent: CoordinateAscent, state: State, counts: Mapping[str, Tensor]
) -> Mapping[str, Tensor]:
    """The counts that update the parameters: the objective's, unless the model has another pass for them."""
    counting = getattr(problem.model, "counting", None)
    if counting is None:
        return counts
    here = ascent.at(problem, state)
    full_pass = replace(here.full_pass, density=replace(here.full_pass.density, model=counting))
    return full_pass(here.values(), gradient=list(state.parameters)).gradient


def _run_with(learner: Learner, problem: Problem, ascent: CoordinateAscent, number: int) -> AscentRun:
    """A run of as many iterations as the network's training has epochs; in full batch, at most."""
    first, options = ascent.start(problem, number), problem.options

    def restored(arrays: Arrays, epochs: int) -> State:
        learner.restore(arrays, epochs)
        return first.at(arrays)

    full = learner.training.full_batch
    state, progress = iterate(
        partial(step_with_network, learner, problem, ascent),
        first,
        options,
        steps=learner.training.length,
        tolerance=problem.tolerance if full else None,
        name=f"{ascent.name} from {problem.start_name(number)}",
        checkpoint=checkpoint_of(
            problem, options, ascent.name, lambda state: state.arrays() | learner.arrays(), restored
        ),
    )
    learner.finish(progress.interrupted)
    if not full or learner.training.stop_after is not None:
        progress.converged = not progress.interrupted
    return _finished(problem, ascent, number, state, progress, learner)


def epochs(ascent: CoordinateAscent, problem: Problem) -> Iterator[tuple[Density, Mapping[str, Tensor]]]:
    """Trains; after each epoch, the model's density and the values of its sites."""
    learner, state = learner_of(problem), ascent.start(problem)
    assert learner is not None
    for _ in range(learner.training.epochs):
        state, _ = step_with_network(learner, problem, ascent, state)
        here = ascent.at(problem, state)
        yield here.full_pass.density, here.values()


def warm_up(problem: Problem, state: State) -> State:
    """A state of vb, moved by a few epochs over minibatches, before full passes.

    Conjugate sites move by natural gradients, one-hot sites by averaged logits (assigned logits would follow every
    batch), prior parameters as in full batch. MethodError for models with sites of items or other sites that need
    gradients.
    """
    options = problem.options
    assert options.batch_size is not None
    free = [n for n in state.loc if problem.sites[n].kind == "free"]
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
            units = block.units
            n_units = units[-1] + 1 if len(units) else 0
            size = max(1, round(share * n_units))
            for drawn in np.array_split(rng.permutation(n_units), max(1, n_units // size)):
                chosen = np.flatnonzero(np.isin(units, drawn))
                batch = replace(block.subset(chosen, problem.n_items / len(chosen)), offset=0)
                one = replace(problem, blocks=[batch])
                state = _minibatch_step(one, state, (t + DELAY) ** -FORGETTING)
                t += 1
    return state


def _minibatch_step(problem: Problem, state: State, rate: float) -> State:
    """A step whose only block is the minibatch; what was found of the curvature is of no use to another."""
    moved, _ = CoordinateAscent("vb", MeanFieldUpdate(rate)).step(problem, state)
    logits = {n: torch.lerp(old, moved.logits[n], rate) for n, old in state.logits.items()}
    return replace(moved, logits=logits, memory={})


Arrays = dict[str, Tensor]


@dataclass
class Extrapolation:
    """Iterations of which, from the third on, every second begins at an extrapolated point.

    Two iterations from x0 to x1 = M(x0) and x2 = M(x1) show a direction and how it bends; the next begins at
    ``x0 + 2 s (x1 - x0) + s^2 (x2 - 2 x1 + x0)`` with ``s = |x1 - x0| / |x2 - 2 x1 + x0|`` (SQUAREM, scheme S3 of
    Varadhan & Roland 2008, "Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm"), where counts are measured by their own standard deviations, and locations of Gaussians by theirs.
    Where the objective there does not exceed that at x1 by more than the tolerance, it begins at x2, for one more
    pass. So objectives of iterations never fall, and convergence is judged by plain iterations alone.

    Args:
        plain: a step of vb, without one-hot sites, whose labels depend on no Gaussian.
        tolerance: relative gain below which it has converged.
    """

    plain: Step[State]
    tolerance: float
    _past: list[State] = field(default_factory=list)
    _last: float = float("-inf")
    _longest: float = GROWTH

    def __call__(self, state: State) -> tuple[State, float]:
        """One iteration: the next state, and the objective at its start."""
        if len(self._past) == 2:
            start, middle = self._past
            found, state = self._from_ahead(start, middle, state)
            if found is not None:
                return state, found
        self._past.append(state)
        state, self._last = self.plain(state)
        return state, self._last

    def arrays(self) -> Arrays:
        """Where it has been, as tensors by name."""
        known = [len(self._past), self._last, self._longest]
        past = {f"past.{n}.{name}": x for n, one in enumerate(self._past) for name, x in one.arrays().items()}
        return past | {"ahead": torch.tensor(known, dtype=torch.float64)}

    def restore(self, arrays: Arrays, first: State) -> None:
        """Sets what ``arrays`` returned, of states like ``first``."""
        n, self._last, self._longest = arrays["ahead"].tolist()
        self._past = [first.at(with_prefix(arrays, f"past.{i}")) for i in range(int(n))]

    def _from_ahead(self, start: State, middle: State, here: State) -> tuple[float | None, State]:
        """An iteration from the extrapolated point; None and where it was where that does not pay."""
        self._past = []
        ahead, length = self._extrapolated(start, middle, here)
        if length <= 1:
            return None, here
        try:
            moved, value = self.plain(ahead)
        except NumericalError:  # the point is out of range; the fit itself is fine
            moved, value = here, float("-inf")
        if not value - self._last > self.tolerance * (1 + abs(value)):
            self._longest = max(SHORTEST, length / 2)
            return None, replace(here, memory=moved.memory)  # the curvature found there is still of use
        if length == self._longest:
            self._longest *= GROWTH
        self._past, self._last = [ahead], value
        return value, moved

    def _extrapolated(self, start: State, middle: State, here: State) -> tuple[State, float]:
        """The extrapolated point, and the length of the step; with length 1, it is ``here``."""
        names = [(part, name) for part in MOVING for name in getattr(here, part)]
        lines = {(part, name): [getattr(x, part)[name] for x in (start, middle, here)] for part, name in names}
        first = sum(_size(here, *at, b - a) for at, (a, b, _) in lines.items())
        bend = sum(_size(here, *at, c - 2 * b + a) for at, (a, b, c) in lines.items())
        length = min(self._longest, (first / bend) ** 0.5) if bend > 0 else 1.0
        if length <= 1:
            return here, 1.0
        found: dict[str, Arrays] = {part: {} for part in MOVING}
        for (part, name), (a, b, c) in lines.items():
            x = a + 2 * length * (b - a) + length**2 * (c - 2 * b + a)
            kept = torch.where(c < 0, torch.minimum(x, KEPT * c), torch.maximum(x, KEPT * c))
            found[part][name] = kept if part == "parameters" else x
        return replace(here, **found), length


def _size(state: State, part: str, name: str, change: Tensor) -> float:
    """The square of a change, in squared deviations of what moves: a count's variance is about the count itself."""
    if part == "parameters":
        return float((change.square() / state.parameters[name].abs().clamp(min=1)).sum())
    deviation = state.log_scale[name].exp() if part == "loc" and name in state.log_scale else 1.0
    return float((change / deviation).square().sum())


def quadrature_draws(problem: Problem) -> int:
    """Number of base draws of Gaussians where labels depend on them."""
    return max(PARTICLES, min(MOST_DRAWS, DRAWS_X_LABELS // max(problem.n_labels, 1)))


def with_more_draws(problem: Problem, state: State, seed: int) -> State | None:
    """A state with more base draws, to continue after convergence; None where there are enough.

    Few draws, each of which costs a pass, serve for most of the way.
    """
    here, particles = VB.at(problem, state), quadrature_draws(problem)
    if not state.noise or not here.gaussians_in_labels or particles <= (here.gaussians.chains or 0):
        return None
    _, noise = base_draws(here.gaussians.sites, state.loc, problem.signatures, seed, particles)
    return replace(state, noise=noise, memory={})
