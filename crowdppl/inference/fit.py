"""One fit, from a model and data to a result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from crowdppl.core.collective import reduced, together
from crowdppl.core.devices import BYTES, enough_memory, pyro_state_kept, require_memory, return_memory
from crowdppl.core.validation import shown, warn
from crowdppl.data.annotations import Annotations
from crowdppl.data.covariates import no_covariates
from crowdppl.data.edges import NO_EDGES
from crowdppl.errors import ConvergenceWarning, DataError, MethodError
from crowdppl.inference.checkpoint import TrialCache, beside, check_path, trial_cache
from crowdppl.inference.confusions import JOINED
from crowdppl.inference.engine import SAMPLING, Engine
from crowdppl.inference.engines import ENGINES, choose_engine, gives_way, refuse_engine, runs_longer
from crowdppl.inference.neural.learner import with_early_stopping
from crowdppl.inference.options import FitOptions, Options, options_from
from crowdppl.inference.problem import Earlier, Problem, build_problem, model_runs
from crowdppl.inference.result import Fit
from crowdppl.inference.shares import refuse_own_setup, refuse_unshared, require_agreement, require_share
from crowdppl.networks.outputs import networks_of, trained_networks
from crowdppl.networks.training import VOLUMES, training_of
from crowdppl.primitives.model import Model, card_of, set_up

SelectVolume = Callable[
    [Model, Model, Annotations, str, Options, TrialCache | None], tuple[float, dict[str, float]]
]
"""Finds a network's volume by trials: the model before and after setup, data, engine, options, trials so far."""


@together()
def fit_one(
    model: Model,
    data: Annotations,
    engine: str,
    options: Options | FitOptions,
    start: Mapping[str, Tensor] | None = None,
    *,
    name: str | None = None,
    fits: int = 1,
    evidence: Tensor | None = None,
    earlier: Earlier | None = None,
    select_volume: SelectVolume | None = None,
) -> Fit:
    """One fit of one model by one engine, neither corrected nor doubted; every fit of the library is made here.

    Args:
        model, data: with its settings; the annotations, with labels.
        engine: by name, or "auto", whose chains run longer where they disagree, and then give way to vb, unless
            options say how long they run.
        options: of the engine; as keywords of ``fit``, they are checked, and gibbs takes more chains on small data.
        start: values of sites (or truth shares) to start from.
        name: of the method, for the result and for messages; by default that of its class.
        fits: number of such fits to come, by which "auto" chooses an engine.
        evidence: (N, K) log-potentials of the truth by position, beside labels and gold.
        earlier: a fit of the same annotators and classes, which em and vb continue.
        select_volume: finds the volume of networks whose training says "auto".

    Raises:
        MethodError: when the engine cannot treat the model.
        DataError: when the data lack what the model reads.
        NumericalError: when a number is not finite.
        MemoryShortageError: when the fit needs more memory than there is.
        ProcessError: when processes that share the fit differ, or another one fails.
    """
    began = time.perf_counter()
    require_share(data)
    check_fit(model, data, engine)
    free = engine == "auto" and not (isinstance(options, Mapping) and {*SAMPLING} & {*options})
    if not isinstance(options, Options):
        many = engine == "auto" or ENGINES[engine].many_chains
        options = options_from(options, reduced(data.n_labels) * data.n_classes if many else None)
    require_agreement(model, data, engine, options, start)
    refuse_own_setup(model)
    name = name or f"{type(model).__module__}.{type(model).__qualname__}"
    card, build = card_of(model), partial(build_problem, data=data, options=options, start=start, evidence=evidence)
    shapes = [*card.sites.values(), card.table] if card is not None and options.device == "cpu" else ()
    with enough_memory(name, data, shapes), pyro_state_kept():
        ready = set_up(model, data)
        if options.checkpoint is not None:
            check_path(options.checkpoint)
        with model_runs(ready, data, options.device):
            problem = build(ready)
            if problem.truth is not None and not problem.sites:
                engine = _without_parameters(problem, engine)
            engine = choose_engine(problem, fits) if engine == "auto" else engine
            refuse_engine(ready, engine, options)
            refuse_unshared(problem, data, engine)
        volumes: dict[str, float] = {}
        if trained_networks(ready):
            ready, volumes = _with_training(model, problem, data, ENGINES[engine], select_volume)
        with _networks_on(ready, options.device), model_runs(ready, data, options.device):
            problem = problem if ready is problem.model else build(ready)
            problem = replace(problem, earlier=earlier)
            if problem.truth is None and problem.integral is None:
                raise MethodError(
                    f"{type(ready).__name__} draws no truth; call crowdppl.primitives.truth(data, log_p) in "
                    "plates.items(data), and give what it returns to annotate"
                )
            _require_memory_for_draws(problem, ENGINES[engine])
            result = ENGINES[engine].run(problem, data.order)
            if free and (longer := runs_longer(problem, engine, result.diagnostics, fits)) is not None:
                options, result = longer.options, ENGINES[engine].run(longer, data.order)
            if free and (note := gives_way(problem, engine, result.diagnostics)) is not None:
                further = replace(problem, options=beside(problem.options, "vb"))
                engine, result = "vb", ENGINES["vb"].run(further, data.order)
                result.diagnostics["warnings"].append(note)
    return_memory(data.n_items)
    if volumes:
        result.diagnostics["volumes"] = volumes
    result.diagnostics["seconds"] = time.perf_counter() - began
    for note in result.diagnostics["warnings"]:
        warn(note, ConvergenceWarning)
    return Fit(ready, name, engine, data, result, options.kept())


