"""Puts an engine's outcome into a ``FitResult``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.climbing.gaussians import Gaussians
from crowdppl.inference.climbing.response import weights
from crowdppl.inference.climbing.variational import Climbed
from crowdppl.inference.fit_result import FitResult, SiteResult
from crowdppl.inference.reading.draws import crossed, draws_of, mean_of
from crowdppl.inference.reading.problem import Problem
from crowdppl.inference.reports.report import (
    MOST_DRAWS,
    Dims,
    Draws,
    affordable,
    draws_for_spread,
    draws_for_truth,
    thinned,
    truth_at,
    truth_over,
)
from crowdppl.inference.reports.tables import are_linear, table_draws, tables_at
from crowdppl.process.handlers import handlers_kept
from crowdppl.process.holding import let_through


def from_climb(
    problem: Problem, order: np.ndarray, best: Climbed, engine: str, diagnostics: dict[str, Any]
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
        draws = _nameless(problem, wide, order)
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
            drawn = table_draws(problem, _nameless(problem, sites, order))
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


def _nameless(problem: Problem, sites: Mapping[str, SiteResult], order: np.ndarray) -> Draws:
    """As many draws of vb's sites as are affordable."""
    return draws_of(problem, sites, order, affordable(problem), problem.options.generator(8), nameless=True)


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


def _climbed_sites(problem: Problem, order: np.ndarray, best: Climbed, engine: str) -> dict[str, SiteResult]:
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
    problem: Problem, best: Climbed, sites: Mapping[str, SiteResult], diagnostics: dict[str, Any]
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
