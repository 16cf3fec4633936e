"""Held-out scores of methods: how well they predict labels left out of the fit. No gold is needed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch

from crowdppl import registry
from crowdppl.baselines import METHODS
from crowdppl.core.validation import kind_of, shown, switch, whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.coded import require_labels
from crowdppl.data.split import item_folds, keep, label_folds, whole_units
from crowdppl.errors import CrowdpplWarning, DataError, MethodError, NoProbabilitiesError, NumericalError
from crowdppl.evaluation.metrics import label_shares
from crowdppl.inference.checkpoint import TrialCache
from crowdppl.inference.engines import used_by, warn_of_unused
from crowdppl.inference.fit import fit_one
from crowdppl.inference.options import FitOptions, Options, options_from
from crowdppl.inference.predict.held_out import left_out
from crowdppl.inference.predict.predictive import refit
from crowdppl.inference.result import ClassProbabilities, Fit, uninterrupted
from crowdppl.networks.classifier import learns
from crowdppl.networks.outputs import networks_of
from crowdppl.networks.training import VOLUMES
from crowdppl.primitives.model import Model
from crowdppl.results.leave_one_out import standard_error
from crowdppl.results.updating import classify

ANNOTATOR_MODEL = "bayesian_dawid_skene"
"""The method that scores the labels for every classifier."""


class ItemScores:
    """Scores whose table ``items`` has the log-probability ``log_p`` of each item's labels left out.

    Items of one ``unit``, a sequence or a set, count as one observation.
    """

    items: pd.DataFrame

    @property
    def per_item(self) -> float:
        """Mean over items of ``log_p``."""
        return float(self.items["log_p"].mean())

    @property
    def per_item_se(self) -> float:
        """Standard error of ``per_item``."""
        return standard_error(self.items["log_p"].to_numpy(), self.items["unit"].to_numpy())


@dataclass(frozen=True, repr=False)
class ClassifierScore(ItemScores):
    """Log predictive probabilities of all labels of items left out, in nats; higher is better.

    Attributes:
        method, inference: what was scored.
        items: DataFrame by item, for items with labels: labels, how many; fold; log_p, the log-probability of its
            labels together, given the item's features and the other items; unit, a code of the item or, of
            sequences and sets, of that whole.
        probabilities: DataFrame by item, a column a class: the classifier's, trained without the item's labels.
        seconds: wall-clock time of all fits and predictions.
    """

    method: str
    inference: str
    items: pd.DataFrame
    probabilities: pd.DataFrame
    seconds: float

    def ahead_of(self, other: ClassifierScore) -> tuple[float, float]:
        """Mean difference from another score of the same items, and its standard error; else a DataError."""
        if not isinstance(other, ClassifierScore):
            raise DataError(f"other is {kind_of(other)}; give what classifier_score returned")
        if not self.items["labels"].equals(other.items["labels"]):
            raise DataError(
                f"{self.method} and {other.method} were scored on different items; give both the same data"
            )
        one, rest = (score.items["log_p"].to_numpy() for score in (self, other))
        return mean_difference(one, rest, self.items["unit"].to_numpy())

    def __repr__(self) -> str:
        number = f"{self.per_item:.4f} +- {self.per_item_se:.4f} an item"
        return f"<ClassifierScore of {self.method} by {self.inference}: {number}>"


def mean_difference(one: np.ndarray, other: np.ndarray, unit: np.ndarray) -> tuple[float, float]:
    """How far numbers of items, (N,) each, are ahead of others on average, and its standard error by units (N,)."""
    gap = one - other
    return float(gap.mean()), standard_error(gap, unit)


def classifier_score(
    model: str | Model,
    data: Annotations,
    *,
    folds: int = 5,
    inference: str = "auto",
    settings: Mapping[str, Any] | None = None,
    **options: Unpack[FitOptions],
) -> ClassifierScore:
    """Scores a method's classifier by the labels of items left out.

    Each fold's labels (and known truths) are left out in turn, the method is fitted to the rest, and its classifier
    predicts the items left out from their features. Then Bayesian Dawid-Skene, with these predictions in place of
    the prevalence and annotators learned from the other folds, gives the probability of the labels left out. It is
    the same for every method, so that scores compare classifiers alone.

    Args:
        model: a method's name, or a model, with a classifier.
        data: the annotations, with features.
        folds: how many; 2 or more.
        inference, settings, options: as for ``fit``; its seed also deals out the folds.

    Raises:
        MethodError: for fewer than 2 folds, a method without a classifier, or what ``fit`` refuses.
        DataError: when data have no features, or fewer items with labels than folds.

    Examples:
        >>> data = crowdppl.digits(seed=0).data
        >>> short = {"training": {"epochs": 5}}
        >>> score = crowdppl.classifier_score("raykar", data, folds=2, inference="em", settings=short)
        >>> round(score.per_item)
        -5
    """
    folds = whole_number("folds", folds, 2, "5 are usual")
    if require_annotations(data).features is None:
        raise DataError("data have no features for a classifier; give features=")
    began = time.perf_counter()
    seed, asked = options_from(options).seed, registry.resolve(model, settings)
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        # a fold that did not settle scores as it is
        item = data.label_codes()[0]
        fold = item_folds(data, folds, seed)
        if len(np.unique(fold)) < folds:
            raise DataError(f"folds={folds} are too many for {len(np.unique(item))} items with labels; give fewer")
        shares = np.full((data.n_items, data.n_classes), 1 / data.n_classes)
        for number in range(folds):
            hidden = np.unique(item[fold == number])
            known, name = _without(data, hidden), registry.name_of(asked)
            part = uninterrupted(fit_one(asked, known, inference, options, name=name, select_volume=select_volume))
            shares[hidden] = classify(part, data.features).reindex(data.items).to_numpy()[hidden]
        judged = _judged(data, shares, fold, folds, seed)
    warn_of_unused(options, [part.inference])
    labelled, first, count = np.unique(item, return_index=True, return_counts=True)
    table = {"labels": count, "fold": fold[first], "log_p": judged[labelled], "unit": whole_units(data)[labelled]}
    items = pd.DataFrame(table, index=data.item_index[labelled])
    probabilities = pd.DataFrame(shares[labelled], index=items.index, columns=data.classes)
    return ClassifierScore(part.method, part.inference, items, probabilities, time.perf_counter() - began)


def _without(data: Annotations, hidden: np.ndarray) -> Annotations:
    """Without the labels and known truths of some items."""
    part, gold = keep(data, ~np.isin(data.label_codes()[0], hidden)), data.gold
    if gold is None:
        return part
    known = gold.drop(data.items[hidden], errors="ignore")
    return part.with_gold(known if len(known) else None)


def _judged(data: Annotations, shares: np.ndarray, fold: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Log-probability of each item's labels, (N,), by annotators that were learned from the other folds."""
    log = np.log(np.clip(shares, 1e-12, None))
    item, annotator, answer = data.label_codes()
    plain = data.with_gold(None)
    model = registry.method(ANNOTATOR_MODEL, prevalence="uniform")
    options, of_labels = options_from({"seed": seed}), np.zeros_like(log)
    for number in range(folds):
        known, out = keep(plain, fold != number), fold == number
        evidence = torch.from_numpy(log[known.order])
        result = fit_one(model, known, "vb", options, name=ANNOTATOR_MODEL, evidence=evidence).result
        if result.diagnostics["interrupted"]:
            raise KeyboardInterrupt
        np.add.at(of_labels, item[out], np.log(result.confusions[annotator[out], :, answer[out]]))
    return np.asarray(np.logaddexp.reduce(log + of_labels, axis=1))


