"""One door to every engine: checks what was asked, runs it, and hands over what it found."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch import Tensor

from crowdppl.doors.telling import tell
from crowdppl.errors import ConvergenceWarning, MethodError
from crowdppl.inference.checkpoints import Beforehand, beforehand_of, place_of
from crowdppl.inference.engine_choice import check_uses, choose, refuse
from crowdppl.inference.fit_result import FitResult
from crowdppl.inference.loop import told_of_late
from crowdppl.inference.options import Options
from crowdppl.inference.reading.posing import pose
from crowdppl.inference.reading.problem import Problem, quiet
from crowdppl.inference.runners import RUNNERS
from crowdppl.inference.stopping import stopped
from crowdppl.networks.network import learns
from crowdppl.networks.sight import learning_of, network_of, networks_of
from crowdppl.networks.training import VOLUMES, training_of
from crowdppl.process.handlers import handlers_kept
from crowdppl.process.holding import held_back
from crowdppl.stories.story import Story

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.inference.climbing.resuming import Earlier

ENGINES = tuple(RUNNERS)


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
    with held_back(empty=True) as hold, handlers_kept():
        story, engine, result = _run(story, data, inference, options, start, evidence, earlier, spread, fits)
        result.diagnostics["seconds"] = time.perf_counter() - began
        for note in result.diagnostics["warnings"]:
            tell(note, ConvergenceWarning)
    told_of_late(result.diagnostics, hold.came)
    return story, engine, result


def _run(
    story: Story,
    data: Annotations,
    inference: str,
    options: Options,
    start: Mapping[str, Tensor] | None,
    evidence: Tensor | None,
    earlier: Earlier | None,
    spread: bool,
    fits: int,
) -> tuple[Story, str, FitResult]:
    """The same, with nothing said aloud."""
    check_uses(story, data)
    prepare = getattr(story, "prepare", None)
    asked, story = story, story if prepare is None else prepare(data)
    _refuse_checkpoint(story, options)
    with quiet(options.device):
        problem = replace(pose(story, data, options, start, evidence), earlier=earlier, spread=spread)
        engine, why = choose(problem, options, fits) if inference == "auto" else (inference, "")
        refuse(story, engine)
        kept = beforehand_of(problem, options, engine)
    found, volumes, options = _with_volume(asked, story, data, engine, options, kept)
    with _homecoming(story), quiet(options.device):
        found = stopped(found, data, engine, options, kept)
        if found is not story:
            story = found
            problem = replace(pose(story, data, options, start, evidence), earlier=earlier, spread=spread)
        _require_truth(problem)
        notes = [why] if why else []
        with warnings.catch_warnings():
            result = RUNNERS[engine](problem, data.order, notes)
    if volumes:
        result.diagnostics["volumes"] = volumes
    return story, engine, result


def _require_truth(problem: Problem) -> None:
    if problem.truth is None:
        raise MethodError(
            f"{type(problem.story).__name__} draws no truth, so that nothing of it can be learned; call "
            "crowdppl.truth(data, log_p) in plates.items(data), and hand what it returns to annotate"
        )


@contextmanager
def _homecoming(story: Story) -> Iterator[None]:
    """Networks are on the CPU after a fit, as all else that a posterior holds, so that it is at home anywhere."""
    try:
        yield
    finally:
        for network in networks_of(story).values():
            network.cpu()


def _refuse_checkpoint(story: Story, options: Options) -> None:
    if options.checkpoint is None:
        return
    if network_of(story) is None and not any(map(learns, learning_of(story).values())):
        raise MethodError(
            f"checkpoint={options.checkpoint!r} is for fits in which a network learns, and {type(story).__name__} "
            "has none here; leave it out"
        )
    if options.checkpoint_steps is not None and training_of(getattr(story, "training", {})).full_batch:
        raise MethodError(
            f"checkpoint_steps={options.checkpoint_steps} counts minibatches, and full_batch=True has none; leave "
            "it out: checkpoint_every counts epochs"
        )
    place_of(options.checkpoint)


def _with_volume(
    asked: Story, story: Story, data: Annotations, engine: str, options: Options, kept: Beforehand | None
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
        more["volume"], scores = trials.chosen(asked, story, data, engine, options, kept)
    except KeyboardInterrupt:
        more, scores = {"volume": VOLUMES[0], "patience": 0}, {}
        options = replace(options, callback=_stop, checkpoint=None)
    build: Any = replace
    return build(story, training={**training, **more}), scores, options


def _stop(*_: object) -> None:
    """A callback that ends a fit as Ctrl-C does."""
    raise KeyboardInterrupt
