"""Leave-one-out predictions in closed form: what a label taught is taken out of the parameters again.

For stories in which a label's probability, given the truth, is a product of entries of Dirichlets, such as
``ability[annotator, right] * abstention[annotator, truth, gives a class]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.decoding import row_codes
from crowdppl.errors import MethodError
from crowdppl.inference.asking.refit import options_of
from crowdppl.inference.asking.taught import Cavities, Taught
from crowdppl.inference.climbing.rules import refuse_below_one
from crowdppl.inference.fit_result import SiteResult
from crowdppl.inference.reading.density import FLOOR, Density
from crowdppl.inference.reading.draws import center_of
from crowdppl.inference.reading.families import DIRICHLET
from crowdppl.inference.reading.fold import Fold, Total
from crowdppl.inference.reading.nodes import nodes
from crowdppl.inference.reading.posing import pose
from crowdppl.inference.reading.probing import reads_item_covariates
from crowdppl.inference.reading.problem import Problem, quiet
from crowdppl.inference.reading.uses import Uses, no_form, read_uses
from crowdppl.networks.sight import networks_of

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

SAME = 1e-6
"""Largest difference between an item's probabilities from its labels one by one, and from the story."""
SETTLED = 1e-3
"""Largest difference between an item's probabilities as stored, and as the story has them at stored parameters."""
ROUNDS = 3
"""Rounds in which an item's truth follows what its labels teach; further ones hardly move it."""
PIECE = 2_000_000
"""Entries that are dealt with at once."""
NETWORK = "its network has a say on each item, and what it learned from a label cannot be taken out again"


@dataclass(frozen=True)
class Reading:
    """A fit as the closed form needs it.

    Attributes:
        item: of each label, (S,), sorted.
        labels, truth: entries behind each label, (K, S), and behind each item's truth, (K, N).
        taught: by site.
        known: (K, N) log-potentials of the truth: gold.
        log_given: (K, S) log p(label | truth) as the fit sees its labels.
        log_truth: (K, N) log p(truth | labels).
    """

    item: np.ndarray
    labels: Uses
    truth: Uses
    taught: Mapping[str, Taught]
    known: np.ndarray
    log_given: np.ndarray
    log_truth: np.ndarray


