"""Mean-field Gaussians (or points) for continuous sites that have no conjugate update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crowdppl.inference.sites import Site, expected

PARTICLES = 8
"""Base draws of a Gaussian fit: stratified, so that mean and variance are exact whatever their number."""
FEW, MANY = 16, 96
"""The same where labels depend on no Gaussian and a draw costs no pass over them: at least, and at most."""


@dataclass(frozen=True)
class Gaussians:
    """Independent Gaussians in unconstrained space, seen through base draws that stay fixed during a fit.

    Fixed draws make the objective a deterministic function, which a line search can climb. Each coordinate's
    draws are a random order of the same standardised normal quantiles: their mean is 0 and their variance 1
    exactly, so that location and scale cannot conspire with one lucky draw. Where there are more draws than
    coordinates, no two of these are correlated; else sparse data leave much to the seed.

    Attributes:
        sites: the free and hyper sites.
        loc, log_scale: float64 leaves in unconstrained space; ``log_scale`` is empty for points.
        noise: (P, ...) base draws, empty for points.
        plates: nesting depth of the story, for the shape of values with chains.
    """

    sites: dict[str, Site]
    loc: dict[str, Tensor]
    log_scale: dict[str, Tensor]
    noise: dict[str, Tensor]
    plates: int

    @staticmethod
    def around(
        sites: Mapping[str, Site],
        values: Mapping[str, Tensor],
        plates: int,
        seed: int | None = None,
        scale: float = 0.1,
        particles: int = PARTICLES,
    ) -> Gaussians:
        """Gaussians around given values, or points without a seed.

        Args:
            sites: sites to cover.
            values: where to start, in each site's own space.
            plates: nesting depth of the story.
            seed: of the base draws; None for points.
            scale: first standard deviation, in unconstrained space.
            particles: base draws, where labels depend on a site.
        """
        loc: dict[str, Tensor] = {}
        log_scale: dict[str, Tensor] = {}
        noise: dict[str, Tensor] = {}
        for name, site in sites.items():
            loc[name] = site.transform.inv(values[name].double()).detach().clone().contiguous().requires_grad_()
        touching = any(site.kind == "free" for site in sites.values())
        particles = particles if touching else _enough(sum(x.numel() for x in loc.values()))
        if seed is not None:
            log_scale = {n: torch.full_like(x.detach(), scale).log().requires_grad_() for n, x in loc.items()}
            noise = _noise(loc, seed, particles)
        return Gaussians(dict(sites), loc, log_scale, noise, plates)

    def with_particles(self, particles: int, seed: int) -> Gaussians:
        """The same Gaussians, the very leaves, seen through another number of base draws."""
        return replace(self, noise=_noise(self.loc, seed, particles))

    @property
    def chains(self) -> int | None:
        """Number of particles that ride along as chains; None for points."""
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
                x = x + self.log_scale[name].exp() * self.noise[name]
                x = site.widen(x, self.plates)
            out[name] = x
        return out

    def values(self, unconstrained: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """The same in each site's own space."""
        at = self.unconstrained() if unconstrained is None else unconstrained
        return {n: self.sites[n].transform(x) for n, x in at.items()}

    def entropy(self, unconstrained: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Tensor:
        """Entropy in each site's own space, up to a constant; 0 for points."""
        if not self.noise:
            return torch.zeros((), dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for name, site in self.sites.items():
            jacobian = site.transform.log_abs_det_jacobian(unconstrained[name], values[name])
            total = total + self.log_scale[name].sum() + expected(jacobian, self.chains)
        return total

    def means(self) -> dict[str, Tensor]:
        """Posterior means in each site's own space, over the particles."""
        with torch.no_grad():
            values = self.values()
        if not self.noise:
            return values
        return {n: x.mean(0).reshape(x.shape[1 + self._pad(n) :]) for n, x in values.items()}

    def _pad(self, name: str) -> int:
        return self.plates - len(self.sites[name].batch_shape)


def _noise(loc: Mapping[str, Tensor], seed: int, particles: int) -> dict[str, Tensor]:
    """(P, ...) base draws of each site."""
    stream = torch.Generator().manual_seed(seed % 2**63)
    noise = {}
    for name, x in loc.items():
        keys = torch.rand((particles, *x.shape), generator=stream, dtype=torch.float64)
        noise[name] = _stratified(keys).to(x.device)
    return _decorrelated(noise)


def _stratified(keys: Tensor) -> Tensor:
    """(P, ...): for each coordinate the order of its P keys, of P standardised normal quantiles."""
    grid = (torch.arange(len(keys), dtype=torch.float64) + 0.5) / len(keys)
    quantiles = torch.special.ndtri(grid)
    quantiles = quantiles / quantiles.square().mean().sqrt()
    out: Tensor = quantiles.to(keys.device)[keys.argsort(0)]
    return out


def _enough(coordinates: int) -> int:
    """Draws that let coordinates be uncorrelated; the fewest where these would be too many."""
    wanted = max(FEW, coordinates + 2)
    return wanted if wanted <= MANY else FEW


def _decorrelated(noise: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The nearest draws (P, ...) whose coordinates are uncorrelated, if there are more draws than coordinates.

    Nearest (Loewdin 1950, doi:10.1063/1.1747632), because then it makes no difference in which order they come.
    """
    flat = torch.cat([x.reshape(len(x), -1) for x in noise.values()], 1) if noise else torch.zeros(0, 0)
    draws, coordinates = flat.shape
    if draws < coordinates + 2:
        return dict(noise)
    values, vectors = torch.linalg.eigh(flat.mT @ flat / draws)
    flat = flat @ (vectors / values.clamp(min=1e-9).sqrt()) @ vectors.mT
    parts = flat.split([x[0].numel() for x in noise.values()], 1)
    return {n: part.reshape(x.shape) for (n, x), part in zip(noise.items(), parts, strict=True)}
