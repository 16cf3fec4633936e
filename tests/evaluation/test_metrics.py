"""Scores against known truths, each computed by hand."""

import pickle
import warnings
from math import log
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.evaluation.evaluate import errors_of_noise, evaluate
from crowdppl.evaluation.metrics import (
    METRICS,
    Sample,
    Scored,
    brier,
    ece,
    log_score,
    metric,
    reliability_bins,
    scores_of,
)
from crowdppl.inference.result import OnDemand, TableDraws
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import Card
from tests.class_result import class_result

OF_ITEMS, OF_ANNOTATORS = ([n for n, x in METRICS.items() if x.unit == unit] for unit in ("item", "annotator"))
SCORES = OF_ITEMS + OF_ANNOTATORS
NINE = ["bluebirds", "rte", "dogs", "web", "face", "possent", "product", "music", "sentiment_polarity"]


def table(rows: dict[object, list[float]], classes: tuple[object, ...] = ("no", "yes")) -> pd.DataFrame:
    return pd.DataFrame.from_dict(rows, orient="index", columns=pd.Index(classes))


def test_four_items_by_hand() -> None:
    p = table({"a": [0.9, 0.1], "b": [0.2, 0.8], "c": [0.5, 0.5], "d": [0.7, 0.3]})
    found = evaluate(p, {"a": "no", "b": "yes", "c": "no", "d": "yes"})
    assert (found.n, found.unscored) == (4, 0)
    assert found.accuracy == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert found.log_score == pytest.approx(-(log(0.9) + log(0.8) + log(0.5) + log(0.3)) / 4)
    assert found.brier == pytest.approx(2 * (0.1**2 + 0.2**2 + 0.5**2 + 0.7**2) / 4)
    # Every item has a bin of its own (15 bins: 13th, 12th, 7th, 10th), so each gap counts as it is.
    assert found.ece == pytest.approx((0.1 + 0.2 + 0.0 + 0.7) / 4)


def test_a_bin_holds_its_upper_end() -> None:
    # .2 is the upper end of the third of 15 bins whatever the rounding of .2 * 15; .201 lies in the fourth.
    p = np.array([[0.2] * 5, [0.201, 0.19975, 0.19975, 0.19975, 0.19975]])
    wrong_and_right = np.array([1, 0])
    assert ece(Sample.of(p, wrong_and_right)) == pytest.approx((abs(0.2 - 0.2) + (1 - 0.201)) / 2)


def test_perfect_worthless_and_certainly_wrong() -> None:
    def found(p: np.ndarray) -> list[float]:
        return [float(score(Sample.of(p, np.array([0, 1, 2])))[0]) for score in (log_score, brier, ece)]

    assert found(np.eye(3)) == [0, 0, 0]
    assert found(np.full((3, 3), 1 / 3)) == pytest.approx([log(3), 2 / 3, 0])
    assert found(np.eye(3)[[1, 2, 0]]) == pytest.approx([-log(1e-10), 2, 1])


@pytest.mark.filterwarnings("error")
def test_better_probabilities_have_better_scores_in_the_direction_of_each() -> None:
    p, gold = some(300)
    good, bad = evaluate(p, gold), evaluate(p[[1, 2, 0]].set_axis(range(3), axis=1), gold)
    for name, score in METRICS.items():
        if score.unit == "item":
            assert score.direction * good[name] > score.direction * bad[name], name
        assert score.of.__doc__


