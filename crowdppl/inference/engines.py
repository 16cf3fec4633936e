"""Engines: which of them can treat a model, how each runs, and the result each returns."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.devices import handlers_kept, held_back, let_through, memory_errors_explained
from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ConvergenceWarning, DataError, MethodError
from crowdppl.inference.checkpoint import TrialCache, check_path, trial_cache
from crowdppl.inference.draws import crossed, draws_of, mean_of
from crowdppl.inference.loop import told_of_late
from crowdppl.inference.mcmc import gibbs, nuts
from crowdppl.inference.neural.early_stopping import with_early_stopping
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem, build_problem, without_validation
from crowdppl.inference.result import Fit, FitResult, SiteResult
from crowdppl.inference.tables import (
    MOST_DRAWS,
    Dims,
    Draws,
    affordable,
    are_linear,
    draws_for_spread,
    draws_for_truth,
    table_draws,
    tables_at,
    thinned,
    truth_at,
    truth_over,
)
from crowdppl.inference.vb.fit import Earlier, VbRun, prepare
from crowdppl.inference.vb.gaussians import Gaussians
from crowdppl.inference.vb.linear_response import weights
from crowdppl.networks.classifier import learns
from crowdppl.networks.outputs import network_of, networks_of, trained_networks
from crowdppl.networks.training import VOLUMES, training_of
from crowdppl.primitives.model import Model, card_of


def from_climb(
    problem: Problem, order: np.ndarray, best: VbRun, engine: str, diagnostics: dict[str, Any]
) -> FitResult:
    """The result of em or vb.

    Args:
        problem: story and data.
        order: item code at each position.
        best: the winning run.
        engine: "em" gives points, "vb" distributions.
        diagnostics: passed through.
    """
    ascent = best.ascent
    values, chains = ascent.here.values(), ascent.fold.density.chains
    probabilities = _by_code(truth_at(problem, values, chains), order)
    sd = entropies = tables = prevalence = None
    sites = _climbed_sites(problem, order, best, engine)
    widened = _widened(problem, best, sites, diagnostics) if engine == "vb" and problem.spread else {}
    wide = sites | widened
    mean = None if engine == "em" else _mean_enough(problem, sites)
    if engine == "vb" and (problem.spread or mean is None):
        draws = _vb_draws(problem, wide, order)
        tables, prevalence = table_draws(problem, draws)
        if problem.spread:
            over = truth_over(problem, thinned(draws, draws_for_spread(problem)))
            sd, entropies = _by_code(over.sd, order), _by_code(over.entropies, order)
    if engine == "em" or mean is not None:
        at = (values, chains) if mean is None else (mean, None)
        mean_table, mean_share = (x.cpu().numpy() for x in tables_at(problem, *at))
    else:
        assert tables is not None and prevalence is not None
        drawn = tables, prevalence
        if widened:  # draws of vb's own are narrower: the same mean with less noise
            drawn = table_draws(problem, _vb_draws(problem, sites, order))
        mean_table, mean_share = (x.mean(0, dtype=np.float64) for x in drawn)
    return FitResult(
        wide,
        probabilities,
        sd,
        mean_table,
        tables,
        mean_share,
        prevalence,
        diagnostics,
        entropies,
    )


def _vb_draws(problem: Problem, sites: Mapping[str, SiteResult], order: np.ndarray) -> Draws:
    """As many draws of vb's sites as are affordable."""
    return draws_of(problem, sites, order, affordable(problem), problem.options.generator(8))


def _mean_enough(problem: Problem, sites: Mapping[str, SiteResult]) -> dict[str, Tensor] | None:
    """The mean of sites, where the mean table is the table there; sites are independent of each other."""
    if problem.of_kind("free"):
        return None
    mean = mean_of(problem, sites, [n for n, site in problem.sites.items() if not site.local])
    if mean and not are_linear(problem, crossed(problem, mean, problem.options.generator(8))):
        return None
    return mean


def from_draws(
    problem: Problem, order: np.ndarray, draws: Mapping[str, Tensor], diagnostics: dict[str, Any]
) -> FitResult:
    """The result of a sampler: draws by site, (C, D, ..., event) as the story's chains see them."""
    flat = {n: x.flatten(0, 1) for n, x in draws.items()}
    over = truth_over(problem, thinned(flat, draws_for_truth(problem)))
    tables, prevalence = table_draws(problem, thinned(flat, max(MOST_DRAWS, affordable(problem))))
    return FitResult(
        {n: _drawn_site(problem, order, n, x) for n, x in draws.items()},
        _by_code(over.mean, order),
        _by_code(over.sd, order),
        tables.mean(0, dtype=np.float64),
        tables,
        prevalence.mean(0),
        prevalence,
        diagnostics,
        _by_code(over.entropies, order),
    )


