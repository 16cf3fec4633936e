"""Experts: networks side by side, of which each annotator is a blend by a gate, and their population."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from crowdppl.core.doubt import Doubt
from crowdppl.core.validation import is_whole, shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.data.features import Features, read_stored, rows_taken, whole_numbers
from crowdppl.errors import MethodError
from crowdppl.networks.classifier import Network, checked, features_for, outputs, own_copy
from crowdppl.networks.outputs import network_output
from crowdppl.networks.training import training_of
from crowdppl.primitives.labels import Table
from crowdppl.primitives.plates import Data

TYPICAL = 256
"""Items that represent all others where an item has no features."""
NUMBERS = 4_000_000
"""Largest size of one array over annotators and typical items."""
GRID = 256
"""Points between the smallest and the largest weight at which a density is evaluated."""


class Experts(Network):
    """Experts on standardised features (N, ...), and the tower that turns a blend of them into logits.

    The body maps a batch (B, ...) to outputs of M experts (B, M, H), the tower, whose first weights are always
    drawn, (B, H) to K logits; ``own`` and ``whole`` are as of ``Network``.
    """

    typical: Tensor

    def __init__(
        self, body: nn.Module, features: Features, tower: nn.Module, own: bool = True, whole: bool = False
    ) -> None:
        super().__init__(body, features, own, whole)
        self.tower = tower
        at = np.linspace(0, len(features) - 1, min(TYPICAL, len(features))).round().astype(np.int64)
        self.register_buffer("typical", read_stored(rows_taken(features, torch.from_numpy(at))).clone())

    def answers(self, blend: Tensor, learning: bool = False) -> Tensor:
        """Log-probabilities (..., K) of gated blends (..., H); ``learning`` lets the gradient reach the tower."""
        parameters = self.tower.named_parameters()
        weights = {name: (x if learning else x.detach()).to(blend.dtype) for name, x in parameters}
        logits: Tensor = functional_call(self.tower, weights, (blend,))
        return logits.log_softmax(-1)

    def seen_through(self, seen: Tensor, gate: Tensor, learning: bool = False) -> Tensor:
        """Log-probabilities (..., N, K) of the answers of one gate (..., M), from outputs of experts (N, M, H)."""
        return self.answers(torch.einsum("...m,nmh->...nh", gate, seen), learning)

    def labels_and_truth(self, data: Data, gate: Tensor, oracle: Callable[[], Tensor]) -> tuple[Table, Tensor]:
        """Log-probabilities of labels, for ``annotate``, by gates (..., A, M); and of the truth, by ``oracle``."""
        block, seen = data.as_block(), network_output(data, self, "experts")
        if seen is None:
            return self.on_typical(gate, oracle())
        needed = block.potential is not None or block.n_answers > block.n_classes
        if block.trains_networks and not needed:  # nothing depends on the truth, and finding a mode takes time
            log_p = torch.full((block.n_classes,), -math.log(block.n_classes))
        else:
            log_p = self.seen_through(seen, oracle(), block.trains_networks)
        return self.of_labels(block, seen, gate), log_p

    def of_labels(self, block: Block, seen: Tensor, gate: Tensor) -> Callable[[Tensor], Tensor]:
        """Log-probabilities of labels, whatever the truth, from outputs (N, M, H) and gates (..., A, M)."""
        # Expert by expert: an array over labels, experts and their H outputs would not fit for a million labels.
        blend: Tensor | float = 0.0
        for m in range(gate.shape[-1]):
            blend = blend + block.of_annotator(gate[..., m]).unsqueeze(-1) * block.of_item(seen[:, m], event_dim=1)
        assert isinstance(blend, Tensor)
        log_p = self.answers(blend, block.trains_networks)  # (..., S, K)

        def table(answer: Tensor) -> Tensor:
            return log_p.gather(-1, answer[:, None].expand(*log_p.shape[:-1], 1)).expand(*log_p.shape)

        return table

    @torch.no_grad()
    def on_typical(self, gate: Tensor, oracle: Tensor) -> tuple[Tensor, Tensor]:
        """Averages over typical items, for one without features; of gates (..., A, M), oracle (..., M).

        Log-probabilities (..., A, K, K) of labels given the truth; of the truth (K,), of chains (..., 1, K).
        """
        seen = outputs(self, self.typical).to(gate.dtype)
        truth = self.seen_through(seen, oracle).exp()  # (..., T, K)
        step = max(1, NUMBERS // max(1, gate[..., 0].numel() * seen.shape[-1]))
        joint: Tensor | float = 0.0
        for part, share in zip(seen.split(step), truth.split(step, -2), strict=True):
            label = self.answers(torch.einsum("...am,tmh->...ath", gate, part)).exp()
            joint = joint + torch.einsum("...tk,...atl->...akl", share, label)
        assert isinstance(joint, Tensor)
        log_p = truth.mean(-2).log()
        return (joint / joint.sum(-1, keepdim=True)).log(), log_p.unsqueeze(-2) if log_p.dim() > 1 else log_p


class GatedClassifier(nn.Module):
    """A classifier: features to the log-probabilities of one gate (M,), by experts as of ``experts_for``."""

    gate: Tensor

    def __init__(self, experts: nn.Module, gate: Tensor) -> None:
        super().__init__()
        assert isinstance(experts, Experts)
        self.experts = experts
        self.register_buffer("gate", gate.detach().float())

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (B, K) of a batch (B, ...)."""
        return self.experts.seen_through(self.experts(x), self.gate)


