"""Engines: which of them can treat a model, how each runs, and one fit from data to result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from crowdppl.core.devices import BYTES, enough_memory, pyro_state_kept, require_memory
from crowdppl.core.validation import shown, warn
from crowdppl.data.annotations import Annotations
from crowdppl.data.covariates import no_covariates
from crowdppl.errors import ConvergenceWarning, DataError, MethodError, UnusedOptionWarning
from crowdppl.inference import laplace
from crowdppl.inference.checkpoint import TrialCache, check_path, trial_cache
from crowdppl.inference.confusions import JOINED
from crowdppl.inference.engine import Engine
from crowdppl.inference.mcmc import gibbs, nuts
from crowdppl.inference.neural.learner import with_early_stopping
from crowdppl.inference.options import FitOptions, Options
from crowdppl.inference.problem import Earlier, Problem, build_problem, model_runs
from crowdppl.inference.result import Fit
from crowdppl.inference.svi import svi
from crowdppl.inference.vb import engine as em_and_vb
from crowdppl.networks.classifier import learns
from crowdppl.networks.outputs import network_of, networks_of, trained_networks
from crowdppl.networks.training import VOLUMES, training_of
from crowdppl.primitives.model import Model, card_of, set_up

ENGINES: Mapping[str, Engine] = {
    engine.name: engine for engine in (*em_and_vb.ENGINES, gibbs.ENGINE, nuts.ENGINE, laplace.ENGINE, svi.ENGINE)
}
REFUSED = ("batch_size", "checkpoint")
"""Options that are refused by engines which do not have them, where of others is warned."""
SelectVolume = Callable[
    [Model, Model, Annotations, str, Options, TrialCache | None], tuple[float, dict[str, float]]
]
"""Finds a network's volume by trials: the model before and after setup, data, engine, options, trials so far."""


def fit_model(
    model: Model,
    name: str,
    data: Annotations,
    inference: str,
    options: Options,
    start: Mapping[str, Tensor] | None = None,
    *,
    evidence: Tensor | None = None,
    earlier: Earlier | None = None,
    fits: int = 1,
    select_volume: SelectVolume | None = None,
) -> Fit:
    """One fit of one model by one engine, without correction.

    Args:
        model, data, options: with its settings; the annotations; of the engine.
        name: of the method, for the result and for messages.
        inference: an engine, or "auto".
        start: values of sites (or truth shares) to start from.
        evidence: (N, K) log-potentials of the truth by position, beside labels and gold.
        earlier: a fit of the same annotators and classes, which em and vb continue.
        fits: number of such fits to come, by which "auto" chooses an engine.
        select_volume: finds the volume of networks whose training says "auto".

    Raises:
        MethodError: when the engine cannot treat the model.
        DataError: when the data lack what the model reads.
        NumericalError: when a number is not finite.
        MemoryShortageError: when the fit needs more memory than there is.
    """
    began = time.perf_counter()
    check_fit(model, data, inference)
    card, build = card_of(model), partial(build_problem, data=data, options=options, start=start, evidence=evidence)
    shapes = [*card.sites.values(), card.table] if card is not None and options.device == "cpu" else ()
    with enough_memory(name, data, shapes), pyro_state_kept():
        ready = set_up(model, data)
        if options.checkpoint is not None:
            _check_checkpoint(ready, options)
        with model_runs(ready, data, options.device):
            problem = build(ready)
            engine = choose_engine(problem, fits) if inference == "auto" else inference
            refuse_engine(ready, engine, options)
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
    if volumes:
        result.diagnostics["volumes"] = volumes
    result.diagnostics["seconds"] = time.perf_counter() - began
    for note in result.diagnostics["warnings"]:
        warn(note, ConvergenceWarning)
    return Fit(ready, name, engine, data, result, options.kept())


def check_fit(model: Model, data: Annotations, inference: str) -> None:
    """Refuses unknown engines, and data that do not fit the method's card."""
    if not isinstance(inference, str) or inference not in (*ENGINES, "auto"):
        raise MethodError(f"inference={inference!r} is not an engine; choose from {', '.join(ENGINES)} or 'auto'")
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


def _require_memory_for_draws(problem: Problem, engine: Engine) -> None:
    """Refuses more draws than memory holds, all of which an engine keeps until they are put together."""
    if engine.keeps_draws:
        chains = problem.options.chains if "chains" in engine.options else 1
        numbers = sum(math.prod(site.shape(problem.n_items)) for site in problem.sites.values())
        size = BYTES * JOINED * chains * problem.options.draws * numbers
        what = f"{engine.name} with chains={chains} and draws={problem.options.draws:,} of {numbers:,} numbers"
        require_memory(what, size, "lower chains or draws")


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


def _check_checkpoint(model: Model, options: Options) -> None:
    """Refuses a checkpoint where no network learns, and a path that cannot be written."""
    if network_of(model) is None and not any(map(learns, trained_networks(model).values())):
        raise MethodError(
            f"checkpoint={options.checkpoint!r} is for fits in which a network learns, and {type(model).__name__} "
            "has none here; leave it out"
        )
    check_path(options.checkpoint)


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


