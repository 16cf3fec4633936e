"""Mean-field Gaussians (or points) for continuous sites without a conjugate update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from crowdppl.inference.signatures import Signatures
from crowdppl.inference.sites import Site, expected

FIRST_SCALE = 0.1
"""First standard deviation, in unconstrained space."""
PARTICLES = 8
"""Base draws where labels depend on a Gaussian, so that each costs a pass."""
FEW, MANY = 16, 96
"""Base draws elsewhere: at least, and at most."""


@dataclass(frozen=True)
class Gaussians:
    """Independent Gaussians in unconstrained space, with base draws that stay fixed during a fit.

    Fixed draws make the objective a deterministic function. Each coordinate's draws are a random order of the same
    standardised normal quantiles: their mean is 0 and their variance 1 exactly. Where there are more draws than
    coordinates, no two of these are correlated.

    Attributes:
        sites: the free and hyper sites.
        loc, log_scale: float64, in unconstrained space; ``log_scale`` is empty for points.
        noise: (P, ...) base draws, empty for points.
        plates: nesting depth of the model, for the shape of values with chains.
    """

    sites: dict[str, Site]
    loc: dict[str, Tensor]
    log_scale: dict[str, Tensor]
    noise: dict[str, Tensor]
    plates: int

    @property
    def chains(self) -> int | None:
        """Number of particles, which are evaluated as chains; None for points."""
        return len(next(iter(self.noise.values()))) if self.noise else None

    @property
    def leaves(self) -> list[Tensor]:
        """All parameters, locations first."""
        return [*self.loc.values(), *self.log_scale.values()]

    def unconstrained(self) -> dict[str, Tensor]:
        """Particles (P, [1, ...] batch, event) or points (batch, event) in unconstrained space."""
        out = {}
        for name, site in self.sites.items():
            x = self.loc[name]
            if self.noise:
                x = site.widen(x + self.log_scale[name].exp() * self.noise[name], self.plates)
            out[name] = x
        return out

    def values(self, unconstrained: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """The same in each site's own space."""
        at = self.unconstrained() if unconstrained is None else unconstrained
        return {n: self.sites[n].transform(x) for n, x in at.items()}

    def entropy(self, unconstrained: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Tensor:
        """Entropy in each site's own space, up to a constant; 0 for points."""
        total = torch.zeros((), dtype=torch.float64)
        for name, site in self.sites.items() if self.noise else ():
            jacobian = site.transform.log_abs_det_jacobian(unconstrained[name], values[name])
            total = total + self.log_scale[name].sum() + expected(jacobian, self.chains)
        return total

    def means(self) -> dict[str, Tensor]:
        """Posterior means in each site's own space, over the particles."""
        with torch.no_grad():
            values = self.values()
        return {n: x.mean(0).reshape(self.loc[n].shape) if self.noise else x for n, x in values.items()}


def base_draws(
    sites: Mapping[str, Site],
    loc: Mapping[str, Tensor],
    signatures: Signatures,
    seed: int,
    particles: int = PARTICLES,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """First log-scales, and base draws (P, ...), of sites around their locations.

    Args:
        sites, loc: where to start.
        signatures: keys of each coordinate's base draws.
        seed: of the base draws.
        particles: base draws, where labels depend on a site.
    """
    if not any(site.kind == "free" for site in sites.values()):
        particles = enough_draws(sum(x.numel() for x in loc.values()))
    noise, log_scale = {}, {n: torch.full_like(x, FIRST_SCALE).log() for n, x in loc.items()}
    for name, x in loc.items():
        keys = signatures.uniform(
            x.shape, (*sites[name].plates, *[""] * len(sites[name].event_shape)), name, seed, particles
        )
        noise[name] = stratified(torch.from_numpy(keys)).to(x.device)
    return log_scale, decorrelated(noise)


def stratified(keys: Tensor) -> Tensor:
    """(P, ...): P standardised normal quantiles in the order of each coordinate's P keys."""
    grid = (torch.arange(len(keys), dtype=torch.float64) + 0.5) / len(keys)
    quantiles = torch.special.ndtri(grid)
    quantiles = quantiles / quantiles.square().mean().sqrt()
    out: Tensor = quantiles.to(keys.device)[keys.argsort(0)]
    return out


def enough_draws(coordinates: int) -> int:
    """Draws that let coordinates be uncorrelated; the fewest where these would be too many."""
    wanted = max(FEW, coordinates + 2)
    return wanted if wanted <= MANY else FEW


def decorrelated(noise: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The nearest draws (P, ...) whose coordinates are uncorrelated, if there are more draws than coordinates.

    Nearest (Loewdin 1950, doi:10.1063/1.1747632), so that their order makes no difference.
    """
    flat = torch.cat([x.reshape(len(x), -1) for x in noise.values()], 1) if noise else torch.zeros(0, 0)
    draws, coordinates = flat.shape
    if draws < coordinates + 2:
        return dict(noise)
    values, vectors = torch.linalg.eigh(flat.mT @ flat / draws)
    flat = flat @ (vectors / values.clamp(min=1e-9).sqrt()) @ vectors.mT
    parts = flat.split([x[0].numel() for x in noise.values()], 1)
    return {n: part.reshape(x.shape) for (n, x), part in zip(noise.items(), parts, strict=True)}
