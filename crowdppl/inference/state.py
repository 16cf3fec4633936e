"""The state of a mean-field fit, and the state in which each start of an engine begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.checkpoint import with_prefix
from crowdppl.inference.density import FLOOR, TraceSites
from crowdppl.inference.options import Options
from crowdppl.inference.passes import FullPass
from crowdppl.inference.problem import Earlier, Problem
from crowdppl.inference.sites import DIRICHLET, Site
from crowdppl.inference.vb.gaussians import Gaussians
from crowdppl.networks.outputs import networks_of


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
        problem, options: model, data and sites; guide and seed.
        engine: "em" for points; "vb" for distributions.
        shares: truth shares (N, K) of the start, by position; None without a truth.
        number: of the start.

    Raises:
        MethodError: when em meets a prior below 1 or a hierarchical prior.
    """
    if engine == "em":
        _refuse_hyper(problem)
    values = problem.typical(options.generator(2, number))
    logits = {s.name: values[s.name].clamp(min=1e-6).log() for s in problem.of_kind("onehot")}
    sites = {s.name: s for kind in ("free", "hyper") for s in problem.of_kind(kind)}
    normal = engine == "vb" and options.guide == "normal"
    keys = problem.signatures if normal and sites else None
    gaussians = Gaussians.around(sites, values, problem.plates, keys, options.seed + number)
    state = State({}, logits, gaussians)
    resumed = number == 0 and problem.earlier is not None and _fits(problem.earlier, problem)
    if resumed:
        state = _state_of_earlier(problem, gaussians)
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
    gaussians, in_labels = state.gaussians, bool(problem.of_kind("free"))
    leaves = {**log_theta, **{n: x.softmax(-1) for n, x in state.logits.items()}}
    with torch.no_grad():
        drawn = gaussians.values()
    full_pass = problem.full_pass(gaussians.chains if in_labels else None)
    total = full_pass(leaves | (drawn if in_labels else gaussians.means()), gradient=list(log_theta), tilt=tilt)
    sites = total.trace_sites
    if gaussians.sites:
        with torch.no_grad():
            sites = problem.density(gaussians.chains).priors(problem.blocks[0], {**leaves, **drawn})
    priors = prior_parameters(sites, log_theta, full_pass, gaussians.chains)
    return priors, {n: x / (full_pass.density.chains or 1) for n, x in total.gradient.items()}


def prior_parameters(
    sites: TraceSites, names: Collection[str], full_pass: FullPass, chains: int | None
) -> dict[str, Tensor]:
    """Prior concentrations of conjugate sites, averaged over chains."""
    out = {}
    for name in names:
        x = DIRICHLET.natural(sites[name].fn)
        mean = x if chains is None else x.expand(chains, *x.shape[1:]).mean(0)
        out[name] = mean.reshape(full_pass.sites[name].shape(full_pass.n_items))
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


def _refuse_hyper(problem: Problem) -> None:
    """Refuses models whose priors are themselves inferred: they have no joint mode."""
    names = [s.name for s in problem.of_kind("hyper")]
    if names:
        others = "'vb' or 'nuts'" if problem.of_kind("free") else "'vb', 'gibbs' or 'nuts'"
        others = "'vb'" if networks_of(problem.model) else others
        raise MethodError(
            f"em refuses {type(problem.model).__name__}: the prior parameters {', '.join(names)} are inferred too, "
            "and their joint mode may be ill-posed (the density of rows at their mean grows without bound in a "
            f"concentration); use inference={others}"
        )


def _fits(earlier: Earlier, problem: Problem) -> bool:
    """Whether an earlier fit has every site, in the same shape."""
    shapes = {name: site.shape(problem.n_items) for name, site in problem.sites.items()}
    return all(name in earlier.sites and earlier.sites[name].mean.shape == x for name, x in shapes.items())


def _state_of_earlier(problem: Problem, gaussians: Gaussians) -> State:
    """The state in which the earlier fit ended; ``gaussians``, with base draws for these data, are set to its."""
    assert problem.earlier is not None
    earlier, parameters, logits = problem.earlier, {}, {}

    def by_position(site: Site, x: np.ndarray) -> Tensor:
        out = torch.from_numpy(np.array(x, np.float64))
        if site.local:
            out = out.index_select(site.batch_shape.index(-1), torch.from_numpy(earlier.order.astype(np.int64)))
        return out.to(problem.options.device)

    for name, site in problem.sites.items():
        stored = earlier.sites[name]
        mean = by_position(site, stored.mean)
        if site.kind == "onehot":
            logits[name] = mean.clamp(min=1e-30).log()
        elif site.kind == "conjugate" and stored.family == "dirichlet":
            parameters[name] = by_position(site, stored.arrays["concentration"])
        elif site.kind == "conjugate":
            parameters[name] = mean.clamp(min=1e-300).log().clamp(min=FLOOR)
        else:
            normal = stored.family == "normal"
            loc = by_position(site, stored.arrays["loc"]) if normal else site.transform.inv(mean)
            with torch.no_grad():
                gaussians.loc[name].copy_(loc)
                if normal and name in gaussians.log_scale:
                    gaussians.log_scale[name].copy_(by_position(site, stored.arrays["scale"]).log())
    return State(parameters, logits, gaussians)
