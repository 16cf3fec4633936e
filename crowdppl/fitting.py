"""Fits: a method and annotations in, a posterior out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import torch

from crowdppl import registry
from crowdppl.core.validation import switch, warn
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.checks import require_labels
from crowdppl.errors import ConvergenceWarning, DoubtWarning, MethodError
from crowdppl.evaluation.calibration import AUTO_NOTE, FOLDS, calibrated, with_notes
from crowdppl.evaluation.heldout import fit_method, model_with
from crowdppl.inference.options import FitOptions, warn_of_unused
from crowdppl.inference.result import Fit, uninterrupted
from crowdppl.networks.outputs import warn_of_no_features
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import Model
from crowdppl.results.correction import named, too_sparse


def fit(
    method: str | Model,
    data: Annotations,
    *,
    inference: str = "auto",
    settings: Mapping[str, Any] | None = None,
    gold: Any = None,
    start: Mapping[str, torch.Tensor] | None = None,
    calibrate: bool = False,
    **options: Unpack[FitOptions],
) -> Posterior:
    """Learns the truth of every item, and how good every annotator is, from their labels.

    Args:
        method: a name of the zoo (``crowdppl.zoo()`` lists them), or a story of your own: any object with
            ``model(data)``. "auto" averages methods by how well they predict labels that they were not shown, and
            corrects probabilities that are too sure (``crowdppl.automatic``).
        data: the annotations.
        inference: "em", "vb", "gibbs", "nuts", "svi", or "auto": gibbs where it is exact and should take less
            than about ten seconds by a formula in labels, states of an item, parameters and chains, else vb.
        settings: of a method given by name, such as ``{"prevalence": "uniform"}``.
        gold: known truths by item id (a Series or mapping): data, not a score. Replaces gold that ``data`` hold.
        start: values of sites to start from, by site name.
        calibrate: whether to correct probabilities that are too sure, by labels left out and known truths, at the
            cost of five further fits (``crowdppl.evaluation.calibration``), which share the ten seconds; "auto"
            always does. ``posterior.uncorrected()`` gives the method's own. Ctrl-C then raises KeyboardInterrupt.
        options: of the engine; ``crowdppl.inference.options.Options`` describes them all. The commonest are
            seed (0), device ("cpu", "cuda" or "auto"), tolerance and max_iterations of em and vb, restarts,
            chains (4; up to 32 for gibbs on small data), draws (500) and warmup (250) of gibbs and nuts,
            batch_size, progress and callback.

    Returns:
        The posterior. Ctrl-C during the iterations returns what there is, marked unconverged and interrupted;
        before and afterwards, and in the trials of ``volume`` and ``patience``, it raises KeyboardInterrupt.
        The same seed gives the same result bit for bit on CPU. What speaks against the fit is warned of
        (``DoubtWarning``); ``posterior.doubts(thorough=True)`` looks harder.

    Raises:
        MethodError: for an unknown method, setting, option or engine, an engine that cannot treat the story, or a
            ``calibrate`` that is neither True nor False.
        DataError: for gold that does not fit the data, or data that are no annotations.
        NumericalError: when a number is not finite; it names the site.
        MemoryShortageError: when the fit needs more memory than there is.

    Warns:
        ConvergenceWarning: when the fit ended before it settled, or chains disagree.
        DoubtWarning: with what speaks against the fit.
        UnusedOptionWarning: for an option that the engine passes over.
        CrowdpplWarning: when a network has no features to look at.

    Examples:
        >>> posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior
        <Posterior of bayesian_dawid_skene by vb: 45 items, 5 annotators, 4 classes>
        >>> posterior.labels().loc[36:38, ["label", "probability"]].round(3)
              label  probability
        item
        36        3        0.999
        37        2        1.000
        38        3        0.956
    """
    calibrate = switch("calibrate", calibrate, "known truths go to gold=")
    data = require_annotations(data)
    require_labels(data.blocks)
    data = data if gold is None else data.with_gold(gold)
    automatic = isinstance(method, str) and method == "auto"
    engine = "vb" if automatic else inference
    warn_of_unused(options, [engine])
    if automatic:
        check_automatic(inference, settings is None and start is None)
        found = fit_auto(data, options)
    else:
        model = model_with(method, settings)
        _warn_if_blind(model, data)
        if calibrate:
            found = _corrected(method, data, inference, settings, options, start)
        else:
            found = fit_method(model, data, inference, None, options, start)
    if engine == "auto":
        warn_of_unused(options, [found.inference])
    return _doubted(Posterior.of(found))


def _warn_if_blind(model: Model, data: Annotations) -> None:
    """Warns of a method with a network that has nothing to look at."""
    warn_of_no_features({registry.name_of(model) or type(model).__qualname__: model}, data)


def _doubted(posterior: Posterior) -> Posterior:
    """Says aloud what speaks against a fit, as far as that is quickly found."""
    for doubt in posterior.doubts():
        warn(str(doubt), DoubtWarning)
    return posterior


def _corrected(
    method: str | Model,
    data: Annotations,
    inference: str,
    settings: Mapping[str, Any] | None,
    options: FitOptions,
    start: Mapping[str, torch.Tensor] | None,
) -> Fit:
    """One fit of one method, corrected."""

    plain = data if data.gold_codes is None else data.with_gold(None)
    alone = fit_method(method, plain, inference, settings, options, start, fits=FOLDS + 1)
    members, stories = {alone.method: uninterrupted(alone)}, {alone.method: model_with(method, settings)}
    return calibrated(members, data, stories=stories)


def check_automatic(inference: str, alone: bool) -> None:
    """Refuses what does not go with method="auto"; ``alone`` is without settings and start.

    Raises:
        MethodError: for settings, a start or an engine.
    """
    if not alone or inference not in ("auto", "vb"):
        raise MethodError(
            "'auto' chooses methods and engines itself: leave settings, start and inference out, or name one"
        )


ROWS, COIN = ("hierarchical_mixed_membership", "hierarchical_dawid_skene"), ("one_coin",)
"""A method whose items may lie between classes and one that takes labels for independent given the truth, with a
row of confusions for each annotator and class; and one of few parameters, for crowds whose rows are hopeless."""
ORDINAL = ("ordinal",)
"""Further members where classes have an order."""
CLASSES, LABELS = 20, 5
"""Of more classes, methods with rows take part where a row has at least so many labels on average."""
TOLERANCE, STEPS = 1e-5, 300
FEATURES = (
    f"{AUTO_NOTE}the features of the items have no part, for its methods read labels alone; a method with a "
    "network, such as bayes_dgc, learns from both"
)
NO_ROWS = AUTO_NOTE + (
    "{labels:,} labels are too few to learn which of {classes} classes each of {annotators} annotators confuses "
    "(five for each annotator and class), so that methods which try have no part"
)


def fit_auto(data: Annotations, options: FitOptions) -> Fit:
    """Fits mixed membership, Dawid-Skene (both hierarchical) and one coin; averages them as labels left out advise.

    Dawid-Skene takes an item's labels for independent given its truth, which on real annotations they are not;
    mixed membership knows that labels of an item err together. A coin for each annotator is learned from few
    labels, where rows of confusions are not and both of these are too unsure; of more than 20 classes and fewer
    than five labels a row, both are left out. Where classes have an order, a method that knows it joins them. How
    they are weighed and corrected: ``crowdppl.evaluation.calibration.calibrated``.

    Args:
        data: annotations, with gold or without.
        options: of the engine, which is vb.

    Returns:
        The posterior of the method with the largest weight, with corrected probabilities; ``correction`` says what
        was done, ``uncorrected()`` gives the method's own. After Ctrl-C, the first method's own fit as it is by
        then, uncorrected and told no gold, with a warning; it is marked interrupted.

    Raises:
        KeyboardInterrupt: when Ctrl-C came before there was any fit.
    """
    began, fits = time.perf_counter(), _fits(data, options)
    name, first = next(fits)
    try:
        # Ctrl-C in the first fit is known before the others begin.
        fitted = {name: uninterrupted(first), **{other: uninterrupted(rest) for other, rest in fits}}
        found = with_notes(calibrated(fitted, data), _notes(data))
    except KeyboardInterrupt:
        found = _marked(first)
        warn(found.result.diagnostics["warnings"][-1], ConvergenceWarning)
    found.result.diagnostics["seconds"] = time.perf_counter() - began
    return found


def _notes(data: Annotations) -> Iterator[str]:
    """What of the data, and which methods, have no part in auto."""
    if _without_rows(data):
        yield NO_ROWS.format(labels=data.n_labels, annotators=data.n_annotators, classes=data.n_classes)
    if data.features is not None:
        yield FEATURES


def _without_rows(data: Annotations) -> bool:
    """Whether rows of confusions are too many for the labels to say anything of them."""
    return data.n_classes > CLASSES and data.n_labels < LABELS * data.n_annotators * data.n_classes


def _marked(first: Fit) -> Fit:
    """A fit that was to be averaged and corrected, and will not be."""
    note = (
        f"auto was stopped before its methods were weighed: this is {first.method} alone, uncorrected and told no "
        "gold; let it run to its end"
    )
    said = first.result.diagnostics
    more = {"converged": False, "interrupted": True, "warnings": [*said["warnings"], note]}
    return replace(first, result=replace(first.result, diagnostics={**said, **more}))


def members(data: Annotations, options: FitOptions) -> dict[str, Fit]:
    """The fits that are averaged, by name; none is told any gold."""
    return dict(_fits(data, options))


def _fits(data: Annotations, options: FitOptions) -> Iterator[tuple[str, Fit]]:
    given: Any = {"tolerance": TOLERANCE, "max_iterations": STEPS, **options}
    able = COIN if _without_rows(data) else ROWS + COIN
    names = able[:1] if too_sparse(data) else able + (ORDINAL if data.kind == "ordinal" else ())
    plain = data if data.gold_codes is None else data.with_gold(None)
    for name in names:
        yield name, named(name, partial(fit_method, name, plain, "vb", None, given))
