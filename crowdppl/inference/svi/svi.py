"""Pyro's SVI: the method's model and guide under ``TraceEnum_ELBO``, in a parameter store of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.distributions import constraints
from pyro.infer import SVI, TraceEnum_ELBO
from pyro.optim import ClippedAdam
from pyro.poutine import block, enum, trace
from torch import Tensor
from torch.distributions import biject_to

from crowdppl.core.collective import all_gathered, all_reduced, n_processes, process, shared_errors
from crowdppl.core.devices import seed_streams, seeded
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError, ResultError
from crowdppl.inference.assembly import result_of_draws, result_of_point
from crowdppl.inference.checkpoint import beside, checkpoint_of
from crowdppl.inference.density import Density, trace_sites
from crowdppl.inference.engine import ASCENT, KEPT, Engine
from crowdppl.inference.families import Family, family_of
from crowdppl.inference.loop import Progress, Run, diagnostics_of_runs, iterate, run_each
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem, model_runs
from crowdppl.inference.replay import with_prefix
from crowdppl.inference.result import FitResult
from crowdppl.inference.sites import plain_support
from crowdppl.inference.state import State, first_state, gaussians_of
from crowdppl.inference.svi.networks import Epochs, for_pyro, train
from crowdppl.networks.outputs import cached_outputs, trained_networks
from crowdppl.networks.training import training_of
from crowdppl.primitives.distributions import OneHot
from crowdppl.primitives.labels import Labels
from crowdppl.primitives.model import Model, plates_of
from crowdppl.primitives.plates import Data, block_of

STEPS = 2000
DRAWS = 200
TOLERANCE = 1e-3
FEWEST_STEPS = 100
"""Steps below which convergence is not judged."""
COUNTS = 20
"""Labels that would make a distribution about as wide as one starts around a value."""


@dataclass(frozen=True)
class SviRun(Run):
    """A run of svi, whose start is "guide" where the guide has one of its own.

    Attributes:
        draws: from the guide by site, (1, D, [1, ...] batch, event), conjugate sites as statistics (D is 1 for a
            point guide).
    """

    draws: dict[str, Tensor]


def _finished(start: str, progress: Progress, draws: dict[str, Tensor]) -> SviRun:
    """A run whose objective is the mean ELBO over the last tenth of the steps, each of which is noisy."""
    last = progress.objectives[-max(1, len(progress.objectives) // 10) :]
    return SviRun(start, progress, float(np.mean(last)) if last else -math.inf, draws)


def fit(problem: Problem) -> list[SviRun]:
    """Stochastic variational inference.

    Models run in float64 whatever ``dtype`` says: Pyro mixes no precisions.

    Returns:
        The run from each start; the best, whose mean ELBO over the last tenth of its steps is highest, comes first.

    Raises:
        MethodError: for a guide that lacks a latent, or cannot follow the given start or restarts.
        NumericalError: when the ELBO or a parameter is not finite; it names the parameter.
    """
    guide, options = guide_of(problem.model), problem.options
    if trained_networks(problem.model):
        if problem.given or options.restarts > 1:
            raise MethodError("start and restarts have no meaning for svi where a network learns; leave them out")
        return [_run_with_networks(problem, options, guide)]
    return run_each(lambda number: _run(problem, options, guide, number), options.restarts)


def _run(problem: Problem, options: Options, guide: Any, number: int) -> SviRun:
    """One run from one start; the first is the guide's own, if no start is given."""
    whole, steps = for_pyro(problem.whole()), options.max_iterations or STEPS
    seed = options.seed if number == 0 else options.generator(19, number).initial_seed()
    rng = np.random.default_rng(seed)
    with pyro.get_param_store().scope(), seeded(seed):
        with _starting_at(problem, number) as start:
            _check_guide(problem, guide, whole)
        if number == 0 and not problem.given and not _has_derived_guide():
            start = "guide"
        optimiser = ClippedAdam({"lr": options.learning_rate, "lrd": 0.01 ** (1 / steps)})
        elbo = TraceEnum_ELBO(max_plate_nesting=problem.plates)

        def loss_and_grads(*given: Any) -> float:
            with shared_errors():
                value = float(elbo.loss_and_grads(*given))
            value = _averaged(value)
            if not math.isfinite(value):
                raise _not_finite(f"the objective is {-value}")
            return value

        svi = SVI(problem.model.model, guide, optimiser, elbo.loss, loss_and_grads)

        # Of processes, each takes its items for all, and what they find is averaged.
        own = whole if n_processes() == 1 else replace(whole, scale=float(n_processes()))

        def step(taken: int) -> tuple[int, float]:
            return taken + 1, -float(svi.step(_batch(own, problem, options, rng)))

        own_options = beside(options, f"{number}") if number else options
        progressed = _Progressed(optimiser, rng, options)
        kept = checkpoint_of(problem, own_options, "svi", progressed.arrays, progressed.restored)
        _, progress = iterate(step, 0, own_options, steps=steps, name="svi", checkpoint=kept)
        if _first_not_finite() is not None:  # after the last step, which no objective has seen
            raise _not_finite("the last step failed")
        tolerance = TOLERANCE if options.tolerance is None else options.tolerance
        progress.converged = _converged(progress.objectives, tolerance) and not progress.interrupted
        return _finished(start, progress, _draw(problem, guide, whole))


