"""The loop of an iterative fit: progress, callback, convergence and a clean stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from crowdppl.core.collective import in_step, reduced
from crowdppl.core.devices import pyro_state_kept
from crowdppl.inference.checkpoint import Checkpoint
from crowdppl.inference.options import Options


@dataclass
class Progress:
    """How a fit went.

    Attributes:
        objectives: the objective at the start of each iteration.
        converged: whether the gain fell below the tolerance.
        interrupted: whether the user stopped it.
        before: iterations of an earlier part of the fit, whose objective was another.
    """

    objectives: list[float] = field(default_factory=list)
    converged: bool = False
    interrupted: bool = False
    before: int = 0

    @property
    def iterations(self) -> int:
        """Of all parts."""
        return self.before + len(self.objectives)


@dataclass(frozen=True)
class Run:
    """One finished run from one start.

    Attributes:
        start: name of the start.
        progress: objectives and how it ended.
        objective: by which starts are compared.
    """

    start: str
    progress: Progress
    objective: float


AnyRun = TypeVar("AnyRun", bound=Run)
State = TypeVar("State")
Step = Callable[[State], tuple[State, float]]
"""From a state to the next, with the objective."""


def run_each(run: Callable[[int], AnyRun], starts: int) -> list[AnyRun]:
    """Runs from start 0, 1, ... until the user presses Ctrl-C; the best run comes first."""
    runs: list[AnyRun] = []
    while len(runs) < starts and not (runs and runs[-1].progress.interrupted):
        runs.append(run(len(runs)))
    stopped = runs[-1].progress.interrupted
    runs.sort(key=lambda run: -run.objective)
    if stopped:  # further starts might have been better
        runs[0].progress.interrupted, runs[0].progress.converged = True, False
    return runs


def diagnostics_of(progress: Progress, converged: bool, notes: list[str]) -> dict[str, Any]:
    """What a result says of how its fit went."""
    return {
        "converged": converged,
        "interrupted": progress.interrupted,
        "iterations": progress.iterations,
        "objective": progress.objectives[-1] if progress.objectives else float("nan"),
        "objectives": progress.objectives,
        "warnings": notes,
    }


def diagnostics_of_runs(engine: str, runs: Sequence[Run], remedy: str) -> dict[str, Any]:
    """What a result says of runs from several starts, the best first; the remedy where that did not converge."""
    progress, notes = runs[0].progress, []
    if progress.interrupted:
        notes.append(f"{engine} was stopped after {progress.iterations} iterations")
    elif not progress.converged:
        notes.append(f"{engine} did not converge after {progress.iterations} iterations; {remedy}")
    kept = [{"start": r.start, "objective": r.objective, "iterations": r.progress.iterations} for r in runs]
    return diagnostics_of(progress, progress.converged, notes) | {"start": runs[0].start, "restarts": kept}


def iterate(
    step: Step[State],
    state: State,
    options: Options,
    *,
    steps: int,
    tolerance: float | None = None,
    name: str = "fit",
    checkpoint: Checkpoint[State] | None = None,
) -> tuple[State, Progress]:
    """Steps until the objective settles, the steps are used up, or the user presses Ctrl-C; the last state.

    Args:
        step: from a state to the next; an interrupted step leaves the state as it was.
        state: where to begin.
        options: progress and callback.
        steps: most iterations.
        tolerance: relative gain below which the fit has converged; None never stops early.
        name: of the progress bar.
        checkpoint: where the fit goes on, and is kept.
    """
    from tqdm import tqdm  # kept out of `import crowdppl`

    progress = Progress()
    watched = bool(reduced(int(options.callback is not None), "max"))  # one process alone may print, say
    if checkpoint is not None:
        state, progress.objectives = checkpoint.resume(state)
    progress.converged = _settled(progress.objectives, tolerance)
    bar = tqdm(range(len(progress.objectives), steps), desc=name, disable=not options.progress)
    try:
        with pyro_state_kept():
            for t in bar:
                if progress.converged:
                    break
                state, value = step(state)
                progress.objectives.append(value)
                progress.converged = _settled(progress.objectives, tolerance)
                if checkpoint is not None:
                    checkpoint.keep(state, progress.converged or len(progress.objectives) == steps)
                with in_step() if watched else nullcontext():
                    if options.callback is not None:
                        options.callback(t, value)
                if options.progress:
                    bar.set_postfix(objective=f"{value:.6g}")
    except KeyboardInterrupt:
        progress.interrupted = True
    finally:
        bar.close()
    return state, progress


def _settled(objectives: Sequence[float], tolerance: float | None) -> bool:
    if tolerance is None or len(objectives) < 2:
        return False
    before, value = objectives[-2:]
    return abs(value - before) <= tolerance * (1 + abs(value))
