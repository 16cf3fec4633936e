"""Cavity distributions: each label predicted from all others, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.covariates import CovariateColumns
from crowdppl.data.ragged import RaggedIndex
from crowdppl.errors import MethodError
from crowdppl.inference.density import FLOOR
from crowdppl.inference.draws import center_of
from crowdppl.inference.passes import Total
from crowdppl.inference.predict.held_out import copies, pieces
from crowdppl.inference.predict.predictive import GivenLabels, label_power
from crowdppl.inference.predict.update import options_of
from crowdppl.inference.problem import Problem, build_problem, model_runs
from crowdppl.inference.result import Fit, SiteResult
from crowdppl.inference.sites import Site
from crowdppl.networks.outputs import networks_of

GRID = 0.1
"""Width of the grid of log-values that identifies the entries of a site."""
SAME_USE = 1e-8
"""Largest difference of log-probabilities that count as equal."""
SMALLEST_COUNT = 1e-10
"""Counts below this are 0: a sum less its only term leaves about so much by rounding."""
SAME = 1e-6
"""Largest difference between an item's probabilities from its labels one by one, and from the model."""
CONVERGED = 1e-3
"""Largest difference between an item's stored probabilities, and those of the model at stored parameters."""
ROUNDS = 3
"""Rounds in which an item's truth and the evidence of its labels are made consistent; more hardly change it."""
PIECE = 2_000_000
"""Entries that are computed together."""
NETWORK = "its network enters each item, and what it learned from a label cannot be removed"


