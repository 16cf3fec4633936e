"""em and vb: set-up from a start, full batches, minibatches, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.checkpoints import checkpoint_of
from crowdppl.inference.climbing.ascent import Ascent
from crowdppl.inference.climbing.extrapolation import Extrapolation
from crowdppl.inference.climbing.gaussians import Gaussians
from crowdppl.inference.climbing.particles import refined
from crowdppl.inference.climbing.rules import Average, Maximise, Rule, refuse_below_one
from crowdppl.inference.climbing.state import State
from crowdppl.inference.loop import Progress, iterate
from crowdppl.inference.options import Options
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.families import DIRICHLET
from crowdppl.inference.reading.fold import Fold
from crowdppl.inference.reading.problem import Problem, quiet
from crowdppl.networks.sight import network_of, seen_by
from crowdppl.networks.training import training_of
from crowdppl.stories.story import Story

if TYPE_CHECKING:
    from crowdppl.inference.learning.learner import Learner


@dataclass(frozen=True)
class Climbed:
    """One finished run from one start.

    Attributes:
        start: name of the start.
        ascent: the engine at its last state.
        progress: objectives and how it ended.
        objective: the last objective.
    """

    start: str
    ascent: Ascent
    progress: Progress
    objective: float


def climb(problem: Problem, options: Options, engine: str) -> list[Climbed]:
    """Runs em or vb from each start; the best comes first.

    Args:
        problem: story, data and sites.
        options: tolerance, iterations, restarts, minibatches.
        engine: "em" or "vb".

    Raises:
        MethodError: when em meets a prior below 1 or a hierarchical prior.
    """
    runs, learner = [], learner_of(problem, options)
    for number in range(options.restarts):
        name, shares = problem.start(number)
        ascent = prepare(problem, options, engine, shares, number)
        ascent.learner = learner
        runs.append(_run(problem, options, ascent, name, engine, number))
        if runs[-1].progress.interrupted:
            break
    stopped = runs[-1].progress.interrupted
    best, *others = sorted(runs, key=lambda r: -r.objective)
    if stopped:  # further starts might have been better
        best.progress.interrupted, best.progress.converged = True, False
    return [best, *others]


def prepare(problem: Problem, options: Options, engine: str, shares: Tensor | None, number: int = 0) -> Ascent:
    """The engine at its start: typical values, one pass tilted towards the start's truth, first updates.

    The first start continues an earlier fit where there is one.
    """
    rule: Rule = Maximise() if engine == "em" else Average()
    if engine == "em":
        problem.refuse_hyper("em")
    values = problem.typical(options.generator(2, number))
    normal = engine == "vb" and options.guide == "normal"
    state = State(
        {},
        {s.name: values[s.name].clamp(min=1e-6).log() for s in problem.of_kind("onehot")},
        _gaussians(problem, options, values, normal, number),
    )
    resumed = problem.earlier is not None and number == 0 and problem.earlier.fits(problem.sites)
    if problem.earlier is not None and resumed:
        state = problem.earlier.state(problem.sites, state.gaussians)
    conjugate = [s.name for s in problem.of_kind("conjugate")]
    chains = state.gaussians.chains if problem.of_kind("free") else None
    density = Density(problem.model, problem.plates, chains, frozenset(conjugate))
    fold = Fold(density, problem.blocks, problem.sites)
    ascent = Ascent(fold, rule, state, repeats=problem.steady, kind=problem.kind)
    if conjugate and not resumed:
        _first_update(ascent, problem, conjugate, values, shares, engine)
    elif engine == "em":
        _forget(ascent, conjugate, values)
    return ascent


def _forget(ascent: Ascent, names: list[str], values: Mapping[str, Tensor]) -> None:
    """What labels that are gone had taught goes back to where fits start, if none that is left teaches it.

    Under a flat prior the mode is open there, and EM leaves such rows where they are.
    """
    total, share = ascent.fold(ascent.here.values(), gradient=names), ascent.fold.density.chains or 1
    for name, prior in ascent.here.priors(total).items():
        open_at = values[name].clamp(min=1e-30).log()
        ascent.state.parameters[name] = DIRICHLET.mode(prior + total.gradient[name] / share, open_at)


def _first_update(
    ascent: Ascent,
    problem: Problem,
    names: list[str],
    values: Mapping[str, Tensor],
    shares: Tensor | None,
    engine: str,
) -> None:
    """Counts under the start's truth make the first parameters of conjugate sites."""
    leaf = {n: values[n].clamp(min=1e-30).log() for n in names}
    tilt = {} if shares is None or problem.truth is None else {problem.truth: shares.log().t()}
    total = ascent.fold({**ascent.here.values(), **leaf}, gradient=names, tilt=tilt)
    share = ascent.fold.density.chains or 1
    ascent.state.parameters = leaf  # priors are found for the names that have a parameter
    for name, prior in ascent.here.priors(total).items():
        if engine == "em":
            refuse_below_one(name, prior)
            counts = prior + total.gradient[name] / share
            ascent.state.parameters[name] = DIRICHLET.mode(counts, leaf[name])
        else:
            ascent.state.parameters[name] = prior + total.gradient[name] / share