@dataclass(frozen=True)
class _Progressed:
    """What steps have changed: parameters in Pyro's store, their optimiser, and streams of random numbers."""

    optimiser: Any
    rng: np.random.Generator
    options: Options

    def arrays(self, _: int) -> dict[str, Tensor]:
        """All of it as tensors by name; streams are those of each process."""
        told = json.dumps(self.rng.bit_generator.state).encode()
        own = [torch.get_rng_state(), torch.frombuffer(bytearray(told), dtype=torch.uint8)]
        if self.options.device != "cpu":
            own.append(torch.cuda.get_rng_state(self.options.device))
        found = {f"stream.{n}.{i}": x for n, each in enumerate(all_gathered(own)) for i, x in enumerate(each)}
        for name, state in self.optimiser.get_state().items():
            known = state["state"][0] | {"lr": state["param_groups"][0]["lr"]}
            found |= {
                f"optimiser.{name}.{key}": torch.as_tensor(x, dtype=torch.float64) for key, x in known.items()
            }
        return found | {f"parameter.{name}": x for name, x in pyro.get_param_store().named_parameters()}

    def restored(self, arrays: dict[str, Tensor], steps: int) -> int:
        """Sets what ``arrays`` returned after some steps; their number."""
        n = len({name.split(".")[0] for name in with_prefix(arrays, "stream")})
        if n != n_processes():
            raise ResultError(
                f"the checkpoint has random streams of {n} processes, and there are {n_processes()}; start {n}, or "
                "remove it"
            )
        first, own, *of_gpu = (x.cpu() for _, x in sorted(with_prefix(arrays, f"stream.{process()}").items()))
        for name, x in pyro.get_param_store().named_parameters():
            with torch.no_grad():
                x.copy_(arrays[f"parameter.{name}"])
            state = self.optimiser.pt_optim_constructor([x], **self.optimiser.pt_optim_args).state_dict()
            known = {key: arrays[f"optimiser.{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq", "lr")}
            state["param_groups"][0]["lr"] = float(known.pop("lr"))
            state["state"][0] = known | {"step": int(known["step"])}
            self.optimiser.set_state({name: state})
        self.rng.bit_generator.state = json.loads(own.numpy().tobytes())
        torch.set_rng_state(first)
        for x in of_gpu:
            torch.cuda.set_rng_state(x, self.options.device)
        return steps


@contextmanager
def _starting_at(problem: Problem, number: int) -> Iterator[str]:
    """Derived guides start at given values, or at another start than the votes (others are refused); its name."""
    name = problem.start_name(number)
    if not problem.given and number == 0:
        yield name
        return
    start = GuideStart.of(problem, number)
    with starting(start):
        yield name
    lacking = sorted((problem.given.keys() & problem.sites.keys()) - start.sites)
    if lacking or not start.sites:
        option = f"start of {', '.join(lacking or problem.given)}"
        option = option if problem.given else f"restarts={problem.options.restarts}"
        raise MethodError(
            f"the guide of {type(problem.model).__name__} has a start of its own, and cannot follow {option}: call "
            "crowdppl.mean_field in guide(data), leave guide out, or leave this option out"
        )


