"""Plain Pyro: the method's model and guide under ``TraceEnum_ELBO``, in a parameter store of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.infer import SVI, TraceEnum_ELBO
from pyro.optim import ClippedAdam
from torch import Tensor

from crowdppl.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.guides import mean_field
from crowdppl.inference.loop import Progress, iterate
from crowdppl.inference.nodes import nodes
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.stochastic import train
from crowdppl.sight import networks_of

STEPS = 2000
DRAWS = 200
SETTLED = 1e-3


def fit(problem: Problem, options: Options) -> tuple[dict[str, Tensor], Progress]:
    """Stochastic variational inference.

    Args:
        problem: story and data.
        options: steps, learning rate (decays a hundredfold over the run), batch_size, seed.

    Returns:
        Draws from the guide by site, (1, D, [1, ...] batch, event), Dirichlets as log theta (D is 1 for a
        point guide); and progress with the ELBO.
    """
    whole = problem.whole()
    steps = options.max_iterations or STEPS
    guide = getattr(problem.story, "guide", None) or (lambda data: mean_field(problem.story, data))
    if networks_of(problem.story):
        return _with_networks(problem, options, guide)
    rng = np.random.default_rng(options.seed)
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        torch.manual_seed(options.seed)
        _check_guide(problem, guide, whole)
        decay = 0.01 ** (1 / steps)
        optimiser = ClippedAdam({"lr": options.learning_rate, "lrd": decay})
        elbo = TraceEnum_ELBO(max_plate_nesting=problem.plates)
        svi = SVI(problem.model, guide, optimiser, elbo)

        def step(_: int) -> float:
            return -float(svi.step(_batch(whole, problem, options, rng)))

        progress = iterate(step, options, steps=steps, name="svi")
        progress.converged = _settled(progress.objectives) and not progress.interrupted
        return _draw(problem, guide, whole), progress


def _with_networks(problem: Problem, options: Options, guide: Any) -> tuple[dict[str, Tensor], Progress]:
    local = [s.name for s in problem.sites.values() if s.local]
    if local:
        raise MethodError(
            f"svi refuses {type(problem.story).__name__} with a network: {', '.join(local)} has an entry an item, "
            "which a minibatch guide would not find again; use inference='vb'"
        )
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        torch.manual_seed(options.seed)
        _check_guide(problem, guide, problem.whole())
        pyro.clear_param_store()
        progress = train(problem, options, guide)
        return _draw(problem, guide, problem.whole()), progress


def point_of(problem: Problem, guide: Any) -> dict[str, Tensor]:
    """Where the guide stands: its point, or one draw; Dirichlets as log theta."""
    found = _draw(problem, guide, problem.whole(), 1)
    return {name: x[0, 0].reshape(problem.sites[name].shape(problem.n_items)) for name, x in found.items()}


def _batch(whole: Block, problem: Problem, options: Options, rng: np.random.Generator) -> Block:
    size = options.batch_size
    if size is None or size >= whole.n_items:
        return whole
    local = [s.name for s in problem.sites.values() if s.local]
    if local:
        raise MethodError(
            f"svi with batch_size refuses {type(problem.story).__name__}: {', '.join(local)} has an entry an item, "
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
            f"the guide of {type(problem.story).__name__} lacks {', '.join(lacking)}: sample it in guide(data), or "
            "leave guide out so that one is derived"
        )


def _settled(objectives: list[float]) -> bool:
    """Whether the last two tenths of the run have about the same mean."""
    n = max(1, len(objectives) // 10)
    if len(objectives) < 2 * n + 1:
        return False
    last, before = np.mean(objectives[-n:]), np.mean(objectives[-2 * n : -n])
    return bool(abs(last - before) <= SETTLED * (1 + abs(last)))


def _draw(problem: Problem, guide: Any, whole: Block, most: int = DRAWS) -> dict[str, Tensor]:
    conjugate = {s.name for s in problem.of_kind("conjugate")}
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
        x = torch.stack(values)
        pad = (1,) * (problem.plates - len(problem.sites[name].batch_shape))
        x = x.reshape(x.shape[:1] + pad + x.shape[1:])[None]
        draws[name] = x.clamp(min=1e-35).log() if name in conjugate else x
    return draws