def _gaussians(
    problem: Problem, options: Options, values: Mapping[str, Tensor], normal: bool, number: int
) -> Gaussians:
    sites = {s.name: s for kind in ("free", "hyper") for s in problem.of_kind(kind)}
    keyed = problem.signatures if normal and sites else None
    return Gaussians.around(sites, values, problem.plates, keyed, options.seed + number)


def _run(problem: Problem, options: Options, ascent: Ascent, name: str, engine: str, number: int) -> Climbed:
    if ascent.learner is not None:
        return _learned(ascent, options, name, engine)
    if options.batch_size is not None and options.batch_size < problem.n_items:
        from crowdppl.inference.climbing.minibatch import warm_up

        warm_up(ascent, problem, options)
    tolerance = options.tolerance if options.tolerance is not None else problem.default_tolerance
    closed = engine == "vb" and not (ascent.state.logits or ascent.here.touching)
    fit = Extrapolation(ascent, tolerance) if closed else ascent
    progress = _iterated(fit, options, tolerance, f"{engine} from {name}", Progress())
    more = progress.converged and progress.iterations < (options.max_iterations or 1000)
    finer = refined(problem, ascent, options.seed + number) if more else None
    if finer is not None:
        ascent, progress = finer, _iterated(finer, options, tolerance, f"{engine} from {name}", progress)
    objective = progress.objectives[-1] if progress.objectives else -np.inf
    return Climbed(name, ascent, progress, objective)


def _iterated(
    fit: Ascent | Extrapolation, options: Options, tolerance: float, name: str, before: Progress
) -> Progress:
    """Steps until the fit settles, after those of an earlier part of it, whose objective was another."""
    start, told = before.iterations, options.callback
    if told is not None and start:
        options = replace(options, callback=lambda t, value: told(start + t, value))
    steps = (options.max_iterations or 1000) - start
    progress = iterate(lambda t: fit.step(), options, steps=steps, tolerance=tolerance, name=name)
    progress.before = start
    return progress


def learner_of(problem: Problem, options: Options) -> Learner | None:
    """The network's part, where the story has a network; made first, because it tells the blocks what is seen.

    Raises:
        MethodError: for options that have no meaning where a network learns.
    """
    if network_of(problem.story) is None:
        return None
    from crowdppl.inference.learning.full_batch import FullBatch
    from crowdppl.inference.learning.learner import Learner

    training = training_of(getattr(problem.story, "training", {}))
    for option in ("batch_size", "max_iterations", "tolerance"):
        if getattr(options, option) is not None and not (training.full_batch and option == "tolerance"):
            raise MethodError(
                f"{option} has no meaning where a network learns; see training=, its epochs and batches"
            )
    if options.restarts > 1:
        raise MethodError("restarts=1 is all there is where a network learns; fit with several seeds instead")
    return (FullBatch if training.full_batch else Learner)(problem, training)


def _learned(ascent: Ascent, options: Options, name: str, engine: str) -> Climbed:
    """As many iterations as the network's training has epochs; in full batch, at most."""
    learner = ascent.learner
    assert learner is not None

    def put(arrays: dict[str, Tensor], epochs: int) -> None:
        ascent.restore(arrays)
        learner.restore(arrays, epochs)

    full, tolerance = learner.training.full_batch, options.tolerance
    if tolerance is None:
        tolerance = learner.problem.default_tolerance
    kept = checkpoint_of(learner.problem, options, engine, lambda: {**ascent.arrays(), **learner.arrays()}, put)
    learner.midway.into(kept, options.checkpoint_steps)
    progress = iterate(
        lambda t: ascent.step(),
        options,
        steps=learner.training.length,
        tolerance=tolerance if full else None,
        name=f"{engine} and network from {name}",
        checkpoint=kept,
    )
    learner.finish(progress.interrupted)
    if not full or learner.training.stop_after is not None:
        progress.converged = not progress.interrupted
    return Climbed(name, ascent, progress, progress.objectives[-1] if progress.objectives else -np.inf)


def first_state(story: Story, block: Block) -> State:
    """The state of vb at its start from the votes, for guides that want to start there too.

    A block whose networks learn by gradients is read as one whose networks stand as they are: a story may then be
    told otherwise (a truth for each label), and votes tilt the truth of an item.
    """
    with quiet(str(block.device)):
        whole = block.to(block.device, torch.float64)
        whole = seen_by(story, [whole])[0] if whole.learning else whole
        problem = Problem(story, [whole], Options(guide="point"), lambda: whole)
        _, shares = problem.start(0)
        return prepare(problem, problem.options, "vb", shares).state