def log_left_out(posterior: Fit, unit: str) -> np.ndarray:
    """log p(label | all others) of every label, or log p(an item's labels | all others') of every item.

    Of points or mean fields: float64 (S,) in the order of ``data.frame()``, or (items with labels,) in codebook
    order. MethodError when the model or the posterior has no closed form.
    """
    with model_runs(posterior.model, posterior.data):
        fit = _evaluate(posterior)
    if unit == "item":
        return _items(fit)
    parts = pieces(np.bincount(fit.item)[fit.item], max(1, PIECE // len(fit.potential)))
    return np.concatenate([_labels(fit, out) for out in parts])


@dataclass(frozen=True)
class ParameterUsage:
    """Which entries of rows of shares multiply to the probability of each label given each truth, or of each truth.

    Attributes:
        constant: (K, U) log of the factor that no site moves.
        entries: for each site (K, U), the entry in the flattened site, -1 where it has no part.
    """

    constant: np.ndarray
    entries: Mapping[str, np.ndarray]

    def at(self, columns: np.ndarray) -> ParameterUsage:
        """The usage of some columns, in their order."""
        return ParameterUsage(self.constant[:, columns], {n: x[:, columns] for n, x in self.entries.items()})

    def beside(self, other: ParameterUsage) -> ParameterUsage:
        """These columns, then those of another."""
        both = {n: np.concatenate([x, other.entries[n]], 1) for n, x in self.entries.items()}
        return ParameterUsage(np.concatenate([self.constant, other.constant], 1), both)

    def log_p(self, leaves: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log-probabilities (K, U) at values of the sites: log theta, in the site's shape."""
        out = self.constant.copy()
        for name, entry in self.entries.items():
            out += np.where(entry >= 0, leaves[name].ravel()[entry], 0.0)
        return out


def parameter_usage(
    problem: Problem,
    cells: np.ndarray,
    values: Mapping[str, Tensor],
    covariates: CovariateColumns | None = None,
) -> ParameterUsage:
    """Finds which entries each label uses; columns are (annotator, answer) pairs that occur, and the truth at last.

    Where labels have covariates, a pair occurs with each of theirs.

    The model is run on an item for each pair, with that one label. When each entry of a site is moved by a step of
    its own, the joint probability of label and truth moves by the step of the entry that it uses. The product of
    the entries found is then compared with the model at random values. MethodError when a label's probability given
    the truth is no product of entries, at most one a site.
    """
    first = problem.blocks[0]
    bags = RaggedIndex.of_pairs(np.arange(len(cells)), cells, len(cells) + 1, first.bags.n_cells)
    probe = first.with_items(bags, label_covariates=covariates)
    stream = np.random.default_rng(0)
    shapes = {s.name: tuple(values[s.name].shape) for s in problem.of_kind("conjugate")}
    base, other = ({n: np.log(stream.uniform(0.2, 0.8, x)) for n, x in shapes.items()} for _ in range(2))
    start = _log_p(problem, probe, values, base)
    entries, valid = {}, True
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        step = GRID * np.arange(1, size + 1).reshape(shape) / size
        moved = (start - _log_p(problem, probe, values, {**base, name: base[name] - step})) * size / GRID
        entry = np.nan_to_num(moved, nan=-1.0).round().astype(np.int64) - 1
        valid = valid and bool(((entry >= -1) & (entry < size)).all())
        entries[name] = entry.clip(-1, size - 1)
    usage = ParameterUsage(start - ParameterUsage(np.zeros_like(start), entries).log_p(base), entries)
    difference = np.abs(usage.log_p(other) - _log_p(problem, probe, values, other))
    if not (valid and bool((difference < SAME_USE).all())):  # NaN is not equal, either
        raise _no_closed_form(problem, "given the truth, its probability is no product of shares")
    return usage


def _no_closed_form(problem: Problem, why: str) -> MethodError:
    """The refusal of a model, and what to do instead."""
    trained = networks_of(problem.model)  # on every label, whatever is drawn
    draws = "" if trained else "method='psis' after a fit by gibbs, nuts or vb, or "
    return MethodError(
        f"{type(problem.model).__name__} has no closed form for a label left out: {why}; use {draws}heldout_score, "
        "which fits again"
    )


def _log_p(
    problem: Problem, probe: Block, values: Mapping[str, Tensor], leaves: Mapping[str, np.ndarray]
) -> np.ndarray:
    """log p(label | truth = k) of each item of the probe but the last, then log p(truth = k): (K, U + 1)."""
    assert problem.truth is not None
    given = {**values, **{n: torch.from_numpy(x) for n, x in leaves.items()}}
    found = problem.density()(probe, given, marginals=(problem.truth,))
    if found.per_item.shape[-1] != probe.n_items:
        raise _no_closed_form(problem, "its truth is not that of items")
    out = (found.marginals[problem.truth].log() + found.per_item).numpy().copy()
    out[:, :-1] -= out[:, -1:]
    return np.asarray(out)


@dataclass(frozen=True)
class CavityStatistics:
    """The sufficient statistics of one site of shares, from which counts of labels can be removed.

    Attributes:
        concentration: (rows, width) prior and counts.
        prior: (rows, width) where the fit is a point, the mode of ``concentration``; None where it is that
            distribution itself.
    """

    concentration: np.ndarray
    prior: np.ndarray | None

    def log_entries(self, entry: np.ndarray, change: np.ndarray, row_change: np.ndarray, mean: bool) -> np.ndarray:
        """Log of some entries when counts of an entry, and of its whole row, change: arrays of one length.

        With ``mean``, the log of the expected entry, which predicts a label; else the expected log, which is the
        evidence of a label on the truth. At a point, the two are the same. MethodError when more is removed than
        there is.
        """
        width = self.concentration.shape[1]
        c = self.concentration if self.prior is None else self.concentration - 1
        left, total = c.ravel()[entry] + change, c.sum(1)[entry // width] + row_change
        if self.prior is not None:
            before = (self.prior / self.prior.sum(1, keepdims=True)).ravel()[entry]
            share = np.where(total > SMALLEST_COUNT, left.clip(0) / total.clip(SMALLEST_COUNT), before)
            return np.asarray(np.log(np.where(share > SMALLEST_COUNT, share, 0).clip(np.exp(FLOOR))))
        if not (left > 0).all():
            raise MethodError(
                "a label counts more than all counts of its kind, so that the fit has not converged; fit again "
                "with a smaller tolerance, more max_iterations and no batch_size"
            )
        if mean:
            return np.asarray(np.log(left / total))
        log_mean = torch.from_numpy(left).digamma() - torch.from_numpy(total).digamma()
        return np.asarray(log_mean.clamp(min=FLOOR))


@dataclass(frozen=True)
class Cavities:
    """Units, such as labels, each of which changes the counts by its own.

    Attributes:
        usage: entries, (K, E).
        unit: the unit of each column, (E,).
        statistics: by site.
    """

    usage: ParameterUsage
    unit: np.ndarray
    statistics: Mapping[str, CavityStatistics]

    def log_p(self, change: np.ndarray, mean: bool) -> np.ndarray:
        """Log-probabilities (K, E) when each unit adds (K, E) to the counts of the entries that it uses."""
        out = self.usage.constant.copy()
        for name, (has, entry, same, same_row) in self._shared.items():
            weight = change[has]
            in_entry, in_row = np.bincount(same, weight)[same], np.bincount(same_row, weight)[same_row]
            out[has] += self.statistics[name].log_entries(entry, in_entry, in_row, mean)
        return out

    @cached_property
    def _shared(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """By site: the places of (K, E) that use it, their entries, and which of them a unit has in common."""
        found = {}
        units = np.broadcast_to(self.unit.astype(np.int64), self.usage.constant.shape)
        for name, entries in self.usage.entries.items():
            has = entries >= 0
            unit, entry, (rows, width) = units[has], entries[has], self.statistics[name].concentration.shape
            same = np.unique(unit * (rows * width) + entry, return_inverse=True)[1]
            same_row = np.unique(unit * rows + entry // width, return_inverse=True)[1]
            found[name] = (has, entry, same, same_row)
        return found


@dataclass(frozen=True)
class _EvaluatedFit:
    """A fit as the closed form needs it.

    Attributes:
        item: of each label, (S,), sorted.
        labels, truth: entries behind each label, (K, S), and behind each item's truth, (K, N).
        potential: (K, N) log-potentials of the truth from gold.
        log_given: (K, S) log p(label | truth) under the fit.
        log_truth: (K, N) log p(truth | labels).
    """

    item: np.ndarray
    labels: ParameterUsage
    truth: ParameterUsage
    statistics: Mapping[str, CavityStatistics]
    potential: np.ndarray
    log_given: np.ndarray
    log_truth: np.ndarray


def _labels(fit: _EvaluatedFit, out: np.ndarray) -> np.ndarray:
    """Log-probability of some labels, each given all others.

    The truth of the label's item without it, and the counts of the item's other labels, depend on each other: they
    are updated in turn.
    """
    item = fit.item[out]
    row, copy = copies(fit.item, item, fit.potential.shape[1])
    mine, n = copy == out[row], len(row)
    usage = fit.labels.at(copy).beside(fit.truth.at(item))
    cavities = Cavities(usage, np.concatenate([row, np.arange(len(out))]), fit.statistics)
    before = np.exp(fit.log_truth[:, item])
    rest = _normalised(fit.log_truth[:, item] - fit.log_given[:, out])
    for _ in range(ROUNDS):
        log_p = cavities.log_p(_change(before, np.exp(rest), row, mine), mean=False)
        others = _sum_by(row, np.where(mine, 0, log_p[:, :n]), len(out))
        rest = _normalised(log_p[:, n:] + fit.potential[:, item] + others)
    log_p = cavities.log_p(_change(before, np.exp(rest), row, mine), mean=True)
    return _log_sum_exp(rest + log_p[:, :n][:, mine])


def _change(before: np.ndarray, after: np.ndarray, row: np.ndarray, mine: np.ndarray) -> np.ndarray:
    """Change of counts when the label is removed and its item's truth is another: of labels, then of the truth."""
    return np.concatenate([after[:, row] * ~mine - before[:, row], after - before], 1)


def _items(fit: _EvaluatedFit) -> np.ndarray:
    """Log-probability of all labels of each item that has some, given those of all others."""
    n = fit.potential.shape[1]
    owner = np.concatenate([fit.item, np.arange(n)])
    cavities = Cavities(fit.labels.beside(fit.truth), owner, fit.statistics)
    log_p = cavities.log_p(-np.exp(fit.log_truth[:, owner]), mean=True)
    return np.asarray(_log_sum_exp(_sum_by(owner, log_p, n) + fit.potential)[np.unique(fit.item)])


def _evaluate(posterior: Fit) -> _EvaluatedFit:
    """Runs the model at the fit; refuses models and posteriors without a closed form."""
    data = posterior.data
    options = options_of(posterior, dtype=torch.float64, device="cpu")
    problem = build_problem(posterior.model, data, options)
    _refuse(problem, posterior)
    given = GivenLabels.of(data)
    item, (cells, covariates, column) = given.item, _kinds_of_labels(problem, given)
    values = center_of(problem, posterior.result.sites, list(problem.sites))
    usage = parameter_usage(problem, cells, values, covariates)
    statistics, marginal, potential = _statistics(problem, posterior, values)
    labels, truth = usage.at(column), usage.at(np.full(data.n_items, len(cells)))
    leaves = {name: values[name].clamp(min=FLOOR).numpy() for name in statistics}
    log_given = labels.log_p(leaves)
    log_truth = _normalised(truth.log_p(leaves) + potential + _sum_by(item, log_given, data.n_items))
    if not (np.abs(np.exp(log_truth).T - marginal) < SAME).all():
        dependent = "labels of an item depend on one another given its truth"
        raise _no_closed_form(problem, NETWORK if networks_of(problem.model) else dependent)
    if not (np.abs(marginal - posterior.result.probabilities) < CONVERGED).all():
        raise MethodError(
            "the probabilities of this posterior do not follow from its labels and parameters alone, as after "
            "update(...); use method='psis', or fit all labels together"
        )
    return _EvaluatedFit(item, labels, truth, statistics, potential, log_given, log_truth)


def _kinds_of_labels(
    problem: Problem, given: GivenLabels
) -> tuple[np.ndarray, CovariateColumns | None, np.ndarray]:
    """Cells that occur, each with different covariates that the model reads, and the kind of each label, (S,)."""
    names = problem.reads.labels
    if given.covariates is None or not names:
        cells, kind = np.unique(given.cell, return_inverse=True)
        return cells, None, kind
    held = [name for name in given.covariates.names if name in names]
    table = np.column_stack([given.cell, given.covariates.chosen(held).numpy()])
    rows, kind = np.unique(table, axis=0, return_inverse=True)
    return rows[:, 0].astype(np.int32), given.covariates.only(held, torch.from_numpy(rows[:, 1:])), kind


def _refuse(problem: Problem, posterior: Fit) -> None:
    """Refuses what can be refused before labels are looked at."""
    if problem.truth is None:
        raise _no_closed_form(problem, "it sums out no truth")
    if getattr(problem.model, "counting", None) is not None:
        raise _no_closed_form(problem, NETWORK)
    if power := label_power(problem):
        raise _no_closed_form(problem, f"it {power.what}")
    if problem.reads.items:
        raise _no_closed_form(problem, "it depends on item_covariates")
    for site in problem.sites.values():
        counted = site.family is None or site.family.counts
        if site.local or site.kind in ("free", "onehot") or not counted:
            raise _no_closed_form(problem, f"site {site.name!r} has no rows of shares that count labels")
    if not all(posterior.result.sites[s.name].independent for s in problem.of_kind("conjugate")):
        raise MethodError(
            f"{posterior.inference} drew the parameters, and the closed form needs distributions or a point; "
            "use method='psis'"
        )


def _statistics(
    problem: Problem, posterior: Fit, values: Mapping[str, Tensor]
) -> tuple[dict[str, CavityStatistics], np.ndarray, np.ndarray]:
    """Statistics of each site, truth probabilities (N, K) at the stored values, and log-potentials (K, N)."""
    assert problem.truth is not None
    names = [s.name for s in problem.of_kind("conjugate")]
    total = problem.full_pass()(values, gradient=names, marginals=(problem.truth,))
    statistics = {n: _of_site(problem.sites[n], posterior.result.sites[n], values[n], total) for n in names}
    order, shape = posterior.data.order, (problem.n_items, problem.blocks[0].n_classes)
    marginal, potential = np.empty(shape), np.zeros(shape)
    marginal[order] = total.marginals[problem.truth].t().numpy()
    for block in problem.blocks:
        if block.potential is not None:
            potential[order[block.offset : block.offset + block.n_items]] = block.potential.numpy()
    return statistics, marginal, potential.T


def _of_site(site: Site, stored: SiteResult, leaf: Tensor, total: Total) -> CavityStatistics:
    """A distribution as it is stored; around a point, the prior and the counts of labels there."""
    if stored.conjugate is not None:
        c = stored.parameter
        return CavityStatistics(c.reshape(-1, c.shape[-1]), None)
    prior = site.conjugate.natural(total.trace_sites[site.name].fn).expand(leaf.shape)
    site.conjugate.require_mode(site.name, prior, total.gradient[site.name])
    width = prior.shape[-1]
    concentration = (prior + total.gradient[site.name]).numpy().reshape(-1, width)
    return CavityStatistics(concentration, prior.numpy().reshape(-1, width))


def _sum_by(owner: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """Sums (K, n) of the columns (K, E) of each owner."""
    return np.stack([np.bincount(owner, row, minlength=n) for row in values])


def _log_sum_exp(x: np.ndarray) -> np.ndarray:
    """Log of the sum of exponentials over the first dimension."""
    top = x.max(0)
    return np.asarray(top + np.log(np.exp(x - top).sum(0)))


def _normalised(x: np.ndarray) -> np.ndarray:
    return np.asarray(x - _log_sum_exp(x))
