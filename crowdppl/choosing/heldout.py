"""How well a method predicts labels that it was not shown: a score that needs no gold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from crowdppl import registry
from crowdppl.data.annotations import Annotations
from crowdppl.data.splitting import item_folds, keep, label_folds
from crowdppl.doors.counts import switch, whole_number
from crowdppl.errors import ConvergenceWarning, CrowdpplWarning, MethodError
from crowdppl.fitting import fit_alone
from crowdppl.inference.asking.leaving_out import left_out
from crowdppl.inference.asking.predictive import refit
from crowdppl.inference.loop import uninterrupted
from crowdppl.inference.options import warn_of_unused
from crowdppl.posterior import Posterior
from crowdppl.results.leave_one_out import standard_error
from crowdppl.settings import named_settings

if TYPE_CHECKING:
    from crowdppl.inference.options import FitOptions
    from crowdppl.stories.story import Story


@dataclass(frozen=True, repr=False)
class HeldoutScore:
    """Log predictive probabilities of labels left out, in nats; higher is better.

    Attributes:
        method, inference: what was scored.
        labels: DataFrame with a row for each label that was left out: row (its place in ``data.frame()``), item,
            annotator, label, fold, and log_p, its log-probability given the labels that were kept. With whole
            items left out, log_p is NaN: an item's labels are then scored together.
        items: DataFrame by item: labels, how many were left out, and log_p, the log-probability of all that were
            left out together, added up over folds.
        left_in: labels that could not be left out, because their item has no other.
        seconds: wall-clock time of all fits and predictions.
    """

    method: str
    inference: str
    labels: pd.DataFrame
    items: pd.DataFrame
    left_in: int
    seconds: float

    @property
    def per_label(self) -> float:
        """Mean over labels of log p(label | the labels that were kept)."""
        return float(self.labels["log_p"].mean())

    @property
    def per_label_se(self) -> float:
        """Standard error of ``per_label``; labels of one item count as one observation."""
        return standard_error(self.labels["log_p"].to_numpy(), pd.factorize(self.labels["item"])[0])

    @property
    def per_item(self) -> float:
        """Mean over items of the log-probability of their labels left out, each fold's taken together."""
        return float(self.items["log_p"].mean())

    @property
    def per_item_se(self) -> float:
        """Standard error of ``per_item``."""
        return standard_error(self.items["log_p"].to_numpy(), np.arange(len(self.items)))

    def __repr__(self) -> str:
        label = f"{self.per_label:.4f} +- {self.per_label_se:.4f} a label"
        item = f"{self.per_item:.4f} +- {self.per_item_se:.4f} an item"
        return f"<HeldoutScore of {self.method} by {self.inference}: {label}, {item}>"


def heldout_score(
    model: str | Story | Posterior,
    data: Annotations | None = None,
    *,
    folds: int = 5,
    inference: str = "auto",
    settings: Mapping[str, Any] | None = None,
    whole_items: bool = False,
    **options: Unpack[FitOptions],
) -> HeldoutScore:
    """How probable a method finds labels that it was not shown, by cross-validation over labels.

    The labels are dealt out into folds. Each fold is left out in turn, the method is fitted again to the rest,
    starting from the fit to all labels, and says how probable the labels left out are, averaged over draws of its
    parameters where the engine has a posterior (a point counts as one draw, and pays for being too sure). A
    label's prediction knows the other labels of its item that were kept.

    Args:
        model: a method's name, a story, or a posterior, whose story, engine, options and data are then used. What a
            method finds in the labels first, such as groups of annotators, is found anew without each fold, but
            kept where a posterior is given.
        data: the annotations; not with a posterior.
        folds: how many; 2 or more.
        inference: as for ``fit``. "auto" shares the ten seconds up to which it takes gibbs among all fits, of which
            there is one more than folds, so that it mostly takes vb. The score's ``inference`` says what it took.
        settings, options: as for ``fit``; its seed also deals out the folds.
        whole_items: leave out all labels of an item together, so that nothing is known of it but the prevalence,
            and its truth where that was given; by default at least one label of each item stays.

    Raises:
        MethodError: for fewer than 2 folds or a part of one, or what ``fit`` refuses.
        DataError: when no item has labels of two annotators.
        KeyboardInterrupt: when Ctrl-C stops one of the fits; there is no score from some of the folds.

    Examples:
        >>> data = crowdppl.anaesthetists()
        >>> score = crowdppl.heldout_score("one_coin", data, folds=3, inference="em", seed=0)
        >>> round(float(score.labels["log_p"].mean()), 2)
        -0.7
    """
    score = score_one_of(1, model, data, folds, inference, settings, whole_items, options)
    warn_of_unused(options, [score.inference])
    return score


