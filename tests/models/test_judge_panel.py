"""The judge panel beside plain sums, with copies, people and known truths, and as auto takes it."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError

ENGINES: dict[str, Any] = {"vb": {}, "gibbs": {"chains": 2, "draws": 100, "warmup": 50}, "laplace": {}}


def panel_of(n_items: int, n_judges: int, share: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Labels, rows of item, annotator, label, whose errors (.25) are correlated by ``share``; and truths."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n_items)
    common, own = rng.random(n_items) < 0.25, rng.random((n_items, n_judges)) < 0.25
    wrong = np.where(rng.random((n_items, n_judges)) < share**0.5, common[:, None], own)
    item, judge = np.indices(wrong.shape).reshape(2, -1)
    label = np.where(wrong, 1 - truth[:, None], truth[:, None])[item, judge]
    names = np.array([f"m{n}" for n in range(n_judges)])
    return pd.DataFrame({"item": item, "annotator": names[judge], "label": label}), truth


def log_score(posterior: Any, truth: np.ndarray) -> float:
    p = posterior.probabilities().loc[np.arange(len(truth))].to_numpy()
    return float(-np.log(p[np.arange(len(truth)), truth]).mean())


def forecasts(posterior: Any) -> np.ndarray:
    """What the docstring's formulas give at the posterior's mean tables, item by item, in plain loops."""
    model, data = posterior.model, posterior.data
    judge, share = posterior.site("judge").to_numpy(), posterior.site("readings").to_numpy()
    levels, k = len(model.prior_accuracy), data.n_classes
    family = np.array(model.families)
    worth = 1 / np.bincount(family)[family]
    crowd = np.einsum("a,arl->rl", worth / worth.sum(), judge) ** model.sharpness
    crowd /= crowd.sum(1, keepdims=True)
    item, annotator, label = data.label_codes()
    out = np.empty((data.n_items, k))
    for i in range(data.n_items):
        mine = item == i
        n = worth[annotator[mine]].sum()
        effect = 1 + model.discount * max(n - 1, 0)
        reading = np.empty(levels * k)
        for r in range(levels * k):
            logs = [worth[a] * np.log(judge[a, r, x]) for a, x in zip(annotator[mine], label[mine], strict=True)]
            reading[r] = share[r] * np.exp(sum(logs) / effect)
        out[i] = reading / reading.sum() @ crowd
    return out


@pytest.mark.parametrize("families", [None, {"m0": "a", "m1": "a", "m2": "b"}])
def test_truths_are_told_by_discounted_labels_and_mean_tables(families: dict[str, str] | None) -> None:
    rows, _ = panel_of(60, 4, 0.3, 1)
    data = Annotations.from_frame(rows.sample(frac=0.9, random_state=1))
    posterior = crowdppl.fit("judge_panel", data, inference="vb", settings={"families": families}, seed=0)
    np.testing.assert_allclose(posterior.probabilities().to_numpy(), forecasts(posterior), atol=1e-6)


def test_known_truths_and_people_tell_of_their_own_items_alone() -> None:
    rows, truth = panel_of(80, 4, 0.3, 2)
    data = Annotations.from_frame(rows)
    plain = crowdppl.fit("judge_panel", data, inference="vb", seed=0)
    known = crowdppl.fit("judge_panel", data, inference="vb", seed=0, gold={0: int(truth[0])})
    moved = np.abs(known.probabilities() - plain.probabilities()).max(axis=1)
    assert known.probabilities().loc[0, truth[0]] == pytest.approx(1, abs=1e-12)
    assert moved.drop(0).max() < 0.02
    person = pd.DataFrame({"item": range(40), "annotator": "ann", "label": truth[:40]})
    both = Annotations.from_frame(pd.concat([rows, person]))
    told = crowdppl.fit("judge_panel", both, inference="vb", settings={"people": ["ann"]}, seed=0)
    labelled = told.probabilities().to_numpy()[np.arange(40), truth[:40]]
    assert labelled.mean() > plain.probabilities().to_numpy()[np.arange(40), truth[:40]].mean() + 0.1
    assert told.annotators().loc["ann", "accuracy"] > told.annotators()["accuracy"].drop("ann").max()


def test_a_copy_counts_for_nothing() -> None:
    rows, truth = panel_of(300, 4, 0.3, 3)
    copied = pd.concat([rows, *(rows[rows.annotator == "m0"].assign(annotator=f"again{n}") for n in range(2))])
    once, thrice = (
        crowdppl.fit("judge_panel", Annotations.from_frame(x), inference="vb", seed=0) for x in (rows, copied)
    )
    assert np.unique(thrice.model.families).size == 4
    np.testing.assert_allclose(thrice.probabilities(), once.probabilities(), atol=0.02)
    counted = {"families": {}}
    apart = crowdppl.fit("judge_panel", Annotations.from_frame(copied), inference="vb", settings=counted, seed=0)
    assert log_score(thrice, truth) < log_score(apart, truth)


def test_models_that_err_together_are_not_believed() -> None:
    rows, truth = panel_of(400, 6, 0.6, 4)
    data = Annotations.from_frame(rows)
    told, untold = crowdppl.fit("auto", data, models=True, seed=0), crowdppl.fit("auto", data, seed=0)
    independent = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    assert log_score(told, truth) < min(log_score(untold, truth), log_score(independent, truth))
    assert told.correction is not None and set(told.correction.weights) == {"judge_panel", "bayesian_dawid_skene"}
    assert not {doubt.kind for doubt in told.doubts()} & {"together", "copying", "colluding"}
    assert "models=True" in untold.summary() and "models=True" not in told.summary()


def test_auto_of_a_panel_keeps_its_weights_without_a_judge() -> None:
    rows, _ = panel_of(100, 5, 0.3, 5)
    told = crowdppl.fit("auto", Annotations.from_frame(rows), models=True, seed=0)
    fewer = told.without(["m0"])
    assert told.correction is not None and fewer.correction is not None
    assert fewer.correction.weights == told.correction.weights


def test_new_items_are_told_as_those_of_the_fit() -> None:
    rows, _ = panel_of(300, 5, 0.3, 8)
    data, later = (Annotations.from_frame(x) for x in (rows[rows.item < 200], rows[rows.item >= 200]))
    whole = crowdppl.fit("judge_panel", Annotations.from_frame(rows), inference="vb", seed=0).probabilities()
    posterior = crowdppl.fit("judge_panel", data, inference="vb", seed=0)
    predicted, updated = posterior.predict(later)[[0, 1]], posterior.update(later).probabilities()
    for found in (predicted, updated):
        assert np.abs(found - whole.loc[found.index]).to_numpy().mean() < 0.03


def test_people_are_no_copies_and_those_who_decline_say_nothing() -> None:
    rows, truth = panel_of(60, 4, 0.3, 9)
    people = pd.concat([pd.DataFrame({"item": range(60), "annotator": a, "label": truth}) for a in ("x", "y")])
    both = Annotations.from_frame(pd.concat([rows, people]))
    for given in (["x", "y"], pd.Series(["x", "y"]), np.array(["x", "y"])):
        posterior = crowdppl.fit("judge_panel", both, inference="vb", settings={"people": given}, seed=0)
        assert posterior.model.people == (False,) * 4 + (True,) * 2
        assert np.unique(posterior.model.families).size == 6
    assert len(posterior.panel().annotators()) == 4
    declined = rows.assign(label=rows["label"].astype(str))
    declined.loc[(declined["item"] == 0) & (declined["annotator"] != "m0"), "label"] = "?"
    data = Annotations.from_frame(declined, abstentions=["?"])
    mostly = crowdppl.fit("judge_panel", data, inference="vb", settings={"discount": 0.999}, seed=0)
    once = declined[declined["label"] != "?"]
    alone = crowdppl.fit("judge_panel", Annotations.from_frame(once), inference="vb", settings={"discount": 0.999})
    assert mostly.probabilities().loc[0].max() == pytest.approx(alone.probabilities().loc[0].max(), abs=0.02)


class Priced:
    """A model whose setting ``discount`` means something else."""

    discount = 0.5

    def model(self, data: Any) -> None:
        crowdppl.method("one_coin").model(data)


def test_a_setting_of_the_name_means_this_where_the_card_says_so() -> None:
    data = Annotations.from_frame(panel_of(40, 4, 0.3, 11)[0])
    plain = crowdppl.fit("one_coin", data, inference="vb", seed=0)
    priced = crowdppl.fit(Priced(), data, inference="vb", seed=0)
    np.testing.assert_allclose(priced.probabilities(), plain.probabilities(), atol=1e-8)


def test_a_new_judge_is_alone() -> None:
    rows, _ = panel_of(100, 4, 0.3, 10)
    posterior = crowdppl.fit("auto", Annotations.from_frame(rows[rows.item < 60]), models=True, seed=0)
    later = Annotations.from_frame(rows[rows.item >= 60].replace({"m3": "new"}))
    assert posterior.predict(later)[[0, 1]].to_numpy().sum() == pytest.approx(40)
    assert "new" in posterior.update(later).annotators().index


def test_engines_agree_on_truths() -> None:
    rows, _ = panel_of(200, 5, 0.3, 6)
    data = Annotations.from_frame(rows)
    found = {
        engine: crowdppl.fit("judge_panel", data, inference=engine, seed=0, **options).probabilities().to_numpy()
        for engine, options in ENGINES.items()
    }
    for one, other in itertools.combinations(found.values(), 2):
        assert np.abs(one - other).mean() < 0.06  # chains are short, and readings have several modes


def test_what_cannot_be_a_panel_is_refused() -> None:
    rows, _ = panel_of(40, 3, 0.3, 7)
    data = Annotations.from_frame(rows)
    with pytest.raises(MethodError, match="nobody"):
        crowdppl.fit("auto", data, models=["nobody"])
    with pytest.raises(MethodError, match="judge_panel"):
        crowdppl.fit("one_coin", data, models=True)
    with pytest.raises(MethodError, match="all annotators are people"):
        crowdppl.fit("judge_panel", data, settings={"people": ["m0", "m1", "m2"]})
    for odd in ("all", False, 3, ["m0", ["m1"]]):
        with pytest.raises(MethodError, match="models"):
            crowdppl.fit("auto", data, models=odd)  # type: ignore[arg-type]
    one = rows[rows.annotator == "m0"]
    with pytest.raises(DataError, match="copies"):
        crowdppl.fit("judge_panel", Annotations.from_frame(pd.concat([one, one.assign(annotator="again")])))
    with pytest.raises(MethodError, match="levels"):
        crowdppl.method("judge_panel", prior_accuracy=(0.9,))
    numbers = Annotations.from_frame(rows, kind="real")
    with pytest.raises(DataError, match="'real'"):
        crowdppl.fit("auto", numbers, models=True)
