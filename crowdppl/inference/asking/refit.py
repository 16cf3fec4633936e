"""What a posterior asks of the engines: truth of new items, replicated labels, learning from more labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from pyro import poutine
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.doors.telling import tell
from crowdppl.errors import ConvergenceWarning, MethodError
from crowdppl.inference.asking.continuing import posed, remembered
from crowdppl.inference.climbing.ascent import Ascent
from crowdppl.inference.climbing.gaussians import Gaussians
from crowdppl.inference.climbing.particles import enough
from crowdppl.inference.climbing.rules import Average
from crowdppl.inference.climbing.state import State
from crowdppl.inference.inherited import Inherited
from crowdppl.inference.loop import iterate
from crowdppl.inference.options import SESSION, FitOptions, Options, options_from
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.draws import center_of, draws_of
from crowdppl.inference.reading.fold import Fold
from crowdppl.inference.reading.nodes import nodes
from crowdppl.inference.reading.posing import pose
from crowdppl.inference.reading.problem import Problem, quiet
from crowdppl.inference.reports.report import truth_at, truth_over
from crowdppl.inference.running import run
from crowdppl.process.devices import where_found
from crowdppl.process.seeding import seeded
from crowdppl.stories.summing import Summing

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.posterior import Posterior

PREDICTIVE_DRAWS = 100
REMEDIES = {
    "gold": "give known truths in the annotations, Annotations.from_frame(new, like=posterior.data, gold=...)",
    "inference": "an update is by vb; for another engine, fit to all labels together",
    "settings": "the method stays as it is; for other settings, fit to all labels together",
    "start": "an update starts from the old fit; to start elsewhere, fit to all labels together",
    "calibrate": "only fits can be corrected; fit to all labels together with calibrate=True",
}
"""Arguments of ``fit`` that an update does not take, and what to do instead."""


def predict(posterior: Posterior, data: Annotations) -> np.ndarray:
    """Truth probabilities (N, K) of the items of ``data`` in its codebook order; nothing else is learned.

    Sites of single items (a difficulty) are fitted to the new items with everything else held fixed.

    Raises:
        KeyboardInterrupt: at Ctrl-C while they are.
    """
    options = options_of(posterior)
    with quiet(options.device):
        problem = pose(posterior.story, data, options)
        stored = posterior.result.sites
        shared = [n for n, s in problem.sites.items() if not s.local]
        # Given the sites below them, parameters of priors have no say: draws of them would only add noise.
        families = {stored[n].family for n in shared if problem.sites[n].kind != "hyper"}
        if len(shared) < len(problem.sites):
            out = _with_local(problem, posterior, center_of(problem, stored, shared))
        elif families <= {"point", "dirichlet", "onehot"}:
            out = truth_at(problem, center_of(problem, stored, shared), None)
        else:
            stream = options.generator(9)
            out = truth_over(problem, draws_of(problem, stored, data.order, PREDICTIVE_DRAWS, stream)).mean
    result = np.empty_like(out)
    result[data.order] = out
    return result


def _with_local(problem: Problem, posterior: Posterior, fixed: dict[str, Tensor]) -> np.ndarray:
    local = {n: s for n, s in problem.sites.items() if s.local}
    values = problem.typical(problem.options.generator(2, 0))
    normal = posterior.inference != "em" and problem.options.guide == "normal"
    keyed = problem.signatures if normal else None
    seed, particles = problem.options.seed, enough(problem)
    free = Gaussians.around(local, values, problem.plates, keyed, seed, particles=particles)
    conjugate = frozenset(s.name for s in problem.of_kind("conjugate"))
    density = Density(problem.model, problem.plates, free.chains, conjugate)
    state = State({}, {}, free)
    ascent = Ascent(Fold(density, problem.blocks, problem.sites), Average(), state, fixed, problem.steady)
    steps = problem.options.max_iterations or 1000
    tolerance = problem.options.tolerance
    tolerance = problem.default_tolerance if tolerance is None else tolerance
    alone = replace(problem.options, callback=None)
    progress = iterate(lambda t: ascent.step(), alone, steps=steps, tolerance=tolerance)
    if progress.interrupted:
        raise KeyboardInterrupt
    if not progress.converged:
        tell(
            f"{posterior.method} had not settled on {', '.join(local)} of the items after {steps} iterations, so "
            "that their probabilities may be off; fit with a higher max_iterations or tolerance",
            ConvergenceWarning,
        )
    return truth_at(problem, ascent.here.values(), free.chains)


def draw_labels(posterior: Posterior, n: int, seed: int, kind: str) -> np.ndarray:
    """Answer codes (n, S) for the posterior's own design, labels in the order of its blocks.

    "posterior" keeps drawn parameters and each item's drawn truth (and other discrete latents), and draws the
    labels anew; "prior" draws everything from the story, gold apart.
    """
    options = replace(options_of(posterior), seed=seed, device="cpu")
    data = posterior.data
    with quiet("cpu"), seeded(seed):
        problem = posed(posterior, data, options) if kind == "posterior" else pose(posterior.story, data, options)
        draws = (
            draws_of(problem, posterior.result.sites, data.order, n, options.generator(10))
            if kind == "posterior"
            else {}
        )
        replicas = [_replicate(problem, {k: x[d] for k, x in draws.items()}, d) for d in range(n)]
        return np.stack(replicas)


def _replicate(problem: Problem, values: dict[str, Tensor], number: int) -> np.ndarray:
    shaped = {n: x.reshape(problem.sites[n].shape(problem.n_items)) for n, x in values.items()}
    conjugate = frozenset(s.name for s in problem.of_kind("conjugate"))
    density = Density(problem.model, problem.plates, None, conjugate)
    fold = Fold(density, problem.blocks, problem.sites)
    out = []
    for index, block in enumerate(problem.blocks):
        cut = fold.cut(shaped, block)
        given = {n: x.exp() if n in conjugate else x for n, x in cut.items()}
        if shaped:
            how = Summing("draw", problem.options.generator(11, number, index))
            found = density(block, cut, marginals=_enumerated(problem, block), how=how)
            given |= {n: x.argmax(0) for n, x in found.marginals.items()}
        design = replace(block, observed=False, _views={})
        trace = poutine.trace(poutine.condition(problem.model, data=given)).get_trace(design)
        cells = next(x["value"] for x in nodes(trace).values() if type(x.get("fn")).__name__ == "Labels")
        out.append(cells.long() % block.n_answers)
    codes: np.ndarray = torch.cat(out).cpu().numpy()
    return codes


def _enumerated(problem: Problem, block: Block) -> list[str]:
    model = poutine.enum(problem.model, first_available_dim=-1 - problem.plates)
    trace = poutine.trace(model).get_trace(block)
    return [n for n, x in nodes(trace).items() if x["type"] == "sample" and "_enumerate_dim" in x["infer"]]


def update(posterior: Posterior, data: Annotations, **options: Any) -> Posterior:
    """The posterior after more labels: the old posterior is the prior of vb on the new labels alone.

    Annotators and everything else shared carry what all labels taught; an item that had labels before brings
    its old evidence along, and counts once. Networks stand still. The result speaks of the items of ``data``.

    Raises:
        MethodError: when a site of the story has no posterior that can serve as a prior, the fit is asked to
            keep a checkpoint, or an option is none of ``fit``'s.
        DataError: when the story has networks and the items have no features.
    """
    if any(options.get(name) is not None for name in ("checkpoint", "checkpoint_steps")):
        raise MethodError("checkpoint is for fits in which a network learns; leave it out of an update")
    for name in sorted(REMEDIES.keys() & options.keys()):
        raise MethodError(f"update takes no {name}=: {REMEDIES[name]}")
    given: dict[str, Any] = {**vars(options_of(posterior)), **options}
    chosen = options_from(cast(FitOptions, given))
    with quiet(chosen.device):
        memory = remembered(posterior, data, chosen)
    evidence = torch.from_numpy(memory.said_of(data))
    _, engine, result = run(Inherited(posterior.story, memory.sites), data, "vb", chosen, evidence=evidence)
    return replace(
        posterior,
        data=data,
        result=result,
        inference=engine,
        options=chosen.kept(),
        correction=None,
        memory=memory,
    )


def options_of(posterior: Posterior) -> Options:
    """The options of the fit, as far as they still apply."""
    known = {f.name for f in fields(Options)} - set(SESSION)
    given = {k: v for k, v in posterior.options.items() if k in known}
    build: Callable[..., Options] = Options
    return build(**{**given, "device": where_found(given.get("device", "cpu"))})
