"""Whether annotators who blend experts are one population, which one typical annotator can stand for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.networks.experts import GRID, population_centre, principal_axes

SAMPLES = 200
"""Bootstrap samples of annotators."""
LEVEL = 0.05
"""Of the test for several modes."""
MAX_SHIFT = 0.125
"""Share of the gate by which the mode may move when annotators are drawn again."""
MAX_CHANGED = 0.05
"""Share of the items to which other annotators would give another answer."""
MIN_ANNOTATORS = 5


def population_doubts(gates: np.ndarray, data: Annotations, probabilities: np.ndarray) -> list[tuple[str, str]]:
    """Reasons to doubt that there is one oracle worker, each a kind and a text.

    - diffuse: the mode of gates depends on chance: drawn again from the same annotators, it moves by more than an
      eighth of the gate (total variation) on average. Also where gates are alike, as those of a short fit are, and
      annotators are not: drawn again, most annotators would answer otherwise for a twentieth of the items.
    - modes: along the first principal axis of gates, Silverman's test (1981, "Using kernel density estimates to
      investigate multimodality") rejects one mode at level .05.

    Nothing is found where annotators err alike, for then labels do not show that a crowd is wrong.

    Args:
        gates: of annotators, (A, M), each a share of 1 over experts.
        probabilities: of the truth, (N, K).
    """
    found = list(gate_doubts(gates))
    changed = 0.0 if any(kind == "diffuse" for kind, _ in found) else changed_answers(data, probabilities)
    if changed > MAX_CHANGED:
        text = (
            f"the population of {data.n_annotators} annotators is diffuse: drawn again from them, what "
            f"most of them say is another class for {changed:.0%} of the items, though their gates are alike. The "
            "oracle worker may be wrong nearly always: give some known truths (gold=), compare with other methods, "
            "or train for more epochs"
        )
        found.insert(0, ("diffuse", text))
    return found


def gate_doubts(gates: np.ndarray, seed: int = 0) -> Iterator[tuple[str, str]]:
    """The doubts that gates (A, M) alone raise; none for fewer than 5 annotators."""
    if len(gates) < MIN_ANNOTATORS:
        return
    stream = np.random.default_rng(seed)
    again = torch.from_numpy(gates[stream.integers(len(gates), size=(SAMPLES, len(gates)))])
    moved = 0.5 * (population_centre(again) - population_centre(torch.from_numpy(gates))).abs().sum(-1).mean()
    if moved > MAX_SHIFT:
        yield (
            "diffuse",
            f"the population of {len(gates)} annotators is diffuse: drawn again from them, its mode differs "
            f"in {moved:.0%} of the gate. The oracle worker stands for nobody in particular: compare with "
            "oracle='mean' and oracle='median', or leave out spammers with posterior.without([...])",
        )
    mean, axes, _ = principal_axes(gates)
    p = unimodality_p_value(((gates - mean) @ axes)[:, 0], stream)
    if p < LEVEL:
        yield (
            "modes",
            f"the population of {len(gates)} annotators has several modes (p = {p:.2g} for one): the oracle worker "
            "is of the largest group, or lies between groups. crowdppl.plot_annotator_map(posterior) shows them",
        )


def changed_answers(data: Annotations, probabilities: np.ndarray, seed: int = 0) -> float:
    """Share of items to which most of another draw of the same annotators would give another answer, from 0.

    Annotators are drawn again with their labels; each has the same weight. Items with the same most probable class
    are pooled. The share expected of annotators who are alike, from as few labels, is subtracted. 0 for fewer than
    5 annotators.
    """
    stream, oracle = np.random.default_rng(seed), probabilities.argmax(1)
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