def from_point(
    problem: Problem, order: np.ndarray, draws: Mapping[str, Tensor], diagnostics: dict[str, Any]
) -> FitResult:
    """The result of a guide that is a point: the only draw (1, 1, ...) of each site."""
    values = {n: x[0, 0].reshape(problem.sites[n].shape(problem.n_items)) for n, x in draws.items()}
    table, share = tables_at(problem, values, None)
    sites = {}
    for name, x in draws.items():
        drawn = _drawn_site(problem, order, name, x)
        sites[name] = SiteResult(name, drawn.dims, "point", {"value": np.asarray(drawn.arrays["draws"][0, 0])})
    probabilities = _by_code(truth_at(problem, values, None), order)
    return FitResult(sites, probabilities, None, table.cpu().numpy(), None, share.cpu().numpy(), None, diagnostics)


def _by_code(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """From positions to codebook order along the first dimension; quickest where memory runs along it."""
    position = np.empty_like(order)
    position[order] = np.arange(len(order), dtype=order.dtype)
    return x.T.take(position, -1).T


def _drawn_site(problem: Problem, order: np.ndarray, name: str, x: Tensor) -> SiteResult:
    site = problem.sites[name]
    x = x.exp() if site.kind == "conjugate" else x
    lead = x.shape[:2]
    values = x.reshape(*lead, *site.shape(problem.n_items)).cpu().numpy()
    dims = Dims(problem).of(site)
    if site.local:
        axis = 2 + site.batch_shape.index(-1)
        values = np.moveaxis(_by_code(np.moveaxis(values, axis, 0), order), 0, axis)
    return SiteResult(name, dims, "draws", {"draws": values})


def _climbed_sites(problem: Problem, order: np.ndarray, best: VbRun, engine: str) -> dict[str, SiteResult]:
    state, out = best.ascent.state, {}
    for name, x in state.parameters.items():
        dims = Dims(problem).of(problem.sites[name])
        array = x.detach().cpu().numpy()
        family = "point" if engine == "em" else "dirichlet"
        arrays = {"value": np.exp(array)} if engine == "em" else {"concentration": array}
        out[name] = SiteResult(name, dims, family, arrays)
    for name, x in state.logits.items():
        share = x.softmax(-1).detach().cpu().numpy()
        out[name] = SiteResult(name, Dims(problem).of(problem.sites[name]), "onehot", {"probability": share})
    return out | _gaussian_sites(problem, order, state.gaussians)


def _widened(
    problem: Problem, best: VbRun, sites: Mapping[str, SiteResult], diagnostics: dict[str, Any]
) -> dict[str, SiteResult]:
    """Dirichlets of vb, with what linear response says of their width; Ctrl-C leaves them as they are."""
    try:
        with let_through(), handlers_kept():  # it takes long, and the fit is there without it
            found = weights(problem, best.ascent, problem.options.generator(13), settled=best.progress.converged)
    except KeyboardInterrupt:
        diagnostics |= {"interrupted": True, "converged": False}
        diagnostics["warnings"].append(
            "vb was stopped while its intervals were widened: they are those of mean field, which are too narrow"
        )
        return {}
    return {n: replace(sites[n], arrays={**sites[n].arrays, "weight": x.cpu().numpy()}) for n, x in found.items()}


def _gaussian_sites(problem: Problem, order: np.ndarray, gaussians: Gaussians) -> dict[str, SiteResult]:
    means = gaussians.means()
    out = {}
    for name, site in gaussians.sites.items():

        def plain(x: Tensor, local: bool = site.local) -> np.ndarray:
            array = x.detach().cpu().numpy()
            return _by_code(array, order) if local else array

        dims = Dims(problem).of(site)
        if name in gaussians.log_scale:
            arrays = {
                "loc": plain(gaussians.loc[name]),
                "scale": plain(gaussians.log_scale[name].exp()),
                "mean": plain(means[name]),
            }
            out[name] = SiteResult(name, dims, "normal", arrays, site.space)
        else:
            out[name] = SiteResult(name, dims, "point", {"value": plain(means[name])})
    return out


def mixing(draws: Mapping[str, Tensor], conjugate: frozenset[str]) -> dict[str, Any]:
    """How well chains agree and how much their draws are worth, by site.

    The worst split R-hat over at most 200 of the site's entries, from at most 100 draws a chain (thinning takes
    nothing from a comparison of chains); and the smallest bulk and tail ESS, from all draws, of the 40 entries
    whose R-hat is worst.
    """
    import arviz as az  # slow to import, needed by samplers only

    out: dict[str, dict[str, float]] = {"rhat": {}, "ess_bulk": {}, "ess_tail": {}}
    for name, x in draws.items():
        values = (x.exp() if name in conjugate else x).reshape(*x.shape[:2], -1)
        at = torch.linspace(0, values.shape[-1] - 1, min(200, values.shape[-1])).round().long()
        array = values[..., at].cpu().numpy().astype(np.float64)
        array = array[..., array.std((0, 1)) > 1e-12]
        if array.shape[1] < 4 or array.shape[-1] == 0:
            continue
        thinned, rhat = array[:, :: max(1, array.shape[1] // 100)], np.full(array.shape[-1], np.nan)
        if len(array) > 1:  # one chain has none, and ArviZ would say so of each site
            with np.errstate(
                divide="ignore", invalid="ignore"
            ):  # chains that stand still, each elsewhere: infinite
                rhat = az.rhat(_dataset(thinned))["x"].values
        worst = _dataset(array[..., np.argsort(-np.nan_to_num(rhat))[:40]])
        told = rhat[~np.isnan(rhat)]
        out["rhat"][name] = float(told.max()) if len(told) else float("nan")
        out["ess_bulk"][name] = float(np.nanmin(az.ess(worst, method="bulk")["x"].values))
        out["ess_tail"][name] = float(np.nanmin(az.ess(worst, method="tail")["x"].values))
    return out


def _dataset(draws: np.ndarray) -> Any:
    """Draws (chains, draws, entries) for ArviZ, which takes many chains of few draws for dimensions mixed up."""
    import arviz as az

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "More chains", UserWarning)
        return az.convert_to_dataset({"x": draws})


__all__ = ["Draws", "from_climb", "from_draws", "from_point", "mixing"]


AUTO_SECONDS = 10.0
"""Gibbs is chosen when it is exact and all fits asked for should take about this long at most."""
A_PASS, A_LOOKUP, A_NUMBER = 2.5e-3, 1.2e-8, 1e-7
"""Seconds of a sweep: for each pass over the labels, for each label, state of an item and chain in a pass, and
for each number drawn from Dirichlets. These and the next are fitted to the median processor time of a sweep, on one
thread of a busy machine, in 71 settings: nine methods; 320 to 100,000 labels, five an item; 2 to 10 classes; 10 to
1,000 annotators; 4 to 32 chains. Sweeps took .65 to 2.3 times what the formula says, most with mixed membership of
ten classes."""
A_SEARCH, A_SEARCHED = 1.2e-2, 1e-6
"""Seconds of a sweep that parameters of priors add: for their search, and for each number below them."""


def check_data(model: Model, data: Annotations) -> None:
    """Refuses data that do not have what the method's card says it reads, or have a history that it cannot use.

    Raises:
        MethodError: for a history, without a prior on confusion or accuracy.
        DataError: for covariates that are missing.
    """
    card = card_of(model)
    if data.history is not None and card is not None and "history" not in card.uses:
        raise MethodError(
            f"{card.title} has no prior that annotators' history could enter; leave history out, or use a method "
            "whose card lists it (crowdppl.zoo() shows which)"
        )
    for entity in ("item", "annotator"):
        what = f"{entity}_covariates"
        if card is not None and what in card.uses and getattr(data, what) is None:
            raise DataError(
                f"{card.title} reads {what}, and the data have none; give {what}=, a DataFrame by {entity} id"
            )


def refuse_engine(model: Model, engine: str) -> None:
    """Refuses an engine that the method's card rules out.

    Raises:
        MethodError: with the card's reason.
    """
    card = card_of(model)
    if engine in ("gibbs", "nuts") and network_of(model) is not None:
        raise MethodError(
            f"{type(model).__name__} has a network, which {engine} does not train; use 'vb', 'em' or 'svi'"
        )
    if card is not None and engine in card.refused:
        raise MethodError(f"{card.title} refuses inference={engine!r}: {card.refused[engine]}")


def choose_engine(problem: Problem, options: Options, fits: int = 1) -> tuple[str, str]:
    """gibbs where it is exact and cheap, else vb, else em: by a formula, ``gibbs_seconds``, and the number of fits.

    Returns:
        The engine and a sentence that says why.
    """
    card = card_of(problem.model)
    refused = set(card.refused) if card is not None else set()
    learns = network_of(problem.model) is not None
    whole = not learns and options.batch_size is None
    exact = whole and not problem.of_kind("free") and "gibbs" not in refused
    if exact and fits * gibbs_seconds(problem, options) <= AUTO_SECONDS:
        return "gibbs", ""
    if "vb" not in refused:
        return "vb", ""
    return ("em" if "em" not in refused else "svi"), ""


def gibbs_seconds(problem: Problem, options: Options) -> float:
    """About how long gibbs takes, by a formula and never by a clock, so that a seed has one result everywhere.

    An item has as many states as classes, or more where a story sums out a variable of its own (a mixture of
    classes, a subtype). Each one-hot site of annotators takes a pass of its own.
    """
    numbers = sum(math.prod(s.shape(problem.n_items)) for s in problem.of_kind("conjugate")) * options.chains
    lookups = problem.n_labels * problem.states * options.chains
    sweep = (1 + len(problem.of_kind("onehot"))) * (A_PASS + A_LOOKUP * lookups) + A_NUMBER * numbers
    if problem.of_kind("hyper"):
        sweep += A_SEARCH + A_SEARCHED * numbers
    return (options.warmup + options.draws) * sweep


def engine_support(model: Model, data: Annotations, engine: str) -> str:
    """What an engine does with a story: "exact", "mean-field", "gradient", or why it refuses.

    Args:
        story: a method.
        data: any annotations of the kind that it takes; the story is run on a few items of it.
        engine: one of the engines.
    """
    ready = getattr(model, "setup", None)
    options = replace(Options(), max_iterations=1, draws=4, warmup=1, chains=1)
    try:
        model = model if ready is None else ready(data)
        refuse_engine(model, engine)
        with without_validation("cpu"):
            return _cell(build_problem(model, data, options), engine)
    except MethodError as error:
        return f"refused: {error}"


def _cell(problem: Problem, engine: str) -> str:
    kinds = {s.kind for s in problem.sites.values()}
    if engine in ("em", "vb"):
        prepare(problem, problem.options, engine, problem.start(0)[1])
        if engine == "em":
            return "gradient" if "free" in kinds else "mean-field" if "onehot" in kinds else "exact"
        return "gradient" if "free" in kinds else "mean-field"
    if engine == "gibbs":
        gibbs.Gibbs(problem, problem.options)
        return "exact"
    if engine == "nuts":
        nuts.Marginal(problem)
        return "gradient"
    return "gradient"


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
        from crowdppl.inference.vb.fit import run_starts

        runs = run_starts(problem, problem.options, engine)
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
    from crowdppl.inference.mcmc import gibbs

    draws, progress = gibbs.sample(problem, problem.options)
    out = _diagnostics(progress.objectives, False, progress.interrupted, notes)
    out["relabelled"] = list(progress.relabelled)
    return _sampled(problem, order, draws, out, "gibbs")


def _nuts(problem: Problem, order: np.ndarray, notes: list[str]) -> FitResult:
    from crowdppl.inference.mcmc import nuts

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
    from crowdppl.inference.mcmc.gibbs import permutations

    out["permutations"] = permutations(problem, draws)
    out |= mixing(draws, problem.conjugate)
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
    from crowdppl.inference.svi import svi

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


ENGINES = tuple(RUNNERS)


SelectVolume = Callable[
    [Model, Model, Annotations, str, Options, TrialCache | None], tuple[float, dict[str, float]]
]
"""Finds a network's volume by trials: the model as asked and as prepared, data, engine, options, trials so far."""


def fit_model(
    model: Model,
    name: str,
    data: Annotations,
    inference: str,
    options: Options,
    start: Mapping[str, Tensor] | None = None,
    *,
    fits: int = 1,
    select_volume: SelectVolume | None = None,
) -> Fit:
    """One fit of one model by one engine, neither corrected nor doubted.

    Args:
        story: the model, with its settings.
        name: of the method, for the result and for messages.
        data, inference, options, start, fits, select_volume: as for ``run``.

    Raises:
        MethodError: when the engine cannot treat the story.
        NumericalError: when a number is not finite.
        MemoryShortageError: when the fit needs more memory than there is.
    """
    with memory_errors_explained(name, data):
        fitted, engine, result = run(model, data, inference, options, start, fits=fits, select_volume=select_volume)
    return Fit(fitted, name, engine, data, result, options.kept())


def run(
    model: Model,
    data: Annotations,
    inference: str,
    options: Options,
    start: Mapping[str, Tensor] | None = None,
    evidence: Tensor | None = None,
    earlier: Earlier | None = None,
    spread: bool = True,
    fits: int = 1,
    select_volume: SelectVolume | None = None,
) -> tuple[Model, str, FitResult]:
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
        select_volume: what finds the volume of networks whose training says "auto".

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
        model, engine, result = _run(
            model, data, inference, options, start, evidence, earlier, spread, fits, select_volume
        )
        result.diagnostics["seconds"] = time.perf_counter() - began
        for note in result.diagnostics["warnings"]:
            warn(note, ConvergenceWarning)
    told_of_late(result.diagnostics, hold.came)
    return model, engine, result


def _run(
    model: Model,
    data: Annotations,
    inference: str,
    options: Options,
    start: Mapping[str, Tensor] | None,
    evidence: Tensor | None,
    earlier: Earlier | None,
    spread: bool,
    fits: int,
    select_volume: SelectVolume | None,
) -> tuple[Model, str, FitResult]:
    """The same, with nothing said aloud."""
    check_data(model, data)
    setup = getattr(model, "setup", None)
    asked, model = model, model if setup is None else setup(data)
    _refuse_checkpoint(model, options)
    with without_validation(options.device):
        problem = replace(build_problem(model, data, options, start, evidence), earlier=earlier, spread=spread)
        engine, why = choose_engine(problem, options, fits) if inference == "auto" else (inference, "")
        refuse_engine(model, engine)
        kept = trial_cache(problem, options, engine)
    found, volumes, options = _with_volume(asked, model, data, engine, options, kept, select_volume)
    with _homecoming(model), without_validation(options.device):
        found = with_early_stopping(found, data, engine, options, kept)
        if found is not model:
            model = found
            problem = replace(build_problem(model, data, options, start, evidence), earlier=earlier, spread=spread)
        _require_truth(problem)
        notes = [why] if why else []
        with warnings.catch_warnings():
            result = RUNNERS[engine](problem, data.order, notes)
    if volumes:
        result.diagnostics["volumes"] = volumes
    return model, engine, result


def _require_truth(problem: Problem) -> None:
    if problem.truth is None:
        raise MethodError(
            f"{type(problem.model).__name__} draws no truth, so that nothing of it can be learned; call "
            "crowdppl.primitives.truth(data, log_p) in plates.items(data), and hand what it returns to annotate"
        )


@contextmanager
def _homecoming(model: Model) -> Iterator[None]:
    """Networks are on the CPU after a fit, as all else that a posterior holds, so that it is at home anywhere."""
    try:
        yield
    finally:
        for network in networks_of(model).values():
            network.cpu()


def _refuse_checkpoint(model: Model, options: Options) -> None:
    if options.checkpoint is None:
        return
    if network_of(model) is None and not any(map(learns, trained_networks(model).values())):
        raise MethodError(
            f"checkpoint={options.checkpoint!r} is for fits in which a network learns, and {type(model).__name__} "
            "has none here; leave it out"
        )
    if options.checkpoint_steps is not None and training_of(getattr(model, "training", {})).full_batch:
        raise MethodError(
            f"checkpoint_steps={options.checkpoint_steps} counts minibatches, and full_batch=True has none; leave "
            "it out: checkpoint_every counts epochs"
        )
    check_path(options.checkpoint)


def _with_volume(
    asked: Model,
    model: Model,
    data: Annotations,
    engine: str,
    options: Options,
    kept: TrialCache | None,
    select_volume: SelectVolume | None,
) -> tuple[Model, dict[str, float], Options]:
    """The prepared story with a number for its volume, how volumes scored if one was looked for, and options.

    Where Ctrl-C ends that look, the options end the fit after its first epoch, and leave checkpoints alone.
    """
    training = getattr(model, "training", {})
    if engine not in ("em", "vb", "svi") or not trained_networks(model) or training_of(training).volume != "auto":
        return model, {}, options
    if select_volume is None:
        raise MethodError(f"training: volume='auto' is for crowdppl.fit; give a number, such as {VOLUMES[0]}")
    more: dict[str, Any] = {}
    try:
        more["volume"], scores = select_volume(asked, model, data, engine, options, kept)
    except KeyboardInterrupt:
        more, scores = {"volume": VOLUMES[0], "patience": 0}, {}
        options = replace(options, callback=_stop, checkpoint=None)
    build: Any = replace
    return build(model, training={**training, **more}), scores, options


def _stop(*_: object) -> None:
    """A callback that ends a fit as Ctrl-C does."""
    raise KeyboardInterrupt
