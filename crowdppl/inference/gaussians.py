"""Mean-field Gaussians (or points) for continuous sites without a conjugate update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.collective import reduced
from crowdppl.data.blocks import Block
from crowdppl.inference.sites import Site, expected

FIRST_SCALE = 0.1
"""First standard deviation, in unconstrained space."""
PARTICLES = 8
"""Base draws where labels depend on a Gaussian, so that each costs a pass."""
FEW, MANY = 16, 96
"""Base draws elsewhere: at least, and at most."""
ROUNDS = 3


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
                x = site.with_plate_dims(x + self.log_scale[name].exp() * self.noise[name], self.plates)
            out[name] = x
        return out

    def values(self, unconstrained: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Particles or points in each site's own space."""
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
    """First log-scales, and base draws (P, ...), of sites around their locations; P is ``particles`` where labels
    depend on one of them.
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


@dataclass(frozen=True)
class Signatures:
    """Hashes of entities, equal for entities that labels cannot tell apart.

    Attributes:
        items: uint64 (N,) by position.
        annotators: uint64 (A,).
        answers: uint64 (L,).
        n_classes: K.
    """

    items: np.ndarray
    annotators: np.ndarray
    answers: np.ndarray
    n_classes: int

    def uniform(self, shape: Sequence[int], plates: Sequence[str], name: str, seed: int, n: int) -> np.ndarray:
        """n uniform numbers for each coordinate of a site of some name: (n, *shape).

        ``plates`` says what each dimension of an unconstrained value counts: "items", "annotators", or "" for
        anything else; a dimension as long as there are classes counts as theirs.
        """
        key = np.array(seed % 2**63, np.uint64)
        for letter in name.encode():
            key = mix(key + np.uint64(letter))
        keys = np.full(tuple(shape), key)
        for dim, part in enumerate(self._parts(shape, plates)):
            view = [1] * len(shape)
            view[dim] = len(part)
            keys = mix(keys * np.uint64(3) + part.reshape(view))
        draws = np.arange(n, dtype=np.uint64).reshape((n,) + (1,) * len(shape))
        bits = mix(mix(keys[None] + mix(draws)))
        return np.asarray((bits >> np.uint64(11)).astype(np.float64) / 2.0**53)

    def _parts(self, shape: Sequence[int], plates: Sequence[str]) -> Iterator[np.ndarray]:
        """The hashes of each dimension."""
        for size, plate in zip(shape, plates, strict=True):
            if plate in ("items", "annotators"):
                yield self.items if plate == "items" else self.annotators
            elif size in (len(self.answers), self.n_classes):
                yield self.answers[:size]
            else:
                yield mix(np.arange(size, dtype=np.uint64))


def signatures(blocks: Sequence[Block]) -> Signatures:
    """Colour refinement on the graph of labels, in integers that wrap, so that no order of summation matters.

    A label is hashed as the number of labels of its item that agree with it, not as its name.
    """
    first = blocks[0]
    item = np.concatenate([b.item.cpu().numpy() + b.offset for b in blocks])
    annotator = np.concatenate([b.annotator.cpu().numpy() for b in blocks])
    n_items, width = sum(b.n_items for b in blocks), first.n_answers
    if first.n_classes:
        answer = np.concatenate([b.answer.cpu().numpy() for b in blocks])
    else:  # equal numbers are one answer
        numbers = [b.numbers.cpu().numpy() for b in blocks if b.numbers is not None]
        distinct, answer = np.unique(np.concatenate(numbers), return_inverse=True)
        width = len(distinct)
    cell = item * width + answer
    agree = mix(np.bincount(cell, minlength=n_items * width)[cell].astype(np.uint64))
    sides = [item, annotator, answer]
    counts = [np.bincount(x, minlength=n) for x, n in zip(sides, (n_items, first.n_annotators, width), strict=True)]
    counts[1:] = map(reduced, counts[1:])  # an item's labels are with one process, those of others with all
    hashes = [mix(x.astype(np.uint64) + np.uint64(kind)) for kind, x in enumerate(counts)]
    if not first.n_classes:  # their order, which no unit changes, tells numbers apart
        hashes[2] = mix(hashes[2] + np.arange(width, dtype=np.uint64))
    for _ in range(ROUNDS):
        seen = [h[codes] for h, codes in zip(hashes, sides, strict=True)]
        edge = mix(mix(mix(seen[0] + agree) + seen[1]) + seen[2])
        sums = [_sums(edge, codes, len(h)) for h, codes in zip(hashes, sides, strict=True)]
        sums[1:] = [reduced(x.view(np.int64)).view(np.uint64) for x in sums[1:]]
        hashes = [mix(h + x) for h, x in zip(hashes, sums, strict=True)]
    return Signatures(hashes[0], hashes[1], hashes[2] if first.n_classes else hashes[2][:0], first.n_classes)


def mix(x: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit integers that leaves no visible order (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def _sums(values: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
    """Sums by code, modulo 2**64."""
    order = np.argsort(codes, kind="stable")
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values[order], dtype=np.uint64)])
    ends = np.cumsum(np.bincount(codes, minlength=size))
    starts = ends - np.bincount(codes, minlength=size)
    return np.asarray(running[ends] - running[starts])