def _has_derived_guide() -> bool:
    """Whether ``mean_field`` made any parameter in the store."""
    return any(name.startswith("q.") for name in pyro.get_param_store())


def _first_not_finite() -> str | None:
    """Name of the first parameter that is not finite."""
    store = pyro.get_param_store()
    return next((name for name, x in store.items() if not bool(torch.isfinite(x).all())), None)


def _not_finite(what: str) -> NumericalError:
    name = _first_not_finite()
    where = "every parameter of the guide is finite" if name is None else f"the guide's {name!r} is not finite"
    return NumericalError(f"svi: {what}, and {where}; lower learning_rate, or look for a probability of exactly 0")


def _run_with_networks(problem: Problem, options: Options, guide: Any) -> SviRun:
    _refuse_local(problem, "with a network")
    with pyro.get_param_store().scope(), seeded(options.seed):
        _check_guide(problem, guide, for_pyro(problem.whole()))
        start = "votes" if _has_derived_guide() else "guide"
        pyro.clear_param_store()
        progress = train(problem, options, guide)
        return _finished(start, progress, _draw(problem, guide, for_pyro(problem.whole())))


def _batch(whole: Block, problem: Problem, options: Options, rng: np.random.Generator) -> Block:
    size = options.batch_size
    if size is None or size >= problem.n_all_items:
        return whole
    _refuse_local(problem, "with batch_size")
    size = max(1, round(size * whole.n_items / problem.n_all_items))
    chosen = np.sort(rng.choice(whole.n_items, size, replace=False))
    return whole.subset(chosen, whole.scale * whole.n_items / size)


def _averaged(value: float) -> float:
    """The loss averaged over processes; so are the gradients in Pyro's store."""
    if n_processes() > 1:
        store = pyro.get_param_store()
        constrained: list[Any] = [store[name] for name in sorted(store)]
        leaves = [x.unconstrained() for x in constrained]
        slopes = [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]
        value, *total = (x / n_processes() for x in all_reduced([value, *slopes]))
        for x, slope in zip(leaves, total, strict=True):
            x.grad = slope
    return value


def _refuse_local(problem: Problem, why: str) -> None:
    """Refuses sites of single items, which the guide of a minibatch would not find again."""
    local = [s.name for s in problem.sites.values() if s.local]
    if local:
        raise MethodError(
            f"svi {why} refuses {type(problem.model).__name__}: {', '.join(local)} has an entry an item, which a "
            "minibatch guide would not find again; leave batch_size out, or use inference='vb'"
        )


def _check_guide(problem: Problem, guide: Any, whole: Block) -> None:
    """Pyro would silently draw a latent that the guide lacks from its prior."""
    found = poutine.trace(guide).get_trace(whole)
    lacking = [n for n in problem.sites if n not in found.nodes]
    if lacking:
        raise MethodError(
            f"the guide of {type(problem.model).__name__} lacks {', '.join(lacking)}: sample it in guide(data), or "
            "leave guide out so that one is derived"
        )


def _converged(objectives: list[float], tolerance: float) -> bool:
    """Whether the last two tenths of the run have about the same mean, or differ by no more than chance."""
    n = len(objectives) // 10
    if len(objectives) < FEWEST_STEPS:
        return False
    last, before = np.array(objectives[-n:]), np.array(objectives[-2 * n : -n])
    noise = math.sqrt((last.var(ddof=1) + before.var(ddof=1)) / n)
    gain = abs(last.mean() - before.mean())
    return bool(gain <= max(tolerance * (1 + abs(last.mean())), 2 * noise))


def epochs(problem: Problem) -> Iterator[tuple[Density, Mapping[str, Tensor]]]:
    """Trains; after each epoch, the model's density and the guide's point, or one draw."""
    guide, training = guide_of(problem.model), training_of(getattr(problem.model, "training", {}))
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        found = Epochs(problem, training, problem.options, guide)
        for number in range(training.epochs):
            found.run(number)
            problem.blocks[:] = cached_outputs(problem.model, problem.blocks)
            drawn, sites = _draw(problem, guide, for_pyro(problem.whole()), 1), problem.sites
            yield problem.density(), {n: x[0, 0].reshape(sites[n].shape(problem.n_items)) for n, x in drawn.items()}


