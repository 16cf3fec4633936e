"""The method "auto": several methods, weighed and made honest by labels that they were not shown."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from crowdppl.core.validation import tell
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ConvergenceWarning
from crowdppl.evaluation.calibration import AVERAGE, calibrated
from crowdppl.fitting import fit_alone
from crowdppl.inference.loop import uninterrupted
from crowdppl.inference.predict.predictive import refit
from crowdppl.inference.predict.update import options_of
from crowdppl.posterior import Posterior
from crowdppl.results.correction import named, too_sparse

if TYPE_CHECKING:
    from crowdppl.inference.options import FitOptions

ROWS, COIN = ("hierarchical_mixed_membership", "hierarchical_dawid_skene"), ("one_coin",)
"""A method whose items may lie between classes and one that takes labels for independent given the truth, with a
row of confusions for each annotator and class; and one of few parameters, for crowds whose rows are hopeless."""
ORDINAL = ("ordinal",)
"""Further members where classes have an order."""
CLASSES, LABELS = 20, 5
"""Of more classes, methods with rows take part where a row has at least so many labels on average."""
TOLERANCE, STEPS = 1e-5, 300
OWN = "auto: "
"""How its notes begin, which later corrections carry on."""
FEATURES = (
    f"{OWN}the features of the items have no part, for its methods read labels alone; a method with a network, "
    "such as bayes_dgc, learns from both"
)
NO_ROWS = OWN + (
    "{labels:,} labels are too few to learn which of {classes} classes each of {annotators} annotators confuses "
    "(five for each annotator and class), so that methods which try have no part"
)


def fit_auto(data: Annotations, options: FitOptions) -> Posterior:
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
        fitted = {name: uninterrupted(first), **{other: uninterrupted(posterior) for other, posterior in fits}}
        found = _noted(calibrated(fitted, data), _notes(data))
    except KeyboardInterrupt:
        found = _marked(first)
        tell(found.diagnostics()["warnings"][-1], ConvergenceWarning)
    found.result.diagnostics["seconds"] = time.perf_counter() - began
    return found


def corrected_again(posterior: Posterior, data: Annotations) -> Posterior:
    """A corrected posterior with other labels of the same items: its methods are fitted, weighed, corrected anew.

    Methods that were averaged start from the old truth, unless some truths were told: a fit that starts from these
    remembers them. What a method found in the labels first, such as groups of annotators, is kept.

    Args:
        posterior: with a correction.
        data: the labels that are left, and gold as it was.

    Raises:
        KeyboardInterrupt: when Ctrl-C stops one of the fits.
    """
    before = posterior.correction
    assert before is not None
    plain = data if data.gold_codes is None else data.with_gold(None)
    again: dict[str, Posterior] = {}
    kept = posterior.members() if plain is data else {}
    for name in [name for name in before.scores if name != AVERAGE] or list(before.weights):
        if name in kept:
            fitted = named(name, partial(refit, kept[name], plain))
        else:
            story = posterior.story if name == posterior.method else name
            given: Any = options_of(posterior).kept()
            fitted = named(name, partial(fit_alone, story, plain, posterior.inference, None, given))
        again[name] = uninterrupted(fitted)
    return _noted(calibrated(again, data), [note for note in before.notes if note.startswith(OWN)])


def _noted(posterior: Posterior, notes: Iterable[str]) -> Posterior:
    assert posterior.correction is not None
    notes = (*posterior.correction.notes, *notes)
    return replace(posterior, correction=replace(posterior.correction, notes=notes))


def _notes(data: Annotations) -> Iterator[str]:
    """What of the data, and which methods, have no part in auto."""
    if _without_rows(data):
        yield NO_ROWS.format(labels=data.n_labels, annotators=data.n_annotators, classes=data.n_classes)
    if data.features is not None:
        yield FEATURES


def _without_rows(data: Annotations) -> bool:
    """Whether rows of confusions are too many for the labels to say anything of them."""
    return data.n_classes > CLASSES and data.n_labels < LABELS * data.n_annotators * data.n_classes


def _marked(first: Posterior) -> Posterior:
    """A fit that was to be averaged and corrected, and will not be."""
    note = (
        f"auto was stopped before its methods were weighed: this is {first.method} alone, uncorrected and told no "
        "gold; let it run to its end"
    )
    said = first.result.diagnostics
    more = {"converged": False, "interrupted": True, "warnings": [*said["warnings"], note]}
    return replace(first, result=replace(first.result, diagnostics={**said, **more}))


def members(data: Annotations, options: FitOptions) -> dict[str, Posterior]:
    """The fits that are averaged, by name; none is told any gold."""
    return dict(_fits(data, options))


def _fits(data: Annotations, options: FitOptions) -> Iterator[tuple[str, Posterior]]:
    given: Any = {"tolerance": TOLERANCE, "max_iterations": STEPS, **options}
    able = COIN if _without_rows(data) else ROWS + COIN
    names = able[:1] if too_sparse(data) else able + (ORDINAL if data.kind == "ordinal" else ())
    plain = data if data.gold_codes is None else data.with_gold(None)
    for name in names:
        yield name, named(name, partial(fit_alone, name, plain, "vb", None, given))