def test_a_further_metric_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdppl.evaluation.metrics.METRICS", METRICS.copy())

    @metric(1)
    def truth_probability(sample: Sample) -> np.ndarray:
        """Mean probability of the truth."""
        return sample.mean(np.exp(-sample.scored.surprise))

    p, gold = some(50)
    found = evaluate(p, gold, bootstrap=20)
    assert (
        found.truth_probability == found["truth_probability"] == pytest.approx(p.to_numpy()[range(50), gold].mean())
    )
    value, low, high = found.intervals().loc["truth_probability"]
    assert low < value < high


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ({"z": "no"}, "'z'"),
        ({}, "gold"),
        ({"a": "maybe"}, "'maybe'"),
        (pd.Series(["no", "yes"], index=["a", "a"]), "'a'"),
    ],
)
def test_refused(gold: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate(table({"a": [0.9, 0.1]}), gold)


@pytest.mark.parametrize("row", [[3.0, 1.0], [np.nan, np.nan], [1.2, -0.2], [0.5, 0.4]])
def test_what_is_no_probability_is_refused(row: list[float]) -> None:
    counts = table({"a": [0.9, 0.1], "b": row})
    with pytest.raises(DataError, match="item 'b'"):
        evaluate(counts, {"a": "no", "b": "no"})
    assert evaluate(counts, {"a": "no"}).n == 1, "items that are not scored do not matter"


def test_an_evaluation_reads_like_a_mapping() -> None:
    found = evaluate(table({"a": [0.9, 0.1]}), {"a": "no"})
    assert dict(found)["accuracy"] == found["accuracy"] == 1
    assert list(pd.Series(dict(found)).index) == ["n", "unscored", *SCORES]
    assert "accuracy" in str(found)
    assert "evidence" not in str(found)
    with pytest.raises(KeyError):
        found["f1"]
    with pytest.raises(AttributeError, match="macro_f1"):
        _ = found.f1
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)


