"""One door to every engine: checks what was asked, runs it, and hands over what it found."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from crowdppl.doors.telling import tell
from crowdppl.errors import ConvergenceWarning, MethodError
from crowdppl.inference.engine_choice import check_uses, choose, refuse
from crowdppl.inference.fit_result import FitResult
from crowdppl.inference.options import Options
from crowdppl.inference.reading.posing import pose
from crowdppl.inference.reading.problem import Problem, quiet
from crowdppl.inference.stopping import stopped
from crowdppl.networks.sight import learning_of, networks_of
from crowdppl.networks.training import VOLUMES, training_of
from crowdppl.stories.story import Story

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.inference.climbing.resuming import Earlier

ENGINES = ("em", "vb", "gibbs", "nuts", "svi")


def run(
    story: Story,
    data: Annotations,
    inference: str,
    options: Options,
    start: Mapping[str, Tensor] | None = None,
    evidence: Tensor | None = None,
    earlier: Earlier | None = None,
    spread: bool = True,
    fits: int = 1,
) -> tuple[Story, str, FitResult]:
    """Fits a story.

    Args:
        story: the method, with its settings.
        data: the annotations.
        inference: an engine, or "auto".
        options: of the engine.
        start: values of sites (or truth shares) to start from.
        evidence: (N, K) log-potentials of the truth by position, from elsewhere than the labels and gold.
        earlier: a fit of the same annotators and classes, which em and vb continue.
        spread: whether vb is to say how probabilities and tables vary over draws, too.
        fits: how many of the kind there will be, for "auto" to choose an engine that does them all soon enough.

    Returns:
        The story with nothing left to be found in the data, the engine that ran, and the result.

    Raises:
        MethodError: when the engine cannot treat the story.
        NumericalError: when a number is not finite.
    """
    began = time.perf_counter()
    if not isinstance(inference, str) or inference not in (*ENGINES, "auto"):
        raise MethodError(f"inference={inference!r} is not an engine; choose from {', '.join(ENGINES)} or 'auto'")
    check_uses(story, data)
    prepare = getattr(story, "prepare", None)
    asked, story = story, story if prepare is None else prepare(data)
    _refuse_checkpoint(story, options)
    with quiet(options.device):
        problem = replace(pose(story, data, options, start, evidence), earlier=earlier, spread=spread)
        engine, why = choose(problem, options, fits) if inference == "auto" else (inference, "")
        refuse(story, engine)
    found, volumes, options = _with_volume(asked, story, data, engine, options)
    with _homecoming(story), quiet(options.device):
        found = stopped(found, data, engine, options)
        if found is not story:
            story = found
            problem = replace(pose(story, data, options, start, evidence), earlier=earlier, spread=spread)
        notes = [why] if why else []
        with warnings.catch_warnings():
            result = _RUNNERS[engine](problem, data.order, notes)
    if volumes:
        result.diagnostics["volumes"] = volumes
    result.diagnostics["seconds"] = time.perf_counter() - began
    for note in result.diagnostics["warnings"]:
        tell(note, ConvergenceWarning)
    return story, engine, result


@contextmanager
def _homecoming(story: Story) -> Iterator[None]:
    """Networks are on the CPU after a fit, as all else that a posterior holds, so that it is at home anywhere."""
    try:
        yield
    finally:
        for network in networks_of(story).values():
            network.cpu()


def _refuse_checkpoint(story: Story, options: Options) -> None:
    if options.checkpoint is not None and not learning_of(story):
        raise MethodError(
            f"checkpoint={options.checkpoint!r} is for fits in which a network learns, and {type(story).__name__} "
            "has none here; leave it out"
        )


def _with_volume(
    asked: Story, story: Story, data: Annotations, engine: str, options: Options
) -> tuple[Story, dict[str, float], Options]:
    """The prepared story with a number for its volume, how volumes scored if one was looked for, and options.

    Where Ctrl-C ends that look, the options end the fit after its first epoch, and leave checkpoints alone.
    """
    training = getattr(story, "training", {})
    if engine not in ("em", "vb", "svi") or not learning_of(story) or training_of(training).volume != "auto":
        return story, {}, options
    trials = import_module("crowdppl.choosing.volumes")  # by name, because trials are fits
    more: dict[str, Any] = {}
    try:
        more["volume"], scores = trials.chosen(asked, story, data, engine, options)
    except KeyboardInterrupt:
        more, scores = {"volume": VOLUMES[0], "patience": 0}, {}
        options = replace(options, callback=_stop, checkpoint=None)
    build: Any = replace
    return build(story, training={**training, **more}), scores, options


def _stop(*_: object) -> None:
    """A callback that ends a fit as Ctrl-C does."""
    raise KeyboardInterrupt


def _diagnostics(objectives: list[float], converged: bool, interrupted: bool, notes: list[str]) -> dict[str, Any]:
    return {
        "converged": converged,
        "interrupted": interrupted,
        "iterations": len(objectives),
        "objective": objectives[-1] if objectives else float("nan"),
        "objectives": objectives,
        "warnings": notes,
    }


def _climb(engine: str) -> Callable[[Problem, np.ndarray, list[str]], FitResult]:
    def run_climb(problem: Problem, order: np.ndarray, notes: list[str]) -> FitResult:
        from crowdppl.inference.assemble import from_climb
        from crowdppl.inference.climbing.variational import climb

        runs = climb(problem, problem.options, engine)
        best = runs[0]
        progress = best.progress
        learner, n = best.ascent.learner, len(progress.objectives)
        if progress.interrupted:
            notes.append(f"{engine} was stopped after {n} iterations")
        elif not progress.converged:
            more = "max_iterations" if learner is None else "training={'epochs': ...}"
            notes.append(f"{engine} did not converge after {n} iterations; raise {more} or tolerance")
        if learner is not None and learner.blind:
            notes.append(
                f"the network still learned the votes when {engine} ended, after {n} epochs (training: "
                f"warm_up={learner.training.warm_up}), so that annotators are as the votes made them; let it learn "
                "for more epochs, or lower warm_up"
            )
        out = _diagnostics(progress.objectives, progress.converged, progress.interrupted, notes)
        out["start"] = best.start
        out["restarts"] = [
            {"start": r.start, "objective": r.objective, "iterations": len(r.progress.objectives)} for r in runs
        ]
        return from_climb(problem, order, best, engine, out)

    return run_climb


def _gibbs(problem: Problem, order: np.ndarray, notes: list[str]) -> FitResult:
    from crowdppl.inference.sampling import gibbs

    draws, progress = gibbs.sample(problem, problem.options)
    out = _diagnostics(progress.objectives, False, progress.interrupted, notes)
    out["relabelled"] = list(progress.relabelled)
    return _sampled(problem, order, draws, out, "gibbs")


def _nuts(problem: Problem, order: np.ndarray, notes: list[str]) -> FitResult:
    from crowdppl.inference.sampling import nuts

    draws, progress, more = nuts.sample(problem, problem.options)
    out = {**_diagnostics(progress.objectives, False, progress.interrupted, notes), **more}
    n = sum(more["divergences"].values())
    if n:
        notes.append(
            f"nuts met {n} divergent transitions: the posterior has corners it cannot follow; raise warmup"
        )
    return _sampled(problem, order, draws, out, "nuts")


def _sampled(
    problem: Problem, order: np.ndarray, draws: dict[str, Tensor], out: dict[str, Any], engine: str
) -> FitResult:
    from crowdppl.inference.assemble import from_draws, mixing
    from crowdppl.inference.sampling.relabelling import permutations

    out["permutations"] = permutations(problem, draws)
    out |= mixing(draws, frozenset(s.name for s in problem.of_kind("conjugate")))
    out["chains"], out["draws"] = next(iter(draws.values())).shape[:2]
    worst = max(out["rhat"].values(), default=float("nan"))
    out["converged"] = bool(worst < 1.05) and not out["interrupted"]
    if out["interrupted"]:
        out["warnings"].append(f"{engine} was stopped after {out['draws']} draws a chain")
    elif not out["converged"]:
        out["warnings"].append(f"{engine}{_unsettled(out, worst)}")
    return from_draws(problem, order, draws, out)


def _unsettled(out: Mapping[str, Any], worst: float) -> str:
    """What to say of an engine whose chains are not known to agree."""
    if out["chains"] == 1:
        return " ran one chain, and whether it has settled shows only beside others: fit with chains=4"
    if out["draws"] < 4:
        return f"'s chains of {out['draws']} draws are too short to be compared; raise draws"
    site = max(out["rhat"], key=lambda n: out["rhat"][n]) if out["rhat"] else "no site"
    advice = "run longer (draws, warmup), or look for classes that are swapped between chains"
    return f"'s chains disagree (R-hat {worst:.3f} at {site}): {advice}"


def _svi(problem: Problem, order: np.ndarray, notes: list[str]) -> FitResult:
    from crowdppl.inference.assemble import from_draws, from_point
    from crowdppl.inference.gradients import svi

    draws, progress = svi.fit(problem, problem.options)
    if progress.interrupted:
        notes.append(f"svi was stopped after {len(progress.objectives)} iterations")
    elif not progress.converged:
        notes.append("svi's objective was still moving at the end; raise max_iterations or lower learning_rate")
    out = _diagnostics(progress.objectives, progress.converged, progress.interrupted, notes)
    point = next(iter(draws.values())).shape[1] == 1 if draws else True
    return (from_point if point else from_draws)(problem, order, draws, out)


_RUNNERS: dict[str, Callable[[Problem, np.ndarray, list[str]], FitResult]] = {
    "em": _climb("em"),
    "vb": _climb("vb"),
    "gibbs": _gibbs,
    "nuts": _nuts,
    "svi": _svi,
}
