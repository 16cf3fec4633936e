"""Truths that are numbers and all the same, or nearly: sd is never NaN, separation is a share or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError

METHODS = {
    "label_mean": "real",
    "gain_annotators": "real",
    "gaussian_annotators": "real",
    "poisson_annotators": "count",
    "von_mises_annotators": "angle",
}
LABELS = {
    "equal": np.full((12, 3), 7.0),
    "nearly equal": 7 + np.arange(36.0).reshape(12, 3) * 1e-13,
    "large and equal": np.full((12, 3), 1e8 + 1),
}


def data_of(labels: np.ndarray, kind: str, **options: Any) -> Annotations:
    labels = labels.round() if kind == "count" else labels % 360 if kind == "angle" else labels
    return Annotations.from_arrays(
        np.repeat(np.arange(12), 3), ["a", "b", "c"] * 12, labels.ravel(), kind=kind, **options
    )


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs"])
@pytest.mark.parametrize("method", METHODS)
def test_sd_is_a_number_and_separation_a_share(method: str, engine: str) -> None:
    quick: Any = {"chains": 2, "draws": 20, "warmup": 10} if engine == "gibbs" else {"max_iterations": 50}
    kind = METHODS[method]
    for what, labels in LABELS.items():
        for gold in (None, dict.fromkeys(range(12), 7.0)):
            try:
                posterior = crowdppl.fit(
                    method, data_of(labels, kind, gold=gold), inference=engine, seed=0, **quick
                )
            except MethodError:
                continue
            sd = posterior.truth()["sd"].to_numpy()
            assert (sd >= 0).all(), (what, gold)
            try:
                assert 0 <= posterior.separation() <= 1, (what, gold)
            except MethodError as error:
                assert "known and the same" in str(error) and gold is not None