LEAST_WEIGHT = 0.01
"""Of a method in an average; lighter ones are left out."""


def stacking_weights(logs: np.ndarray) -> np.ndarray:
    """Weights (M,) of the mixture that makes observations, (n, M) log-probabilities, most probable: concave."""
    from scipy.optimize import minimize  # slow to import

    p = np.exp(np.maximum(logs - logs.max(1, keepdims=True), -600.0))
    even = np.full(p.shape[1], 1 / p.shape[1])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        mixture = p @ weights
        return -float(np.log(mixture).mean()), -(p / mixture[:, None]).mean(0)

    adds_up = {"type": "eq", "fun": lambda weights: weights.sum() - 1, "jac": np.ones_like}
    how: dict[str, Any] = {"method": "SLSQP", "options": {"ftol": 1e-15, "maxiter": 1000}}
    found = minimize(loss, even, jac=True, bounds=[(0, 1)] * len(even), constraints=adds_up, **how)
    weights = np.clip(found.x, 0, 1)
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, repr=False)
class HeldoutScore(ItemScores):
    """Log predictive probabilities of labels left out, in nats; higher is better.

    Attributes:
        method, inference: what was scored.
        labels: DataFrame with a row for each label that was left out: row (its place in ``data.frame()``), item, or
            the two columns that name it, annotator, label, fold, log_p, its log-probability given the labels that
            were kept, agrees, how far it is the label of the item by the labels that were kept (of m classes that
            tie, 1/m), and unit, a code of the item or, of sequences and sets, of that whole. With whole items left
            out, log_p is NaN: an item's labels are then scored together. Baselines have no log_p.
        items: DataFrame by item: labels, how many were left out; log_p, the log-probability of all that were left
            out together, added up over folds; unit.
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
    def is_baseline(self) -> bool:
        """Whether the method has no probabilities."""
        return not self.inference

    @property
    def agreement(self) -> float:
        """Share of labels left out that are the label of their item, inferred from the labels that were kept."""
        return float(self.labels["agrees"].mean())

    @property
    def per_label_se(self) -> float:
        """Standard error of ``per_label``; labels of one item, sequence or set count as one observation."""
        return standard_error(self.labels["log_p"].to_numpy(), self.labels["unit"].to_numpy())

    def __repr__(self) -> str:
        label = f"{self.per_label:.4f} +- {self.per_label_se:.4f} a label"
        item = f"{self.per_item:.4f} +- {self.per_item_se:.4f} an item"
        return f"<HeldoutScore of {self.method} by {self.inference}: {label}, {item}>"


def heldout_score(
    model: str | Model | Fit,
    data: Annotations | None = None,
    *,
    folds: int = 5,
    inference: str = "auto",
    settings: Mapping[str, Any] | None = None,
    whole_items: bool = False,
    **options: Unpack[FitOptions],
) -> HeldoutScore:
    """Log predictive probabilities of labels left out, by cross-validation over labels.

    Each fold of labels is left out in turn, the method is fitted again to the rest, starting from the fit to all
    labels, and predicts the labels left out, averaged over draws of its parameters where the engine has draws. A
    label's prediction is conditioned on the other labels of its item that were kept.

    Args:
        model: a method's name, a model, or a posterior, whose model, engine, options and data are then used.
            Settings that a method finds in the labels, such as groups of annotators, are found anew without each
            fold, but kept where a posterior is given.
        data: the annotations; not with a posterior.
        folds: how many; 2 or more.
        inference: as for ``fit``. "auto" shares the ten seconds up to which it takes gibbs among all fits, so that
            it mostly takes vb. The score's ``inference`` says what it took.
        settings, options: as for ``fit``; its seed also deals out the folds.
        whole_items: leave out all labels of an item together, so that only the prevalence, and a known truth,
            predict them; by default at least one label of each item stays.

    Raises:
        MethodError: for fewer than 2 folds, or what ``fit`` refuses.
        DataError: when no item has labels of two annotators.

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
    model: str | Model | Fit,
    data: Annotations | None,
    folds: int,
    inference: str,
    settings: Mapping[str, Any] | None,
    whole_items: bool,
    options: FitOptions,
) -> HeldoutScore:
    """``heldout_score`` of one of so many methods whose engines are left to "auto", which share its ten seconds."""
    folds = whole_number("folds", folds, 2, "5 are usual")
    whole_items = switch("whole_items", whole_items)
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        # a fold that did not settle scores as it is
        raw = unprepared(model, settings)
        whole = _whole_fit(model, data, inference, settings, options, methods * (folds + 1))
        full = whole.data
        fold = (item_folds if whole_items else label_folds)(full, folds, whole.options["seed"])
        rows = full.frame()
        rows["fold"], rows["unit"], rows["log_p"] = fold, whole_units(full)[full.label_codes()[0]], np.nan
        rows["agrees"], parts = np.nan, []
        for number in range(folds):
            out = fold == number
            if not out.any():
                continue
            part = uninterrupted(refit(whole, keep(full, ~out), raw, select_volume=select_volume))
            alone, items, together = left_out(part, full, out, alone=not whole_items)
            if not whole_items:
                rows.loc[out, "log_p"] = alone
            if isinstance(part.result.truth, ClassProbabilities):
                rows.loc[out, "agrees"] = agreeing(label_shares(part.result.probabilities), full, out)
            counts = rows.loc[out, "item"].groupby(rows.loc[out, "item"], observed=True).size()
            parts.append(pd.DataFrame({"labels": counts.reindex(full.items[items]), "log_p": together}))
    row = np.flatnonzero(fold >= 0)
    labels = pd.DataFrame({"row": row, **full.item_columns(full.label_codes()[0][row])})
    labels = labels.join(
        rows.loc[row, ["annotator", "label", "fold", "log_p", "agrees", "unit"]].reset_index(drop=True)
    )
    items_table = pd.concat(parts).groupby(level="item", sort=False).sum()
    code = full.item_book.codes(items_table.index)
    items_table = items_table.set_axis(full.item_index[code]).assign(unit=whole_units(full)[code])
    seconds = time.perf_counter() - began
    return HeldoutScore(whole.method, whole.inference, labels, items_table, int((fold < 0).sum()), seconds)


