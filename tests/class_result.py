"""Results of classes made by hand, and changed."""

from typing import Any

from crowdppl.inference.result import ClassProbabilities, FitResult, OnDemand, Tables


def class_result(
    sites: Any,
    probabilities: Any,
    table: Any,
    prevalence: Any,
    diagnostics: Any = None,
    spread: Any = None,
    draws: Any = None,
) -> FitResult:
    """A result whose truths are classes."""
    truth = ClassProbabilities(probabilities, spread)
    return FitResult(sites, truth, OnDemand.of(Tables(table, prevalence)), diagnostics or {}, draws)


def changed(result: FitResult, **parts: Any) -> FitResult:
    """The same result with other ``probabilities``, ``table``, ``prevalence`` or ``draws``."""
    old = {
        name: getattr(result, name)
        for name in ("sites", "probabilities", "table", "prevalence", "diagnostics", "draws")
    }
    assert isinstance(result.truth, ClassProbabilities)
    return class_result(**(old | {"spread": result.truth.spread} | parts))