def side_by_side(n_features: int, n_experts: int, widths: Sequence[int], dropout: float) -> nn.Module:
    """Experts that share nothing but their input: rectified layers, (B, n_features) to (B, M, widths[-1])."""
    parts: list[nn.Module] = [nn.Flatten(), nn.Linear(n_features, n_experts * widths[0]), nn.ReLU()]
    parts.append(nn.Unflatten(1, (-1, 1)))
    for before, after in pairwise(widths):
        shape = (n_experts * before, n_experts * after, 1)
        parts += [nn.Dropout(dropout), nn.Conv1d(*shape, groups=n_experts), nn.ReLU()]
    return nn.Sequential(*parts, nn.Flatten(1), nn.Unflatten(1, (n_experts, -1)))


def stacked(widths: Sequence[int], n_classes: int) -> nn.Module:
    """Rectified layers and a linear one at the end: (B, widths[0]) to logits (B, n_classes)."""
    parts: list[nn.Module] = []
    for before, after in pairwise([*widths, n_classes]):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def experts_for(
    experts: nn.Module | None,
    data: Annotations,
    n_experts: int,
    widths: Sequence[int],
    tower: Sequence[int],
    training: Mapping[str, Any],
) -> Experts | None:
    """The experts with which a fit begins: a copy, so that fits do not change the network that was given.

    Args:
        experts: maps features to (B, M, H); None takes ``side_by_side``.
        n_experts: M.
        widths: of an expert's layers, H the last.
        tower: widths of the tower's hidden layers.
        training: settings of ``Training`` by name: precision, and for the default experts dropout.

    Returns:
        None where data have no features and no experts were given.

    Raises:
        DataError: when experts are given and data have no features.
        MethodError: when widths are no whole numbers from 1, or the experts refuse the features, cannot be copied,
            or do not return finite (B, M, H).
    """
    given = training_of(training)
    for name, sizes in (("widths", widths), ("tower", tower)):
        if not all(is_whole(n) and n > 0 for n in sizes) or (name == "widths" and not len(sizes)):
            least = ", at least one" if name == "widths" else ""
            raise MethodError(f"{name}={shown(sizes)} must be whole numbers from 1{least}: units of layers")
    features = features_for(experts, data, "experts")
    if features is None:
        return None
    if isinstance(experts, Experts):
        out = cast(Experts, own_copy(experts))
        out.precision = given.precision
        return out.eval()
    what, own, whole = "the network of experts", experts is not None, whole_numbers(data.features)
    with torch.random.fork_rng():
        if experts is None:
            body = side_by_side(math.prod(features.shape[1:]), n_experts, widths, given.dropout)
        else:
            body = own_copy(experts, what)
        wanted = f"finite (B, M, H) with M = {n_experts} (n_experts=)"
        found = checked(Network(body, features, own, whole), features, (n_experts, None), wanted, what)
        out = Experts(body, features, stacked([found.shape[-1], *tower], data.n_classes), own, whole)
    out.precision = given.precision
    return out.eval()


def population_centre(gates: Tensor, kind: str = "mode", bandwidth: float | None = None) -> Tensor:
    """The gate of the oracle worker, weight by weight and renormalised: (..., A, M) to (..., M).

    Args:
        gates: of annotators, each with weights over experts that add up to 1.
        kind: "mode" is the maximum of a Gaussian kernel density over 256 points (Han et al. 2025, "Mixture of
            experts based multi-task supervise learning from crowds"); or "mean", or "median".
        bandwidth: of the kernels; by default Silverman's rule (1986, "Density estimation", eq. 3.31) for each
            expert, .9 min(standard deviation, interquartile range / 1.34) A^(-1/5).

    Raises:
        MethodError: for another kind, or a bandwidth that is not positive.
    """
    if kind == "mean":
        return gates.mean(-2)
    if kind == "median":
        middle = gates.quantile(0.5, dim=-2)
    elif kind == "mode":
        if bandwidth is not None and not bandwidth > 0:
            raise MethodError(f"bandwidth={bandwidth} must be above 0")
        with torch.no_grad():
            middle = torch.stack([_highest(x, bandwidth) for x in gates.unbind(-1)], -1)
    else:
        raise MethodError(f"kind={shown(kind)} is none of 'mode', 'mean' and 'median'")
    return middle / middle.sum(-1, keepdim=True).clamp(min=1e-30)


