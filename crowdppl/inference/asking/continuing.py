"""Going on from another fit's posterior: its sites as priors, and what its labels said of items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.decoding import labels_given
from crowdppl.data.splitting import keep
from crowdppl.errors import MethodError
from crowdppl.inference.fit_result import SiteResult
from crowdppl.inference.memory import Memory, Record, Sites
from crowdppl.inference.options import Options
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.draws import center_of
from crowdppl.inference.reading.families import DIRICHLET
from crowdppl.inference.reading.nodes import nodes
from crowdppl.inference.reading.posing import pose
from crowdppl.inference.reading.problem import Problem
from crowdppl.inference.reading.starts import typical_values
from crowdppl.stories.story import Story
from crowdppl.tables.codebook import Codebook

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.posterior import Posterior

ITEMS = 1_000_000
"""Items whose truths are looked at together."""
MOVES = 1e-6
"""Smallest gradient that says that a site has to do with the truth."""


def posed(posterior: Posterior, data: Annotations, options: Options) -> Problem:
    """A posterior's story and data before an engine, with what labels of earlier fits said of the items."""
    return pose(posterior.story, data, options, evidence=said_before(posterior, data))


def said_before(posterior: Posterior, data: Annotations) -> Tensor | None:
    """What labels of earlier fits said of the items of ``data``, (N, K) by position; None where there were none."""
    return None if posterior.memory is None else torch.from_numpy(posterior.memory.said_of(data))


def remembered(posterior: Posterior, data: Annotations, options: Options) -> Memory:
    """What an update by ``data`` goes on from.

    An item that comes again brings along what its labels said. What its truth counted in shared sites (the
    prevalence) is taken out of them, so that the update counts it once: exactly where the truth is all that such
    a site knows of items; else, as for subtypes of a class, in expectation, but never below the story's prior.

    Args:
        posterior: the old fit.
        data: the new labels, under its codes.
        options: of the update.

    Raises:
        MethodError: when items come again and a site that is no Dirichlet has learned from their truths.
        DataError: when the story has networks and the items have no features.
    """
    old, memory = posterior.data, posterior.memory
    shared = {n: s for n, s in posterior.result.sites.items() if "item" not in s.dims}
    own = Record(
        old.items,
        posterior.result.probabilities,
        np.asarray(old.votes().sum(1)) + (0 if memory is None else memory.votes),
        {n: s for n, s in shared.items() if "annotator" not in s.dims},
    )
    truths = _Truths(posterior.story, data, options)
    evidence, votes, records = np.zeros((data.n_items, data.n_classes)), np.zeros(data.n_items, np.int64), []
    for record in (own, *(() if memory is None else memory.records)):
        code = Codebook("item", record.items).codes(data.items)
        again = np.flatnonzero(code >= 0)
        if len(again):
            evidence[again] = truths.take_out(again, record.probabilities[code[again]], {**shared, **record.sites})
            votes[again] = record.votes[code[again]]
        left = np.ones(len(record.items), bool)
        left[code[again]] = False
        if left.any():
            records.append(record.some(left))
    labels = labels_given(old) + (0 if memory is None else memory.labels)
    return Memory(truths.reduced(shared), data.items, evidence, votes, labels, tuple(records))


@dataclass
class _Truths:
    """Truths of items before their labels, and what they count in shared sites."""

    story: Story
    data: Annotations
    options: Options
    counts: dict[str, np.ndarray] = field(default_factory=dict)
    priors: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def problem(self) -> Problem:
        """The items without labels."""
        return pose(self.story, keep(self.data.with_gold(None), np.zeros(self.data.n_labels, bool)), self.options)

    def take_out(self, items: np.ndarray, share: np.ndarray, sites: Sites) -> np.ndarray:
        """Notes what truths count; returns what the items' labels said, log-potentials (n, K).

        Args:
            items: codes, (n,).
            share: probabilities of their truths, (n, K).
            sites: of the fit that found them.
        """
        whole, said = self.problem.whole(), np.empty_like(share)
        position = np.empty(self.data.n_items, np.int64)
        position[self.data.order] = np.arange(self.data.n_items)
        turn = np.argsort(position[items])
        for at in np.array_split(turn, -(-len(turn) // ITEMS)):
            said[at] = self._of_block(whole.subset(position[items[at]], 1.0), share[at], sites)
        return said

    def _of_block(self, block: Block, share: np.ndarray, sites: Sites) -> np.ndarray:
        problem, truth = self.problem, str(self.problem.truth)
        names = [n for n, s in problem.sites.items() if not s.local]
        conjugate = frozenset(s.name for s in problem.of_kind("conjugate"))
        values = center_of(problem, sites, names)
        local = [n for n in problem.sites if n not in names]
        stream = self.options.generator(2, 0)
        typical = typical_values(problem.story, block, local, {}, problem.plates, stream) if local else {}
        values |= {n: x.clamp(min=1e-30).log() if n in conjugate else x for n, x in typical.items()}
        density = Density(problem.model, problem.plates, None, conjugate)
        before = density(block, values, marginals=(truth,)).marginals[truth].double().clamp(min=1e-30).log()
        said = torch.as_tensor(share).clamp(min=1e-30).log().t().to(before) - before
        found = density(block, values, gradient=names, tilt={truth: said})
        trace = nodes(found.trace)
        for name, x in found.gradient.items():
            self._count(sites[name], x.double(), trace[name]["fn"])
        return np.asarray(said.t().cpu().numpy())

    def _count(self, stored: SiteResult, counts: Tensor, fn: Any) -> None:
        if not bool((counts.abs() > MOVES).any()):
            return
        if stored.family != "dirichlet":
            raise MethodError(
                f"items of this fit come again, and site {stored.name!r}, which is no Dirichlet, would learn from "
                "their truths once more; update with labels of other items, or fit to all labels together"
            )
        shape = stored.arrays["concentration"].shape
        self.counts[stored.name] = self.counts.get(stored.name, 0) + counts.reshape(shape).cpu().numpy()
        prior = DIRICHLET.natural(fn).reshape(shape)
        self.priors[stored.name] = prior.detach().cpu().numpy()

    def reduced(self, sites: Mapping[str, SiteResult]) -> Sites:
        """The sites without what was noted."""
        out = dict(sites)
        for name, counts in self.counts.items():
            c = sites[name].arrays["concentration"]
            left = np.maximum(c - counts, np.minimum(c, self.priors[name]))
            out[name] = replace(sites[name], arrays={**sites[name].arrays, "concentration": left})
        return out