def agreeing(shares: np.ndarray, data: Annotations, out: np.ndarray) -> np.ndarray:
    """How far labels left out, bool (S,), are those of their items, (N, K) with shares of ties; NaN if no class."""
    item, _, answer = (codes[out] for codes in data.label_codes())
    named = answer < data.n_classes
    return np.where(named, shares[item, np.where(named, answer, 0)], np.nan)


def score_baseline(name: str, data: Annotations, folds: int, seed: int) -> HeldoutScore:
    """The labels left out, as of ``heldout_score``, with the agreement of a baseline; log_p is NaN."""
    folds, began = whole_number("folds", folds, 2, "5 are usual"), time.perf_counter()
    method, fold = METHODS[name], label_folds(data, folds, seed)
    agrees = np.full(len(fold), np.nan)
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        for number in range(folds):
            if (out := fold == number).any():
                found = method(keep(data, ~out))
                if found.of_numbers:
                    raise NoProbabilitiesError(
                        f"{name} has no probabilities of numbers left out; score it by evaluate(found, gold)"
                    )
                agrees[out] = agreeing(found.shares, data, out)
    row = np.flatnonzero(fold >= 0)
    item = data.label_codes()[0]
    table = data.frame().loc[row, ["annotator", "label"]].reset_index(drop=True)
    first = pd.DataFrame({"row": row, **data.item_columns(item[row])})
    more = {"fold": fold[row], "log_p": np.nan, "agrees": agrees[row], "unit": whole_units(data)[item[row]]}
    code, count = np.unique(item[row], return_counts=True)
    of_items = {"labels": count, "log_p": np.nan, "unit": whole_units(data)[code]}
    items = pd.DataFrame(of_items, index=data.item_index[code])
    seconds = time.perf_counter() - began
    return HeldoutScore(name, "", first.join(table).assign(**more), items, int((fold < 0).sum()), seconds)


