"""What each engine finds, and what there is to say of how it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from crowdppl.inference.fit_result import FitResult
from crowdppl.inference.reading.problem import Problem


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
        learner, n = best.ascent.learner, progress.iterations
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
        out |= {"start": best.start, "iterations": n}
        out["restarts"] = [
            {"start": r.start, "objective": r.objective, "iterations": r.progress.iterations} for r in runs
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
    if out["interrupted"] and out["iterations"] <= problem.options.warmup:
        out["warnings"].append(
            f"{engine} was stopped in its warm-up: this is where its chains stood, not what they draw from"
        )
    elif out["interrupted"]:
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

    runs = svi.fit(problem, problem.options)
    draws, progress = runs[0].draws, runs[0].progress
    if progress.interrupted:
        notes.append(f"svi was stopped after {len(progress.objectives)} iterations")
    elif not progress.converged:
        notes.append("svi's objective was still moving at the end; raise max_iterations or lower learning_rate")
    out = _diagnostics(progress.objectives, progress.converged, progress.interrupted, notes)
    out["start"] = runs[0].start
    out["restarts"] = [
        {"start": r.start, "objective": r.objective, "iterations": len(r.progress.objectives)} for r in runs
    ]
    point = next(iter(draws.values())).shape[1] == 1 if draws else True
    return (from_point if point else from_draws)(problem, order, draws, out)


RUNNERS: dict[str, Callable[[Problem, np.ndarray, list[str]], FitResult]] = {
    "em": _climb("em"),
    "vb": _climb("vb"),
    "gibbs": _gibbs,
    "nuts": _nuts,
    "svi": _svi,
}
"""By engine: the story and its data, the order of items, and notes, to which more may come, to a result."""
