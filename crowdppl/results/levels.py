"""A posterior at a level of the tree of its classes: sums over the classes below."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.data.annotations import Annotations
from crowdppl.data.levels import coarser
from crowdppl.errors import MethodError
from crowdppl.inference.result import (
    ClassProbabilities,
    Correction,
    Fit,
    FitResult,
    OnDemand,
    TableDraws,
    Tables,
    TruthSpread,
    require_classes,
)
from crowdppl.results.mapped_tables import as_shown


class WithoutModel:
    """In place of a model, where probabilities are computed from those of others: it says nothing of new labels."""

    def refusal(self) -> MethodError:
        """The error of what needs a model."""
        raise NotImplementedError

    def model(self, data: Any) -> None:
        """Refuses."""
        raise self.refusal()


@dataclass(frozen=True)
class AtLevel(WithoutModel):
    """Of sums of probabilities of a finer model."""

    level: int = 1

    def refusal(self) -> MethodError:
        """The error of what needs a model."""
        return no_model(self.level)


def no_model(level: int) -> MethodError:
    """The error of what needs the model of the classes at a level, which are sums of others."""
    return MethodError(
        f"a posterior at level {level} has sums of probabilities of finer classes, and no model there: ask "
        f"the posterior that at_level({level}) was called on, or fit to data.at_level({level})"
    )


def require_own_model(fit: Fit) -> None:
    """Refuses a posterior at a level or by thresholds, which has no sites of its own."""
    if isinstance(fit.model, WithoutModel):
        raise fit.model.refusal()


def of_finer(doubt: Doubt, level: int) -> Doubt:
    """A doubt of a fit as that of its posterior at a level: it and its remedies are about the finer one."""
    names = {"posterior": "finer", "data": "finer.data"}
    remedies = tuple(re.sub(r"\b(posterior|data)\b", lambda at: names[at[0]], call) for call in doubt.remedies)
    text = doubt.text.replace("posterior.", "finer.")
    said = f"of the posterior that at_level({level}) was called on, here finer: {text}"
    return replace(doubt, text=said, remedies=remedies)


def at_level(posterior: Fit, level: int) -> Fit:
    """What a posterior says at a level of a tree, where classes are paths such as "animal/dog".

    The probability of "animal" is the sum of those of all classes below it, in each draw, too; an annotator's
    confusion is the mean over classes below a truth, by their prevalence. Tables of items and annotators, decisions
    (with utilities by the classes of the level), label sets, evaluation (with known truths of that level or below)
    and pictures are then of that level. What needs a model of labels (``predict``, ``update``, ``draw_labels``,
    ``suggest_labels``, ``ask_again``, ``leave_one_out``, ``site``, ``save``) is refused, and so are ``entropy`` and
    the sd of probabilities, which sums do not tell.

    A fit to ``data.at_level(1)`` is another: it does not know which classes below are confused, needs fewer labels,
    and takes labels that say "animal" alone (``Annotations.at_level``).

    Args:
        level: from 1, the root's children; a path that ends above a level stays as it is.

    Returns:
        The posterior at that level.

    Raises:
        DataError: where classes are no paths, one holds others, all are one at that level, or there is none.
        MethodError: where truths are numbers.

    Examples:
        >>> paths = {1: "calm/well", 2: "calm/tired", 3: "ill/weak", 4: "ill/severe"}
        >>> rows = crowdppl.anaesthetists().frame().drop_duplicates(["item", "annotator"])
        >>> data = crowdppl.Annotations.from_frame(rows.assign(label=rows["label"].map(paths)))
        >>> posterior = crowdppl.fit("one_coin", data, inference="vb", seed=0)
        >>> posterior.labels().loc[[3, 4], ["label", "probability"]].round(2)
                   label  probability
        item
        3     calm/tired         0.83
        4     calm/tired         0.58
        >>> posterior.at_level(1).labels().loc[[3, 4], ["label", "probability"]].round(2)
             label  probability
        item
        3     calm         1.00
        4     calm         0.98
    """
    require_classes(posterior, "at_level()")
    return _summed(posterior, posterior.data.at_level(level))


def _summed(fit: Fit, data: Annotations) -> Fit:
    """A fit whose probabilities are sums over classes that are one class of ``data``."""
    fit = as_shown(fit)
    code, level = coarser(fit.data.alphabet, data.alphabet.level)[1], data.alphabet.level
    of_class, of_answer = code[: fit.data.n_classes], np.eye(data.n_answers)[code]
    up, found = np.eye(data.n_classes)[of_class], fit.result
    varies = isinstance(found.truth, ClassProbabilities) and found.truth.spread is not None
    draws = None if found.draws is None else OnDemand(lambda: _drawn(found, up, of_answer))

    def spread() -> TruthSpread:
        raise no_model(level)

    result = FitResult(
        sites={},
        truth=ClassProbabilities(found.probabilities @ up, OnDemand(spread) if varies else None),
        tables=OnDemand(lambda: _mean(found, up, of_answer, draws)),
        diagnostics=found.diagnostics,
        draws=draws,
    )
    correction = None if fit.correction is None else _correction(fit.correction, up, data)
    return Fit(
        AtLevel(level),
        f"{fit.method} at level {level}",
        fit.inference,
        data,
        result,
        options=fit.options,
        correction=correction,
        memory=fit.memory,
    )


def _correction(correction: Correction, up: np.ndarray, data: Annotations) -> Correction:
    """A correction whose probabilities are sums, too."""
    others = {name: _summed(other, data) for name, other in correction.others.items()}
    shares = None if correction.shares is None else correction.shares @ up
    return replace(correction, raw=correction.raw @ up, truth_map=None, shares=shares, others=others)


def _rows(table: np.ndarray, prevalence: np.ndarray, up: np.ndarray, of_answer: np.ndarray) -> np.ndarray:
    """Tables (..., A, K, L) summed over answers, and averaged over classes by their prevalence (..., K)."""
    all_below = prevalence @ up @ up.T
    # Of classes that never are, each counts the same.
    share = np.where(all_below > 0, prevalence / np.maximum(all_below, 1e-300), 1 / (up.sum(0) @ up.T))
    return np.asarray(np.einsum("...k,kj,...akl,lm->...ajm", share, up, table, of_answer, optimize=True))


def _drawn(result: FitResult, up: np.ndarray, of_answer: np.ndarray) -> TableDraws:
    """Draws of tables and of the prevalence."""
    tables, prevalence = result.table_draws, result.prevalence_draws
    assert tables is not None and prevalence is not None
    return TableDraws(_rows(tables, prevalence, up, of_answer).astype(np.float32), prevalence @ up)


def _mean(result: FitResult, up: np.ndarray, of_answer: np.ndarray, draws: OnDemand[TableDraws] | None) -> Tables:
    """Means: over draws, where several classes make up a truth and there are any."""
    mean = _rows(np.asarray(result.table), result.prevalence, up, of_answer)
    if draws is not None:
        several = up.sum(0) > 1
        mean[:, several] = np.asarray(draws().tables, np.float64).mean(0)[:, several]
    return Tables(mean, result.prevalence @ up)