def refusal(model: Model, engine: str, options: Options) -> str | None:
    """Why the method's card, its network or the options rule an engine out; None where nothing does."""
    card, name = card_of(model), type(model).__name__
    if ENGINES[engine].epochs is None and network_of(model) is not None:
        return f"{name} has a network, which {engine} does not train; use 'vb', 'em' or 'svi'"
    why = None if card is None else card.refusal(engine)
    if card is not None and why is not None:
        return f"{card.title} refuses inference={engine!r}: {why}"
    if options.batch_size is not None and "batch_size" not in ENGINES[engine].options:
        return (
            f"batch_size={options.batch_size} is an option of {' and '.join(engines_with('batch_size'))}; {engine} "
            "runs over all items: leave it out, or use inference='vb'"
        )
    return None


def refuse_engine(model: Model, engine: str, options: Options) -> None:
    """Raises a ``MethodError`` with the ``refusal`` of an engine, if there is one."""
    why = refusal(model, engine, options)
    if why is not None:
        raise MethodError(why)


AUTO_SECONDS = 10.0
"""Gibbs is chosen when it is exact and all fits asked for should take about this long at most."""
PASS_SECONDS, LABEL_SECONDS, NUMBER_SECONDS = 2.5e-3, 1.2e-8, 1e-7
"""Seconds of a sweep: for each pass over the labels, for each label, state of an item and chain in a pass, and
for each number of a conjugate site; fitted to processor times of 71 settings, on one thread."""
HYPER_SECONDS, HYPER_NUMBER_SECONDS = 1.2e-2, 1e-6
"""Seconds of a sweep that parameters of priors add: for their search, and for each number below them."""


def choose_engine(problem: Problem, fits: int = 1) -> str:
    """gibbs where it is exact and cheap by ``gibbs_seconds`` times the number of fits, else vb, else em."""
    fitting = [name for name in ENGINES if refusal(problem.model, name, problem.options) is None]
    exact = not problem.of_kind("free") and "gibbs" in fitting
    if exact and fits * gibbs_seconds(problem) <= AUTO_SECONDS:
        return "gibbs"
    return next((engine for engine in ("vb", "em") if engine in fitting), "svi")


def gibbs_seconds(problem: Problem) -> float:
    """About how long gibbs takes, by a formula and never by a clock, so that a seed has one result everywhere.

    Each one-hot site of annotators takes a pass of its own.
    """
    options = problem.options
    numbers = sum(math.prod(s.shape(problem.n_items)) for s in problem.of_kind("conjugate")) * options.chains
    lookups = problem.n_labels * problem.states * options.chains
    sweep = (1 + len(problem.of_kind("onehot"))) * (PASS_SECONDS + LABEL_SECONDS * lookups)
    sweep += NUMBER_SECONDS * numbers
    if problem.of_kind("hyper"):
        sweep += HYPER_SECONDS + HYPER_NUMBER_SECONDS * numbers
    return (options.warmup + options.draws) * sweep


def engine_support(model: Model, data: Annotations, engine: str) -> str:
    """What an engine does with a model: "exact", "mean-field", "gradient", or why it refuses.

    The data are any annotations of the kind that it takes; the model is run on a few items of them.
    """
    options = Options(max_iterations=1, draws=4, warmup=1, chains=1)
    try:
        model = set_up(model, data)
        refuse_engine(model, engine, options)
        with model_runs(model, data):
            return ENGINES[engine].capability(build_problem(model, data, options))
    except MethodError as error:
        return f"refused: {error}"


def engines_with(option: str) -> list[str]:
    """The engines that look at an option; none where all do."""
    return [name for name, engine in ENGINES.items() if option in engine.options]


def used_by(engine: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some options that an engine looks at."""
    return {name: x for name, x in given.items() if not engines_with(name) or name in ENGINES[engine].options}


def runs_many_chains(inference: str) -> bool:
    """Whether an engine, or what "auto" may choose, runs up to 32 chains on small data."""
    if not isinstance(inference, str):  # which the fit refuses
        return False
    return inference == "auto" or (inference in ENGINES and ENGINES[inference].many_chains)


def warn_of_unused(given: FitOptions, engines: Collection[str]) -> None:
    """Warns of keywords of ``fit`` that none of some engines has; not of "auto", which may become any engine.

    Nor of what they refuse.
    """
    if not all(isinstance(engine, str) and engine in ENGINES for engine in engines):
        return
    for name, value in given.items():
        having = engines_with(name)
        if value is not None and having and name not in REFUSED and not set(having).intersection(engines):
            warn(
                f"{name}={shown(value)} changes nothing: it is an option of {' and '.join(having)}, and inference "
                f"is by {' and '.join(engines)}; leave it out, or take another engine",
                UnusedOptionWarning,
            )
