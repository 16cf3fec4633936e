"""Linear-response covariances of a variational fit (Giordano, Broderick & Jordan 2018, JMLR 19).

Mean field takes truth and parameters for independent: labels are counted as if their truths had been observed. The
missing variance shows in how the fixed point moves with the prior. With V the covariance of the sites' statistics
under mean field, such as log theta of Dirichlets, and H the second derivative of the labels' evidence by them, the
covariance is ``(V^-1 - H)^-1``. It is solved for by conjugate gradients, with differences of passes in place of H.
Rows whose prior is learned are first made as wide as that prior leaves them (``learned_priors``); with few labels,
rows are at least as wide as short chains go (``short_chains``). Where labels depend on Gaussians, all sites are as
wide as the curvature of the labels' density at their means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.inference.confusions import WIDTH
from crowdppl.inference.loop import Step, iterate
from crowdppl.inference.problem import Problem
from crowdppl.inference.responses import Response
from crowdppl.inference.state import State, Tensors
from crowdppl.inference.target import Target
from crowdppl.inference.vb.coordinate_ascent import VB
from crowdppl.inference.vb.fit import Extrapolation
from crowdppl.inference.vb.learned_priors import amounts
from crowdppl.inference.vb.short_chains import of_chains, why_no_chains
from crowdppl.networks.outputs import network_of

Vectors = dict[str, Tensor]
"""P vectors over all entries of all sites: (P, *site) by site."""

PROBES, FEWEST = 200, 8
"""Vectors solved for, of each site, at most and at least."""
LABELS, FACTORS, NUMBERS = 1_000_000, 40_000_000, 25_000_000
"""Labels, log-factors and numbers that all vectors of a site may have, beyond ``FEWEST``."""
STEPS, TOLERANCE = 20, 2e-2
"""Of conjugate gradients."""
SMALLEST_SHARE = 1e-2
"""Directions of less than this part of the largest variance are left to the random signs."""
CONVERGED, MORE = 1e-10, 200
"""Relative gain, and iterations at most, when vb continues because it stopped short of its fixed point."""
DISTANCE = 1e-5
"""In the statistics, over which differences are taken in float64."""
DRAWS = 1_000
"""Around the means of Gaussians: the ends of 90 % intervals are known to a twentieth of a standard deviation."""
CURVED, AT_ONCE = 1_000_000_000, 5_000
"""Log-factors that a curvature by so many numbers may look up, a second each 30 to 100 million, and the numbers."""
LOOKS = 300
"""At the density, on the way to its mode, where it curves upwards at the means."""


class Widths(NamedTuple):
    """How wide the posterior is, by site.

    Attributes:
        weights: for each row of a site that responds, the part of its parameter that is information.
        draws: (n, *site) of all sites together, by short chains or by the curvature.
        mean_field: why neither is there, where this was not known beforehand (``why_mean_field``).
    """

    weights: dict[str, Tensor]
    draws: dict[str, Tensor]
    mean_field: str | None = None


def widths(
    problem: Problem, state: State, mean_field: State, generator: torch.Generator, *, settled: bool
) -> Widths:
    """For each row of each site that responds, the part of its parameter that is information: above 0, at most 1.

    A distribution with this part of the parameter has the same mean, and the variance of linear response, or the
    prior's where that is smaller; or that of short chains where that is larger. After an update, what the earlier
    fit overcounted is no information either. Where the ``state`` is on a flat way, linear response is found at the
    fixed point to which its ``mean_field`` goes.

    By site, weights in the shape of its rows; nothing where a model's counts are those of another likelihood. Where
    labels depend on Gaussians directly, draws by the curvature in their place, but for sites of ratios: these
    respond at the Gaussians' means.
    ``settled`` says whether the fit ended because it had converged.
    """
    moving, ratios = VB.at(problem, state).gaussians_in_labels, any(site.ratios for site in problem.sites.values())
    if getattr(problem.model, "counting", None) is not None:
        return Widths({}, {})
    if moving and not ratios:
        if _why_not_around(problem, state) is not None:
            return Widths({}, {})
        draws = _around(problem, state, generator)
        return Widths({}, draws, None if draws else "the posterior has no maximum near")
    most, draws = of_chains(problem, state, generator)
    found, upward = _weights(problem, state, most, generator)
    if upward and settled and not moving and network_of(problem.model) is None:
        step = partial(VB.step, problem)
        quiet = replace(problem.options, progress=False, callback=None)
        ahead: Step[State] = step if state.logits else Extrapolation(step, CONVERGED)
        state, progress = iterate(ahead, mean_field, quiet, steps=MORE, tolerance=CONVERGED)
        if progress.interrupted:
            raise KeyboardInterrupt
        found, _ = _weights(problem, state, most, generator)
    return Widths(found, draws)


def why_mean_field(problem: Problem, state: State) -> str | None:
    """Why the widths of sites that neither chains nor linear response reach stay those of mean field; else None."""
    moving, ratios = VB.at(problem, state).gaussians_in_labels, any(site.ratios for site in problem.sites.values())
    if getattr(problem.model, "counting", None) is not None:
        return "labels are counted by another likelihood than the model's"
    if moving and not ratios:
        return _why_not_around(problem, state)
    if problem.truth is not None or ratios:
        return None
    if hasattr(problem.model, "unsupported"):
        return "the earlier fit, which is the prior, is as narrow as mean field left it"
    return why_no_chains(problem, state)


def _why_not_around(problem: Problem, state: State) -> str | None:
    """Why no curvature is taken: an unknown number of items or one-hot, a network, or many looks at labels."""
    size = sum(x.numel() for x in (state.loc | state.parameters).values())
    if local := [name for name, site in problem.sites.items() if site.local]:
        return f"each item has a number of its own ({', '.join(local)})"
    if state.logits or state.fixed:
        return f"{', '.join([*state.logits, *state.fixed])} is no number"
    if network_of(problem.model) is not None:
        return "a network learns"
    if size > AT_ONCE or size * problem.n_labels * problem.states > CURVED:
        return f"{size:,} unknown numbers and {problem.n_labels:,} labels would take too long"
    return None


def _around(problem: Problem, state: State, generator: torch.Generator) -> Tensors:
    """Draws of all sites around their means, by the curvature there of the density with truths summed out.

    By that at the mode where the density curves upwards at the means; nothing where this is no maximum, either.
    """
    target = Target(problem, "vb")
    means = target.means(state)
    draws = target.draws_around(means, DRAWS, generator)
    if draws is None:
        mode, *_ = target.climb(means, LOOKS, {})
        draws = target.draws_around(mode, DRAWS, generator)
        draws = None if draws is None else draws - mode + means
    found = {} if draws is None else target.sites(draws[None])
    shapes = {name: site.shape(problem.n_items) for name, site in problem.sites.items()}
    return {n: problem.sites[n].value(x).reshape(-1, *shapes[n]) for n, x in found.items()}


def _weights(
    problem: Problem, state: State, most: Tensors, generator: torch.Generator
) -> tuple[dict[str, Tensor], bool]:
    """The weights at a state, at most those of amounts, and whether some direction curves upwards: no maximum."""
    sites = problem.sites
    parameters = {n: x.double() for n, x in state.parameters.items() if x.shape[-1] > 1}
    _, _, priors = VB.at(problem, state).evaluate()
    share, known = {}, {n: sites[n].conjugate.amount(priors[n]) for n in parameters}
    for name, (amount, of_prior) in amounts(problem, state).items():
        share[name] = (amount / parameters[name].sum(-1)).clamp(max=1)
        known[name], parameters[name] = of_prior, parameters[name] * share[name].unsqueeze(-1)
    found_of = ((n, sites[n].conjugate.response(x, sites[n].ratios)) for n, x in parameters.items())
    rows, curvature = RowMaps({n: x for n, x in found_of if x is not None}), _Curvature(problem, state)
    if not rows.of:
        return {}, False
    within = min(LABELS, FACTORS // problem.states) // max(problem.n_labels, _cells(problem))
    probes = max(FEWEST, min(PROBES, within, NUMBERS // sum(x.parameter.numel() for x in rows.of.values())))
    k = problem.blocks[0].n_classes
    unsupported = getattr(problem.model, "unsupported", {})  # of an update
    found = {}
    for name, row in rows.of.items():
        vectors = max(FEWEST, probes * k // max(k, row.shape[-1]))  # each says as much of a row as it has entries
        extra = _extra_variance(curvature, rows, name, vectors, generator)
        unknown, enough = unsupported.get(name, torch.zeros(())), most.get(name, torch.full((), torch.inf))
        found[name] = row.weight(extra, known[name], unknown, enough) * share.get(name, 1.0)
    return found, curvature.upward


def _cells(problem: Problem) -> int:
    """Number of annotators' answers: a pass makes the tables of all, however few their labels."""
    return problem.blocks[0].n_annotators * problem.blocks[0].n_answers


