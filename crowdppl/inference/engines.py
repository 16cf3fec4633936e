"""The engines, what each makes of a model, and which one "auto" takes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from crowdppl.core.validation import shown, warn
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError, UnusedOptionWarning
from crowdppl.inference import laplace, pathfinder
from crowdppl.inference.checkpoint import beside
from crowdppl.inference.engine import Engine
from crowdppl.inference.mcmc import gibbs, nuts
from crowdppl.inference.options import FitOptions, Options
from crowdppl.inference.problem import Problem, build_problem, model_runs
from crowdppl.inference.svi import svi
from crowdppl.inference.vb import engine as em_and_vb
from crowdppl.networks.outputs import network_of
from crowdppl.primitives.model import Model, card_of, set_up

ENGINES: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (*em_and_vb.ENGINES, gibbs.ENGINE, nuts.ENGINE, laplace.ENGINE, pathfinder.ENGINE, svi.ENGINE)
}


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
    if options.checkpoint is not None and "checkpoint" not in ENGINES[engine].options:
        return (
            f"checkpoint={shown(options.checkpoint)} is an option of {', '.join(engines_with('checkpoint'))}; "
            f"{engine} keeps none: leave it out, or use inference='vb'"
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


LONGER = 3
"""How many times as long chains run that disagree."""


def choose_engine(problem: Problem, fits: int = 1) -> str:
    """gibbs where it is exact and cheap by ``gibbs_seconds`` times the number of fits, else vb, else em."""
    fitting = [name for name in ENGINES if refusal(problem.model, name, problem.options) is None]
    exact = not problem.of_kind("free") and "gibbs" in fitting
    if exact and fits * gibbs_seconds(problem) <= AUTO_SECONDS:
        return "gibbs"
    return next((engine for engine in ("vb", "em") if engine in fitting), "svi")


def runs_longer(problem: Problem, engine: str, told: Mapping[str, Any], fits: int = 1) -> Problem | None:
    """The problem with more warm-up and draws, where chains disagree and as many fits are cheap; None elsewhere."""
    options = problem.options
    if not _disagree(engine, told):
        return None
    options = beside(options, "longer")
    longer = replace(options, warmup=LONGER * options.warmup, draws=LONGER * options.draws)
    found = replace(problem, options=longer)
    return found if fits * gibbs_seconds(found) <= AUTO_SECONDS else None


def gives_way(problem: Problem, engine: str, told: Mapping[str, Any]) -> str | None:
    """Why vb takes the place of chains that "auto" chose; None where they agree, or vb refuses the model."""
    if not _disagree(engine, told) or refusal(problem.model, "vb", problem.options) is not None:
        return None
    return (
        f"{engine}'s chains disagree (R-hat {max(told['rhat'].values()):.2f}), so that vb took their place, and "
        f"its results can be used; inference={engine!r} keeps the chains"
    )


def _disagree(engine: str, told: Mapping[str, Any]) -> bool:
    """Whether several chains ran to their end and disagree."""
    several = ENGINES[engine].sample is not None and told["chains"] > 1 and bool(told["rhat"])
    return several and not told["converged"] and not told["interrupted"]


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


def warn_of_unused(given: FitOptions, engines: Collection[str]) -> None:
    """Warns of keywords of ``fit`` that none of some engines has; not of "auto", which may become any engine.

    Nor of what they refuse.
    """
    if not all(isinstance(engine, str) and engine in ENGINES for engine in engines):
        return
    for name, value in given.items():
        having = engines_with(name)
        if (
            value is not None
            and having
            and name not in ("batch_size", "checkpoint")
            and not set(having).intersection(engines)
        ):
            warn(
                f"{name}={shown(value)} changes nothing: it is an option of {' and '.join(having)}, and inference "
                f"is by {' and '.join(engines)}; leave it out, or take another engine",
                UnusedOptionWarning,
            )