def score_one_of(
    methods: int,
    model: str | Story | Posterior,
    data: Annotations | None,
    folds: int,
    inference: str,
    settings: Mapping[str, Any] | None,
    whole_items: bool,
    options: FitOptions,
) -> HeldoutScore:
    """The score of one of several methods whose engines are left to "auto", which share its ten seconds.

    Args:
        methods: how many.
        model, data, folds, inference, settings, whole_items, options: as for ``heldout_score``.
    """
    folds = whole_number("folds", folds, 2, "one is left out, and the others are learned from")
    whole_items = switch("whole_items", whole_items)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fold that did not settle scores as it is
        warnings.simplefilter("ignore", CrowdpplWarning)
        story = unprepared(model, settings)
        whole = _whole_fit(model, data, inference, settings, options, methods * (folds + 1))
        full = whole.data
        fold = (item_folds if whole_items else label_folds)(full, folds, whole.options["seed"])
        rows = full.frame()
        rows["fold"], rows["log_p"] = fold, np.nan
        parts = []
        for number in range(folds):
            out = fold == number
            if not out.any():
                continue
            part = uninterrupted(refit(whole, keep(full, ~out), story, spread=False))
            alone, items, together = left_out(part, full, out, alone=not whole_items)
            if not whole_items:
                rows.loc[out, "log_p"] = alone
            counts = rows.loc[out, "item"].groupby(rows.loc[out, "item"], observed=True).size()
            parts.append(pd.DataFrame({"labels": counts.reindex(full.items[items]), "log_p": together}))
    scored = rows[fold >= 0]
    labels = scored.loc[:, ["item", "annotator", "label", "fold", "log_p"]].rename_axis("row").reset_index()
    items_table = pd.concat(parts).groupby(level="item", sort=False).sum()
    seconds = time.perf_counter() - began
    return HeldoutScore(whole.method, whole.inference, labels, items_table, int((fold < 0).sum()), seconds)


def unprepared(model: str | Story | Posterior, settings: Mapping[str, Any] | None) -> Story | None:
    """The method before anything was found in the labels, so that labels left out have no part in it.

    Raises:
        MethodError: for what has held-out scores already, an unknown name, or settings out of range.
    """
    refuse_corrected(model)
    if isinstance(model, Posterior):
        return None
    given = {} if settings is None else named_settings(settings)
    return registry.method(model, **given) if isinstance(model, str) else model


def refuse_corrected(model: str | Story | Posterior) -> None:
    """Refuses what has held-out scores already.

    Raises:
        MethodError: for "auto" and for corrected posteriors.
    """
    corrected = isinstance(model, Posterior) and model.correction is not None
    if (isinstance(model, str) and model == "auto") or corrected:
        raise MethodError(
            "held-out scores of 'auto' come with its fit, in posterior.correction.scores; for one of its methods "
            "give its name, or posterior.uncorrected()"
        )


def _whole_fit(
    model: str | Story | Posterior,
    data: Annotations | None,
    inference: str,
    settings: Mapping[str, Any] | None,
    options: FitOptions,
    fits: int,
) -> Posterior:
    if isinstance(model, Posterior):
        if data is not None or settings or options or inference != "auto":
            raise MethodError("a posterior brings its data, engine and options along; give it alone")
        return model
    if data is None:
        raise MethodError(f"heldout_score of {model!r} needs data")
    return uninterrupted(fit_alone(model, data, inference, settings, options, fits=fits))
