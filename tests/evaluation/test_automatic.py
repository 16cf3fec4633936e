"""The method "auto": honest where labels err together, not too cautious where they do not, and no leak of gold."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl import fitting as automatic
from crowdppl.errors import MethodError
from crowdppl.evaluation import calibration
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.inference.predict.held_out import left_out
from crowdppl.inference.result import Correction, Fit
from crowdppl.posterior import Posterior
from crowdppl.primitives import class_blends
from crowdppl.results import correction
from crowdppl.simulation.crowd import Simulation
from tests.crowd import crowd

MEMBERS = (*automatic.ROWS, *automatic.COIN)


def made(name: str, n_items: int, labels: int, k: int, seed: int, **settings: Any) -> Simulation:
    design = crowdppl.random_design(n_items, 20, labels, classes=k, seed=seed)
    return crowdppl.simulate(crowdppl.method(name, **settings), design, seed=seed)


@pytest.fixture(scope="module")
def blurred() -> Simulation:
    return made("mixed_membership", 200, 6, 3, 1, prior_strength=20.0, prior_accuracy=0.85)


@pytest.fixture(scope="module")
def honest(blurred: Simulation) -> Posterior:
    return crowdppl.fit("auto", blurred.data, seed=0)


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return crowdppl.fit("auto", crowd(20, 5, 3, 4), max_iterations=2)


@pytest.mark.slow
def test_where_items_blur_it_is_more_honest_than_a_confusion_matrix(blurred: Simulation, honest: Posterior) -> None:
    plain = evaluate(crowdppl.fit("bayesian_dawid_skene", blurred.data, inference="vb"), blurred.truth)
    found = evaluate(honest, blurred.truth)
    assert found.log_score < plain.log_score - 0.1 and found.ece < plain.ece
    scores = honest.correction.scores
    assert scores["average"] >= max(scores[name] for name in MEMBERS) - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("k", "labels"), [(2, 5), (4, 20)])
def test_on_data_of_dawid_skene_it_is_near_the_exact_posterior(k: int, labels: int) -> None:
    gaps = []
    prior = {"prior_strength": 10.0, "prior_accuracy": 0.65, "prevalence_strength": 10.0}
    for seed in range(2):
        one = made("bayesian_dawid_skene", 600, labels, k, seed, **prior)
        model = crowdppl.method("bayesian_dawid_skene", **prior)
        exact = crowdppl.fit(model, one.data, inference="gibbs", chains=4, draws=200, warmup=50)
        found = crowdppl.fit("auto", one.data)
        gaps.append(evaluate(found, one.truth).log_score - evaluate(exact, one.truth).log_score)
    assert np.mean(gaps) < 0.03, gaps


@pytest.mark.slow
def test_both_probabilities_are_kept_and_it_says_which_it_shows(posterior: Posterior, tmp_path: Path) -> None:
    own = posterior.uncorrected()
    assert "corrected" in repr(posterior) and "corrected" not in repr(own) and own.uncorrected() is own
    assert "averaged" in posterior.summary()
    assert not np.allclose(own.probabilities(), posterior.probabilities())
    np.testing.assert_allclose(posterior.probabilities().sum(axis=1), 1)
    posterior.save(tmp_path)
    again = crowdppl.load(tmp_path)
    np.testing.assert_array_equal(again.probabilities(), posterior.probabilities())
    np.testing.assert_array_equal(again.uncorrected().probabilities(), own.probabilities())
    assert str(again.correction) == str(posterior.correction)
    assert list(again.members()) == list(posterior.members())
    pd.testing.assert_frame_equal(again.predict(posterior.data), posterior.predict(posterior.data))


@pytest.mark.slow
def test_what_a_correction_does_not_extend_to_is_refused(posterior: Posterior) -> None:
    for refused in (
        lambda: crowdppl.heldout_score("auto", posterior.data),
        lambda: crowdppl.heldout_score(posterior),
        lambda: posterior.leave_one_out(),
        lambda: crowdppl.fit("auto", posterior.data, inference="gibbs"),
    ):
        with pytest.raises(MethodError):
            refused()


def test_with_one_label_an_item_it_says_that_labels_cannot_tell() -> None:
    found = crowdppl.fit("auto", crowd(n_items=30, labels_each=1), max_iterations=3)
    assert found.correction is not None and found.correction.weights == {automatic.ROWS[0]: 1.0}
    assert "too few" in found.correction.notes[0] and "note: 1.00 annotators an item" in found.summary()


@pytest.mark.slow
def test_where_rows_of_many_classes_are_hopeless_it_does_without_them() -> None:
    many = made("one_coin", 100, 5, 30, 0, right=12, wrong=4)
    found = crowdppl.fit("auto", many.data, seed=0, max_iterations=20)
    assert found.correction is not None and set(found.correction.weights) == set(automatic.COIN)
    assert "30 classes" in found.summary()
    assert evaluate(found, many.truth).accuracy > 0.9
    assert not automatic._without_rows(made("one_coin", 100, 5, 20, 0).data)


@pytest.mark.slow
def test_known_truths_are_kept_and_make_the_others_more_honest(blurred: Simulation, honest: Posterior) -> None:
    gold = blurred.truth.sample(60, random_state=1)
    found = crowdppl.fit("auto", blurred.data, gold=gold)
    assert found.correction is not None and found.correction.gold == 60 and not found.correction.notes
    p = found.probabilities()
    assert (p.loc[gold.index].to_numpy()[np.arange(60), p.columns.get_indexer(gold)] == 1).all()
    rest = blurred.truth.drop(gold.index)
    assert evaluate(p, rest).log_score < evaluate(honest, rest).log_score + 0.02


def test_of_many_labels_some_decide_on_the_weights_and_the_result_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of the first two folds are bit for bit those that all five begin with, and they alone decide."""
    data = crowd(n_items=60, labels_each=5)
    found = {name: crowdppl.fit(name, data, inference="em") for name in ("one_coin", "class_coin")}
    every, _ = calibration.heldout_logs(found, data)
    monkeypatch.setattr(calibration, "LABELS", 120)
    some, _ = calibration.heldout_logs(found, data)
    for name, logs in every.items():
        assert logs.shape[1] == 300
        np.testing.assert_array_equal(some[name], logs[:, :120])
    part, rates = calibration.stacked(found, data), (0.0, *correction.RATES)
    for name, rate in part.rates.items():
        assert part.scores[name] == some[name][rates.index(rate)].mean()
    assert part.notes == ("weights and discounts are from 120 of 300 labels, left out in turn",)


