"""Fits by em and vb: full batch, minibatch, acceleration and resumption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.checkpoint import checkpoint_of
from crowdppl.inference.density import FLOOR
from crowdppl.inference.loop import Progress, iterate
from crowdppl.inference.neural.learner import Learner
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem, without_validation
from crowdppl.inference.result import SiteResult
from crowdppl.inference.sites import DIRICHLET, Site
from crowdppl.inference.vb.coordinate_ascent import (
    Ascent,
    MapUpdate,
    MeanFieldUpdate,
    Rule,
    State,
    refuse_below_one,
)
from crowdppl.inference.vb.gaussians import PARTICLES, Gaussians
from crowdppl.networks.outputs import cached_outputs, network_of
from crowdppl.networks.training import training_of
from crowdppl.primitives.model import Model

EPOCHS = 3
DELAY, FORGETTING = 1.0, 0.6
"""Step t moves a share (t + delay) ** -forgetting of the way (Hoffman et al. 2013)."""


def warm_up(ascent: Ascent, problem: Problem, options: Options) -> None:
    """Moves a fit by a few epochs over minibatches; full passes are to follow, and make it exact.

    Dirichlets move by natural gradients, one-hot sites by averaged logits (assigned logits would follow every
    batch), prior parameters as in full batch.

    Args:
        ascent: the engine at its start; its state is moved in place.
        problem: story and data.
        options: items a minibatch, seed.

    Raises:
        MethodError: for em, and for stories with sites of items or other sites that need gradients.
    """
    assert options.batch_size is not None
    if not isinstance(ascent.rule, MeanFieldUpdate):
        raise MethodError("batch_size is a setting of vb and svi; em runs over all items (use inference='vb')")
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
                _step(ascent, batch, (t + DELAY) ** -FORGETTING)
                t += 1


def _step(ascent: Ascent, batch: Block, rate: float) -> None:
    """One minibatch, seen through an engine whose only block it is."""
    before = {n: x.clone() for n, x in ascent.state.logits.items()}
    fold = replace(ascent.fold, blocks=[replace(batch, offset=0)])
    part = Ascent(fold, MeanFieldUpdate(rate), ascent.state)
    part.step()
    for name, old in before.items():
        moved: Tensor = torch.lerp(old, ascent.state.logits[name], rate)
        ascent.state.logits[name] = moved


GROWTH = 4.0
"""By how much the longest step grows where it was taken and paid, and shrinks where looking ahead did not pay."""
KEPT = 0.1
"""Share of what a concentration would be without looking ahead that is left of it at least."""

Parameters = dict[str, Tensor]


@dataclass
class Extrapolation:
    """Iterations of which, from the third on, every second begins ahead of where the one before it ended.

    Two iterations from x0 to x1 = M(x0) and x2 = M(x1) show a direction and how it bends; the next begins at
    ``x0 + 2 s (x1 - x0) + s^2 (x2 - 2 x1 + x0)`` with ``s = |x1 - x0| / |x2 - 2 x1 + x0|`` (SQUAREM, scheme S3 of
    Varadhan & Roland 2008, "Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm"). Where the objective there is no higher than at x1 by more than the tolerance, it begins at x2 after
    all, which costs a pass more. So the objectives of iterations never fall, and only those that did not look ahead
    are taken for settled.

    Args:
        ascent: a fit by vb, without one-hot sites, whose labels touch no Gaussian.
        tolerance: relative gain below which it has converged.
    """

    ascent: Ascent
    tolerance: float
    _past: list[Parameters] = field(default_factory=list)
    _last: float = float("-inf")
    _longest: float = GROWTH

    def step(self) -> float:
        """One iteration; returns the objective at its start."""
        if len(self._past) == 2:
            value = self._from_ahead(*self._past)
            if value is not None:
                return value
        self._past.append(self.ascent.state.copy())
        self._last = self.ascent.step()
        return self._last

    def _from_ahead(self, start: Parameters, middle: Parameters) -> float | None:
        """An iteration from the point ahead; None where it does not pay, and nothing has moved."""
        state, self._past = self.ascent.state, []
        here = state.copy()
        ahead, length = self._ahead(start, middle, here)
        if length <= 1:
            return None
        try:
            state.put(ahead)
            value = self.ascent.step()
        except NumericalError:  # too far: nothing is wrong with the fit itself
            value = float("-inf")
        except BaseException:  # Ctrl-C, too, leaves a state whose objective is known not to have fallen
            state.put(here)
            raise
        if not value - self._last > self.tolerance * (1 + abs(value)):
            state.put(here)
            self._longest = max(GROWTH, self._longest / GROWTH)
            return None
        if length == self._longest:
            self._longest *= GROWTH
        self._past, self._last = [ahead], value
        return value

    def _ahead(self, start: Parameters, middle: Parameters, here: Parameters) -> tuple[Parameters, float]:
        """The point ahead, and how long the step is; with length 1, it is ``here``."""
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


MOST, LABELS = 64, 40_000
"""Base draws at most, and the labels that all of them may see together.

