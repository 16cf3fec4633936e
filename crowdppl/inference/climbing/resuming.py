"""em and vb where an earlier fit of the same annotators and classes ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crowdppl.inference.climbing.gaussians import Gaussians
from crowdppl.inference.climbing.state import State
from crowdppl.inference.fit_result import SiteResult
from crowdppl.inference.reading.density import FLOOR
from crowdppl.inference.reading.sites import Site


@dataclass(frozen=True)
class Earlier:
    """An earlier fit.

    Attributes:
        sites: its result, site by site.
        order: item code at each position of the data that are to be fitted now.
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
            sites: of the story.
            gaussians: in the shapes wanted, with base draws for these data; moved to where the earlier fit was.
        """
        parameters, logits = {}, {}
        for name, site in sites.items():
            stored = self.sites[name]
            if site.kind == "onehot":
                logits[name] = self._by_position(site, stored.mean).clamp(min=1e-30).log()
            elif site.kind == "conjugate" and stored.family == "dirichlet":
                parameters[name] = self._by_position(site, stored.arrays["concentration"])
            elif site.kind == "conjugate":
                parameters[name] = self._by_position(site, stored.mean).clamp(min=1e-300).log().clamp(min=FLOOR)
            else:
                self._move(gaussians, site)
        return State(parameters, logits, gaussians)

    def _move(self, gaussians: Gaussians, site: Site) -> None:
        stored = self.sites[site.name]
        with torch.no_grad():
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