def unprepared(model: str | Model | Fit, settings: Mapping[str, Any] | None) -> Model | None:
    """The method before anything was found in the labels; a MethodError for what has held-out scores already."""
    corrected = isinstance(model, Fit) and model.correction is not None
    if (isinstance(model, str) and model == "auto") or corrected:
        raise MethodError(
            "held-out scores of 'auto' come with its fit, in posterior.correction.scores, or of numbers and "
            "rankings in posterior.diagnostics()['scores']; for one of its methods give its name, or "
            "posterior.uncorrected()"
        )
    return None if isinstance(model, Fit) else registry.resolve(model, settings)


def _whole_fit(
    model: str | Model | Fit,
    data: Annotations | None,
    inference: str,
    settings: Mapping[str, Any] | None,
    options: FitOptions,
    fits: int,
) -> Fit:
    if isinstance(model, Fit):
        if data is not None or settings or options or inference != "auto":
            raise MethodError("a posterior brings its data, engine and options along; give it alone")
        model.data.require_whole("a held-out score")
        return model
    if data is None:
        raise MethodError(f"heldout_score of {shown(model)} needs data")
    require_labels(require_annotations(data).blocks)
    asked = registry.resolve(model, settings)
    how: Any = {"name": registry.name_of(asked), "fits": fits, "select_volume": select_volume}
    return uninterrupted(fit_one(asked, data, inference, options, **how))


