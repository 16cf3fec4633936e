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
from crowdppl.results.correction import corrected, known_shares, softened_to
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
    for errors, error in ((-0.1, 0.0), (0.0, 0.0), (0.004, 0.0), (0.2, 0.0), (0.05, 0.08), (0.05, 0.12)):
        monkeypatch.setattr("crowdppl.evaluation.calibration.joint_errors", lambda fit, r=(errors, error): r)
        full = 1 - math.exp(-max(errors - error / 2, 0) / 0.01)
        wanted = full * (0.5 + 0.6 * math.exp(-6 / 30)) * (2 / 3) ** 0.7
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
    assert correction.shares is not None
    np.testing.assert_allclose(correction.shares, known_shares(before))
    np.testing.assert_allclose(p, softened_to(correction.shares, before, correction.temperature))
    np.testing.assert_array_equal(p.argmax(1), before.argmax(1))


def test_without_evidence_rare_classes_stay_rare_and_nearly_even_ones_are_even() -> None:
    rare, even = np.array([0.98, 0.02]), np.array([0.55, 0.45])
    for mean, least, most in ((rare, 0.02, 0.05), (even, 0.49, 0.5)):
        shares = known_shares(np.tile(mean, (4, 1)))
        assert least <= shares.min() <= most and shares.sum() == pytest.approx(1)
        p = np.array([[0.999, 0.001], [0.6, 0.4], [0.3, 0.7]])
        found = softened_to(shares, p, 2.0)
        odds, plain = np.log(found[:, 0] / found[:, 1]), np.log(p[:, 0] / p[:, 1]) / 2
        np.testing.assert_allclose(odds[:2], plain[:2] + np.log(shares[0] / shares[1]) / 2)
        np.testing.assert_array_equal(found.argmax(1), p.argmax(1))
        np.testing.assert_allclose(softened_to(shares, p, 1.0), p)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.02, 0.05])
def test_auto_finds_about_as_many_of_a_rare_class_as_there_are(share: float) -> None:
    stream = np.random.default_rng(3)
    true = stream.random(1000) < share
    labels = np.where(true[:, None], stream.random((1000, 3)) < 0.9, stream.random((1000, 3)) >= 0.99).astype(int)
    p = crowdppl.fit("auto", crowdppl.Annotations.from_matrix(labels), seed=0).probabilities()[1].to_numpy()
    assert 1 / 2.2 < p.mean() / true.mean() < 2.2
    assert -np.log(np.where(true, p, 1 - p)).mean() < 0.03  # .168 when softened to even odds


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