@pytest.mark.slow
def test_predictions_of_many_states_are_averaged_over_fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    data, draws = crowd(20, 5, 3, 4), {}

    def noted(posterior: Fit, *given: Any, **how: Any) -> Any:
        draws[posterior.method] = how["draws"]
        return left_out(posterior, *given, **how)

    monkeypatch.setattr(calibration, "left_out", noted)
    monkeypatch.setattr(calibration, "PLACES", 30 * data.n_items * len(class_blends(data.n_classes)))
    calibration.heldout_logs(automatic.members(data, {"max_iterations": 2}), data)
    assert draws == {"hierarchical_mixed_membership": 30, "hierarchical_dawid_skene": 100, "one_coin": 100}


def test_known_truths_inform_the_map_alone() -> None:
    """The fits from which it starts are those without, bit for bit; of fewer than ten known truths, others."""
    even = Correction(np.empty((0, 0)), {"one_coin": 1.0}, {"one_coin": 0.0}, {})
    data, gold = crowd(n_items=60), {i: i % 3 for i in range(20)}
    plain = crowdppl.fit("one_coin", data, inference="em")
    found = calibration.calibrated({"one_coin": plain}, data.with_gold(gold), even)
    np.testing.assert_array_equal(found.uncorrected().result.probabilities, plain.result.probabilities)
    assert found.correction is not None and found.correction.gold == 20
    np.testing.assert_allclose(found.result.probabilities.max(1)[:20], 1, atol=1e-12)
    few = calibration.calibrated({"one_coin": plain}, data.with_gold({i: i % 3 for i in range(9)}), even)
    assert np.abs(few.uncorrected().result.probabilities - plain.result.probabilities).max() > 1e-3
    assert few.correction is not None and few.correction.gold == 0 and "too few" in few.correction.notes[0]


def test_more_labels_and_known_truths_stay_apart() -> None:
    """An update learns from labels alone, as an update of the methods, and the map tells of the truths."""
    data, gold = crowd(n_items=60), {i: i % 3 for i in range(20)}
    plain = crowdppl.fit("one_coin", data, inference="vb")
    found = crowdppl.fit("one_coin", data, inference="vb", calibrate=True, gold=gold)
    new = pd.DataFrame({"item": [3, 3, 99, 99], "annotator": [0, 1, 0, 2], "label": [0, 1, 2, 2]})
    later = found.update(new)
    own = plain.update(new).probabilities()
    np.testing.assert_allclose(later.uncorrected().probabilities(), own, atol=1e-6)
    assert (
        later.probabilities().loc[3, 0] == pytest.approx(1, abs=1e-12)
        and 0.4 < later.probabilities().loc[99, 2] < 1
    )


def test_a_named_method_is_corrected_when_asked_and_says_so(blurred: Simulation) -> None:
    plain = crowdppl.fit("bayesian_dawid_skene", blurred.data, inference="vb")
    found = crowdppl.fit("bayesian_dawid_skene", blurred.data, inference="vb", calibrate=True)
    assert plain.correction is None and found.correction is not None
    assert found.correction.weights == {"bayesian_dawid_skene": 1.0} and "correlated" in str(found.correction)
    np.testing.assert_array_equal(found.uncorrected().probabilities(), plain.probabilities())
    assert (found.probabilities().idxmax(axis=1) == plain.probabilities().idxmax(axis=1)).all()
    assert evaluate(found, blurred.truth).log_score < evaluate(plain, blurred.truth).log_score - 0.1