MIN_ITEMS, MAX_ITEMS = 300, 10_000
"""Items with labels: with fewer, no difference would show; of more, so many are used."""


def select_volume(
    asked: Model,
    ready: Model,
    data: Annotations,
    inference: str,
    options: Options,
    kept: TrialCache | None = None,
) -> tuple[float, dict[str, float]]:
    """The volume with which a model's network is to be trained on these data, found without gold, and all scores.

    Volumes are scored by labels of items left out (``classifier_score``), and the next larger one is tried as long
    as the last was ahead by more than a standard error. Volume makes the truth identifiable where a network would
    rather learn the errors that an item's annotators share (Ibrahim, Nguyen & Fu 2023), but too much of it
    separates classes that look alike. The model is ``asked`` before ``setup`` and ``ready`` after it; scores, mean
    log-probabilities of an item's labels, are empty where labels are too few or no network learns. MethodError for
    a model that is no dataclass.
    """
    if not is_dataclass(asked):
        raise MethodError(
            f"training: volume='auto' fits copies of the model, and {type(asked).__name__} is no dataclass; give a "
            f"number, such as {VOLUMES[0]}"
        )
    item = data.label_codes()[0]
    labelled = np.unique(item)
    if len(labelled) < MIN_ITEMS or not any(map(learns, networks_of(ready).values())):
        return VOLUMES[0], {}
    if len(labelled) > MAX_ITEMS:
        some = np.random.default_rng(options.seed).choice(labelled, MAX_ITEMS, replace=False)
        data = keep(data, np.isin(item, some))
    taken, best = VOLUMES[0], _volume_scores(asked, data, inference, options, VOLUMES[0], kept)
    found = {str(taken): float(best[0].mean())}
    for volume in VOLUMES[1:]:
        try:
            tried = _volume_scores(asked, data, inference, options, volume, kept)
        except NumericalError:
            break
        found[str(volume)] = float(tried[0].mean())
        gain, error = mean_difference(tried[0], *best)
        if gain <= error:  # of one standard error
            break
        taken, best = volume, tried
    return taken, found


def _volume_scores(
    model: Model, data: Annotations, inference: str, options: Options, volume: float, kept: TrialCache | None
) -> np.ndarray:
    """log_p of each item's labels left out, by a network trained with this volume, and the item's unit, (2, n)."""
    name, before = f"volume {volume}", {} if kept is None else kept.found()
    if name in before:
        return np.asarray(before[name])
    build: Any = replace
    training = {**getattr(model, "training", {}), "volume": volume, "patience": 0}
    trial = build(model, training=training)
    given: Any = used_by(inference, options.kept())
    score = classifier_score(trial, data, folds=3, inference=inference, **given)
    found = score.items[["log_p", "unit"]].to_numpy(np.float64).T
    if kept is not None:
        kept.add(name, torch.from_numpy(found.copy()))
    return found
