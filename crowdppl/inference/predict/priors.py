"""A model whose priors are the posterior of an earlier fit."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.result import SiteResult, Sites
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.distributions import OneHot
from crowdppl.primitives.model import Model, plates_of


class PosteriorAsPrior:
    """A model with the posterior of an earlier fit as its prior; its networks are frozen.

    Args:
        model: the model.
        sites: the posterior; sites of items keep the model's prior.
    """

    def __init__(self, model: Model, sites: Sites) -> None:
        self.card = getattr(model, "card", None)
        self.plates = plates_of(model)
        self.standing = networks_of(model)
        self._model, self._sites = model, sites

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
            return self._model.model(data)


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
