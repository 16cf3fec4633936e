"""What corrected probabilities know of themselves: entropies, known truths, what was counted, what is warned of."""

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import fitting as automatic
from crowdppl.data.annotations import Annotations
from crowdppl.data.split import keep
from crowdppl.errors import ConvergenceWarning
from crowdppl.evaluation import calibration
from crowdppl.inference.predict.predictive import refit
from crowdppl.inference.predict.update import predict
from crowdppl.inference.result import Fit, OnDemand, TruthSpread
from crowdppl.posterior import Posterior
from crowdppl.results.correction import Correction, corrected, design_effect, truncated_evidence
from tests.crowd import annotations, crowd
from tests.three_items import posterior, result

MEMBERS = (*automatic.ROWS, *automatic.COIN)
QUICK: dict[str, Any] = {"max_iterations": 2}


def by_hand(rate: float) -> Posterior:
    draws = result(spread=OnDemand.of(TruthSpread(np.full((3, 2), 0.1), np.full((3, 2), 0.5))))
    made = Correction(np.full((3, 2), 0.5), {"m": 1.0}, {"m": rate}, {})
    return replace(posterior(draws), correction=made)


def test_corrected_probabilities_have_their_own_entropy_and_no_spread() -> None:
    found = by_hand(0.3)
    table = found.entropy()
    np.testing.assert_array_equal(table["total"], found.labels()["entropy"])
    assert table[["aleatoric", "epistemic"]].isna().all(axis=None)
    assert found.probabilities(sd=True).isna().all(axis=None)
    own = found.uncorrected()
    assert (own.entropy()["total"] == 0.5).all() and (own.probabilities(sd=True) == 0.1).all(axis=None)


def without_first(data: Annotations) -> Annotations:
    return keep(data, (data.frame()["annotator"] != 0).to_numpy())


def test_without_some_annotators_a_corrected_method_is_corrected_anew() -> None:
    data = crowd(24, 5, 3, 4)
    how: dict[str, Any] = {"inference": "em", "calibrate": True, "tolerance": 1e-8}
    found = crowdppl.fit("one_coin", data, **how)
    left, anew = found.without([0]), crowdppl.fit("one_coin", without_first(data), **how)
    assert left.correction is not None and anew.correction is not None
    assert left.correction.rates == anew.correction.rates and left.data.n_labels < data.n_labels
    np.testing.assert_allclose(left.probabilities(), anew.probabilities(), atol=1e-3)


@pytest.mark.slow
def test_without_some_annotators_auto_is_auto_on_the_other_labels() -> None:
    """With known truths nothing starts from the old fit, so that it is the same bit for bit."""
    data = crowd(20, 5, 3, 4).with_gold({0: 0, 3: 1})
    found = crowdppl.fit("auto", data, **QUICK).without([0])
    anew = crowdppl.fit("auto", without_first(data), **QUICK)
    assert found.correction is not None and anew.correction is not None
    assert set(found.correction.scores) == {*MEMBERS, "average"}
    np.testing.assert_array_equal(found.probabilities(), anew.probabilities())


@pytest.mark.slow
def test_all_that_were_averaged_start_from_their_old_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """And features have no part in it, as both results say."""
    data = replace(crowd(20, 5, 3, 4), features=np.zeros((20, 2)))
    found, started = crowdppl.fit("auto", data, **QUICK), []

    def spy(member: Fit, data: Annotations, *more: Any, **how: Any) -> Fit:
        if not more and not how:  # not a fold
            started.append(member)
        return refit(member, data, *more, **how)

    monkeypatch.setattr(calibration, "refit", spy)
    left = found.without([0])
    assert found.correction is not None and left.correction is not None and len(found.correction.weights) > 1
    assert set(left.correction.scores) == {*MEMBERS, "average"}
    assert automatic.FEATURES in found.correction.notes and automatic.FEATURES in left.correction.notes
    want = found.members()
    assert {fit.method for fit in started} == set(want)
    for fit in started:
        np.testing.assert_array_equal(fit.result.probabilities, want[fit.method].result.probabilities)