def _draw(problem: Problem, guide: Any, whole: Block, n_draws: int = DRAWS) -> dict[str, Tensor]:
    """Draws of the guide, (1, D, [1, ...] batch, event); one, where the first two are equal."""
    seed_streams(problem.options.generator(20).initial_seed())  # whether or not this process trained the guide
    own, runs = getattr(problem.model, "guide", None), list[list[Tensor]]()
    derived = own is None or getattr(own, "__func__", None) is mean_field  # whose sites are independent
    with torch.no_grad():
        for number in range(1 if derived else n_draws):
            sites = trace_sites(poutine.trace(guide).get_trace(whole))
            runs.append([sites[n].fn((n_draws,)) if derived else sites[n].value[None] for n in problem.sites])
            if number == 1 and all(torch.equal(one, two) for one, two in zip(*runs, strict=True)):
                break
    values = runs[0] if derived else [torch.cat(x) for x in zip(*runs, strict=True)]
    if n_draws > 1 and all(torch.equal(x[0], x[1]) for x in values):
        values = [x[:1] for x in values]
    draws = {}
    for (name, site), x in zip(problem.sites.items(), values, strict=True):
        draws[name] = site.statistic(site.with_plate_dims(x.detach().double(), problem.plates)[None])
    return draws


def guide_of(model: Model) -> Any:
    """The model's own guide; else the mean field."""
    return getattr(model, "guide", None) or (lambda data: mean_field(model, data))


def mean_field(
    model: Model, data: Data, *, point: bool = False, points: Mapping[str, Tensor] | None = None
) -> None:
    """Runs the mean-field guide of a model, for ``pyro.infer.SVI``.

    Sites with a conjugate family get a distribution of it, one-hot sites their expected value (with its entropy),
    everything else a Gaussian in unconstrained space. Parameters live in Pyro's store under ``q.<site>...`` and
    start from the votes. Nothing is kept between calls, so that sizes always come from the data at hand.

    Args:
        model: the method.
        data: annotations, or a block of them.
        point: fits points instead of distributions (maximum likelihood, or a posterior mode).
        points: values of sites, shaped as each site is, which a guide computes from parameters of its own.

    Examples:
        >>> from pyro.poutine import trace
        >>> model = crowdppl.method("bayesian_dawid_skene")
        >>> sites = trace(crowdppl.mean_field).get_trace(model, crowdppl.anaesthetists())
        >>> [name for name in sites.stochastic_nodes if not name.startswith("_")]
        ['prevalence', 'annotators', 'confusion']
    """
    whole = block_of(data)
    # Labels that are still to be drawn need a drawn truth; otherwise nothing discrete is drawn.
    program = enum(model.model, first_available_dim=-1 - plates_of(model)) if whole.has_labels else model.model
    with torch.no_grad(), block():
        sites = trace(program).get_trace(data)
    first = _Values(model, whole)
    opened: dict[str, pyro.plate] = {}
    for name, node in trace_sites(sites).items():
        if node.observed or isinstance(node.fn, Labels) or not node.value.is_floating_point():
            continue  # discrete sites are summed out, or drawn by the model, as labels are
        if points and name in points:
            fn: Any = dist.Delta(points[name], event_dim=len(node.fn.event_shape))
        else:  # outside plates: it may have to run the model
            fn = _approximation(name, node.fn, first, point)
        with ExitStack() as stack:
            for frame in node.plates:
                if frame.name not in opened:  # Pyro wants one object for all sites of a plate
                    opened[frame.name] = pyro.plate(frame.name, frame.size, dim=frame.dim)
                stack.enter_context(opened[frame.name])
            value = pyro.sample(name, fn)
            if isinstance(node.fn, OneHot):  # the guide's log-density: minus the entropy of the shares
                log_q = (value * value.clamp(min=1e-30).log()).sum(-1)
                pyro.factor(f"q.{name}.log_density", log_q, has_rsample=True)


