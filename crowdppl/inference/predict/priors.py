"""A story under other priors: what another fit learned of its sites."""

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
    """A story whose priors are another fit's posterior; its networks stand still.

    Args:
        story: the story.
        sites: that posterior; those of items are not looked at.
    """

    def __init__(self, model: Model, sites: Sites) -> None:
        self.card = getattr(model, "card", None)
        self.plates = plates_of(model)
        self.standing = networks_of(model)
        self._story, self._sites = model, sites

    @property
    def unsure(self) -> dict[str, Tensor]:
        """By site of Dirichlets, what of each row's concentration is no knowledge."""
        shared = (site for site in self._sites.values() if "weight" in site.arrays)
        return {x.name: torch.as_tensor((x.arrays["concentration"] - x.spread).sum(-1)) for x in shared}

    def model(self, data: Block) -> Any:
        """The old story under new priors."""
        with _Priors(self._sites):
            return self._story.model(data)


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
    if stored.family == "dirichlet":
        return dist.Dirichlet(torch.as_tensor(stored.arrays["concentration"])).to_event(len(fn.event_shape) - 1)
    if stored.family == "onehot":
        return OneHot(torch.as_tensor(stored.arrays["probability"]).clamp(min=1e-30).log())
    if stored.family == "normal":
        if stored.support == "simplex":
            return dist.Dirichlet(_moment_match(stored)).to_event(len(fn.event_shape) - 1)
        if stored.support == "unit":
            both = _moment_match(stored)
            return dist.Beta(both[..., 0], both[..., 1]).to_event(len(fn.event_shape))
        loc, scale = torch.as_tensor(stored.arrays["loc"]), torch.as_tensor(stored.arrays["scale"])
        named: dict[str, Any] = {"real": dist.Normal, "positive": dist.LogNormal}  # both know their means
        if stored.support in named:
            return named[stored.support](loc, scale).to_event(len(fn.event_shape))
        base = dist.Normal(loc, scale)
        transform = torch.distributions.biject_to(fn.support)
        return dist.TransformedDistribution(base.to_event(len(fn.event_shape)), [transform])
    raise MethodError(f"site {stored.name!r} holds {stored.family}, which cannot be the prior of an update")


def _moment_match(stored: SiteResult) -> Tensor:
    """Dirichlet concentrations with the mean and the total variance of Gaussians behind a softmax or a logistic."""
    stream = torch.Generator().manual_seed(0)
    loc, scale = torch.from_numpy(stored.arrays["loc"]), torch.from_numpy(stored.arrays["scale"])
    x = loc + scale * torch.randn((1000, *loc.shape), generator=stream, dtype=loc.dtype, device="cpu")
    x = x.softmax(-1) if stored.support == "simplex" else torch.stack([x.sigmoid(), (-x).sigmoid()], -1)
    mean, variance = x.mean(0), x.var(0)
    total = (mean * (1 - mean)).sum(-1, keepdim=True) / variance.sum(-1, keepdim=True).clamp(min=1e-12) - 1
    return torch.as_tensor((mean * total.clamp(min=1.0)).numpy())  # on the device of the fit