def test_known_truths_stay_certain_and_lost_evidence_is_said() -> None:
    labels = [(i, a, 0) for i in range(2) for a in range(400)]
    data = annotations(labels, 2).with_gold({0: 0})
    sure: Any = {"m": SimpleNamespace(result=SimpleNamespace(probabilities=np.array([[1.0, 0.0], [1.0, 0.0]])))}
    full = Correction(np.empty((0, 0)), {"m": 1.0}, {"m": 1.0}, {})
    mixed = corrected(full, {"m": sure["m"].result.probabilities}, data)
    np.testing.assert_array_equal(mixed[0], [1, 0])
    assert 0.8 < mixed[1, 0] < 0.9  # 690 nats, of 400 labels that count as one
    (note,) = calibration._truncation_notes(sure, full, data)
    assert note.startswith("1 of 2 items have more evidence")
    assert list(calibration._truncation_notes(sure, replace(full, rates={"m": 0.0}), data)) == []
    assert not truncated_evidence(np.array([[1.0, 0.0]]), np.array([10]), 1.0).any()  # 69 nats are as good as any


@pytest.mark.parametrize("method", ["auto", "one_coin"])
def test_where_one_annotator_repeats_himself_nothing_is_left_out(method: str) -> None:
    data = annotations([(i, 0, i % 2) for i in range(12) for _ in range(2)], 2)
    more: dict[str, Any] = {} if method == "auto" else {"calibrate": True}
    found = crowdppl.fit(method, data, inference="vb", **more, **QUICK)
    assert found.correction is not None and "1.00 annotators an item" in found.correction.notes[0]


@pytest.mark.slow
def test_auto_warns_of_each_method_that_did_not_settle_by_name_and_not_of_its_folds() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        crowdppl.fit("auto", crowd(20, 5, 3, 4), gold={0: 0}, **QUICK)
    said = [str(one.message) for one in caught if one.category is ConvergenceWarning]
    assert len(said) <= 2 * len(MEMBERS) and len(set(said)) == len(said)
    for name in MEMBERS:
        assert any(text.startswith(f"{name}: vb did not converge after 2") for text in said)
        assert name not in MEMBERS[:1] or any("with the known truths" in text for text in said)


def test_what_is_found_in_the_labels_is_found_anew_without_those_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def spy(member: Fit, data: Annotations, model: Any = None, **how: Any) -> Fit:
        given.append(model)
        return refit(member, data, model, **how)

    monkeypatch.setattr(calibration, "refit", spy)
    crowdppl.fit("dependent_clusters", crowd(20, 5, 3, 4), inference="vb", calibrate=True, **QUICK)
    assert len(given) == calibration.FOLDS and all(model.groups is None for model in given)


def test_few_known_truths_leave_the_doubt_of_a_shared_bias() -> None:
    found = crowdppl.fit("one_coin", crowd(20, 5, 3, 4), inference="em", calibrate=True, gold={0: 0}, **QUICK)
    assert found.correction is not None and found.correction.temperature is None
    (note,) = found.correction.notes
    assert "1 known truths are too few" in note
    (doubt,) = [doubt for doubt in found.doubts() if doubt.kind == "bias"]
    assert doubt.figures["temperature"] == 1 and found.summary().count(str(doubt)) == 1


def test_a_discount_extends_to_new_items_and_what_changed_nothing_is_no_correction() -> None:
    data = crowd(60, 6, 3, 5)
    own = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    for rate in (0.5, 0.0):
        done = Correction(own.result.probabilities, {own.method: 1.0}, {own.method: rate}, {})
        found = replace(own, correction=done)
        want = design_effect(predict(own, data, as_fitted=rate > 0), data.votes().sum(1), rate)
        np.testing.assert_allclose(found.predict(data), want, atol=1e-12)
    assert found.correction is not None and found.correction.leaves_all
    again = found.update(data).correction
    assert again is not None and again.leaves_all
    pd.testing.assert_frame_equal(found.leave_one_out().values, own.leave_one_out().values)
