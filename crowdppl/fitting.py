"""``fit``: a method and annotations in, a posterior out; and the method "auto"."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch

from crowdppl import registry
from crowdppl.core.collective import n_processes, together
from crowdppl.core.validation import shown, switch, warn
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.coded import require_labels
from crowdppl.data.ids import is_iterable
from crowdppl.data.kinds.classes import Classes
from crowdppl.errors import ConvergenceWarning, DataError, DoubtWarning, MethodError
from crowdppl.evaluation.calibration import AUTO_NOTE, FOLDS, calibrated, with_notes
from crowdppl.evaluation.heldout import heldout_score, select_volume
from crowdppl.evaluation.trusted import FOLDS as FOLDS_OF_TRUTHS
from crowdppl.evaluation.trusted import fit_trusted
from crowdppl.inference.engines import warn_of_unused
from crowdppl.inference.fit import fit_one
from crowdppl.inference.options import FitOptions
from crowdppl.inference.result import Correction, Fit, require_classes, uninterrupted
from crowdppl.networks.outputs import warn_of_no_features
from crowdppl.posterior import Posterior
from crowdppl.primitives.mixtures import chosen_annotators
from crowdppl.primitives.model import Model, card_of
from crowdppl.results.correction import fit_member, too_sparse
from crowdppl.results.thresholds import joined

ROWS = ("hierarchical_mixed_membership", "hierarchical_dawid_skene")
"""Members of auto with confusion rows: the first allows items between classes, whose labels err together; the
second takes labels for independent given the truth."""
COIN = ("one_coin",)
"""Member of auto with one parameter an annotator, for crowds with too few labels for rows."""
CLASSES, LABELS = 20, 5
"""With more classes, methods with rows take part only if there are so many labels a row on average."""
TOLERANCE, STEPS = 1e-5, 300
FOLDS_OF_PAIRS = 3
FEATURES = f"{AUTO_NOTE}features are not used; a method with a network, such as bayes_dgc, learns from them"
JUDGES = "judge_panel"
PANEL = {JUDGES: 0.6, "bayesian_dawid_skene": 0.4}
"""Members of auto for models, and their weights; from .3 to .5 for Dawid-Skene, it hardly matters."""
PANELS = ("nominal", "ordinal")
"""Kinds of labels that panels of models give."""
FEW = 12
"""Annotators up to whom they may be a panel of models."""
PANEL_NOTE = (
    AUTO_NOTE
    + "how far models err together is taken from other panels, for labels do not tell; gold= of 50 items does"
)
ASKS = AUTO_NOTE + (
    "the {n} annotators are taken for people; if they are models, say so (models=True), for models err together"
)
NO_ROWS = AUTO_NOTE + (
    "methods with confusion rows are left out: {labels:,} labels are too few for {classes} classes and "
    "{annotators} annotators (five for each annotator and class)"
)


@together()
def fit(
    method: str | Model,
    data: Annotations,
    *,
    inference: str = "auto",
    settings: Mapping[str, Any] | None = None,
    gold: Any = None,
    start: Mapping[str, torch.Tensor] | None = None,
    calibrate: bool = False,
    trusted: Iterable[Any] | None = None,
    models: Iterable[Any] | bool | None = None,
    **options: Unpack[FitOptions],
) -> Posterior:
    """Infers the truth of every item, and how good every annotator is, from their labels.

    Args:
        method: a name from ``crowdppl.zoo()``, or an object of your own with ``model(data)``. "auto" averages
            several methods by how well they predict held-out labels, and corrects overconfident probabilities. Of
            numbers and comparisons it takes the method, and of rankings the end from which people rank, that
            predicts held-out labels, all answers to a pair, or whole rankings best; of grades with a label
            covariate "criterion", ``rater_facets`` or the mean of grades. ``summary()`` and
            ``diagnostics()["scores"]`` have what was tried.
        data: the annotations. Where ``torch.distributed`` has a process group, each process gives its share of them
            (``Annotations.open`` of parts), all call ``fit`` alike, and find what one process would find of all
            items. Each tells of its own items; intervals by vb are computed when all ask for them. Methods with
            sites of single items, networks, covariates or links between items, and "auto", are refused.
        inference: "em", "vb", "gibbs", "nuts", "laplace", "pathfinder", "svi", or "auto": gibbs where it is exact
            and should take less than about ten seconds, else vb; where its chains disagree, they run longer, and
            then give way to vb, unless chains, draws or warmup are given. "pathfinder" raises importance
            weights, where their Pareto k is above .7, to the power .7 / k, and warns of it.
        settings: of a method given by name, such as ``{"prevalence": "uniform"}``.
        gold: known truths (classes or numbers) by item id, a series or mapping. They replace the gold of ``data``.
            Where probabilities are corrected, ten or more do not enter fits, but a map from these and annotators'
            votes to truths, which moves probabilities, accuracies of annotators and their intervals alike.
        start: values of sites to start from, by site name.
        calibrate: whether to correct overconfident probabilities by held-out labels and gold, which takes one to
            five further fits; "auto" always does. ``posterior.uncorrected()`` has the method's own probabilities.
        trusted: ids of annotators whose classes are known truths, as gold is, against others who collude. Five to
            seven further fits tell whether all items show how good the others are, or better those of known truth
            alone; rows of confusions are then held at what these show, and their intervals tell no more.
            ``diagnostics()["scores"]`` has the mean log-probabilities of known truths left out by which this is
            chosen. For methods that take ``history``.
        models: ids of annotators that are models, such as language models asked to judge; True for all. "auto" then
            takes ``judge_panel``, for models err together, which labels alone do not show. Others are people.
        options: of the engine, see ``crowdppl.inference.options.Options``. The commonest: seed (0), device ("cpu",
            "cuda", "auto"), tolerance and max_iterations of em and vb, restarts, chains (4; up to 32 for gibbs on
            small data), draws (500) and warmup (250) of gibbs and nuts, batch_size, progress, callback.

    Returns:
        The posterior; on CPU, the same seed and number of threads give the same result bit for bit. Below 100,000
        labels, and with networks below two million weights, a fit uses one thread; else one for each 50,000 labels
        or million weights, up to ``torch.get_num_threads()``, which is restored. Ctrl-C during the iterations
        returns the fit so far, marked as interrupted and not converged.

    Raises:
        MethodError: for an unknown method, setting, option or engine, or an engine that cannot fit the method.
        DataError: for wrong data or gold, or trusted annotators who are unknown or tell too few truths.
        NumericalError: when a number is not finite; it names the site.
        MemoryShortageError: when the fit needs more memory than there is.
        ProcessError: when processes that share the fit differ, or another one fails.
        KeyboardInterrupt: at Ctrl-C before or after the iterations, or with ``calibrate``.

    Warns:
        ConvergenceWarning: when the fit has not converged, or chains disagree.
        DoubtWarning: for each problem found in the fit; ``posterior.doubts(thorough=True)`` finds more. That labels
            cannot tell a bias that annotators share is said by ``posterior.doubts()`` and ``posterior.summary()``.
        UnusedOptionWarning: for an option that the engine does not use.
        CrowdpplWarning: when a method with a network has no features.

    Examples:
        >>> posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior
        <Posterior of bayesian_dawid_skene by vb: 45 items, 5 annotators, 4 classes>
        >>> posterior.labels().loc[36:38, ["label", "probability"]].round(3)
              label  probability
        item
        36        3        0.768
        37        2        1.000
        38        2        0.798
    """
    calibrate = switch("calibrate", calibrate, "give known truths in gold=")
    data = require_annotations(data, shared=True)
    require_labels(data.blocks)
    if calibrate and data.alphabet.kind.numeric:
        raise MethodError("calibrate=True corrects probabilities of classes, and labels are numbers; leave it out")
    if gold is not None:
        data = data.with_gold(gold)
    auto = isinstance(method, str) and method == "auto"
    for what, asked in (("'auto'", auto), ("calibrate=", calibrate), ("trusted=", trusted is not None)):
        if asked:  # all of them leave labels out
            data.require_whole(what)
    if options.get("checkpoint") is not None and (auto or trusted is not None):
        raise MethodError(
            f"checkpoint={shown(options['checkpoint'])} is of one fit, and {'auto' if auto else 'trusted='} makes "
            "several; leave it out, or name a method"
        )
    engine = "vb" if auto else inference
    warn_of_unused(options, [engine])
    if auto:
        check_automatic(inference, settings is None and start is None and trusted is None)
    elif models is not None:
        raise MethodError(f"models= is for 'auto'; give {method!r} none, or take judge_panel with people=")
    if auto and models is not None:
        found = fit_panel(data, models, options)
    elif auto:
        chooses = data.alphabet.kind.numeric or _candidates(data)
        found = (fit_best if chooses else fit_auto)(data, options)
    else:
        model = registry.resolve(method, settings)
        how: Any = {"name": registry.name_of(model), "select_volume": select_volume}
        warn_of_no_features({how["name"] or type(model).__qualname__: model}, data)
        if trusted is not None:
            _check_trusted(model, calibrate)
            make = partial(fit_one, model, engine=inference, options=options, fits=FOLDS_OF_TRUTHS + 3, **how)
            found = fit_trusted(make, data, trusted, start=start)
        elif calibrate:
            alone = fit_one(model, data.with_gold(None), inference, options, start, fits=FOLDS + 1, **how)
            require_classes(alone, "calibrate=True")
            found = calibrated({alone.method: uninterrupted(alone)}, data, models={alone.method: model})
        else:
            found = fit_one(model, data, inference, options, start, **how)
    if engine == "auto":
        warn_of_unused(options, [found.inference])
    posterior = Posterior.of(found)
    for doubt in posterior.doubts() if n_processes() == 1 else ():
        if not doubt.general and doubt.text not in found.result.diagnostics["warnings"]:
            warn(str(doubt), DoubtWarning)
    return posterior


def _check_trusted(model: Model, calibrate: bool) -> None:
    """Refuses what does not go with trusted annotators by a MethodError."""
    card = card_of(model)
    if card is not None and "history" not in card.uses:
        raise MethodError(
            f"{card.title} has no prior that could hold what trusted= tells; leave it out, or use a method whose "
            "card lists history (crowdppl.zoo() shows which)"
        )
    if calibrate:
        raise MethodError("trusted= and calibrate=True both learn from known truths; leave one out")


def thresholds(
    method: str | Model,
    data: Annotations,
    *,
    inference: str = "auto",
    settings: Mapping[str, Any] | None = None,
    **options: Unpack[FitOptions],
) -> Posterior:
    """Infers grades by any method of two classes: whether they are above each grade but the last.

    The K - 1 fits are independent. Probabilities of being above are made to fall with the threshold, and their
    differences are those of grades (Raykar et al. 2010, "Learning from crowds", section 4; Frank & Hall 2001). So
    are the tables of annotators. A posterior by thresholds has no model of grades, so that what needs one
    (``predict``, ``update``, ``suggest_labels``, ``save``) is refused.

    Args:
        method, inference, settings, options: as for ``fit``.
        data: grades.

    Raises:
        DataError: for labels that are no grades.
        MethodError: for what ``fit`` refuses.
        KeyboardInterrupt: when Ctrl-C stops one of the fits.

    Examples:
        >>> grades = crowdppl.datasets.example("ordinal")
        >>> posterior = crowdppl.thresholds("one_coin", grades, inference="em", seed=0)
        >>> posterior
        <Posterior of one_coin by thresholds by em: 45 items, 5 annotators, 4 classes>
        >>> int(posterior.labels().loc[36, "label"])
        3
    """
    require_labels(require_annotations(data).blocks)
    if not data.space.ordered or not data.n_classes:
        data.above(None)  # refuses
    parts = [data.above(grade) for grade in data.classes[:-1]]
    given: Any = {"inference": inference, "settings": settings, **options}
    return Posterior.of(joined([uninterrupted(fit(method, part, **given)) for part in parts], data))


def check_automatic(inference: str, alone: bool) -> None:
    """Refuses what "auto" does not take (where not ``alone``) and engines but vb by a MethodError."""
    if not alone or inference not in ("auto", "vb"):
        raise MethodError(
            "'auto' chooses methods and engines itself; leave out settings, start, trusted and inference"
        )


def fit_auto(data: Annotations, options: FitOptions) -> Fit:
    """Fits mixed membership, Dawid-Skene (both hierarchical) and one coin by vb; averages and corrects them.

    Weights and corrections are found from held-out labels (``crowdppl.evaluation.calibration.calibrated``). With
    more than 20 classes and fewer than five labels a confusion row, only one coin takes part; where classes have
    an order, ``ordinal`` joins, of similarity ``record_linkage``, and of sets ``set_clusters`` of one cluster,
    which learns how frequent each class is. In sequences, ``hmm_crowd`` or ``sequence_crowd`` joins where it
    predicts what annotators who are left out mark better than a method that takes items one by one. After Ctrl-C,
    the result is the first method's own fit.
    """
    began, fits = time.perf_counter(), _fits(data, options)
    name, first = next(fits)
    try:
        fitted = {name: uninterrupted(first), **{other: uninterrupted(rest) for other, rest in fits}}
        fresh = {name: registry.resolve(name, given) for name, given in _own_members(data).items()}
        found = with_notes(calibrated(fitted, data, models=fresh, biased=True), _notes(data))
    except KeyboardInterrupt:
        found = _interrupted(first)
        warn(found.result.diagnostics["warnings"][-1], ConvergenceWarning)
    found.result.diagnostics["seconds"] = time.perf_counter() - began
    return found


def fit_panel(data: Annotations, models: Iterable[Any] | bool, options: FitOptions) -> Fit:
    """Fits ``judge_panel`` by vb, and averages it with Dawid-Skene, for whom labels of an item count as one.

    The weights are fixed, for a panel's labels tell none. With people among models, whose labels count for more,
    it is ``judge_panel`` alone. DataError or MethodError for models that are no annotators, and for labels that are
    no classes of items taken one by one.
    """
    if data.kind not in PANELS:
        raise DataError(
            f"models= is for labels of kind {' or '.join(PANELS)}, and these are {data.kind!r}; leave it out"
        )
    if models is not True and (isinstance(models, str) or not is_iterable(models)):
        raise MethodError(
            f"models={shown(models)} must be True, for all annotators, or a list of their ids; leave it out where "
            "all are people"
        )
    chosen: Any = data.annotators if models is True else models
    are_models = chosen_annotators("models", chosen, data)
    if not any(are_models):
        raise MethodError("models=[] names none of the annotators; leave it out where all are people")
    people = tuple(not x for x in are_models)
    weights = {JUDGES: 1.0} if any(people) else PANEL
    began = time.perf_counter()
    given: Any = {"tolerance": TOLERANCE, "max_iterations": STEPS, **options}
    fresh = {name: registry.resolve(name, {"people": people} if name == JUDGES else None) for name in weights}
    plain = data.with_gold(None)
    fits = {n: fit_member(n, partial(fit_one, m, plain, "vb", given, name=n)) for n, m in fresh.items()}
    weighed = Correction(np.empty((0, 0)), weights, {name: float(name != JUDGES) for name in weights}, {})
    found = calibrated({n: uninterrupted(fit) for n, fit in fits.items()}, data, weighed, fresh)
    if found.correction is not None and not found.correction.gold:
        found = with_notes(found, (PANEL_NOTE,))
    found.result.diagnostics["seconds"] = time.perf_counter() - began
    return found


def fit_best(data: Annotations, options: FitOptions) -> Fit:
    """The fit, by vb, of the candidate that predicts labels left out best; of the first where none can be.

    Its diagnostics tell the ``scores`` of all, mean log-probabilities of a label left out. MethodError for a kind
    without any.
    """
    kind = data.alphabet.kind
    candidates = _candidates(data)
    if not candidates:
        names = ", ".join(map(repr, registry.names_for(data.kind)))
        raise MethodError(f"'auto' has no methods for labels of kind {data.kind!r}; name one: {names}")
    began, scores = time.perf_counter(), {}
    pairs = kind.parts is not None and not kind.numeric  # of which one is predicted by the answers to others
    if data.n_items >= FOLDS_OF_PAIRS if pairs else not too_sparse(data):
        how: Any = {"inference": "vb", "whole_items": pairs, "folds": FOLDS_OF_PAIRS if pairs else 5, **options}
        for name, (method, settings) in candidates.items():
            found = heldout_score(method, data, settings=settings, **how)
            of_items = found.items["log_p"].sum() / max(found.items["labels"].sum(), 1)
            scores[name] = float(of_items) if pairs else found.per_label
    method, settings = candidates[max(scores, key=scores.__getitem__, default=next(iter(candidates)))]
    fit = fit_one(registry.resolve(method, settings), data, "vb", options, name=method)
    fit.result.diagnostics.update(scores=scores, seconds=time.perf_counter() - began)
    return fit


def _candidates(data: Annotations) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    """Of which one is taken; none where methods are averaged."""
    columns = pd.DataFrame() if data.label_columns is None else data.label_columns
    return data.alphabet.kind.candidates_of(columns, data.known, data.n_classes)


def members(data: Annotations, options: FitOptions) -> dict[str, Fit]:
    """The fits that are averaged, by name, without gold."""
    return dict(_fits(data, options))


def _fits(data: Annotations, options: FitOptions) -> Iterator[tuple[str, Fit]]:
    given: Any = {"tolerance": TOLERANCE, "max_iterations": STEPS, **options}
    own = _own_members(data)
    names: tuple[str, ...] = COIN if _without_rows(data) else ROWS + COIN
    names = names[:1] if too_sparse(data) else (*names, *own)
    for name in names:
        model = registry.resolve(name, own.get(name))
        make = partial(fit_one, model, data.with_gold(None), "vb", given, name=name)
        yield name, fit_member(name, make)


def _own_members(data: Annotations) -> Mapping[str, Mapping[str, Any]]:
    """Members of auto that the kind of the labels adds, and their settings."""
    kind = data.alphabet.kind
    assert isinstance(kind, Classes)
    return kind.members


def _notes(data: Annotations) -> Iterator[str]:
    """Which data and methods auto does not use."""
    if _without_rows(data):
        yield NO_ROWS.format(labels=data.n_labels, annotators=data.n_annotators, classes=data.n_classes)
    if data.features is not None:
        yield FEATURES
    if data.kind in PANELS and 2 < (n := len(np.unique(data.label_codes()[1]))) <= FEW:
        yield ASKS.format(n=n)


def _without_rows(data: Annotations) -> bool:
    """Whether there are too few labels to learn confusion rows."""
    return data.n_classes > CLASSES and data.n_labels < LABELS * data.n_annotators * data.n_classes


def _interrupted(first: Fit) -> Fit:
    """The first member of auto after Ctrl-C, neither averaged nor corrected."""
    note = (
        f"auto was interrupted: this is {first.method} alone, uncorrected and without gold; let it run to its end"
    )
    diagnostics = first.result.diagnostics
    more = {"converged": False, "interrupted": True, "warnings": [*diagnostics["warnings"], note]}
    return replace(first, result=replace(first.result, diagnostics={**diagnostics, **more}))
