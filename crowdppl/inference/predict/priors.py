"""An earlier fit as the prior of a model, and what the model's prior says of what that fit has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyro.distributions as dist
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from crowdppl.core.devices import seeded
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.problem import Problem, model_runs, model_sites
from crowdppl.inference.result import Fit, OnDemand, SiteResult, Sites
from crowdppl.inference.sites import Site
from crowdppl.inference.starts import prior_mean
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.distributions import OneHot, ScaledNormal
from crowdppl.primitives.model import Model, discount_of, plates_of, with_missing

PRIOR_DRAWS = 1_000
"""Draws of a prior that is no Gaussian, to which one is matched."""


def with_newcomers(posterior: Fit, data: Annotations) -> Fit:
    """The fit as if annotators, classes and groups of items of ``data`` had all been there, some without a label.

    What is new of a site stands at its prior, given the mean of all else; of a site that was counted, a new class
    adds its part of the prior. MethodError when the model does not take them, or a class is new and a site was not
    counted.
    """
    old, stored = posterior.data, posterior.result.sites
    if not (growth := _growth(old, data)):
        return posterior
    if "classes" in growth and networks_of(posterior.model):
        raise _refusal(posterior, growth, f"its network tells {old.n_classes} apart")
    try:
        known = model_sites(posterior.model, data)
    except MethodError as error:
        raise _refusal(posterior, growth, str(error)) from error
    with model_runs(posterior.model, data), seeded(0):
        after, before = _priors(posterior.model, data, stored), _priors(posterior.model, old, stored)

    def grown(sites: Sites) -> Sites:
        out = dict(sites)
        for name in (n for n in sites if n in after.priors):
            prior, mean = after.priors[name], after.means[name]
            if sites[name].mean.shape != mean.shape:
                _require_growth(posterior, growth, sites[name], mean.shape)
                larger = _with_larger_prior(sites[name], prior, before.priors[name])
                drawn = OnDemand(partial(_with_means, sites[name].drawn, mean))
                out[name] = replace(_grown(larger, prior, mean, known[name]), drawn=drawn)
        return out

    memory = posterior.memory
    if memory is not None and "classes" not in growth:
        memory = replace(memory, records=tuple(replace(x, sites=grown(x.sites)) for x in memory.records))
    return replace(posterior, result=replace(posterior.result, sites=grown(stored)), memory=memory)


def nearer_to_prior(posterior: Fit, data: Annotations, sites: Sites, forget: float) -> Sites:
    """Shared sites of which a part ``forget`` of what was learned is taken back.

    Each becomes its prior, given what the fit learned of it, to the power ``forget``, times itself to the power
    1 - ``forget``: of counts, that part is left out. At 0 it stays, and at 1 it is the prior.
    """
    known = model_sites(posterior.model, data)
    with model_runs(posterior.model, data), seeded(0):
        found = _priors(posterior.model, data, posterior.result.sites)
    return {
        name: _blend(site, found.priors[name], found.means[name], known[name], forget)
        for name, site in sites.items()
    }


def _blend(site: SiteResult, prior: Any, mean: np.ndarray, known: Site, forget: float) -> SiteResult:
    """A site between itself and its prior, in natural parameters."""

    def between(own: np.ndarray, of_prior: np.ndarray) -> np.ndarray:
        return np.asarray((1 - forget) * own + forget * of_prior)

    if (family := site.conjugate) is not None:
        rows = family.natural(prior).expand(site.parameter.shape).numpy()
        left = site.with_parameter(between(site.parameter, rows))

        def weight() -> np.ndarray | None:
            if (part := site.weight()) is None:
                return None
            amounts = (family.amount(torch.as_tensor(x)).numpy() for x in (site.parameter, rows, left.parameter))
            own, of_prior, total = amounts
            return np.asarray(between(part * own, of_prior) / total)

        return replace(left, weight=OnDemand(weight))
    if site.family == "onehot":
        own, of_prior = (np.log(np.maximum(x, 1e-30)) for x in (site.arrays["probability"], mean))
        log_p = between(own, of_prior)
        share = np.exp(log_p - log_p.max(-1, keepdims=True))
        return replace(site, arrays={"probability": share / share.sum(-1, keepdims=True)})
    if site.family != "normal":  # a point or draws, which are no prior of an update
        return site
    loc, scale = _free_moments(prior, known)
    precision = between(site.arrays["scale"] ** -2, scale**-2)
    first = between(site.arrays["loc"] * site.arrays["scale"] ** -2, loc * scale**-2)
    return replace(site, arrays={**site.arrays, "loc": first / precision, "scale": precision**-0.5})


def _free_moments(prior: Any, known: Site) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of draws of a prior, in the space in which Gaussians are fitted."""
    with seeded(0):
        free = known.transform.inv(prior.sample((PRIOR_DRAWS,)))
    return free.mean(0).numpy(), free.std(0).numpy()


