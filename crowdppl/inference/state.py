"""The state of a mean-field fit, and the state in which each start of an engine begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.checkpoint import with_prefix
from crowdppl.inference.density import FLOOR, trace_sites
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.result import SiteResult
from crowdppl.inference.sites import DIRICHLET, Site
from crowdppl.inference.vb.gaussians import Gaussians


@dataclass
class State:
    """Parameters of every site.

    Attributes:
        parameters: of conjugate sites: log theta for em, concentrations for vb.
        logits: of one-hot sites; their softmax is the expected one-hot vector.
        gaussians: Gaussians or points for all other sites.
    """

    parameters: dict[str, Tensor]
    logits: dict[str, Tensor]
    gaussians: Gaussians

    def arrays(self) -> dict[str, Tensor]:
        """The state as tensors by name."""
        parts = {
            "parameter": self.parameters,
            "logit": self.logits,
            "loc": self.gaussians.loc,
            "log_scale": self.gaussians.log_scale,
        }
        return {f"{kind}.{name}": x for kind, found in parts.items() for name, x in found.items()}

    def at(self, arrays: Mapping[str, Tensor]) -> State:
        """Another state with these arrays, which get no gradients."""
        loc, log_scale = (
            {name: x.detach().requires_grad_() for name, x in with_prefix(arrays, kind).items()}
            for kind in ("loc", "log_scale")
        )
        gaussians = replace(self.gaussians, loc=loc, log_scale=log_scale)
        return State(dict(with_prefix(arrays, "parameter")), dict(with_prefix(arrays, "logit")), gaussians)

    def copy(self) -> dict[str, Tensor]:
        """The arrays, copied."""
        return {name: x.detach().clone() for name, x in self.arrays().items()}

    def restore(self, arrays: Mapping[str, Tensor]) -> None:
        """Sets the state to what ``arrays`` or ``copy`` returned."""
        moved = {name: arrays[name].to(x.device) for name, x in self.arrays().items()}
        self.parameters, self.logits = dict(with_prefix(moved, "parameter")), dict(with_prefix(moved, "logit"))
        with torch.no_grad():
            for kind, found in (("loc", self.gaussians.loc), ("log_scale", self.gaussians.log_scale)):
                for name, x in found.items():
                    x.copy_(moved[f"{kind}.{name}"])


def first_state(problem: Problem, options: Options, engine: str, shares: Tensor | None, number: int = 0) -> State:
    """The state in which a start begins: typical values, and Dirichlets from one pass tilted towards its truth.

    The first start continues an earlier fit where there is one.

    Args:
        problem: model, data and sites.
        options: guide and seed.
        engine: "em" for points; "vb" for distributions.
        shares: truth shares (N, K) of the start, by position; None without a truth.
        number: of the start.

    Raises:
        MethodError: when em meets a prior below 1 or a hierarchical prior.
    """
    if engine == "em":
        problem.refuse_hyper("em")
    values = problem.typical(options.generator(2, number))
    logits = {s.name: values[s.name].clamp(min=1e-6).log() for s in problem.of_kind("onehot")}
    sites = {s.name: s for kind in ("free", "hyper") for s in problem.of_kind(kind)}
    normal = engine == "vb" and options.guide == "normal"
    keys = problem.signatures if normal and sites else None
    gaussians = Gaussians.around(sites, values, problem.plates, keys, options.seed + number)
    state = State({}, logits, gaussians)
    earlier = problem.earlier if number == 0 else None
    resumed = earlier is not None and earlier.fits(problem.sites)
    if earlier is not None and resumed:
        state = earlier.state(problem.sites, gaussians)
    names = [s.name for s in problem.of_kind("conjugate")]
    if not names or (resumed and engine == "vb"):
        return state
    typical = {n: values[n].clamp(min=1e-30).log() for n in names}
    tilt = {} if resumed or shares is None or problem.truth is None else {problem.truth: shares.log().t()}
    priors, counts = _prior_and_counts(problem, state, state.parameters if resumed else typical, tilt)
    for name, prior in priors.items():
        if engine == "vb":
            state.parameters[name] = prior + counts[name]
            continue
        if not resumed:
            refuse_below_one(name, prior)
        # after a resumption, too: under a flat prior, EM would leave rows without labels where they were
        state.parameters[name] = DIRICHLET.mode(prior + counts[name], typical[name])
    return state


def _prior_and_counts(
    problem: Problem, state: State, log_theta: Mapping[str, Tensor], tilt: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Prior concentrations and expected counts of conjugate sites at a state with these values of log theta."""
    gaussians = state.gaussians
    chains = gaussians.chains if problem.of_kind("free") else None
    leaves = {**log_theta, **{n: x.softmax(-1) for n, x in state.logits.items()}}
    with torch.no_grad():
        drawn = gaussians.values()
    values = {**leaves, **(drawn if problem.of_kind("free") else gaussians.means())}
    total = problem.full_pass(chains)(values, gradient=list(log_theta), tilt=tilt)
    trace = total.trace
    if gaussians.sites:
        with torch.no_grad():
            trace = problem.density(gaussians.chains).priors(problem.blocks[0], {**leaves, **drawn})
    priors = prior_parameters(trace, log_theta, problem.sites, problem.n_items, gaussians.chains)
    return priors, {n: x / (chains or 1) for n, x in total.gradient.items()}


