"""Where a fit by em or vb is: parameters of its sites, by the kind of their update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crowdppl.inference.checkpoints import cut
from crowdppl.inference.climbing.gaussians import Gaussians


@dataclass
class State:
    """Where a fit is.

    Attributes:
        parameters: of conjugate sites: log theta for em, concentrations for vb.
        logits: of one-hot sites; their softmax is the expected one-hot vector.
        gaussians: Gaussians or points for all other sites.
    """

    parameters: dict[str, Tensor]
    logits: dict[str, Tensor]
    gaussians: Gaussians

    def arrays(self) -> dict[str, Tensor]:
        """All of it as tensors by name."""
        parts = {
            "parameter": self.parameters,
            "logit": self.logits,
            "loc": self.gaussians.loc,
            "log_scale": self.gaussians.log_scale,
        }
        return {f"{kind}.{name}": x for kind, found in parts.items() for name, x in found.items()}

    def at(self, arrays: Mapping[str, Tensor]) -> State:
        """Another state of the same fit, whose arrays are these; they get no gradients by it."""
        loc, log_scale = (
            {name: x.detach().requires_grad_() for name, x in cut(arrays, kind).items()}
            for kind in ("loc", "log_scale")
        )
        gaussians = replace(self.gaussians, loc=loc, log_scale=log_scale)
        return State(dict(cut(arrays, "parameter")), dict(cut(arrays, "logit")), gaussians)

    def copy(self) -> dict[str, Tensor]:
        """The same, which stays as it is when the fit goes on."""
        return {name: x.detach().clone() for name, x in self.arrays().items()}

    def put(self, arrays: Mapping[str, Tensor]) -> None:
        """Takes back what ``arrays`` gave."""
        device = {name: x.device for name, x in self.arrays().items()}
        moved = {name: arrays[name].to(where) for name, where in device.items()}
        self.parameters, self.logits = dict(cut(moved, "parameter")), dict(cut(moved, "logit"))
        with torch.no_grad():
            for kind, found in (("loc", self.gaussians.loc), ("log_scale", self.gaussians.log_scale)):
                for name, x in found.items():
                    x.copy_(moved[f"{kind}.{name}"])