@dataclass(frozen=True)
class RowMaps:
    """The linear maps of each site's rows, by site."""

    of: Mapping[str, Response]

    def covariance(self, y: Vectors) -> Vectors:
        """V y, V being the covariance of the statistics."""
        return {n: rows.covariance(y[n]) for n, rows in self.of.items()}

    def inverse(self, y: Vectors) -> Vectors:
        """V^-1 y."""
        return {n: rows.inverse(y[n]) for n, rows in self.of.items()}


def _extra_variance(
    curvature: _Curvature, rows: RowMaps, name: str, most: int, generator: torch.Generator
) -> Tensor:
    """Variance of each row of a site beyond mean field's: its diagonal, by each entry or by random signs.

    Half of the signs find the few directions of large variance, such as that all annotators are a little better
    (Nystrom's low-rank matrix), and half what is left (Meyer et al. 2021, Hutch++: optimal stochastic trace
    estimation, SOSA). Entries are scaled by their own standard deviations: else annotators with few labels would
    drown those with many. Where the first signs meet nothing beyond the tolerance, the others would not, either.
    """
    shape = rows.of[name].shape
    if shape.numel() <= most:
        unit = torch.eye(shape.numel(), dtype=torch.float64, device=generator.device).reshape(-1, *shape)
        return torch.as_tensor((unit * _extra_covariance(curvature, rows, name, unit)).sum((0, -1)))
    scale, first = rows.of[name].deviation(), min(most, curvature.at_once * -(-FEWEST // curvature.at_once))

    def looked(n: int) -> tuple[Tensor, Tensor]:
        signs = 2.0 * torch.randint(0, 2, (n, *shape), generator=generator, device=generator.device).double() - 1
        return signs, _extra_covariance(curvature, rows, name, signs / scale) / scale

    signs, moved = looked(first)
    if not bool(moved.any()):
        return torch.zeros_like(moved[0, ..., 0])
    if first < most:
        signs, moved = map(torch.cat, zip((signs, moved), looked(most - first), strict=True))
    half = most // 2
    sketch, image = signs[:half].flatten(1), moved[:half].flatten(1)
    values, vectors = torch.linalg.eigh((sketch @ image.mT + image @ sketch.mT) / 2)
    kept = values > SMALLEST_SHARE * values.amax().clamp(min=1e-300)
    low = (vectors[:, kept] / values[kept].sqrt()).mT @ image  # its square is the low-rank matrix
    rest = moved[half:].flatten(1) - (signs[half:].flatten(1) @ low.mT) @ low
    total: Tensor = low.square().sum(0) + (signs[half:].flatten(1) * rest).mean(0)
    return (total.reshape(shape) * scale.square()).sum(-1)


def _extra_covariance(curvature: _Curvature, rows: RowMaps, name: str, vectors: Tensor) -> Tensor:
    """The covariance of what is asked of rows, beyond mean field's, times each vector of one site."""
    out, own = [], rows.of[name]
    for part in vectors.split(curvature.at_once):
        right = {n: part.new_zeros((len(part), *x.parameter.shape)) for n, x in rows.of.items()}
        right[name] = own.inverse(own.change_transposed(part))
        out.append(own.change(own.inverse(_solve(curvature, rows, right)[name])))
    return torch.cat(out)


def _solve(curvature: _Curvature, rows: RowMaps, right: Vectors) -> Vectors:
    """Solves ``(V^-1 - H) x = right`` by conjugate gradients from ``V right``, and returns ``x - V right``.

    Short of the fixed point, a direction may curve upwards; its solution then stays as it is, and adds less than
    all missing variance, never more.
    """
    start = rows.covariance(right)
    extra, residual = {n: torch.zeros_like(x) for n, x in start.items()}, curvature(start)
    direction = preconditioned = rows.covariance(residual)
    size, limit = _dot(residual, preconditioned), TOLERANCE**2 * _dot(right, start)
    active = size > limit
    for _ in range(STEPS):
        if not bool(active.any()):
            break
        product = curvature(direction)
        image = {n: y - product[n] for n, y in rows.inverse(direction).items()}
        bend = _dot(direction, image)
        curvature.upward |= bool((active & (bend <= 0)).any())
        active = active & (bend > 0)
        length = torch.where(active, size / bend, 0.0)
        extra, residual = _add(extra, length, direction), _add(residual, -length, image)
        preconditioned = rows.covariance(residual)
        size, before = _dot(residual, preconditioned), size
        direction = _add(preconditioned, torch.where(active, size / before, 0.0), direction)
        active = active & (size > limit)
    return extra


@dataclass
class _Curvature:
    """H: change of counts with the statistics, by differences of passes around vb's state.

    Attributes:
        upward: whether some direction was found to curve upwards, as none does at a fixed point.
    """

    problem: Problem
    state: State
    upward: bool = False

    @cached_property
    def _blocks(self) -> list[Block]:
        """The data in float64: differences of parameters with many labels are lost in the rounding of float32."""
        return [replace(block, dtype=torch.float64) for block in self.problem.blocks]

    @cached_property
    def _values(self) -> Vectors:
        """The value of each site at the state."""
        here = VB.at(self.problem, self.state)
        with torch.no_grad():
            at = {**here.statistics(), **here.gaussians.means()}
        return {name: x.double() for name, x in at.items()}

    @cached_property
    def _counts(self) -> Vectors:
        """The counts at the state."""
        full_pass = replace(self.problem.full_pass(), blocks=self._blocks)
        found = full_pass(self._values, gradient=list(self.state.parameters), extra=lambda _: None).gradient
        return {name: x.double() for name, x in found.items()}

    @property
    def at_once(self) -> int:
        """Vectors that a pass takes."""
        return max(1, WIDTH // self.problem.width)

    def __call__(self, y: Vectors) -> Vectors:
        """H y for each vector."""
        vectors = len(next(iter(y.values())))
        step = DISTANCE / torch.stack([x.abs().flatten(1).amax(1) for x in y.values()]).amax(0).clamp(min=1e-300)
        values = {}
        for name, x in self._values.items():
            moved = x.expand(vectors, *x.shape)
            if name in y:
                moved = moved + y[name] * step.reshape(-1, *(1,) * x.dim())
            values[name] = self.problem.sites[name].with_plate_dims(moved, self.problem.plates)
        full_pass = replace(self.problem.full_pass(vectors), blocks=self._blocks)
        counts = full_pass(values, gradient=list(y), extra=lambda _: None).gradient
        out = {}
        for name, x in y.items():
            change = counts[name].double().reshape(x.shape) - self._counts[name].reshape(x.shape[1:])
            out[name] = change / step.reshape(-1, *(1,) * (x.dim() - 1))
        return out


def _dot(one: Vectors, other: Vectors) -> Tensor:
    return torch.stack([(x * other[n]).flatten(1).sum(1) for n, x in one.items()]).sum(0)


def _add(x: Vectors, length: Tensor, direction: Vectors) -> Vectors:
    return {n: a + length.reshape(-1, *(1,) * (a.dim() - 1)) * direction[n] for n, a in x.items()}