def _highest(x: Tensor, bandwidth: float | None) -> Tensor:
    """The mode (...) of a kernel density of numbers (..., A)."""
    low, high = x.amin(-1), x.amax(-1)
    steps = torch.linspace(0, 1, GRID, dtype=x.dtype, device=x.device)
    at = low.unsqueeze(-1) + (high - low).unsqueeze(-1) * steps  # (..., G)
    h = silverman_bandwidth(x) if bandwidth is None else torch.full_like(low, bandwidth)
    apart = (at.unsqueeze(-1) - x.unsqueeze(-2)) / h[..., None, None]
    best = (-0.5 * apart.square()).exp().sum(-1).argmax(-1, keepdim=True)
    return at.gather(-1, best).squeeze(-1)


def silverman_bandwidth(x: Tensor) -> Tensor:
    """Bandwidths (...) for samples (..., A) by Silverman's rule; a tiny one where all numbers are the same."""
    spread = x.std(-1, unbiased=False)
    quartiles = x.quantile(torch.tensor([0.25, 0.75], dtype=x.dtype, device=x.device), dim=-1)
    middle = (quartiles[1] - quartiles[0]) / 1.34
    least = torch.where(middle > 0, torch.minimum(spread, middle), spread)
    out: Tensor = (0.9 * x.shape[-1] ** -0.2 * least).clamp(min=1e-9)
    return out


