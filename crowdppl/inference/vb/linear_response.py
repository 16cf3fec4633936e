"""Linear-response covariances of a variational fit (Giordano, Broderick & Jordan 2018, JMLR 19).

VB takes truth and parameters for independent: labels are counted as if the truths that they are counted under had
been seen. The missing variance shows in how the fixed point moves with the prior. With V the covariance of
log theta under the Dirichlets, and H the second derivative of the labels' evidence by log theta, the covariance is
``(V^-1 - H)^-1``. It is solved for by conjugate gradients, with differences of passes in place of H.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.inference.loop import iterate
from crowdppl.inference.predict.priors import PosteriorAsPrior
from crowdppl.inference.problem import Problem
from crowdppl.inference.tables import WIDTH
from crowdppl.inference.vb.coordinate_ascent import Ascent
from crowdppl.inference.vb.fit import Extrapolation

LARGE = 1e7
"""Labels of a row beyond which a difference is lost in rounding, and its limit is as good."""

Parts = dict[str, Tensor]
"""Numbers for each vector, and each entry of each site: (P, *site)."""


@dataclass(frozen=True)
class Rows:
    """Dirichlets by site, and linear maps between log theta, theta and concentrations, row by row.

    Attributes:
        total: concentrations, float64.
    """

    total: Mapping[str, Tensor]

    @cached_property
    def own(self) -> Parts:
        """The diagonal of V, to which ``common`` comes, with a minus, everywhere in a row."""
        return {n: torch.polygamma(1, x) for n, x in self.total.items()}

    @cached_property
    def common(self) -> Parts:
        """What the shares of a row have in common: (..., 1)."""
        return {n: torch.polygamma(1, x.sum(-1, keepdim=True)) for n, x in self.total.items()}

    @cached_property
    def inverted(self) -> Parts:
        """What they have in common in V^-1 (Sherman-Morrison): (..., 1)."""
        out = {}
        for n, x in self.total.items():
            large = x.sum(-1, keepdim=True)
            left = 1 - self.common[n] * (1 / self.own[n]).sum(-1, keepdim=True)
            out[n] = self.common[n] / torch.where(large > LARGE, (x.shape[-1] - 1) / (2 * large), left)
        return out

    def deviation(self, name: str) -> Tensor:
        """Standard deviations of the shares of a site."""
        n = self.total[name].sum(-1, keepdim=True)
        share = self.total[name] / n
        return (share * (1 - share) / (n + 1)).sqrt()

    def covariance(self, y: Parts) -> Parts:
        """V y, V being the covariance of log theta."""
        return {n: x * y[n] - self.common[n] * y[n].sum(-1, keepdim=True) for n, x in self.own.items()}

    def inverse(self, y: Parts) -> Parts:
        """V^-1 y."""
        each = {n: y[n] / x for n, x in self.own.items()}
        return {n: x + self.inverted[n] * x.sum(-1, keepdim=True) / self.own[n] for n, x in each.items()}

    def down(self, y: Parts) -> Parts:
        """How mean shares move when concentrations do."""
        return {
            n: (y[n] - x / x.sum(-1, keepdim=True) * y[n].sum(-1, keepdim=True)) / x.sum(-1, keepdim=True)
            for n, x in self.total.items()
        }

    def up(self, y: Parts) -> Parts:
        """The transpose of ``down``."""
        return {
            n: (y[n] - (x * y[n]).sum(-1, keepdim=True) / x.sum(-1, keepdim=True)) / x.sum(-1, keepdim=True)
            for n, x in self.total.items()
        }

    def weight(self, name: str, beyond: Tensor, prior: Tensor, unsure: Tensor) -> Tensor:
        """The part of a concentration that is left where a row's variance is larger by ``beyond``.

        ``unsure`` is what of ``prior`` is no knowledge.
        """
        alone = Rows({name: self.total[name]})
        x = alone.total[name]
        k, n = x.shape[-1], x.sum(-1)
        unit = torch.eye(k).to(x).reshape(k, *(1,) * (x.dim() - 1), k).expand(k, *x.shape)
        own = (unit * alone.down(alone.inverse(alone.up({name: unit})))[name]).sum((0, -1))
        left = (n + 1) / (1 + beyond / own).clamp(min=1) - 1
        known = torch.maximum(left, torch.minimum(prior.to(n), n)) - unsure.to(n)
        out: Tensor = (known / n).clamp(max=1)
        return out


PROBES, FEWEST, LABELS, FACTORS, NUMBERS = 200, 8, 1_000_000, 40_000_000, 100_000_000
"""Vectors that are solved for, of each site: down to eight, where all have more labels, log-factors, or numbers."""
STEPS, TOLERANCE = 20, 2e-2
"""Of conjugate gradients."""
CUT = 1e-2
"""Directions of less than this part of the largest variance are left to the signs: solved for roughly, as all are,
they would bring in more error than they hold."""
SETTLED, MORE = 1e-10, 200
"""Relative gain, and iterations at most, of a climb that goes on because vb stopped short of its fixed point."""
AWAY = 1e-5
"""Distance in log theta over which differences are taken: in float64, rounding is below what is cut off."""


def weights(problem: Problem, ascent: Ascent, generator: torch.Generator, *, settled: bool) -> dict[str, Tensor]:
    """For each row of each Dirichlet, the part of its concentration that is knowledge: above 0, at most 1.

    A Dirichlet with this part of the concentration has the same mean, and as much variance as linear response finds
    for the row; it never knows less than the prior. After an update, what the earlier fit only counted is not known
    either. Where vb has stopped on a long flat way to its fixed point, what is found rests on chance (on web, under
    bayesian_dawid_skene, the widths of annotators with many labels were off by up to five times): it is then looked
    for at the end of the way.

    Args:
        problem: story and data.
        ascent: vb at its fixed point, to which it comes back.
        generator: random stream of the signs.
        settled: whether the fit ended because it had settled.

    Returns:
        By site, in the shape of its rows; nothing where labels depend on Gaussians directly, or where a story's
        counts are those of another likelihood.
    """
    if ascent.here.touching or getattr(problem.model, "counting", None) is not None:
        return {}
    found, bent = _weights(problem, ascent, generator)
    if bent and settled and ascent.learner is None:
        kept = ascent.state.copy()
        try:
            _settle(problem, ascent)
            found, _ = _weights(problem, ascent, generator)
        finally:
            ascent.state.put(kept)
    return found


def _settle(problem: Problem, ascent: Ascent) -> None:
    """Goes on to the fixed point."""
    fit = ascent if ascent.state.logits else Extrapolation(ascent, SETTLED)
    quietly = replace(problem.options, progress=False, callback=None)
    if iterate(lambda t: fit.step(), quietly, steps=MORE, tolerance=SETTLED).interrupted:
        raise KeyboardInterrupt


def _weights(problem: Problem, ascent: Ascent, generator: torch.Generator) -> tuple[dict[str, Tensor], bool]:
    """The weights where the ascent is, and whether some direction bends as none does at a fixed point."""
    total = {n: x.double() for n, x in ascent.state.parameters.items() if x.shape[-1] > 1}  # one share is known
    if not total:
        return {}, False
    here = ascent.here
    priors = here.priors(ascent.fold(here.values(), gradient=list(ascent.state.parameters)))
    rows, curvature = Rows(total), _Curvature(problem, ascent)
    bags = max(problem.n_labels, _cells(problem))
    most = _affordable(bags, problem.states, sum(x.numel() for x in total.values()))
    k = problem.blocks[0].n_classes
    beyond = {n: _beyond(curvature, rows, n, _enough(most, k, x.shape[-1]), generator) for n, x in total.items()}
    unsure = problem.model.unsure if isinstance(problem.model, PosteriorAsPrior) else {}
    zero = torch.zeros(())
    found = {n: rows.weight(n, x, priors[n].sum(-1), unsure.get(n, zero)) for n, x in beyond.items()}
    return found, curvature.bent


def _cells(problem: Problem) -> int:
    """What annotators may answer: a pass makes the tables of all, however few their labels."""
    return problem.blocks[0].n_annotators * problem.blocks[0].n_answers


def _affordable(bags: int, states: int, numbers: int) -> int:
    """How many vectors, given labels (or answers, if more), an item's alternatives and the numbers in all sites."""
    return max(FEWEST, min(PROBES, min(LABELS, FACTORS // states) // max(bags, 1), NUMBERS // numbers))


def _enough(most: int, classes: int, entries: int) -> int:
    """Of so many vectors, those that a site with long rows takes: each tells as much of a row as it has entries."""
    return max(FEWEST, most * classes // max(classes, entries))


def _beyond(curvature: _Curvature, rows: Rows, name: str, most: int, generator: torch.Generator) -> Tensor:
    """Variance of each row of a site beyond its Dirichlet's: its diagonal, for each entry or by random signs.

    That all annotators are a little better than they seem, or all worse, is one direction in which vb leaves much
    out, and which would drown the others in the noise of signs: so half of them find such directions (Nystrom's
    low-rank matrix), and half what is left (Meyer et al. 2021, Hutch++: optimal stochastic trace estimation, SOSA).
    Shares are measured by their own standard deviations, or else those of annotators with few labels, which are
    large, would drown those of annotators with many.
    """
    shape = rows.total[name].shape
    if shape.numel() <= most:
        unit = torch.eye(shape.numel(), dtype=torch.float64, device=generator.device).reshape(-1, *shape)
        each: Tensor = (unit * _moved(curvature, rows, name, unit)).sum((0, -1))
        return each
    signs = 2.0 * torch.randint(0, 2, (most, *shape), generator=generator, device=generator.device).double() - 1
    scale = rows.deviation(name)
    moved = _moved(curvature, rows, name, signs / scale) / scale
    half = most // 2
    sketch, seen = signs[:half].flatten(1), moved[:half].flatten(1)
    values, vectors = torch.linalg.eigh((sketch @ seen.mT + seen @ sketch.mT) / 2)
    kept = values > CUT * values.amax().clamp(min=1e-300)
    low = (vectors[:, kept] / values[kept].sqrt()).mT @ seen  # its square is the low-rank matrix
    rest = moved[half:].flatten(1) - (signs[half:].flatten(1) @ low.mT) @ low
    total: Tensor = low.square().sum(0) + (signs[half:].flatten(1) * rest).mean(0)
    return (total.reshape(shape) * scale.square()).sum(-1)


def _moved(curvature: _Curvature, rows: Rows, name: str, vectors: Tensor) -> Tensor:
    """The covariance of mean shares beyond the Dirichlets', times each vector of one site."""
    out = []
    for some in vectors.split(curvature.at_once):
        whole = {n: torch.zeros((len(some), *x.shape)).to(x) for n, x in rows.total.items()} | {name: some}
        found = _solve(curvature, rows, rows.inverse(rows.up(whole)))
        out.append(rows.down(rows.inverse(found))[name])
    return torch.cat(out)


def _solve(curvature: _Curvature, rows: Rows, right: Parts) -> Parts:
    """Solves ``(V^-1 - H) x = right`` by conjugate gradients from ``V right``, and returns what x adds to it.

    Where vb has stopped short of its fixed point, a direction may bend the other way; the way up to it then counts,
    as it does after the last step: less than all that vb leaves out, never more.
    """
    begin = rows.covariance(right)
    beyond, rest = {n: torch.zeros_like(x) for n, x in begin.items()}, curvature(begin)
    way = ahead = rows.covariance(rest)
    size, enough = _dot(rest, ahead), TOLERANCE**2 * _dot(right, begin)
    going = size > enough
    for _ in range(STEPS):
        if not bool(going.any()):
            break
        bent = curvature(way)
        turned = {n: y - bent[n] for n, y in rows.inverse(way).items()}
        bend = _dot(way, turned)
        curvature.bent |= bool((going & (bend <= 0)).any())
        going = going & (bend > 0)
        length = torch.where(going, size / bend, 0.0)
        beyond, rest = _add(beyond, length, way), _add(rest, -length, turned)
        ahead = rows.covariance(rest)
        size, before = _dot(rest, ahead), size
        way = _add(ahead, torch.where(going, size / before, 0.0), way)
        going = going & (size > enough)
    return beyond


@dataclass
class _Curvature:
    """H: how counts move with log theta, by passes a little away from where vb stands.

    Attributes:
        bent: whether a direction was met that bends as none does at a fixed point.
    """

    problem: Problem
    ascent: Ascent
    bent: bool = False

    @cached_property
    def blocks(self) -> list[Block]:
        """The data in float64: what parameters of many labels leave open is lost in the rounding of float32."""
        return [replace(block, dtype=torch.float64) for block in self.ascent.fold.blocks]

    @cached_property
    def counts(self) -> Parts:
        """The counts where vb stands."""
        values = {name: x.double() for name, x in self.ascent.here.values().items()}
        fold = replace(self.ascent.fold, blocks=self.blocks)
        found = fold(values, gradient=list(self.ascent.state.parameters), extra=lambda _: None).gradient
        return {name: x.double() for name, x in found.items()}

    @property
    def at_once(self) -> int:
        """Vectors that a pass takes."""
        return max(1, WIDTH // (max(self.problem.n_items, _cells(self.problem)) * self.problem.states))

    def __call__(self, y: Parts) -> Parts:
        """H y for each vector."""
        vectors = len(next(iter(y.values())))
        away = AWAY / torch.stack([x.abs().flatten(1).amax(1) for x in y.values()]).amax(0).clamp(min=1e-300)
        values = {}
        for name, x in self.ascent.here.values().items():
            site = self.problem.sites[name]
            moved = x.double().expand(vectors, *x.shape)
            if name in y:
                moved = moved + y[name] * away.reshape(-1, *(1,) * x.dim())
            values[name] = site.widen(moved, self.problem.plates)
        fold = replace(
            self.ascent.fold, density=replace(self.ascent.fold.density, chains=vectors), blocks=self.blocks
        )
        counts = fold(values, gradient=list(y), extra=lambda _: None).gradient
        return {
            name: (counts[name].double().reshape(x.shape) - self.counts[name].reshape(x.shape[1:]))
            / away.reshape(-1, *(1,) * (x.dim() - 1))
            for name, x in y.items()
        }


def _dot(one: Parts, other: Parts) -> Tensor:
    return torch.stack([(x * other[n]).flatten(1).sum(1) for n, x in one.items()]).sum(0)


def _add(x: Parts, length: Tensor, way: Parts) -> Parts:
    return {n: a + length.reshape(-1, *(1,) * (a.dim() - 1)) * way[n] for n, a in x.items()}