def prior_parameters(
    trace: Trace, names: Collection[str], sites: Mapping[str, Site], n_items: int, chains: int | None
) -> dict[str, Tensor]:
    """Prior concentrations of conjugate sites in a trace, averaged over chains."""
    out = {}
    for name in names:
        x = DIRICHLET.natural(trace_sites(trace)[name].fn)
        mean = x if chains is None else x.expand(chains, *x.shape[1:]).mean(0)
        out[name] = mean.reshape(sites[name].shape(n_items))
    return out


def refuse_below_one(name: str, prior: Tensor) -> None:
    """Refuses a prior whose mode lies at the border, where em would not be monotone.

    Raises:
        MethodError: naming the site, its smallest concentration and the remedy.
    """
    smallest = float(prior.min())
    if smallest < 1:
        raise MethodError(
            f"em refuses site {name!r}: its smallest prior concentration is {smallest:.4g}, and below 1 the "
            "posterior has no interior mode and EM is not monotone; use inference='vb', or a prior of at least 1"
        )


@dataclass(frozen=True)
class Earlier:
    """An earlier fit that em and vb continue.

    Attributes:
        sites: its result, site by site.
        order: item code at each position of the data to be fitted now.
        device: of the fit now.
    """

    sites: Mapping[str, SiteResult]
    order: np.ndarray
    device: str = "cpu"

    def fits(self, sites: Mapping[str, Site]) -> bool:
        """Whether it has every site, in the same shape."""
        shapes = {name: site.shape(len(self.order)) for name, site in sites.items()}
        return all(name in self.sites and self.sites[name].mean.shape == shape for name, shape in shapes.items())

    def state(self, sites: Mapping[str, Site], gaussians: Gaussians) -> State:
        """The state in which it ended.

        Args:
            sites: of the model.
            gaussians: with base draws for these data; set to the earlier fit's.
        """
        parameters, logits = {}, {}
        for name, site in sites.items():
            stored = self.sites[name]
            if site.kind == "onehot":
                logits[name] = self._by_position(site, stored.mean).clamp(min=1e-30).log()
            elif site.kind != "conjugate":
                self._set(gaussians, site)
            elif stored.family == "dirichlet":
                parameters[name] = self._by_position(site, stored.arrays["concentration"])
            else:
                parameters[name] = self._by_position(site, stored.mean).clamp(min=1e-300).log().clamp(min=FLOOR)
        return State(parameters, logits, gaussians)

    @torch.no_grad()
    def _set(self, gaussians: Gaussians, site: Site) -> None:
        stored = self.sites[site.name]
        if stored.family == "normal":
            loc, scale = (self._by_position(site, stored.arrays[part]) for part in ("loc", "scale"))
            if site.name in gaussians.log_scale:
                gaussians.log_scale[site.name].copy_(scale.log())
        else:
            loc = site.transform.inv(self._by_position(site, stored.mean))
        gaussians.loc[site.name].copy_(loc)

    def _by_position(self, site: Site, x: np.ndarray) -> Tensor:
        out = torch.from_numpy(np.array(x, np.float64))
        if site.local:
            out = out.index_select(site.batch_shape.index(-1), torch.from_numpy(self.order.astype(np.int64)))
        return out.to(self.device)
