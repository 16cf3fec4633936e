"""Crowds with spammers and copiers, and results made by hand, about which there may be doubts."""

from typing import Any

import numpy as np

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.inference.result import SiteResult
from crowdppl.posterior import Posterior
from tests.class_result import class_result
from tests.crowd import annotations

CONFUSION = ("annotator", "truth", "label")


def simulated(seed: int, n_items: int, n_annotators: int, each: int, n_classes: int, **bad: int) -> Annotations:
    """Accuracies from .7 to .9; the first annotators are "spam" (labels at random) or "copy" (nine in ten labels
    are those of the first)."""
    rng = np.random.default_rng(seed)
    shape = (n_items, n_annotators)
    truth = rng.integers(n_classes, size=(n_items, 1))
    right = rng.random(shape) < rng.uniform(0.7, 0.9, n_annotators)
    label = np.where(right, truth, (truth + rng.integers(1, n_classes, shape)) % n_classes)
    spam, copy = bad.get("spam", 0), bad.get("copy", 0)
    label[:, :spam] = rng.integers(n_classes, size=(n_items, spam))
    label[:, :copy] = np.where(rng.random((n_items, copy)) < 0.9, label[:, :1], label[:, :copy])
    seen = np.argsort(rng.random(shape), 1)[:, :each].ravel()
    item = np.repeat(np.arange(n_items), each)
    return annotations(list(zip(item.tolist(), seen.tolist(), label[item, seen].tolist(), strict=True)), n_classes)


def kinds(posterior: Posterior, thorough: bool = False) -> list[str]:
    return [doubt.kind for doubt in posterior.doubts(thorough)]


def handmade(given: list[int], n_classes: int = 2, **parts: Any) -> Posterior:
    """Annotators who gave so many labels each, on items of their own, and a result made by hand."""
    who = np.repeat(np.arange(len(given)), given)
    item = np.arange(len(who))
    data = annotations([(i, int(a), int(i % n_classes)) for i, a in zip(item, who, strict=True)], n_classes)
    shares = np.full((len(item), n_classes), 1 / n_classes)
    shares[0] = np.eye(n_classes)[0]  # all the same are a doubt of their own
    table = np.tile(0.8 * np.eye(n_classes) + 0.2 / n_classes, (len(given), 1, 1))
    point: dict[str, Any] = {
        "sites": {},
        "probabilities": shares,
        "table": table,
        "prevalence": np.full(n_classes, 1 / n_classes),
    }
    model = crowdppl.method("bayesian_dawid_skene")
    return Posterior(model, "handmade", "em", data, class_result(**(point | parts)))


def site(dims: tuple[str, ...], *shape: int, family: str = "point") -> SiteResult:
    """A site whose values are even shares along the last dimension."""
    value = np.full(shape, 1 / shape[-1])
    arrays = {
        "point": {"value": value},
        "dirichlet": {"concentration": value},
        "onehot": {"probability": value},
        "draws": {"draws": np.broadcast_to(value, (2, 3, *shape))},
    }
    return SiteResult("site", dims, family, arrays[family])
