"""Each label predicted from all others, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.blocks import rows_by_item
from crowdppl.errors import MethodError
from crowdppl.inference.cavities import Cavities, ItemLabels, NoProductError, RowCounts, refuse
from crowdppl.inference.confusions import by_code
from crowdppl.inference.draws import center_of
from crowdppl.inference.predict.held_out import REPEATS, copies, pieces
from crowdppl.inference.predict.update import options_of
from crowdppl.inference.problem import Problem, build_problem, model_runs
from crowdppl.inference.result import Fit
from crowdppl.networks.outputs import networks_of

CONVERGED = 1e-3
"""Largest difference between an item's stored probabilities, and those of the model at stored points."""
ROUNDS = 3
"""Rounds in which an item's truth and the evidence of its labels made at points are made consistent."""
PIECE = 2_000_000
"""Entries that are computed together."""


def log_left_out(posterior: Fit, unit: str) -> np.ndarray:
    """log p(label | all others) of every label, or log p(an item's labels | all others') of every item.

    Of points or distributions by vb: float64 (S,) in the order of ``data.frame()``, or (items with labels,) in
    codebook order. MethodError when the model or the posterior has no closed form.
    """
    data = posterior.data
    with model_runs(posterior.model, data):
        options = options_of(posterior, dtype=torch.float64, device="cpu")
        problem = build_problem(posterior.model, data, options)
        try:
            fit = _evaluated(problem, posterior)
        except NoProductError as reason:
            raise _no_closed_form(problem, reason.why) from reason
    if unit == "item":
        labelled = np.bincount(data.label_codes()[0], minlength=data.n_items) > 0
        return np.asarray(by_code(_items(fit), data.order)[labelled])
    place = rows_by_item(problem.blocks, data.order)[1]
    if not fit.points:
        return np.asarray(_labels(fit)[place])
    item = fit.labels.item.numpy()
    parts = pieces(np.bincount(item)[item], max(1, PIECE // data.n_classes))
    return np.asarray(np.concatenate([_labels_at_points(fit, out) for out in parts])[place])


@dataclass(frozen=True)
class _EvaluatedFit:
    """A fit as the closed form needs it, by position.

    Attributes:
        labels: of all items.
        rows: prior and counts of each site.
        shares: (N, K) p(truth | labels) under the fit.
        log_given: (S, K) log p(label | truth) at points; None for distributions.
    """

    labels: ItemLabels
    rows: Mapping[str, RowCounts]
    shares: Tensor
    log_given: Tensor | None

    @property
    def points(self) -> bool:
        """Whether the fit found points, and not distributions."""
        return self.log_given is not None


def _no_closed_form(problem: Problem, why: str) -> MethodError:
    """The refusal of a model, and what to do instead."""
    trained = networks_of(problem.model)  # on every label, whatever is drawn
    draws = "" if trained else "method='psis' after a fit by gibbs, nuts or vb, or "
    return MethodError(
        f"{type(problem.model).__name__} has no closed form for a label left out: {why}; use {draws}heldout_score, "
        "which fits again"
    )


def _labels(fit: _EvaluatedFit) -> np.ndarray:
    """Log-probability of each label given all others, of distributions.

    Of all labels of an item, by parameters without its counts, one is the last: it is predicted by the truth that
    the others tell.
    """
    labels, last = fit.labels, fit.labels.each(fit.rows, fit.shares)
    rest = (labels.without_own(fit.rows, fit.shares)[labels.item] - last).log_softmax(1)
    return np.asarray((rest + last).logsumexp(1))


def _labels_at_points(fit: _EvaluatedFit, out: np.ndarray) -> np.ndarray:
    """Log-probability of some labels, each given all others, at points.

    The truth of the label's item without it, and the counts of the item's other labels, depend on each other: they
    are updated in turn.
    """
    labels = fit.labels
    assert fit.log_given is not None
    item = labels.item[out]
    row, copy = (torch.from_numpy(x) for x in copies(labels.item.numpy(), item.numpy(), labels.n_items))
    mine = copy == torch.from_numpy(out)[row]
    cavities = Cavities(labels.labels, labels.kind[copy], row)
    before, others = fit.shares[item], (~mine).double().unsqueeze(1)
    potential = 0.0 if labels.potential is None else labels.potential[item]
    rest = (before.log() - fit.log_given[out]).softmax(1)
    for _ in range(ROUNDS):
        log_p = cavities.log_p(fit.rows, rest[row] * others - before[row])
        given = torch.zeros_like(rest).index_add_(0, row, log_p * others)
        rest = (labels.of_truth(fit.rows, rest - before, item) + potential + given).softmax(1)
    log_p = cavities.log_p(fit.rows, rest[row] * others - before[row])[mine]
    return np.asarray((rest.log() + log_p).logsumexp(1))


def _items(fit: _EvaluatedFit) -> np.ndarray:
    """Log-probability of all labels of each item, (N,), given those of all others."""
    return np.asarray(fit.labels.without_own(fit.rows, fit.shares).logsumexp(1))


def _evaluated(problem: Problem, posterior: Fit) -> _EvaluatedFit:
    """Runs the model at the fit; errors for models and posteriors without a closed form."""
    refuse(problem)
    if problem.weighs_repeats:
        raise MethodError(REPEATS)
    if not all(posterior.result.sites[s.name].independent for s in problem.of_kind("conjugate")):
        raise MethodError(
            f"{posterior.inference} drew the parameters, and the closed form needs distributions or a point; "
            "use method='psis'"
        )
    values = center_of(problem, posterior.result.sites, list(problem.sites))
    labels = ItemLabels.of(problem, values)
    assert problem.truth is not None
    names = [s.name for s in problem.of_kind("conjugate")]
    total = problem.full_pass()(values, gradient=names, marginals=(problem.truth,))
    marginal = total.marginals[problem.truth].t()
    labels.check(values, marginal)
    shares = torch.from_numpy(posterior.result.probabilities[posterior.data.order])
    points = all(posterior.result.sites[n].conjugate is None for n in names)
    if posterior.memory is not None or (points and not bool(((marginal - shares).abs() < CONVERGED).all())):
        raise MethodError(
            "the probabilities of this posterior do not follow from its labels and parameters alone, as after "
            "update(...); use method='psis', or fit all labels together"
        )
    if not points:
        stored = {n: torch.from_numpy(posterior.result.sites[n].parameter) for n in names}
        return _EvaluatedFit(labels, {n: RowCounts.of(x) for n, x in stored.items()}, shares, None)
    rows = {}
    for name in names:
        family, counts = problem.sites[name].conjugate, total.gradient[name]
        prior = family.natural(total.trace_sites[name].fn).expand(values[name].shape)
        family.require_mode(name, prior, counts)
        rows[name] = RowCounts.of(prior + counts, prior)
    return _EvaluatedFit(labels, rows, marginal, labels.labels.log_p(values)[labels.kind])
