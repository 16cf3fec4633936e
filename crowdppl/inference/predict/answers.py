"""Probabilities of an item's answers and of its other discrete variables, under a fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pyro import poutine
from torch import Tensor

from crowdppl.data.annotations import row_codes
from crowdppl.data.ragged import RaggedIndex
from crowdppl.errors import MethodError
from crowdppl.inference.density import nodes
from crowdppl.inference.draws import center_of, draws_of
from crowdppl.inference.predict.predictive import covariates_of, label_power, seen_of
from crowdppl.inference.predict.update import options_of, problem_of
from crowdppl.inference.problem import Problem, build_problem, without_validation
from crowdppl.inference.result import Fit, SiteResult
from crowdppl.inference.sites import reads_item_covariates
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.labels import Labels

MARGINAL_DRAWS = 100
"""Draws of the parameters over which probabilities are averaged."""


def item_marginal(posterior: Fit, name: str) -> np.ndarray:
    """Probability of each value of a discrete site of items, (N, T) in codebook order.

    Args:
        posterior: a fit; where it has draws, probabilities are averaged over them.
        name: of the site.

    Raises:
        MethodError: when the story sums no such site out, or it does not belong to items alone.
    """
    with without_validation("cpu"):
        problem = problem_of(posterior, posterior.data, replace(options_of(posterior), device="cpu", dtype=None))
        values, chains = _draw_values(problem, posterior)
        found = problem.full_pass(chains)(values, marginals=(name,)).marginals
    if name not in found or found[name].dim() != (2 if chains is None else 3):
        raise MethodError(f"{posterior.method} has no discrete site {name!r} of items")
    share = found[name].double()
    share = share if chains is None else share.mean(1)
    out = np.empty(tuple(share.t().shape))
    out[posterior.data.order] = share.t().numpy()
    return out


def _draw_values(problem: Problem, posterior: Fit) -> tuple[dict[str, Tensor], int | None]:
    """Where the sites stand, and how many draws of them ride along, if any."""
    stored = posterior.result.sites
    if {site.family for site in stored.values()} <= {"point", "dirichlet", "onehot"}:
        values = center_of(problem, stored, list(problem.sites))
        order = torch.from_numpy(posterior.data.order.astype(np.int64))
        for name in (n for n, s in problem.sites.items() if s.local):
            values[name] = values[name].index_select(problem.sites[name].batch_shape.index(-1), order)
        return values, None
    stream = problem.options.generator(15)
    return draws_of(problem, stored, posterior.data.order, MARGINAL_DRAWS, stream), MARGINAL_DRAWS


CHUNK = 4_000_000
"""Numbers that one array over several items may hold."""
DRAWS = 50
"""Parameter draws over which the tables of single items are averaged."""


class AnswerTables:
    """p(next answer | truth, annotator, the item's labels) under a fit.

    Args:
        posterior: the fit.
        annotators: codes of those who may answer, (A,).

    Raises:
        MethodError: when the story sums no truth out, or tempers labels that depend on more than it.
    """

    def __init__(self, posterior: Fit, annotators: np.ndarray) -> None:
        self.data, self.annotators = posterior.data, annotators
        item, self._cell = row_codes(self.data.blocks, self.data.order)
        self._starts = np.searchsorted(item, np.arange(self.data.n_items + 1))
        options = replace(options_of(posterior), device="cpu", dtype=None)
        with without_validation("cpu"):
            self._problem = build_problem(posterior.model, self.data, options)
            alone = truth_alone(self._problem)
            if not alone and label_power(self._problem) != 1:
                raise MethodError(
                    f"{posterior.method} takes the labels' likelihood to a power, and labels depend on more than "
                    "the truth of their item, so that a next one would weigh less than it tells; give a power of 1 "
                    "for this"
                )
            self._draws = {} if alone else _values(self._problem, posterior)
        table = posterior.result.table[annotators].transpose(1, 0, 2)[None]
        self._shared: np.ndarray | None = table / table.sum(-1, keepdims=True) if alone else None

    def chunks(self, items: np.ndarray, width: int = 1) -> Iterator[np.ndarray]:
        """Items in portions for which ``at`` stays small; smaller by ``width`` where more is made of it."""
        each = len(self.annotators) * self.data.n_answers * width
        if self._shared is None:
            each *= 8 * (self.data.n_classes + self.data.n_labels // max(1, self.data.n_items))
        step = max(1, CHUNK // max(1, each))
        return (items[i : i + step] for i in range(0, len(items), step))

    def at(self, items: np.ndarray) -> np.ndarray:
        """The tables of some items, (n, K, A, L), or (1, K, A, L) where all share them; rows sum to one."""
        if self._shared is not None:
            return self._shared
        joint = self._joint(items)
        total = joint.sum(-1, keepdims=True)
        even = np.full_like(joint, 1 / joint.shape[-1])  # of a truth that is impossible and weighs nothing
        return np.asarray(np.divide(joint, total, out=even, where=total > 0))

    def answered(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Who labelled which of some items: places among ``items`` and ``annotators``."""
        place = np.full(self.data.n_annotators, -1)
        place[self.annotators] = np.arange(len(self.annotators))
        row, cell = self.labels(items)
        column = np.asarray(place[cell // self.data.n_answers])
        return row[column >= 0], column[column >= 0]

    def labels(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels of some items: the place of each one's item among ``items``, and its cell."""
        sizes = self._starts[items + 1] - self._starts[items]
        row = np.repeat(np.arange(len(items)), sizes)
        first = np.repeat(self._starts[items] - (np.cumsum(sizes) - sizes), sizes)
        return row, np.asarray(self._cell[first + np.arange(len(row))])

    def _joint(self, items: np.ndarray) -> np.ndarray:
        """p(truth, next answer | the item's labels), (n, K, A, L), by trying every answer; a mean over draws."""
        may, n_answers = np.ones((len(self.annotators), self.data.n_answers), bool), self.data.n_answers
        if self.data.abstainers is not None:
            may[~self.data.abstainers[self.annotators], self.data.n_classes :] = False
        tried = (self.annotators[:, None] * n_answers + np.arange(n_answers))[may]
        n, m, (row, cell) = len(items), len(tried), self.labels(items)
        rows = np.concatenate([(row[:, None] * m + np.arange(m)).ravel(), np.arange(n * m)])
        cells = np.concatenate([np.repeat(cell, m), np.tile(tried, n)])
        first, out = self._problem.blocks[0], np.zeros((n, self.data.n_classes, may.size))
        bags = RaggedIndex.of_pairs(rows, cells, n * m, first.bags.n_cells)
        known: dict[str, Any] = {"gold": None, "evidence": None, "features": None}
        known["seen"] = seen_of(self._problem, self.data, np.repeat(items, m))
        known["item_covariates"] = covariates_of(self._problem, self.data, np.repeat(items, m))
        block = replace(first, bags=bags, offset=0, scale=1.0, **known)
        truth, n_draws = str(self._problem.truth), max(map(len, self._draws.values()), default=1)
        with without_validation("cpu"):
            density = self._problem.density()
            for draw in range(n_draws):
                found = density(block, self._cut(draw, np.repeat(items, m)), marginals=(truth,))
                log_p = found.per_item.double().numpy().reshape(n, 1, m)
                joint = found.marginals[truth].double().numpy().reshape(-1, n, m).swapaxes(0, 1)
                joint = joint * np.exp(log_p - log_p.max(-1, keepdims=True))
                out[:, :, may.ravel()] += joint / joint.sum((1, 2), keepdims=True)
        return np.asarray(out.reshape(n, -1, *may.shape))

    def _cut(self, draw: int, items: np.ndarray) -> dict[str, torch.Tensor]:
        """One draw of every site, those of items for the items of the rows."""
        out, at = {}, torch.from_numpy(items)
        for name, x in self._draws.items():
            site = self._problem.sites[name]
            value = x[draw].reshape(site.shape(self.data.n_items))
            out[name] = value.index_select(site.batch_shape.index(-1), at) if site.local else value
        return out


def truth_alone(problem: Problem) -> bool:
    """Whether of an item the truth is all that its labels depend on, found out by running the story."""
    if problem.truth is None:
        raise MethodError(f"{type(problem.model).__name__} sums no truth out, so that labels teach nothing of it")
    model = poutine.enum(problem.program, first_available_dim=-1 - problem.plates)
    with torch.random.fork_rng():  # a prior draw, of which only the structure is used
        found = nodes(poutine.trace(model).get_trace(problem.blocks[0].subset(np.arange(1), 1.0)))
    summed = {name for name, x in found.items() if x["type"] == "sample" and "_enumerate_dim" in x["infer"]}
    labels = [x["fn"] for x in found.values() if isinstance(x.get("fn"), Labels)]
    # Any other state may hold what a network saw of the item, which need not show in this one.
    more = any(fn.state is not found[problem.truth]["value"] for fn in labels if fn.within == "item")
    apart = any(fn.within != "item" for fn in labels)
    seen = bool(networks_of(problem.model)) and any(callable(fn.log_p) for fn in labels)  # features matter, too
    each = any(not isinstance(fn.log_p, torch.Tensor) for fn in labels)
    seen = seen or (each and reads_item_covariates(problem.model, problem.blocks[0]))
    local = any(s.local for s in problem.sites.values())
    return summed == {problem.truth} and not (more or apart or seen or local)


def _values(problem: Problem, posterior: Fit) -> dict[str, torch.Tensor]:
    """Where sites stand, (draws, ...), items in codebook order: draws of a sampler, else the means."""
    stored, n_draws = posterior.result.sites, DRAWS
    if not any(site.family == "draws" for site in stored.values()):
        stored, n_draws = {n: SiteResult(n, s.dims, "point", {"value": s.mean}) for n, s in stored.items()}, 1
    return draws_of(problem, stored, np.arange(posterior.data.n_items), n_draws, problem.options.generator(14))