def test_a_named_method_is_mapped_to_known_truths(blurred: Simulation) -> None:
    gold = blurred.truth.sample(40, random_state=2)
    found = crowdppl.fit("one_coin", blurred.data, inference="em", calibrate=True, gold=gold)
    raw = crowdppl.fit("one_coin", blurred.data, inference="em", gold=gold)
    rest = blurred.truth.drop(gold.index)
    assert found.correction is not None and found.correction.gold == 40
    assert evaluate(found.probabilities(), rest).log_score < evaluate(raw, rest).log_score - 0.1


def test_where_classes_have_an_order_a_method_that_knows_it_joins() -> None:
    design = crowdppl.random_design(12, 4, 3, classes=3, seed=3, kind="ordinal")
    graded = crowdppl.simulate(crowdppl.method("ordinal"), design, seed=3)
    assert list(automatic.members(graded.data, {"max_iterations": 1})) == [*MEMBERS, "ordinal"]


@pytest.mark.slow
@pytest.mark.parametrize(("apart", "taken"), [(0.0, "mean of grades"), (2.0, "rater_facets")])
def test_of_several_criteria_it_takes_facets_or_the_mean(apart: float, taken: str) -> None:
    """Two criteria that may differ, as three raters may, by so many logits."""
    rng = np.random.default_rng(1)
    item, rater, criterion = (x.ravel() for x in np.indices((30, 3, 2)))
    place = rng.normal(0, 1.5, 30)[item] + apart * (criterion - 0.5) + apart * (rater - 1) / 2
    grade = (place[:, None] + rng.logistic(size=(len(item), 1)) > [-1.5, 0, 1.5]).sum(1)
    table = pd.DataFrame({"item": item, "annotator": rater, "label": grade, "criterion": criterion})
    data = Annotations.from_frame(table, kind="ordinal", classes=range(4), label_covariates=["criterion"])
    found = crowdppl.fit("auto", data, seed=0, max_iterations=15)
    scores = found.diagnostics()["scores"]
    assert max(scores, key=scores.get) == taken and found.method == "rater_facets"
    assert (found.model.criterion is None) == (taken == "mean of grades")
    assert f"left out: {taken} {scores[taken]:.3f}" in found.summary()
    plain = Annotations.from_frame(table.drop(columns="criterion"), kind="ordinal", classes=range(4))
    assert not plain.alphabet.kind.candidates_of(pd.DataFrame(), None, 4)  # classes are averaged as ever


@pytest.mark.slow
def test_of_sets_it_learns_how_frequent_each_class_is() -> None:
    """Classes are in 90 to 5 % of the sets of 150 items, each labelled by two of six annotators, right in 75 %."""
    rng = np.random.default_rng(0)
    truth = rng.random((150, 4)) < [0.9, 0.6, 0.2, 0.05]
    rows = []
    for item in range(150):
        for who in rng.choice(6, 2, replace=False):
            said = truth[item] ^ (rng.random(4) < 0.25)
            rows.append((f"i{item:03}", f"a{who}", [f"c{k}" for k in np.flatnonzero(said)]))
    data = Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]), kind="set")
    names = [f"i{item:03} | c{k}" for item in range(150) for k in range(4)]
    gold = pd.Series(np.array(["no", "yes"])[truth.ravel().astype(int)], index=names)
    members = automatic.members(data, {})
    assert list(members) == [*MEMBERS, "set_clusters"]
    without = evaluate(
        Posterior.of(calibration.calibrated({n: members[n] for n in MEMBERS}, data, biased=True)), gold
    )
    found = evaluate(crowdppl.fit("auto", data, seed=0), gold)
    assert found.log_score < without.log_score - 0.05 and found.accuracy > without.accuracy


def test_a_discount_within_a_standard_error_of_the_best_is_the_smallest() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(3, 400)) * 0.1
    owner = np.repeat(np.arange(100), 4)
    logs = np.array([-1.0, -0.9, -0.9])[:, None] + noise
    logs[2] += 1e-4 + (logs[1].mean() - logs[2].mean())  # ahead by a hair
    assert logs.mean(1).argmax() == 2 and calibration.first_of_best(logs, owner) == 1
    logs[0] += 0.2
    assert calibration.first_of_best(logs, owner) == 0


def test_labels_that_are_left_out_come_from_whole_folds_and_items() -> None:
    fold, item = np.tile([0, 0, 1, 2, -1], 50), np.repeat(np.arange(50), 5)
    wanted = {500: [100, 50, 50], 131: [100, 31, 0], 100: [100, 0, 0], 7: [6, 0, 0], 1: [2, 0, 0]}
    for n, sizes in wanted.items():
        found = calibration.first_folds(n, fold, item, seed=3)
        assert [int((found == number).sum()) for number in range(3)] == sizes
        assert (found[found >= 0] == fold[found >= 0]).all()
        assert set(np.bincount(item[found == 0])) <= {0, 2}
        np.testing.assert_array_equal(found, calibration.first_folds(n, fold, item, seed=3))
    # a fold that ends where the next begins with the item before: two ends, although the codes add up to the same
    assert calibration.first_folds(1, np.array([1, 0]), np.array([0, 1]), seed=3).tolist() == [-1, 0]
