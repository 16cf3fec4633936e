"""Rates by groups of items and annotators: oracles by counting, coverage, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.predict.answers import drawn_truths
from tests.benchmarks.test_by_group import RATES, covered, drawn

ABOUT, WHO = ["u", "v", "v", "u", None], {0: "p", 1: "p", 2: "q", 3: "q"}


def crowd(n: int = 200, known: bool = True, seed: int = 0) -> Annotations:
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    item, who = np.repeat(np.arange(n), 4), np.tile(np.arange(4), n)
    label = np.where(rng.random(4 * n) < 0.75, truth[item], 1 - truth[item])
    about = pd.DataFrame({"about": np.resize(ABOUT, n)}, index=range(n))
    people = pd.DataFrame({"who": list(WHO.values())}, index=list(WHO))
    gold = pd.Series(truth) if known else None
    columns: dict[str, Any] = {"item_covariates": about, "annotator_covariates": people}
    return Annotations.from_arrays(item, who, label, classes=[0, 1], gold=gold, **columns)


def fitted(**options: Any) -> crowdppl.Posterior:
    return crowdppl.fit("bayesian_dawid_skene", crowd(**options), inference="vb", seed=0)


def test_rates_of_known_truths_are_those_counted() -> None:
    """A label more in each cell moves a rate by .01 at most here, and the bootstrap's mean lies within .01."""
    posterior = fitted()
    rows = posterior.data.frame().assign(truth=lambda x: x["item"].map(dict(enumerate(posterior.data.gold_codes))))
    rows = rows.assign(about=np.resize(ABOUT, 200)[rows["item"]], who=rows["annotator"].map(WHO)).dropna()
    groups = rows.assign(wrong=rows["label"] != rows["truth"]).groupby(["about", "who"])
    found = posterior.by("about", annotators="who")
    table, right = found.errors(), groups["wrong"].mean()
    assert table.index.names == ["about", "who"] and (table["labels"] == groups.size()).all()
    np.testing.assert_allclose(table["error"], right, atol=0.02)
    n = groups.size().to_numpy()
    np.testing.assert_allclose(table["error_sd"], np.sqrt(right * (1 - right) / n), rtol=0.35)
    positive = rows[rows["truth"] == 1].groupby(["about", "who"])["label"].mean()
    np.testing.assert_allclose(found.opportunity()["true_positive"], positive, atol=0.02)
    np.testing.assert_allclose(found.parity()["positive"], groups["label"].mean(), atol=0.02)
    np.testing.assert_allclose(found.parity()["truth"], groups["truth"].mean(), atol=0.02)
    confusion = found.confusion()
    np.testing.assert_allclose(confusion.xs((1, 1), level=("truth", "label"))["mean"], positive, atol=0.02)
    np.testing.assert_allclose(confusion["mean"].groupby(["about", "who", "truth"]).sum(), 1)
    by_item, by_annotator = right.unstack("who"), right.unstack("about")
    apart = by_item["p"] - by_item["q"]
    assert by_annotator.shape == (2, 2)
    assert found.pairs()["excess"].loc[("u", "p")] == pytest.approx(apart["u"] - apart["v"], abs=0.03)


def test_unknown_truths_are_drawn_and_not_put_at_their_most_probable_class() -> None:
    posterior = fitted(known=False)
    draws = np.stack(list(drawn_truths(posterior, 400, 0)))
    np.testing.assert_allclose((draws == 1).mean(0), posterior.probabilities()[1], atol=0.12)
    code = (posterior.probabilities()[1] > 0.5).to_numpy(int)
    item, _, answer = posterior.data.label_codes()
    plugged, told = (answer != code[item]).mean(), posterior.by(annotators=dict.fromkeys(range(4), "all")).errors()
    assert (
        told["error"].loc["all"] > plugged + 0.02
        and told["error_low"].loc["all"] < 0.25 < told["error_high"].loc["all"]
    )


def test_corrected_probabilities_are_those_of_drawn_truths() -> None:
    posterior = crowdppl.fit("one_coin", crowd(known=False), inference="vb", seed=0, calibrate=True)
    p = posterior.result.probabilities
    draws = np.stack(list(drawn_truths(posterior, 2000, 0, p)))
    np.testing.assert_allclose((draws == 1).mean(0), p[:, 1], atol=0.06)
    assert posterior.by("about").errors().shape == (2, 14)


