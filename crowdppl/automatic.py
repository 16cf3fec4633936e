"""The method "auto": several methods, weighed and made honest by labels that they were not shown."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from crowdppl.annotations import Annotations
from crowdppl.calibration import calibrated
from crowdppl.errors import CrowdpplWarning
from crowdppl.inference import fit
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
        was done, ``uncorrected()`` gives the method's own.
    """
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        found = calibrated(members(data, options), data)
    found.result.diagnostics["seconds"] = time.perf_counter() - began
    return found


def members(data: Annotations, options: FitOptions) -> dict[str, Posterior]:
    """The fits that are averaged, by name; none is told any gold."""
    given: dict[str, Any] = {"tolerance": TOLERANCE, "max_iterations": STEPS, **options}
    names = MEMBERS + (ORDINAL if data.kind == "ordinal" else ())
    plain = data if data.gold_codes is None else data.with_gold(None)
    return {name: fit(name, plain, inference="vb", **given) for name in names}
