"""The method "auto": several methods, weighed and made honest by labels that they were not shown."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crowdppl.annotations import Annotations
from crowdppl.calibration import calibrated
from crowdppl.errors import ConvergenceWarning, CrowdpplWarning
from crowdppl.inference import fit
from crowdppl.inference.loop import uninterrupted
from crowdppl.posterior import Posterior

if TYPE_CHECKING:
    from crowdppl.inference.options import FitOptions

MEMBERS = ("hierarchical_mixed_membership", "hierarchical_dawid_skene")
"""A method whose items may lie between classes, and one that takes labels for independent given the truth."""
ORDINAL = ("ordinal",)
"""Further members where classes have an order."""
TOLERANCE, STEPS = 1e-5, 300


def fit_auto(data: Annotations, options: FitOptions) -> Posterior:
    """Fits mixed membership and Dawid-Skene, both hierarchical, and averages them as labels left out advise.

    Dawid-Skene takes an item's labels for independent given its truth, which on real annotations they are not;
    mixed membership knows that labels of an item err together. Where classes have an order, a method that knows it
    joins them. How they are weighed and corrected: ``crowdppl.calibration.calibrated``.

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        name, first = next(fits)
        try:
            others = {other: uninterrupted(posterior) for other, posterior in fits}
            found = calibrated({name: uninterrupted(first), **others}, data)
            stopped = False
        except KeyboardInterrupt:
            found, stopped = _marked(first), True
    if stopped:
        warnings.warn(found.diagnostics()["warnings"][-1], ConvergenceWarning, stacklevel=4)
    found.result.diagnostics["seconds"] = time.perf_counter() - began
    return found


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
    given: dict[str, Any] = {"tolerance": TOLERANCE, "max_iterations": STEPS, **options}
    names = MEMBERS + (ORDINAL if data.kind == "ordinal" else ())
    plain = data if data.gold_codes is None else data.with_gold(None)
    for name in names:
        yield name, fit(name, plain, inference="vb", **given)