@dataclass
class GuideStart:
    """Where derived guides start, instead of at the votes.

    Attributes:
        state: the mean field of a start, with points.
        points: values of sites that are neither conjugate nor one-hot.
        sites: those that have started there.
    """

    state: State
    points: Mapping[str, Tensor]
    sites: set[str] = field(default_factory=set)

    @staticmethod
    def of(problem: Problem, number: int = 0) -> GuideStart:
        """A start by its number."""
        state = first_state(problem, number, points=True)
        return GuideStart(state, gaussians_of(problem, state).values())


_start: ContextVar[GuideStart | None] = ContextVar("start", default=None)


@contextmanager
def starting(start: GuideStart) -> Iterator[None]:
    """Parameters that ``mean_field`` makes inside the block start here."""
    token = _start.set(start)
    try:
        yield
    finally:
        _start.reset(token)


@dataclass
class _Values:
    """The values from which parameters start; by default those of the votes, found when a parameter is missing."""

    model: Model
    whole: Block

    def start(self, name: str) -> GuideStart:
        """The start, noting that a site starts from it."""
        start = _start.get() or self._from_votes
        start.sites.add(name)
        return start

    @cached_property
    def _from_votes(self) -> GuideStart:
        """Networks that learn by gradients are evaluated once, so that votes tilt the truth of an item."""
        # Pyro makes parameters without gradients; counts are gradients
        with block(), torch.enable_grad(), model_runs(self.model, self.whole, str(self.whole.device)):
            whole = self.whole.to(self.whole.device, torch.float64)
            whole = cached_outputs(self.model, [whole])[0] if whole.trains_networks else whole
            return GuideStart.of(Problem.of(self.model, [whole], Options(), lambda: whole))

    def share(self, name: str) -> Tensor:
        """Expected value of a one-hot site."""
        return _parameter(self.start(name).state.logits[name].softmax(-1))

    def parameter(self, name: str) -> Tensor:
        """Counts for rows of shares; of one whose site is a parameter of priors, around its value."""
        parameters = self.start(name).state.parameters
        return _parameter(parameters[name]) if name in parameters else 1 + COUNTS * self.value(name)

    def value(self, name: str, family: Family | None = None) -> Tensor:
        """Mean of a site."""
        start = self.start(name)
        if name in start.points or family is None:
            return _parameter(start.points[name])
        return _parameter(family.mean_value(start.state.parameters[name]))


def _parameter(x: Tensor) -> Tensor:
    return x.detach().to(torch.get_default_dtype()).contiguous()


def _approximation(name: str, fn: Any, first: _Values, point: bool) -> Any:
    """The approximation of one site, with its parameters in Pyro's store."""
    event, family = len(fn.event_shape), family_of(fn)

    def param(part: str, init: Callable[[], Tensor], constraint: Any = constraints.real) -> Any:
        return pyro.param(f"q.{name}.{part}", init, constraint=constraint)

    if isinstance(fn, OneHot):
        return dist.Delta(param("share", lambda: first.share(name), constraints.simplex)).to_event(1)
    if point:
        at = param("point", lambda: first.value(name, family), plain_support(fn.support))
        return dist.Delta(at, event_dim=event)
    if family is not None and family.counts and not family.chosen(fn):
        c = param(family.key, lambda: first.parameter(name), constraints.positive)
        return family.distribution(c, event)
    transform = biject_to(fn.support)
    loc = param("loc", lambda: transform.inv(first.value(name, family)))
    scale = param("scale", lambda: torch.full_like(loc.detach(), 0.1), constraints.positive)
    return dist.TransformedDistribution(dist.Normal(loc, scale).to_event(event), [transform])


def run(problem: Problem, order: np.ndarray) -> FitResult:
    """The result of a fit; ``order`` has item codes by position."""
    runs = fit(problem)
    draws = runs[0].draws
    diagnostics = diagnostics_of_runs("svi", runs, "raise max_iterations or lower learning_rate")
    point = next(iter(draws.values())).shape[1] == 1 if draws else True
    return (result_of_point if point else result_of_draws)(problem, order, draws, diagnostics)


ENGINE = Engine(
    "svi",
    run,
    lambda problem: "gradient",
    (*ASCENT, *KEPT, "batch_size", "learning_rate"),
    epochs,
    takes_start=False,
    shares=("batch_size",),
)
