"""Priors of confusion rows."""

from __future__ import annotations

import numpy as np
import pyro
import pyro.distributions as dist
import pytest

import crowdppl
import crowdppl.primitives as cp
from crowdppl.errors import MethodError


class Rows:
    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def model(self, data: cp.Block) -> None:
        log_p = cp.prevalence(data)
        with cp.plates.annotators(data):
            prior = cp.confusion_prior(data, 3.0, 0.8, mode=self.mode)
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        with cp.plates.items(data):
            cp.annotate(data, confusion.log(), cp.truth(data, log_p))


def test_the_mode_under_em_has_the_pseudo_counts() -> None:
    crowd = crowdppl.simulate_annotators([0, 1] * 20, {"hammer": 3}, seed=0)
    data = crowd.data.with_gold(crowd.truth)
    found = crowdppl.fit(Rows(True), data, inference="em", seed=0).result.sites["confusion"].mean
    counts = np.tile(3.0 * np.array([[0.8, 0.2], [0.2, 0.8]]), (3, 1, 1))
    item, annotator, answer = data.label_codes()
    assert data.gold_codes is not None
    np.add.at(counts, (annotator, data.gold_codes[item], answer), 1)
    np.testing.assert_allclose(found, counts / counts.sum(-1, keepdims=True), atol=1e-6)
    with pytest.raises(MethodError, match="at least 1"):
        crowdppl.fit(Rows(False), data, inference="em")