def _with_means(of: OnDemand[np.ndarray | None], mean: np.ndarray) -> np.ndarray | None:
    """Draws (n, *dims) of a site of larger dims: what is new of it is at its mean."""
    drawn = of()
    if drawn is None:
        return None
    out = np.repeat(mean[None], len(drawn), 0)
    out[_front(drawn.shape)] = drawn
    return out


def _growth(old: Annotations, new: Annotations) -> dict[str, tuple[int, int]]:
    """How many annotators, classes and groups of items there were and are, where these numbers differ."""

    def sizes(data: Annotations) -> dict[str, int]:
        columns = data.blocks[0].item_covariates
        groups = {} if columns is None else {f"values of {n!r}": len(x) for n, x in columns.levels.items()}
        return {"annotators": data.n_annotators, "classes": data.n_classes, **groups}

    before, after = sizes(old), sizes(new)
    return {name: (before[name], n) for name, n in after.items() if before.get(name, n) != n}


def at_prior_mean(problem: Problem, old: Sites, new: Sites, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values of sites in which all that ``old`` ones do not have is at its mean, over which labels average it.

    Expected statistics of a site that a model takes as such stay: those of a mean lack its spread.
    """
    out = dict(values)
    for name, x in values.items():
        if (family := old[name].conjugate) is not None and family.handed:
            continue
        if old[name].mean.shape != new[name].mean.shape:
            mean = problem.sites[name].statistic(torch.from_numpy(new[name].mean).to(x))
            front = _front(problem.sites[name].statistic(torch.from_numpy(old[name].mean)).shape)
            out[name] = mean.expand(x.shape).clone()
            out[name][front] = x[front]
    return out


@dataclass(eq=False)
class _PriorMeans(Messenger):
    """Puts each shared site at its posterior mean, and what the posterior does not have of it at the prior's."""

    sites: Sites
    priors: dict[str, Any] = field(default_factory=dict)
    means: dict[str, np.ndarray] = field(default_factory=dict)

    def _pyro_sample(self, msg: dict[str, Any]) -> None:
        stored = self.sites.get(msg["name"])
        if stored is not None and "item" not in stored.dims:
            mean = _beside(stored.mean, prior_mean(msg["fn"]).numpy())
            self.priors[msg["name"]], self.means[msg["name"]] = msg["fn"], mean
            msg["value"] = torch.from_numpy(mean)


def _priors(model: Model, data: Annotations, sites: Sites) -> _PriorMeans:
    """Priors on one item of some data, without annotators' history, which was counted."""
    block: Block = with_missing(model, data).blocks[0].subset(np.arange(1), 1.0)
    with _PriorMeans(sites) as found:
        model.model(replace(block, history=None))
    return found


def _require_growth(
    posterior: Fit, growth: Mapping[str, tuple[int, int]], site: SiteResult, shape: tuple[int, ...]
) -> None:
    """Refuses a site that grows by anything else, or by classes where it is no sum of a prior and counts."""
    grown = {pair for pair in zip(site.mean.shape, shape, strict=True) if pair[0] != pair[1]}
    classes = {growth["classes"]} if "classes" in growth else set()
    allowed = {*growth.values()} - (classes if site.conjugate is None else set())
    if grown - allowed:
        why = "" if site.conjugate is not None else ", and holds no counts to which a prior could be added"
        raise _refusal(posterior, growth, f"site {site.name!r} is of shape {site.mean.shape}, not {shape}{why}")


def _refusal(posterior: Fit, growth: Mapping[str, tuple[int, int]], why: str) -> MethodError:
    new = " and ".join(f"{what} that are new ({after - before})" for what, (before, after) in growth.items())
    return MethodError(
        f"{posterior.method} by {posterior.inference} refuses {new}: {why}; fit anew to all labels, or leave out "
        "those of what is new"
    )


def _with_larger_prior(site: SiteResult, after: Any, before: Any) -> SiteResult:
    """A site that was counted under one prior, as if it had been under another, larger one; any other as it is."""
    if site.conjugate is None:
        return site
    new, old = (site.conjugate.natural(prior).numpy() for prior in (after, before))
    moved = new[_front(old.shape)] - old
    return site.with_parameter(site.parameter + moved) if moved.any() else site


def _grown(site: SiteResult, prior: Any, mean: np.ndarray, known: Site) -> SiteResult:
    """A site with what is new at its prior."""
    if site.conjugate is not None:
        known_rows = site.weight
        grown = site.with_parameter(_beside(site.parameter, site.conjugate.natural(prior).numpy()))
        rows = np.ones(grown.parameter.shape[:-1])

        def weight() -> np.ndarray | None:
            return None if (found := known_rows()) is None else _beside(found, rows)

        return replace(grown, weight=OnDemand(weight))
    key = {"point": "value", "normal": "mean", "onehot": "probability", "draws": "draws"}[site.family]
    more = {key: mean}
    if site.family == "normal":
        more |= dict(zip(("loc", "scale"), _free_moments(prior, known), strict=True))
    return replace(site, arrays={**site.arrays, **{n: _beside(site.arrays[n], x) for n, x in more.items()}})


def _front(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The first entries of the last dimensions."""
    return (..., *(slice(n) for n in shape))


def _beside(known: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """``rest`` (*dims) with ``known`` (..., *fewer) as the first entries of each dimension."""
    lead = known.ndim - rest.ndim
    out = np.broadcast_to(rest, known.shape[:lead] + rest.shape).copy()
    out[_front(known.shape[lead:])] = known
    return out


class PosteriorAsPrior:
    """A model with the posterior of an earlier fit as its prior, sites of items apart; its networks are frozen."""

    def __init__(self, model: Model, sites: Sites) -> None:
        self.card = getattr(model, "card", None)
        self.plates, self.discount = plates_of(model), discount_of(model)
        self.standing = networks_of(model)
        self.model_before_update, self._sites = model, sites
        if hasattr(model, "derived_covariates"):
            self.derived_covariates = model.derived_covariates

    @property
    def unsupported(self) -> dict[str, Tensor]:
        """What of each row's parameter mean field counted and linear response took back, by site."""
        known = ((x, x.conjugate) for x in self._sites.values())
        return {
            x.name: family.amount(torch.as_tensor(x.parameter - x.spread))
            for x, family in known
            if family is not None and x.weight() is not None
        }

    def model(self, data: Block) -> Any:
        """Runs the model under the new priors."""
        with _Priors(self._sites):
            return self.model_before_update.model(data)


class _Priors(Messenger):
    """Replaces the prior of every shared site by its stored posterior."""

    def __init__(self, sites: Sites) -> None:
        super().__init__()
        self.sites = sites

    def _pyro_sample(self, msg: dict[str, Any]) -> None:
        name = msg["name"]
        if name in self.sites and "item" not in self.sites[name].dims:
            msg["fn"] = _as_prior(self.sites[name], msg["fn"])


def _as_prior(stored: SiteResult, fn: Any) -> Any:
    """A stored posterior as a distribution in the shape of ``fn``."""
    event = len(fn.event_shape)
    if stored.conjugate is not None:
        return stored.conjugate.distribution(torch.as_tensor(stored.parameter), event)
    if stored.family == "onehot":
        return OneHot(torch.as_tensor(stored.arrays["probability"]).clamp(min=1e-30).log())
    if stored.family != "normal":
        raise MethodError(f"site {stored.name!r} holds {stored.family}, which cannot be the prior of an update")
    if stored.support == "simplex":
        return dist.Dirichlet(_matched_concentration(stored)).to_event(event - 1)
    if stored.support == "unit":
        both = _matched_concentration(stored)
        return dist.Beta(both[..., 0], both[..., 1]).to_event(event)
    loc, scale = torch.as_tensor(stored.arrays["loc"]), torch.as_tensor(stored.arrays["scale"])
    if "unit" in stored.arrays:
        unit = float(stored.arrays["unit"])
        return dist.Independent(ScaledNormal(loc * unit, scale * unit, unit), event)
    known_mean: dict[str, Any] = {"real": dist.Normal, "positive": dist.LogNormal}
    if stored.support in known_mean:
        return known_mean[stored.support](loc, scale).to_event(event)
    transform = torch.distributions.biject_to(fn.support)
    return dist.TransformedDistribution(dist.Normal(loc, scale).to_event(event), [transform])


def _matched_concentration(stored: SiteResult) -> Tensor:
    """Dirichlet concentrations with the mean and total variance of Gaussians under a softmax or logistic."""
    stream = torch.Generator().manual_seed(0)
    loc, scale = torch.from_numpy(stored.arrays["loc"]), torch.from_numpy(stored.arrays["scale"])
    x = loc + scale * torch.randn((1000, *loc.shape), generator=stream, dtype=loc.dtype, device="cpu")
    x = x.softmax(-1) if stored.support == "simplex" else torch.stack([x.sigmoid(), (-x).sigmoid()], -1)
    mean, variance = x.mean(0), x.var(0)
    total = (mean * (1 - mean)).sum(-1, keepdim=True) / variance.sum(-1, keepdim=True).clamp(min=1e-12) - 1
    return torch.as_tensor((mean * total.clamp(min=1.0)).numpy())  # numpy brings it to the device of the fit
