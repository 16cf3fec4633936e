"""Plain Pyro: the method's model and guide under ``TraceEnum_ELBO``, in a parameter store of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.infer import SVI, TraceEnum_ELBO
from pyro.optim import ClippedAdam
from torch import Tensor

from crowdppl.core.devices import seeded
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.density import nodes
from crowdppl.inference.loop import Progress, iterate
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.svi.guide import Start, mean_field, starting
from crowdppl.inference.svi.networks import for_pyro, train
from crowdppl.inference.vb.fit import prepare
from crowdppl.networks.outputs import trained_networks

STEPS = 2000
DRAWS = 200
SETTLED = 1e-3
RESTART = 19
"""Key of the random numbers of a further start."""
REMEDY = "lower learning_rate, or look for a probability of exactly 0 in the story"
FEWEST = 100
"""Steps below which nothing can be said of convergence: the rate decays however few they are."""


@dataclass(frozen=True)
class SviRun:
    """One finished run from one start.

    Attributes:
        start: name of the start, as of em and vb; "guide" for a guide that begins where it likes.
        draws: from the guide by site, (1, D, [1, ...] batch, event), Dirichlets as log theta (D is 1 for a point
            guide).
        progress: objectives and how it ended.
    """

    start: str
    draws: dict[str, Tensor]
    progress: Progress

    @property
    def objective(self) -> float:
        """The mean ELBO over the last tenth of the steps, each of which is noisy."""
        return _last(self.progress.objectives)


def fit(problem: Problem, options: Options) -> list[SviRun]:
    """Stochastic variational inference.

    Args:
        problem: story and data.
        options: steps, learning rate (decays a hundredfold over the run), tolerance, restarts, batch_size, seed.
            Stories run in float64 whatever ``dtype`` says, for plain Pyro mixes no precisions.

    Returns:
        The run from each start; the best, whose mean ELBO over the last tenth of its steps is highest, comes first.

    Raises:
        MethodError: for a guide that lacks a latent, or cannot take the start or restarts asked for.
        NumericalError: when the ELBO or a parameter is not finite; it names the parameter.
    """
    guide = getattr(problem.model, "guide", None) or (lambda data: mean_field(problem.model, data))
    if trained_networks(problem.model):
        if problem.given or options.restarts > 1:
            raise MethodError(
                "svi begins where the networks do: leave start and restarts out where a network learns"
            )
        return [_with_networks(problem, options, guide)]
    runs: list[SviRun] = []
    for number in range(options.restarts):
        runs.append(_run(problem, options, guide, number))
        if runs[-1].progress.interrupted:
            break
    stopped = runs[-1].progress.interrupted
    best, *others = sorted(runs, key=lambda run: -run.objective)
    if stopped:  # further starts might have been better
        best.progress.interrupted, best.progress.converged = True, False
    return [best, *others]


def _run(problem: Problem, options: Options, guide: Any, number: int) -> SviRun:
    """One run from one start; the first is where the guide begins by itself, if no start is given."""
    whole, steps = for_pyro(problem.whole()), options.max_iterations or STEPS
    seed = options.seed if number == 0 else options.generator(RESTART, number).initial_seed()
    rng = np.random.default_rng(seed)
    with pyro.get_param_store().scope(), seeded(seed):
        with _begun(problem, options, number) as start:
            _check_guide(problem, guide, whole)
        if number == 0 and not problem.given and not _derived():
            start = "guide"
        optimiser = ClippedAdam({"lr": options.learning_rate, "lrd": 0.01 ** (1 / steps)})
        elbo = TraceEnum_ELBO(max_plate_nesting=problem.plates)

        def watched(*given: Any) -> float:
            value = float(elbo.loss_and_grads(*given))
            if not math.isfinite(value):
                raise NumericalError(f"svi's objective is {-value}: {_culprit()}; {REMEDY}")
            return value

        svi = SVI(problem.program, guide, optimiser, elbo.loss, watched)
        progress = iterate(
            lambda _: -float(svi.step(_batch(whole, problem, options, rng))), options, steps=steps, name="svi"
        )
        if _broken() is not None:  # by the last step, which no objective has seen
            raise NumericalError(f"svi ended where {_culprit()}; {REMEDY}")
        settled = _settled(progress.objectives, SETTLED if options.tolerance is None else options.tolerance)
        progress.converged = settled and not progress.interrupted
        return SviRun(start, _draw(problem, guide, whole), progress)


@contextmanager
def _begun(problem: Problem, options: Options, number: int) -> Iterator[str]:
    """Derived guides begin at given values, or at another start than the votes, which is named.

    Raises:
        MethodError: for a guide that begins where it likes.
    """
    name, shares = problem.start(number)
    if not problem.given and number == 0:
        yield name
        return
    begun = Start(prepare(problem, replace(options, guide="point"), "vb", shares, number).state)
    with starting(begun):
        yield name
    lacking = sorted((problem.given.keys() & problem.sites.keys()) - begun.sites)
    if lacking or not begun.sites:
        asked = (
            f"start of {', '.join(lacking or problem.given)}" if problem.given else f"restarts={options.restarts}"
        )
        raise MethodError(
            f"the guide of {type(problem.model).__name__} begins where it likes, and cannot follow {asked}: call "
            "crowdppl.mean_field in guide(data), leave guide out, or leave this option out"
        )


def _derived() -> bool:
    """Whether any parameter in the store is one that ``mean_field`` made."""
    return any(name.startswith("q.") for name in pyro.get_param_store())


def _broken() -> str | None:
    """Name of the first parameter that is not finite."""
    store = pyro.get_param_store()
    return next((name for name, x in store.items() if not bool(torch.isfinite(x).all())), None)


def _culprit() -> str:
    name = _broken()
    return "every parameter of the guide is finite" if name is None else f"the guide's {name!r} is not finite"


def _with_networks(problem: Problem, options: Options, guide: Any) -> SviRun:
    local = [s.name for s in problem.sites.values() if s.local]
    if local:
        raise MethodError(
            f"svi refuses {type(problem.model).__name__} with a network: {', '.join(local)} has an entry an item, "
            "which a minibatch guide would not find again; use inference='vb'"
        )
    with pyro.get_param_store().scope(), seeded(options.seed):
        _check_guide(problem, guide, for_pyro(problem.whole()))
        start = "votes" if _derived() else "guide"
        pyro.clear_param_store()
        progress = train(problem, options, guide)
        return SviRun(start, _draw(problem, guide, for_pyro(problem.whole())), progress)


def point_of(problem: Problem, guide: Any) -> dict[str, Tensor]:
    """Where the guide stands: its point, or one draw; Dirichlets as log theta."""
    found = _draw(problem, guide, for_pyro(problem.whole()), 1)
    return {name: x[0, 0].reshape(problem.sites[name].shape(problem.n_items)) for name, x in found.items()}


def _batch(whole: Block, problem: Problem, options: Options, rng: np.random.Generator) -> Block:
    size = options.batch_size
    if size is None or size >= whole.n_items:
        return whole
    local = [s.name for s in problem.sites.values() if s.local]
    if local:
        raise MethodError(
            f"svi with batch_size refuses {type(problem.model).__name__}: {', '.join(local)} has an entry an item, "
            "which a minibatch guide would not find again; leave batch_size out, or use inference='vb'"
        )
    chosen = np.sort(rng.choice(whole.n_items, size, replace=False))
    return whole.subset(chosen, whole.n_items / size)


def _check_guide(problem: Problem, guide: Any, whole: Block) -> None:
    """Pyro would silently draw a latent that the guide lacks from its prior."""
    found = poutine.trace(guide).get_trace(whole)
    lacking = [n for n in problem.sites if n not in found.nodes]
    if lacking:
        raise MethodError(
            f"the guide of {type(problem.model).__name__} lacks {', '.join(lacking)}: sample it in guide(data), or "
            "leave guide out so that one is derived"
        )


def _settled(objectives: list[float], tolerance: float) -> bool:
    """Whether the last two tenths of the run have about the same mean, or differ by no more than chance."""
    n = len(objectives) // 10
    if len(objectives) < FEWEST:
        return False
    last, before = np.array(objectives[-n:]), np.array(objectives[-2 * n : -n])
    noise = math.sqrt((last.var(ddof=1) + before.var(ddof=1)) / n)
    gain = abs(last.mean() - before.mean())
    return bool(gain <= max(tolerance * (1 + abs(last.mean())), 2 * noise))


def _last(objectives: list[float]) -> float:
    """Mean over the last tenth."""
    return float(np.mean(objectives[-max(1, len(objectives) // 10) :])) if objectives else -math.inf


def _draw(problem: Problem, guide: Any, whole: Block, most: int = DRAWS) -> dict[str, Tensor]:
    out: dict[str, list[Tensor]] = {n: [] for n in problem.sites}
    with torch.no_grad():
        for _ in range(most):
            trace = poutine.trace(guide).get_trace(whole)
            for name in out:
                out[name].append(nodes(trace)[name]["value"].detach().double())
            if len(out[name]) == 2 and all(bool((x[0] == x[1]).all()) for x in out.values()):
                out = {n: x[:1] for n, x in out.items()}
                break
    draws = {}
    for name, values in out.items():
        x = problem.sites[name].widen(torch.stack(values), problem.plates)[None]
        draws[name] = x.clamp(min=1e-35).log() if name in problem.conjugate else x
    return draws