def test_decisions_take_the_place_of_labels() -> None:
    posterior = fitted()
    truth = pd.Series(posterior.data.gold_codes)
    wrong = truth.where(np.resize(ABOUT, 200) != "v", 1 - truth)
    table = posterior.by("about", decisions=wrong).errors()
    assert table["labels"].tolist() == [80, 80]
    np.testing.assert_allclose(table["error"], [0, 1], atol=0.02)
    assert table["error_low"].loc["v"] > 0.9 and table["error_high"].loc["u"] > 0


def test_the_bootstrap_takes_an_item_whole() -> None:
    """Labels of an item that are all right or wrong tell as much as one."""
    n = 300
    rng = np.random.default_rng(0)
    truth, label = np.zeros(n, int), (rng.random(n) < 0.3).astype(int)
    item = np.repeat(np.arange(n), 5)
    gold = pd.Series(truth)
    data = Annotations.from_arrays(item, np.tile(np.arange(5), n), label[item], classes=[0, 1], gold=gold)
    table = crowdppl.fit("one_coin", data, inference="em").by(dict.fromkeys(range(n), "all")).errors()
    assert table["error_sd"].iloc[0] == pytest.approx(np.sqrt(0.21 / n), rel=0.15)


def test_decisions_by_the_labels_of_another_group() -> None:
    posterior = fitted(known=False)
    table = posterior.by("about", annotators="who").changed()
    assert table.index.names == ["item", "who"] and set(table["labels"]) == {2}
    frame = posterior.data.frame()
    some = posterior.predict(frame[frame["annotator"].map(WHO) == "q"])
    own = table.xs("q", level="who")
    np.testing.assert_allclose(own["probability"], some.loc[own.index].max(axis=1), atol=1e-9)
    assert 0 < table["changes"].mean() < 1 and ((table["decision"] != table["now"]) == table["changes"]).all()


def test_calibration_of_each_group() -> None:
    posterior, truth = fitted(known=False), pd.Series(fitted().data.gold_codes)
    shifted = truth.where(np.resize(ABOUT, 200) != "v", 1 - truth)
    table = posterior.by("about").calibration(shifted)
    right = crowdppl.evaluate(posterior, shifted[np.resize(ABOUT, 200) == "v"], bootstrap=10)
    assert table["log_score"].loc["v"] == pytest.approx(right.log_score)
    assert table["overconfidence_low"].loc["v"] > 0.3 > table["overconfidence"].loc["u"]


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({}, MethodError, "needs an attribute"),
        ({"attribute": "sex"}, DataError, "no column 'sex'.*'about'"),
        ({"attribute": {999: "u"}}, DataError, "999"),
        ({"attribute": {0: 0.5, 1: 1.5}}, DataError, "floats"),
        ({"attribute": pd.DataFrame()}, DataError, "DataFrame"),
        ({"annotators": {9: "p"}}, DataError, "annotator 9"),
        ({"annotators": "who", "decisions": {0: 1}}, MethodError, "leave one"),
        ({"attribute": "about", "decisions": {0: "maybe"}}, DataError, "maybe"),
    ],
)
def test_what_names_no_groups_is_refused(options: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        fitted().by(**options)


def test_what_groups_cannot_tell_is_refused() -> None:
    found = fitted().by("about")
    for told, call in (
        ("two groups", found.pairs),
        ("annotators=", found.changed),
        ("none of the groups", lambda: found.parity(reference="w")),
        ("attribute of items", lambda: fitted().by(annotators="who").calibration({0: 1})),
    ):
        with pytest.raises(MethodError, match=told):
            call()
    three = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).by({36: "a", 37: "b"})
    with pytest.raises(MethodError, match="positive=1"):
        three.parity()
    assert three.parity(3)["items"].tolist() == [1, 1]
    numbers = crowdppl.fit("label_mean", crowdppl.datasets.example("real"), seed=0)
    with pytest.raises(MethodError, match="number"):
        numbers.by(annotators=dict.fromkeys(numbers.data.annotators, "all"))


def test_sets_and_sequences_are_grouped_by_what_holds_them() -> None:
    data = crowdppl.datasets.example("set")
    posterior = crowdppl.fit("bayesian_dawid_skene", data, inference="vb", seed=0)
    whole = list(dict.fromkeys(posterior.data.item_index.get_level_values(0)))
    table = posterior.by({item: "a" if n % 2 else "b" for n, item in enumerate(whole)}).errors()
    assert table["labels"].sum() == data.n_labels


@pytest.mark.slow
def test_intervals_cover_in_simulations() -> None:
    found = pd.DataFrame([covered(drawn(seed), "bayesian_dawid_skene") for seed in range(40)])
    assert (found[list(RATES)].mean() - 0.9).abs().max() < 0.08
