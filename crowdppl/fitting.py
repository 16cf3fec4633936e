"""Fits: a method and annotations in, a posterior out."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from crowdppl.core import validation
from crowdppl.core.validation import switch, tell
from crowdppl.errors import DoubtWarning, MethodError

if TYPE_CHECKING:
    import torch

    from crowdppl.data.annotations import Annotations
    from crowdppl.inference.options import FitOptions
    from crowdppl.posterior import Posterior
    from crowdppl.primitives.model import Story


def fit(
    method: str | Story,
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
        The posterior. A fit that was interrupted by Ctrl-C returns what there is, marked unconverged (the first
        training of ``patience`` raises it on, for nothing has learned from all labels yet). One that had ended by
        then, and was only put together, is marked interrupted; a second Ctrl-C meanwhile raises KeyboardInterrupt.
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
    from crowdppl.inference.options import warn_of_unused

    calibrate = switch("calibrate", calibrate, "known truths go to gold=")
    data = _annotations(data) if gold is None else _annotations(data).with_gold(gold)
    automatic = isinstance(method, str) and method == "auto"
    engine = "vb" if automatic else inference
    warn_of_unused(options, [engine])
    if automatic:
        posterior = _automatic(data, inference, settings is None and start is None, options)
    else:
        story = _story(method, settings)
        _warn_if_blind(story, data)
        if calibrate:
            posterior = _corrected(method, data, inference, settings, options, start)
        else:
            posterior = fit_alone(story, data, inference, None, options, start)
    if engine == "auto":
        warn_of_unused(options, [posterior.inference])
    return _doubted(posterior)


def fit_alone(
    method: str | Story,
    data: Annotations,
    inference: str,
    settings: Mapping[str, Any] | None,
    options: FitOptions,
    start: Mapping[str, torch.Tensor] | None = None,
    fits: int = 1,
) -> Posterior:
    """One fit of one method, neither corrected nor doubted.

    Args:
        method, data, inference, settings, options, start: as for ``fit``, without "auto" for the method.
        fits: how many of the kind share the ten seconds up to which "auto" takes gibbs.
    """
    from crowdppl import registry
    from crowdppl.core.devices import told_of_shortage
    from crowdppl.inference.engines import run
    from crowdppl.inference.options import options_from
    from crowdppl.posterior import Posterior

    _annotations(data)
    story = _story(method, settings)
    chosen = options_from(options, inference, data.n_labels * data.n_classes)
    name = registry.name_of(story) or f"{type(story).__module__}.{type(story).__qualname__}"
    with told_of_shortage(name, data):
        fitted, engine, result = run(story, data, inference, chosen, start, fits=fits)
    return Posterior(fitted, name, engine, data, result, chosen.kept())


def _warn_if_blind(story: Story, data: Annotations) -> None:
    """Warns of a method with a network that has nothing to look at."""
    from crowdppl import registry
    from crowdppl.networks.outputs import warn_of_no_features

    warn_of_no_features({registry.name_of(story) or type(story).__qualname__: story}, data)


def _story(method: str | Story, settings: Mapping[str, Any] | None) -> Story:
    """The method with its settings, before anything is found in the data."""
    from crowdppl import registry
    from crowdppl.core.validation import named_settings

    given = None if settings is None else named_settings(settings)
    if given and not isinstance(method, str):
        raise MethodError(f"settings={settings!r} go with a method's name; give them to {method!r} itself")
    return registry.resolve(method) if given is None else registry.method(str(method), **given)


def _annotations(data: Any) -> Annotations:
    """The data, when they are annotations with labels."""
    from crowdppl.data.checks import require_labels

    found = validation.require_annotations(data)
    require_labels(found.blocks)
    return found


def _doubted(posterior: Posterior) -> Posterior:
    """Says aloud what speaks against a fit, as far as that is quickly found."""
    from crowdppl.core.devices import held_back
    from crowdppl.inference.loop import told_of_late

    with held_back() as hold:
        for doubt in posterior.doubts():
            tell(str(doubt), DoubtWarning)
    told_of_late(posterior.result.diagnostics, hold.came)
    return posterior


def _corrected(
    method: str | Story,
    data: Annotations,
    inference: str,
    settings: Mapping[str, Any] | None,
    options: FitOptions,
    start: Mapping[str, torch.Tensor] | None,
) -> Posterior:
    """One fit of one method, corrected; looked up by name, because corrections fit again."""
    from crowdppl.inference.loop import uninterrupted

    calibration = import_module("crowdppl.evaluation.calibration")
    plain = data if data.gold_codes is None else data.with_gold(None)
    alone = fit_alone(method, plain, inference, settings, options, start, fits=calibration.FOLDS + 1)
    members, stories = {alone.method: uninterrupted(alone)}, {alone.method: _story(method, settings)}
    out: Posterior = calibration.calibrated(members, data, stories=stories)
    return out


def check_automatic(inference: str, alone: bool) -> None:
    """Refuses what does not go with method="auto"; ``alone`` is without settings and start.

    Raises:
        MethodError: for settings, a start or an engine.
    """
    if not alone or inference not in ("auto", "vb"):
        raise MethodError(
            "'auto' chooses methods and engines itself: leave settings, start and inference out, or name one"
        )


def _automatic(data: Annotations, inference: str, alone: bool, options: FitOptions) -> Posterior:
    """method="auto"; looked up by name, because it calls ``fit``."""
    check_automatic(inference, alone)
    posterior: Posterior = import_module("crowdppl.automatic").fit_auto(data, options)
    return posterior