def principal_axes(gates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (M,) of gates (A, M), two principal axes (M, 2), largest entries positive, and variance shares (2,)."""
    mean = gates.mean(0)
    _, sizes, axes = np.linalg.svd(gates - mean, full_matrices=False)
    axes, sizes = np.pad(axes, ((0, max(0, 2 - len(axes))), (0, 0)))[:2].T, np.pad(sizes, (0, 2))
    sign = np.sign(axes[np.abs(axes).argmax(0), np.arange(2)])
    total = np.square(sizes).sum()
    return mean, axes * np.where(sign == 0, 1, sign), np.square(sizes[:2]) / (total if total > 0 else 1)


SAMPLES = 200
"""Bootstrap samples of annotators."""
LEVEL = 0.05
"""Of the test for several modes."""
MAX_SHIFT = 0.125
"""Share of the gate by which the mode may move when annotators are drawn again."""
MAX_CHANGED = 0.05
"""Share of the items to which other annotators would give another answer."""
MIN_ANNOTATORS = 5


def population_doubts(gates: np.ndarray, data: Annotations, probabilities: np.ndarray) -> list[Doubt]:
    """Reasons to doubt that there is one oracle worker.

    - diffuse: the mode of gates depends on chance: drawn again from the same annotators, it moves by more than an
      eighth of the gate (total variation) on average. Also where gates are alike, as those of a short fit are, and
      annotators are not: drawn again, most annotators would answer otherwise for a twentieth of the items.
    - modes: along the first principal axis of gates, Silverman's test (1981, "Using kernel density estimates to
      investigate multimodality") rejects one mode at level .05.

    Nothing is found where annotators err alike, for then labels do not show that a crowd is wrong. Gates (A, M) are
    each a share of 1 over experts; probabilities of the truth are (N, K).
    """
    found = list(gate_doubts(gates))
    changed = 0.0 if any(doubt.kind == "diffuse" for doubt in found) else changed_answers(data, probabilities)
    if changed > MAX_CHANGED:
        text = (
            f"the population of {data.n_annotators} annotators is diffuse: drawn again from them, what "
            f"most of them say is another class for {changed:.0%} of the items, though their gates are alike. The "
            "oracle worker may be wrong nearly always: give some known truths (gold=), compare with other methods, "
            "or train for more epochs"
        )
        remedies = ("crowdppl.fit(posterior.model, data, inference='svi', gold=gold)",)
        figures = {"annotators": data.n_annotators, "changed": changed}
        found.insert(0, Doubt("diffuse", text, figures=figures, remedies=remedies))
    return found


def gate_doubts(gates: np.ndarray) -> Iterator[Doubt]:
    """The doubts that gates (A, M) alone raise; none for fewer than 5 annotators."""
    if len(gates) < MIN_ANNOTATORS:
        return
    stream = np.random.default_rng(0)
    again = torch.from_numpy(gates[stream.integers(len(gates), size=(SAMPLES, len(gates)))])
    moved = float(
        0.5 * (population_centre(again) - population_centre(torch.from_numpy(gates))).abs().sum(-1).mean()
    )
    if moved > MAX_SHIFT:
        yield Doubt(
            "diffuse",
            f"the population of {len(gates)} annotators is diffuse: drawn again from them, its mode differs "
            f"in {moved:.0%} of the gate. The oracle worker stands for nobody in particular: compare with "
            "oracle='mean' and oracle='median', or leave out spammers with posterior.without([...])",
            figures={"annotators": len(gates), "moved": moved},
            remedies=tuple(
                f"crowdppl.fit(dataclasses.replace(posterior.model, oracle={other!r}), data, inference='svi')"
                for other in ("mean", "median")
            ),
        )
    mean, axes, _ = principal_axes(gates)
    p = unimodality_p_value(((gates - mean) @ axes)[:, 0], stream)
    if p < LEVEL:
        yield Doubt(
            "modes",
            f"the population of {len(gates)} annotators has several modes (p = {p:.2g} for one): the oracle worker "
            "is of the largest group, or lies between groups. crowdppl.plot_annotator_map(posterior) shows them",
            figures={"annotators": len(gates), "p_value": p},
            remedies=("crowdppl.plot_annotator_map(posterior)",),
        )


def changed_answers(data: Annotations, probabilities: np.ndarray) -> float:
    """Share of items to which most of another draw of the same annotators would give another answer, from 0.

    Annotators are drawn again with their labels; each has the same weight. Items with the same most probable class
    are pooled. The share expected of annotators who are alike is subtracted; 0 for fewer than 5.
    """
    stream, oracle = np.random.default_rng(0), probabilities.argmax(1)
    item, annotator, answer = data.label_codes()
    counts = np.zeros((data.n_annotators, data.n_classes, data.n_answers), np.int64)
    np.add.at(counts, (annotator, oracle[item], answer), 1)
    counts = counts[..., : data.n_classes]
    counts = counts[counts.any((1, 2))]
    if len(counts) < MIN_ANNOTATORS:
        return 0.0
    share, n = np.bincount(oracle, minlength=data.n_classes) / len(oracle), len(counts)
    rows = _answer_shares(counts)
    first = rows.sum(0).argmax(-1)
    drawn = stream.multinomial(n, np.full(n, 1 / n), SAMPLES)
    changed = float((np.tensordot(drawn, rows, 1).argmax(-1) != first).mean(0) @ share)
    if changed <= MAX_CHANGED:
        return changed
    pooled = np.maximum(counts.sum(0), 1e-9)
    pooled /= pooled.sum(-1, keepdims=True)
    draws = (stream.multinomial(counts.sum(-1), pooled) for _ in range(SAMPLES))
    alike = np.stack([_answer_shares(draw).sum(0).argmax(-1) for draw in draws])
    return max(0.0, changed - float((alike != first).mean(0) @ share))


def _answer_shares(counts: np.ndarray) -> np.ndarray:
    """Share of each answer among an annotator's answers to each class: (A, K, K)."""
    return np.asarray(counts / np.maximum(counts.sum(-1, keepdims=True), 1))


def unimodality_p_value(x: np.ndarray, stream: np.random.Generator) -> float:
    """The p-value of numbers having one mode, by Silverman's test with 200 smoothed bootstrap samples."""
    spread = x.std()
    if spread < 1e-9:
        return 1.0
    x = (x - x.mean()) / spread
    low, high = 1e-3, 2.0
    for _ in range(20):  # the smallest bandwidth at which there is one mode
        h = (low * high) ** 0.5
        low, high = (low, h) if count_modes(x, h) == 1 else (h, high)
    drawn = x[stream.integers(len(x), size=(SAMPLES, len(x)))] + high * stream.normal(size=(SAMPLES, len(x)))
    drawn /= (1 + high**2) ** 0.5
    return float(np.mean([count_modes(sample, high) > 1 for sample in drawn]))


def count_modes(x: np.ndarray, bandwidth: float) -> int:
    """Number of local maxima of the kernel density of numbers."""
    at = np.linspace(x.min() - bandwidth, x.max() + bandwidth, GRID)
    density = np.exp(-0.5 * ((at[:, None] - x) / bandwidth) ** 2).sum(1)
    rising = np.sign(np.diff(density))
    rising = rising[rising != 0]
    return int(((rising[:-1] > 0) & (rising[1:] < 0)).sum())
