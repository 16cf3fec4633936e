"""Annotators as a population of gates: where its centre lies, and whether it has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from crowdppl.criticism.doubt import Doubt
from crowdppl.data.decoding import row_codes
from crowdppl.errors import MethodError

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior


GRID = 256
"""Places between the smallest and the largest weight at which a density is looked at."""
SAMPLES = 200
"""Populations that are drawn again to see whether a mode is one of chance."""
LEVEL = 0.05
"""Chance that a population with one mode is taken for one with several."""
LOOSE = 0.125
"""Share of its gate by which the mode may move when annotators are drawn again.

With 15 to 60 annotators spread evenly over all gates of 5 to 10 experts, it moves by .14 to .22; with gates that
scatter as closely as a Dirichlet of mass 50, by .03 to .06.
"""
TURNED = 0.05
"""Share of the items for which other annotators would give another answer.

Of 8 to 25 hammers of whom a fifth are spammers, at most .014; of 25 with plans of their own, mostly .1 to .4.
"""
FEWEST = 5
"""Annotators below which nothing is said of their population."""


def centre_of(gates: Tensor, kind: str = "mode", bandwidth: float | None = None) -> Tensor:
    """The gate of the oracle worker, weight by weight and renormalised: (..., A, M) to (..., M).

    Args:
        gates: of annotators, each a share of 1 over experts.
        kind: "mode" is the highest place of a Gaussian kernel density, looked at in 256 places (Han et al. 2025,
            "Mixture of experts based multi-task supervise learning from crowds"); or the mean, or the median.
        bandwidth: of the kernels; by default Silverman's rule (1986, "Density estimation", eq. 3.31) for each
            expert, .9 min(standard deviation, interquartile range / 1.34) A^(-1/5), which asks for no truth.

    Raises:
        MethodError: for another kind, or a bandwidth that is not positive.
    """
    if kind == "mean":
        return gates.mean(-2)
    if kind == "median":
        middle = gates.quantile(0.5, dim=-2)
    elif kind == "mode":
        if bandwidth is not None and not bandwidth > 0:
            raise MethodError(f"bandwidth={bandwidth} must be positive")
        with torch.no_grad():
            middle = torch.stack([_highest(x, bandwidth) for x in gates.unbind(-1)], -1)
    else:
        raise MethodError(f"the centre of a population is its 'mode', 'mean' or 'median', not {kind!r}")
    return middle / middle.sum(-1, keepdim=True).clamp(min=1e-30)


def _highest(x: Tensor, bandwidth: float | None) -> Tensor:
    """Where the density of numbers (..., A) is highest, (...)."""
    low, high = x.amin(-1), x.amax(-1)
    steps = torch.linspace(0, 1, GRID, dtype=x.dtype, device=x.device)
    at = low.unsqueeze(-1) + (high - low).unsqueeze(-1) * steps  # (..., G)
    h = silverman(x) if bandwidth is None else torch.full_like(low, bandwidth)
    apart = (at.unsqueeze(-1) - x.unsqueeze(-2)) / h[..., None, None]
    best = (-0.5 * apart.square()).exp().sum(-1).argmax(-1, keepdim=True)
    return at.gather(-1, best).squeeze(-1)


def silverman(x: Tensor) -> Tensor:
    """Bandwidths (...) for samples (..., A) by Silverman's rule; a tiny one where all numbers are the same."""
    spread = x.std(-1, unbiased=False)
    quartiles = x.quantile(torch.tensor([0.25, 0.75], dtype=x.dtype, device=x.device), dim=-1)
    middle = (quartiles[1] - quartiles[0]) / 1.34
    least = torch.where(middle > 0, torch.minimum(spread, middle), spread)
    out: Tensor = (0.9 * x.shape[-1] ** -0.2 * least).clamp(min=1e-9)
    return out


