"""Priors of confusion rows and of the prevalence."""

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
    np.add.at(counts, (annotator, data.gold_codes[item], answer), 1)
    np.testing.assert_allclose(found, counts / counts.sum(-1, keepdims=True), atol=1e-6)
    with pytest.raises(MethodError, match="at least 1; .*mode=True"):
        crowdppl.fit(Rows(False), data, inference="em")


def test_the_prevalence_prior_by_hand() -> None:
    """200 items of three classes have their 10, 50 of two their 4; 200 of four have 100 (50 / 100)^2."""
    found = [
        cp.default_prevalence(crowdppl.random_design(n, 3, 2, classes=k))
        for n, k in ((200, 3), (50, 2), (200, 4), (8, 8))
    ]
    assert found == [10, 4, 25, 1]
    data = crowdppl.anaesthetists()
    batch = data.as_block().subset(np.arange(9), 5.0)
    assert cp.default_prevalence(batch) == pytest.approx(cp.default_prevalence(data))


@pytest.mark.parametrize("method", ["bayesian_dawid_skene", "hierarchical_dawid_skene", "dependent_clusters"])
def test_anaesthetists_are_as_under_a_flat_prior(method: str) -> None:
    data = crowdppl.anaesthetists()
    settings: list[dict[str, float]] = [{}, {"prevalence_strength": 1.0}]
    own, flat = (crowdppl.fit(method, data, inference="vb", settings=x).probabilities() for x in settings)
    assert np.abs(own - flat).to_numpy().max() < 0.1


def test_rare_classes_stay_rare() -> None:
    """Of 200 items by five annotators, as accurate by default as by the flat prior, to .02 on the mean of four."""
    gains = []
    for seed in range(4):
        truth = np.random.default_rng(seed).choice(3, 200, p=[0.85, 0.1, 0.05])
        crowd = crowdppl.simulate_annotators(truth, {"hammer": 5}, seed=seed, classes=[0, 1, 2])
        settings: list[dict[str, float]] = [{}, {"prevalence_strength": 1.0}]
        fits = [crowdppl.fit("bayesian_dawid_skene", crowd.data, inference="vb", settings=x) for x in settings]
        own, flat = (float((x.labels()["label"] == crowd.truth).mean()) for x in fits)
        gains.append(own - flat)
    assert np.mean(gains) > -0.02
