"""A posterior of three items and three annotators, made by hand."""

from typing import Any, ClassVar

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.inference.result import FitResult
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import Card
from tests.class_result import class_result

ITEMS = [10, 7, 7, 7, 9, 9, 10, 10]
ANNOTATORS = ["b", "a", "b", "c", "a", "b", "a", "c"]
LABELS = ["yes", "no", "no", "yes", "yes", "no", "yes", "yes"]
TABLE = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.8, 0.2], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]]])
SHARE = np.array([0.25, 0.75])


class Handmade:
    card: ClassVar[Card] = Card("Handmade", "nobody")

    def model(self, data: Any) -> None: ...


def data(**options: Any) -> Annotations:
    return Annotations.from_arrays(ITEMS, ANNOTATORS, LABELS, **options)


def result(**parts: Any) -> FitResult:
    """A point: items 7, 9, 10 are no for sure, undecided, and rather yes."""
    point = {
        "sites": {},
        "probabilities": np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]]),
        "table": TABLE,
        "prevalence": SHARE,
        "diagnostics": {"converged": True, "iterations": 3, "objective": -5.0, "objectives": [-9.0, -6.0, -5.0]},
    }
    return class_result(**(point | parts))


def posterior(found: FitResult | None = None, inference: str = "em", **options: Any) -> Posterior:
    return Posterior(Handmade(), "handmade", inference, data(**options), found or result())
