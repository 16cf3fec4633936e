"""The bias that "auto" assumes annotators to share: its size, what it does to probabilities, where it is said."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import crowdppl
from crowdppl.criticism.joint_errors import joint_errors
from crowdppl.evaluation.calibration import calibrated, shared_bias
from crowdppl.inference.result import Fit
from crowdppl.posterior import Posterior
from crowdppl.results.correction import corrected, softened
from tests.crowd import crowd

METHODS = ("hierarchical_dawid_skene", "one_coin")


@pytest.fixture(scope="module")
def members() -> dict[str, Fit]:
    data = crowd(24, 6, 3, 4)
    return {name: crowdppl.fit(name, data, inference="vb", seed=0, max_iterations=5) for name in METHODS}


@pytest.fixture(scope="module")
def posterior(members: dict[str, Fit]) -> Posterior:
    return Posterior.of(calibrated(members, members["one_coin"].data, biased=True))


def by_loops(fit: Fit) -> float:
    """Joint errors, pair of labels by pair of labels."""
    table, prevalence, rows = fit.result.table, fit.result.prevalence, fit.data.frame()
    agreed = expected = pairs = 0.0
    for _, labels in rows.groupby("item"):
        given = list(zip(fit.data.annotators.get_indexer(labels["annotator"]), labels["label"], strict=True))
        for one, other in combinations(given, 2):
            truth = prevalence.copy()
            for annotator, label in given:
                if annotator not in (one[0], other[0]):
                    truth *= table[annotator, :, label]
            both = (table[one[0]] * table[other[0]]).sum(1)
            expected += float((truth * both).sum() / truth.sum())
            agreed, pairs = agreed + (one[1] == other[1]), pairs + 1
    return (agreed - expected) / (pairs - expected)


def test_joint_errors_are_agreements_beyond_what_an_items_other_labels_predict(members: dict[str, Fit]) -> None:
    for fit in members.values():
        assert joint_errors(fit)[0] == pytest.approx(by_loops(fit), abs=1e-5)


def test_the_size_is_that_of_the_formula(members: dict[str, Fit], monkeypatch: pytest.MonkeyPatch) -> None:
    for errors in (-0.1, 0.0, 0.004, 0.2):
        monkeypatch.setattr("crowdppl.evaluation.calibration.joint_errors", lambda fit, r=errors: (r, 0.0))
        full = 1 - math.exp(-max(errors, 0) / 0.01)
        wanted = full * (0.5 + 0.6 * math.exp(-6 / 30)) * (2 / 3) ** 0.55
        assert math.log(shared_bias(members)) == pytest.approx(wanted)
    blended = crowdppl.method(
        "mixed_membership"
    )  # no labels independent given the truth to measure joint errors by
    assert shared_bias({"mixed_membership": replace(members["one_coin"], model=blended)}) == 1


def test_evidence_is_divided_and_the_most_probable_class_stays(posterior: Posterior) -> None:
    correction, p = posterior.correction, posterior.result.probabilities
    assert correction is not None and correction.temperature is not None and correction.temperature >= 1
    raw = {name: fit.result.probabilities for name, fit in posterior.members().items()}
    before = corrected(replace(correction, temperature=None), raw, posterior.data)
    np.testing.assert_allclose(p, softened(before, correction.temperature))
    odds = np.log(p[:, 0] / p[:, 1]) * correction.temperature
    np.testing.assert_allclose(odds, np.log(before[:, 0] / before[:, 1]), rtol=1e-6)
    np.testing.assert_array_equal(p.argmax(1), before.argmax(1))


def test_the_doubt_says_once_how_much_is_assumed_until_truths_are_known(posterior: Posterior) -> None:
    hot = replace(posterior, correction=replace(posterior.correction, temperature=1.5))
    (doubt,) = [doubt for doubt in hot.doubts() if doubt.kind == "bias"]
    assert doubt.figures["temperature"] == 1.5 and doubt.general and hot.summary().count(str(doubt)) == 1
    informed = replace(posterior, correction=replace(posterior.correction, temperature=None, gold=12))
    assert "bias" not in [doubt.kind for doubt in informed.doubts()]


@pytest.mark.slow
def test_independent_errors_leave_nothing_to_assume() -> None:
    """Joint errors of simulated Dawid-Skene are below those of any public set (.011), those with copies above."""
    model = crowdppl.method("hierarchical_dawid_skene")
    plain, copied = [], []
    for seed in range(3):
        one = crowdppl.simulate(
            crowdppl.method("bayesian_dawid_skene", prior_strength=10.0, prior_accuracy=0.65),
            crowdppl.random_design(600, 20, 5, classes=3, seed=seed),
            seed=seed,
        )
        plain.append(joint_errors(crowdppl.fit(model, one.data, inference="vb", seed=0))[0])
        rows = one.data.frame().sort_values(["item", "annotator"])
        rows["label"] = rows["label"].where(rows["item"] % 4 > 0, rows.groupby("item")["label"].transform("first"))
        data = crowdppl.Annotations.from_frame(rows, classes=range(3))
        copied.append(joint_errors(crowdppl.fit(model, data, inference="vb", seed=0))[0])
    assert max(plain) < 0.011 < min(copied), (plain, copied)
