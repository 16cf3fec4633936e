"""Results of engines that run chains, and how well the chains agree."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.assembly import result_of_draws
from crowdppl.inference.loop import Progress, diagnostics_of
from crowdppl.inference.mcmc.permutations import permutations
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import FitResult
from crowdppl.inference.sites import Site


def result_of_chains(
    engine: str,
    problem: Problem,
    order: np.ndarray,
    draws: Mapping[str, Tensor],
    progress: Progress,
    more: dict[str, Any],
) -> FitResult:
    """The result of gibbs or nuts: draws by site, (C, D, ..., event), and what the engine says of its chains."""
    out = diagnostics_of(progress, False, []) | more
    if n := sum(more.get("divergences", {}).values()):
        note = f" met {n} divergent transitions: the posterior has corners it cannot follow; raise warmup"
        out["warnings"].append(engine + note)
    out["permutations"] = permutations(problem, draws)
    out |= mixing(draws, problem.sites)
    out["chains"], out["draws"] = next(iter(draws.values())).shape[:2]
    worst = max(out["rhat"].values(), default=float("nan"))
    out["converged"] = bool(worst < 1.05) and not out["interrupted"]
    if out["interrupted"] and out["iterations"] <= problem.options.warmup:
        note = " was stopped in its warm-up: this is where its chains were, not what they draw from"
    elif out["interrupted"]:
        note = f" was stopped after {out['draws']} draws a chain"
    elif out["converged"]:
        return result_of_draws(problem, order, draws, out)
    elif out["chains"] == 1:
        note = " ran one chain, and only several show whether they agree: fit with chains=4"
    elif out["draws"] < 4:
        note = f"'s chains of {out['draws']} draws are too short to be compared; raise draws"
    else:
        site = max(out["rhat"], key=lambda n: out["rhat"][n]) if out["rhat"] else "no site"
        note = (
            f"'s chains disagree (R-hat {worst:.3f} at {site}): run longer (draws, warmup), or look for "
            "classes that are swapped between chains"
        )
    out["warnings"].append(engine + note)
    return result_of_draws(problem, order, draws, out)


def mixing(draws: Mapping[str, Tensor], sites: Mapping[str, Site]) -> dict[str, Any]:
    """How well chains agree and how much their draws are worth, by site.

    The worst split R-hat over at most 200 of the site's entries, from at most 100 draws a chain (thinning takes
    nothing from a comparison of chains); and the smallest bulk and tail ESS, from all draws, of the 40 entries
    whose R-hat is worst.
    """
    import arviz as az  # slow to import, needed by samplers only

    out: dict[str, dict[str, float]] = {"rhat": {}, "ess_bulk": {}, "ess_tail": {}}
    with warnings.catch_warnings():  # many chains of few draws are no dimensions mixed up
        warnings.filterwarnings("ignore", "More chains", UserWarning)
        for name, x in draws.items():
            values = sites[name].value(x).reshape(*x.shape[:2], -1)
            at = torch.linspace(0, values.shape[-1] - 1, min(200, values.shape[-1])).round().long()
            array = values[..., at].cpu().numpy().astype(np.float64)
            array = array[..., array.std((0, 1)) > 1e-12]
            if array.shape[1] < 4 or array.shape[-1] == 0:
                continue
            rhat = np.full(array.shape[-1], np.nan)
            if len(array) > 1:  # one chain has none, and ArviZ would warn of each site
                some = az.convert_to_dataset({"x": array[:, :: max(1, array.shape[1] // 100)]})
                with np.errstate(divide="ignore", invalid="ignore"):  # chains that do not move are infinitely apart
                    rhat = az.rhat(some)["x"].values
            worst = az.convert_to_dataset({"x": array[..., np.argsort(-np.nan_to_num(rhat))[:40]]})
            out["rhat"][name] = float("nan") if np.isnan(rhat).all() else float(np.nanmax(rhat))
            for tail in ("bulk", "tail"):
                out[f"ess_{tail}"][name] = float(np.nanmin(az.ess(worst, method=tail)["x"].values))
    return out