def principal(gates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean (M,), the first two principal axes (M, 2) and their shares of the spread (2,).

    An axis points to where the gate that is largest along it grows.
    """
    mean = gates.mean(0)
    _, sizes, axes = np.linalg.svd(gates - mean, full_matrices=False)
    axes, sizes = np.pad(axes, ((0, max(0, 2 - len(axes))), (0, 0)))[:2].T, np.pad(sizes, (0, 2))
    sign = np.sign(axes[np.abs(axes).argmax(0), np.arange(2)])
    total = np.square(sizes).sum()
    return mean, axes * np.where(sign == 0, 1, sign), np.square(sizes[:2]) / (total if total > 0 else 1)


def doubts_of(posterior: Posterior) -> Iterator[Doubt]:
    """What speaks against the crowd of a fit being one population, where its method gives annotators gates.

    - Of gates, what ``population_doubts`` says.
    - diffuse, too, where gates are alike, as those of a short fit are, and annotators are not (``moved_answers``):
      the oracle worker then says what most annotators say, and who these are is chance. Of 30 simulated crowds of
      25 with plans of their own, nine in ten wrong, 24 are found with three classes, 29 with four, all with eight;
      of as many of hammers of whom a fifth are spammers none is taken for one, but 5 are where a hammer is right in
      .45 of 22 labels of four classes.

    Silent where annotators err alike, whatever they are, for then nothing tells a crowd that is wrong from one that
    is right: with two classes there is one way to err. All who guess are alike, too: see "spammers".
    """
    gate = posterior.result.sites.get("gate")
    if gate is None:
        return
    found = list(population_doubts(np.asarray(gate.mean)))
    moved = 0.0 if any(doubt.kind == "diffuse" for doubt in found) else moved_answers(posterior)
    if moved > TURNED:
        yield Doubt(
            "diffuse",
            f"the population of {posterior.data.n_annotators} annotators is diffuse: drawn again from them, what "
            f"most of them say is another class for {moved:.0%} of the items, though their gates are alike. The "
            "oracle worker may be wrong nearly always: give some known truths (gold=), compare with other methods, "
            "or train for more epochs",
        )
    yield from found


def moved_answers(posterior: Posterior, seed: int = 0) -> float:
    """Share of items for which most of another draw of the same annotators would give another answer.

    Annotators are drawn again with their labels (200 bootstrap samples). Each weighs as much as any other, as in a
    population of gates. Items of which the fit finds the same class most probable are taken together, for few have
    labels of many annotators. As much as would move if annotators were alike, by the few labels they gave, is taken
    off.

    Returns:
        A number from 0; 0 where fewer than 5 annotators named a class.
    """
    data, stream = posterior.data, np.random.default_rng(seed)
    item, cell = row_codes(data.blocks, data.order)
    annotator, answer = np.divmod(cell, data.n_answers)
    oracle = posterior.result.probabilities.argmax(1)
    counts = np.zeros((data.n_annotators, data.n_classes, data.n_answers), np.int64)
    np.add.at(counts, (annotator, oracle[item], answer), 1)
    counts = counts[..., : data.n_classes]
    counts = counts[counts.any((1, 2))]
    if len(counts) < FEWEST:
        return 0.0
    share, n = np.bincount(oracle, minlength=data.n_classes) / len(oracle), len(counts)
    shares = _shares(counts)
    first = shares.sum(0).argmax(-1)
    drawn = stream.multinomial(n, np.full(n, 1 / n), SAMPLES)
    again = np.tensordot(drawn, shares, 1).argmax(-1)
    moved = float((again != first).mean(0) @ share)
    if moved <= TURNED:
        return moved
    row = np.maximum(counts.sum(0), 1e-9)
    row /= row.sum(-1, keepdims=True)
    many = (stream.multinomial(counts.sum(-1), row) for _ in range(SAMPLES))
    alike = np.stack([_shares(some).sum(0).argmax(-1) for some in many])
    return max(0.0, moved - float((alike != first).mean(0) @ share))


def _shares(counts: np.ndarray) -> np.ndarray:
    """How often each annotator gives each answer to each class, of how often they name one: (A, K, K)."""
    return np.asarray(counts / np.maximum(counts.sum(-1, keepdims=True), 1))


def population_doubts(gates: np.ndarray, seed: int = 0) -> Iterator[Doubt]:
    """What speaks against there being one oracle worker.

    - diffuse: the mode is one of chance. Drawn again from the same annotators (200 bootstrap samples), it moves by
      more than an eighth of the gate (total variation) on average.
    - modes: along the first principal axis of gates, Silverman's test (1981, "Using kernel density estimates to
      investigate multimodality") rejects one mode at level .05.

    Args:
        gates: of annotators, (A, M). Of fewer than 5 nothing is said.
        seed: of the draws.
    """
    if len(gates) < FEWEST:
        return
    stream = np.random.default_rng(seed)
    again = torch.from_numpy(gates[stream.integers(len(gates), size=(SAMPLES, len(gates)))])
    moved = 0.5 * (centre_of(again) - centre_of(torch.from_numpy(gates))).abs().sum(-1).mean()
    if moved > LOOSE:
        yield Doubt(
            "diffuse",
            f"the population of {len(gates)} annotators is diffuse: drawn again from them, its mode differs "
            f"in {moved:.0%} of the gate. The oracle worker stands for nobody in particular: compare with "
            "oracle='mean' and oracle='median', or leave out spammers with posterior.without([...])",
        )
    mean, axes, _ = principal(gates)
    p = one_mode(((gates - mean) @ axes)[:, 0], stream)
    if p < LEVEL:
        yield Doubt(
            "modes",
            f"the population of {len(gates)} annotators has several modes (p = {p:.2g} for one): the oracle worker "
            "is of the largest group, or lies between groups. crowdppl.plot_annotator_map(posterior) shows them",
        )


def one_mode(x: np.ndarray, stream: np.random.Generator) -> float:
    """The p-value of numbers having one mode, by Silverman's test with 200 smoothed bootstrap samples."""
    spread = x.std()
    if spread < 1e-9:
        return 1.0
    x = (x - x.mean()) / spread
    low, high = 1e-3, 2.0
    for _ in range(20):  # the smallest bandwidth at which there is one mode
        h = (low * high) ** 0.5
        low, high = (low, h) if modes(x, h) == 1 else (h, high)
    drawn = x[stream.integers(len(x), size=(SAMPLES, len(x)))] + high * stream.normal(size=(SAMPLES, len(x)))
    drawn /= (1 + high**2) ** 0.5
    return float(np.mean([modes(sample, high) > 1 for sample in drawn]))


def modes(x: np.ndarray, bandwidth: float) -> int:
    """How many local maxima the density of numbers has."""
    at = np.linspace(x.min() - bandwidth, x.max() + bandwidth, GRID)
    density = np.exp(-0.5 * ((at[:, None] - x) / bandwidth) ** 2).sum(1)
    rising = np.sign(np.diff(density))
    rising = rising[rising != 0]
    return int(((rising[:-1] > 0) & (rising[1:] < 0)).sum())