def some(n: int, k: int = 3, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Calibrated probabilities in tenths, so that many are tied, and truths."""
    stream = np.random.default_rng(seed)
    p = stream.multinomial(10, stream.dirichlet(np.ones(k), n)) / 10
    truth = (p.cumsum(1) < stream.random((n, 1))).sum(1)
    return pd.DataFrame(p), pd.Series(truth)


def test_weights_of_one_change_nothing_and_others_are_copies() -> None:
    p, gold = some(80)
    scored = Scored.of(p.to_numpy(), gold.to_numpy())
    stream = np.random.default_rng(1)
    weights = np.vstack([np.ones(80, np.int64), stream.multinomial(80, np.full(80, 1 / 80), size=20)])
    found = pd.DataFrame(scores_of("item", Sample(scored, weights)))
    for row, times in enumerate(weights):
        p, truth = (np.repeat(x, times, axis=0) for x in (scored.probabilities, scored.truth))
        copies = evaluate(pd.DataFrame(p), pd.Series(truth))
        expected = {name: value for name, value in dict(copies).items() if name in found}
        assert dict(found.loc[row]) == pytest.approx(expected, abs=1e-12)
    assert list(found) == OF_ITEMS


def test_intervals_of_means_are_as_wide_as_theory_says() -> None:
    p, gold = some(2000)
    found = evaluate(p, gold, level=0.9)
    table = found.intervals()
    assert list(table.columns) == ["value", "low", "high"]
    assert list(table.index) == SCORES
    assert dict(table["value"]) == pytest.approx({name: found[name] for name in SCORES}, nan_ok=True)
    p_truth = p.to_numpy()[np.arange(2000), gold]
    sd = np.log(np.clip(p_truth, 1e-10, None)).std() / np.sqrt(2000)
    assert table.loc["log_score", "high"] - table.loc["log_score", "low"] == pytest.approx(2 * 1.645 * sd, rel=0.1)
    assert (table["low"] <= table["value"])[OF_ITEMS].all()
    assert (table["value"] <= table["high"])[OF_ITEMS].all()


def test_intervals_depend_on_the_seed_and_not_on_the_order_of_items() -> None:
    p, gold = some(150)
    once = evaluate(p, gold, seed=3).intervals()
    again = evaluate(p, gold.sample(frac=1, random_state=1), seed=3).intervals()
    pd.testing.assert_frame_equal(once, again)
    assert not once.equals(evaluate(p, gold, seed=4).intervals())


@pytest.mark.slow
def test_intervals_hold_the_score_of_all_items() -> None:
    """Of samples from many items, 90 % +- 7."""
    p, gold = some(200_000, seed=5)
    names = ["log_score", "balanced_accuracy", "error_auroc", "aurc"]
    whole = pd.Series(dict(evaluate(p, gold)))[names]
    stream, held = np.random.default_rng(6), []
    for seed in range(150):
        sample = gold.iloc[stream.choice(len(gold), 200, replace=False)]
        found = evaluate(p.loc[sample.index], sample, bootstrap=200, level=0.9, seed=seed).intervals().loc[names]
        held.append((found["low"] <= whole) & (whole <= found["high"]))
    assert np.abs(np.mean(held, axis=0) - 0.9).max() <= 0.07


def test_the_interval_of_the_calibration_error_takes_its_noise_away() -> None:
    """Calibrated: it reaches 0, where percentiles never do. Tempered: it holds the error of all items."""
    p, gold = some(200_000, seed=7)
    tempered = (p**3).div((p**3).sum(axis=1), axis=0)
    whole = evaluate(tempered, gold).ece
    stream, at_zero, held = np.random.default_rng(8), [], []
    for seed in range(40):
        sample = gold.iloc[stream.choice(len(gold), 300, replace=False)]
        calibrated = evaluate(p.loc[sample.index], sample, bootstrap=200, seed=seed)
        table = calibrated.intervals()
        assert table.loc["ece", "low"] <= calibrated.ece <= table.loc["ece", "high"]
        at_zero.append(table.loc["ece", "low"] == 0)
        low, high = (
            evaluate(tempered.loc[sample.index], sample, bootstrap=200, seed=seed)
            .intervals()
            .loc["ece", ["low", "high"]]
        )
        assert low > 0
        held.append(low <= whole <= high)
    assert np.mean(at_zero) > 0.9
    assert np.mean(held) > 0.85


def test_errors_of_noise_are_those_of_truths_drawn_from_the_probabilities() -> None:
    p = some(40)[0].to_numpy().round(1)
    p /= p.sum(1, keepdims=True)  # some tie
    stream = np.random.default_rng(0)
    drawn = [ece(Sample.of(p, (stream.random((40, 1)) > p.cumsum(1)[:, :-1]).sum(1)))[0] for _ in range(3000)]
    found = errors_of_noise(p, 3000, seed=1)
    np.testing.assert_allclose(np.quantile(found, [0.1, 0.5, 0.9]), np.quantile(drawn, [0.1, 0.5, 0.9]), atol=0.007)
    np.testing.assert_array_equal(errors_of_noise(p[::-1], 50), errors_of_noise(p, 50))


def test_the_accuracy_of_few_labels_that_are_all_right_is_no_certainty() -> None:
    """Of samples of 25 items of which .97 are right in truth, nearly half have no error."""
    stream, held = np.random.default_rng(0), []
    for seed in range(60):
        gold = pd.Series((stream.random(25) > 0.97).astype(int))
        found = evaluate(pd.DataFrame({0: [0.9] * 25, 1: [0.1] * 25}), gold, bootstrap=200, seed=seed).intervals()
        low, high = found.loc["accuracy", ["low", "high"]]
        held.append(low <= 0.97 <= high)
        if (gold == 0).all():
            assert (low, high) == (pytest.approx(binomtest(25, 25).proportion_ci().low), 1)
    assert np.mean(held) > 0.9
    wrong = evaluate(pd.DataFrame({0: [0.9] * 25, 1: [0.1] * 25}), pd.Series([1] * 25), level=0.9).intervals()
    assert wrong.loc["accuracy", "high"] == pytest.approx(binomtest(0, 25).proportion_ci(0.9).high)


@pytest.mark.filterwarnings("error")
def test_scores_that_do_not_exist_have_no_interval() -> None:
    found = evaluate(table({"a": [0.9, 0.1], "b": [0.8, 0.2]}), {"a": "no", "b": "no"}).intervals()
    for name in ("mcc", "error_auroc", "annotator_spearman", "annotator_coverage"):
        assert found.loc[name].isna().all()
    assert found.loc["accuracy"].tolist() == pytest.approx([1, 0.025**0.5, 1])
    # One error among three: some resamples have none, and are left out.
    some_lack = evaluate(table({"a": [0.9, 0.1], "b": [0.8, 0.2], "c": [0.3, 0.7]}), dict.fromkeys("abc", "no"))
    assert some_lack.intervals().loc["error_auroc"].tolist() == [1, 1, 1]


class Handmade:
    card: ClassVar[Card] = Card("Handmade", "nobody")

    def model(self, data: Any) -> None: ...


def posterior(data: Annotations, tables: np.ndarray, drawn: bool) -> Posterior:
    """A made-up result: draws of confusions (n, A, K, L), even prevalence, and even probabilities."""
    k = data.n_classes
    share = np.full((len(tables), k), 1 / k)
    draws = OnDemand.of(TableDraws(tables, share)) if drawn else None
    p = np.full((data.n_items, k), 1 / k)
    found = class_result({}, p, tables.mean(0), share[0], draws=draws)
    return Posterior(Handmade(), "handmade", "gibbs", data, found)


def crowd(right: list[int], abstained: int = 0) -> tuple[Annotations, pd.Series]:
    """Annotators of 20 items of which they name so many rightly; the others have no truth in gold."""
    rows = []
    for annotator, n in enumerate(right):
        for item in range(20):
            label = "yes" if item < n else "unsure" if item < n + abstained else "no"
            rows.append((item, annotator, label))
    items, annotators, labels = (np.array(column) for column in zip(*rows, strict=True))
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        data = Annotations.from_arrays(items, annotators, labels, classes=["no", "yes"], abstentions=["unsure"])
    return data, pd.Series("yes", index=range(20))


def coins(accuracy: np.ndarray, answers: int = 3) -> np.ndarray:
    """Confusions (n, A, 2, answers) of annotators with accuracies (n, A)."""
    tables = np.zeros((*accuracy.shape, 2, answers))
    tables[..., 0, 0] = tables[..., 1, 1] = accuracy
    tables[..., 0, 1] = tables[..., 1, 0] = 1 - accuracy
    return tables


def test_annotators_are_compared_with_gold() -> None:
    data, gold = crowd([17, 16, 10, 12], abstained=1)
    draws = np.array([0.9, 0.7, 0.5, 0.5]) + np.linspace(-0.05, 0.05, 101)[:, None]
    found = evaluate(posterior(data, coins(draws), True), gold, level=0.9)
    assert found.accuracy == found["accuracy"] and "annotators" not in vars(found.evidence)
    table = found.annotators
    assert table["on_gold"].tolist() == [19, 19, 19, 19]
    assert table["gold_accuracy"].tolist() == pytest.approx([17 / 19, 16 / 19, 10 / 19, 12 / 19])
    assert table["accuracy"].tolist() == pytest.approx([0.9, 0.7, 0.5, 0.5])
    assert table["low"].tolist() == pytest.approx([0.855, 0.655, 0.455, 0.455])
    assert table["held"].tolist() == [1, 0, 1, 0]
    assert found.annotator_coverage == 0.5
    # Ranks 4 3 1.5 1.5 against 4 3 1 2.
    assert found.annotator_spearman == pytest.approx(4.5 / np.sqrt(4.5 * 5))
    ends = found.intervals().loc["annotator_coverage"]
    assert (ends["low"], ends["high"]) == (0, 1)


def test_without_draws_annotators_have_ranks_alone() -> None:
    data, gold = crowd([18, 16, 10])
    found = evaluate(posterior(data, coins(np.array([[0.6, 0.7, 0.5]])), False), gold)
    assert found.annotator_spearman == pytest.approx(0.5)
    assert np.isnan(found.annotator_coverage)
    table = found.intervals()
    assert table.loc["annotator_spearman", "low"] == -1
    assert table.loc["annotator_coverage"].isna().all()
    assert evaluate(pd.DataFrame({"no": [0.2], "yes": [0.8]}), {0: "yes"}).annotators is None


def test_vote_shares_on_real_data(real_data: Path) -> None:
    """The means over nine sets that were measured independently; ECE there counts bins in another way."""
    rows = []
    for name in NINE:
        answers = pd.read_csv(real_data / name / "answers.csv").drop_duplicates()
        votes = pd.crosstab(answers["item"], answers["label"])
        gold = pd.read_csv(real_data / name / "truth.csv").set_index("item")["label"]
        with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
            found = evaluate(votes.div(votes.sum(axis=1), axis=0), gold)
        rows.append([found.accuracy, found.log_score, found.brier, found.ece])
    mean = np.mean(rows, axis=0)
    np.testing.assert_allclose(mean[:3], [0.807, 1.161, 0.310], atol=6e-4)
    assert mean[3] == pytest.approx(0.123, abs=0.006)


def test_bins_by_hand() -> None:
    p = np.array([[0.79, 0.21], [0.77, 0.23], [0.5, 0.5], [0.1, 0.9]])
    found = reliability_bins(p, np.array([0, 1, 0, 1]), bins=5)
    assert found["n"].tolist() == [0, 0, 1, 2, 1]
    assert found["confidence"].tolist() == pytest.approx([np.nan, np.nan, 0.5, 0.78, 0.9], nan_ok=True)
    assert found["accuracy"].tolist() == pytest.approx([np.nan, np.nan, 0.5, 0.5, 1], nan_ok=True)
