"""Which entries of a story's Dirichlets stand behind each label: read off the story by running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.bags import Bags
from crowdppl.data.blocks import Block
from crowdppl.errors import MethodError
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.problem import Problem
from crowdppl.networks.sight import networks_of

GRID = 0.1
"""Width of the grid of log-values by which a site's entries are told apart."""
SAME = 1e-8
"""Largest difference of log-probabilities that count as equal."""


@dataclass(frozen=True)
class Uses:
    """Which entries of Dirichlets multiply to the probability of each label given each truth, or of each truth.

    Attributes:
        constant: (K, U) log of the factor that no site moves.
        entries: for each site (K, U), the entry in the flattened site, -1 where it has no part.
    """

    constant: np.ndarray
    entries: Mapping[str, np.ndarray]

    def at(self, columns: np.ndarray) -> Uses:
        """The same for some columns, in their order."""
        return Uses(self.constant[:, columns], {n: x[:, columns] for n, x in self.entries.items()})

    def beside(self, other: Uses) -> Uses:
        """These columns, then those of another."""
        both = {n: np.concatenate([x, other.entries[n]], 1) for n, x in self.entries.items()}
        return Uses(np.concatenate([self.constant, other.constant], 1), both)

    def log_p(self, leaves: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log-probabilities (K, U) at values of the sites: log theta, in the site's shape."""
        out = self.constant.copy()
        for name, entry in self.entries.items():
            out += np.where(entry >= 0, leaves[name].ravel()[entry], 0.0)
        return out


def read_uses(problem: Problem, cells: np.ndarray, values: Mapping[str, Tensor]) -> Uses:
    """Finds which entries each label uses; columns are (annotator, answer) pairs, and the truth at last.

    Every pair is put to the story as an item with that one label. When each entry of a site is moved by an amount
    of its own, the joint probability of label and truth moves by that of the entry which it uses. At random values
    the product of the entries found has to be what the story says.

    Args:
        problem: a story, whose labels depend on its Dirichlets alone, and data.
        cells: (U,) ``annotator * n_answers + answer`` of pairs that occur.
        values: a value for each site; of Dirichlets only the shape matters.

    Raises:
        MethodError: when a label's probability given the truth is no product of entries, at most one a site.
    """
    probe = _probe(problem.blocks[0], cells)
    stream = np.random.default_rng(0)
    shapes = {s.name: tuple(values[s.name].shape) for s in problem.of_kind("conjugate")}
    base, other = ({n: np.log(stream.uniform(0.2, 0.8, x)) for n, x in shapes.items()} for _ in range(2))
    start = _log_p(problem, probe, values, base)
    entries, found = {}, True
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        step = GRID * np.arange(1, size + 1).reshape(shape) / size
        moved = (start - _log_p(problem, probe, values, {**base, name: base[name] - step})) * size / GRID
        entry = np.nan_to_num(moved, nan=-1.0).round().astype(np.int64) - 1
        found = found and bool(((entry >= -1) & (entry < size)).all())
        entries[name] = entry.clip(-1, size - 1)
    uses = Uses(start - Uses(np.zeros_like(start), entries).log_p(base), entries)
    apart = np.abs(uses.log_p(other) - _log_p(problem, probe, values, other))
    if not (found and bool((apart < SAME).all())):  # not a number is not the same, either
        raise no_form(problem, "given the truth, its probability is no product of entries of Dirichlets")
    return uses


def no_form(problem: Problem, why: str) -> MethodError:
    """The refusal of a story, and what to do instead."""
    draws = "method='psis' after a fit by gibbs, nuts or vb, or "
    if networks_of(problem.story):  # which have seen every label, whatever is drawn
        draws = ""
    return MethodError(
        f"{type(problem.story).__name__} has no closed form for a label left out: {why}; use {draws}heldout_score, "
        "which fits again"
    )


def _probe(block: Block, cells: np.ndarray) -> Block:
    """An item for each (annotator, answer), and one without labels."""
    bags = Bags.of_pairs(np.arange(len(cells)), cells, len(cells) + 1, block.bags.n_cells)
    return replace(
        block, bags=bags, gold=None, evidence=None, features=None, seen=None, offset=0, scale=1.0, _views={}
    )


def _log_p(
    problem: Problem, probe: Block, values: Mapping[str, Tensor], leaves: Mapping[str, np.ndarray]
) -> np.ndarray:
    """log p(label | truth = k) of each item of the probe but the last, then log p(truth = k): (K, U + 1)."""
    assert problem.truth is not None
    given = {**values, **{n: torch.from_numpy(x) for n, x in leaves.items()}}
    density = Density(problem.model, problem.plates, None, frozenset(leaves))
    found = density(probe, given, marginals=(problem.truth,))
    if found.per_item.shape[-1] != probe.n_items:
        raise no_form(problem, "its truth is not that of items")
    out = (found.marginals[problem.truth].log() + found.per_item).numpy().copy()
    out[:, :-1] -= out[:, -1:]
    return np.asarray(out)