def log_left_out(posterior: Posterior, unit: str) -> np.ndarray:
    """log p(label | all others) of every label, or log p(an item's labels | all others') of every item.

    Args:
        posterior: of points or Dirichlets.
        unit: "label" or "item"; items without labels are left out.

    Returns:
        float64 (S,) in the order of ``data.frame()``, or (items with labels,) in codebook order.

    Raises:
        MethodError: when the story, or what the posterior holds, has no closed form.
    """
    with quiet("cpu"):
        fit = _read(posterior)
    if unit == "item":
        return _items(fit)
    pieces = _pieces(fit.item, max(1, PIECE // len(fit.known)))
    return np.concatenate([_labels(fit, out) for out in pieces])


def _labels(fit: Reading, out: np.ndarray) -> np.ndarray:
    """Log-probability of some labels, each given all others.

    What is known of the label's item without it, and what the item's other labels then teach, wait for each other;
    so they take turns.
    """
    item = fit.item[out]
    row, copy = _copies(fit.item, out)
    mine, n = copy == out[row], len(row)
    uses = fit.labels.at(copy).beside(fit.truth.at(item))
    cavities = Cavities(uses, np.concatenate([row, np.arange(len(out))]), fit.taught)
    before = np.exp(fit.log_truth[:, item])
    rest = _normalised(fit.log_truth[:, item] - fit.log_given[:, out])
    for _ in range(ROUNDS):
        log_p = cavities.log_p(_change(before, np.exp(rest), row, mine), mean=False)
        others = _add_up(np.where(mine, 0, log_p[:, :n]), row, len(out))
        rest = _normalised(log_p[:, n:] + fit.known[:, item] + others)
    log_p = cavities.log_p(_change(before, np.exp(rest), row, mine), mean=True)
    return _log_sum(rest + log_p[:, :n][:, mine])


def _change(before: np.ndarray, after: np.ndarray, row: np.ndarray, mine: np.ndarray) -> np.ndarray:
    """How counts change when the label is gone and its item's truth is another: of labels, then of the truth."""
    return np.concatenate([after[:, row] * ~mine - before[:, row], after - before], 1)


def _items(fit: Reading) -> np.ndarray:
    """Log-probability of all labels of each item that has some, given those of all others."""
    n = fit.known.shape[1]
    owner = np.concatenate([fit.item, np.arange(n)])
    cavities = Cavities(fit.labels.beside(fit.truth), owner, fit.taught)
    log_p = cavities.log_p(-np.exp(fit.log_truth[:, owner]), mean=True)
    return np.asarray(_log_sum(_add_up(log_p, owner, n) + fit.known)[np.unique(fit.item)])


def _read(posterior: Posterior) -> Reading:
    """Runs the story at the fit.

    Raises:
        MethodError: when the story, or what the posterior holds, has no closed form.
    """
    data = posterior.data
    problem = pose(posterior.story, data, replace(options_of(posterior), dtype=torch.float64, device="cpu"))
    _refuse(problem, posterior)
    item, cell = row_codes(data.blocks, data.order)
    cells, column = np.unique(cell, return_inverse=True)
    values = center_of(problem, posterior.result.sites, list(problem.sites))
    uses = read_uses(problem, cells, values)
    taught, marginal, known = _read_fit(problem, posterior, values)
    labels, truth = uses.at(column), uses.at(np.full(data.n_items, len(cells)))
    leaves = {name: values[name].clamp(min=FLOOR).numpy() for name in taught}
    given = labels.log_p(leaves)
    log_truth = _normalised(truth.log_p(leaves) + known + _add_up(given, item, data.n_items))
    _agree(problem, posterior, np.exp(log_truth).T, marginal)
    return Reading(item, labels, truth, taught, known, given, log_truth)


def _refuse(problem: Problem, posterior: Posterior) -> None:
    """Refuses what needs no look at the labels' probabilities.

    Raises:
        MethodError: naming the site or the engine.
    """
    if problem.truth is None:
        raise no_form(problem, "it sums out no truth")
    if getattr(problem.story, "counting", None) is not None:
        raise no_form(problem, NETWORK)
    if reads_item_covariates(problem.story, problem.blocks[0]):
        raise no_form(problem, "it depends on what is known of the item (item_covariates)")
    for site in problem.sites.values():
        if site.local or site.kind in ("free", "onehot"):
            raise no_form(problem, f"site {site.name!r} is no Dirichlet of which labels have counts")
    families = {posterior.result.sites[s.name].family for s in problem.of_kind("conjugate")}
    if not families <= {"point", "dirichlet"}:
        raise MethodError(
            f"{posterior.inference} drew the parameters, and the closed form needs Dirichlets or a point; "
            "use method='psis', which weighs the draws"
        )


def _read_fit(
    problem: Problem, posterior: Posterior, values: Mapping[str, Tensor]
) -> tuple[dict[str, Taught], np.ndarray, np.ndarray]:
    """What labels taught about each site, the truth's probabilities (N, K), and what is known of it (K, N)."""
    assert problem.truth is not None
    names = [s.name for s in problem.of_kind("conjugate")]
    density = Density(problem.model, problem.plates, None, frozenset(names))
    total = Fold(density, problem.blocks, problem.sites)(values, gradient=names, marginals=(problem.truth,))
    taught = {n: _taught(n, posterior.result.sites[n], values[n], total) for n in names}
    order, shape = posterior.data.order, (problem.n_items, problem.blocks[0].n_classes)
    marginal, known = np.empty(shape), np.zeros(shape)
    marginal[order] = total.marginals[problem.truth].t().numpy()
    for block in problem.blocks:
        if block.potential is not None:
            known[order[block.offset : block.offset + block.n_items]] = block.potential.numpy()
    return taught, marginal, known.T


def _taught(name: str, stored: SiteResult, leaf: Tensor, total: Total) -> Taught:
    """A Dirichlet as it is stored; around a point, the prior and the counts that the labels have there."""
    if stored.family == "dirichlet":
        c = stored.arrays["concentration"]
        return Taught(c.reshape(-1, c.shape[-1]), None)
    prior = DIRICHLET.natural(nodes(total.trace)[name]["fn"]).expand(leaf.shape)
    refuse_below_one(name, prior)
    width = prior.shape[-1]
    return Taught((prior + total.gradient[name]).numpy().reshape(-1, width), prior.numpy().reshape(-1, width))


def _agree(problem: Problem, posterior: Posterior, product: np.ndarray, marginal: np.ndarray) -> None:
    """Refuses labels that are not independent given the truth, and results that the story does not give.

    Raises:
        MethodError: saying which, and what to do instead.
    """
    if not (np.abs(product - marginal) < SAME).all():
        crowd = "labels of an item depend on one another given its truth"
        raise no_form(problem, NETWORK if networks_of(problem.story) else crowd)
    if not (np.abs(marginal - posterior.result.probabilities) < SETTLED).all():
        raise MethodError(
            "the probabilities of this posterior do not follow from its labels and parameters alone, as after "
            "update(...); use method='psis', or fit all labels together"
        )


def _pieces(item: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """The labels in runs that have about so many copies of labels of their items; ``item`` is sorted."""
    copies = np.cumsum(np.bincount(item)[item])
    edges = np.unique((copies - 1) // size, return_index=True)[1]
    yield from np.split(np.arange(len(item)), edges[1:])


def _copies(item: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All labels of each asked label's item: the place of the asking one, and the label; ``item`` is sorted."""
    sizes = np.bincount(item)
    first = (np.cumsum(sizes) - sizes)[item[asked]]
    many = sizes[item[asked]]
    row = np.repeat(np.arange(len(asked)), many)
    return row, first[row] + np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)


def _add_up(values: np.ndarray, owner: np.ndarray, n: int) -> np.ndarray:
    """Sums (K, n) of the columns (K, E) of each owner."""
    return np.stack([np.bincount(owner, row, minlength=n) for row in values])


def _log_sum(x: np.ndarray) -> np.ndarray:
    """Log of the sum of exponentials over the first dimension."""
    top = x.max(0)
    return np.asarray(top + np.log(np.exp(x - top).sum(0)))


def _normalised(x: np.ndarray) -> np.ndarray:
    return np.asarray(x - _log_sum(x))