The seed decides which draws they are. Of eight, an item's probabilities move by .01 in root mean square from seed
to seed where annotators have some 50 labels each, and single ones by .2; of 64 by a third of that."""


def quadrature_draws(problem: Problem) -> int:
    """Base draws of a fit to so many labels."""
    return max(PARTICLES, min(MOST, LABELS // max(problem.n_labels, 1)))


def refined(problem: Problem, ascent: Ascent, seed: int) -> Ascent | None:
    """The same fit seen through more base draws, to go on from where it has settled; None where there are enough.

    Most of the way is climbed on few draws, each of which costs a pass; the last steps are a small part of it.

    Args:
        problem: story and data.
        ascent: a fit by vb or em.
        seed: of the base draws.
    """
    gaussians, particles = ascent.state.gaussians, quadrature_draws(problem)
    if not gaussians.noise or not ascent.here.touching or particles <= (gaussians.chains or 0):
        return None
    finer = gaussians.with_particles(particles, seed)
    fold = replace(ascent.fold, density=replace(ascent.fold.density, chains=particles))
    state = replace(ascent.state, gaussians=finer)
    return Ascent(fold, ascent.rule, state, ascent.fixed, repeats=ascent.repeats, kind=ascent.kind)


@dataclass(frozen=True)
class VbRun:
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


def run_starts(problem: Problem, options: Options, engine: str) -> list[VbRun]:
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
    rule: Rule = MapUpdate() if engine == "em" else MeanFieldUpdate()
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
    ascent = Ascent(problem.full_pass(chains), rule, state, repeats=problem.steady, kind=problem.kind)
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
    return Gaussians.around(sites, values, problem.plates, options.seed + number if normal else None)


def _run(problem: Problem, options: Options, ascent: Ascent, name: str, engine: str, number: int) -> VbRun:
    if ascent.learner is not None:
        return _learned(ascent, options, name, engine)
    if options.batch_size is not None and options.batch_size < problem.n_items:
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
    return VbRun(name, ascent, progress, objective)


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
    if network_of(problem.model) is None:
        return None
    from crowdppl.inference.neural.learner import FullBatch, Learner

    training = training_of(getattr(problem.model, "training", {}))
    for option in ("batch_size", "max_iterations", "tolerance"):
        if getattr(options, option) is not None and not (training.full_batch and option == "tolerance"):
            raise MethodError(
                f"{option} has no meaning where a network learns; see training=, its epochs and batches"
            )
    if options.restarts > 1:
        raise MethodError("restarts=1 is all there is where a network learns; fit with several seeds instead")
    return (FullBatch if training.full_batch else Learner)(problem, training)


def _learned(ascent: Ascent, options: Options, name: str, engine: str) -> VbRun:
    """As many iterations as the network's training has epochs; in full batch, at most."""
    learner = ascent.learner
    assert learner is not None

    def put(arrays: dict[str, Tensor], epochs: int) -> None:
        ascent.state.put(arrays)
        learner.restore(arrays, epochs)

    full, tolerance = learner.training.full_batch, options.tolerance
    if tolerance is None:
        tolerance = learner.problem.default_tolerance
    kept = checkpoint_of(
        learner.problem, options, engine, lambda: {**ascent.state.arrays(), **learner.arrays()}, put
    )
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
    return VbRun(name, ascent, progress, progress.objectives[-1] if progress.objectives else -np.inf)


def first_state(model: Model, block: Block) -> State:
    """The state of vb at its start from the votes, for guides that want to start there too.

    A block whose networks learn by gradients is read as one whose networks stand as they are: a story may then be
    told otherwise (a truth for each label), and votes tilt the truth of an item.
    """
    with without_validation(str(block.device)):
        whole = block.to(block.device, torch.float64)
        whole = cached_outputs(model, [whole])[0] if whole.trains_networks else whole
        problem = Problem(model, [whole], Options(guide="point"), lambda: whole)
        _, shares = problem.start(0)
        return prepare(problem, problem.options, "vb", shares).state


@dataclass(frozen=True)
class Earlier:
    """An earlier fit.

    Attributes:
        sites: its result, site by site.
        order: item code at each position of the data that are to be fitted now.
        device: of the fit now.
    """

    sites: Mapping[str, SiteResult]
    order: np.ndarray
    device: str = "cpu"

    def fits(self, sites: Mapping[str, Site]) -> bool:
        """Whether it has every site, in the same shape."""
        shapes = {name: site.shape(len(self.order)) for name, site in sites.items()}
        return all(name in self.sites and self.sites[name].mean.shape == shape for name, shape in shapes.items())

    def state(self, sites: Mapping[str, Site], gaussians: Gaussians) -> State:
        """The state in which it ended.

        Args:
            sites: of the story.
            gaussians: in the shapes wanted, with base draws for these data; moved to where the earlier fit was.
        """
        parameters, logits = {}, {}
        for name, site in sites.items():
            stored = self.sites[name]
            if site.kind == "onehot":
                logits[name] = self._by_position(site, stored.mean).clamp(min=1e-30).log()
            elif site.kind == "conjugate" and stored.family == "dirichlet":
                parameters[name] = self._by_position(site, stored.arrays["concentration"])
            elif site.kind == "conjugate":
                parameters[name] = self._by_position(site, stored.mean).clamp(min=1e-300).log().clamp(min=FLOOR)
            else:
                self._move(gaussians, site)
        return State(parameters, logits, gaussians)

    def _move(self, gaussians: Gaussians, site: Site) -> None:
        stored = self.sites[site.name]
        with torch.no_grad():
            if stored.family == "normal":
                loc, scale = (self._by_position(site, stored.arrays[part]) for part in ("loc", "scale"))
                if site.name in gaussians.log_scale:
                    gaussians.log_scale[site.name].copy_(scale.log())
            else:
                loc = site.transform.inv(self._by_position(site, stored.mean))
            gaussians.loc[site.name].copy_(loc)

    def _by_position(self, site: Site, x: np.ndarray) -> Tensor:
        out = torch.from_numpy(np.array(x, np.float64))
        if site.local:
            out = out.index_select(site.batch_shape.index(-1), torch.from_numpy(self.order.astype(np.int64)))
        return out.to(self.device)