def _without_parameters(problem: Problem, engine: str) -> str:
    """The engine of a model that has no parameter to infer; MethodError for one that would have nothing to do."""
    if engine not in ("em", "auto"):
        raise MethodError(
            f"no site of {type(problem.model).__name__} is left to infer, so that inference={engine!r} has nothing "
            "to do; use inference='em', whose E step tells the truths"
        )
    return "em"


def check_fit(model: Model, data: Annotations, engine: str) -> None:
    """Refuses unknown engines, and data that do not fit the method's card."""
    if not isinstance(engine, str) or engine not in (*ENGINES, "auto"):
        raise MethodError(f"inference={shown(engine)} is not an engine; choose from {', '.join(ENGINES)} or 'auto'")
    card = card_of(model)
    if card is not None and not card.takes(data.kind):
        kind, remedy = data.alphabet.kind, f"read them by kind={card.kind!r}, or take a method for classes"
        if kind.numeric:
            remedy = f"take a method for {kind.plural}" + "".join(f", such as {x!r}" for x in kind.methods[-1:])
            remedy += "" if kind.parts else ", or cut them into classes (pandas.cut)"
        raise MethodError(f"{card.title} takes labels of kind {card.kind!r}, and these are {data.kind!r}; {remedy}")
    if card is not None and data.history is not None and "history" not in card.uses:
        raise MethodError(
            f"{card.title} has no prior that annotators' history could enter; leave history out, or use a method "
            "whose card lists it (crowdppl.zoo() shows which)"
        )
    for entity in ("item", "annotator", "label"):
        what = f"{entity}_covariates"
        if card is not None and what in card.uses and getattr(data, what) is None:
            raise DataError(f"{card.title} reads {what}, and {no_covariates(entity)}")
    if card is not None and "edges" in card.uses and data.edges is None:
        raise DataError(f"{card.title} reads edges, and {NO_EDGES}")


def _require_memory_for_draws(problem: Problem, engine: Engine) -> None:
    """Refuses more draws than memory holds, all of which an engine keeps until they are put together."""
    if engine.sample is not None:
        chains = problem.options.chains if "chains" in engine.options else 1
        draws, numbers = problem.options.draws, problem.numbers
        what = f"{engine.name} with chains={chains} and draws={draws:,} of {numbers:,} numbers"
        require_memory(what, BYTES * JOINED * chains * draws * numbers, "lower chains or draws")


@contextmanager
def _networks_on(model: Model, device: str) -> Iterator[None]:
    """Networks on a device, and afterwards on the CPU, so that a posterior is at home anywhere."""
    try:
        for network in networks_of(model).values():
            network.to(device)
        yield
    finally:
        for network in networks_of(model).values():
            network.cpu()


def _with_training(
    model: Model, problem: Problem, data: Annotations, engine: Engine, select_volume: SelectVolume | None
) -> tuple[Model, dict[str, float]]:
    """A model whose training has numbers for "auto" volume and for ``patience``, and the score of each volume.

    ``model`` is as it was before its setup, that of the problem after.
    """
    ready, options = problem.model, problem.options
    volumes: dict[str, float] = {}
    build: Any = replace
    with model_runs(ready, problem, options.device):
        trials = trial_cache(problem, options, engine.name)
    training = getattr(ready, "training", {})
    if engine.epochs is None:
        return ready, volumes
    if training_of(training).volume == "auto":
        if select_volume is None:
            raise MethodError(f"training: volume='auto' is for crowdppl.fit; give a number, such as {VOLUMES[0]}")
        volume, volumes = select_volume(model, ready, data, engine.name, options, trials)
        ready = build(ready, training={**training, "volume": volume})
    with _networks_on(ready, options.device), model_runs(ready, data, options.device):
        return with_early_stopping(ready, data, engine.epochs, options, trials), volumes
